"""Guards: JSONPath queries that hold when they select anything (docs/reference/flows.md#guards).

Paths are trees of jsonpath-ng (decision D4). The language of guards differs from that library's in what its parts
select, above all in filters, which test the value itself and not its children. So the grammar is our own, and so are
the parts; the library gives the tree, its root and the way back to it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final

from jsonpath_ng.jsonpath import DatumInContext, JSONPath, Root, This
from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, VisitError
from msgspec import Struct

from statewright.flows.guard_values import (
    ARGUMENT_COUNTS,
    COMPARISONS,
    FUNCTIONS,
    MAX_SELECTED,
    budget,
    get_element,
    get_member,
    iter_children,
    iter_descendants,
    spend,
)
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue

MAX_CHARS: Final = 4096
MAX_DEPTH: Final = 32

_GRAMMAR: Final = r"""
    guard: "$" part*
    ?part: "." IDENT -> member
         | "." IDENT call -> function
         | "." "*" -> every
         | "[" list "]" -> items
         | ".." IDENT -> deep_member
         | ".." IDENT call -> deep_function
         | ".." "*" -> deep_every
         | ".." "[" list "]" -> deep_items
    list: item ("," item)*
    ?item: STRING -> name
         | INT -> index
         | slice
         | "*" -> every
         | FILTER conjunction ")" -> filter
         | subpath -> lookup
         | IDENT call -> function
    slice: start? ":" stop? (":" step?)?
    start: INT
    stop: INT
    step: INT
    call: "(" [argument ("," argument)*] ")"
    ?argument: subpath | json
    subpath: (ROOT | CURRENT) part*
    conjunction: disjunction (AND disjunction)*
    disjunction: unary (OR unary)*
    ?unary: NOT+ term -> negation
          | term
    ?term: "(" conjunction ")" -> brackets
         | operand
         | operand OPERATOR operand -> comparison
    operand: subpath | json
    ?json: STRING -> constant
         | (INT | NUMBER) -> constant
         | "true" -> true
         | "false" -> false
         | "null" -> null
         | "[" [json ("," json)*] "]" -> array
         | "{" [pair ("," pair)*] "}" -> object
    pair: STRING ":" json

    ROOT: "$"
    CURRENT: "@"
    FILTER: /\?\s*\(/
    AND: "and" | "&&"
    OR: "or" | "||"
    NOT.2: "not" | /!(?!=)/
    OPERATOR: "==" | "=" | "!=" | "<=" | "<" | ">=" | ">"
    STRING: /"(?:[^"\\]|\\.)*"/ | /'(?:[^'\\]|\\.)*'/
    NUMBER.2: /-?[0-9]+(\.[0-9]+([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)/
    INT: /-?[0-9]+/
    IDENT: /[A-Za-z_][A-Za-z0-9_]*/
    %ignore /\s+/
"""

Predicate = Callable[[DatumInContext], bool]


class MalformedGuard(ValueError):
    """A text that is no guard; the message says why."""


class Guard(Struct, frozen=True):
    """A guard, ready to be asked."""

    path: JSONPath
    mixes_operators: bool
    """Whether ``and`` and ``or`` meet without brackets, where a reader may take their order for another."""

    def holds(self, value: JsonValue, limit: int = MAX_SELECTED) -> bool:
        """Whether anything is selected. Raises :class:`GuardTooBroad` when it looks at more than ``limit`` values."""
        token = budget.set([limit])
        try:
            return bool(self.path.find(value))
        finally:
            budget.reset(token)


@lru_cache(maxsize=4096)
def parse_guard(text: str) -> Guard:
    """A guard from its text. Raises :class:`MalformedGuard`."""
    if len(text) > MAX_CHARS:
        raise MalformedGuard(f"it has more than {MAX_CHARS} characters")
    if _count_open(text) > MAX_DEPTH:
        raise MalformedGuard(f"it is nested more than {MAX_DEPTH} deep")
    builder = _PathBuilder()
    try:
        path: JSONPath = builder.transform(_PARSER.parse(text))
    except UnexpectedInput as unexpected:
        column = getattr(unexpected, "column", -1)
        place = f"character {column}" if isinstance(column, int) and column > 0 else "the end"
        raise MalformedGuard(f"unexpected text at {place}") from unexpected
    except VisitError as failed:
        raise MalformedGuard(str(failed.orig_exc)) from failed
    return Guard(path, builder.mixes_operators)


class _Part(JSONPath):
    """A part of a path, which selects values of the one it is given."""

    def __init__(self, select: Callable[[DatumInContext], Iterable[JsonValue]]) -> None:
        self._select = select

    def find(self, data: Any) -> list[DatumInContext]:
        """The selected values, each in the context of the given one."""
        parent = DatumInContext.wrap(data)
        return [DatumInContext(value, path=This(), context=parent) for value in spend(self._select(parent))]


class _Chain(JSONPath):
    """One part after the other. The library's own ``Child`` recurses for every part, and guards have up to 2,000."""

    def __init__(self, parts: Sequence[JSONPath]) -> None:
        self._parts = parts

    def find(self, data: Any) -> list[DatumInContext]:
        """What the last part selects."""
        found = [DatumInContext.wrap(data)]
        for part in self._parts:
            found = [each for datum in found for each in part.find(datum)]
        return found


class _Filter(JSONPath):
    """Selects the value itself, in its own context, if the expression holds for it."""

    def __init__(self, holds: Predicate) -> None:
        self._holds = holds

    def find(self, data: Any) -> list[DatumInContext]:
        """The value, or nothing."""
        wrapped = DatumInContext.wrap(data)
        return [wrapped] if self._holds(wrapped) else []


class _Union(JSONPath):
    """What each of several parts selects, in their order."""

    def __init__(self, parts: Sequence[JSONPath]) -> None:
        self._parts = parts

    def find(self, data: Any) -> list[DatumInContext]:
        """The selected values."""
        return [found for part in self._parts for found in part.find(data)]


@v_args(inline=True)
class _PathBuilder(Transformer[Token, JSONPath]):
    """Makes the path of lark's tree."""

    def __init__(self) -> None:
        super().__init__()
        self.mixes_operators = False

    def guard(self, *parts: JSONPath) -> JSONPath:
        return _chain(Root(), parts)

    def subpath(self, first: Token, *parts: JSONPath) -> JSONPath:
        return _chain(Root() if first == "$" else This(), parts)

    def member(self, name: Token) -> JSONPath:
        return _select_member(str(name))

    def name(self, text: Token) -> JSONPath:
        return _select_member(_read_string(text))

    def index(self, number: Token) -> JSONPath:
        return _select_index(_read_int(number))

    def every(self) -> JSONPath:
        return _Part(lambda datum: iter_children(datum.value))

    def start(self, number: Token) -> tuple[str, int]:
        return "start", _read_int(number)

    def stop(self, number: Token) -> tuple[str, int]:
        return "stop", _read_int(number)

    def step(self, number: Token) -> tuple[str, int]:
        if _read_int(number) == 0:
            raise MalformedGuard("the step of a slice must not be 0")
        return "step", _read_int(number)

    def slice(self, *bounds: tuple[str, int]) -> JSONPath:
        given = dict(bounds)
        cut = slice(given.get("start"), given.get("stop"), given.get("step"))
        return _Part(lambda datum: datum.value[cut] if isinstance(datum.value, list) else ())

    def list(self, *items: JSONPath) -> JSONPath:
        return items[0] if len(items) == 1 else _Union(items)

    def items(self, items: JSONPath) -> JSONPath:
        return items

    def filter(self, _opening: Token, holds: Predicate) -> JSONPath:
        return _Filter(holds)

    def lookup(self, path: JSONPath) -> JSONPath:
        def select(datum: DatumInContext) -> Iterator[JsonValue]:
            for found in path.find(datum):
                if isinstance(found.value, str):
                    yield from get_member(datum.value, found.value)
                elif isinstance(found.value, int) and not isinstance(found.value, bool):
                    yield from get_element(datum.value, found.value)

        return _Part(select)

    def call(self, *arguments: "JSONPath | _Constant | None") -> "tuple[_Operand, ...]":
        return tuple(_Operand(argument) for argument in arguments if argument is not None)

    def function(self, name: Token, arguments: "tuple[_Operand, ...]") -> JSONPath:
        counts = ARGUMENT_COUNTS.get(str(name))
        if counts is None:
            raise MalformedGuard(f"there is no function {name}; there are {', '.join(ARGUMENT_COUNTS)}")
        if len(arguments) not in counts:
            raise MalformedGuard(f"{name} takes {' or '.join(map(str, counts))} arguments")
        apply = FUNCTIONS[str(name)]

        def select(datum: DatumInContext) -> Iterable[JsonValue]:
            values = [next(iter(argument.select(datum)), None) for argument in arguments]
            return apply(datum.value, *values)

        return _Part(select)

    def deep_member(self, name: Token) -> JSONPath:
        return _chain(_descend(), [self.member(name)])

    def deep_function(self, name: Token, arguments: "tuple[_Operand, ...]") -> JSONPath:
        return _chain(_descend(), [self.function(name, arguments)])

    def deep_every(self) -> JSONPath:
        return _chain(_descend(), [self.every()])

    def deep_items(self, items: JSONPath) -> JSONPath:
        return _chain(_descend(), [items])

    def conjunction(self, *parts: Any) -> Predicate:
        terms: list[Predicate] = [part for part in parts if not isinstance(part, Token)]
        if len(terms) > 1 and any(isinstance(term, _AnyOf) for term in terms):
            self.mixes_operators = True
        return terms[0] if len(terms) == 1 else lambda datum: all(term(datum) for term in terms)

    def disjunction(self, *parts: Any) -> Predicate:
        terms: list[Predicate] = [part for part in parts if not isinstance(part, Token)]
        return _to_predicate(terms[0]) if len(terms) == 1 else _AnyOf(terms)

    def negation(self, *parts: Any) -> Predicate:
        holds = _to_predicate(parts[-1])
        return holds if len(parts) % 2 else lambda datum: not holds(datum)

    def brackets(self, term: Predicate) -> Predicate:
        return lambda datum: term(datum)

    def comparison(self, left: "_Operand", operator: Token, right: "_Operand") -> Predicate:
        compare = COMPARISONS[str(operator)]

        def holds(datum: DatumInContext) -> bool:
            pairs = product(left.select(datum), right.select(datum))
            return any(compare(one, other) for one, other in spend(pairs))

        return holds

    def operand(self, operand: "JSONPath | _Constant") -> "_Operand":
        return _Operand(operand)

    def constant(self, token: Token) -> "_Constant":
        return _Constant(_read_string(token) if token.type == "STRING" else _read_number(token))

    def true(self) -> "_Constant":
        return _Constant(True)

    def false(self) -> "_Constant":
        return _Constant(False)

    def null(self) -> "_Constant":
        return _Constant(None)

    def array(self, *elements: "_Constant | None") -> "_Constant":
        return _Constant([element.value for element in elements if element is not None])

    def pair(self, name: Token, value: "_Constant") -> tuple[str, JsonValue]:
        return _read_string(name), value.value

    def object(self, *pairs: tuple[str, JsonValue] | None) -> "_Constant":
        return _Constant(dict(pair for pair in pairs if pair is not None))


class _Constant(Struct, frozen=True):
    """A value that is written in a guard."""

    value: JsonValue


class _Operand:
    """One side of a comparison, or a condition of its own."""

    def __init__(self, operand: JSONPath | _Constant) -> None:
        self._operand = operand

    def select(self, datum: DatumInContext) -> Sequence[JsonValue]:
        """The selected values."""
        if isinstance(self._operand, _Constant):
            return (self._operand.value,)
        return [found.value for found in self._operand.find(datum)]

    def holds(self, datum: DatumInContext) -> bool:
        """Whether a path selects anything, or a constant is true."""
        if isinstance(self._operand, _Constant):
            return bool(self._operand.value)
        return bool(self._operand.find(datum))


class _AnyOf:
    """Whether one of several terms holds."""

    def __init__(self, terms: Sequence[Any]) -> None:
        self._terms = [_to_predicate(term) for term in terms]

    def __call__(self, datum: DatumInContext) -> bool:
        return any(term(datum) for term in self._terms)


def _to_predicate(term: Any) -> Predicate:
    return term.holds if isinstance(term, _Operand) else term


def _chain(first: JSONPath, parts: Sequence[JSONPath]) -> JSONPath:
    return _Chain((first, *parts))


def _select_member(name: str) -> JSONPath:
    return _Part(lambda datum: get_member(datum.value, name))


def _select_index(index: int) -> JSONPath:
    return _Part(lambda datum: get_element(datum.value, index))


def _descend() -> JSONPath:
    return _Part(lambda datum: iter_descendants(datum.value))


def _read_string(token: Token) -> str:
    text = str(token)
    if text[0] == "'":
        inner = re.sub(r'\\.|"', lambda part: _REQUOTED.get(part.group(), part.group()), text[1:-1], flags=re.DOTALL)
        text = f'"{inner}"'
    try:
        value = decode(text)
    except MalformedJson as malformed:
        raise MalformedGuard(f"invalid string {token}") from malformed
    assert isinstance(value, str)  # noqa: S101 - it is in quotes
    return value


def _read_number(token: Token) -> JsonValue:
    try:
        return decode(str(token))
    except MalformedJson as malformed:
        raise MalformedGuard(f"invalid number {str(token)[:40]}") from malformed


def _read_int(token: Token) -> int:
    if len(token) > 10:
        raise MalformedGuard(f"index {str(token)[:10]}… is too large")
    return int(token)


_REQUOTED: Final = {"\\'": "'", '"': '\\"'}
"""What differs between a string in single quotes and JSON."""
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[\[\](){}]', re.DOTALL)


def _count_open(text: str) -> int:
    """How deep brackets are nested at most, outside of strings."""
    deepest = depth = 0
    for part in _BRACKETS.finditer(text):
        sign = part.group()
        depth += (sign in "([{") - (sign in ")]}")
        deepest = max(deepest, depth)
    return deepest


_PARSER: Final = Lark(_GRAMMAR, start="guard", parser="lalr")

"""Guards: JSONPath queries that hold when they select anything (docs/reference/flows.md#guards).

Paths are trees of jsonpath-ng (decision D4). The language of guards differs from that library's in what its parts
select, above all in filters, which test the value itself and not its children. So the grammar is our own, and so are
the parts; the library gives the tree, its root and the way back to it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import lru_cache
from itertools import product
from typing import Any, Final, TypeVar

from jsonpath_ng.jsonpath import DatumInContext, JSONPath, Root, This
from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, VisitError
from msgspec import Struct

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue

MAX_CHARACTERS: Final = 4096
MAX_DEPTH: Final = 32
MAX_SELECTED: Final = 100_000
"""Values and pairs of values that one guard may look at."""

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
Function = Callable[..., Iterable[JsonValue]]

_Value = TypeVar("_Value")

_left: ContextVar[list[int]] = ContextVar("values that a guard may still select")


class MalformedGuard(ValueError):
    """A text that is no guard; the message says why."""


class GuardTooBroad(ValueError):
    """A guard that selects more of an input than one may."""

    def __init__(self) -> None:
        super().__init__(f"the guard selects more than {MAX_SELECTED} values")


class Guard(Struct, frozen=True):
    """A guard, ready to be asked."""

    path: JSONPath
    mixes_operators: bool
    """Whether ``and`` and ``or`` meet without brackets, where a reader may take their order for another."""

    def holds(self, value: JsonValue) -> bool:
        """Whether anything is selected. Raises :class:`GuardTooBroad`."""
        token = _left.set([MAX_SELECTED])
        try:
            return bool(self.path.find(value))
        finally:
            _left.reset(token)


@lru_cache(maxsize=4096)
def parse_guard(text: str) -> Guard:
    """A guard from its text. Raises :class:`MalformedGuard`."""
    if len(text) > MAX_CHARACTERS:
        raise MalformedGuard(f"it has more than {MAX_CHARACTERS} characters")
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
        return [DatumInContext(value, path=This(), context=parent) for value in _spend(self._select(parent))]


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
        return _Part(lambda datum: _iter_children(datum.value))

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
                    yield from _member_of(datum.value, found.value)
                elif isinstance(found.value, int) and not isinstance(found.value, bool):
                    yield from _element_of(datum.value, found.value)

        return _Part(select)

    def call(self, *arguments: "JSONPath | _Constant | None") -> "tuple[_Operand, ...]":
        return tuple(_Operand(argument) for argument in arguments if argument is not None)

    def function(self, name: Token, arguments: "tuple[_Operand, ...]") -> JSONPath:
        counts = _ARGUMENT_COUNTS.get(str(name))
        if counts is None:
            raise MalformedGuard(f"there is no function {name}; there are {', '.join(_ARGUMENT_COUNTS)}")
        if len(arguments) not in counts:
            raise MalformedGuard(f"{name} takes {' or '.join(map(str, counts))} arguments")
        apply = _FUNCTIONS[str(name)]

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
        compare = _COMPARISONS[str(operator)]

        def holds(datum: DatumInContext) -> bool:
            pairs = product(left.select(datum), right.select(datum))
            return any(compare(one, other) for one, other in _spend(pairs))

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


def _spend(values: Iterable[_Value]) -> Iterator[_Value]:
    """The values, each of which takes from what a guard may still look at."""
    for value in values:
        _charge()
        yield value


def _charge() -> None:
    left = _left.get()
    left[0] -= 1
    if left[0] < 0:
        raise GuardTooBroad


def _chain(first: JSONPath, parts: Sequence[JSONPath]) -> JSONPath:
    return _Chain((first, *parts))


def _select_member(name: str) -> JSONPath:
    return _Part(lambda datum: _member_of(datum.value, name))


def _select_index(index: int) -> JSONPath:
    return _Part(lambda datum: _element_of(datum.value, index))


def _member_of(value: JsonValue, name: str) -> Sequence[JsonValue]:
    return (value[name],) if isinstance(value, dict) and name in value else ()


def _element_of(value: JsonValue, index: int) -> Sequence[JsonValue]:
    return (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()


def _iter_children(value: JsonValue) -> Iterable[JsonValue]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _descend() -> JSONPath:
    return _Part(lambda datum: _iter_descendants(datum.value))


def _iter_descendants(value: JsonValue) -> Iterator[JsonValue]:
    """The value and all below it, depth first."""
    left = [value]
    while left:
        current = left.pop()
        yield current
        left.extend(reversed(list(_iter_children(current))))


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


def _is_number(value: JsonValue) -> bool:
    return not isinstance(value, bool | str | list | dict) and value is not None


def _equals(one: JsonValue, other: JsonValue) -> bool:
    """Deep equality, in which numbers are equal by their value, and never to a boolean."""
    _charge()
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equals(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equals, one, other))
    if _is_number(one) and _is_number(other):
        return one == other
    return type(one) is type(other) and one == other


def _compare_numbers(compare: Callable[[Any, Any], bool]) -> Callable[[JsonValue, JsonValue], bool]:
    return lambda one, other: _is_number(one) and _is_number(other) and compare(one, other)


_COMPARISONS: Final[dict[str, Callable[[JsonValue, JsonValue], bool]]] = {
    "=": _equals,
    "==": _equals,
    "!=": lambda one, other: not _equals(one, other),
    "<": _compare_numbers(lambda one, other: one < other),
    "<=": _compare_numbers(lambda one, other: one <= other),
    ">": _compare_numbers(lambda one, other: one > other),
    ">=": _compare_numbers(lambda one, other: one >= other),
}


def _length(value: JsonValue) -> Iterable[JsonValue]:
    return (len(value),) if isinstance(value, list | str) else ()


def _keys(value: JsonValue) -> Iterable[JsonValue]:
    return ([*value],) if isinstance(value, dict) else ()


def _values(value: JsonValue) -> Iterable[JsonValue]:
    return ([*value.values()],) if isinstance(value, dict) else ()


def _entries(value: JsonValue) -> Iterable[JsonValue]:
    return ([[name, member] for name, member in value.items()],) if isinstance(value, dict) else ()


def _char_at(value: JsonValue, at: JsonValue) -> Iterable[JsonValue]:
    if not isinstance(value, str) or type(at) is not int or not 0 <= at < len(value):
        return ()
    return (value[at],)


def _substring(value: JsonValue, first: JsonValue, last: JsonValue = None) -> Iterable[JsonValue]:
    if (
        not isinstance(value, str)
        or type(first) is not int
        or first < 0
        or (last is not None and type(last) is not int)
    ):
        return ()
    return (value[first:last],)


_FUNCTIONS: Final[dict[str, Function]] = {
    "length": _length,
    "keys": _keys,
    "values": _values,
    "entries": _entries,
    "charAt": _char_at,
    "substring": _substring,
}
_ARGUMENT_COUNTS: Final = {
    "length": (0,),
    "keys": (0,),
    "values": (0,),
    "entries": (0,),
    "charAt": (1,),
    "substring": (1, 2),
}


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

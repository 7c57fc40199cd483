"""The text of a guard to its syntax (docs/reference/flows.md#guards)."""

import re
from functools import lru_cache
from typing import Any, Final, cast, get_args

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import VisitError

from statewright.flows.guards.syntax import (
    All,
    Call,
    Comparison,
    Constant,
    Filter,
    Function,
    Guard,
    Index,
    Item,
    Name,
    Not,
    Operand,
    Operator,
    Part,
    Path,
    Presence,
    Slice,
    Some,
    Test,
    Wildcard,
)
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject, JsonValue

MAX_GUARD_CHARS: Final = 10_000
MAX_GUARD_DEPTH: Final = 64
"""Brackets within brackets."""

GRAMMAR: Final = r"""
?start: root
root: "$" part*

part: "." IDENT call?                   -> member
    | "." "*"                           -> every
    | ".." IDENT call?                  -> deep_member
    | ".." "*"                          -> deep_every
    | "[" list "]"                      -> items
    | ".." "[" list "]"                 -> deep_items
list: item ("," item)*
?item: string                           -> name
    | INT                               -> index
    | INT? COLON INT? (COLON INT?)?     -> slice
    | "*"                               -> wildcard
    | "?" "(" test ")"                  -> filter
    | subpath
    | IDENT call                        -> function
call: "(" (operand ("," operand)*)? ")"
subpath: "$" part*                      -> absolute
    | "@" part*                         -> relative

?test: any (_AND any)*                  -> all
?any: unary (_OR unary)*                -> some
?unary: NOT+ tested                     -> negation
    | tested
?tested: "(" test ")"                   -> group
    | operand                           -> presence
    | operand OPERATOR operand          -> comparison
?operand: subpath | value               -> operand
?value: string                          -> constant
    | NUMBER                            -> number
    | "true"                            -> true
    | "false"                           -> false
    | "null"                            -> null
    | "[" (value ("," value)*)? "]"     -> array
    | "{" (pair ("," pair)*)? "}"       -> object
pair: string COLON value
string: STRING | QUOTED

_AND: "and" | "&&"
_OR: "or" | "||"
NOT: "not" | "!"
COLON: ":"
OPERATOR: "==" | "=" | "!=" | "<=" | ">=" | "<" | ">"
IDENT: /[A-Za-z_][A-Za-z0-9_]*/
INT: /-?(?:0|[1-9][0-9]*)/
NUMBER: /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/
STRING: /"(?:[^"\\]|\\.)*"/
QUOTED: /'(?:[^'\\]|\\.)*'/
%ignore /[ \t\r\n\f]+/
"""


class BadGuard(ValueError):
    """Why an expression is no guard."""


@v_args(inline=True)
class _Builder(Transformer[Token, Path]):
    def __init__(self) -> None:
        super().__init__()
        self.is_mixed = False

    def root(self, *parts: Part) -> Path:
        return Path(is_absolute=True, parts=parts)

    absolute = root

    def relative(self, *parts: Part) -> Path:
        return Path(is_absolute=False, parts=parts)

    def member(self, name: Token, arguments: tuple[Operand, ...] | None = None) -> Part:
        return Part((_build_item(name, arguments),))

    def deep_member(self, name: Token, arguments: tuple[Operand, ...] | None = None) -> Part:
        return Part((_build_item(name, arguments),), descends=True)

    def every(self) -> Part:
        return Part((Wildcard(),))

    def deep_every(self) -> Part:
        return Part((Wildcard(),), descends=True)

    def items(self, items: tuple[Item, ...]) -> Part:
        return Part(items)

    def deep_items(self, items: tuple[Item, ...]) -> Part:
        return Part(items, descends=True)

    def list(self, *items: Item) -> tuple[Item, ...]:
        return items

    def name(self, text: str) -> Name:
        return Name(text)

    def index(self, number: Token) -> Index:
        return Index(_read_index(number))

    def slice(self, *tokens: Token) -> Slice:
        bounds: list[int | None] = [None]
        for token in tokens:
            if token.type == "COLON":
                bounds.append(None)
            else:
                bounds[-1] = _read_index(token)
        if bounds[2:] == [0]:
            raise BadGuard("the step of a slice is 0")
        return Slice(*bounds)

    def wildcard(self) -> Wildcard:
        return Wildcard()

    def filter(self, test: Test) -> Filter:
        return Filter(test)

    def function(self, name: Token, arguments: tuple[Operand, ...]) -> Item:
        return _build_item(name, arguments)

    def call(self, *arguments: Operand) -> tuple[Operand, ...]:
        return arguments

    def all(self, *tests: Test) -> Test:
        joined = All(tests)
        self.is_mixed |= len(tests) > 1 and any(isinstance(test, Some) for test in tests)
        return joined if len(tests) > 1 else joined.tests[0]

    def some(self, *tests: Test) -> Test:
        joined = Some(tests)
        return joined if len(tests) > 1 else joined.tests[0]

    def negation(self, *parts: Any) -> Test:
        test: Test = parts[-1]
        return Not(test) if len(parts) % 2 == 0 else test

    def group(self, test: Test) -> Test:
        return All((test,)) if isinstance(test, Some) else test  # told from one without brackets

    def presence(self, operand: Operand) -> Test:
        return Presence(operand)

    def comparison(self, left: Operand, operator: Token, right: Operand) -> Test:
        return Comparison(left, cast("Operator", "=" if operator == "==" else str(operator)), right)

    def operand(self, value: Operand) -> Operand:
        return value

    def constant(self, text: str) -> Constant:
        return Constant(text)

    def number(self, text: Token) -> Constant:
        return Constant(_decode(str(text)))

    def true(self) -> Constant:
        return Constant(True)

    def false(self) -> Constant:
        return Constant(False)

    def null(self) -> Constant:
        return Constant(None)

    def array(self, *values: Constant) -> Constant:
        return Constant([value.value for value in values])

    def object(self, *pairs: tuple[str, JsonValue]) -> Constant:
        members: JsonObject = dict(pairs)
        return Constant(members)

    def pair(self, name: str, _: Token, value: Constant) -> tuple[str, JsonValue]:
        return name, value.value

    def string(self, text: Token) -> str:
        return _read_string(str(text))


def _build_item(name: Token, arguments: tuple[Operand, ...] | None) -> Item:
    if arguments is None:
        return Name(str(name))
    if name not in get_args(Function):
        raise BadGuard(f"unknown function {name}")
    return Call(cast("Function", str(name)), arguments)


def _read_index(text: str) -> int:
    if len(text) > 18:
        raise BadGuard(f"index {text} is too large")
    return int(text)


def _read_string(text: str) -> str:
    if text.startswith("'"):
        inner = re.sub(r'\\.|"', lambda part: {"\\'": "'", '"': '\\"'}.get(part.group(), part.group()), text[1:-1])
        text = f'"{inner}"'
    value = _decode(text)
    return value if isinstance(value, str) else ""


def _decode(text: str) -> JsonValue:
    try:
        return decode(text)
    except MalformedJson as defect:
        raise BadGuard(str(defect)) from defect


_PARSER: Final = Lark(GRAMMAR, parser="lalr", maybe_placeholders=False)


@lru_cache(maxsize=4_096)
def parse_guard(expression: str) -> Guard:
    """The syntax of a guard. Raises :class:`BadGuard` for anything else."""
    if len(expression) > MAX_GUARD_CHARS:
        raise BadGuard(f"it has more than {MAX_GUARD_CHARS} characters")
    _check_depth(expression)
    builder = _Builder()
    try:
        path = builder.transform(_PARSER.parse(expression))
    except UnexpectedInput as defect:
        raise BadGuard(_describe(defect, expression)) from defect
    except VisitError as defect:
        if isinstance(defect.orig_exc, BadGuard):
            raise defect.orig_exc from defect
        raise
    return Guard(path, builder.is_mixed)


def _check_depth(expression: str) -> None:
    depth = 0
    for part in re.finditer(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[\[\](){}]', expression):
        depth += (part.group() in "[({") - (part.group() in "])}")
        if depth > MAX_GUARD_DEPTH:
            raise BadGuard(f"brackets are nested more than {MAX_GUARD_DEPTH} deep")


def _describe(defect: UnexpectedInput, expression: str) -> str:
    if isinstance(defect, UnexpectedToken) and defect.token.type == "$END":
        return "it ends too early"
    at = defect.pos_in_stream or 0
    rest = expression[at : at + 20].split("\n")[0]
    return f"unexpected {rest!r} at character {at + 1}"

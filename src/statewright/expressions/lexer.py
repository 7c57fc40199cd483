"""From the text of an expression to its tokens (docs/reference/steps.md#literals-and-numbers,
docs/reference/steps.md#operators): tokens, number literals, precedence.

What the format adds to the base language is read here, too (docs/reference/steps.md#additions-of-the-format): ``${…}``
are parentheses, and ``#`` before a name is nothing. Both are tokens of their own, so what stands in quotes is data.

The syntax tree of an expression. ``kind`` is the kind of a node's value as far as it is known before
evaluation, else ``any``.
"""

import math
import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from statewright.expressions.values import ExpressionError
from statewright.jsonval.values import quote

ValueKind: TypeAlias = Literal["any", "nil", "bool", "int", "float", "string", "array", "map", "time", "duration"]


class Constant(Struct, frozen=True, kw_only=True):
    """A literal."""

    value: None | bool | int | float | str
    kind: ValueKind


class Name(Struct, frozen=True, kw_only=True):
    """A variable."""

    name: str
    kind: ValueKind = "any"


class Element(Struct, frozen=True, kw_only=True):
    """``#``: the element a predicate is applied to."""

    kind: ValueKind = "any"


class Unary(Struct, frozen=True, kw_only=True):
    """``!`` (also ``not``), ``-``, ``+``."""

    operator: str
    operand: "Syntax"
    kind: ValueKind


class Binary(Struct, frozen=True, kw_only=True):
    """An operator between two operands; ``and`` and ``or`` are written ``&&`` and ``||``."""

    operator: str
    left: "Syntax"
    right: "Syntax"
    kind: ValueKind


class Conditional(Struct, frozen=True, kw_only=True):
    """``c ? a : b`` and ``if c { a } else { b }``."""

    condition: "Syntax"
    then: "Syntax"
    otherwise: "Syntax"
    kind: ValueKind = "any"


class MemberAccess(Struct, frozen=True, kw_only=True):
    """``base.key``, ``base[key]``; optional after ``?.``."""

    base: "Syntax"
    key: "Syntax"
    optional: bool = False
    kind: ValueKind = "any"


class Chain(Struct, frozen=True, kw_only=True):
    """A chain of members; the whole of it is nil when an optional one is read of nil."""

    inner: "Syntax"
    kind: ValueKind = "any"


class Slice(Struct, frozen=True, kw_only=True):
    """``base[start:end]``; ``None``: not given."""

    base: "Syntax"
    start: "Syntax | None" = None
    end: "Syntax | None" = None
    kind: ValueKind = "any"


class MethodCall(Struct, frozen=True, kw_only=True):
    """A call of something that is not built in; only methods of times and durations can succeed."""

    callee: "Syntax"
    arguments: "tuple[Syntax, ...]" = ()
    kind: ValueKind = "any"


class Builtin(Struct, frozen=True, kw_only=True):
    """A call of a built-in function; the second argument of a predicate function is applied to each element."""

    name: str
    arguments: "tuple[Syntax, ...]" = ()
    kind: ValueKind = "any"
    predicate_tokens: int = 0
    """Those of the second argument of a predicate function."""


class ArrayLiteral(Struct, frozen=True, kw_only=True):
    """``[1, 2]``."""

    items: "tuple[Syntax, ...]" = ()
    kind: ValueKind = "array"


class MapLiteral(Struct, frozen=True, kw_only=True):
    """``{a: 1, "b": 2}``."""

    pairs: "tuple[tuple[Syntax, Syntax], ...]" = ()
    kind: ValueKind = "map"


class Let(Struct, frozen=True, kw_only=True):
    """``let x = 1; body``."""

    name: str
    value: "Syntax"
    body: "Syntax"
    kind: ValueKind = "any"


class Series(Struct, frozen=True, kw_only=True):
    """``a; b``: the value of the last one."""

    items: "tuple[Syntax, ...]"
    kind: ValueKind = "any"


Syntax: TypeAlias = (
    Constant
    | Name
    | Element
    | Unary
    | Binary
    | Conditional
    | MemberAccess
    | Chain
    | Slice
    | MethodCall
    | Builtin
    | ArrayLiteral
    | MapLiteral
    | Let
    | Series
)


TokenKind: TypeAlias = Literal["name", "number", "string", "operator", "bracket", "end"]

WORD_OPERATORS: Final = frozenset(
    {"not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else"}
)


class Lexeme(NamedTuple):
    """A token of the language. The text of a string is its value, without quotes and escapes."""

    kind: TokenKind
    text: str

    def __str__(self) -> str:
        return "end of expression" if self.kind == "end" else f"{self.kind} {quote(self.text)}"


_IGNORED: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""
      (?P<raw>`[^`]*`)
    | (?P<string>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | (?P<number>(?:0[xX][0-9a-fA-F_]* | 0[oO][0-7_]* | 0[bB][01_]* | [0-9][0-9_]*(?:\.(?!\.)[0-9_]*)? | \.[0-9][0-9_]*)
                 (?:[eE][+-]?[0-9_]*)?)
    | (?P<opening>\$\{)
    | (?P<mark>\#(?=[A-Za-z0-9_.:-]))
    | (?P<word>(?:[^\W\d]|\$)(?:\w|\$(?!\{))*)
    | (?P<bracket>[()\[\]{}])
    | (?P<operator>\|\|? | ::? | \?[?.]? | \.\.? | \#\#? | [&!=*<>][&=*]? | [,;%+\-^/])
    """,
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([abfnrtv\\'\"`?]))"
)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MAX_CODE_POINT: Final = 0x10FFFF


MAX_NODES: Final = 10_000
"""Most tokens of an expression, about the most nodes that the base language allows."""

MAX_CHARS: Final = 100_000
"""Longest text of an expression; messages quote it, and compiled ones are kept with it."""


def tokenize(text: str) -> list[Lexeme]:
    """The tokens of an expression, the last one of kind ``end``. Raises :class:`ExpressionError`."""
    found: list[Lexeme] = []
    braces: list[bool] = []  # those that are open; whether a ``${`` opened them
    position = 0
    while True:
        if ignored := _IGNORED.match(text, position):
            position = ignored.end()
        if position == len(text):
            if any(braces):
                raise ExpressionError("unterminated '${' in expression")
            return [*found, Lexeme("end", "")]
        if len(found) == MAX_NODES - 1:  # the end is one, too
            raise ExpressionError("expression exceeds maximum allowed nodes")
        match = None if text.startswith("/*", position) else _TOKEN.match(text, position)
        if match is None:
            raise ExpressionError(_describe_defect(text, position))
        position = match.end()
        if match.lastgroup != "mark":
            token = _build_token(match, text[position : position + 1])
            found.append(_match_brace(token, braces))


def _build_token(match: re.Match[str], following: str) -> Lexeme:
    text = match[0]
    match match.lastgroup:
        case "raw":
            return Lexeme("string", text[1:-1])
        case "string":
            return Lexeme("string", _unescape(text[1:-1]))
        case "number":
            if following.isalnum() or following in ("_", "$"):
                raise ExpressionError(f"bad number syntax: {quote(text + following)}")
            return Lexeme("number", text)
        case "word":
            return Lexeme("operator" if text in WORD_OPERATORS else "name", text)
        case "bracket" | "opening":
            return Lexeme("bracket", text)
        case _:
            return Lexeme("operator", text)


def _match_brace(token: Lexeme, braces: list[bool]) -> Lexeme:
    """A ``${`` and the ``}`` that belongs to it as parentheses, any other token as it is."""
    if token.kind != "bracket":
        return token
    if token.text in ("{", "${"):
        braces.append(token.text == "${")
        return Lexeme("bracket", "(") if braces[-1] else token
    is_end = token.text == "}" and bool(braces) and braces.pop()
    return Lexeme("bracket", ")") if is_end else token


def _unescape(content: str) -> str:
    parts: list[str] = []
    position = 0
    while (backslash := content.find("\\", position)) >= 0:
        escape = _ESCAPE.match(content, backslash)
        if escape is None:
            raise ExpressionError("invalid char escape")
        parts += [content[position:backslash], _decode_escape(escape)]
        position = escape.end()
    return "".join([*parts, content[position:]])


def _decode_escape(escape: re.Match[str]) -> str:
    two, four, eight, octal, single = escape.groups()
    if single is not None:
        return _CONTROLS.get(single, single)
    code = int(octal, 8) if octal is not None else int(two or four or eight, 16)
    if code > _MAX_CODE_POINT:
        raise ExpressionError("invalid char escape")
    return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= code <= 0xDFFF else chr(code)


def _describe_defect(text: str, position: int) -> str:
    character = text[position]
    if character in "\"'`":
        return "literal not terminated"
    if text.startswith("/*", position):
        return "unclosed comment"
    return f"unrecognized character: U+{ord(character):04X} {quote(character)}"


MAX_INT: Final = 2**63 - 1
"""Largest integer literal."""

_BASES: Final = {"0x": ("hex", 16), "0b": ("binary", 2), "0o": ("octal", 8)}
_MAX_DIGITS: Final = 64
"""No 64-bit number has more digits, not even in binary."""


def parse_number_literal(text: str) -> Constant:
    """The number a token writes; underscores are ignored. Raises :class:`ExpressionError` beyond 64 bits."""
    plain = text.replace("_", "").lower()
    name, base = _BASES.get(plain[:2], ("integer", 10))
    if base == 10 and ("." in plain or "e" in plain):
        return Constant(value=_parse_float(plain, text), kind="float")
    digits = plain if base == 10 else plain[2:]
    if not digits or len(digits.lstrip("0")) > _MAX_DIGITS:
        raise ExpressionError(f"invalid {name} literal: {quote(text)}")
    try:
        number = int(digits, base)
    except ValueError:
        raise ExpressionError(f"invalid {name} literal: {quote(text)}") from None
    if number > MAX_INT:
        raise ExpressionError(f"invalid {name} literal: {quote(text)} is out of range")
    return Constant(value=number, kind="int")


def _parse_float(plain: str, text: str) -> float:
    try:
        number = float(plain)
    except ValueError:
        raise ExpressionError(f"invalid float literal: {quote(text)}") from None
    if not math.isfinite(number):
        raise ExpressionError(f"invalid float literal: {quote(text)} is out of range")
    return number


class Precedence(NamedTuple):
    """How tight an operator binds: a higher level binds tighter (docs/reference/steps.md#operators)."""

    level: int
    right_associative: bool = False


UNARY: Final[Mapping[str, int]] = {"not": 50, "!": 50, "-": 90, "+": 90}
BINARY: Final[Mapping[str, Precedence]] = {
    "|": Precedence(0),
    **dict.fromkeys(("||", "or"), Precedence(10)),
    **dict.fromkeys(("&&", "and"), Precedence(15)),
    **dict.fromkeys(("==", "!=", "<", ">", ">=", "<="), Precedence(20)),
    **dict.fromkeys(("in", "matches", "contains", "startsWith", "endsWith"), Precedence(20)),
    "..": Precedence(25),
    **dict.fromkeys(("+", "-"), Precedence(30)),
    **dict.fromkeys(("*", "/", "%"), Precedence(60)),
    **dict.fromkeys(("**", "^"), Precedence(100, right_associative=True)),
    "??": Precedence(500),
}
COMPARISONS: Final = frozenset({"<", ">", ">=", "<="})
NEGATABLE: Final = frozenset({"in", "matches", "contains", "startsWith", "endsWith"})
SYNONYMS: Final[Mapping[str, str]] = {"or": "||", "and": "&&", "^": "**", "not": "!"}

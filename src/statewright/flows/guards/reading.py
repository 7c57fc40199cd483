"""Reading the text of a guard: the grammar, what is wrong with a text and where, and the values written in it."""

import re
from typing import Final, Generic, TypeVar, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue

Made = TypeVar("Made")

MAX_CHARS: Final = 4096
MAX_DEPTH: Final = 32
MAX_INDEX_CHARS: Final = 10

GRAMMAR: Final = r"""
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
_WORDS: Final = {
    "IDENT": "a name",
    "STRING": "a text in quotes",
    "INT": "a number",
    "NUMBER": "a number",
    "FILTER": "?(",
    "OPERATOR": "a comparison",
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    "ROOT": "$",
    "CURRENT": "@",
    "DOLLAR": "$",
    "DOT": ".",
    "__ANON_0": "..",
    "STAR": "*",
    "LSQB": "[",
    "RSQB": "]",
    "LPAR": "(",
    "RPAR": ")",
    "LBRACE": "{",
    "RBRACE": "}",
    "COMMA": ",",
    "COLON": ":",
    "TRUE": "true",
    "FALSE": "false",
    "NULL": "null",
    "$END": "the end",
}


class MalformedGuard(ValueError):
    """A text that is no guard; the message says why.

    ``offset`` is the place in the text, from 0, ``piece`` what stands there, ``expected`` what could stand there.
    """

    def __init__(self, reason: str, offset: int = 0, *, piece: str = "", expected: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.offset = offset
        self.piece = piece
        self.expected = expected


class GuardReader(Generic[Made]):
    """Reads texts of guards. What the methods of ``builder`` make of the rules is made while a text is read, without a
    tree: a flow may have thousands of guards.
    """

    def __init__(self, builder: Transformer[Token, Made]) -> None:
        self._parser = Lark(GRAMMAR, start="guard", parser="lalr", transformer=builder)

    def read(self, text: str) -> Made:
        """What the builder makes of a text. Raises :class:`MalformedGuard`."""
        check_size(text)
        try:
            return cast("Made", self._parser.parse(text))  # not a tree, since there is a builder
        except UnexpectedInput as unexpected:
            raise _describe(unexpected, text) from unexpected


def check_size(text: str) -> None:
    """Refuse what is too long or nested too deeply. Raises :class:`MalformedGuard`."""
    if len(text) > MAX_CHARS:
        raise MalformedGuard(f"it has more than {MAX_CHARS} characters")
    if deep := _find_too_deep(text):
        raise MalformedGuard(f"it is nested more than {MAX_DEPTH} deep", deep.start(), piece=deep.group())


def _describe(unexpected: UnexpectedInput, text: str) -> MalformedGuard:
    offset, piece, names = len(text), "", frozenset[str]()
    match unexpected:
        case UnexpectedToken(token=token):
            names = frozenset(unexpected.accepts or unexpected.expected)
            if token.type != "$END":
                offset, piece = token.start_pos or 0, str(token)
        case UnexpectedCharacters():
            names = frozenset(unexpected.allowed or ())
            offset = int(unexpected.pos_in_stream or 0)
            piece = text[offset]
        case _:
            pass
    expected = tuple(sorted({_WORDS.get(name, name) for name in names}))
    found = f"unexpected {piece}" if piece else "unexpected end"
    place = f"at character {offset + 1}"
    reason = f"{found} {place}; expected {', '.join(expected)}" if expected else f"{found} {place}"
    return MalformedGuard(reason, offset, piece=piece, expected=expected)


_PARTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[\[\](){}]', re.DOTALL)


def _find_too_deep(text: str) -> re.Match[str] | None:
    """The bracket, outside of texts in quotes, that is nested too deeply."""
    depth = 0
    for part in _PARTS.finditer(text):
        sign = part.group()
        depth += (sign in "([{") - (sign in ")]}")
        if depth > MAX_DEPTH:
            return part
    return None


_REQUOTED: Final = {"\\'": "'", '"': '\\"'}
"""What differs between a text in single quotes and JSON."""


def read_string(token: Token) -> str:
    """The text between quotes. Raises :class:`MalformedGuard`."""
    text = str(token)
    if text[0] == "'":
        inner = re.sub(r'\\.|"', lambda part: _REQUOTED.get(part.group(), part.group()), text[1:-1], flags=re.DOTALL)
        text = f'"{inner}"'
    try:
        value = decode(text)
    except MalformedJson as malformed:
        raise _refuse(token, f"invalid string {token}") from malformed
    assert isinstance(value, str)  # noqa: S101 - it is in quotes
    return value


def read_number(token: Token) -> JsonValue:
    """A number as documents have them. Raises :class:`MalformedGuard`."""
    try:
        return decode(str(token))
    except MalformedJson as malformed:
        raise _refuse(token, f"invalid number {str(token)[:40]}") from malformed


def read_index(token: Token) -> int:
    """A place in an array, from its end for negative numbers. Raises :class:`MalformedGuard`."""
    if len(token) > MAX_INDEX_CHARS:
        raise _refuse(token, f"index {str(token)[:MAX_INDEX_CHARS]}… is too large")
    return int(token)


def _refuse(token: Token, reason: str) -> MalformedGuard:
    return MalformedGuard(reason, token.start_pos or 0, piece=str(token))

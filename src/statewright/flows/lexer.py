"""The tokens of a flow (docs/reference/flows.md#tokens).

Literals hold text of other languages, which only their own rules can delimit; so tokens are found here, and lark, which
reads the grammar, is given them.
"""

import re
from collections.abc import Iterator
from typing import Final, cast

from lark import Token

from statewright.flows.errors import ErrorCode, FlowError, Position
from statewright.flows.literals import MalformedLiteral, find_json_end, read_json, read_yaml
from statewright.jsonval.values import JsonValue

MAX_CHARACTERS: Final = 1024 * 1024

_SPACE: Final = re.compile(r"(?:[ \t\r\n\f]+|#[^\n]*)+")
_NAME: Final = re.compile(r"[A-Za-z_][\w:-]*")
_DOC: Final = re.compile(r"'''.*?'''|\"\"\".*?\"\"\"", re.DOTALL)
_EMPTY_PARAMS: Final = re.compile(r"\([ \t\r\n\f]*\)")
_EXPR: Final = re.compile(r"`[^`]*`")
_ARROW: Final = re.compile(r"→|->")
_SINGLE: Final = {
    "{": "LBRACE",
    "}": "RBRACE",
    "[": "LBRACKET",
    "]": "RBRACKET",
    "*": "STAR",
    "|": "BAR",
    ">": "MERGE",
    "=": "EQUALS",
    "?": "QUESTION",
    ";": "SEMICOLON",
}
_CLOSING: Final = {"(": ")", "<": ">"}


class LiteralToken(Token):
    """A token with the value that it denotes."""

    literal: JsonValue


def position_of(token: Token) -> Position:
    """Where a token begins."""
    return Position(token.line or 1, token.column or 1)


class Lexer:
    """Cuts one text into tokens. Raises :class:`FlowError`."""

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff")
        self._at = 0
        self._line = 1
        self._line_start = 0

    @property
    def position(self) -> Position:
        """The place that was reached: behind the last token, when all were taken."""
        return Position(self._line, self._at - self._line_start + 1)

    def tokens(self) -> Iterator[Token]:
        """All tokens in order."""
        if len(self._text) > MAX_CHARACTERS or len(self._text.encode(errors="replace")) > MAX_CHARACTERS:
            raise FlowError("LIMIT", Position(1, 1), f"a flow has at most {MAX_CHARACTERS} bytes")
        while True:
            if space := _SPACE.match(self._text, self._at):
                self._advance(space.end())
            if self._at >= len(self._text):
                return
            yield self._next()

    def _next(self) -> Token:
        text, at = self._text, self._at
        first = text[at]
        if found := _ARROW.match(text, at):
            return self._take("ARROW", found.end())
        if first in "'\"" and (found := _DOC.match(text, at)):
            return self._take("DOC", found.end(), found.group()[3:-3])
        if first == "(":
            return self._take_bracketed("PARAMS")
        if first == "<":
            return self._take_bracketed("LITERAL") if text[at + 1 : at + 2] in set("->{[") else self._take_resource()
        if found := _EXPR.match(text, at):
            return self._take("EXPR", found.end(), found.group()[1:-1])
        if first in ":@" and (end := self._find_name_end(at + 1)):
            return self._take("LABEL" if first == ":" else "DECLARE", end, text[at + 1 : end])
        if end := self._find_name_end(at):
            return self._take("NAME", end)
        if first in _SINGLE:
            return self._take(_SINGLE[first], at + 1)
        raise self._error("SYNTAX", f"no token starts with {first!r}")

    def _find_name_end(self, at: int) -> int:
        found = _NAME.match(self._text, at)
        if found is None:
            return 0
        end = found.end()
        if self._text[end - 1] == "-" and self._text[end : end + 1] == ">":  # an arrow
            end -= 1
        return end

    def _take_bracketed(self, kind: str) -> Token:
        """Parameters or a literal: what is between two pairs of characters."""
        text, at = self._text, self._at
        if text.startswith("<>", at):
            return self._take_literal(kind, at + 2, {})
        if empty := _EMPTY_PARAMS.match(text, at):
            return self._take_literal(kind, empty.end(), {})
        closing, inner = _CLOSING[text[at]], text[at + 1 : at + 2]
        if not inner or inner not in "-{[":
            raise self._error("SYNTAX", f"found {text[at]!r}, expected one of (-, ({{, ([ or ()")
        try:
            if inner == "-":
                end = _find_yaml_end(text, at + 2, closing)
                return self._take_literal(kind, end + 2, read_yaml(text[at + 2 : end]))
            end = find_json_end(text, at + 1)
            value = read_json(text[at + 1 : end])
        except MalformedLiteral as malformed:
            raise self._error("LITERAL", str(malformed)) from malformed
        if not text.startswith(closing, end):
            raise self._error("LITERAL", f"expected {closing} right after the value")
        return self._take_literal(kind, end + 1, value)

    def _take_resource(self) -> Token:
        end = self._text.find(">", self._at)
        if end < 0:
            raise self._error("SYNTAX", "no > ends the resource that begins here")
        uri = self._text[self._at + 1 : end].strip()
        if not uri or any(character.isspace() for character in uri):
            raise self._error("SYNTAX", "a resource has a name without white space")
        return self._take("URIREF", end + 1, uri)

    def _take_literal(self, kind: str, end: int, value: JsonValue) -> Token:
        token = cast("LiteralToken", self._take(kind, end, cls=LiteralToken))
        token.literal = value
        return token

    def _take(self, kind: str, end: int, value: str | None = None, cls: type[Token] = Token) -> Token:
        position = self.position
        token = cls(
            kind,
            self._text[self._at : end] if value is None else value,
            start_pos=self._at,
            line=position.line,
            column=position.column,
        )
        self._advance(end)
        return token

    def _advance(self, end: int) -> None:
        lines = self._text.count("\n", self._at, end)
        if lines:
            self._line += lines
            self._line_start = self._text.rindex("\n", self._at, end) + 1
        self._at = end

    def _error(self, code: ErrorCode, reason: str) -> FlowError:
        return FlowError(code, self.position, reason)


def _find_yaml_end(text: str, start: int, closing: str) -> int:
    end = text.find(f"-{closing}", start)
    if end < 0:
        raise MalformedLiteral(f"no -{closing} ends what begins here")
    return end

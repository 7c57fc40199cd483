"""Expression text to tokens (spec/step-engine.md §10.3, §10.4)."""

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.texts import quoted

Kind: TypeAlias = Literal["name", "number", "string", "operator", "bracket", "end"]

WORD_OPERATORS: Final = frozenset(
    {"not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else"}
)


class Token(NamedTuple):
    """A word of the language. The text of a string is its value, without quotes and escapes."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return "end of expression" if self.kind == "end" else f"{self.kind} {quoted(self.text)}"


_IGNORED = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_TOKEN = re.compile(
    r"""
      (?P<raw>`[^`]*`)
    | (?P<string>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | (?P<number>(?:0[xX][0-9a-fA-F_]* | 0[oO][0-7_]* | 0[bB][01_]* | [0-9][0-9_]*(?:\.(?!\.)[0-9_]*)? | \.[0-9][0-9_]*)
                 (?:[eE][+-]?[0-9_]*)?)
    | (?P<word>[^\W\d][\w$]*|\$[\w$]*)
    | (?P<bracket>[()\[\]{}])
    | (?P<operator>\|\|? | ::? | \?[?.]? | \.\.? | \#\#? | [&!=*<>][&=*]? | [,;%+\-^/])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([abfnrtv\\'\"`?]))")
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST_CHARACTER: Final = 0x10FFFF


def tokens(text: str) -> list[Token]:
    """The tokens of an expression, the last one of kind ``end``. Raises :class:`ExpressionError`."""
    found: list[Token] = []
    position = 0
    while True:
        if ignored := _IGNORED.match(text, position):
            position = ignored.end()
        if position == len(text):
            return [*found, Token("end", "")]
        match = None if text.startswith("/*", position) else _TOKEN.match(text, position)
        if match is None:
            raise ExpressionError(_defect(text, position))
        position = match.end()
        found.append(_token(match, text[position : position + 1]))


def _token(match: re.Match[str], following: str) -> Token:
    text = match[0]
    match match.lastgroup:
        case "raw":
            return Token("string", text[1:-1])
        case "string":
            return Token("string", _unescaped(text[1:-1]))
        case "number":
            if following.isalnum() or following in ("_", "$"):
                raise ExpressionError(f"bad number syntax: {quoted(text + following)}")
            return Token("number", text)
        case "word":
            return Token("operator" if text in WORD_OPERATORS else "name", text)
        case "bracket":
            return Token("bracket", text)
        case _:
            return Token("operator", text)


def _unescaped(content: str) -> str:
    parts: list[str] = []
    position = 0
    while (backslash := content.find("\\", position)) >= 0:
        escape = _ESCAPE.match(content, backslash)
        if escape is None:
            raise ExpressionError("invalid char escape")
        parts += [content[position:backslash], _escaped(escape)]
        position = escape.end()
    return "".join([*parts, content[position:]])


def _escaped(escape: re.Match[str]) -> str:
    two, four, eight, octal, single = escape.groups()
    if single is not None:
        return _CONTROLS.get(single, single)
    code = int(octal, 8) if octal is not None else int(two or four or eight, 16)
    if code > _LAST_CHARACTER:
        raise ExpressionError("invalid char escape")
    return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= code <= 0xDFFF else chr(code)


def _defect(text: str, position: int) -> str:
    character = text[position]
    if character in "\"'`":
        return "literal not terminated"
    if text.startswith("/*", position):
        return "unclosed comment"
    return f"unrecognized character: U+{ord(character):04X} {quoted(character)}"

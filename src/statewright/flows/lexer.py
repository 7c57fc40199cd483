"""Text to tokens (docs/reference/flows.md#tokens).

What a label or a ``>`` is depends on whether a step ends before it, and on what follows: two tokens of look-ahead
decide. So they get their roles here, and the grammar needs no more than one token.

What can be wrong with a flow (docs/reference/flows.md#errors).
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.flows.literals import BadLiteral, LiteralValue, read_json, read_stored_yaml, read_yaml

ErrorCode: TypeAlias = Literal[
    "SYNTAX",
    "LITERAL",
    "NO_STATEMENTS",
    "DUPLICATE_OUTPUT_LABEL",
    "DUPLICATE_INPUT_LABEL",
    "RESERVED_LABEL",
    "UNKNOWN_LABEL",
    "DECLARATION",
    "PARAMETERS",
    "GUARD",
    "UNREACHABLE_END",
    "LIMIT",
]

MAX_PIECE_CHARS: Final = 60
"""Characters of the offending piece that a message shows."""


class Position(Struct, frozen=True, order=True):
    """A place in the text: both from 1, the column in characters."""

    line: int = 1
    column: int = 1


class InvalidFlow(ValueError):
    """The first defect of a flow: where it is, and what is wrong there.

    ``piece`` is the text at the position, ``expected`` what could stand there instead; both may be empty.
    """

    def __init__(
        self, code: ErrorCode, position: Position, reason: str, *, piece: str = "", expected: tuple[str, ...] = ()
    ) -> None:
        super().__init__(f"{position.line}:{position.column} {reason}")
        self.code = code
        self.position = position
        self.reason = reason
        self.piece = shorten(piece)
        self.expected = expected


def shorten(piece: str) -> str:
    """The piece as messages show it."""
    return piece if len(piece) <= MAX_PIECE_CHARS else f"{piece[:MAX_PIECE_CHARS]}…"


class Rules(Struct, frozen=True, kw_only=True):
    """What differs between texts that come in and those that an earlier version has stored."""

    read_yaml: Callable[[str], LiteralValue]
    refuses_lost_values: bool
    """Whether a subflow whose end cannot be reached is an error."""
    asks_people: bool
    """Whether tasks ``ask`` are for people, whatever the definition says."""


CURRENT: Final = Rules(read_yaml=read_yaml, refuses_lost_values=True, asks_people=True)
STORED: Final = Rules(read_yaml=read_stored_yaml, refuses_lost_values=False, asks_people=False)
"""What was accepted once goes on to run as it did."""

MAX_TEXT_BYTES: Final = 1024 * 1024
MAX_NAME_CHARS: Final = 255
MAX_DEPTH: Final = 64
"""Brackets within brackets."""


class Piece(Struct, frozen=True, kw_only=True):
    """A token. ``text``: without its delimiters; ``value``: of parameters and literals."""

    kind: str
    position: Position
    text: str
    value: LiteralValue | None = None


_BLANK: Final = re.compile(r"(?:[ \t\r\n\f]+|#[^\n]*)+")
_NAME: Final = re.compile(r"[A-Za-z_0-9][\w\-:]*")
_NUMBER: Final = re.compile(r"[0-9]+(?:[eE][+-]?[0-9]+)?")
_ARROW: Final = re.compile(r"→|->")
_DOC: Final = re.compile(r"'''(.*?)'''|\"\"\"(.*?)\"\"\"", re.DOTALL)
_EXPRESSION: Final = re.compile(r"`([^`]*)`")
_EMPTY_PARAMS: Final = re.compile(r"\([ \t\r\n\f]*\)")
_URI: Final = re.compile(r"<([^>]*)>")
_JSON_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_SIGNS: Final = {
    "{": "LBRACE",
    "}": "RBRACE",
    "[": "LBRACKET",
    "]": "RBRACKET",
    "*": "STAR",
    "|": "BAR",
    ">": "MERGE",
    "=": "EQUALS",
    "?": "GUARD",
    ";": "SEMICOLON",
}
_Scan: TypeAlias = tuple[Piece, int]


class _Lexer:
    def __init__(self, text: str, rules: Rules) -> None:
        self._text = text
        self._read_yaml = rules.read_yaml
        self._at = 0
        self._line = 1
        self._line_start = 0
        self._counted = 0

    def list_pieces(self) -> Iterator[Piece]:
        text, end = self._text, len(self._text)
        while True:
            if blank := _BLANK.match(text, self._at):
                self._at = blank.end()
            if self._at >= end:
                return
            piece, self._at = self._scan()
            yield piece

    def _position(self) -> Position:
        """Of the present place; the text before it is counted once."""
        newlines = self._text.count("\n", self._counted, self._at)
        if newlines:
            self._line += newlines
            self._line_start = self._text.rindex("\n", self._counted, self._at) + 1
        self._counted = self._at
        return Position(self._line, self._at - self._line_start + 1)

    def _scan(self) -> _Scan:
        text, at = self._text, self._at
        position = self._position()
        character = text[at]
        if arrow := _ARROW.match(text, at):
            return Piece(kind="ARROW", position=position, text=arrow.group()), arrow.end()
        if character in "'\"":
            return self._match("DOC", _DOC, position)
        if character == "(":
            return self._scan_enclosed("PARAMS", ")", position)
        if character == "<":
            return self._scan_angle(position)
        if character == "`":
            return self._match("EXPR", _EXPRESSION, position)
        if character in ":@" and (name := self._match_name(at + 1)):
            kind = "LABEL" if character == ":" else "DECLARE"
            return Piece(kind=kind, position=position, text=name), at + 1 + len(name)
        if name := self._match_name(at):
            return Piece(kind="NAME", position=position, text=name), at + len(name)
        if character in _SIGNS:
            return Piece(kind=_SIGNS[character], position=position, text=character), at + 1
        raise InvalidFlow("SYNTAX", position, f"unexpected character {character!r}", piece=character)

    def _match_name(self, at: int) -> str:
        found = _NAME.match(self._text, at)
        if found is None:
            return ""
        name = found.group()
        if len(name) > MAX_NAME_CHARS:
            raise _limit(self._position(), f"a name has more than {MAX_NAME_CHARS} characters")
        # an arrow may follow without a blank: its hyphen is no part of the name
        name = name[:-1] if name.endswith("-") and self._text.startswith(">", found.end()) else name
        if _NUMBER.fullmatch(name):
            raise InvalidFlow("SYNTAX", self._position(), f"unexpected number {shorten(name)}; no name", piece=name)
        return name

    def _match(self, kind: str, pattern: re.Pattern[str], position: Position) -> _Scan:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self._refuse(position, "is not closed" if kind == "EXPR" else "is no documentation that ends")
        text = next((group for group in found.groups() if group is not None), "")
        return Piece(kind=kind, position=position, text=text), found.end()

    def _scan_angle(self, position: Position) -> _Scan:
        text, at = self._text, self._at
        if text.startswith("<>", at):
            return Piece(kind="LITERAL", position=position, text="", value={}), at + 2
        if text[at + 1 : at + 2] in ("-", "{", "["):
            return self._scan_enclosed("LITERAL", ">", position)
        found = _URI.match(text, at)
        uri = found.group(1).strip(" \t\r\n\f") if found else ""
        if found is None or not uri or any(character in " \t\r\n\f" for character in uri):
            raise self._refuse(position, "is no reference to a resource")
        return Piece(kind="URIREF", position=position, text=uri), found.end()

    def _scan_enclosed(self, kind: str, closing: str, position: Position) -> _Scan:
        """Parameters and literals: the inner bracket directly follows the outer one, at the end as well."""
        text, at = self._text, self._at
        if kind == "PARAMS" and (empty := _EMPTY_PARAMS.match(text, at)):
            return Piece(kind=kind, position=position, text="", value={}), empty.end()
        read: Callable[[str], LiteralValue]
        if text.startswith("-", at + 1):
            end = text.find(f"-{closing}", at + 2)
            body, read = text[at + 2 : end], self._read_yaml
        elif text[at + 1 : at + 2] in ("{", "["):
            end = self._find_json_end(at + 1)
            body, read = text[at + 1 : end], read_json
            if end >= 0 and not text.startswith(closing, end):
                self._at = end
                raise self._refuse(self._position(), f"is met where {closing!r} must follow at once")
            end -= 1
        else:
            raise self._refuse(position, "begins neither parameters nor a literal")
        if end < 0:
            raise self._refuse(position, "is not closed")
        try:
            return Piece(kind=kind, position=position, text=body, value=read(body)), end + 2
        except BadLiteral as defect:
            raise InvalidFlow("LITERAL", position, str(defect), piece=body) from defect

    def _find_json_end(self, at: int) -> int:
        """Where the text after the JSON value goes on; -1 when it does not end."""
        depth = 0
        for part in _JSON_PART.finditer(self._text, at):
            sign = part.group()
            if sign in "[{":
                depth += 1
            elif sign in "]}":
                depth -= 1
                if depth == 0:
                    return part.end()
        return -1

    def _refuse(self, position: Position, reason: str) -> InvalidFlow:
        piece = self._text[self._at : self._at + 20]
        return InvalidFlow("SYNTAX", position, f"{piece.split(chr(10))[0]!r} {reason}", piece=piece)


def split(text: str, rules: Rules) -> tuple[list[Piece], list[str]]:
    """The tokens of a flow, labels and merge marks with their roles, and warnings where these are hardly those that
    were meant. Raises :class:`InvalidFlow`.
    """
    if len(text) > MAX_TEXT_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise _limit(Position(), f"the text has more than {MAX_TEXT_BYTES} bytes")
    pieces = list(_Lexer(text.removeprefix("\ufeff"), rules).list_pieces())
    depth = 0
    for piece in pieces:
        depth += (piece.kind in ("LBRACE", "LBRACKET")) - (piece.kind in ("RBRACE", "RBRACKET"))
        if depth > MAX_DEPTH:
            raise _limit(piece.position, f"brackets are nested more than {MAX_DEPTH} deep")
    pieces = _assign_roles(pieces)
    return pieces, [warn(piece.position, text) for piece, text in _list_doubts(pieces)]


def warn(position: Position, text: str) -> str:
    """A warning with its place."""
    return f"{position.line}:{position.column} {text}"


def _limit(position: Position, reason: str) -> InvalidFlow:
    code: ErrorCode = "LIMIT"
    return InvalidFlow(code, position, reason)


_STEP_BEGINS: Final = frozenset({"NAME", "LBRACE", "LBRACKET", "GUARD", "STAR", "MERGE"})
_OPENING: Final = frozenset({"LBRACE", "LBRACKET"})
_CLOSING: Final = frozenset({"RBRACE", "RBRACKET"})


def _assign_roles(pieces: list[Piece]) -> list[Piece]:
    """Labels become INPUT, OUTPUT, SOURCE or TARGET; a ``>`` before a destination becomes MERGED."""
    kinds = [piece.kind for piece in pieces]
    declaring = _find_declarations(kinds)
    is_ended = False
    """Whether the body of a step ends before the present piece."""
    for at, piece in enumerate(pieces):
        before = kinds[at - 1] if at and not declaring[at - 1] else ""
        after = kinds[at + 1] if at + 1 < len(kinds) else ""
        if piece.kind == "MERGE" and before == "ARROW" and after in ("LABEL", "URIREF"):
            kinds[at] = "MERGED"
        elif piece.kind == "LABEL":
            kinds[at] = _find_role(piece.text, before, after, is_ended=is_ended)
        is_body = piece.kind == "NAME" or piece.kind in _CLOSING or (piece.kind == "PARAMS" and is_ended)
        is_ended = is_body and not declaring[at]
    return [replace(piece, kind=kind) for piece, kind in zip(pieces, kinds, strict=True)]


def _find_role(name: str, before: str, after: str, *, is_ended: bool) -> str:
    if before == "MERGED":
        return "TARGET"
    if before == "ARROW":
        return "INPUT" if after in _STEP_BEGINS and name != "end" else "TARGET"
    if is_ended and not (name == "start" and after == "ARROW"):
        return "OUTPUT"
    return "SOURCE" if after == "ARROW" else "INPUT"


def _list_doubts(pieces: list[Piece]) -> Iterator[tuple[Piece, str]]:
    """Pieces that are read as the grammar says, and mostly not as their author does."""
    for at, piece in enumerate(pieces):
        before = pieces[at - 1] if at else None
        after = pieces[at + 1] if at + 1 < len(pieces) else None
        if piece.kind == "NAME" and piece.text.endswith("-"):
            yield piece, f"the name {shorten(piece.text)} ends with a hyphen: an arrow is → or ->"
        if before is not None and (doubt := _find_doubt(before, piece, after)) is not None:
            yield piece, doubt


def _find_doubt(before: Piece, piece: Piece, after: Piece | None) -> str | None:
    match piece.kind:
        case "MERGE" if before.kind not in _MERGE_FOLLOWS:
            return "> begins a statement of its own here: write → or -> for an arrow, else ; before it"
        case "OUTPUT" if piece.position.line > before.position.line + before.text.count("\n"):
            return f":{piece.text} is the output label of the step before it: a line break ends no statement, ; does"
        case "INPUT" if before.kind == "ARROW" and after is not None and after.position.line > piece.position.line:
            return f":{piece.text} is the input label of the step after it: a line break ends no statement, ; does"
        case _:
            return None


_MERGE_FOLLOWS: Final = frozenset({"ARROW", "INPUT", "SEMICOLON", "LBRACE", "LBRACKET"})
"""After these a merge mark is one of the step that it was written for."""


def _find_declarations(kinds: list[str]) -> list[bool]:
    """Which pieces are of a declaration itself: after one, a label begins a statement."""
    found = [False] * len(kinds)
    depths: list[bool] = []
    wanted: tuple[str, ...] = ()
    for at, kind in enumerate(kinds):
        if kind == "DECLARE":
            wanted = ("NAME",)
            found[at] = True
        elif kind in _OPENING:
            depths.append("SUBFLOW" in wanted)
            wanted = ()
        elif kind in _CLOSING and depths:
            found[at] = depths.pop()
            wanted = ()
        else:
            found[at] = kind in wanted
            wanted = _AFTER.get(kind, ()) if found[at] else ()
            if kind == "NAME" and found[at - 1] and kinds[at - 1] == "EQUALS":
                wanted = _AFTER["EQUALS NAME"]
    return found


_AFTER: Final = {
    "NAME": ("EQUALS", "PARAMS", "DOC", "SUBFLOW"),
    "EQUALS": ("NAME",),
    "EQUALS NAME": ("PARAMS", "DOC", "SUBFLOW"),
    "PARAMS": ("DOC", "SUBFLOW"),
    "DOC": ("SUBFLOW",),
}
"""What can follow a piece within a declaration."""

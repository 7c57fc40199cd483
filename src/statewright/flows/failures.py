"""What can be wrong with a flow (docs/reference/flows.md#errors)."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

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

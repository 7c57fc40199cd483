"""What is wrong with the text of a flow, and where."""

from typing import Literal

from msgspec import Struct

ErrorCode = Literal[
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


class Position(Struct, frozen=True):
    """A place in a text; both count from 1, the column in characters."""

    line: int
    column: int


class FlowError(ValueError):
    """A text that is no flow. One error is reported: the first that was found."""

    def __init__(self, code: ErrorCode, position: Position, reason: str) -> None:
        super().__init__(f"{position.line}:{position.column} {reason}")
        self.code: ErrorCode = code
        self.position = position
        self.reason = reason


class FlowWarning(Struct, frozen=True):
    """What a flow may well mean otherwise than its author thinks; it is accepted all the same."""

    code: Literal["UNREACHABLE", "ENDLESS_CYCLE", "END_UNREACHABLE", "DUPLICATE_DECLARATION", "MIXED_OPERATORS"]
    position: Position
    text: str

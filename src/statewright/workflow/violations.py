"""What is wrong with workflows, and where: each violation has a code and a JSON pointer into the document of an import
(docs/reference/operations.md#checking-workflows). An import tells the message of the first one only.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.failures import ValidationFailed

ViolationCode: TypeAlias = Literal[
    "INVALID_STRUCTURE",
    "UNKNOWN_NEXT",
    "DUPLICATE_NAME",
    "UNGUARDED_CYCLE",
    "INVALID_CRITERION",
    "INVALID_ANNOTATION",
    "UNSUPPORTED_VERSION",
    "INVALID_MODE",
]


class Violation(Struct, frozen=True):
    """One thing for which an import is refused."""

    code: ViolationCode
    pointer: str
    message: str


def point_below(pointer: str, *steps: str | int) -> str:
    """A JSON pointer (RFC 6901) to something further down."""
    tokens = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join([pointer, *(f"/{token}" for token in tokens)])


def point_at_workflow(index: int) -> str:
    """The place of a workflow in the document of an import."""
    return f"/workflows/{index}"


def refuse_first(violations: Iterable[Violation]) -> None:
    """Raises ValidationFailed with the first violation, if there is one.

    Rules yield violations lazily, so the others are not looked for.
    """
    for violation in violations:
        raise ValidationFailed(violation.message)

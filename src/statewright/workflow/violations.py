"""What is wrong with workflows, and where: each violation has a code and a JSON pointer into the document of an import
(docs/reference/operations.md#checking-workflows). An import tells the message of the first one only.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

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


MAX_STEP_CHARS: Final = 1_000
"""Characters of a name in a pointer: a name may be as long as the document, and have thousands of things below it."""


def point_below(pointer: str, *steps: str | int) -> str:
    """A JSON pointer (RFC 6901) to something further down; very long names are cut."""
    names = (str(step) for step in steps)
    cut = (name if len(name) <= MAX_STEP_CHARS else f"{name[:MAX_STEP_CHARS]}…" for name in names)
    tokens = (name.replace("~", "~0").replace("/", "~1") for name in cut)
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

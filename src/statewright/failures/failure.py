"""What all failures have in common."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

Property = str | int | bool | Sequence[str]

MAX_MESSAGE = 16_384
"""Characters of a message: it is logged as well as answered, and may quote what the client sent."""


class Failure(Exception):
    """A request that cannot be carried out, for a reason its caller may know."""

    code: ClassVar[str] = "SERVER_ERROR"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, properties: Mapping[str, Property] | None = None) -> None:
        self.message = message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}…"
        super().__init__(self.message)
        self.properties: Mapping[str, Property] = properties or {}
        self.warnings: tuple[str, ...] = ()
        """What members warned of before it came to this; told over gRPC, like those of a success."""

    @property
    def detail(self) -> str:
        """``<CODE>: <message>``, as both doors report it."""
        return f"{self.code}: {self.message}"


def kinds(kind: type[Failure] = Failure) -> list[type[Failure]]:
    """The kind and all below it, a parent before its children."""
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in kinds(child))]

"""The root of all failures: what each of them says of itself."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from statewright.failures.failed_runs import FailedAttempt, FailedRun

Property = str | int | bool | Sequence[str]

MAX_MESSAGE_CHARS: Final = 16_384
"""Characters of a message, which is logged as well as sent, and may quote what the client sent."""


class Failure(Exception):
    """A request that cannot be carried out, for a reason its caller may know."""

    code: ClassVar[str] = "SERVER_ERROR"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    failed_run: FailedRun | None = None
    """Where a run failed, when it was by something outside it."""
    is_on_record: bool = False
    """Whether what operators are told of it has been stored."""
    attempts: tuple[FailedAttempt, ...] = ()
    """At a callout that was tried several times."""
    retry_after_s: ClassVar[int | None] = None
    """After how many seconds to try again, where that is known."""
    names_its_code: ClassVar[bool] = False
    """Whether clients of process languages, whose errors have no code, find it in the reason."""

    def __init__(self, message: str, properties: Mapping[str, Property] | None = None) -> None:
        self.message = message if len(message) <= MAX_MESSAGE_CHARS else f"{message[:MAX_MESSAGE_CHARS]}…"
        super().__init__(self.message)
        self.properties: Mapping[str, Property] = properties or {}
        self.warnings: tuple[str, ...] = ()
        """Warnings of members before the failure; sent over gRPC, like those of a success."""

    @property
    def detail(self) -> str:
        """``<CODE>: <message>``, as HTTP and gRPC report it."""
        return f"{self.code}: {self.message}"


def list_kinds(kind: type[Failure] = Failure) -> list[type[Failure]]:
    """The kind and all below it, a parent before its children."""
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in list_kinds(child))]

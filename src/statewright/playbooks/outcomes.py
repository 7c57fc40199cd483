"""What a task comes to (docs/reference/playbooks.md#outcomes)."""

from typing import Final, Literal

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue

MAX_MESSAGE_CHARS: Final = 10_000


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of one execution of a task."""

    status: Literal["ok", "error"]
    result: JsonValue = None
    error: "JsonObject | None" = None
    """Of an error: ``kind`` always; ``code``, ``message``, ``retryable`` and ``status`` where they are known."""
    http: "JsonObject | None" = None
    """Of HTTP tasks: ``status`` and ``headers`` of the response."""
    meta: JsonObject = {}
    """``attempt``, ``duration_ms`` and ``ts``, as far as whoever ran it has measured."""

    @property
    def is_ok(self) -> bool:
        """Whether it has a result."""
        return self.status == "ok"

    def to_document(self) -> JsonObject:
        """As templates see it (``outcome``, ``output``), with both names of the result."""
        document: JsonObject = {"status": self.status, "result": self.result, "data": self.result, "meta": self.meta}
        if self.error is not None:
            document["error"] = self.error
        if self.http is not None:
            document["http"] = self.http
        return document


def succeed(result: JsonValue = None, *, http: "JsonObject | None" = None) -> Outcome:
    """An outcome with a result."""
    return Outcome(status="ok", result=result, http=http)


def fail(
    kind: str,
    message: str,
    *,
    code: str | None = None,
    retryable: bool | None = None,
    status: int | None = None,
    result: JsonValue = None,
    http: "JsonObject | None" = None,
) -> Outcome:
    """An outcome with an error. ``result``: what there is of a result nonetheless, as the body of an HTTP error."""
    error: JsonObject = {"kind": kind, "message": message[:MAX_MESSAGE_CHARS]}
    known: JsonObject = {"code": code, "retryable": retryable, "status": status}
    error |= {name: value for name, value in known.items() if value is not None}
    return Outcome(status="error", result=result, error=error, http=http)

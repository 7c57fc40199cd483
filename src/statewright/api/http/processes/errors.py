"""The form of the errors of process languages: ``error``, ``reason``, and what a language adds
(docs/reference/steps.md#conventions).
"""

from typing import Final

from statewright import logs
from statewright.api.http.processes.bodies import reply
from statewright.api.http.response import Response

KINDS: Final = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    413: "too-large",
    415: "unsupported-format",
    421: "misdirected-request",
    429: "too-many-requests",
    503: "unavailable",
    504: "timeout",
}
"""What ``error`` says for a status; 401, 403, 405, 413, 421, 429, 503 and 504 are ours."""

INTERNAL: Final = "internal-error"
RETRY_AFTER: Final = ((b"retry-after", b"1"),)

log = logs.logger(__name__)


def build_error(status: int, reason: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """An error with the reason as its clients know it."""
    answer = reply({"error": KINDS.get(status, INTERNAL), "reason": reason}, status)
    return Response(answer.body, status, answer.media_type, headers)


def build_internal_error(cause: BaseException, path: str, verbose: bool) -> Response:
    """The error of a defect: a ticket to the client, the cause to the log."""
    ticket = log.error_with_ticket("internal_error", path=path, exc_info=cause)
    return build_error(500, repr(cause) if verbose else f"internal error [ticket: {ticket}]")

"""Failures as errors of the step dialect: ``error`` and ``reason``, never a third member (spec/step-engine.md §1)."""

import uuid
from typing import Final

import structlog

from statewright.api.http.exchange import Answer
from statewright.api.http.steps.bodies import reply
from statewright.failures import Failure

KINDS: Final = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    409: "conflict",
    413: "too-large",
    415: "unsupported-format",
    503: "unavailable",
    504: "timeout",
}
"""What ``error`` says for a status; 401, 403, 413, 503 and 504 are ours."""

INTERNAL: Final = "internal-error"
RETRY_SOON: Final = ((b"retry-after", b"1"),)

log = structlog.get_logger(__name__)


def refused(failure: Failure, path: str) -> Answer:
    """The error of an expected failure."""
    if failure.status not in KINDS:
        return internal_error(failure, path)
    log.info("request_refused", status=failure.status, code=failure.code, message=failure.message, path=path)
    headers = RETRY_SOON if failure.retryable else ()
    return error(failure.status, failure.message, headers)


def error(status: int, reason: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
    """An error with the reason as its clients know it."""
    answer = reply({"error": KINDS.get(status, INTERNAL), "reason": reason}, status)
    return Answer(answer.body, status, answer.media_type, headers)


def internal_error(cause: BaseException, path: str, *, verbose: bool = False) -> Answer:
    """The error of a defect: a ticket to the client, the cause to the log."""
    ticket = str(uuid.uuid4())
    log.error("internal_error", ticket=ticket, path=path, exc_info=cause)
    return error(500, repr(cause) if verbose else f"internal error [ticket: {ticket}]")

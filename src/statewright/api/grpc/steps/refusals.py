"""Failures as gRPC statuses (spec/step-engine.md §12.4)."""

from typing import Final
from uuid import uuid4

import structlog
from grpc import StatusCode

from statewright.failures import BusinessKeyInUse, Failure

CODES: Final = {
    400: StatusCode.INVALID_ARGUMENT,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    409: StatusCode.FAILED_PRECONDITION,
    413: StatusCode.INVALID_ARGUMENT,
    503: StatusCode.UNAVAILABLE,
}

log = structlog.get_logger(__name__)


def refusal(failure: Failure, method: str) -> tuple[StatusCode, str]:
    """Code and message of an expected failure."""
    code = _code(failure)
    if code is None:
        return defect(failure, method)
    log.info("request_refused", method=method, code=failure.code, message=failure.message)
    return code, failure.message


def defect(error: BaseException, method: str) -> tuple[StatusCode, str]:
    """Code and message of a defect: a ticket to the client, the cause to the log."""
    ticket = str(uuid4())
    log.error("internal_error", ticket=ticket, method=method, exc_info=error)
    return StatusCode.INTERNAL, f"internal error: [ticket: {ticket}]"


def _code(failure: Failure) -> StatusCode | None:
    if isinstance(failure, BusinessKeyInUse):
        return StatusCode.ALREADY_EXISTS
    if failure.status == 409 and failure.retryable:
        return StatusCode.ABORTED
    return CODES.get(failure.status)

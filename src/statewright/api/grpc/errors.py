"""Failures as the ``error`` of a response (docs/reference/grpc.md#failures), and as gRPC statuses of the step engine
(docs/reference/steps.md#statuses). No other module translates failures into gRPC.
"""

from typing import Final

from grpc import StatusCode
from msgspec import UNSET

from statewright import logs
from statewright.api.grpc.responses import Error
from statewright.failures import BusinessKeyInUse, Failure

log = logs.logger(__name__)

INTERNAL_STATUS: Final = 500
"""Status of failures whose cause clients are not told."""


def to_client_error(failure: Failure, method: str, event_type: str) -> Error:
    """The error for an expected failure. ``method`` and ``event_type`` are those of the request, for the log."""
    if failure.status == INTERNAL_STATUS:
        return to_server_error(failure, method, event_type)
    log.info("request_refused", method=method, type=event_type, code=failure.code, message=failure.message)
    return Error("CLIENT_ERROR", failure.detail, True if failure.retryable else UNSET)


def to_server_error(error: BaseException, method: str, event_type: str) -> Error:
    """A defect: a ticket to the client, the cause to the log."""
    ticket = log.error_with_ticket("internal_error", method=method, type=event_type, exc_info=error)
    return Error("SERVER_ERROR", f"SERVER_ERROR: internal error [ticket: {ticket}]")


STATUS_CODES: Final = {
    400: StatusCode.INVALID_ARGUMENT,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    409: StatusCode.FAILED_PRECONDITION,
    413: StatusCode.INVALID_ARGUMENT,
    503: StatusCode.UNAVAILABLE,
}


def to_status(failure: Failure, method: str) -> tuple[StatusCode, str]:
    """Code and message of an expected failure."""
    code = _select_code(failure)
    if code is None:
        return to_internal_status(failure, method)
    log.info("request_refused", method=method, code=failure.code, message=failure.message)
    return code, failure.detail if failure.names_its_code else failure.message


def to_internal_status(error: BaseException, method: str) -> tuple[StatusCode, str]:
    """Code and message of a defect: a ticket to the client, the cause to the log."""
    ticket = log.error_with_ticket("internal_error", method=method, exc_info=error)
    return StatusCode.INTERNAL, f"internal error: [ticket: {ticket}]"


def _select_code(failure: Failure) -> StatusCode | None:
    if isinstance(failure, BusinessKeyInUse):
        return StatusCode.ALREADY_EXISTS
    if failure.status == 409 and failure.retryable:
        return StatusCode.ABORTED
    return STATUS_CODES.get(failure.status)

"""Failures as the ``error`` of a response (spec/grpc.md §12). The only translation of failures into gRPC."""

from uuid import uuid4

import structlog
from msgspec import UNSET

from statewright.api.grpc.answers import Error
from statewright.failures import Failure

log = structlog.get_logger(__name__)

INTERNAL = 500
"""Status of failures that are no business of the client."""


def client_error(failure: Failure, event_type: str) -> Error:
    """What the client did, or what it may try again. ``event_type`` is that of the request, for the log."""
    if failure.status == INTERNAL:
        return server_error(failure, event_type)
    log.info("request_refused", type=event_type, code=failure.code, message=failure.message)
    return Error("CLIENT_ERROR", failure.detail, True if failure.retryable else UNSET)


def server_error(error: BaseException, event_type: str) -> Error:
    """A defect: a ticket to the client, the cause to the log."""
    ticket = str(uuid4())
    log.error("internal_error", ticket=ticket, type=event_type, exc_info=error)
    return Error("SERVER_ERROR", f"SERVER_ERROR: internal error [ticket: {ticket}]")

"""Failures as problem documents (RFC 9457, spec/entities.md Appendix A). The only translation of failures into HTTP."""

import uuid
from http import HTTPStatus

import structlog

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer
from statewright.failures import Failure

PROBLEM = "application/problem+json"

_TITLES = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
"""Reason phrases that newer registries, and so newer Pythons, spell differently."""

log = structlog.get_logger(__name__)


def problem(failure: Failure, instance: str) -> Answer:
    """The problem document of an expected failure; ``instance`` is the request path below the context path."""
    if failure.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return _sanitised(failure, instance)
    log.info("request_refused", status=failure.status, code=failure.code, message=failure.message, path=instance)
    properties: dict[str, object] = {"errorCode": failure.code, **failure.properties}
    if failure.retryable:
        properties["retryable"] = True
    return _answer(failure.status, failure.detail, instance, properties)


def _sanitised(failure: Failure, instance: str) -> Answer:
    """A failure that is the fault of neither the client nor this service has a code, but tells no more."""
    ticket = str(uuid.uuid4())
    log.error("request_failed", ticket=ticket, code=failure.code, message=failure.message, path=instance)
    detail = f"SERVER_ERROR: internal error [ticket: {ticket}]"
    return _answer(failure.status, detail, instance, {"errorCode": failure.code}, ticket=ticket)


def internal_error(error: BaseException, instance: str, *, verbose: bool) -> Answer:
    """The problem document of a defect: a ticket to the client, the cause to the log."""
    ticket = str(uuid.uuid4())
    log.error("internal_error", ticket=ticket, path=instance, exc_info=error)
    detail = f"SERVER_ERROR: {error!r}" if verbose else f"SERVER_ERROR: internal error [ticket: {ticket}]"
    return _answer(500, detail, instance, {"errorCode": "SERVER_ERROR"}, ticket=ticket)


def _answer(
    status: int, detail: str, instance: str, properties: dict[str, object], *, ticket: str | None = None
) -> Answer:
    document: dict[str, object] = {
        "type": "about:blank",
        "title": _TITLES.get(status, HTTPStatus(status).phrase),
        "status": status,
        "detail": detail,
        "instance": instance,
        "properties": properties,
    }
    if ticket is not None:
        document["ticket"] = ticket
    return Answer(json_body(document), status, PROBLEM)

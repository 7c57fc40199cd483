"""Failures as problem documents (RFC 9457, docs/reference/entities.md#errors). The only translation of failures into
HTTP.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from statewright import logs
from statewright.api.http.application import ErrorFormat
from statewright.api.http.response import Response, encode_json
from statewright.api.http.warnings import build_warning_headers
from statewright.failures import Failure

PROBLEM = "application/problem+json"

_TITLES = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
"""Reason phrases that newer registries, and so newer Pythons, spell differently."""

log = logs.logger(__name__)


def build_problem(failure: Failure, instance: str) -> Response:
    """The problem document of an expected failure; ``instance`` is the request path below the context path."""
    if failure.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return _build_sanitised(failure, instance)
    log.info("request_refused", status=failure.status, code=failure.code, message=failure.message, path=instance)
    properties: dict[str, object] = {"errorCode": failure.code, **failure.properties}
    if failure.retryable:
        properties["retryable"] = True
    return _build_document(failure.status, failure.detail, instance, properties, warnings=failure.warnings)


def _build_sanitised(failure: Failure, instance: str) -> Response:
    """A failure that is the fault of neither the client nor this service has a code, but tells no more."""
    ticket = log.error_with_ticket("request_failed", code=failure.code, message=failure.message, path=instance)
    detail = f"SERVER_ERROR: internal error [ticket: {ticket}]"
    return _build_document(failure.status, detail, instance, {"errorCode": failure.code}, ticket=ticket)


def build_internal_error(error: BaseException, instance: str, verbose: bool) -> Response:
    """The problem document of a defect: a ticket to the client, the cause to the log."""
    ticket = log.error_with_ticket("internal_error", path=instance, exc_info=error)
    detail = f"SERVER_ERROR: {error!r}" if verbose else f"SERVER_ERROR: internal error [ticket: {ticket}]"
    return _build_document(500, detail, instance, {"errorCode": "SERVER_ERROR"}, ticket=ticket)


def _build_document(
    status: int,
    detail: str,
    instance: str,
    properties: dict[str, object],
    *,
    ticket: str | None = None,
    warnings: Sequence[str] = (),
) -> Response:
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
    return Response(encode_json(document), status, PROBLEM, build_warning_headers(warnings))


ENTITY_ERRORS: Final = ErrorFormat(
    failure=build_problem, unauthenticated=build_problem, defect=build_internal_error, timeout=None
)

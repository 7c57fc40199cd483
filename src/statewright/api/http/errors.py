"""Failures as problem documents (RFC 9457, docs/reference/entities.md#errors). The only translation of failures into
HTTP.
"""

from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from msgspec.structs import replace

from statewright.api.http.application import ErrorFormat
from statewright.api.http.response import Response, build_warning_headers, encode_json
from statewright.failures import Failure
from statewright.telemetry import logs

PROBLEM: Final = "application/problem+json"

_TITLES: Final = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
"""Reason phrases that newer registries, and so newer Pythons, spell differently."""

log = logs.logger(__name__)


def build_problem(failure: Failure, instance: str, *, context_path: str = "") -> Response:
    """The problem document of an expected failure; ``instance`` is the path of the request. Pages of help, which
    ``type`` links to, are below the context path.
    """
    if failure.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return _build_sanitised(failure, instance, context_path)
    log.info("request_refused", status=failure.status, code=failure.code, message=failure.message, path=instance)
    properties: dict[str, object] = {"errorCode": failure.code, **failure.properties}
    if failure.retryable:
        properties["retryable"] = True
    problem = _build_document(
        failure.status, failure.detail, instance, properties, context_path=context_path, warnings=failure.warnings
    )
    if failure.retry_after_s is None:
        return problem
    return replace(problem, headers=(*problem.headers, (b"retry-after", b"%d" % failure.retry_after_s)))


def _build_sanitised(failure: Failure, instance: str, context_path: str) -> Response:
    """A failure that is the fault of neither the client nor this service has a code, but tells no more."""
    ticket = log.error_with_ticket("request_failed", code=failure.code, message=failure.message, path=instance)
    detail = f"SERVER_ERROR: internal error [ticket: {ticket}]"
    properties: dict[str, object] = {"errorCode": failure.code}
    return _build_document(failure.status, detail, instance, properties, context_path=context_path, ticket=ticket)


def build_internal_error(error: BaseException, instance: str, verbose: bool, *, context_path: str = "") -> Response:
    """The problem document of a defect: a ticket to the client, the cause to the log."""
    ticket = log.error_with_ticket("internal_error", path=instance, exc_info=error)
    detail = f"SERVER_ERROR: {error!r}" if verbose else f"SERVER_ERROR: internal error [ticket: {ticket}]"
    properties: dict[str, object] = {"errorCode": "SERVER_ERROR"}
    return _build_document(500, detail, instance, properties, context_path=context_path, ticket=ticket)


def _build_document(
    status: int,
    detail: str,
    instance: str,
    properties: dict[str, object],
    *,
    context_path: str,
    ticket: str | None = None,
    warnings: Sequence[str] = (),
) -> Response:
    document: dict[str, object] = {
        "type": f"{context_path}/help/errors.{properties['errorCode']}",
        "title": _TITLES.get(status, HTTPStatus(status).phrase),
        "status": status,
        "detail": detail,
        "instance": instance,
        "properties": properties,
    }
    if ticket is not None:
        document["ticket"] = ticket
    return Response(encode_json(document), status, PROBLEM, build_warning_headers(warnings))


def build_error_format(context_path: str) -> ErrorFormat:
    """Problem documents whose ``type`` links to the pages of help below the context path."""
    failure = partial(build_problem, context_path=context_path)
    return ErrorFormat(
        failure=failure,
        unauthenticated=failure,
        defect=partial(build_internal_error, context_path=context_path),
        timeout=None,
    )

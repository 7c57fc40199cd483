"""Failures as errors: ``error`` and ``reason`` as in the step dialect, and what else is known of the failure."""

from typing import Final

from statewright import logs
from statewright.api.http.application import ErrorFormat
from statewright.api.http.processes.bodies import reply
from statewright.api.http.processes.errors import KINDS, RETRY_AFTER, build_error, build_internal_error
from statewright.api.http.response import Response
from statewright.failures import Failure
from statewright.jsonval.values import JsonObject

log = logs.logger(__name__)


def build_failure(failure: Failure, path: str) -> Response:
    """The error of an expected failure, with its properties."""
    if failure.status not in KINDS:
        return build_internal_error(failure, path, False)
    log.info("request_refused", status=failure.status, code=failure.code, message=failure.message, path=path)
    known: JsonObject = {
        name: value if isinstance(value, str | int) else list(value) for name, value in failure.properties.items()
    }
    answer = reply({"error": KINDS[failure.status], "reason": failure.message, **known}, failure.status)
    return Response(answer.body, failure.status, answer.media_type, RETRY_AFTER if failure.retryable else ())


FLOW_ERRORS: Final = ErrorFormat(
    failure=build_failure,
    unauthenticated=lambda _failure, _path: build_error(401, "authentication required"),
    timeout=lambda: build_error(504, "the request took too long"),
    defect=build_internal_error,
)

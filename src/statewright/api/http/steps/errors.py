"""Failures as errors of the step dialect: ``error`` and ``reason``, never a third member
(docs/reference/steps.md#conventions).
"""

from typing import Final

from statewright import logs
from statewright.api.http.application import ErrorFormat
from statewright.api.http.processes.errors import KINDS, RETRY_AFTER, build_error, build_internal_error
from statewright.api.http.response import Response
from statewright.failures import Failure

log = logs.logger(__name__)


def build_failure(failure: Failure, path: str) -> Response:
    """The error of an expected failure."""
    if failure.status not in KINDS:
        return build_internal_error(failure, path, False)
    log.info("request_refused", status=failure.status, code=failure.code, message=failure.message, path=path)
    headers = RETRY_AFTER if failure.retryable else ()
    return build_error(failure.status, failure.detail if failure.names_its_code else failure.message, headers)


STEP_ERRORS: Final = ErrorFormat(
    failure=build_failure,
    unauthenticated=lambda _failure, _path: build_error(401, "authentication required"),
    timeout=lambda: build_error(504, "the request took too long"),
    defect=build_internal_error,
)

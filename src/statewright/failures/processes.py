"""The failures of processes (docs/reference/steps.md#conventions).

The codes are those of the step engine, which was there first.
"""

from typing import ClassVar

from statewright.failures.failure import Failure
from statewright.failures.requests import BadRequest


class ProcessBadRequest(BadRequest):
    """A request of a process language is malformed; the message is the reason (docs/reference/steps.md#conventions)."""

    kind: ClassVar[str] = "bad-request"


class InstanceTooLarge(ProcessBadRequest):
    """An instance would become larger than one may be, by its input or by a result."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"RESULT_TOO_LARGE: the instance would have {size} characters, of {limit} that one may have")


class ProcessNotFound(Failure):
    """There is no such definition, instance, job or task."""

    code, status = "STEP_NOT_FOUND", 404
    kind: ClassVar[str] = "not-found"


class ProcessConflict(Failure):
    """What is asked for is not possible in the state of the instance, task or job."""

    code, status = "STEP_CONFLICT", 409
    kind: ClassVar[str] = "conflict"


class BusinessKeyInUse(ProcessConflict):
    """Another instance in flight of the same definition has the key (docs/reference/steps.md#chaining)."""

    def __init__(self) -> None:
        super().__init__("business key already in use by an in-flight instance of this definition")

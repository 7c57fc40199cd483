"""The step engine (spec/step-engine.md §1)."""

from typing import ClassVar

from statewright.failures.failure import Failure
from statewright.failures.requests import BadRequest


class StepBadRequest(BadRequest):
    """What is asked of the step engine makes no sense; the message is the reason (spec/step-engine.md §1)."""

    kind: ClassVar[str] = "bad-request"


class StepNotFound(Failure):
    """The step engine knows no such definition, instance, job or task."""

    code, status = "STEP_NOT_FOUND", 404
    kind: ClassVar[str] = "not-found"


class StepConflict(Failure):
    """What is asked of the step engine is not possible in the state an instance, a task or a job is in."""

    code, status = "STEP_CONFLICT", 409
    kind: ClassVar[str] = "conflict"


class BusinessKeyInUse(StepConflict):
    """Another instance in flight of the same definition has the key (spec/step-engine.md §15)."""

    def __init__(self) -> None:
        super().__init__("business key already in use by an in-flight instance of this definition")

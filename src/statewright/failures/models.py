"""The failures of models and of documents that do not fit them (docs/reference/models.md#models), of entities and their
versions (docs/reference/entities.md#entities-and-messages), of workflows and the runs that they stop
(docs/reference/workflows.md#workflows), and of processes (docs/reference/steps.md#conventions), whose codes are those
of the step engine, which was there first.
"""

from typing import ClassVar

from statewright.failures.failure import BadRequest, Failure
from statewright.instants import to_rfc3339


class IncompatibleType(Failure):
    """A leaf value fits none of the types its model declares (docs/reference/models.md#strict-validation)."""

    code, status = "INCOMPATIBLE_TYPE", 400


class PolymorphicSlot(Failure):
    """A scalar, an object and an array meet at one place of a growing model
    (docs/reference/models.md#refusals-under-a-change-level).
    """

    code, status = "POLYMORPHIC_SLOT", 400


class InvalidChangeLevel(Failure):
    """The change level is none of the four (docs/reference/models.md#set-the-change-level)."""

    code, status = "INVALID_CHANGE_LEVEL", 400


class ModelNotFound(Failure):
    """The tenant has no such model."""

    code, status = "MODEL_NOT_FOUND", 404


class ModelNotLocked(Failure):
    """Entities need a locked model."""

    code, status = "MODEL_NOT_LOCKED", 409

    def __init__(self, name: str | None = None, version: int = 0) -> None:
        if name is None:
            super().__init__("model is not locked")
            return
        mend = f"lock it by PUT /model/{name}/{version}/lock"
        super().__init__(
            f"model is not locked: {name}/{version}; {mend}", {"entityName": name, "entityVersion": version}
        )


class ModelAlreadyLocked(Failure):
    """The operation needs an unlocked model."""

    code, status = "MODEL_ALREADY_LOCKED", 409


class ModelAlreadyUnlocked(Failure):
    """The model is not locked."""

    code, status = "MODEL_ALREADY_UNLOCKED", 409


class ModelHasEntities(Failure):
    """The model cannot be unlocked or deleted while it has live entities."""

    code, status = "MODEL_HAS_ENTITIES", 409


class UniqueViolation(Failure):
    """Another live entity of the model has the same values in a unique key (docs/reference/models.md#enforcement)."""

    code, status = "UNIQUE_VIOLATION", 409

    def __init__(self) -> None:
        super().__init__("a composite unique key constraint was violated")


class EntityNotFound(Failure):
    """The tenant has no such entity, or had none at the asked instant."""

    code, status = "ENTITY_NOT_FOUND", 404

    @classmethod
    def of(cls, entity_id: str) -> "EntityNotFound":
        """That of an entity which a request names."""
        return cls(f"entity id={entity_id} not found", {"entityId": entity_id})


class EntityModified(Failure):
    """``If-Match`` names a version that is no longer current."""

    code, status = "ENTITY_MODIFIED", 412

    def __init__(self, entity_id: str, *, expected: str | None = None, actual: str | None = None) -> None:
        super().__init__("entity has been modified since last read", {"entityId": entity_id})
        self.expected = expected
        self.actual = actual


class Conflict(Failure):
    """Another transaction committed first; repeating the request makes sense."""

    code, status, retryable = "CONFLICT", 409, True

    def __init__(self, message: str = "transaction conflict — retry") -> None:
        super().__init__(message)


class VersionNotFound(Failure):
    """The entity has no such version, or keeps it no longer."""

    code, status = "VERSION_NOT_FOUND", 404


class HistoryPruned(Failure):
    """Versions of the asked instant have been removed by the retention of history; both instants in epoch microseconds.

    ``kept_from`` is the first instant at which everything is kept, where that is known.
    """

    code, status = "HISTORY_PRUNED", 410

    def __init__(self, instant: int, kept_from: int | None = None) -> None:
        since = "" if kept_from is None else f"; versions are kept from {to_rfc3339(kept_from)} on"
        properties = {} if kept_from is None else {"keptFrom": to_rfc3339(kept_from)}
        super().__init__(f"versions of {to_rfc3339(instant)} have been removed{since}", properties)


class ValidationFailed(Failure):
    """A workflow import breaks a static rule (docs/reference/workflows.md#order-of-checks-of-an-import)."""

    code, status = "VALIDATION_FAILED", 400


class SchemaVersionUnsupported(Failure):
    """A workflow declares an import contract newer than this server knows (docs/reference/workflows.md#version)."""

    code, status = "WORKFLOW_SCHEMA_VERSION_UNSUPPORTED", 400


class WorkflowNotFound(Failure):
    """No workflow was imported for the model."""

    code, status = "WORKFLOW_NOT_FOUND", 404


class TransitionNotFound(Failure):
    """The named transition cannot be fired by name in the entity's current state."""

    code, status = "TRANSITION_NOT_FOUND", 404


class WorkflowFailed(Failure):
    """A run ended because a criterion, a processor or a limit stopped it; nothing of it is kept."""

    code, status = "WORKFLOW_FAILED", 400


class CriterionNotMatched(WorkflowFailed):
    """The criterion of the transition that was named does not hold for the entity."""

    def __init__(self, transition: str, reason: str | None = None) -> None:
        super().__init__(f'transition "{transition}" criterion not matched' + (f": {reason}" if reason else ""))


class StateWithoutWorkflow(WorkflowFailed):
    """A transition was named of an entity in a state that no workflow of its model has."""

    def __init__(self, state: str, model: str) -> None:
        super().__init__(f'no workflow contains state "{state}" for model {model}')


class RunCutOff(WorkflowFailed):
    """The wait for a run that commits in segments ended before the run: what it has committed stays, and it may commit
    more. Repeating the request would begin another run; an entity that the transaction names shows that this one came
    to its end, and the transaction's events how far it came.
    """

    def __init__(self, transaction: str) -> None:
        super().__init__(
            f"the service is stopping; what transaction {transaction} has committed stays",
            {"cause": "SERVICE_STOPPING", "transactionId": transaction},
        )


class ScheduleFunctionInvalidResult(Failure):
    """A schedule function answered something that is no schedule (docs/reference/workflows.md#schedule-functions)."""

    code, status = "SCHEDULE_FUNCTION_INVALID_RESULT", 500

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(f"schedule function {function}: {reason}")


class ProcessBadRequest(BadRequest):
    """A request of a process language is malformed; the message is the reason (docs/reference/steps.md#conventions)."""

    kind: ClassVar[str] = "bad-request"


class InvalidMember(ProcessBadRequest):
    """A member of the body of such a request is wrong; an empty name is the body itself."""

    def __init__(self, member: str, message: str) -> None:
        super().__init__(message, {"parameter": f"/{member}"})


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

"""Every way a request can fail, one class per kind.

Failure
├── BadRequest                      400 BAD_REQUEST
│   ├── InvalidParameter            400 BAD_REQUEST, names the parameter
│   ├── MethodNotAllowed            405 BAD_REQUEST
│   ├── BodyTooLarge                413 BAD_REQUEST
│   └── StepBadRequest              400 BAD_REQUEST
├── IncompatibleType                400 INCOMPATIBLE_TYPE
├── PolymorphicSlot                 400 POLYMORPHIC_SLOT
├── ValidationFailed                400 VALIDATION_FAILED
├── SchemaVersionUnsupported        400 WORKFLOW_SCHEMA_VERSION_UNSUPPORTED
├── InvalidCondition                400 INVALID_CONDITION
├── InvalidFieldPath                400 INVALID_FIELD_PATH
├── ConditionTypeMismatch           400 CONDITION_TYPE_MISMATCH
├── MalformedRequest                400 MALFORMED_REQUEST
├── MissingGroupBy                  400 MISSING_GROUP_BY
├── InvalidGroupByPath              400 INVALID_GROUP_BY_PATH
├── DuplicateGroupBy                400 DUPLICATE_GROUP_BY
├── InvalidAggregationOp            400 INVALID_AGGREGATION_OP
├── InvalidAggregationField         400 INVALID_AGGREGATION_FIELD
├── DuplicateAggregationAlias       400 DUPLICATE_AGGREGATION_ALIAS
├── InvalidLimit                    400 INVALID_LIMIT
├── SearchResultLimit               400 SEARCH_RESULT_LIMIT
├── ScanBudgetExhausted             400 SCAN_BUDGET_EXHAUSTED
├── SearchJobAlreadyTerminal        400 SEARCH_JOB_ALREADY_TERMINAL
├── InvalidChangeLevel              400 INVALID_CHANGE_LEVEL
├── WorkflowFailed                  400 WORKFLOW_FAILED
│   └── RunCutOff                   400 WORKFLOW_FAILED, names the transaction
├── Unauthorized                    401 UNAUTHORIZED
├── Forbidden                       403 FORBIDDEN
├── ModelNotFound                   404 MODEL_NOT_FOUND
├── EntityNotFound                  404 ENTITY_NOT_FOUND
├── TransitionNotFound              404 TRANSITION_NOT_FOUND
├── WorkflowNotFound                404 WORKFLOW_NOT_FOUND
├── HelpTopicNotFound               404 HELP_TOPIC_NOT_FOUND
├── SearchJobNotFound               404 SEARCH_JOB_NOT_FOUND
├── SearchIndexNotFound             404 SEARCH_INDEX_NOT_FOUND
├── TransactionNotFound             404 TRANSACTION_NOT_FOUND
├── StepNotFound                    404 STEP_NOT_FOUND
├── ModelNotLocked                  409 MODEL_NOT_LOCKED
├── ModelAlreadyLocked              409 MODEL_ALREADY_LOCKED
├── ModelAlreadyUnlocked            409 MODEL_ALREADY_UNLOCKED
├── ModelHasEntities                409 MODEL_HAS_ENTITIES
├── UniqueViolation                 409 UNIQUE_VIOLATION
├── Conflict                        409 CONFLICT, retryable
├── StepConflict                    409 STEP_CONFLICT
│   └── BusinessKeyInUse            409 STEP_CONFLICT
├── TransactionExpired              410 TRANSACTION_EXPIRED
├── HistoryPruned                   410 HISTORY_PRUNED
├── EntityModified                  412 ENTITY_MODIFIED
├── UnsupportedMediaType            415 UNSUPPORTED_MEDIA_TYPE
├── GroupCardinalityExceeded        422 GROUP_CARDINALITY_EXCEEDED
├── PreconditionRequired            428 PRECONDITION_REQUIRED
├── NotImplementedHere              501 NOT_IMPLEMENTED
├── NoComputeMember                 503 NO_COMPUTE_MEMBER_FOR_TAG, retryable
├── ComputeMemberDisconnected       503 COMPUTE_MEMBER_DISCONNECTED, retryable
│   └── ForwardFailed               503 DISPATCH_FORWARD_FAILED, retryable
├── DispatchTimeout                 503 DISPATCH_TIMEOUT, retryable
├── TransactionNodeUnavailable      503 TRANSACTION_NODE_UNAVAILABLE
├── SearchTimeout                   503 SEARCH_SHARD_TIMEOUT, retryable
├── StorageUnavailable              503 STORAGE_UNAVAILABLE, retryable
├── OutcomeUnknown                  503 STORAGE_UNAVAILABLE, names the transaction
└── ScheduleFunctionInvalidResult   500 SCHEDULE_FUNCTION_INVALID_RESULT, its message for the log only

``api.http`` and ``api.grpc`` each hold one translation for all of them; nobody else turns a failure into a reply.
Codes and statuses: spec/entities.md Appendix B, corrected by the project's decisions W2–W4 and S14.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from statewright.instants import to_rfc3339

Property = str | int | bool | Sequence[str]


class Failure(Exception):
    """A request that cannot be carried out, for a reason its caller may know."""

    code: ClassVar[str] = "SERVER_ERROR"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, properties: Mapping[str, Property] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.properties: Mapping[str, Property] = properties or {}
        self.warnings: tuple[str, ...] = ()
        """What members warned of before it came to this; told over gRPC, like those of a success."""

    @property
    def detail(self) -> str:
        """``<CODE>: <message>``, as both doors report it."""
        return f"{self.code}: {self.message}"


class BadRequest(Failure):
    """The request is malformed in a way that has no code of its own."""

    code, status = "BAD_REQUEST", 400


class InvalidParameter(BadRequest):
    """A path or query parameter, or a header, does not bind."""

    def __init__(self, parameter: str) -> None:
        super().__init__(f"invalid value for parameter '{parameter}'", {"parameter": parameter})


class MethodNotAllowed(BadRequest):
    """Help can only be read."""

    status = 405

    def __init__(self) -> None:
        super().__init__("method not allowed")


class BodyTooLarge(BadRequest):
    """The body of a statistics query or of a message is over its limit; other bodies are a plain ``BadRequest``."""

    status = 413


class IncompatibleType(Failure):
    """A leaf value fits none of the types its model declares (spec/models.md §8)."""

    code, status = "INCOMPATIBLE_TYPE", 400


class PolymorphicSlot(Failure):
    """A scalar, an object and an array meet at one place of a growing model (spec/models.md §9.1)."""

    code, status = "POLYMORPHIC_SLOT", 400


class ValidationFailed(Failure):
    """A workflow import breaks a static rule (spec/workflows.md §5)."""

    code, status = "VALIDATION_FAILED", 400


class SchemaVersionUnsupported(Failure):
    """A workflow declares an import contract newer than this server knows (spec/workflows.md §3)."""

    code, status = "WORKFLOW_SCHEMA_VERSION_UNSUPPORTED", 400


class InvalidCondition(Failure):
    """A condition is malformed (spec/search.md §9)."""

    code, status = "INVALID_CONDITION", 400


class InvalidFieldPath(Failure):
    """A condition names a field that its model does not have (spec/search.md §4.3)."""

    code, status = "INVALID_FIELD_PATH", 400


class ConditionTypeMismatch(Failure):
    """An operand fits none of the declared types of its field (spec/search.md §9.1)."""

    code, status = "CONDITION_TYPE_MISMATCH", 400


class MalformedRequest(Failure):
    """The body of a statistics query cannot be decoded (spec/entities.md §14.1)."""

    code, status = "MALFORMED_REQUEST", 400


class MissingGroupBy(Failure):
    """A statistics query does not say what to group by."""

    code, status = "MISSING_GROUP_BY", 400

    def __init__(self) -> None:
        super().__init__("groupBy must name at least one path")


class InvalidGroupByPath(Failure):
    """A ``groupBy`` entry is neither ``state`` nor the path of a scalar."""

    code, status = "INVALID_GROUP_BY_PATH", 400


class DuplicateGroupBy(Failure):
    """A statistics query groups by the same path twice."""

    code, status = "DUPLICATE_GROUP_BY", 400


class InvalidAggregationOp(Failure):
    """An aggregation asks for something else than sum, avg, min, max or stdev."""

    code, status = "INVALID_AGGREGATION_OP", 400


class InvalidAggregationField(Failure):
    """An aggregation's field is not the path of a scalar."""

    code, status = "INVALID_AGGREGATION_FIELD", 400


class DuplicateAggregationAlias(Failure):
    """Two different aggregations would have the same name in the result."""

    code, status = "DUPLICATE_AGGREGATION_ALIAS", 400


class InvalidLimit(Failure):
    """The number of wanted groups is out of range."""

    code, status = "INVALID_LIMIT", 400


class SearchResultLimit(Failure):
    """A direct search matches more entities than its limit (spec/search.md §10)."""

    code, status = "SEARCH_RESULT_LIMIT", 400

    def __init__(self, limit: int) -> None:
        super().__init__(f"search matches more than {limit} entities; narrow the condition or search asynchronously")


class ScanBudgetExhausted(Failure):
    """A direct search would have to judge more entities one by one than this service is willing to."""

    code, status = "SCAN_BUDGET_EXHAUSTED", 400

    def __init__(self, budget: int) -> None:
        super().__init__(
            f"the condition leaves more than {budget} entities to be judged one by one; "
            "narrow it or search asynchronously"
        )


class SearchJobAlreadyTerminal(Failure):
    """An asynchronous search that is to be cancelled has ended before (spec/search.md §9.3)."""

    code, status = "SEARCH_JOB_ALREADY_TERMINAL", 400

    def __init__(self, job: str, job_status: str) -> None:
        super().__init__(
            f"snapshot by id={job} is not running. current status={job_status}",
            {"currentStatus": job_status, "snapshotId": job},
        )


class InvalidChangeLevel(Failure):
    """The change level is none of the four (spec/models.md §4.7)."""

    code, status = "INVALID_CHANGE_LEVEL", 400


class WorkflowFailed(Failure):
    """A run ended because a criterion, a processor or a limit stopped it; nothing of it is kept."""

    code, status = "WORKFLOW_FAILED", 400


class RunCutOff(WorkflowFailed):
    """The caller was sent away from a run that commits in segments: what it has committed so far stays, and it may
    commit more. Repeating the request would begin another run; the transaction tells what became of this one.
    """

    def __init__(self, transaction: str) -> None:
        super().__init__(
            f"the service is stopping; what transaction {transaction} has committed stays",
            {"cause": "SERVICE_STOPPING", "transactionId": transaction},
        )


class Unauthorized(Failure):
    """The caller is not authenticated; the cause is told to the log only."""

    code, status = "UNAUTHORIZED", 401

    def __init__(self, message: str = "authentication failed") -> None:
        super().__init__(message)


class Forbidden(Failure):
    """The caller lacks a role, or asks for something of another tenant by a token."""

    code, status = "FORBIDDEN", 403

    def __init__(self, message: str = "forbidden") -> None:
        super().__init__(message)


class ModelNotFound(Failure):
    """The tenant has no such model."""

    code, status = "MODEL_NOT_FOUND", 404


class EntityNotFound(Failure):
    """The tenant has no such entity, or had none at the asked instant."""

    code, status = "ENTITY_NOT_FOUND", 404


class TransitionNotFound(Failure):
    """The named transition cannot be fired by name in the entity's current state."""

    code, status = "TRANSITION_NOT_FOUND", 404


class WorkflowNotFound(Failure):
    """No workflow was imported for the model."""

    code, status = "WORKFLOW_NOT_FOUND", 404


class HelpTopicNotFound(Failure):
    """There is no such page of help."""

    code, status = "HELP_TOPIC_NOT_FOUND", 404


class SearchJobNotFound(Failure):
    """The tenant has no such asynchronous search, or its results have expired."""

    code, status = "SEARCH_JOB_NOT_FOUND", 404

    def __init__(self, job: str) -> None:
        super().__init__(f"search job {job} not found")


class SearchIndexNotFound(Failure):
    """The model has no such declared index."""

    code, status = "SEARCH_INDEX_NOT_FOUND", 404

    def __init__(self, index: str) -> None:
        super().__init__(f"index {index} not found")


class TransactionNotFound(Failure):
    """The transaction a token names has ended, or never was."""

    code, status = "TRANSACTION_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("transaction not found or no longer active")


class TransactionExpired(Failure):
    """The transaction token is past its time."""

    code, status = "TRANSACTION_EXPIRED", 410

    def __init__(self) -> None:
        super().__init__("transaction token has expired")


class ModelNotLocked(Failure):
    """Entities need a locked model."""

    code, status = "MODEL_NOT_LOCKED", 409

    def __init__(self, message: str = "model is not locked") -> None:
        super().__init__(message)


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
    """Another live entity of the model has the same values in a unique key (spec/models.md §11.3)."""

    code, status = "UNIQUE_VIOLATION", 409

    def __init__(self) -> None:
        super().__init__("a composite unique key constraint was violated")


class Conflict(Failure):
    """Another transaction committed first; repeating the request makes sense."""

    code, status, retryable = "CONFLICT", 409, True

    def __init__(self, message: str = "transaction conflict — retry") -> None:
        super().__init__(message)


class HistoryPruned(Failure):
    """Versions of the asked instant have been removed by the retention of history; both instants in epoch microseconds.

    ``kept_from`` is the first instant at which everything is kept, where that is known.
    """

    code, status = "HISTORY_PRUNED", 410

    def __init__(self, instant: int, kept_from: int | None = None) -> None:
        since = "" if kept_from is None else f"; versions are kept from {to_rfc3339(kept_from)} on"
        properties = {} if kept_from is None else {"keptFrom": to_rfc3339(kept_from)}
        super().__init__(f"versions of {to_rfc3339(instant)} have been removed{since}", properties)


class EntityModified(Failure):
    """``If-Match`` names a version that is no longer current."""

    code, status = "ENTITY_MODIFIED", 412

    def __init__(self, entity_id: str, *, expected: str | None = None, actual: str | None = None) -> None:
        super().__init__("entity has been modified since last read", {"entityId": entity_id})
        self.expected = expected
        self.actual = actual


class UnsupportedMediaType(Failure):
    """A patch in another format than JSON, or in no known dialect (spec/entities.md §8)."""

    code, status = "UNSUPPORTED_MEDIA_TYPE", 415


class PreconditionRequired(Failure):
    """A patch must say which version it is for."""

    code, status = "PRECONDITION_REQUIRED", 428


class GroupCardinalityExceeded(Failure):
    """A statistics query has more groups than this service is willing to form."""

    code, status = "GROUP_CARDINALITY_EXCEEDED", 422


class NotImplementedHere(Failure):
    """A known operation that this service, or this authentication mode, does not offer."""

    code, status = "NOT_IMPLEMENTED", 501


class NoComputeMember(Failure):
    """No connected calculation member of the tenant declares the required tags."""

    code, status, retryable = "NO_COMPUTE_MEMBER_FOR_TAG", 503, True


class ComputeMemberDisconnected(Failure):
    """The calculation member's stream ended while it worked on the callout."""

    code, status, retryable = "COMPUTE_MEMBER_DISCONNECTED", 503, True

    def __init__(self, message: str, *, written: bool = True) -> None:
        super().__init__(message)
        self.written = written
        """Whether the request had reached the stream, so that the member may have worked on it."""


class ForwardFailed(ComputeMemberDisconnected):
    """Another node, which the calculation member is connected to, was lost while the member worked on the callout."""

    code = "DISPATCH_FORWARD_FAILED"

    def __init__(self, *, written: bool = True) -> None:
        super().__init__("forwarding the callout to a peer node failed", written=written)


class DispatchTimeout(Failure):
    """The calculation member did not answer in time."""

    code, status, retryable = "DISPATCH_TIMEOUT", 503, True


class TransactionNodeUnavailable(Failure):
    """The node that owns a callback's transaction cannot be asked (spec/grpc.md §22).

    It is not worth trying again: the transaction lives and ends with its node.
    """

    code, status = "TRANSACTION_NODE_UNAVAILABLE", 503


class SearchTimeout(Failure):
    """A search took longer than this service is willing to wait."""

    code, status, retryable = "SEARCH_SHARD_TIMEOUT", 503, True

    def __init__(self, seconds: float) -> None:
        super().__init__(f"search was stopped after {seconds:g} s; narrow the condition or search asynchronously")


class StorageUnavailable(Failure):
    """The database cannot be reached, or has no connection to spare."""

    code, status, retryable = "STORAGE_UNAVAILABLE", 503, True

    def __init__(self, message: str = "storage is not available") -> None:
        super().__init__(message)


class OutcomeUnknown(Failure):
    """Whether a transaction was committed could not be found out. Repeating the request might do its work twice; an
    entity that bears the transaction's id proves that it was.
    """

    code, status = "STORAGE_UNAVAILABLE", 503

    def __init__(self, transaction: str) -> None:
        super().__init__(
            f"whether transaction {transaction} was committed is not known", {"transactionId": transaction}
        )


class ScheduleFunctionInvalidResult(Failure):
    """A schedule function answered something that is no schedule (spec/workflows.md §13.3)."""

    code, status = "SCHEDULE_FUNCTION_INVALID_RESULT", 500

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(f"schedule function {function}: {reason}")


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

"""The failures of requests, one class per kind.

A class says which status and code its kind has, and whether the request may be repeated
(docs/reference/entities.md#error-codes, corrected by the project's decisions W2–W4 and S14). They stand in the
groups of that table.

``api.http`` and ``api.grpc`` each hold one translation for all of them; no other module turns a failure into a
response.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from statewright.instants import to_rfc3339

Property = str | int | bool | Sequence[str]

MAX_MESSAGE_CHARACTERS = 16_384
"""Characters of a message, which is logged as well as sent, and may quote what the client sent."""


class Failure(Exception):
    """A request that cannot be carried out, for a reason its caller may know."""

    code: ClassVar[str] = "SERVER_ERROR"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, properties: Mapping[str, Property] | None = None) -> None:
        self.message = message if len(message) <= MAX_MESSAGE_CHARACTERS else f"{message[:MAX_MESSAGE_CHARACTERS]}…"
        super().__init__(self.message)
        self.properties: Mapping[str, Property] = properties or {}
        self.warnings: tuple[str, ...] = ()
        """Warnings of members before the failure; sent over gRPC, like those of a success."""

    @property
    def detail(self) -> str:
        """``<CODE>: <message>``, as HTTP and gRPC report it."""
        return f"{self.code}: {self.message}"


def list_kinds(kind: type[Failure] = Failure) -> list[type[Failure]]:
    """The kind and all below it, a parent before its children."""
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in list_kinds(child))]


# Any request, and its sender.


class BadRequest(Failure):
    """The request is malformed in a way that has no code of its own."""

    code, status = "BAD_REQUEST", 400


class InvalidParameter(BadRequest):
    """A path or query parameter, or a header, does not bind."""

    def __init__(self, parameter: str) -> None:
        super().__init__(f"invalid value for parameter '{parameter}'", {"parameter": parameter})


class MethodNotAllowed(BadRequest):
    """The path has other methods, which the header ``Allow`` names."""

    status = 405

    def __init__(self, allowed: Sequence[str] = ("GET",)) -> None:
        super().__init__(f"method not allowed; this path has {', '.join(allowed)}")


class PathNotFound(Failure):
    """There is no such path. All that there are stand in the OpenAPI document, ``/openapi.json``."""

    code, status = "NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("there is no such path; /docs shows those there are")


class BodyTooLarge(BadRequest):
    """The body is over the limit of its operation (docs/reference/entities.md#limits)."""

    status = 413


class UnsupportedMediaType(Failure):
    """A patch in another format than JSON, or in no known dialect (docs/reference/entities.md#partial-update)."""

    code, status = "UNSUPPORTED_MEDIA_TYPE", 415


class PreconditionRequired(Failure):
    """A patch must say which version it is for."""

    code, status = "PRECONDITION_REQUIRED", 428


class Unauthorized(Failure):
    """The caller is not authenticated; the cause is written to the log only."""

    code, status = "UNAUTHORIZED", 401

    def __init__(self, message: str = "authentication failed") -> None:
        super().__init__(message)


class Forbidden(Failure):
    """The caller lacks a role, or asks for something of another tenant by a token."""

    code, status = "FORBIDDEN", 403

    def __init__(self, message: str = "forbidden") -> None:
        super().__init__(message)


class HostNotAllowed(Failure):
    """The request came by a name that is none of the service's, where it counts without credentials (decision A5)."""

    code, status = "HOST_NOT_ALLOWED", 421

    def __init__(self, host: str) -> None:
        super().__init__(
            "without credentials this service answers to addresses, localhost and names without a dot, not to"
            f' "{host}"; STATEWRIGHT_ALLOWED_HOSTS names more'
        )


class OriginNotAllowed(Failure):
    """A page of another origin wants to change something, where that counts without credentials (decision A5)."""

    code, status = "ORIGIN_NOT_ALLOWED", 403

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"without credentials a page of {origin} may change nothing here;"
            " STATEWRIGHT_CORS_ALLOWED_ORIGINS names the origins that may"
        )


class HelpTopicNotFound(Failure):
    """There is no such page of help."""

    code, status = "HELP_TOPIC_NOT_FOUND", 404


class NotImplementedHere(Failure):
    """A known operation that this service, or this authentication mode, does not offer."""

    code, status = "NOT_IMPLEMENTED", 501


# Models, and documents that do not fit them (docs/reference/models.md#models).


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


# Entities and their versions (docs/reference/entities.md#entities-and-messages).


class EntityNotFound(Failure):
    """The tenant has no such entity, or had none at the asked instant."""

    code, status = "ENTITY_NOT_FOUND", 404


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


class HistoryPruned(Failure):
    """Versions of the asked instant have been removed by the retention of history; both instants in epoch microseconds.

    ``kept_from`` is the first instant at which everything is kept, where that is known.
    """

    code, status = "HISTORY_PRUNED", 410

    def __init__(self, instant: int, kept_from: int | None = None) -> None:
        since = "" if kept_from is None else f"; versions are kept from {to_rfc3339(kept_from)} on"
        properties = {} if kept_from is None else {"keptFrom": to_rfc3339(kept_from)}
        super().__init__(f"versions of {to_rfc3339(instant)} have been removed{since}", properties)


# Workflows, and runs that they stop (docs/reference/workflows.md#workflows).


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


# Calculation members and callouts (docs/reference/grpc.md#grpc).


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


# Transactions that are joined.


class TransactionNotFound(Failure):
    """The transaction a token names has ended, or never was."""

    code, status = "TRANSACTION_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("transaction not found or no longer active")


class TransactionExpired(Failure):
    """The transaction token has expired."""

    code, status = "TRANSACTION_EXPIRED", 410

    def __init__(self) -> None:
        super().__init__("transaction token has expired")


class TransactionNodeUnavailable(Failure):
    """The node that owns a callback's transaction cannot be reached (docs/reference/grpc.md#callbacks-to-other-nodes).

    Not retryable: the transaction ends with its node.
    """

    code, status = "TRANSACTION_NODE_UNAVAILABLE", 503


class OutcomeUnknown(Failure):
    """Whether a transaction was committed could not be determined. Repeating the request might do its work twice; an
    entity with the transaction's id proves that it was committed.
    """

    code, status = "STORAGE_UNAVAILABLE", 503

    def __init__(self, transaction: str) -> None:
        super().__init__(
            f"whether transaction {transaction} was committed is not known", {"transactionId": transaction}
        )


# Conditions and searches (docs/reference/search.md#search).


class InvalidCondition(Failure):
    """A condition is malformed (docs/reference/search.md#order-of-checks)."""

    code, status = "INVALID_CONDITION", 400


class InvalidFieldPath(Failure):
    """A condition names a field that its model does not have (docs/reference/conditions.md#known-paths)."""

    code, status = "INVALID_FIELD_PATH", 400


class ConditionTypeMismatch(Failure):
    """An operand fits none of the declared types of its field (docs/reference/search.md#order-of-checks)."""

    code, status = "CONDITION_TYPE_MISMATCH", 400


class SearchResultLimit(Failure):
    """A direct search matches more entities than its limit (docs/reference/search.md#direct-search)."""

    code, status = "SEARCH_RESULT_LIMIT", 400

    def __init__(self, limit: int) -> None:
        super().__init__(f"search matches more than {limit} entities; narrow the condition or search asynchronously")


class ScanBudgetExhausted(Failure):
    """A direct search would have to test more entities one by one than the scan budget allows."""

    code, status = "SCAN_BUDGET_EXHAUSTED", 400

    def __init__(self, budget: int) -> None:
        super().__init__(
            f"the condition leaves more than {budget} entities to be judged one by one; "
            "narrow it or search asynchronously"
        )


class SearchTimeout(Failure):
    """A search took longer than its time limit."""

    code, status, retryable = "SEARCH_SHARD_TIMEOUT", 503, True

    def __init__(self, seconds: float) -> None:
        super().__init__(f"search was stopped after {seconds:g} s; narrow the condition or search asynchronously")


class SearchJobNotFound(Failure):
    """The tenant has no such asynchronous search, or its results have expired."""

    code, status = "SEARCH_JOB_NOT_FOUND", 404

    def __init__(self, job: str) -> None:
        super().__init__(f"search job {job} not found")


class SearchJobAlreadyTerminal(Failure):
    """An asynchronous search that is to be cancelled has ended before
    (docs/reference/search.md#error-codes-of-searches).
    """

    code, status = "SEARCH_JOB_ALREADY_TERMINAL", 400

    def __init__(self, job: str, job_status: str) -> None:
        super().__init__(
            f"snapshot by id={job} is not running. current status={job_status}",
            {"currentStatus": job_status, "snapshotId": job},
        )


class SearchIndexNotFound(Failure):
    """The model has no such declared index."""

    code, status = "SEARCH_INDEX_NOT_FOUND", 404

    def __init__(self, index: str) -> None:
        super().__init__(f"index {index} not found")


# Grouped statistics (docs/reference/entities.md#grouped-statistics).


class MalformedRequest(Failure):
    """The body of a statistics query cannot be decoded
    (docs/reference/entities.md#the-request-of-a-grouped-statistic).
    """

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


class GroupCardinalityExceeded(Failure):
    """A statistics query has more groups than the limit allows."""

    code, status = "GROUP_CARDINALITY_EXCEEDED", 422


# Storage.


class StorageUnavailable(Failure):
    """The database cannot be reached, or has no connection to spare."""

    code, status, retryable = "STORAGE_UNAVAILABLE", 503, True

    def __init__(self, message: str = "storage is not available") -> None:
        super().__init__(message)


# Processes (docs/reference/steps.md#conventions). The codes are those of the step engine, which was there first.


class ProcessBadRequest(BadRequest):
    """A request of a process language is malformed; the message is the reason (docs/reference/steps.md#conventions)."""

    kind: ClassVar[str] = "bad-request"


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

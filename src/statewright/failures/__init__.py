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

from statewright.failures.callouts import ComputeMemberDisconnected, DispatchTimeout, ForwardFailed, NoComputeMember
from statewright.failures.entities import Conflict, EntityModified, EntityNotFound, HistoryPruned
from statewright.failures.failure import Failure, Property, kinds
from statewright.failures.models import (
    IncompatibleType,
    InvalidChangeLevel,
    ModelAlreadyLocked,
    ModelAlreadyUnlocked,
    ModelHasEntities,
    ModelNotFound,
    ModelNotLocked,
    PolymorphicSlot,
    UniqueViolation,
)
from statewright.failures.requests import (
    BadRequest,
    BodyTooLarge,
    Forbidden,
    HelpTopicNotFound,
    InvalidParameter,
    MethodNotAllowed,
    NotImplementedHere,
    PreconditionRequired,
    Unauthorized,
    UnsupportedMediaType,
)
from statewright.failures.search import (
    ConditionTypeMismatch,
    InvalidCondition,
    InvalidFieldPath,
    ScanBudgetExhausted,
    SearchIndexNotFound,
    SearchJobAlreadyTerminal,
    SearchJobNotFound,
    SearchResultLimit,
    SearchTimeout,
)
from statewright.failures.statistics import (
    DuplicateAggregationAlias,
    DuplicateGroupBy,
    GroupCardinalityExceeded,
    InvalidAggregationField,
    InvalidAggregationOp,
    InvalidGroupByPath,
    InvalidLimit,
    MalformedRequest,
    MissingGroupBy,
)
from statewright.failures.steps import BusinessKeyInUse, StepBadRequest, StepConflict, StepNotFound
from statewright.failures.storage import StorageUnavailable
from statewright.failures.transactions import (
    OutcomeUnknown,
    TransactionExpired,
    TransactionNodeUnavailable,
    TransactionNotFound,
)
from statewright.failures.workflows import (
    RunCutOff,
    ScheduleFunctionInvalidResult,
    SchemaVersionUnsupported,
    TransitionNotFound,
    ValidationFailed,
    WorkflowFailed,
    WorkflowNotFound,
)

__all__ = [
    "BadRequest",
    "BodyTooLarge",
    "BusinessKeyInUse",
    "ComputeMemberDisconnected",
    "ConditionTypeMismatch",
    "Conflict",
    "DispatchTimeout",
    "DuplicateAggregationAlias",
    "DuplicateGroupBy",
    "EntityModified",
    "EntityNotFound",
    "Failure",
    "Forbidden",
    "ForwardFailed",
    "GroupCardinalityExceeded",
    "HelpTopicNotFound",
    "HistoryPruned",
    "IncompatibleType",
    "InvalidAggregationField",
    "InvalidAggregationOp",
    "InvalidChangeLevel",
    "InvalidCondition",
    "InvalidFieldPath",
    "InvalidGroupByPath",
    "InvalidLimit",
    "InvalidParameter",
    "MalformedRequest",
    "MethodNotAllowed",
    "MissingGroupBy",
    "ModelAlreadyLocked",
    "ModelAlreadyUnlocked",
    "ModelHasEntities",
    "ModelNotFound",
    "ModelNotLocked",
    "NoComputeMember",
    "NotImplementedHere",
    "OutcomeUnknown",
    "PolymorphicSlot",
    "PreconditionRequired",
    "Property",
    "RunCutOff",
    "ScanBudgetExhausted",
    "ScheduleFunctionInvalidResult",
    "SchemaVersionUnsupported",
    "SearchIndexNotFound",
    "SearchJobAlreadyTerminal",
    "SearchJobNotFound",
    "SearchResultLimit",
    "SearchTimeout",
    "StepBadRequest",
    "StepConflict",
    "StepNotFound",
    "StorageUnavailable",
    "TransactionExpired",
    "TransactionNodeUnavailable",
    "TransactionNotFound",
    "TransitionNotFound",
    "Unauthorized",
    "UniqueViolation",
    "UnsupportedMediaType",
    "ValidationFailed",
    "WorkflowFailed",
    "WorkflowNotFound",
    "kinds",
]

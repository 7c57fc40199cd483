"""Every operation of the operations API: what routes, the OpenAPI document, help and clients are made from
(docs/reference/operations.md)."""

from typing import Any, Final, get_args

from statewright.operations import (
    checks,
    events,
    explanations,
    history,
    incidents,
    listings,
    queues,
    service,
    subscriptions,
    suspensions,
)
from statewright.operations.bulk_jobs import CANCEL_BULK_JOB as CANCEL_BULK_JOB
from statewright.operations.bulk_jobs import CHANGE_BULK_JOB as CHANGE_BULK_JOB
from statewright.operations.bulk_jobs import CREATE_BULK_JOB as CREATE_BULK_JOB
from statewright.operations.bulk_jobs import GET_BULK_JOB as GET_BULK_JOB
from statewright.operations.bulk_jobs import LIST_BULK_ITEMS as LIST_BULK_ITEMS
from statewright.operations.bulk_jobs import LIST_BULK_JOBS as LIST_BULK_JOBS
from statewright.operations.bulk_jobs import PAUSE_BULK_JOB as PAUSE_BULK_JOB
from statewright.operations.bulk_jobs import RESOLVE_INCIDENT_GROUP as RESOLVE_INCIDENT_GROUP
from statewright.operations.bulk_jobs import RESUME_BULK_JOB as RESUME_BULK_JOB
from statewright.operations.bulk_jobs import RETRY_BULK_JOB as RETRY_BULK_JOB
from statewright.operations.bulk_jobs import RETRY_INCIDENT_GROUP as RETRY_INCIDENT_GROUP
from statewright.operations.bulk_jobs import START_BULK_JOB as START_BULK_JOB
from statewright.operations.records import ADMIN as ADMIN
from statewright.operations.records import (
    LISTING,
    PAGING,
    POINT_IN_TIME,
    SORT,
    TRANSACTION,
    Command,
    Listed,
    Option,
    QueryParameter,
)
from statewright.operations.records import OPERATOR as OPERATOR
from statewright.operations.records import ApiOperation as ApiOperation

_SEARCH_PROBLEMS: Final = (
    "BAD_REQUEST",
    "INVALID_CONDITION",
    "INVALID_FIELD_PATH",
    "CONDITION_TYPE_MISMATCH",
    "MODEL_NOT_FOUND",
    "HISTORY_PRUNED",
    "SCAN_BUDGET_EXHAUSTED",
    "SEARCH_SHARD_TIMEOUT",
)


_MODEL: Final = QueryParameter("model", "string", "name of the model")
_AT: Final = (
    QueryParameter("atFrom", "string", "inclusive", "date-time"),
    QueryParameter("atTo", "string", "exclusive", "date-time"),
)
_DEFINITION: Final = (
    QueryParameter("language", "string", "process language, such as `steps`"),
    QueryParameter("definitionId", "string", "id of the definition"),
)
_TIMEOUT: Final = QueryParameter(
    "timeout", "string", "ISO 8601, such as `PT30S`, which is the default; at most `PT50S` count"
)


DESCRIBE_OPERATIONS_API: Final = ApiOperation(
    id="describeOperationsApi",
    path="/ops/v1",
    summary="What this API offers, and who asks",
    answer=service.ApiDescription,
)

LIST_OPERATOR_ACTS: Final = ApiOperation(
    id="listOperatorActs",
    path="/ops/v1/audit",
    summary="What operators have done through this API, newest first",
    query=(
        QueryParameter("action", "string", "such as `entity.restore`", repeatable=True),
        QueryParameter("actor", "string", "id of who did it", repeatable=True),
        QueryParameter("targetKind", "string", "such as `ENTITY`", repeatable=True),
        QueryParameter("targetId", "string", "id of what it was done to", repeatable=True),
        *_AT,
        *PAGING,
    ),
    role=OPERATOR,
    answer=Listed[service.OperatorAct],
    problems=("BAD_REQUEST", "FORBIDDEN"),
    command=Command(
        "audit",
        "List what operators have done, newest first.",
        "at | actor: actor.id | action | target: target.id | reason | details",
        options=(Option("action"), Option("target", "targetId")),
        has_limit=True,
    ),
)

LIST_CHANGES: Final = ApiOperation(
    id="listChanges",
    path="/ops/v1/changes",
    summary="What was done to the entities of the tenant, the newest first",
    query=(
        _MODEL,
        QueryParameter("actor", "string", "id of who did it, or of whom it was done for"),
        *_AT,
        *LISTING,
    ),
    answer=history.ChangedEntities,
    problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    command=Command(
        "changes",
        "List what was done to entities, the newest first.",
        "at | who: attributedTo.id | entityId | model | changeType | state",
        options=(
            Option("model", says="Only of models with this name."),
            Option("actor", says="Only by or for who has this id."),
            Option("since", "atFrom", "Not before this instant.", metavar="RFC3339"),
            Option("before", "atTo", "Before this instant.", metavar="RFC3339"),
        ),
        has_limit=True,
    ),
)

LIST_SETTINGS: Final = ApiOperation(
    id="listSettings",
    path="/ops/v1/settings",
    summary="The settings of the node that answers; secrets are masked",
    role=ADMIN,
    answer=service.SettingList,
    problems=("BAD_REQUEST", "FORBIDDEN"),
)

LIST_EVENTS: Final = ApiOperation(
    id="listEvents",
    path="/ops/v1/entities/{entityId}/events",
    summary="The events of the runs of an entity, those of the newest run first",
    query=(TRANSACTION, *LISTING),
    answer=Listed[history.RunEvent],
    problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
    command=Command(
        "events list",
        "List the events of the runs of an entity, those of the newest run first.",
        "at | eventType | state | details",
        options=(Option("transaction", "transactionId", "Only those of its run.", metavar="TRANSACTION"),),
        has_limit=True,
    ),
)

EXPLAIN_INSTANCE: Final = ApiOperation(
    id="explainInstance",
    path="/ops/v1/instances/{instanceId}/explain",
    summary="What an instance of a process waits for",
    answer=explanations.ExplainedInstance,
    problems=("BAD_REQUEST", "STEP_NOT_FOUND"),
)

EXPLAIN_ENTITY: Final = ApiOperation(
    id="explainEntity",
    path="/ops/v1/entities/{entityId}/explain",
    summary="Why an entity is where it is, and what would move it",
    query=(
        POINT_IN_TIME,
        QueryParameter("evaluateFunctions", "boolean", "have members judge the criteria that are theirs (*operator*)"),
    ),
    answer=explanations.ExplainedEntity,
    problems=("BAD_REQUEST", "FORBIDDEN", "ENTITY_NOT_FOUND", "HISTORY_PRUNED"),
)

GET_IDEMPOTENCY_RECORD: Final = ApiOperation(
    id="getIdempotencyRecord",
    path="/ops/v1/idempotency/{key}",
    summary="What became of a request with an Idempotency-Key",
    query=(QueryParameter("principal", "string", "whose key it is; for operators"),),
    answer=service.IdempotencyRecord,
    problems=("BAD_REQUEST", "FORBIDDEN", "IDEMPOTENCY_KEY_NOT_FOUND"),
)

LIST_IDLE_ENTITIES: Final = ApiOperation(
    id="listIdleEntities",
    path="/ops/v1/idle-entities",
    summary="Entities in states that can still be left, those first that were written the longest time ago",
    query=(_MODEL, *LISTING),
    answer=listings.IdleEntities,
    problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
)

LIST_INCIDENTS: Final = ApiOperation(
    id="listIncidents",
    path="/ops/v1/incidents",
    summary="Failed work, the last first",
    query=(
        QueryParameter("status", "string", "OPEN when absent, or RESOLVED", repeatable=True),
        QueryParameter("kind", "string", ", ".join(incidents.INCIDENT_KINDS), repeatable=True),
        QueryParameter("severity", "string", "ERROR, WARNING", repeatable=True),
        QueryParameter("fingerprint", "string", "equal for incidents of one cause", repeatable=True),
        QueryParameter("model", "string", "name, or name/version", repeatable=True),
        QueryParameter("entityId", "string", "of this entity", "uuid"),
        QueryParameter("instanceId", "string", "of this instance", "uuid"),
        QueryParameter("component", "string", "the processor, function or type of jobs", repeatable=True),
        QueryParameter("code", "string", "such as `WORKFLOW_FAILED`", repeatable=True),
        QueryParameter("firstFrom", "string", "inclusive", "date-time"),
        QueryParameter("firstTo", "string", "exclusive", "date-time"),
        QueryParameter("lastFrom", "string", "inclusive", "date-time"),
        QueryParameter("lastTo", "string", "exclusive", "date-time"),
        *PAGING,
    ),
    answer=Listed[incidents.Incident],
)

LIST_INCIDENT_GROUPS: Final = ApiOperation(
    id="listIncidentGroups",
    path="/ops/v1/incident-groups",
    summary="Open incidents by their cause, that of most of them first",
    query=PAGING,
    answer=Listed[incidents.IncidentGroup],
)

GET_INCIDENT: Final = ApiOperation(
    id="getIncident",
    path="/ops/v1/incidents/{incidentId}",
    summary="One incident, for operators with what was asked for",
    answer=incidents.Incident,
    problems=("BAD_REQUEST", "INCIDENT_NOT_FOUND"),
    command=Command("incidents show", "Show an incident, with what was asked for."),
)

RETRY_INCIDENT: Final = ApiOperation(
    id="retryIncident",
    method="POST",
    path="/ops/v1/incidents/{incidentId}/retry",
    summary="Do again what failed, as the caller",
    role=OPERATOR,
    recording="commit",
    body=incidents.Retry,
    body_required=False,
    answer=incidents.RetryResult,
    problems=(
        "BAD_REQUEST",
        "FORBIDDEN",
        "INCIDENT_NOT_FOUND",
        "INCIDENT_CLOSED",
        "INCIDENT_STALE",
        "INCIDENT_NOT_RETRYABLE",
    ),
)

RESOLVE_INCIDENT: Final = ApiOperation(
    id="resolveIncident",
    method="POST",
    path="/ops/v1/incidents/{incidentId}/resolve",
    summary="Close an incident that needs nobody any more",
    role=OPERATOR,
    body=incidents.IncidentResolution,
    answer=incidents.Incident,
    problems=("BAD_REQUEST", "FORBIDDEN", "INCIDENT_NOT_FOUND", "INCIDENT_CLOSED"),
)

COUNT_INSTANCES: Final = ApiOperation(
    id="countInstances",
    path="/ops/v1/instance-counts",
    summary="How many instances there are by definition and status",
    query=_DEFINITION,
    answer=listings.InstanceCounts,
    problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
)

COUNT_STEPS: Final = ApiOperation(
    id="countSteps",
    path="/ops/v1/instance-counts/steps",
    summary="How many executions of a definition are under way by step",
    query=_DEFINITION,
    answer=listings.StepCounts,
    problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
)

LIST_MESSAGES: Final = ApiOperation(
    id="listMessages",
    path="/ops/v1/messages",
    summary="Edge messages, the newest first, without their payloads",
    query=LISTING,
    answer=Listed[listings.ListedMessage],
    command=Command(
        "messages",
        "List edge messages, the newest first, without their payloads.",
        "id | createdAt | subject: header.subject | content type: header.contentType",
        has_limit=True,
    ),
)

LIST_SEARCH_JOBS: Final = ApiOperation(
    id="listSearchJobs",
    path="/ops/v1/search-jobs",
    summary="Search jobs whose results are kept, the newest first",
    query=(
        QueryParameter("status", "string", ", ".join(get_args(listings.JobStatus)), repeatable=True),
        _MODEL,
        *LISTING,
    ),
    answer=Listed[listings.ListedSearchJob],
)

LIST_NODES: Final = ApiOperation(
    id="listNodes",
    path="/ops/v1/nodes",
    summary="The nodes of the installation that are alive, by id",
    query=PAGING,
    answer=Listed[queues.ServiceNode],
    command=Command(
        "nodes",
        "List the service processes that are alive.",
        "id | name | version | draining | startedAt | leaseUntil | members",
    ),
)

LIST_MEMBERS: Final = ApiOperation(
    id="listMembers",
    path="/ops/v1/members",
    summary="The calculation members of all nodes, and workers that hold jobs, by id",
    query=(
        QueryParameter("tag", "string", "declares the tag", repeatable=True),
        QueryParameter("kind", "string", "`STREAM` or `POLL`", repeatable=True),
        QueryParameter("node", "string", "id of the node it is connected to", repeatable=True),
        QueryParameter("stale", "boolean", "nothing was heard of it for 20 seconds"),
        *PAGING,
    ),
    answer=Listed[queues.MemberView],
)

DRAIN_MEMBER: Final = ApiOperation(
    id="drainMember",
    method="POST",
    path="/ops/v1/members/{memberId}/drain",
    summary="Send a member nothing any more, and end its stream when it is idle",
    query=(
        QueryParameter(
            "within", "string", "ISO 8601, until the stream ends in any case; `PT5M` when absent", "duration"
        ),
    ),
    role=OPERATOR,
    answer=queues.MemberView,
    status=202,
    problems=("BAD_REQUEST", "FORBIDDEN", "MEMBER_NOT_FOUND", "COMPUTE_MEMBER_DISCONNECTED"),
)

LIST_QUEUES: Final = ApiOperation(
    id="listQueues",
    path="/ops/v1/queues",
    summary="The job types that have unfinished jobs, and the tags that callouts need, by kind and name",
    query=(
        QueryParameter("kind", "string", "`JOB_TYPE` or `TAG`", repeatable=True),
        QueryParameter("withoutWorker", "boolean", "only queues that nobody serves"),
        *PAGING,
    ),
    answer=Listed[queues.QueueView],
)

GET_QUEUE: Final = ApiOperation(
    id="getQueue",
    path="/ops/v1/queues/JOB_TYPE/{jobType}",
    summary="The queue of a job type; an empty one where there are no jobs",
    answer=queues.QueueView,
)

GET_CALLOUT_QUEUE: Final = ApiOperation(
    id="getCalloutQueue",
    path="/ops/v1/queues/TAG/{tags}",
    summary="The callouts that need some tags, which are joined by commas; there may be none",
    answer=queues.QueueView,
)

SHOW_RATES: Final = ApiOperation(
    id="showRates",
    path="/ops/v1/rates",
    summary="What was written in each minute of the last hour",
    answer=queues.Rates,
    command=Command(
        "rates",
        "Tell what was written in each minute of the last hour.",
        "minute: at | transactions | versions",
        member="minutes",
    ),
)

LIST_MODEL_ESTIMATES: Final = ApiOperation(
    id="listModelEstimates",
    path="/ops/v1/models",
    summary="The models by name and version, with about how many entities each has",
    query=LISTING,
    answer=Listed[listings.ModelEstimate],
    problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    command=Command(
        "models",
        "List the models, with about how many entities each has.",
        "model: name/version | entities, about: estimatedEntities",
    ),
)

FIND_BY_UNIQUE_KEY: Final = ApiOperation(
    id="findByUniqueKey",
    path="/ops/v1/unique-keys/{value}/entities",
    summary="The entities of all models that have a value in the one field of a unique key, by model",
    query=LISTING,
    answer=Listed[listings.UniqueKeyHit],
    problems=("BAD_REQUEST",),
    command=Command(
        "find",
        "List the entities of all models that have a value as a unique key, such as the number of an order.",
        "entityId | model | state | key",
    ),
)

SEARCH_ENTITY_PAGES: Final[ApiOperation[Any]] = ApiOperation(  # entities are read by clients as those of searches are
    id="searchEntityPages",
    method="POST",
    path="/ops/v1/models/{entityName}/{modelVersion}/entities/search",
    summary="Find entities page by page, in order",
    query=(POINT_IN_TIME, SORT, *LISTING),
    recording="nothing",
    is_read=True,
    body="Condition",
    answer="OpsEntities",
    problems=_SEARCH_PROBLEMS,
)

COUNT_MATCHING_ENTITIES: Final = ApiOperation(
    id="countMatchingEntities",
    method="POST",
    path="/ops/v1/models/{entityName}/{modelVersion}/entities/count",
    summary="How many entities match, exact to 10000, in two seconds at most",
    query=(POINT_IN_TIME,),
    recording="nothing",
    is_read=True,
    body="Condition",
    answer=listings.MatchCount,
    problems=_SEARCH_PROBLEMS,
)

SUSPEND: Final = ApiOperation(
    id="suspend",
    method="POST",
    path="/ops/v1/suspensions",
    summary="Stop movement at a chosen place, on every node",
    role=OPERATOR,
    recording="commit",
    body=suspensions.SuspensionOrder,
    answer=suspensions.SuspensionView,
    status=201,
    problems=("BAD_REQUEST", "FORBIDDEN", "ENTITY_NOT_FOUND", "STEP_NOT_FOUND", "ALREADY_EXISTS", "LIMIT_REACHED"),
)

LIST_SUSPENSIONS: Final = ApiOperation(
    id="listSuspensions",
    path="/ops/v1/suspensions",
    summary="What is or was suspended, newest first",
    query=(
        QueryParameter("scope", "string", ", ".join(suspensions.SCOPES), repeatable=True),
        _MODEL,
        QueryParameter("entityId", "string", "the suspensions of this entity or instance", "uuid"),
        QueryParameter("active", "boolean", "only those that hold, or that have ended"),
        *PAGING,
    ),
    answer=Listed[suspensions.SuspensionView],
)

GET_SUSPENSION: Final = ApiOperation(
    id="getSuspension",
    path="/ops/v1/suspensions/{suspensionId}",
    summary="One suspension, active or ended",
    answer=suspensions.SuspensionView,
    problems=("BAD_REQUEST", "SUSPENSION_NOT_FOUND"),
)

RESUME: Final = ApiOperation(
    id="resume",
    method="POST",
    path="/ops/v1/suspensions/{suspensionId}/resume",
    summary="Let movement go on",
    role=OPERATOR,
    recording="commit",
    body=suspensions.Resumption,
    answer=suspensions.SuspensionView,
    problems=("BAD_REQUEST", "FORBIDDEN", "SUSPENSION_NOT_FOUND"),
)

LIST_WRITTEN_ENTITIES: Final = ApiOperation(
    id="listWrittenEntities",
    path="/ops/v1/transactions/{transactionId}/entities",
    summary="The entities that a transaction has written, by id",
    query=LISTING,
    answer=Listed[history.WrittenEntity],
    problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    command=Command(
        "transaction",
        "List the entities that a transaction has written, by id.",
        "entityId | model | state | transition | changeType | versions | events",
    ),
)

RESTORE_VERSION: Final = ApiOperation(
    id="restoreVersion",
    method="POST",
    path="/ops/v1/entities/{entityId}/restore",
    summary="Write a former document of an entity as its next version",
    role=OPERATOR,
    recording="commit",
    body=history.Restoration,
    answer=history.Restored,
    problems=(
        "BAD_REQUEST",
        "FORBIDDEN",
        "ENTITY_NOT_FOUND",
        "VERSION_NOT_FOUND",
        "HISTORY_PRUNED",
        "ENTITY_MODIFIED",
        "CONFLICT",
        "UNIQUE_VIOLATION",
        "TRANSITION_NOT_FOUND",
        "WORKFLOW_FAILED",
        "SUSPENDED",
    ),
)

LIST_VERSIONS: Final = ApiOperation(
    id="listVersions",
    path="/ops/v1/entities/{entityId}/versions",
    summary="The versions of an entity, newest first, also of a deleted one",
    query=(
        QueryParameter("state", "string", "in this state", repeatable=True),
        QueryParameter("atFrom", "string", "written then or later", "date-time"),
        QueryParameter("atTo", "string", "written before", "date-time"),
        *LISTING,
    ),
    answer=Listed[history.VersionView],
    problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
    command=Command(
        "versions",
        "List the versions of an entity, newest first.",
        "at | transactionId | state | transition | by: attributedTo.id",
    ),
)

GET_VERSION: Final = ApiOperation(
    id="getVersion",
    path="/ops/v1/entities/{entityId}/versions/{transactionId}",
    summary="The version that a transaction wrote, with its document",
    answer=history.WholeVersion,
    problems=("BAD_REQUEST", "ENTITY_NOT_FOUND", "VERSION_NOT_FOUND"),
)

COMPARE_VERSIONS: Final = ApiOperation(
    id="compareVersions",
    path="/ops/v1/entities/{entityId}/diff",
    summary="What changed between two versions, as a JSON Patch",
    query=(
        QueryParameter("from", "string", "a transaction, an instant, `current` or `previous`, which is the default"),
        QueryParameter("to", "string", "likewise; `current` when absent"),
    ),
    answer=history.Difference,
    problems=("BAD_REQUEST", "ENTITY_NOT_FOUND", "VERSION_NOT_FOUND", "HISTORY_PRUNED"),
)

WAIT_FOR_ENTITY: Final = ApiOperation(
    id="waitForEntity",
    path="/ops/v1/entities/{entityId}/wait",
    summary="Answer when an entity has got somewhere: into a state, to a new version, to its end",
    query=(
        QueryParameter("state", "string", "one of these is awaited", repeatable=True),
        QueryParameter("after", "string", "a transaction: only what came after it counts", "uuid"),
        _TIMEOUT,
    ),
    answer=history.EntityWait,
    problems=("BAD_REQUEST", "ENTITY_NOT_FOUND", "VERSION_NOT_FOUND", "TOO_MANY_REQUESTS"),
)

WAIT_FOR_INSTANCE: Final = ApiOperation(
    id="waitForInstance",
    path="/ops/v1/instances/{instanceId}/wait",
    summary="Answer when an instance has ended, or waits for a person or a signal",
    query=(QueryParameter("until", "string", "`FINISHED`, which is the default, or `WAITING`"), _TIMEOUT),
    answer=history.InstanceWait,
    problems=("BAD_REQUEST", "STEP_NOT_FOUND", "TOO_MANY_REQUESTS"),
)

SIMULATE_WORKFLOWS: Final = ApiOperation(
    id="simulateWorkflows",
    method="POST",
    path="/ops/v1/models/{entityName}/{modelVersion}/workflow/simulate",
    summary="What would become of an entity, with stubs for members and a clock that jumps",
    is_read=True,
    body="OpsScenario",
    answer=checks.Simulation,
    problems=(
        "BAD_REQUEST",
        "VALIDATION_FAILED",
        "MODEL_NOT_FOUND",
        "ENTITY_NOT_FOUND",
        "VERSION_NOT_FOUND",
        "FORBIDDEN",
    ),
)

CHECK_WORKFLOWS: Final = ApiOperation(
    id="checkWorkflows",
    method="POST",
    path="/ops/v1/models/{entityName}/{modelVersion}/workflow/check",
    summary="What an import of workflows would come to; nothing is saved",
    is_read=True,
    body="WorkflowImport",
    answer=checks.WorkflowCheck,
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "FORBIDDEN"),
)

LIST_WORKFLOW_REVISIONS: Final = ApiOperation(
    id="listWorkflowRevisions",
    path="/ops/v1/models/{entityName}/{modelVersion}/workflow/revisions",
    summary="The workflows that a model has and has had, newest first",
    query=LISTING,
    answer=Listed[checks.WorkflowRevision],
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "FORBIDDEN"),
)

GET_WORKFLOW_REVISION: Final = ApiOperation(
    id="getWorkflowRevision",
    path="/ops/v1/models/{entityName}/{modelVersion}/workflow/revisions/{revision}",
    summary="One revision of the workflows of a model, with its export document",
    answer=checks.WholeRevision,
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "FORBIDDEN", "REVISION_NOT_FOUND"),
)

COMPARE_WORKFLOW_REVISIONS: Final = ApiOperation(
    id="compareWorkflowRevisions",
    path="/ops/v1/models/{entityName}/{modelVersion}/workflow/revisions/{revision}/diff",
    summary="What changed between two revisions, as a JSON Patch",
    query=(QueryParameter("to", "integer", "the newer one; when absent, what came before is compared", "int32"),),
    answer=checks.RevisionDifference,
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "FORBIDDEN", "REVISION_NOT_FOUND"),
)

ACTIVATE_WORKFLOW_REVISION: Final = ApiOperation(
    id="activateWorkflowRevision",
    method="POST",
    path="/ops/v1/models/{entityName}/{modelVersion}/workflow/revisions/{revision}/activate",
    summary="Bring the workflows of a revision back, as a new one",
    role=OPERATOR,
    headers=("If-Match",),
    body=checks.Activation,
    answer=checks.WorkflowRevision,
    problems=(
        *("BAD_REQUEST", "FORBIDDEN", "VALIDATION_FAILED"),
        *("MODEL_NOT_FOUND", "REVISION_NOT_FOUND", "REVISION_MISMATCH"),
    ),
)

COUNT_REVISION_ENTITIES: Final = ApiOperation(
    id="countRevisionEntities",
    path="/ops/v1/models/{entityName}/{modelVersion}/workflow/revisions/{revision}/entities",
    summary="How many entities were moved last under a revision, by workflow and state",
    answer=checks.Population,
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "FORBIDDEN", "REVISION_NOT_FOUND", "SEARCH_SHARD_TIMEOUT"),
)

COUNT_POPULATION: Final = ApiOperation(
    id="countPopulation",
    path="/ops/v1/models/{entityName}/{modelVersion}/workflow/population",
    summary="How many entities a model has, by workflow, state and the revision under which they were moved last",
    answer=checks.Population,
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "FORBIDDEN", "SEARCH_SHARD_TIMEOUT"),
)

_OTHERS: Final = (*vars(events).values(), *vars(subscriptions).values())
OPERATIONS: Final = tuple(one for one in (*globals().values(), *_OTHERS) if isinstance(one, ApiOperation))
"""In the order in which they stand above."""

"""One operation on many entities, instances or incidents, whose set is frozen first
(docs/reference/operations.md#bulk-jobs).
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

from msgspec import Meta

from statewright.entity import Actor, ModelKey
from statewright.operations.incidents import IncidentResolution
from statewright.operations.records import (
    LISTING,
    OPERATOR,
    ApiOperation,
    Command,
    Instant,
    Int32,
    Listed,
    Members,
    Option,
    QueryParameter,
    Record,
    RequestBody,
    Uuid,
    Value,
    name_words,
)
from statewright.operations.suspensions import Name, NamedModel, Reason

BulkOperation: TypeAlias = Literal[
    "TRANSITION",
    "LOOPBACK",
    "PATCH",
    "DELETE",
    "SUSPEND",
    "RESUME",
    "CANCEL_INSTANCES",
    "RETRY_INSTANCES",
    "RETRY_INCIDENTS",
    "RESOLVE_INCIDENTS",
]
BulkStatus: TypeAlias = Literal["FREEZING", "READY", "RUNNING", "PAUSED", "STOPPED", "COMPLETED", "CANCELLED"]
ItemStatus: TypeAlias = Literal["PENDING", "ELIGIBLE", "RUNNING", "SUCCEEDED", "SKIPPED", "FAILED", "CANCELLED"]

OPERATIONS: Final[tuple[BulkOperation, ...]] = get_args(BulkOperation)
STATUSES: Final[tuple[BulkStatus, ...]] = get_args(BulkStatus)
ITEM_STATUSES: Final[tuple[ItemStatus, ...]] = get_args(ItemStatus)

OF_INCIDENTS: Final[tuple[BulkOperation, ...]] = ("RETRY_INCIDENTS", "RESOLVE_INCIDENTS")
OF_INSTANCES: Final[tuple[BulkOperation, ...]] = ("CANCEL_INSTANCES", "RETRY_INSTANCES", "SUSPEND", "RESUME")
"""Those that instances may be chosen for; of entities in general all but those of incidents are."""

ARGUMENTS: Final[Mapping[BulkOperation, tuple[str, ...]]] = {
    "TRANSITION": ("transition", "mergePatch"),
    "PATCH": ("transition", "mergePatch", "jsonPatch"),
    "RETRY_INCIDENTS": ("force",),
}
"""What may be said of how it is done, by operations of which anything may be said."""

NEEDS_REASON: Final[tuple[BulkOperation, ...]] = ("SUSPEND", "RESOLVE_INCIDENTS")

MAX_IDS: Final = 100_000
MAX_ITEMS: Final = 1_000_000
MAX_UNFINISHED: Final = 10
"""Jobs of a tenant."""
MAX_OPERATOR_DELETIONS: Final = 10_000
"""Deletions of more entities are for administrators."""

Rate: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
"""Items in a second."""
Concurrency: TypeAlias = Annotated[int, Meta(ge=1, le=32)]

SKIP_CODES: Final[Mapping[str, str]] = {
    "ENTITY_NOT_FOUND": "GONE",
    "MODEL_NOT_FOUND": "GONE",
    "TRANSITION_NOT_FOUND": "NO_SUCH_TRANSITION",
    "SUSPENDED": "SUSPENDED",
    "FORBIDDEN": "NOT_ALLOWED",
    "READ_ONLY": "NOT_ALLOWED",
    "TRANSITION_NOT_ALLOWED": "NOT_ALLOWED",
    "STEP_NOT_FOUND": "GONE",
    "ALREADY_EXISTS": "SUSPENDED",
    "SUSPENSION_NOT_FOUND": "NOT_SUSPENDED",
    "INCIDENT_NOT_FOUND": "GONE",
    "INCIDENT_CLOSED": "CLOSED",
    "INCIDENT_STALE": "STALE",
    "INCIDENT_NOT_RETRYABLE": "NOT_RETRYABLE",
}
"""Why an item is not eligible, by the codes of failures that say so."""

LEGAL_FROM: Final[Mapping[str, tuple[BulkStatus, ...]]] = {
    "start": ("READY",),
    "pause": ("RUNNING",),
    "resume": ("PAUSED", "STOPPED"),
    "cancel": ("FREEZING", "READY", "RUNNING", "PAUSED", "STOPPED"),
}
"""The statuses that an act leads out of."""

RESULTS: Final[Mapping[str, BulkStatus]] = {
    "start": "RUNNING",
    "pause": "PAUSED",
    "resume": "RUNNING",
    "cancel": "CANCELLED",
}
"""Where acts lead; an act on a job that is there already changes nothing."""


class BulkArguments(RequestBody, frozen=True, kw_only=True):
    """What is done to each entity. ``force``: incidents are retried also when their entity was written since."""

    transition: Name | None = None
    merge_patch: Members | None = None
    json_patch: list[Value] | None = None
    force: bool | None = None


Words: TypeAlias = Annotated[list[str], Meta(min_length=1, max_length=100)]


class IncidentSelection(RequestBody, frozen=True, kw_only=True):
    """Open incidents, by the filters of their list: of several values any."""

    SCHEMA: ClassVar[str] = "OpsIncidentSelection"

    kind: Words | None = None
    severity: Words | None = None
    fingerprint: Words | None = None
    model: Words | None = None
    entity_id: Words | None = None
    instance_id: Words | None = None
    component: Words | None = None
    code: Words | None = None
    first_from: Instant | None = None
    first_to: Instant | None = None
    last_from: Instant | None = None
    last_to: Instant | None = None


class BulkOrder(RequestBody, frozen=True, kw_only=True):
    """What is to be done to which entities: those of a model that match, or those that are named. Incidents are named,
    too, or chosen by filters.
    """

    SCHEMA: ClassVar[str] = "OpsNewBulkJob"

    operation: Annotated[str, name_words(BulkOperation)]
    model: NamedModel | None = None
    condition: Members | None = None
    ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_IDS)] | None = None
    incidents: IncidentSelection | None = None
    arguments: BulkArguments = BulkArguments()
    dry_run: bool = False
    recheck: bool = False
    rate_per_second: Rate = 50
    concurrency: Concurrency = 4
    stop_after_failures: Annotated[int, Meta(ge=1, le=MAX_ITEMS)] | None = None
    reason: Reason | None = None


class BulkStart(RequestBody, frozen=True, kw_only=True):
    """How many items are expected to be frozen; None: whatever there are."""

    expected_count: Annotated[int, Meta(ge=0, le=MAX_ITEMS)] | None = None


class BulkPace(RequestBody, frozen=True, kw_only=True):
    """How quickly a job is to run; what is absent stays as it is."""

    rate_per_second: Rate | None = None
    concurrency: Concurrency | None = None


class NoMembers(RequestBody, frozen=True, kw_only=True):
    """An act that needs nothing said."""

    SCHEMA: ClassVar[str] = "OpsNoMembers"


class BulkTotals(Record, frozen=True, kw_only=True):
    """Items by what has become of them. ``total`` is the sum of the others."""

    total: Int32
    pending: Int32
    running: Int32
    succeeded: Int32
    skipped: Int32
    failed: Int32
    cancelled: Int32


class BulkError(Record, frozen=True, kw_only=True):
    """What an item failed with."""

    id: Uuid
    code: str
    message: str


class BulkJob(Record, frozen=True, kw_only=True):
    """A bulk job. ``dry_run`` is true until it is started. ``instant`` is that of the freeze, ``eta`` when it will be
    through at its rate; ``failure`` says why it was cancelled by itself.
    """

    id: Uuid
    operation: Annotated[str, name_words(BulkOperation)]
    status: Annotated[str, name_words(BulkStatus)]
    totals: BulkTotals
    dry_run: bool
    rate_per_second: Int32
    concurrency: Int32
    created_at: Instant
    created_by: Actor
    instant: Instant | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    eta: Instant | None = None
    reason: str | None = None
    failure: str | None = None
    last_errors: tuple[BulkError, ...] = ()


class BulkItem(Record, frozen=True, kw_only=True):
    """An entity, instance or incident of a bulk job, and what became of it; before the start of a dry run, what
    would.
    """

    id: Uuid
    status: Annotated[str, name_words(ItemStatus)]
    code: str | None = None
    message: str | None = None
    transaction_id: Uuid | None = None
    at: Instant | None = None


class BulkPlan(Record, frozen=True, kw_only=True):
    """What a job does, as it is stored."""

    operation: BulkOperation
    arguments: BulkArguments
    dry_run: bool
    recheck: bool
    model: ModelKey | None = None
    condition: Members | None = None
    incidents: IncidentSelection | None = None


def plan_order(order: BulkOrder) -> BulkPlan:
    """What an order, whose operation is one, wants to be done."""
    return BulkPlan(
        operation=cast("BulkOperation", order.operation),
        arguments=order.arguments,
        dry_run=order.dry_run,
        recheck=order.recheck,
        model=None if order.model is None else ModelKey(order.model.name, order.model.version),
        condition=order.condition,
        incidents=order.incidents,
    )


CREATE_BULK_JOB: Final = ApiOperation(
    id="createBulkJob",
    method="POST",
    path="/ops/v1/bulk-jobs",
    summary="Do one thing to many entities, instances or incidents, whose set is frozen first",
    role=OPERATOR,
    recording="commit",
    body=BulkOrder,
    answer=BulkJob,
    status=201,
    problems=(
        *("BAD_REQUEST", "INVALID_CONDITION", "INVALID_FIELD_PATH", "CONDITION_TYPE_MISMATCH", "MODEL_NOT_FOUND"),
        *("FORBIDDEN", "LIMIT_REACHED"),
    ),
)

LIST_BULK_JOBS: Final = ApiOperation(
    id="listBulkJobs",
    path="/ops/v1/bulk-jobs",
    summary="Bulk jobs, newest first",
    role=OPERATOR,
    query=(QueryParameter("status", "string", ", ".join(STATUSES), repeatable=True), *LISTING),
    answer=Listed[BulkJob],
    problems=("BAD_REQUEST", "FORBIDDEN"),
    command=Command(
        "bulk list",
        "List bulk jobs, newest first.",
        "id | operation | status | total: totals.total | succeeded: totals.succeeded | skipped: totals.skipped"
        " | failed: totals.failed | createdAt | by: createdBy.id",
        options=(Option("status"),),
        has_limit=True,
    ),
)

GET_BULK_JOB: Final = ApiOperation(
    id="getBulkJob",
    path="/ops/v1/bulk-jobs/{jobId}",
    summary="One bulk job, with totals that add up",
    role=OPERATOR,
    answer=BulkJob,
    problems=("BAD_REQUEST", "FORBIDDEN", "BULK_JOB_NOT_FOUND"),
    command=Command("bulk show", "Show a bulk job, with its totals and last errors."),
)

LIST_BULK_ITEMS: Final = ApiOperation(
    id="listBulkItems",
    path="/ops/v1/bulk-jobs/{jobId}/items",
    summary="The items of a bulk job in their order, and what became of them",
    role=OPERATOR,
    query=(
        QueryParameter("status", "string", ", ".join(ITEM_STATUSES), repeatable=True),
        QueryParameter("code", "string", "such as `GONE`", repeatable=True),
        *LISTING,
    ),
    answer=Listed[BulkItem],
    problems=("BAD_REQUEST", "FORBIDDEN", "BULK_JOB_NOT_FOUND"),
    command=Command(
        "bulk items",
        "List the items of a bulk job, and what became of them.",
        "id | status | code | message | transactionId | at",
        options=(Option("status"), Option("code")),
        has_limit=True,
    ),
)


def _build_bulk_act(
    id_: str, word: str, summary: str, says: str, body: type[Any], *, status: int = 200
) -> ApiOperation[BulkJob]:
    """An act on a bulk job."""
    has_command = body is NoMembers
    return ApiOperation[BulkJob](
        id=id_,
        method="POST" if word else "PATCH",
        path=f"/ops/v1/bulk-jobs/{{jobId}}/{word}".rstrip("/"),
        summary=summary,
        role=OPERATOR,
        recording="commit",
        body=body,
        body_required=not word,
        answer=BulkJob,
        status=status,
        problems=("BAD_REQUEST", "FORBIDDEN", "BULK_JOB_NOT_FOUND", "BULK_STATE")
        + (("BULK_COUNT_CHANGED",) if word == "start" else ("LIMIT_REACHED",) if word == "retry-failed" else ()),
        command=Command(f"bulk {word}", says) if has_command else None,
    )


START_BULK_JOB: Final = _build_bulk_act("startBulkJob", "start", "Let a job run that was judged", "", BulkStart)
PAUSE_BULK_JOB: Final = _build_bulk_act(
    "pauseBulkJob", "pause", "Begin with no further items", "Pause a bulk job.", NoMembers
)
RESUME_BULK_JOB: Final = _build_bulk_act(
    "resumeBulkJob", "resume", "Go on, as the caller", "Let a bulk job go on.", NoMembers
)
CANCEL_BULK_JOB: Final = _build_bulk_act(
    "cancelBulkJob", "cancel", "End a job; what is done stays", "Cancel a bulk job.", NoMembers
)
RETRY_BULK_JOB: Final = _build_bulk_act(
    "retryBulkJob",
    "retry-failed",
    "A new job over the items that failed",
    "Make a new bulk job of the items that failed.",
    NoMembers,
    status=201,
)
CHANGE_BULK_JOB: Final = _build_bulk_act("changeBulkJob", "", "Let a job run at another pace", "", BulkPace)


class GroupRetry(RequestBody, frozen=True, kw_only=True):
    """``force``: also where the entity was written since."""

    SCHEMA: ClassVar[str] = "OpsGroupRetry"

    force: bool | None = None


def _build_group_act(id_: str, word: str, summary: str, body: type[Any]) -> ApiOperation[BulkJob]:
    """An act on all open incidents of one cause, as a bulk job."""
    return ApiOperation[BulkJob](
        id=id_,
        method="POST",
        path=f"/ops/v1/incident-groups/{{fingerprint}}/{word}",
        summary=summary,
        role=OPERATOR,
        recording="commit",
        body=body,
        body_required=word == "resolve",
        answer=BulkJob,
        status=201,
        problems=("BAD_REQUEST", "FORBIDDEN", "INCIDENT_NOT_FOUND", "LIMIT_REACHED"),
    )


RETRY_INCIDENT_GROUP: Final = _build_group_act(
    "retryIncidentGroup", "retry", "Do again what failed by one cause, as a bulk job", GroupRetry
)
RESOLVE_INCIDENT_GROUP: Final = _build_group_act(
    "resolveIncidentGroup", "resolve", "Close the incidents of one cause, as a bulk job", IncidentResolution
)

"""Answers of the entity API. Their objects are closed: existing clients reject members that they do not know."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from statewright.entity import Actor, ChangeType, ModelKey
from statewright.operations.listings import DeclaredIndex, IndexKind, IndexStatus, JobStatus
from statewright.operations.records import Instant, Int32, Int64, Members, Record, RequestBody, Uuid, Value, name_words

Number: TypeAlias = Annotated[Value, Meta(extra_json_schema={"type": ["number", "null"]})]


class ModelTally(Record, frozen=True, kw_only=True):
    """How many entities a model has."""

    model_name: str
    model_version: Int32
    count: Int64


class StateTally(ModelTally, frozen=True, kw_only=True):
    """How many entities of a model are in a state."""

    state: str


class GroupKeyPart(Record, frozen=True, kw_only=True):
    """The value of one of the paths by which entities are grouped, None where there is none."""

    path: str
    value: str | None


class GroupTally(Record, frozen=True, kw_only=True):
    """How many entities a group has, and its aggregations by alias; None where there was no number."""

    group_key: tuple[GroupKeyPart, ...]
    count: Int64
    aggregations: dict[str, Number] | None = None


Object: TypeAlias = Annotated[Members, Meta(extra_json_schema={"type": "object", "additionalProperties": True})]
ObjectOrNull: TypeAlias = Annotated[
    Value, Meta(extra_json_schema={"type": ["object", "null"], "additionalProperties": True})
]


class TrailRecord(Record, frozen=True, kw_only=True):
    """An entry of the audit trail of an entity: an event of a run, or a version."""

    audit_event_type: str
    event_type: str | None = None
    change_type: str | None = None
    severity: str
    utc_time: Instant
    micros_time: Int64
    system: bool | None = None
    entity_id: Uuid
    transaction_id: Uuid | None = None
    actor: Object | None = None
    state: str | None = None
    details: str | None = None
    data: ObjectOrNull | UnsetType = UNSET


class Pagination(Record, frozen=True, kw_only=True):
    """Whether there is more, and with what it is asked for."""

    has_next: bool
    next_cursor: str | None = None


class TrailPage(Record, frozen=True, kw_only=True):
    """A part of the audit trail."""

    items: tuple[TrailRecord, ...]
    pagination: Pagination


class RegisteredModel(Record, frozen=True, kw_only=True):
    """A model in a list (docs/reference/models.md#models)."""

    id: Uuid
    model_name: str
    model_version: Int32
    current_state: Annotated[str, Meta(extra_json_schema={"enum": ["LOCKED", "UNLOCKED"]})]
    model_update_date: Instant


class ImportReport(Record, frozen=True, kw_only=True):
    """What was imported, and which keywords the model does not keep."""

    model_id: Uuid
    warnings: Sequence[str]


class ModelChange(Record, frozen=True, kw_only=True):
    """What was done to a model, in words."""

    success: bool
    message: str
    model_id: Uuid
    model_key: ModelKey


class CriterionFinding(Struct, frozen=True, kw_only=True):
    """A criterion that deserves a second look, or a member that is ignored. ``state`` and ``transition`` are None for
    that of a workflow, and of a member.
    """

    workflow: str
    state: str | None = None
    transition: str | None = None
    message: str


class ImportedWorkflows(Record, frozen=True, kw_only=True):
    """What an import of workflows came to (docs/reference/workflows.md#import)."""

    success: bool
    warnings: (
        Annotated[Sequence[CriterionFinding], Meta(description="only with ?warnings=true; 100 at most")] | None
    ) = None


class EntityMetadata(Record, frozen=True, kw_only=True):
    """What is known of an entity besides its document; ``point_in_time`` in a list of the past."""

    id: Uuid
    model_key: ModelKey
    state: str
    creation_date: Instant
    last_update_time: Instant
    transaction_id: Uuid
    transition_for_latest_save: str | None = None
    point_in_time: Instant | None = None


class EntityEnvelope(Record, frozen=True, kw_only=True):
    """An entity (docs/reference/entities.md#the-envelope)."""

    type: Literal["ENTITY"]
    data: Value
    meta: EntityMetadata


class WrittenTransaction(Record, frozen=True, kw_only=True):
    """A committed transaction (docs/reference/entities.md#transaction-results)."""

    transaction_id: Uuid
    entity_ids: Sequence[Uuid]


class ItemError(Record, frozen=True, kw_only=True):
    """Why an item of a collection was left as it is."""

    code: str
    message: str
    item_index: Int32


class FailedItem(Record, frozen=True, kw_only=True):
    """An item of a collection that was left as it is."""

    entity_id: Uuid
    error: ItemError


class ChunkError(Record, frozen=True, kw_only=True):
    """Why a chunk was not committed."""

    code: str
    message: str
    chunk_index: Int32


class WrittenChunk(Record, frozen=True, kw_only=True):
    """What became of a part of a collection (docs/reference/entities.md#chunks)."""

    transaction_id: Uuid | None = None
    entity_ids: Sequence[Uuid]
    failed: Sequence[FailedItem] | None = None
    error: ChunkError | None = None


class DeletionCounts(Record, frozen=True, kw_only=True):
    """How many entities were found and removed, in the spelling that clients know."""

    number_of_entitites: Int64
    number_of_entitites_removed: Int64
    id_to_error: dict[str, str]


class DeletedEntities(Record, frozen=True, kw_only=True):
    """What became of the entities of a model; ``ids`` only if they are asked for."""

    entity_model_class_id: Uuid
    delete_result: DeletionCounts
    ids: Sequence[Uuid] | None = None


class DeletedEntity(Record, frozen=True, kw_only=True):
    """An entity that is no more, and the transaction that deleted it."""

    id: Uuid
    model_key: ModelKey
    transaction_id: Uuid


class VersionChange(Record, frozen=True, kw_only=True):
    """An entry of the change history of an entity; a deletion leaves no version that could be named."""

    change_type: ChangeType
    time_of_change: Instant
    user: str
    attributed_kind: str | None = None
    executed_by: Actor | None = None
    transaction_id: Uuid | None = None


JobWord: TypeAlias = Annotated[str, name_words(JobStatus)]
IndexType: TypeAlias = Annotated[str, name_words(IndexKind)]


class WantedIndex(RequestBody, frozen=True, kw_only=True):
    """An index that is asked for."""

    path: Annotated[str, Meta(description="the field; `$` for the whole document")]
    type: IndexType | None = None
    state: Annotated[str, Meta(description="only entities in this state")] | None = None


class BuildState(Record, frozen=True, kw_only=True):
    """How far the build of an index has come."""

    phase: str
    percent: Int32


class SearchIndex(Record, frozen=True, kw_only=True):
    """A declared index, and how it is doing (docs/reference/search.md#search)."""

    id: str
    path: str
    type: IndexType
    state: str | None = None
    status: Annotated[str, name_words(IndexStatus)]
    failure: str | None = None
    progress: BuildState | None = None


def show_index(index: DeclaredIndex) -> SearchIndex:
    """An index as clients see it."""
    progress = index.progress
    return SearchIndex(
        id=index.id,
        path=index.path,
        type=index.kind,
        state=index.state,
        status=index.status,
        failure=index.failure,
        progress=None if progress is None else BuildState(phase=progress.phase, percent=progress.percent),
    )


class ExplainedSearch(Record, frozen=True, kw_only=True):
    """How a search is carried out."""

    sql: str
    arguments: Sequence[str]
    judged: Sequence[str]
    plan: Sequence[str]


class JobProgress(Record, frozen=True, kw_only=True):
    """How a search job is doing."""

    status: JobWord
    create_time: Instant
    finish_time: Instant | None = None
    entities_count: Int64
    calculation_time_millis: Int64
    expiration_date: Instant


class SearchJobProgress(JobProgress, frozen=True, kw_only=True, rename={"status": "searchJobStatus"}):
    """The same as it is told."""

    status: JobWord


class SnapshotProgress(JobProgress, frozen=True, kw_only=True, rename={"status": "snapshotStatus"}):
    """The same for older clients."""

    status: JobWord


class PageNumbers(Record, frozen=True, kw_only=True):
    """Which page of how many it is."""

    number: Int32
    size: Int32
    total_elements: Int64
    total_pages: Int32


class CancelledJob(Record, frozen=True, kw_only=True):
    """A job that was stopped."""

    is_cancelled: bool
    cancelled: bool
    current_search_job_status: JobWord


class FailedJob(Record, frozen=True, kw_only=True):
    """Why a job failed; no reason for one that did not."""

    search_job_status: JobWord
    reason: str | None


class DeletedMessage(Record, frozen=True, kw_only=True):
    """The id of a message that is no more, as a list."""

    entity_ids: Sequence[Uuid]


class DeletedMessages(DeletedMessage, frozen=True, kw_only=True):
    """The ids of messages that are no more."""

    success: bool


class Pruning(Record, frozen=True, kw_only=True):
    """How many versions were removed, from when on all are kept, and whether that was all."""

    removed: Int64
    kept_from: Instant
    complete: bool


Level: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": ["debug", "info", "warn", "error"]})]


class LogLevel(Record, frozen=True, kw_only=True):
    """The least severe events that are logged."""

    level: Level


class LogLevelChange(LogLevel, frozen=True, kw_only=True):
    """The same, and what it was before."""

    previous: Level


class HelpSection(Record, frozen=True, kw_only=True):
    """A section of a page of help."""

    name: str
    body: str


class HelpPage(Record, frozen=True, kw_only=True, rename={}):
    """A page of help (docs/reference/service.md#help)."""

    topic: str
    path: Sequence[str]
    title: str
    synopsis: str
    body: str
    sections: Sequence[HelpSection]
    see_also: Sequence[str]
    stability: Annotated[str, Meta(extra_json_schema={"enum": ["stable", "evolving", "experimental"]})]
    actions: Sequence[str]
    children: Sequence[str] = ()


ENTITY_ANSWERS: Final[Mapping[str, object]] = {
    "ModelKey": ModelKey,
    "Model": RegisteredModel,
    "ModelAction": ModelChange,
    "Meta": EntityMetadata,
    "Envelope": EntityEnvelope,
    "TransactionResult": WrittenTransaction,
    "ChunkResult": Annotated[
        WrittenChunk,
        Meta(description="a committed transaction, or as the last one why a later chunk was not committed"),
    ],
    "ModelDeletion": DeletedEntities,
    "Deleted": DeletedEntity,
    "Actor": Actor,
    "Change": VersionChange,
    "Count": ModelTally,
    "StateCounts": tuple[StateTally, ...],
    "Groups": tuple[GroupTally, ...],
    "AuditItem": TrailRecord,
    "AuditPage": TrailPage,
    "WantedIndex": WantedIndex,
    "SearchIndex": SearchIndex,
    "Explanation": ExplainedSearch,
    "JobStatus": SearchJobProgress,
    "SnapshotStatus": SnapshotProgress,
    "Page": PageNumbers,
    "JobCancellation": CancelledJob,
    "JobFailure": FailedJob,
    "DeletedMessage": DeletedMessage,
    "DeletedMessages": tuple[DeletedMessages, ...],
    "Pruning": Pruning,
    "LogLevel": LogLevel,
    "LogLevelChange": LogLevelChange,
    "HelpTopic": HelpPage,
}
"""By the names of their schemas."""

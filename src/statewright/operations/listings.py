"""What is stored: counts, oldest entities, messages, search jobs
(docs/reference/operations.md#searching-page-by-page).

Search jobs and declared indexes, as storage keeps them and clients see them.
"""

from typing import Annotated, ClassVar, Literal, NewType, TypeAlias

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.ids import ModelId, TenantId
from statewright.operations.records import Instant, Int32, Int64, Members, Record, Uuid, name_words

JobStatus: TypeAlias = Literal["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"]


class MatchCount(Record, frozen=True, kw_only=True):
    """How many match; ``total_is_lower_bound``: at least so many."""

    SCHEMA: ClassVar[str] = "OpsTotal"

    total: Int32
    total_is_lower_bound: bool = False


class ModelEstimate(Record, frozen=True, kw_only=True):
    """A model, and about how many entities it has."""

    SCHEMA: ClassVar[str] = "OpsModel"

    name: str
    version: Int32
    estimated_entities: Int64


class UniqueKeyHit(Record, frozen=True, kw_only=True):
    """An entity that has a certain value in the one field of a unique ``key`` of its model."""

    entity_id: Uuid
    model: ModelKey
    key: str
    state: str


class IdleEntity(Record, frozen=True, kw_only=True):
    """An entity that could move. ``since`` is when it came into its state, None when that is too long ago to tell."""

    entity_id: Uuid
    model: ModelKey
    state: str
    written_at: Instant
    since: Instant | None = None


class IdleEntities(Record, frozen=True, kw_only=True):
    """The oldest of those that one request looked at; ``complete``: there were no others."""

    items: tuple[IdleEntity, ...]
    scanned: Int32
    complete: bool
    next_cursor: str | None = None


class ListedMessage(Record, frozen=True, kw_only=True):
    """An edge message without its payload."""

    SCHEMA: ClassVar[str] = "OpsMessage"

    id: Uuid
    header: Members
    created_at: Instant | None = None


class ListedSearchJob(Record, frozen=True, kw_only=True):
    """A search whose results are kept. ``condition`` is None where it is long."""

    SCHEMA: ClassVar[str] = "OpsSearchJob"

    id: Uuid
    model: ModelKey
    status: Annotated[str, name_words(JobStatus)]
    created_at: Instant
    hits: Int64
    finished_at: Instant | None = None
    expires_at: Instant | None = None
    failure: str | None = None
    condition: Members | None = None


class InstanceCount(Record, frozen=True, kw_only=True):
    """How many instances of a definition have a status. The fields are the columns of its row."""

    language: str
    definition_id: str
    status: str
    count: Int32


class InstanceCounts(Record, frozen=True, kw_only=True):
    """Instances by definition and status; ``is_lower_bound``: there are more."""

    items: tuple[InstanceCount, ...]
    is_lower_bound: bool


class StepCount(Record, frozen=True, kw_only=True):
    """How many executions of a step are under way. The fields are the columns of its row."""

    step_id: str
    count: Int32


class StepCounts(Record, frozen=True, kw_only=True):
    """What is under way by step; ``is_lower_bound``: there is more."""

    items: tuple[StepCount, ...]
    is_lower_bound: bool


JobId = NewType("JobId", str)


class SearchJob(Struct, frozen=True, kw_only=True):
    """A job and how it is doing. Instants are in epoch microseconds; ``failure`` is told of a FAILED one."""

    tenant: TenantId
    id: JobId
    model: ModelId
    key: ModelKey
    condition: str
    sort: str
    instant: int
    status: JobStatus
    created_at: int
    finished_at: int | None
    hits: int
    failure: str | None
    attempts: int


IndexKind = Literal["TEXT", "NUMBER", "BOOLEAN", "DOCUMENT"]
IndexStatus = Literal["BUILDING", "READY", "FAILED", "DROPPING"]


class BuildProgress(Struct, frozen=True):
    """How far a build has come, in the words of PostgreSQL; ``percent`` is of the phase."""

    phase: str
    percent: int


class DeclaredIndex(Struct, frozen=True, kw_only=True):
    """An index and how it is doing."""

    id: str
    tenant: TenantId
    model: ModelId
    path: str
    kind: IndexKind
    state: str | None
    status: IndexStatus
    failure: str | None
    progress: BuildProgress | None

"""Search jobs and declared indexes, as storage keeps them and clients see them."""

from typing import Literal, NewType

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.ids import ModelId, TenantId

JobId = NewType("JobId", str)
JobStatus = Literal["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"]


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

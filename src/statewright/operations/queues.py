"""Who works, and what waits: members, queues, nodes, rates (docs/reference/operations.md#members)."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from statewright.entity import Actor
from statewright.operations.records import Instant, Int32, Int64, Record, name_words

WorkerKind: TypeAlias = Literal["STREAM", "POLL"]
QueueKind: TypeAlias = Literal["JOB_TYPE", "TAG"]


class MemberView(Record, frozen=True, kw_only=True):
    """A calculation member (STREAM), whose stream ``principal`` opened, or a worker that polls for jobs (POLL). Calls
    are counted since it connected, and None for workers.
    """

    SCHEMA: ClassVar[str] = "OpsMember"

    id: str
    kind: Annotated[str, name_words(WorkerKind)]
    draining: bool
    node: str | None = None
    software: str | None = None
    principal: Actor | None = None
    tags: tuple[str, ...] | None = None
    job_types: tuple[str, ...] | None = None
    connected_at: Instant | None = None
    last_seen_at: Instant | None = None
    in_flight: Int32 | None = None
    succeeded: Int64 | None = None
    failed: Int64 | None = None
    timed_out: Int64 | None = None


class QueueView(Record, frozen=True, kw_only=True):
    """What waits for workers of one kind. ``depth`` could be taken now; ``wanted`` is depth and what is under way, the
    number to scale by. ``since`` is when it began to have no worker.
    """

    SCHEMA: ClassVar[str] = "OpsQueue"

    kind: Annotated[str, name_words(QueueKind)]
    name: str
    depth: Int32
    in_flight: Int32
    delayed: Int32
    held: Int32
    oldest_age_seconds: Int64 | None
    workers: Int32
    wanted: Int32
    rate_per_minute: Int32
    suspended: bool
    since: Instant | None
    is_lower_bound: bool = False


class ServiceNode(Record, frozen=True, kw_only=True):
    """A process of the service that counts as alive until ``lease_until``, with how many calculation members the tenant
    has there.
    """

    SCHEMA: ClassVar[str] = "OpsNode"

    id: str
    name: str
    version: str
    draining: bool
    started_at: Instant
    lease_until: Instant
    members: Int32


class MinuteRate(Record, frozen=True, kw_only=True):
    """What was written in the minute that began ``at``."""

    at: Instant
    transactions: Int64
    versions: Int64


class Rates(Record, frozen=True, kw_only=True):
    """What was written in the last hour."""

    transactions: Int64
    versions: Int64
    minutes: tuple[MinuteRate, ...]

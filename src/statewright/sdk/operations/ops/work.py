"""Who works, and what waits: members, queues, nodes (docs/reference/operations.md#members)."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from statewright.sdk.operations.calls import Operation, Page, Script, build_query, quote_segment
from statewright.sdk.operations.ops.answers import (
    build_call,
    build_reader,
    read_list,
    repeat_parameter,
    write_duration,
)


class Member(Struct, frozen=True, rename="camel", kw_only=True):
    """A calculation member (STREAM), or a worker that polls for jobs (POLL). Calls are counted since it connected, and
    None for workers.
    """

    id: str
    kind: str
    draining: bool
    node: str = ""
    software: str = ""
    tags: tuple[str, ...] = ()
    job_types: tuple[str, ...] = ()
    connected_at: str = ""
    last_seen_at: str = ""
    in_flight: int = 0
    succeeded: int | None = None
    failed: int | None = None
    timed_out: int | None = None


class Queue(Struct, frozen=True, rename="camel", kw_only=True):
    """What waits for workers of one kind. ``depth`` could be taken now; ``wanted`` is depth and what is under way, the
    number to scale by. ``since`` is when it began to have no worker.
    """

    kind: str
    name: str
    depth: int
    in_flight: int
    delayed: int
    held: int
    oldest_age_seconds: int | None
    workers: int
    wanted: int
    suspended: bool
    since: str | None = None
    is_lower_bound: bool = False


class ServiceNode(Struct, frozen=True, rename="camel", kw_only=True):
    """A process of the service that is alive."""

    id: str
    name: str
    version: str
    draining: bool
    started_at: str
    lease_until: str
    members: int


class MinuteRate(Struct, frozen=True):
    """What was written in the minute that began ``at``."""

    at: str
    transactions: int
    versions: int


class Rates(Struct, frozen=True):
    """What was written in the last hour."""

    transactions: int
    versions: int
    minutes: tuple[MinuteRate, ...]


def members(
    *,
    tags: Sequence[str] = (),
    kinds: Sequence[str] = (),
    nodes: Sequence[str] = (),
    stale: bool | None = None,
) -> Script[Page[Member]]:
    """Calculation members of all nodes, and workers, by id; ``stale`` ones were not heard of for 20 seconds."""
    query = (
        *repeat_parameter("tag", tags),
        *repeat_parameter("kind", kinds),
        *repeat_parameter("node", nodes),
        *build_query(stale=stale),
    )
    return (yield from read_list("members", "/members", Member, query))


def drain(member_id: str, *, within_s: float = 300) -> Operation[Member]:
    """Send a calculation member nothing any more; its stream ends when it is idle, after ``within_s`` seconds in any
    case. For operators.
    """
    call = build_call(
        "drain",
        "POST",
        f"/members/{quote_segment(member_id)}/drain",
        target=(member_id,),
        query=build_query(within=write_duration(within_s)),
    )
    return Operation(call, _read_member)


def nodes() -> Script[Page[ServiceNode]]:
    """The processes of the service that are alive, by id."""
    return (yield from read_list("nodes", "/nodes", ServiceNode, ()))


def queues(*, kinds: Sequence[str] = (), without_worker: bool | None = None) -> Script[Page[Queue]]:
    """Types of jobs with unfinished jobs, and tags that callouts need; only what nobody can take ``without_worker``."""
    query = (*repeat_parameter("kind", kinds), *build_query(withoutWorker=without_worker))
    return (yield from read_list("queues", "/queues", Queue, query))


def queue(kind: Literal["JOB_TYPE", "TAG"], name: str) -> Operation[Queue]:
    """One queue; one that nobody knows is empty. The name of tags is all of them, joined by commas."""
    path = f"/queues/{kind}/{quote_segment(name)}"
    return Operation(build_call("queue", "GET", path, target=(kind, name)), _read_queue)


def rates() -> Operation[Rates]:
    """What was written in each minute of the last hour."""
    return Operation(build_call("rates", "GET", "/rates"), _read_rates)


_read_member = build_reader(Member)
_read_queue = build_reader(Queue)
_read_rates = build_reader(Rates)

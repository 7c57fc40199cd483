"""Who works, and what waits for whom (docs/reference/operations.md#queues)."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from statewright.conditions.wire import parse_tags
from statewright.ids import TenantId
from statewright.lru import LruCache
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.ops.members import ConnectedMembers, Worker, WorkerKind, list_streams
from statewright.services.processes.push import PUSHED_BY
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops.queues import JobCensus, JobQueue, LeaseHolder, count_jobs
from statewright.storage.pool import Pool

Named = TypeVar("Named")

MAX_AGE_S: Final = 2.0
"""A node counts the jobs of a tenant at most so often."""

MAX_TENANTS: Final = 1000
"""Of which counts are kept."""


class NameKey(Struct, frozen=True, array_like=True):
    """The place of a worker or a queue in its list."""

    name: str


class Queue(Struct, frozen=True, kw_only=True):
    """The jobs of a type, and how many could take them: members with the tags, and workers that have some."""

    name: str
    depth: int = 0
    in_flight: int = 0
    delayed: int = 0
    held: int = 0
    oldest_age_us: int | None = None
    workers: int = 0
    is_lower_bound: bool = False

    @property
    def wanted(self) -> int:
        """Jobs that keep a worker busy or wait for one: what an autoscaler divides by the jobs of one worker."""
        return self.depth + self.in_flight


class WorkerFilter(Struct, frozen=True, kw_only=True):
    """Which workers are wanted: with any of the tags, of the kinds, on the nodes. None: any."""

    tags: frozenset[str] | None = None
    kinds: frozenset[WorkerKind] | None = None
    nodes: frozenset[str] | None = None
    seen_before: int | None = None
    """Nothing was heard of them since this instant, in epoch microseconds."""
    seen_since: int | None = None

    def matches(self, worker: Worker) -> bool:
        """Whether a worker is wanted."""
        return (
            (self.tags is None or not self.tags.isdisjoint(worker.tags))
            and (self.kinds is None or worker.kind in self.kinds)
            and (self.nodes is None or worker.node in self.nodes)
            and (self.seen_before is None or (worker.last_seen_at or 0) < self.seen_before)
            and (self.seen_since is None or (worker.last_seen_at or 0) >= self.seen_since)
        )


class JobCounts:
    """The jobs of tenants as they were counted last, by one statement at a time for each tenant."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counts: LruCache[TenantId, tuple[float, JobCensus]] = LruCache(MAX_TENANTS)
        self._counting: dict[TenantId, asyncio.Task[JobCensus]] = {}

    async def fetch(self, tenant: TenantId) -> JobCensus:
        """What was counted within the last ``MAX_AGE_S``."""
        known = self._counts.get(tenant)
        if known is not None and time.monotonic() - known[0] < MAX_AGE_S:
            return known[1]
        counting = self._counting.get(tenant)
        if counting is None:
            counting = self._counting[tenant] = asyncio.create_task(self._count(tenant), name="count-jobs")
        return await asyncio.shield(counting)

    async def _count(self, tenant: TenantId) -> JobCensus:
        begun = time.monotonic()
        try:
            census = await count_jobs(self._pool, tenant)
            self._counts.put(tenant, (begun, census))
            return census
        finally:
            del self._counting[tenant]


async def list_workers(
    runtime: Runtime, caller: Caller, wanted: WorkerFilter, page: PageRequest[NameKey]
) -> Page[Worker, NameKey]:
    """The members of all nodes, and workers that hold jobs they have polled, by id."""
    census = await runtime.extensions.get(JobCounts).fetch(caller.tenant)
    members = await list_streams(runtime, caller.tenant)
    pollers = (_to_worker(each) for each in census.holders if not each.worker.startswith(PUSHED_BY))
    found = sorted((each for each in (*members, *pollers) if wanted.matches(each)), key=lambda each: each.id)
    return _cut(found, page, lambda worker: worker.id)


async def list_queues(
    runtime: Runtime, caller: Caller, page: PageRequest[NameKey], *, without_worker: bool
) -> Page[Queue, NameKey]:
    """The job types that have unfinished jobs, by name; only those that nobody can take jobs of, if so wanted."""
    census = await runtime.extensions.get(JobCounts).fetch(caller.tenant)
    queues = [_to_queue(runtime, caller.tenant, census, queue) for queue in census.queues]
    found = [queue for queue in queues if not (without_worker and queue.workers)]
    return _cut(found, page, lambda queue: queue.name)


async def get_queue(runtime: Runtime, caller: Caller, job_type: str) -> Queue:
    """The queue of a job type; an empty one where there are no jobs."""
    census = await runtime.extensions.get(JobCounts).fetch(caller.tenant)
    empty = JobQueue(job_type=job_type, depth=0, in_flight=0, delayed=0, held=0, oldest_age_us=None, routes=(None,))
    queue = next((queue for queue in census.queues if queue.job_type == job_type), empty)
    return _to_queue(runtime, caller.tenant, census, queue)


def _to_queue(runtime: Runtime, tenant: TenantId, census: JobCensus, queue: JobQueue) -> Queue:
    wanted = [frozenset(parse_tags(tags) if tags else (queue.job_type.lower(),)) for tags in queue.routes]
    members = runtime.extensions.get(ConnectedMembers).iterate(tenant)
    takers = sum(any(tags <= member.tags for tags in wanted) for member in members)
    pollers = sum(queue.job_type in each.job_types and not each.worker.startswith(PUSHED_BY) for each in census.holders)
    return Queue(
        name=queue.job_type,
        depth=queue.depth,
        in_flight=queue.in_flight,
        delayed=queue.delayed,
        held=queue.held,
        oldest_age_us=queue.oldest_age_us,
        workers=takers + pollers,
        is_lower_bound=not census.is_complete,
    )


def _to_worker(holder: LeaseHolder) -> Worker:
    return Worker(
        id=holder.worker,
        kind="POLL",
        job_types=holder.job_types,
        last_seen_at=holder.last_lease_at,
        in_flight=holder.leases,
    )


def _cut(found: Sequence[Named], page: PageRequest[NameKey], get_name: Callable[[Named], str]) -> Page[Named, NameKey]:
    """A page of what is in memory, by ascending name."""
    rest = [each for each in found if page.after is None or get_name(each) > page.after.name]
    total = len(found) if page.counts else None
    return build_page(page, rest, lambda each: NameKey(get_name(each)), total)

"""Who works, and what waits for whom (docs/reference/operations.md#queues)."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions.wire import parse_tags
from statewright.ids import NodeId, TenantId
from statewright.lru import LruCache
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.ops.members import ConnectedMembers, Worker, WorkerKind, list_streams
from statewright.services.processes.hosting import ProcessHosts
from statewright.services.processes.push import PUSHED_BY
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops.queues import CalloutQueue, JobQueue, WorkCensus, count_work
from statewright.storage.pool import Pool

Named = TypeVar("Named")

QueueKind: TypeAlias = Literal["JOB_TYPE", "TAG"]

MAX_AGE_S: Final = 2.0
"""A node counts the work of a tenant at most so often."""

MAX_TENANTS: Final = 1000
"""Of which counts are kept."""

YIELDS_AFTER: Final = 50
"""Queues that are built at a stretch: each is held against all members."""

Pollers: TypeAlias = dict[tuple[TenantId, str], set[str]]
"""Workers by tenant and type of jobs."""


class NameKey(Struct, frozen=True, array_like=True):
    """The place of a worker or a queue in its list."""

    name: str


class QueueId(Struct, frozen=True):
    """A queue among those of all tenants."""

    tenant: TenantId
    kind: QueueKind
    name: str


class Queue(Struct, frozen=True, kw_only=True):
    """The jobs of a type, or the callouts that need the same tags, and how many could take them: members with the tags,
    and workers that poll the type or have some. ``name`` of tags: sorted, joined by commas. ``since``: for how long
    nobody could take what waits, as an instant in epoch microseconds.
    """

    kind: QueueKind
    name: str
    depth: int = 0
    in_flight: int = 0
    delayed: int = 0
    held: int = 0
    oldest_age_us: int | None = None
    workers: int = 0
    handed_out: int = 0
    """In the last minute."""
    is_lower_bound: bool = False
    is_suspended: bool = False
    since: int | None = None

    @property
    def wanted(self) -> int:
        """What keeps a worker busy or waits for one: what an autoscaler divides by the jobs of one worker."""
        return self.depth + self.in_flight

    @property
    def is_unserved(self) -> bool:
        """Whether something waits that nobody can take."""
        return self.depth > 0 and self.workers == 0


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


class WorkCounts:
    """The work of tenants as it was counted last, by one look at a time for each tenant."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counts: LruCache[TenantId, tuple[float, WorkCensus]] = LruCache(MAX_TENANTS)
        self._counting: dict[TenantId, asyncio.Task[WorkCensus]] = {}
        self.unserved_since: dict[QueueId, int] = {}
        """Queues that nobody serves, and since when, in epoch microseconds; whoever watches them keeps it."""

    async def fetch(self, tenant: TenantId) -> WorkCensus:
        """What was counted within the last ``MAX_AGE_S``."""
        known = self._counts.get(tenant)
        if known is not None and time.monotonic() - known[0] < MAX_AGE_S:
            return known[1]
        counting = self._counting.get(tenant)
        if counting is None:
            counting = self._counting[tenant] = asyncio.create_task(self._count(tenant), name="count-work")
        return await asyncio.shield(counting)

    async def _count(self, tenant: TenantId) -> WorkCensus:
        begun = time.monotonic()
        try:
            census = await count_work(self._pool, tenant)
            self._counts.put(tenant, (begun, census))
            return census
        finally:
            del self._counting[tenant]


async def list_workers(
    runtime: Runtime, caller: Caller, wanted: WorkerFilter, page: PageRequest[NameKey]
) -> Page[Worker, NameKey]:
    """The members of all nodes, and workers that have polled lately or hold jobs, by id."""
    census = await runtime.extensions.get(WorkCounts).fetch(caller.tenant)
    members = await list_streams(runtime, caller.tenant)
    pollers = _list_pollers(runtime, caller.tenant, census)
    found = sorted((each for each in (*members, *pollers) if wanted.matches(each)), key=lambda each: each.id)
    return _cut(found, page, lambda worker: worker.id)


async def list_queues(
    runtime: Runtime,
    caller: Caller,
    page: PageRequest[NameKey],
    *,
    without_worker: bool,
    kinds: Collection[QueueKind] | None = None,
) -> Page[Queue, NameKey]:
    """What has unfinished jobs or callouts, by kind and name; only what nobody can take, if so wanted."""
    census = await runtime.extensions.get(WorkCounts).fetch(caller.tenant)
    found = [
        queue
        for queue in (await build_queues(runtime, census)).get(caller.tenant, [])
        if not (without_worker and queue.workers) and (kinds is None or queue.kind in kinds)
    ]
    return _cut(found, page, lambda queue: f"{queue.kind}/{queue.name}")


async def get_queue(runtime: Runtime, caller: Caller, name: str, *, kind: QueueKind = "JOB_TYPE") -> Queue:
    """The queue of a job type or of tags; an empty one where there is nothing."""
    tenant = caller.tenant
    census = await runtime.extensions.get(WorkCounts).fetch(tenant)
    if kind == "TAG":
        name = ",".join(sorted({tag.lower() for tag in parse_tags(name)}))
        known = next((each for each in census.callouts if each.tags == name), None)
        empty = CalloutQueue(tenant=tenant, tags=name, depth=0, in_flight=0, oldest_age_us=None)
        return _to_callout_queue(runtime, census, known or empty)
    jobs = next((each for each in census.jobs if each.job_type == name), None)
    none = JobQueue(
        tenant=tenant, job_type=name, depth=0, in_flight=0, delayed=0, held=0, oldest_age_us=None, routes=(None,)
    )
    return _to_job_queue(runtime, census, _index_pollers(runtime, census), jobs or none)


async def build_queues(runtime: Runtime, census: WorkCensus) -> dict[TenantId, list[Queue]]:
    """The queues of each tenant, by kind and name; lets others have their turn meanwhile."""
    found: dict[TenantId, list[Queue]] = {}
    pollers = _index_pollers(runtime, census)
    queues: list[JobQueue | CalloutQueue] = [*census.jobs, *census.callouts]
    for number, each in enumerate(queues, 1):
        if isinstance(each, JobQueue):
            queue = _to_job_queue(runtime, census, pollers, each)
        else:
            queue = _to_callout_queue(runtime, census, each)
        found.setdefault(each.tenant, []).append(queue)
        if number % YIELDS_AFTER == 0:
            await asyncio.sleep(0)
    return found


def _index_pollers(runtime: Runtime, census: WorkCensus) -> Pollers:
    """Who has polled lately, or has jobs, by tenant and type."""
    found: Pollers = {}
    here = runtime.extensions.get(ProcessHosts).polling_workers.list_recent()  # others hear of them some seconds later
    known = [(each.tenant, each.worker, each.job_types) for each in census.pollers]
    known += [(each.tenant, each.worker, each.job_types) for each in census.holders]
    known += [(each.tenant, each.worker, each.job_types) for each in here]
    for tenant, worker, job_types in known:
        if not worker.startswith(PUSHED_BY):
            for job_type in job_types:
                found.setdefault((tenant, job_type), set()).add(worker)
    return found


def _to_job_queue(runtime: Runtime, census: WorkCensus, pollers: Pollers, queue: JobQueue) -> Queue:
    tenant, name = queue.tenant, queue.job_type
    wanted = [frozenset(parse_tags(tags) if tags else (name.lower(),)) for tags in queue.routes]
    members = runtime.extensions.get(ConnectedMembers).iterate(tenant)
    takers = sum(any(tags <= member.tags for tags in wanted) for member in members)
    return Queue(
        kind="JOB_TYPE",
        name=name,
        depth=queue.depth,
        in_flight=queue.in_flight,
        delayed=queue.delayed,
        held=queue.held,
        oldest_age_us=queue.oldest_age_us,
        workers=takers + len(pollers.get((tenant, name), ())),
        handed_out=census.handed_out.get((tenant, "JOB_TYPE", name), 0),
        is_lower_bound=tenant in census.crowded,
        is_suspended=runtime.suspensions.find_job_type(tenant, name) is not None,
        since=_find_since(runtime, QueueId(tenant, "JOB_TYPE", name)),
    )


def _to_callout_queue(runtime: Runtime, census: WorkCensus, queue: CalloutQueue) -> Queue:
    tags = [tag for tag in queue.tags.split(",") if tag]
    return Queue(
        kind="TAG",
        name=queue.tags,
        depth=queue.depth,
        in_flight=queue.in_flight,
        oldest_age_us=queue.oldest_age_us,
        workers=runtime.extensions.get(ConnectedMembers).count(queue.tenant, tags),
        handed_out=census.handed_out.get((queue.tenant, "TAG", queue.tags), 0),
        is_suspended=runtime.suspensions.find_tags(queue.tenant, tags) is not None,
        since=_find_since(runtime, QueueId(queue.tenant, "TAG", queue.tags)),
    )


def _find_since(runtime: Runtime, queue: QueueId) -> int | None:
    return runtime.extensions.get(WorkCounts).unserved_since.get(queue)


def _list_pollers(runtime: Runtime, tenant: TenantId, census: WorkCensus) -> Iterator[Worker]:
    """Workers by name, as the one that was seen last tells."""
    node = runtime.extensions.get(ConnectedMembers).node
    seen = {
        each.worker: Worker(
            id=each.worker, kind="POLL", node=NodeId(each.node), job_types=each.job_types, last_seen_at=each.seen_at
        )
        for each in census.pollers
        if each.tenant == tenant
    }
    for each in runtime.extensions.get(ProcessHosts).polling_workers.list_recent(tenant):
        seen[each.worker] = Worker(
            id=each.worker, kind="POLL", node=node, job_types=each.job_types, last_seen_at=each.seen_at
        )
    held = {each.worker: each for each in census.holders if each.tenant == tenant}
    for name in seen.keys() | held.keys():
        if name.startswith(PUSHED_BY):
            continue
        worker, lease = seen.get(name, Worker(id=name, kind="POLL")), held.get(name)
        types = (*worker.job_types, *(lease.job_types if lease else ()))
        yield replace(
            worker,
            job_types=tuple(sorted(set(types))),
            in_flight=lease.leases if lease else 0,
            last_seen_at=worker.last_seen_at or (lease.last_lease_at if lease else None),
        )


def _cut(found: Sequence[Named], page: PageRequest[NameKey], get_name: Callable[[Named], str]) -> Page[Named, NameKey]:
    """A page of what is in memory, by ascending name."""
    rest = [each for each in found if page.after is None or get_name(each) > page.after.name]
    total = len(found) if page.counts else None
    return build_page(page, rest, lambda each: NameKey(get_name(each)), total)

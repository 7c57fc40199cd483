"""Who works, and what waits for whom (docs/reference/operations.md#queues).

The calculation members that are connected, to this node and to the others (docs/reference/operations.md#members); which
nodes there are (docs/reference/operations.md#nodes), and how much was written in the last hour
(docs/reference/operations.md#rates).
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from statewright.cluster.heartbeat import PeerTable
from statewright.cluster.node import MemberDrains
from statewright.compute.members import Member, Members
from statewright.conditions.wire import parse_tags
from statewright.entity import Actor
from statewright.failures import MemberNotFound
from statewright.ids import NodeId, TenantId
from statewright.instants import to_rfc3339
from statewright.loop.background import repeat
from statewright.loop.lru import LruCache
from statewright.operations.queues import MemberView, QueueKind, QueueView, Rates, ServiceNode, WorkerKind
from statewright.operations.service import Act
from statewright.services.core import Caller, Core
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.processes.hosting import ProcessHosts
from statewright.services.processes.push import PUSHED_BY
from statewright.storage.commit.group_commit import CommitRates
from statewright.storage.ops import queues as stored
from statewright.storage.ops.queues import NodeKey as NodeKey
from statewright.storage.ops.service import add_rates, list_recent_rates, record_act
from statewright.storage.pool import Pool
from statewright.telemetry import logs

log = logs.logger(__name__)


class Worker(Struct, frozen=True, kw_only=True):
    """Who can be given work: a member with a stream, or a worker that polls jobs. Instants in epoch microseconds;
    ``succeeded``, ``failed`` and ``timed_out`` count the calls to a member since it connected.
    """

    id: str
    kind: WorkerKind
    node: NodeId | None = None
    software: str | None = None
    principal: Actor | None = None
    tags: frozenset[str] = frozenset()
    job_types: tuple[str, ...] = ()
    connected_at: int | None = None
    last_seen_at: int | None = None
    in_flight: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    timed_out: int | None = None
    is_draining: bool = False


def show_worker(worker: Worker) -> MemberView:
    """As clients are told of it."""
    return MemberView(
        id=worker.id,
        kind=worker.kind,
        draining=worker.is_draining,
        node=worker.node,
        software=worker.software,
        principal=worker.principal,
        tags=tuple(sorted(worker.tags)) if worker.kind == "STREAM" else None,
        job_types=worker.job_types if worker.kind == "POLL" else None,
        connected_at=None if worker.connected_at is None else to_rfc3339(worker.connected_at),
        last_seen_at=None if worker.last_seen_at is None else to_rfc3339(worker.last_seen_at),
        in_flight=worker.in_flight,
        succeeded=worker.succeeded,
        failed=worker.failed,
        timed_out=worker.timed_out,
    )


class Declared(Struct, frozen=True):
    """A member that can be asked, and its tags in lower case."""

    id: str
    tags: frozenset[str]


class ConnectedMembers:
    """What this node knows of members: its own at once, those of other nodes as of their last heartbeat."""

    def __init__(self, node: NodeId, local: Members, peers: PeerTable) -> None:
        self.node = node
        self._local = local
        self._peers = peers

    def count(self, tenant: TenantId, tags: Iterable[str]) -> int:
        """How many can be asked that declare all of the tags."""
        wanted = frozenset(tag.lower() for tag in tags)
        return sum(wanted <= member.tags for member in self.iterate(tenant))

    def iterate(self, tenant: TenantId) -> Iterator[Declared]:
        """The members of a tenant that can be asked, those of this node first."""
        for member in self._local.list_members(tenant):
            if not member.is_draining:
                yield Declared(member.id, member.tags)
        for remote in self._peers.list_members(tenant):
            yield Declared(remote.id, remote.tags)

    def list_here(self, tenant: TenantId) -> list[Worker]:
        """The members of a tenant that are connected to this node, those that are being drained included."""
        return [_to_worker(member, self.node) for member in self._local.list_members(tenant)]


async def list_streams(core: Core, connected: ConnectedMembers, tenant: TenantId) -> list[Worker]:
    """All members of a tenant, of all nodes; what others tell of theirs is a few seconds old."""
    elsewhere = await stored.list_members_elsewhere(core.pool, tenant, connected.node)
    return [*connected.list_here(tenant), *(_to_worker(member, member.node) for member in elsewhere)]


async def drain(
    core: Core,
    connected: ConnectedMembers,
    drains: MemberDrains,
    caller: Caller,
    member_id: str,
    *,
    within: timedelta,
) -> Worker:
    """Send a member nothing any more, and let it go when it is idle, at the latest after ``within``; how it is now.

    Raises ``MemberNotFound``, and ``ComputeMemberDisconnected`` when its node does not answer.
    """
    streams = await list_streams(core, connected, caller.tenant)
    member = next((each for each in streams if each.id == member_id), None)
    if member is None or member.node is None:
        raise MemberNotFound
    node = member.node
    drained = replace(member, is_draining=True)
    act = Act(
        action="member.drain",
        target_kind="MEMBER",
        target_id=member_id,
        details={"node": node, "tags": sorted(member.tags), "withinSeconds": round(within.total_seconds())},
    )

    async def apply(pool: Pool) -> bool:
        async with pool.connection() as connection, connection.transaction():
            by = caller.principal.actor
            await record_act(connection, caller.tenant, by, act)
            await drains.drain(caller.tenant, node, member_id, within=within)  # what fails leaves no act behind
        return True

    await caller.carry_out(core.pool, apply, lambda _: drained)
    return drained


def _to_worker(member: Member | stored.ObservedMember, node: NodeId) -> Worker:
    return Worker(
        id=member.id,
        kind="STREAM",
        node=node,
        software=member.software,
        principal=member.principal,
        tags=frozenset(member.tags),
        connected_at=member.connected_at or None,
        last_seen_at=member.last_seen_at or None,
        in_flight=member.in_flight,
        succeeded=member.succeeded,
        failed=member.failed,
        timed_out=member.timed_out,
        is_draining=member.is_draining,
    )


Named = TypeVar("Named")

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


def show_queue(queue: Queue) -> QueueView:
    """As clients are told of it."""
    return QueueView(
        kind=queue.kind,
        name=queue.name,
        depth=queue.depth,
        in_flight=queue.in_flight,
        delayed=queue.delayed,
        held=queue.held,
        oldest_age_seconds=None if queue.oldest_age_us is None else queue.oldest_age_us // 1_000_000,
        workers=queue.workers,
        wanted=queue.wanted,
        rate_per_minute=queue.handed_out,
        suspended=queue.is_suspended,
        since=None if queue.since is None else to_rfc3339(queue.since),
        is_lower_bound=queue.is_lower_bound,
    )


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

    def __init__(self, core: Core, hosts: ProcessHosts, members: ConnectedMembers) -> None:
        self.core = core
        self.hosts = hosts
        self.members = members
        self._counts: LruCache[TenantId, tuple[float, stored.WorkCensus]] = LruCache(MAX_TENANTS)
        self._counting: dict[TenantId, asyncio.Task[stored.WorkCensus]] = {}
        self.unserved_since: dict[QueueId, int] = {}
        """Queues that nobody serves, and since when, in epoch microseconds; whoever watches them keeps it."""

    async def fetch(self, tenant: TenantId) -> stored.WorkCensus:
        """What was counted within the last ``MAX_AGE_S``."""
        known = self._counts.get(tenant)
        if known is not None and time.monotonic() - known[0] < MAX_AGE_S:
            return known[1]
        counting = self._counting.get(tenant)
        if counting is None:
            counting = self._counting[tenant] = asyncio.create_task(self._count(tenant), name="count-work")
        return await asyncio.shield(counting)

    async def _count(self, tenant: TenantId) -> stored.WorkCensus:
        begun = time.monotonic()
        try:
            census = await stored.count_work(self.core.pool, tenant)
            self._counts.put(tenant, (begun, census))
            return census
        finally:
            del self._counting[tenant]


async def list_workers(
    work: WorkCounts, caller: Caller, wanted: WorkerFilter, page: PageRequest[NameKey]
) -> Page[Worker, NameKey]:
    """The members of all nodes, and workers that have polled lately or hold jobs, by id."""
    census = await work.fetch(caller.tenant)
    members = await list_streams(work.core, work.members, caller.tenant)
    pollers = _list_pollers(work, caller.tenant, census)
    found = sorted((each for each in (*members, *pollers) if wanted.matches(each)), key=lambda each: each.id)
    return _cut(found, page, lambda worker: worker.id)


async def list_queues(
    work: WorkCounts,
    caller: Caller,
    page: PageRequest[NameKey],
    *,
    without_worker: bool,
    kinds: Collection[QueueKind] | None = None,
) -> Page[Queue, NameKey]:
    """What has unfinished jobs or callouts, by kind and name; only what nobody can take, if so wanted."""
    census = await work.fetch(caller.tenant)
    found = [
        queue
        for queue in (await build_queues(work, census)).get(caller.tenant, [])
        if not (without_worker and queue.workers) and (kinds is None or queue.kind in kinds)
    ]
    return _cut(found, page, lambda queue: f"{queue.kind}/{queue.name}")


async def get_queue(work: WorkCounts, caller: Caller, name: str, *, kind: QueueKind = "JOB_TYPE") -> Queue:
    """The queue of a job type or of tags; an empty one where there is nothing."""
    tenant = caller.tenant
    census = await work.fetch(tenant)
    if kind == "TAG":
        name = name_tags(parse_tags(name))
        known = next((each for each in census.callouts if each.tags == name), None)
        empty = stored.CalloutQueue(tenant=tenant, tags=name, depth=0, in_flight=0, oldest_age_us=None)
        return _to_callout_queue(work, census, known or empty)
    jobs = next((each for each in census.jobs if each.job_type == name), None)
    none = stored.JobTypeQueue(
        tenant=tenant, job_type=name, depth=0, in_flight=0, delayed=0, held=0, oldest_age_us=None, routes=(None,)
    )
    return _to_job_queue(work, census, _index_pollers(work, census), jobs or none)


MAX_NAME_CHARS: Final = 512
"""Of the name of a queue: an index of the database takes no names of any length."""


def name_tags(tags: Collection[str]) -> str:
    """The name of the queue of callouts that need these tags; one that is too long is cut."""
    return ",".join(sorted({tag.lower() for tag in tags}))[:MAX_NAME_CHARS]


async def build_queues(work: WorkCounts, census: stored.WorkCensus) -> dict[TenantId, list[Queue]]:
    """The queues of each tenant, by kind and name; lets others have their turn meanwhile."""
    found: dict[TenantId, list[Queue]] = {}
    pollers = _index_pollers(work, census)
    queues: list[stored.JobTypeQueue | stored.CalloutQueue] = [*census.jobs, *census.callouts]
    for number, each in enumerate(queues, 1):
        if isinstance(each, stored.JobTypeQueue):
            queue = _to_job_queue(work, census, pollers, each)
        else:
            queue = _to_callout_queue(work, census, each)
        found.setdefault(each.tenant, []).append(queue)
        if number % YIELDS_AFTER == 0:
            await asyncio.sleep(0)
    return found


def _index_pollers(work: WorkCounts, census: stored.WorkCensus) -> Pollers:
    """Who has polled lately, or has jobs, by tenant and type."""
    found: Pollers = {}
    here = work.hosts.polling_workers.list_recent()  # others hear of them some seconds later
    known = [(each.tenant, each.worker, each.job_types) for each in census.pollers]
    known += [(each.tenant, each.worker, each.job_types) for each in census.holders]
    known += [(each.tenant, each.worker, each.job_types) for each in here]
    for tenant, worker, job_types in known:
        if not worker.startswith(PUSHED_BY):
            for job_type in job_types:
                found.setdefault((tenant, job_type), set()).add(worker)
    return found


def _to_job_queue(work: WorkCounts, census: stored.WorkCensus, pollers: Pollers, queue: stored.JobTypeQueue) -> Queue:
    tenant, name = queue.tenant, queue.job_type
    wanted = [frozenset(parse_tags(tags) if tags else (name.lower(),)) for tags in queue.routes]
    members = work.members.iterate(tenant)
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
        is_suspended=work.core.guard.find_job_type(tenant, name) is not None,
        since=_find_since(work, QueueId(tenant, "JOB_TYPE", name)),
    )


def _to_callout_queue(work: WorkCounts, census: stored.WorkCensus, queue: stored.CalloutQueue) -> Queue:
    tags = [tag for tag in queue.tags.split(",") if tag]
    return Queue(
        kind="TAG",
        name=queue.tags,
        depth=queue.depth,
        in_flight=queue.in_flight,
        oldest_age_us=queue.oldest_age_us,
        workers=work.members.count(queue.tenant, tags),
        handed_out=census.handed_out.get((queue.tenant, "TAG", queue.tags), 0),
        is_suspended=work.core.guard.find_tags(queue.tenant, tags) is not None,
        since=_find_since(work, QueueId(queue.tenant, "TAG", queue.tags)),
    )


def _find_since(work: WorkCounts, queue: QueueId) -> int | None:
    return work.unserved_since.get(queue)


def _list_pollers(work: WorkCounts, tenant: TenantId, census: stored.WorkCensus) -> Iterator[Worker]:
    """Workers by name, as the one that was seen last tells."""
    node = work.members.node
    seen = {
        each.worker: Worker(
            id=each.worker, kind="POLL", node=NodeId(each.node), job_types=each.job_types, last_seen_at=each.seen_at
        )
        for each in census.pollers
        if each.tenant == tenant
    }
    for each in work.hosts.polling_workers.list_recent(tenant):
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


RATES_INTERVAL: Final = timedelta(seconds=10)
"""How old the counts of other nodes may be."""


class RateRecorder:
    """Stores what this process has counted, every few seconds; what is counted between a crash and the last time is
    lost, since these numbers are for looking at.
    """

    def __init__(self, pool: Pool, counted: CommitRates) -> None:
        self.pool = pool
        self._counted = counted

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, RATES_INTERVAL, log=log, failure="rates_not_recorded", waits_first=True)

    async def run_once(self) -> None:
        """Store what was counted since the last time. Raises what the database says; the counts are kept then."""
        taken = self._counted.take()
        try:
            await add_rates(self.pool, taken)
        except BaseException:
            self._counted.give_back(taken)
            raise


async def show_rates(recorder: RateRecorder, caller: Caller) -> Rates:
    """What the tenant has written in each minute of the last hour, the oldest first."""
    await recorder.run_once()
    minutes = await list_recent_rates(recorder.pool, caller.tenant)
    return Rates(
        transactions=sum(each.transactions for each in minutes),
        versions=sum(each.versions for each in minutes),
        minutes=tuple(minutes),
    )


async def list_nodes(core: Core, caller: Caller, page: PageRequest[NodeKey]) -> Page[ServiceNode, NodeKey]:
    """The nodes of the installation that are alive, by id; their members are those of the tenant."""
    found = await stored.list_nodes(core.pool, caller.tenant, limit=page.size + 1, after=page.after)
    total = await stored.count_nodes(core.pool, limit=page.count_up_to) if page.counts else None
    return build_page(page, found, lambda node: NodeKey(node.id), total)

"""Waking the tasks that wait for jobs: long polls, and those that push jobs to calculation members.

A wake-up is a hint that there may be a job; a task that is woken tries to claim one, and may find that another was
faster. Hints of other processes arrive by NOTIFY and may be lost with a connection, so tasks also look by themselves
now and then.

A hint wakes one waiter of its topic, the one that has waited longest: waking all would have them claim for the same few
jobs. One that finds as many jobs as it can take passes the hint on, since there may be more; so does one that goes away
with a hint that it did not use.

What a process knows to be idle: topics without a job that could be claimed, so that an empty poll costs no statement
(docs/reference/steps.md#polls-that-find-nothing).

A claim that came back with fewer jobs than it asked for has proved that there are no more of its types. That stays true
until a job is made or set free, and every process tells every other when that happens: at once here, by NOTIFY
elsewhere. So the proof is kept until something is heard of the topic. Three things could make it wrong:

* A hint is heard while the claim is under way, whose snapshot may be older than the job. Such a claim proves nothing.
* A hint is lost: its sender died between commit and notification, a connection hangs. So a proof counts for
  ``MAX_AGE_US`` from the beginning of its claim, no longer.
* Nothing is heard at all, because there is no connection to listen on. Then nothing is known.

Workers that poll jobs, as this process sees them (docs/reference/operations.md#members).

Claims that meet. One statement is for those that ask for jobs of the same types. A claim that meets none leaves at
once; those that come while the statement of another is under way wait for it, and leave together as soon as it is back:
a statement costs nearly as much for one job as for twenty. Each worker gets the oldest jobs that are left, in the order
of asking.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from statewright.failures import TooManyRequests
from statewright.ids import Clock, EntityId, TenantId
from statewright.loop.lru import LruCache
from statewright.storage.processes.jobs import JobLease, LockedJob, is_cut_short

Topic = tuple[TenantId, str, str]
"""A tenant, a language and a job type."""

ANY_TYPE: Final = ""
"""Stands for all job types in a hint; no job has it as its type."""

TAGGED: Final = "#"
"""In a hint: there may be jobs for calculation members with the tags that a definition names. No worker polls them."""

MAX_AGE_US: Final = 1_000_000
"""How long a proof counts: the longest that a job whose announcement was lost stays unseen by polls."""

MAX_TOPICS: Final = 20_000


class PendingClaim:
    """One claim that is under way."""

    __slots__ = ("began", "topics")

    def __init__(self, topics: Iterable[Topic], began: int) -> None:
        self.topics = set(topics)
        """Those of which nothing was heard since it began."""
        self.began = began


class IdleTopics:
    """The topics of which this process knows that there is nothing to claim."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._proven: LruCache[Topic, int] = LruCache(MAX_TOPICS)
        self._looks: set[PendingClaim] = set()
        self._is_listening = False

    def set_listening(self, is_listening: bool) -> None:
        """Whether announcements of other processes arrive from now on; what was known before counts no more."""
        self._is_listening = is_listening
        self.forget_all()

    def are_idle(self, topics: Sequence[Topic]) -> bool:
        """Whether a claim of these topics would find nothing."""
        return not self.list_busy(topics)

    def list_busy(self, topics: Sequence[Topic]) -> list[Topic]:
        """Those of which a claim may find something."""
        now = self._clock()
        return [topic for topic in topics if not self._is_idle(topic, now)]

    @contextmanager
    def look(self, topics: Sequence[Topic]) -> Iterator[PendingClaim]:
        """While the block runs, a claim of the topics does; give ``prove`` the look when it found all there was."""
        look = PendingClaim(topics, self._clock())
        self._looks.add(look)
        try:
            yield look
        finally:
            self._looks.discard(look)

    def prove(self, look: PendingClaim) -> None:
        """The claim has left nothing of its topics."""
        if self._is_listening:
            for topic in look.topics:
                self._proven.put(topic, look.began)

    def forget(self, topics: Iterable[Topic]) -> None:
        """There may be jobs of these topics."""
        for topic in topics:
            if topic[2] == ANY_TYPE:
                self.forget_all()
                return
            self._proven.discard(topic)
            for look in self._looks:
                look.topics.discard(topic)

    def forget_all(self) -> None:
        """There may be jobs of any topic."""
        self._proven.clear()
        for look in self._looks:
            look.topics.clear()

    def _is_idle(self, topic: Topic, now: int) -> bool:
        proven = self._proven.get(topic)
        return proven is not None and 0 <= now - proven < MAX_AGE_US


class TopicListener(Protocol):
    """Hears of new jobs."""

    def take(self, topics: Iterable[Topic]) -> None:
        """There may be jobs of these."""
        ...

    def take_all(self) -> None:
        """There may be jobs of any topic."""
        ...


class TypeListener:
    """Of which tenants there are new jobs of some types of a language; ``heard`` is set when there are any."""

    def __init__(self, language: str, job_types: Iterable[str]) -> None:
        self.heard = asyncio.Event()
        self._language = language
        self._job_types = {*job_types, ANY_TYPE}
        self._tenants: set[TenantId] = set()

    def take(self, topics: Iterable[Topic]) -> None:
        """Remember the tenants of those that are listened to."""
        for tenant, language, job_type in topics:
            if language == self._language and job_type in self._job_types:
                self._tenants.add(tenant)
                self.heard.set()

    def take_all(self) -> None:
        """Nothing: the listener asks for tenants by itself now and then."""

    def take_tenants(self) -> set[TenantId]:
        """The tenants that were heard of since the last call."""
        tenants, self._tenants = self._tenants, set()
        return tenants


class Wakeups:
    """Who waits for jobs in this process. One per process."""

    def __init__(self, clock: Clock) -> None:
        self.idle = IdleTopics(clock)
        """What needs no look until a hint comes."""
        self._waiting: defaultdict[Topic, dict[asyncio.Event, None]] = defaultdict(dict)
        self._listeners: list[TopicListener] = []
        self._unannounced: set[Topic] = set()
        self._has_announcements = asyncio.Event()

    @contextmanager
    def listen(self, topics: Sequence[Topic]) -> Iterator[asyncio.Event]:
        """An event that is set when there may be a job of one of the topics; the listener clears it when it looks."""
        event = asyncio.Event()
        for topic in topics:
            self._waiting[topic][event] = None
        try:
            yield event
        finally:
            for topic in topics:
                self._waiting[topic].pop(event, None)
                if not self._waiting[topic]:
                    del self._waiting[topic]
            if event.is_set():
                self.wake(topics)

    @contextmanager
    def listen_to_topics(self, listener: TopicListener) -> Iterator[None]:
        """The listener hears of new jobs inside the block."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    @property
    def has_listeners(self) -> bool:
        """Whether any task waits for a job."""
        return bool(self._waiting)

    def announce(self, topics: Iterable[Topic], *, has_tagged: bool = True) -> None:
        """There are new jobs: wake who waits here, and have the other processes told. ``has_tagged``: some of them may
        be for members with tags that their definition names.
        """
        new = list(topics)
        if has_tagged:
            new += {(tenant, language, TAGGED) for tenant, language, _ in new}
        self.wake(new)
        self._unannounced.update(new)
        self._has_announcements.set()

    async def take_announcements(self) -> list[Topic]:
        """What the other processes have still to be told of; waits until there is something."""
        await self._has_announcements.wait()
        self._has_announcements.clear()
        topics, self._unannounced = list(self._unannounced), set()
        return topics

    def wake(self, topics: Iterable[Topic]) -> None:
        """There may be jobs of these tenants, languages and types; ``ANY_TYPE``: of all types."""
        hinted = list(topics)
        self.idle.forget(hinted)
        for topic in hinted:
            for event in self._choose_sleepers(topic):
                event.set()
        for listener in self._listeners:
            listener.take(hinted)

    def wake_all(self) -> None:
        """There may be jobs of any topic."""
        self.idle.forget_all()
        for event in {event for events in self._waiting.values() for event in events}:
            event.set()
        for listener in self._listeners:
            listener.take_all()

    def _choose_sleepers(self, topic: Topic) -> list[asyncio.Event]:
        """Who is woken: the one that has waited longest; all, where it is not known how many jobs of what types."""
        if topic[2] == ANY_TYPE:
            return [event for name, events in self._waiting.items() if name[:2] == topic[:2] for event in events]
        return [event for event in self._waiting.get(topic, ()) if not event.is_set()][:1]


# Rows of an outbox that an advance of this process has just written; they are in the database.

MAX_DUE_ROWS: Final = 10_000
"""Beyond it they are left to the scan of the outbox."""


class DueRows:
    """A queue from who commits to who carries out."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[TenantId, EntityId]] = asyncio.Queue(MAX_DUE_ROWS)

    def add(self, tenant: TenantId, row: EntityId) -> None:
        """A row is due."""
        if not self._queue.full():
            self._queue.put_nowait((tenant, row))

    async def take(self) -> tuple[TenantId, EntityId]:
        """The next one; waits until there is one."""
        return await self._queue.get()


# Who follows the log of an instance.

MAX_FOLLOWERS: Final = 1_000
"""In this process."""
MAX_TENANT_FOLLOWERS: Final = 200


class LogFollowers:
    """Who waits for events of instances in this process."""

    def __init__(self) -> None:
        self._waiting: defaultdict[tuple[TenantId, EntityId], set[asyncio.Event]] = defaultdict(set)
        self._by_tenant: Counter[TenantId] = Counter()

    @contextmanager
    def follow(self, tenant: TenantId, instance: EntityId) -> Iterator[asyncio.Event]:
        """An event that is set when there may be new ones in the log; the follower clears it when it looks. Raises
        ``TooManyRequests``.
        """
        if self._by_tenant[tenant] >= MAX_TENANT_FOLLOWERS or self._by_tenant.total() >= MAX_FOLLOWERS:
            raise TooManyRequests(f"{self._by_tenant[tenant]} requests of the tenant follow logs already")
        event = asyncio.Event()
        self._by_tenant[tenant] += 1
        self._waiting[tenant, instance].add(event)
        try:
            yield event
        finally:
            self._waiting[tenant, instance].discard(event)
            if not self._waiting[tenant, instance]:
                del self._waiting[tenant, instance]
            self._by_tenant -= Counter({tenant: 1})

    def wake(self, tenant: TenantId, instance: EntityId) -> None:
        """An advance of this process has added to the log."""
        for event in self._waiting.get((tenant, instance), ()):
            event.set()


KEPT_US: Final = 60_000_000
"""A worker that has not polled for so long is none any more."""

MAX_WORKERS: Final = 10_000
"""That are told apart; those that poll first."""

MAX_TYPES: Final = 100
"""Types of jobs that are kept of one worker."""


class SeenWorker(Struct, frozen=True, kw_only=True):
    """A worker that has polled jobs of some types, the last time at ``seen_at``, in epoch microseconds."""

    tenant: TenantId
    worker: str
    job_types: tuple[str, ...]
    seen_at: int


class PollingWorkers:
    """Who has polled lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[tuple[TenantId, str], SeenWorker] = {}
        self._changed: set[tuple[TenantId, str]] = set()

    def note(self, tenant: TenantId, worker: str, job_types: tuple[str, ...]) -> None:
        """A worker polls jobs of these types, and of those it polled before."""
        key = tenant, worker
        known = self._seen.get(key)
        if known is None and len(self._seen) >= MAX_WORKERS:
            return
        types = job_types[:MAX_TYPES]
        if known is not None and known.job_types != types:
            types = tuple(dict.fromkeys((*types, *known.job_types)))[:MAX_TYPES]
        self._seen[key] = SeenWorker(tenant=tenant, worker=worker, job_types=types, seen_at=self._clock())
        self._changed.add(key)

    def take_changed(self) -> Sequence[SeenWorker]:
        """Those that have polled since the last time; who has not for long is forgotten."""
        limit = self._clock() - KEPT_US
        for key in [key for key, seen in self._seen.items() if seen.seen_at < limit]:
            del self._seen[key]
        changed, self._changed = [self._seen[key] for key in self._changed if key in self._seen], set()
        return changed

    def list_recent(self, tenant: TenantId | None = None) -> list[SeenWorker]:
        """Those of a tenant, or of all, that have polled within ``KEPT_US``."""
        limit = self._clock() - KEPT_US
        return [seen for seen in self._seen.values() if seen.seen_at >= limit and tenant in (None, seen.tenant)]


MAX_SHARED_JOBS: Final = 50
"""Jobs that one statement looks for on behalf of several claims; one that asks for more goes alone."""

LockJobs: TypeAlias = Callable[[Sequence[JobLease]], Awaitable[list[LockedJob]]]
"""Locks a job for each lease, as far as there are any: ``LockedJob.place`` says for which."""


class _Claim(Struct, eq=False):
    lease: JobLease
    limit: int
    found: "asyncio.Future[list[LockedJob]]"


class SharedClaims:
    """Those of one process."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[_Claim]] = {}
        """By what they ask for; there is an entry while a statement of its claims is under way."""

    async def lock_jobs(
        self,
        kind: Hashable,
        lease: JobLease,
        limit: int,
        lock: LockJobs,
        start: Callable[[Coroutine[object, object, None]], object],
    ) -> list[LockedJob]:
        """Up to ``limit`` jobs. Claims of one ``kind`` ask for the same, so that ``lock`` of one serves all; ``start``
        starts a task that outlives its caller. Raises what ``lock`` raises.
        """
        waiting = self._waiting.get(kind)
        if waiting is not None:
            claim = _Claim(lease, limit, asyncio.get_running_loop().create_future())
            waiting.append(claim)
            return await claim.found
        waiting = self._waiting[kind] = []
        try:
            return await lock([lease] * limit)
        finally:
            if waiting:
                start(self._send(kind, lock))
            else:
                del self._waiting[kind]

    async def _send(self, kind: Hashable, lock: LockJobs) -> None:
        waiting = self._waiting[kind]
        batch = list[_Claim]()
        try:
            while batch := _take_batch(waiting):
                try:
                    found = await lock([lease for claim in batch for lease in [claim.lease] * claim.limit])
                    waiting[:0] = _share_out(batch, found)
                except Exception as error:  # a background task: those who wait must learn of it, whatever it is
                    for claim in batch:
                        if not claim.found.done():
                            claim.found.set_exception(error)
        finally:
            del self._waiting[kind]
            for claim in (*batch, *waiting):  # there are some only where this task was cancelled
                claim.found.cancel()


def _take_batch(waiting: list[_Claim]) -> list[_Claim]:
    """The first that still waits, and others as long as they ask for few jobs together."""
    waiting[:] = [claim for claim in waiting if not claim.found.done()]
    number = jobs = 0
    for number, claim in enumerate(waiting):
        jobs += claim.limit
        if number and jobs > MAX_SHARED_JOBS:
            break
    else:
        number = len(waiting)
    batch = waiting[:number]
    del waiting[:number]
    return batch


def _share_out(batch: Sequence[_Claim], found: Sequence[LockedJob]) -> list[_Claim]:
    """Give each claim what was locked for it. Those that came away empty because jobs that others got are large are to
    ask again.
    """
    is_cut, first, unserved = is_cut_short(found), 0, list[_Claim]()
    for claim in batch:
        mine = [job for job in found if first <= job.place < first + claim.limit]
        first += claim.limit
        if is_cut and not mine:
            unserved.append(claim)
        elif not claim.found.done():
            claim.found.set_result(mine)
    return unserved

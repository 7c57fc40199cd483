"""Waking the tasks that wait for jobs: long polls, and those that push jobs to calculation members.

A wake-up is a hint that there may be a job; a task that is woken tries to claim one, and may find that another was
faster. Hints of other processes arrive by NOTIFY and may be lost with a connection, so tasks also look by themselves
now and then.

A hint wakes one waiter of its topic, the one that has waited longest: waking all would have them claim for the same few
jobs. One that finds as many jobs as it can take passes the hint on, since there may be more; so does one that goes away
with a hint that it did not use.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from statewright.failures import TooManyRequests
from statewright.ids import Clock, EntityId, TenantId
from statewright.services.processes.idle_topics import ANY_TYPE, IdleTopics, Topic


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
        self._all_listeners: set[asyncio.Event] = set()
        self._type_listeners: list[TypeListener] = []
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
    def listen_to_all(self) -> Iterator[asyncio.Event]:
        """As ``listening``, for every type of every tenant: the hook for pushing."""
        event = asyncio.Event()
        self._all_listeners.add(event)
        try:
            yield event
        finally:
            self._all_listeners.discard(event)

    @contextmanager
    def listen_to_types(self, listener: "TypeListener") -> Iterator[None]:
        """The listener hears of new jobs inside the block."""
        self._type_listeners.append(listener)
        try:
            yield
        finally:
            self._type_listeners.remove(listener)

    @property
    def has_listeners(self) -> bool:
        """Whether any task waits for a job."""
        return bool(self._waiting)

    def announce(self, topics: Iterable[Topic]) -> None:
        """There are new jobs: wake who waits here, and have the other processes told."""
        new = list(topics)
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
        for listener in self._type_listeners:
            listener.take(hinted)
        if hinted:
            for event in self._all_listeners:
                event.set()

    def wake_all(self) -> None:
        """There may be jobs of any topic."""
        self.idle.forget_all()
        for event in {event for events in self._waiting.values() for event in events} | self._all_listeners:
            event.set()

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

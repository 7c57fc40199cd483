"""Waking those who wait for jobs: long polls, and whoever pushes jobs to calculation members.

A wake-up is a hint that there may be a job; whoever hears it claims, and may find that another was faster. Hints of
other processes arrive by NOTIFY and may be lost with a connection, so waiters also look by themselves now and then.

A hint wakes one waiter of its topic, the one that has waited longest: waking all would have them claim for the same few
jobs. One that finds as many jobs as it can take passes the hint on, since there may be more; so does one that goes away
with a hint that it did not use.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from statewright.identity import TenantId

Topic = tuple[TenantId, str]
"""A tenant and a job type."""


class Wakeups:
    """Who waits for jobs in this process. One per process."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Topic, dict[asyncio.Event, None]] = defaultdict(dict)
        self._everything: set[asyncio.Event] = set()
        self._untold: set[Topic] = set()
        self._has_news = asyncio.Event()

    @contextmanager
    def listening(self, tenant: TenantId, job_types: Iterable[str]) -> Iterator[asyncio.Event]:
        """An event that is set when there may be a job of one of the types; the listener clears it when it looks."""
        event, topics = asyncio.Event(), [(tenant, job_type) for job_type in job_types]
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
    def listening_to_all(self) -> Iterator[asyncio.Event]:
        """As ``listening``, for every type of every tenant: the hook for pushing."""
        event = asyncio.Event()
        self._everything.add(event)
        try:
            yield event
        finally:
            self._everything.discard(event)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody waits for a job."""
        return bool(self._waiting)

    def announce(self, topics: Iterable[Topic]) -> None:
        """There are new jobs: wake who waits here, and have the other processes told."""
        new = list(topics)
        self.wake(new)
        self._untold.update(new)
        self._has_news.set()

    async def news(self) -> list[Topic]:
        """What the other processes have still to be told of; waits until there is something."""
        await self._has_news.wait()
        self._has_news.clear()
        told, self._untold = list(self._untold), set()
        return told

    def wake(self, topics: Iterable[Topic]) -> None:
        """There may be jobs of these tenants and types."""
        named = False
        for topic in topics:
            named = True
            asleep = next((event for event in self._waiting.get(topic, ()) if not event.is_set()), None)
            if asleep is not None:
                asleep.set()
        if named:
            for event in self._everything:
                event.set()

    def wake_all(self) -> None:
        """There may be jobs of anybody: what was announced meanwhile is not known."""
        for listeners in self._waiting.values():
            for event in listeners:
                event.set()
        for event in self._everything:
            event.set()

"""Reads by key that share statements: those who ask in the same turn of the event loop, or while as many statements as
are useful are on their way, are answered by one.

A statement is sent after every request it answers has arrived, so each reader sees all that was committed before it
asked.

Reading the past although the present is still being written (docs/adr/0006).

A version carries the instant at which its statement ran, and becomes visible when its transaction commits, a moment
later. A reader between the two, at an instant after the version's, does not see it; asked again for the same
instant, he would. So every statement that writes versions holds an advisory lock, shared, from before it takes its
instant until its versions are visible, and who reads at an instant T

1. waits, if T is a little in the future, until it has passed: no version can get an instant up to T any more, except in
   a transaction that holds the lock already;
2. looks who holds the lock, and waits until these transactions are gone. Those that came later have later instants.

A snapshot taken after that shows every version up to T, now and for ever. A writer never waits for a reader. An
instant that is old enough needs no look. All instants come from the clock of the database; setting that clock back
takes the promise away.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, Generic, TypeVar

import asyncpg

from statewright.failures import StorageUnavailable
from statewright.storage.pool import Pool

MAX_BATCH: Final = 64
MAX_IN_FLIGHT: Final = 3
SECOND_BATCH_MIN: Final = 8
"""Readers that justify another statement while one is on its way; fewer wait for it and then share the next."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedReads(Generic[K, V]):
    """Values by key. ``fetch`` reads those of many keys with one statement, within so many seconds; what it leaves out
    does not exist.
    """

    def __init__(
        self,
        pool: Pool,
        fetch: "Callable[[asyncpg.Connection, Sequence[K], float], Awaitable[Mapping[K, V]]]",
        *,
        name: str,
        within: timedelta = timedelta(seconds=10),
    ) -> None:
        self._pool = pool
        self._fetch = fetch
        self._name = name
        self._within = within
        self._waiting: dict[K, list[asyncio.Future[V | None]]] = {}
        self._in_flight: set[asyncio.Task[None]] = set()
        self._scheduled = False

    def ask(self, key: K) -> "asyncio.Future[V | None]":
        """The value, or None when there is none (any more). Awaiting it raises ``StorageUnavailable``."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[V | None] = loop.create_future()
        self._waiting.setdefault(key, []).append(waiter)
        self._schedule(loop)
        return waiter

    @property
    def _has_capacity(self) -> bool:
        """Whether a statement may leave now."""
        busy = len(self._in_flight)
        return not busy or (busy < MAX_IN_FLIGHT and len(self._waiting) >= SECOND_BATCH_MIN)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._scheduled and self._has_capacity:
            self._scheduled = True
            loop.call_soon(self._send)

    def _send(self) -> None:
        self._scheduled = False
        while self._waiting and self._has_capacity:
            keys = list(self._waiting)[:MAX_BATCH]
            batch = {key: self._waiting.pop(key) for key in keys}
            task = asyncio.get_running_loop().create_task(self._answer(batch), name=self._name)
            self._in_flight.add(task)
            task.add_done_callback(self._finish_batch)

    def _finish_batch(self, task: "asyncio.Task[None]") -> None:
        self._in_flight.discard(task)
        if self._waiting:
            self._schedule(task.get_loop())

    async def _answer(self, batch: "dict[K, list[asyncio.Future[V | None]]]") -> None:
        try:
            async with self._pool.connection(within=self._within) as connection:
                found = await self._fetch(connection, list(batch), self._within.total_seconds())
        except Exception as error:  # a background task: the readers must learn of it, whatever it is
            for waiter in _iter_waiting(batch.values()):
                waiter.set_exception(error)
            return
        for key, readers in batch.items():
            value = found.get(key)
            for waiter in _iter_waiting([readers]):
                waiter.set_result(value)


def _iter_waiting(waiters: "Iterable[list[asyncio.Future[V | None]]]") -> "Iterator[asyncio.Future[V | None]]":
    """Those who still wait: a reader may have been cancelled."""
    return (waiter for readers in waiters for waiter in readers if not waiter.done())


SETTLED_WINDOW: Final = timedelta(minutes=10)
"""Before the time of this machine. No statement that writes versions takes so long, nor do clocks differ so much."""

MAX_AHEAD_US: Final = 250_000
"""An instant no further ahead is waited for, since clocks of clients run ahead; a later one is read as the present."""

WRITERS_TIMEOUT_S: Final = 10.0
MIN_PAUSE_S, MAX_PAUSE_S = 0.0005, 0.05

NOW_AND_WRITERS: Final = """
    -- The sessions that hold the lock that commit.sql and bulk deletion take, in this database.
    SELECT now_us() AS now,
           ARRAY(SELECT virtualtransaction
                   FROM pg_locks
                  WHERE locktype = 'advisory' AND classid = 5371 AND objid = 1 AND objsubid = 2 AND granted
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS writers
"""


async def wait_until_visible(pool: Pool, instant: int) -> None:
    """Wait until everything that was written up to ``instant`` (epoch microseconds) is visible.

    Raises ``StorageUnavailable`` when a writer takes too long.
    """
    if instant < (time.time() - SETTLED_WINDOW.total_seconds()) * 1_000_000:
        return
    now, writers = await _fetch_writers(pool)
    if 0 < instant - now <= MAX_AHEAD_US:
        await asyncio.sleep((instant - now + 1) / 1_000_000)
        now, writers = await _fetch_writers(pool)
    pause, deadline = MIN_PAUSE_S, time.monotonic() + WRITERS_TIMEOUT_S
    while writers:
        if time.monotonic() > deadline:
            raise StorageUnavailable("a transaction that was begun before the wanted instant has not ended")
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
        _, present = await _fetch_writers(pool)
        writers &= present


async def _fetch_writers(pool: Pool) -> tuple[int, set[str]]:
    async with pool.connection() as connection:
        [(now, writers)] = await connection.fetch(NOW_AND_WRITERS)
    return now, set(writers)

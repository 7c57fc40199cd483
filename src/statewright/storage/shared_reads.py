"""Reads by key that share statements: those who ask in the same turn of the event loop, or while as many statements as
are useful are on their way, are answered by one.

A statement is sent after every request it answers has arrived, so each reader sees all that was committed before it
asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, Generic, TypeVar

import asyncpg

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

"""Rows about instances and their children that a commit leaves behind for something to be done after it: durable,
exactly once, whatever becomes of a node.

The transaction that does it removes the row. The node that wrote the row tries at once; a row that is still there after
a while is taken by any node.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from statewright import logs
from statewright.background import repeat
from statewright.failures import Failure
from statewright.ids import Clock, EntityId, TenantId
from statewright.services.processes.wakeups import DueRows

BACKOFF_INTERVAL: Final = timedelta(seconds=10)
SUSPENDED_INTERVAL_US: Final = 10_000_000
"""Between looks at a row that waits for the end of a suspension, which makes it due."""
MAX_BATCH_SIZE: Final = 100
MAX_CONCURRENT: Final = 8
"""Rows that one process carries out at a time."""


class OutboxRow(Protocol):
    """A row by the id of the child it is about."""

    @property
    def id(self) -> EntityId: ...


R = TypeVar("R", bound=OutboxRow)

log = logs.logger("steps")


class Outbox(Struct, Generic[R], frozen=True, kw_only=True):
    """One kind of rows."""

    name: str
    """Of its tasks."""
    failure: str
    """What the log says of a row that could not be carried out."""
    scan_failure: str
    """What the log says when no rows could be taken."""
    due: DueRows
    """What this process has just written."""
    wake: asyncio.Event | None = None
    """Set when others than those of ``due`` are there to be taken."""
    take: Callable[[int, int, int], Awaitable[list[R]]]
    """Rows that are due at an instant, none of which is taken again for a back-off; with instant, back-off, limit."""
    fetch: Callable[[TenantId, EntityId], Awaitable[R | None]]
    """One row; ``None``: it was carried out."""
    carry_out: Callable[[R], Awaitable[None]]
    """Do what the row says, at most once. After a ``Failure`` the row is still there."""


class OutboxWorker(Generic[R]):
    """Carries out the rows of an outbox in one process. A background service."""

    def __init__(self, outbox: Outbox[R], clock: Clock, *, scan_interval: timedelta) -> None:
        self._outbox = outbox
        self._clock = clock
        self._interval = scan_interval

    async def run(self) -> None:
        """Carry out what this process has written at once, and look for what was left behind, until cancelled."""
        name = self._outbox.name
        async with asyncio.TaskGroup() as loops:
            for _ in range(MAX_CONCURRENT):
                loops.create_task(self._carry_out_announced(), name=name)
            loops.create_task(self._scan(), name=f"{name}-scan")

    async def run_once(self) -> int:
        """Carry out what was left behind; how much was taken. Raises ``StorageUnavailable``."""
        backoff = BACKOFF_INTERVAL // timedelta(microseconds=1)
        rows = await self._outbox.take(self._clock(), backoff, MAX_BATCH_SIZE)
        for row in rows:
            await self._try(row)
        return len(rows)

    async def _scan(self) -> None:
        await repeat(
            self._run_round, self._interval, log=log, failure=self._outbox.scan_failure, wake=self._outbox.wake
        )

    async def _run_round(self) -> bool:
        return await self.run_once() == MAX_BATCH_SIZE

    async def _carry_out_announced(self) -> None:
        while True:
            tenant, id_ = await self._outbox.due.take()
            try:
                row = await self._outbox.fetch(tenant, id_)
                if row is not None:
                    await self._try(row)
            except Exception as error:  # the row stays: the scan finds it
                log.warning(self._outbox.failure, child=id_, error=repr(error))

    async def _try(self, row: R) -> None:
        try:
            await self._outbox.carry_out(row)
        except Failure as failure:  # the row stays: it is tried again
            log.warning(self._outbox.failure, child=row.id, error=failure.detail)

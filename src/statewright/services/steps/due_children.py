"""Instances that an advance of this process has just made due; their rows are in the database."""

import asyncio

from statewright.identity import EntityId, TenantId

MAX_WAITING = 10_000
"""Beyond it they are left to the scan of the outbox."""


class DueChildren:
    """A queue from who commits to who starts."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[TenantId, EntityId]] = asyncio.Queue(MAX_WAITING)

    def add(self, tenant: TenantId, child: EntityId) -> None:
        """An instance is due."""
        if not self._queue.full():
            self._queue.put_nowait((tenant, child))

    async def next(self) -> tuple[TenantId, EntityId]:
        """The next one; waits until there is one."""
        return await self._queue.get()

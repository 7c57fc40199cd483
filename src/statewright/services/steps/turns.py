"""Taking turns at an instance within this process.

What makes an advance safe is the version of the instance, compared when it commits. But of many that change one
instance at once all but one would then have worked in vain, so those of one process queue up here. It is no more than
that: with other processes there are conflicts, and whoever loses one starts again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from statewright.identity import EntityId, TenantId


class Turns:
    """A queue for each instance that anybody is at work on."""

    def __init__(self) -> None:
        self._locks: dict[tuple[TenantId, EntityId], tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def at(self, tenant: TenantId, instance: EntityId) -> AsyncIterator[None]:
        """Nobody else of this process is in such a block for the instance; first come, first served."""
        key = (tenant, instance)
        lock, users = self._locks.get(key) or (asyncio.Lock(), 0)
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)

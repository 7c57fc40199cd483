"""How many requests are under way at a time, in all and of each tenant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from statewright.egress.connecting import Refused
from statewright.egress.messages import HttpFailure
from statewright.egress.policy import EgressLimits


class _Queue:
    """Requests of a tenant, under way and waiting."""

    __slots__ = ("count", "semaphore")

    def __init__(self, most: int) -> None:
        self.semaphore = asyncio.Semaphore(most)
        self.count = 0


class ConcurrencyLimit:
    """Lets so many requests begin, and so many more wait. A tenant whose servers are slow waits by itself: what the
    others may have under way it cannot take from them, as long as not all together ask for too much.
    """

    def __init__(self, limits: EgressLimits) -> None:
        self._limits = limits
        self._all = asyncio.Semaphore(limits.max_requests)
        self._tenants: dict[str, _Queue] = {}

    @asynccontextmanager
    async def hold(self, tenant: str) -> AsyncIterator[None]:
        """A request of ``tenant`` is under way inside the block. Raises ``Refused`` when too many wait already."""
        most = self._limits.max_tenant_requests
        queue = self._tenants.setdefault(tenant, _Queue(most))
        if queue.count >= 2 * most:
            detail = f"{queue.count} requests of the tenant are under way or waiting"
            raise Refused(HttpFailure(reason="too_many_requests", detail=detail))
        queue.count += 1
        try:
            async with queue.semaphore, self._all:
                yield
        finally:
            queue.count -= 1
            if queue.count == 0:
                del self._tenants[tenant]

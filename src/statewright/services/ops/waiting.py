"""Waiting until an entity gets somewhere (docs/reference/operations.md#wait).

Who waits holds no connection, transaction or gate. Commits of this node wake the waiters of the entities they write;
for those of other nodes one statement looks at all awaited entities now and then. Either way the versions since the
last look are read and judged, so that a state counts that was entered and left between two looks.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import StorageUnavailable, TooManyRequests
from statewright.ids import EntityId, TenantId
from statewright.loop.background import wait_at_most
from statewright.storage.commit.group_commit import GroupCommit
from statewright.storage.ops.explanations import Position, SeenVersion, fetch_since
from statewright.storage.pool import Pool
from statewright.telemetry import logs

MAX_WAIT: Final = timedelta(seconds=50)
"""Of one request; proxies give up on silent ones after a minute."""

MAX_WAITERS_PER_TENANT: Final = 1000

RETRY_S: Final = 0.5
"""After a look that failed."""

WaitOutcome = Literal["reached", "timeout", "deleted"]

OUTCOMES: Final[tuple[WaitOutcome, ...]] = ("reached", "timeout", "deleted")

log = logs.logger(__name__)


class WaitResult(Struct, frozen=True, kw_only=True):
    """How a wait ended: with the version that was waited for, or the last one that was seen."""

    outcome: WaitOutcome
    version: SeenVersion | None
    waited_ms: int


class _Waiter:
    def __init__(self, position: Position, is_reached: Callable[[SeenVersion], bool]) -> None:
        self.position = position
        self.last: SeenVersion | None = None
        self.ended: asyncio.Future[WaitOutcome] = asyncio.get_running_loop().create_future()
        self._is_reached = is_reached

    @property
    def key(self) -> tuple[TenantId, EntityId]:
        return self.position.tenant, self.position.entity

    def judge(self, versions: Iterable[SeenVersion]) -> None:
        """Look at versions behind the position, in their order."""
        for version in versions:
            if version.at <= self.position.since or self.ended.done():
                continue
            self.position = replace(self.position, since=version.at)
            self.last = version
            if version.is_deleted:
                self.ended.set_result("deleted")
            elif self._is_reached(version):
                self.ended.set_result("reached")


class EntityWaits:
    """Who waits for entities in this process."""

    def __init__(
        self,
        pool: Pool,
        commits: GroupCommit,
        *,
        look_interval: timedelta = timedelta(milliseconds=250),
        max_waiters: int = 5000,
    ) -> None:
        self.outcomes: Counter[WaitOutcome] = Counter()
        self._pool = pool
        self._commits = commits
        self._look_interval_s = look_interval.total_seconds()
        self._max_waiters = max_waiters
        self._waiters: dict[tuple[TenantId, EntityId], set[_Waiter]] = {}
        self._count = 0
        self._by_tenant: Counter[TenantId] = Counter()
        self._woken: set[tuple[TenantId, EntityId]] = set()
        self._has_woken = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def count(self) -> int:
        """Who waits now."""
        return self._count

    async def wait(
        self, position: Position, is_reached: Callable[[SeenVersion], bool], *, within: timedelta
    ) -> WaitResult:
        """Wait until a version behind the position is reached, or the entity is deleted. Raises ``TooManyRequests``,
        and ``StorageUnavailable`` when not even the first look is possible.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        waiter = _Waiter(position, is_reached)
        [found] = await fetch_since(self._pool, [position])
        waiter.judge(found)
        left_s = min(within, MAX_WAIT).total_seconds()
        if not waiter.ended.done() and left_s > 0 and not self._is_closed:
            await self._wait_registered(waiter, left_s)
        outcome: WaitOutcome = waiter.ended.result() if waiter.ended.done() else "timeout"
        self.outcomes[outcome] += 1
        return WaitResult(outcome=outcome, version=waiter.last, waited_ms=round((loop.time() - begun) * 1000))

    def close(self) -> None:
        """The service stops: all waits end without having come to anything, and new ones end at once."""
        self._is_closed = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.ended.done():
                    waiter.ended.set_result("timeout")

    async def _wait_registered(self, waiter: _Waiter, within_s: float) -> None:
        tenant = waiter.position.tenant
        if self._count >= self._max_waiters or self._by_tenant[tenant] >= MAX_WAITERS_PER_TENANT:
            raise TooManyRequests("too many requests wait already")
        self._count += 1
        self._by_tenant[tenant] += 1
        self._waiters.setdefault(waiter.key, set()).add(waiter)
        self._commits.watched[waiter.key] = self._wake
        self._wake(waiter.key)  # something may have been committed since the first look
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_while_awaited(), name="entity-waits")
        try:
            await asyncio.wait([waiter.ended], timeout=within_s)
        finally:
            self._unregister(waiter)

    def _unregister(self, waiter: _Waiter) -> None:
        self._count -= 1
        self._by_tenant[waiter.position.tenant] -= 1
        if not self._by_tenant[waiter.position.tenant]:
            del self._by_tenant[waiter.position.tenant]
        others = self._waiters[waiter.key]
        others.discard(waiter)
        if not others:
            del self._waiters[waiter.key]
            self._commits.watched.pop(waiter.key, None)

    def _wake(self, key: tuple[TenantId, EntityId]) -> None:
        self._woken.add(key)
        self._has_woken.set()

    async def _look_while_awaited(self) -> None:
        """One look at what this node has committed, as soon as it has; one at everything now and then."""
        loop = asyncio.get_running_loop()
        next_look = loop.time() + self._look_interval_s
        try:
            while self._waiters:
                await wait_at_most(self._has_woken.wait(), max(next_look - loop.time(), 0.0))
                self._has_woken.clear()
                keys, self._woken = self._woken, set()
                if loop.time() >= next_look:
                    keys = {*self._waiters}
                    next_look = loop.time() + self._look_interval_s
                await self._look(keys)
        finally:
            self._looking = None

    async def _look(self, keys: Iterable[tuple[TenantId, EntityId]]) -> None:
        awaited = [key for key in keys if key in self._waiters]
        if not awaited:
            return
        positions = [
            Position(tenant, entity, min(waiter.position.since for waiter in self._waiters[tenant, entity]))
            for tenant, entity in awaited
        ]
        try:
            found = await fetch_since(self._pool, positions)
        except StorageUnavailable as away:
            log.info("wait_look_failed", error=away.detail)
            await asyncio.sleep(RETRY_S)
            return
        for key, versions in zip(awaited, found, strict=True):
            for waiter in [*self._waiters.get(key, ())]:
                waiter.judge(versions)


CONFIRM_WITHIN_S: Final = 10.0
"""How long the change of a switch waits for all nodes."""


async def wait_for_nodes(list_pending: Callable[[], Awaitable[Sequence[str]]]) -> tuple[str, ...]:
    """The names of nodes that may not act by a change yet, when there are none, or the wait is over."""
    until = time.monotonic() + CONFIRM_WITHIN_S
    pending = await list_pending()
    pause_s = 0.01
    while pending and time.monotonic() < until:
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.25)
        pending = await list_pending()
    return tuple(pending)

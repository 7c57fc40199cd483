"""What this node takes of work that any node may take: one way for timers, scheduled transitions and what commits leave
behind (docs/architecture.md#work-that-nodes-take).

First fresh work is taken and done, then one piece that other nodes have begun and said no more of. Of such suspects a
process works on one at a time, whatever their kind. What is done, put off or has failed is released, a moment later and
all together. What was killed while it was computed is not, nor what met a defect: that counts as if the node had died.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from statewright.failures import ComputationKilled, Failure
from statewright.ids import Clock, NodeId, TenantId
from statewright.instants import to_us
from statewright.loop.background import hold_lease, log_failures
from statewright.storage import takings
from statewright.storage.pool import Pool
from statewright.storage.takings import BuildReport, Look, Parked, Release
from statewright.storage.work import AnyWork, Work
from statewright.telemetry import logs

R = TypeVar("R")

BACKOFF_INTERVAL: Final = timedelta(seconds=10)
"""After so long others take what a node has taken and says no more of."""

SHARE_INTERVAL_S: Final = 0.1
"""A node that has taken its share, and could take more, leaves the others so long."""

MAX_TRIES: Final = 3
"""How often a row is to be released that somebody has locked."""

RELEASE_TIMEOUT: Final = timedelta(seconds=2)
"""How long a shutdown waits for what was taken to be released."""

log = logs.logger(__name__)


class Round(Struct, frozen=True, kw_only=True):
    """How much was taken, and whether the next round may find something, too."""

    taken: int
    more: bool


class ParkedReports(Protocol):
    """What operators are told of work that is not tried any more."""

    @property
    def build_parked(self) -> BuildReport:
        """Makes what is committed with the parking of work."""
        ...

    def count_parked(self) -> None:
        """That has been committed."""
        ...


class WorkAttempt:
    """At work that was taken."""

    is_over = False
    """There is nothing to release: the row is gone, or the attempt counts."""


class Suspects:
    """One suspect at a time: who works on one is not waited for, who only looks for one is."""

    def __init__(self) -> None:
        self.under_way = 0
        """One, while somebody works on one."""
        self._looking = asyncio.Lock()

    async def begin(self, look: Callable[[], Awaitable[R | None]]) -> R | None:
        """What ``look`` finds, to be worked on until ``end``; None, too, while another is worked on."""
        async with self._looking:
            if self.under_way:
                return None
            found = await look()
            self.under_way = int(found is not None)
            return found

    def end(self) -> None:
        """The one that was found is done."""
        self.under_way = 0


class Takings:
    """Of one node. ``count_nodes`` tells how many take work, this one among them."""

    def __init__(
        self, pool: Pool, reports: ParkedReports, *, node: NodeId, name: str, count_nodes: Callable[[], int]
    ) -> None:
        self.node = node
        self.count_nodes = count_nodes
        self.suspects = Suspects()
        self.woken: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """Another node has left some of the work of this name."""
        self._pool = pool
        self._reports = reports
        self._name = name
        self._last = 0
        self._releases: defaultdict[AnyWork, list[tuple[Release, int]]] = defaultdict(list)

    def wake(self, announcement: str) -> None:
        """A node has left some work to the others (``call_others``)."""
        name, _, node = announcement.partition(" ")
        if node != self.node:
            self.woken[name].set()

    def sign(self, now_us: int) -> str:
        """What marks work as taken by this node, just now."""
        self._last = max(self._last + 1, now_us)
        return f"{self._last} {self._name} ({self.node})"

    async def take(self, work: Work[R], look: Look, *, limit: int, is_shared: bool = False) -> tuple[Sequence[R], bool]:
        """Fresh work, and whether some is left to others, who have been told. Raises ``StorageUnavailable``."""
        nodes = self.count_nodes() if is_shared else 1
        rows, leaves_some = await takings.take(self._pool, work, look, limit=limit, nodes=nodes)
        if leaves_some:
            with log_failures(log, "others_not_called"):  # they look by themselves
                await takings.call_others(self._pool, work.name, self.node)
        return rows, leaves_some and len(rows) < limit

    async def take_suspect(self, work: Work[R], look: Look) -> R | None:
        """One suspect, to be looked for by ``suspects``. Those that have had their attempts are parked. Raises
        ``StorageUnavailable``.
        """
        while True:
            found = await takings.take_suspect(self._pool, work, look, report=self._reports.build_parked)
            if not isinstance(found, Parked):
                return found
            self._reports.count_parked()
            log.error("work_parked", tenant=found.tenant, work=found.work, owner=found.owner, name=found.name)

    async def run_round(
        self,
        work: Work[R],
        clock: Clock,
        carry_out: Callable[[Sequence[R], str], Awaitable[object]],
        *arguments: object,
        limit: int,
        take: "Callable[[Look], Awaitable[tuple[Sequence[R], bool]]] | None" = None,
        is_shared: bool = False,
    ) -> Round:
        """Take work of which the instants are microseconds, and have it carried out, which is told the entry that took
        it. Raises ``StorageUnavailable``.
        """
        await self.release_all()
        look = self._look(clock, arguments)
        fresh, leaves_some = await (
            self.take(work, look, limit=limit, is_shared=is_shared) if take is None else take(look)
        )
        if fresh:
            await carry_out(fresh, look.taker)
        look = self._look(clock, arguments)
        suspect = await self.suspects.begin(partial(self.take_suspect, work, look))
        if suspect is not None:  # one of another kind may take its time: all else goes on meanwhile
            try:
                await carry_out([suspect], look.taker)
            finally:
                self.suspects.end()
        if leaves_some:
            await asyncio.sleep(SHARE_INTERVAL_S)
        taken = len(fresh) + (suspect is not None)
        more = leaves_some or suspect is not None or len(fresh) >= limit or (is_shared and bool(fresh))
        return Round(taken=taken, more=more)

    def _look(self, clock: Clock, arguments: tuple[object, ...]) -> Look:
        now = clock()
        until = now + to_us(BACKOFF_INTERVAL)
        return Look(now=now, until=until, taker=self.sign(now), arguments=arguments)

    @asynccontextmanager
    async def attempt(
        self, work: Work[R], tenant: TenantId, key: tuple[str, ...], taker: str, *, clock: Clock | None = None
    ) -> AsyncIterator[WorkAttempt]:
        """Work goes on inside the block, and is released at its end unless that counts (see the module). With a
        ``clock``, of microseconds, nobody else takes it meanwhile.
        """
        one = WorkAttempt()
        try:
            if clock is None:
                yield one
            else:
                async with hold_lease(self._build_hold(work, tenant, key, taker, clock), BACKOFF_INTERVAL):
                    yield one
        except ComputationKilled:
            one.is_over = True
            raise
        except (Failure, asyncio.CancelledError):
            raise
        except Exception:
            one.is_over = True
            raise
        finally:
            if not one.is_over:
                self._releases[work].append((Release(tenant, key, taker), 1))

    def _build_hold(
        self, work: Work[R], tenant: TenantId, key: tuple[str, ...], taker: str, clock: Clock
    ) -> Callable[[], Awaitable[bool]]:
        async def hold() -> bool:
            until = clock() + to_us(BACKOFF_INTERVAL)
            await takings.hold(self._pool, work, tenant, key, taker=taker, until=until)
            return True  # what another has taken meanwhile has its effect once all the same

        return hold

    async def release_all(self) -> None:
        """Release what has come to an end. Raises ``StorageUnavailable``: it is released later then."""
        for work, releases in [*self._releases.items()]:
            del self._releases[work]
            try:
                left = await takings.release(self._pool, work, [each for each, _ in releases])
            except BaseException:
                self._releases[work] += releases
                raise
            tries = dict(releases)
            again = [(each, tries[each] + 1) for each in left if tries[each] < MAX_TRIES]
            if again:
                self._releases[work] += again

    async def close(self) -> None:
        """Release everything, for a short time: the last words of a node."""
        with log_failures(log, "work_not_released"):
            async with asyncio.timeout(RELEASE_TIMEOUT.total_seconds()):
                await self.release_all()

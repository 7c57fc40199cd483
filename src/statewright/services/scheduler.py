"""Looks for scheduled transitions that are due, and lets them fire.

Every node does so; there is no coordinator to lose. A scan takes due tasks, which marks each with a back-off, and
starts a run for each; it does not wait for them. Whether a run fires, expires or drops its task is decided in its own
transaction (``firing``). So a task that is taken twice has one effect, and a task whose node died is taken again after
its back-off.

Holding. A run may take longer than the back-off, and with ``COMMIT_BEFORE_DISPATCH`` a second one would even take its
entity away from it, for ever. So every third of the back-off the back-off of all tasks under way is moved on. One that
failed is therefore repeated between one and one and a third back-offs after it failed.

Bounds. At most ``SLOTS_PER_BATCH`` batches are under way at a time; beyond that, due tasks stay where other nodes find
them. A tenant with as many as one batch under way is passed over, so that at least one batch of slots is always left to
the others, however slow its processors are.

While there may be more that is due, scans follow each other: at once, or as soon as half a batch has ended where
slots are short. Otherwise the next one comes after the interval. So what comes due fires within one interval, as long
as there are slots.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from random import Random

from msgspec import Struct

from statewright import logs
from statewright.failures import Failure
from statewright.identity import EntityId, TenantId
from statewright.services.firing import fire
from statewright.services.runtime import Runtime
from statewright.services.schedule_tally import ScheduleTally
from statewright.storage.schedules import ScheduledTask, TaskKey

SLOTS_PER_BATCH = 3

MAX_BATCH = 1_000
"""However large a batch is asked for: each task under way is a run in memory."""

_jitter = Random()  # noqa: S311 - our own: tests of laws reset the module's shared state, and compare it
log = logs.logger("scheduler")


class Pace(Struct, frozen=True, kw_only=True):
    """How often and how much (spec/workflows.md §19)."""

    scan_interval: timedelta = timedelta(seconds=1)
    batch_size: int = 100
    backoff: timedelta = timedelta(seconds=30)
    expiry_grace: timedelta = timedelta(milliseconds=100)


class Scan(Struct, frozen=True, kw_only=True):
    """What one scan did. ``more``: it took all it could, or passed somebody over, so there may be more that is due."""

    taken: int
    more: bool


TaskId = tuple[TenantId, EntityId, TaskKey]


class Scheduler:
    """The scheduled transitions of one node. Its runs are outliving runs of the runtime: a shutdown waits for them."""

    def __init__(self, runtime: Runtime, pace: Pace) -> None:
        self._runtime = runtime
        self._interval_s = pace.scan_interval.total_seconds()
        self._batch = min(pace.batch_size, MAX_BATCH)
        self._backoff_ms = max(1, pace.backoff // timedelta(milliseconds=1))
        self._grace_ms = pace.expiry_grace // timedelta(milliseconds=1)
        self.tally = ScheduleTally()
        self._under_way: dict[TaskId, tuple[ScheduledTask, asyncio.Task[None]]] = {}
        self._ended = asyncio.Semaphore(0)

    async def run(self) -> None:
        """Scan and hold until cancelled. Runs under way go on then."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._scan_on(), name="scheduler-scan")
            loops.create_task(self._hold_on(), name="scheduler-hold")

    async def run_once(self) -> Scan:
        """Take what is due and start its runs. Raises ``StorageUnavailable``."""
        limit, busy = min(self._batch, self._free_slots), self._busy_tenants
        if limit <= 0:
            return Scan(taken=0, more=True)
        now = self._now
        tasks = await self._runtime.tasks.take(now=now, until=now + self._backoff_ms, limit=limit, passing_over=busy)
        self.tally.lag_s = max((now - task.arming.fire_at for task in tasks if task.attempts == 1), default=0) / 1000
        for task in tasks:
            self._start(task)
        return Scan(taken=len(tasks), more=len(tasks) == limit or bool(busy))

    async def hold_once(self) -> int:
        """Move on the back-off of everything under way; of how many tasks. Raises ``StorageUnavailable``."""
        tasks = [task for task, _ in self._under_way.values()]
        if tasks:
            await self._runtime.tasks.hold(tasks, until=self._now + self._backoff_ms)
        return len(tasks)

    async def settled(self) -> None:
        """Returns when nothing is under way."""
        while self._under_way:
            await asyncio.wait([run for _, run in self._under_way.values()])

    @property
    def _now(self) -> int:
        return self._runtime.clock() // 1000

    async def _scan_on(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s * _jitter.uniform(0.9, 1.0))  # nodes should not scan in step
            try:
                # To the end, also when the service stops: what was taken and not begun would wait for its back-off.
                while (await self._runtime.to_the_end(self.run_once())).more:
                    await self._room()
            except Exception as error:  # a background loop must outlive the failure of one round
                self.tally.failed_scans += 1
                log.warning("schedule_scan_failed", error=repr(error))

    async def _hold_on(self) -> None:
        while True:
            await asyncio.sleep(self._backoff_ms / 3000)
            try:
                await self.hold_once()
            except Exception as error:  # as above; the tasks may be taken by others now, which does no harm
                log.warning("schedule_hold_failed", error=repr(error))

    async def _room(self) -> None:
        """Returns when a scan is worth its while: at once, or when half a batch has ended, or after the interval."""
        if self._free_slots >= self._batch and not self._busy_tenants:
            return
        self._ended = asyncio.Semaphore(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._interval_s):
                for _ in range(max(1, self._batch // 2)):
                    await self._ended.acquire()

    @property
    def _free_slots(self) -> int:
        return self._batch * SLOTS_PER_BATCH - len(self._under_way)

    @property
    def _busy_tenants(self) -> list[TenantId]:
        counts = Counter(tenant for tenant, _, _ in self._under_way)
        return [tenant for tenant, count in counts.items() if count >= self._batch]

    def _start(self, task: ScheduledTask) -> None:
        id_ = (task.tenant, task.entity, task.key)
        if id_ in self._under_way:  # its back-off has ended before its run: one is enough
            return
        run = self._runtime.begin(self._fire(task))
        self._under_way[id_] = (task, run)
        self.tally.under_way = len(self._under_way)
        run.add_done_callback(lambda _run: self._end(id_))

    def _end(self, id_: TaskId) -> None:
        del self._under_way[id_]
        self.tally.under_way = len(self._under_way)
        self._ended.release()

    async def _fire(self, task: ScheduledTask) -> None:
        with logs.bound(tenant=task.tenant, entity=task.entity, state=task.key.state, transition=task.key.transition):
            late_ms = self._now - task.arming.fire_at
            try:
                outcome = await fire(self._runtime, task, grace_ms=self._grace_ms)
            except Exception as error:  # whatever it is, the task is taken again after its back-off
                self.tally.failed()
                cause = error.detail if isinstance(error, Failure) else repr(error)
                log.error("scheduled_fire_failed", error=cause, attempt=task.attempts)  # noqa: TRY400
            else:
                self.tally.ended(outcome, late_ms=late_ms)
                log.debug("scheduled_task_settled", outcome=outcome, attempt=task.attempts)

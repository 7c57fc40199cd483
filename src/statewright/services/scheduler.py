"""Looks for scheduled transitions that are due, and lets them fire.

Every node does so; there is no coordinator to lose. A scan takes due tasks, which marks each with a back-off, and
starts a run for each; it does not wait for them. Whether a run fires, expires or drops its task is decided in its own
transaction (``fire_task``). So a task that is taken twice has one effect, and a task whose node died is taken again
after its back-off, so many times (services/takings.py).

Shares. A scan takes this node's share of what is due, and leaves the others a moment for theirs before the next one.

Holding. A run may take longer than the back-off, and with ``COMMIT_BEFORE_DISPATCH`` a second one would even take its
entity away from it, for ever. So every third of the back-off the back-off of all tasks under way is moved on. One that
failed is therefore repeated between one and one and a third back-offs after it failed.

Bounds. At most ``MAX_BATCHES_UNDER_WAY`` batches are under way at a time; beyond that, due tasks stay where other
nodes find them. A tenant with as many as one batch under way is passed over, so that there is always
room for at least one batch of the others, however slow its processors are.

While there may be more that is due, scans follow each other: at once, or as soon as half a batch has ended where
slots are short. Otherwise the next one comes after the interval. So what comes due fires within one interval, as long
as there are slots.
"""

import asyncio
from collections import Counter
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from functools import partial
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import Struct

from statewright.engine.engine import ScheduledFire
from statewright.engine.schedules import ExpireTask, FireTask, KeepTask, RemoveTask, decide_task
from statewright.entity import ModelKey, ScheduledTask, TaskKey, system_principal
from statewright.failures import Conflict, Failure, StorageUnavailable, Suspended
from statewright.ids import EntityId, TenantId
from statewright.loop.background import repeat
from statewright.operations.active_suspensions import HeldTimers
from statewright.services.core import Caller, Core
from statewright.services.takings import SHARE_INTERVAL_S
from statewright.services.writing import decode_by_size
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.takings import Look
from statewright.storage.work import TASKS, UNHELD_TASKS, Work
from statewright.telemetry import logs
from statewright.telemetry.histogram import Histogram
from statewright.telemetry.tracing import NO_SPAN, Attributes, Span, parse_trace

MAX_BATCHES_UNDER_WAY: Final = 3

MAX_BATCH_SIZE: Final = 1_000
"""However large a batch is asked for: each task under way is a run in memory."""

SCAN_SPREAD: Final = (0.9, 1.0)
"""Of the pause between scans: never longer than the interval, in which what comes due is to fire."""

log = logs.logger(__name__)


class ScheduleConfig(Struct, frozen=True, kw_only=True):
    """The interval and the size of scans (docs/reference/workflows.md#settings-and-limits-of-workflows)."""

    scan_interval: timedelta = timedelta(seconds=1)
    batch_size: int = 100
    backoff: timedelta = timedelta(seconds=30)
    expiry_grace: timedelta = timedelta(milliseconds=100)
    max_attempts: int = 0
    """Fires of a timer that may fail before it is parked; 0: it is tried for ever."""


class ScanResult(Struct, frozen=True, kw_only=True):
    """What one scan did. ``more``: it took all it could, or passed a tenant over, so there may be more that is due."""

    taken: int
    more: bool
    leaves_some: bool = False
    """To the other nodes, which have their turn."""


TaskOutcome: TypeAlias = Literal["fired", "declined", "expired", "removed", "kept"]
"""What became of a task. Only a kept one is still stored, or has been armed again."""

TaskId = tuple[TenantId, EntityId, TaskKey]


class Scheduler:
    """The scheduled transitions of one node. Its runs are outliving runs of the runtime: a shutdown waits for them."""

    def __init__(self, core: Core, config: ScheduleConfig) -> None:
        self._core = core
        self._interval = config.scan_interval
        self._batch = min(config.batch_size, MAX_BATCH_SIZE)
        self._backoff_ms = max(1, config.backoff // timedelta(milliseconds=1))
        self._grace_ms = config.expiry_grace // timedelta(milliseconds=1)
        self._max_attempts = config.max_attempts
        self.metrics = ScheduleMetrics()
        self._under_way: dict[TaskId, tuple[ScheduledTask, asyncio.Task[None]]] = {}
        self._completions = asyncio.Semaphore(0)

    async def run(self) -> None:
        """Scan and hold until cancelled. Runs under way go on then."""
        hold_interval = timedelta(milliseconds=self._backoff_ms / 3)
        async with asyncio.TaskGroup() as loops:
            loops.create_task(
                repeat(
                    self._scan_all,
                    self._interval,
                    log=log,
                    failure="schedule_scan_failed",
                    spread=SCAN_SPREAD,
                    waits_first=True,
                    wake=self._core.takings.woken[TASKS.name],
                ),
                name="scheduler-scan",
            )
            # When it fails, the tasks may be taken by others, which does no harm.
            loops.create_task(
                repeat(self.hold_once, hold_interval, log=log, failure="schedule_hold_failed", waits_first=True),
                name="scheduler-hold",
            )

    async def run_once(self) -> ScanResult:
        """Take what is due and start its runs. Raises ``StorageUnavailable``."""
        limit, busy = min(self._batch, self._free_capacity), self._busy_tenants
        if limit <= 0:
            return ScanResult(taken=0, more=True)
        now = self._now
        takings = self._core.takings
        await takings.release_all()
        work, arguments = _choose_work(self._core.guard.held_timers, busy)
        look = Look(now=now, until=now + self._backoff_ms, taker=takings.sign(now * 1000), arguments=arguments)
        tasks, leaves_some = await takings.take(work, look, limit=limit, is_shared=True)
        self.metrics.lag_s = max((now - task.arming.fire_at for task in tasks if task.attempts == 1), default=0) / 1000
        for task in sorted(tasks, key=lambda task: task.arming.fire_at):
            self._start(task, look.taker)
        suspects = await self._start_suspect(work, arguments)
        more = leaves_some or len(tasks) == limit or bool(busy)
        return ScanResult(taken=len(tasks) + suspects, more=more, leaves_some=leaves_some)

    async def hold_once(self) -> int:
        """Move on the back-off of everything under way; of how many tasks. Raises ``StorageUnavailable``."""
        tasks = [task for task, _ in self._under_way.values()]
        if tasks:
            await self._core.tasks.hold(tasks, until=self._now + self._backoff_ms)
        return len(tasks)

    async def wait_idle(self) -> None:
        """Returns when nothing is under way."""
        while self._under_way:
            await asyncio.wait([run for _, run in self._under_way.values()])

    @property
    def _now(self) -> int:
        return self._core.clock() // 1000

    async def _scan_all(self) -> None:
        # To the end, also when the service stops: what was taken and not begun would wait for its back-off.
        try:
            while (result := await self._core.run_to_completion(self.run_once())).more:
                if result.leaves_some:
                    await asyncio.sleep(SHARE_INTERVAL_S)
                await self._wait_for_capacity()
        except Exception:
            self.metrics.failed_scans += 1
            raise

    async def _wait_for_capacity(self) -> None:
        """Returns when a scan is worth its while: at once, or when half a batch has ended, or after the interval."""
        if self._free_capacity >= self._batch and not self._busy_tenants:
            return
        self._completions = asyncio.Semaphore(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._interval.total_seconds()):
                for _ in range(max(1, self._batch // 2)):
                    await self._completions.acquire()

    @property
    def _free_capacity(self) -> int:
        return self._batch * MAX_BATCHES_UNDER_WAY - len(self._under_way)

    @property
    def _busy_tenants(self) -> list[TenantId]:
        counts = Counter(tenant for tenant, _, _ in self._under_way)
        return [tenant for tenant, count in counts.items() if count >= self._batch]

    async def _start_suspect(self, work: Work[ScheduledTask], arguments: tuple[object, ...]) -> int:
        """Start one that other nodes have begun with, unless another is under way; how many."""
        takings, now = self._core.takings, self._now
        look = Look(now=now, until=now + self._backoff_ms, taker=takings.sign(now * 1000), arguments=arguments)
        task = await takings.suspects.begin(partial(takings.take_suspect, work, look))
        if task is None:
            return 0
        run = self._start(task, look.taker)
        if run is None:
            takings.suspects.end()
            return 0
        run.add_done_callback(lambda _: takings.suspects.end())
        return 1

    def _start(self, task: ScheduledTask, taker: str) -> "asyncio.Task[None] | None":
        id_ = (task.tenant, task.entity, task.key)
        if id_ in self._under_way:  # its back-off has ended before its run: one is enough
            return None
        run = self._core.start_detached(self._fire(task, taker))
        self._under_way[id_] = (task, run)
        self.metrics.under_way = len(self._under_way)
        run.add_done_callback(lambda _run: self._forget_run(id_))
        return run

    def _forget_run(self, id_: TaskId) -> None:
        del self._under_way[id_]
        self.metrics.under_way = len(self._under_way)
        self._completions.release()

    def _begin_span(self, task: ScheduledTask) -> "Span | AbstractContextManager[None]":
        """A trace of its own, which links to the one in which the timer was armed."""
        tracer = self._core.tracer
        if tracer is None:
            return NO_SPAN
        cause = parse_trace(task.arming.trace or "")
        attributes: Attributes = {
            "tenant": task.tenant,
            "entity.id": task.entity,
            "state.from": task.key.state,
            "transition.name": task.key.transition,
            "timer.attempt": task.attempts,
        }
        return tracer.begin("timer", "consumer", attributes, parent=None, links=() if cause is None else (cause,))

    async def _fire(self, task: ScheduledTask, taker: str) -> None:
        with (
            logs.bind_keys(
                tenant=task.tenant, entity=task.entity, state=task.key.state, transition=task.key.transition
            ),
            self._begin_span(task),
        ):
            late_ms = self._now - task.arming.fire_at
            try:
                key = (task.entity, task.key.state, task.key.transition)
                async with self._core.takings.attempt(TASKS, task.tenant, key, taker) as attempt:
                    outcome = await fire_task(self._core, task, grace_ms=self._grace_ms)
                    attempt.is_over = outcome != "kept"
            except Exception as error:  # whatever it is, the task is taken again after its back-off
                self.metrics.record_failure()
                cause = error.detail if isinstance(error, Failure) else repr(error)
                log.error("scheduled_fire_failed", error=cause, attempt=task.attempts)  # noqa: TRY400
                await self._note_failure(task, error if isinstance(error, Failure) else Failure("internal error"))
            else:
                self.metrics.record_outcome(outcome, late_ms=late_ms)
                log.debug("scheduled_task_settled", outcome=outcome, attempt=task.attempts)

    async def _note_failure(self, task: ScheduledTask, failure: Failure) -> None:
        """Let operators know; a timer that has failed as often as it may is tried no more."""
        try:
            definition = await self._core.definitions.find_by_id(task.tenant, task.arming.model)
            model = "" if definition is None else _name_model(definition.model.key)
            if await self._core.failures.note_timer(
                system_principal(task.tenant), task, model, failure, max_failures=self._max_attempts
            ):
                log.error("scheduled_task_parked", attempts=self._max_attempts)
        except StorageUnavailable as away:
            log.warning("scheduled_failure_not_noted", error=away.detail)


def _choose_work(held: HeldTimers | None, busy: list[TenantId]) -> tuple[Work[ScheduledTask], tuple[object, ...]]:
    if held is None:
        return TASKS, (busy,)
    return UNHELD_TASKS, (busy, held.tenants, held.models, held.workflows, held.transitions)


# What the scheduler of one node has done, in numbers.

LATENESS_BOUNDS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Seconds. A scan interval is one of them by default."""


class ScheduleMetrics:
    """``outcomes`` are those of tasks that were taken, ``lateness`` is of those that fired.

    ``lag_s``: how late the most overdue task was that the last scan took for the first time; 0 when there was none.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.lateness = Histogram(LATENESS_BOUNDS_S)
        self.lag_s = 0.0
        self.under_way = 0
        self.failed_scans = 0

    def record_outcome(self, outcome: TaskOutcome, *, late_ms: int) -> None:
        """A task that was taken has come to an end, begun so long after its time."""
        self.outcomes[outcome] += 1
        if outcome == "fired":
            self.lateness.observe(late_ms / 1000)

    def record_failure(self) -> None:
        """A run has failed; its task is taken again after its back-off."""
        self.outcomes["failed"] += 1


def _name_model(key: ModelKey) -> str:
    return f"{key.name}/{key.version}"


async def fire_task(core: Core, task: ScheduledTask, *, grace_ms: int) -> TaskOutcome:
    """Let a taken task take effect, at most once even if others have taken it (docs/reference/workflows.md#firing).

    The first to commit wins: the others find the task gone, or the entity at another version, and change nothing.
    Raises whatever a run can fail with; the task is still stored then.
    """
    async with core.open_unit(Caller(system_principal(task.tenant)), origin=task.arming.principal) as unit:
        try:
            return await _apply_decision(core, unit, task, grace_ms)
        except (Conflict, Suspended):
            return "kept"


async def _apply_decision(core: Core, unit: UnitOfWork, task: ScheduledTask, grace_ms: int) -> TaskOutcome:
    # The entity first: should the task be armed again after that, the version read here is no longer the last one.
    entity = await unit.get_entity(task.entity)
    stored = (await core.tasks.list_for_entity(task.tenant, task.entity)).get(task.key)
    if stored is None or stored.armed_in != task.armed_in:
        return "kept"
    definition = None if entity is None else await core.definitions.find_by_id(task.tenant, entity.model)
    model = definition.model if definition else None
    decision = decide_task(task, entity, model, now=unit.started_at // 1000, grace_ms=grace_ms)
    match decision:
        case KeepTask():
            return "kept"
        case RemoveTask():
            return await _remove_task(unit, task, "removed")
        case ExpireTask(event):
            unit.record(task.entity, event)
            if entity is not None and model is not None:
                name = _name_model(model.key)
                unit.parts.update(
                    core.failures.build_expired_timer(unit.principal, task, name, entity.workflow, event.details)
                )
            with core.failures.watch_commit(unit.parts):
                return await _remove_task(unit, task, "expired")
        case FireTask():
            return await _fire_transition(core, unit, task, decision)
        case _:
            assert_never(decision)


async def _remove_task(unit: UnitOfWork, task: ScheduledTask, outcome: TaskOutcome) -> TaskOutcome:
    unit.tasks.withdraw(task.entity, task.key, task.armed_in)
    await unit.commit()
    return outcome


async def _fire_transition(core: Core, unit: UnitOfWork, task: ScheduledTask, decision: FireTask) -> TaskOutcome:
    request = ScheduledFire(
        entity=decision.entity,
        document=await decode_by_size(decision.entity.document),
        workflow=decision.workflow,
        transition=decision.transition,
        task=task,
    )
    fired = await core.engine.fire(unit, decision.model, request)
    await unit.commit()
    return "fired" if fired else "declined"

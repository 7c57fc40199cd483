"""Firing boundary timers, and what waits for a counter: any node, within one scan interval, at most once
(docs/reference/steps.md#firing, docs/reference/steps.md#precision, docs/reference/flows.md#built-in-tasks).

A scan takes due timers and fires each in a transaction of its instance. One that is not part of its instance any more
is removed; one of a failed instance is held by the statement that failed it, and left alone until a retry releases it.
A timer that could not be fired is taken again after a back-off, by any process that scans then.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.entity import system_principal
from statewright.failures import ProcessConflict, ProcessNotFound
from statewright.loop.background import log_failures, repeat
from statewright.net import uuid_to_ulid
from statewright.processes.language import I, P
from statewright.services.core import Caller
from statewright.services.processes import advancing
from statewright.services.processes.hosting import Processes, ProcessHost
from statewright.storage.processes import timers
from statewright.storage.processes.timers import DueTimer
from statewright.storage.work import COUNTED, TIMERS
from statewright.telemetry import logs

MAX_BATCH_SIZE: Final = 200
MAX_CONCURRENT_FIRES: Final = 16
"""Timers of one scan that are fired at a time."""

WAKE_INTERVAL_S: Final = 0.02
"""Shortest pause between two scans."""

TimerOutcome: TypeAlias = Literal["fired", "dropped", "kept"]

log = logs.logger(__name__)


class TimerScanResult(Struct, frozen=True, kw_only=True):
    """What one scan did."""

    taken: int
    fired: int
    more: bool = False
    """The next one may find something, too."""


class TimerScanner:
    """The boundary timers of one node. A background service."""

    def __init__(self, processes: Processes, *, scan_interval: timedelta) -> None:
        self._processes = processes
        self._hosts = processes.hosts
        self._interval = scan_interval
        self._fired = 0
        # One thing wakes the scanner, whatever it is.
        processes.core.takings.woken[TIMERS.name] = self._hosts.counters_changed

    async def run(self) -> None:
        """Scan until cancelled."""
        changed = self._hosts.counters_changed
        await repeat(self._run_round, self._interval, log=log, failure="step_timers_scan_failed", wake=changed)

    async def run_once(self) -> TimerScanResult:
        """Take what is due and fire it, the earliest first. Raises ``StorageUnavailable``."""
        takings, clock, languages = self._processes.core.takings, self._processes.core.clock, list(self._hosts.names)
        self._fired = 0
        rounds = [
            await takings.run_round(
                work, clock, self._fire_taken, languages, limit=MAX_BATCH_SIZE, is_shared=work is TIMERS
            )
            for work in (TIMERS, COUNTED)
        ]
        return TimerScanResult(
            taken=sum(each.taken for each in rounds), fired=self._fired, more=any(each.more for each in rounds)
        )

    async def _fire_taken(self, due: Sequence[DueTimer], taker: str) -> None:
        by_instance: dict[tuple[str, str], list[DueTimer]] = {}
        for timer in sorted(due, key=lambda each: (each.fire_at, each.id)):
            by_instance.setdefault((timer.tenant, timer.instance), []).append(timer)
        limiter = asyncio.Semaphore(MAX_CONCURRENT_FIRES)
        async with asyncio.TaskGroup() as fires:
            for group in by_instance.values():
                fires.create_task(self._fire_all(group, taker, limiter))

    async def _run_round(self) -> bool:
        has_more = (await self.run_once()).more
        await asyncio.sleep(WAKE_INTERVAL_S)  # counters that change meanwhile wake the next round, all together
        return has_more

    async def _fire_all(self, due: list[DueTimer], taker: str, limiter: asyncio.Semaphore) -> None:
        """Those of one instance follow each other in the order of their instants (docs/reference/steps.md#guards)."""
        async with limiter:
            for timer in due:
                with log_failures(log, "step_timer_not_fired", timer=timer.id):  # it is still there, and taken again
                    await self._fire(timer, taker)

    async def _fire(self, timer: DueTimer, taker: str) -> None:
        takings, clock = self._processes.core.takings, self._processes.core.clock
        async with takings.attempt(TIMERS, timer.tenant, (timer.id,), taker, clock=clock) as attempt:
            has_fired = await self._hosts.get_hosted(timer.language).fire_timer(timer)
            attempt.is_over = has_fired
            self._fired += has_fired


async def fire_due(host: ProcessHost[P, I], timer: DueTimer) -> TimerOutcome:
    """Let a timer take effect, at most once even if others have taken it. Raises what an advance can fail with."""
    core, name = host.core, uuid_to_ulid(timer.id)
    if core.guard.find_tenant(timer.tenant) is not None:
        return "kept"
    try:
        advanced = await advancing.advance(
            host,
            Caller(system_principal(timer.tenant)),
            timer.instance,
            partial(host.language.fire_timer, timer=name),
            kind=advancing.TIMER_KIND,
            unknown=ProcessNotFound("instance of a timer is gone"),
        )
    except ProcessConflict:  # suspended: it is taken again
        return "kept"
    except ProcessNotFound:
        await timers.drop_timers(core.pool, timer.tenant, [timer.id])
        return "dropped"
    if advanced.changed is not None:
        return "fired"
    if advanced.instance.marking.phase == "FAILED":
        return "kept"
    await timers.drop_timers(core.pool, timer.tenant, [timer.id])
    return "dropped"

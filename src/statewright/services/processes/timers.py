"""Firing boundary timers, and what waits for a counter: any node, within one scan interval, at most once
(docs/reference/steps.md#firing, docs/reference/steps.md#precision, docs/reference/flows.md#built-in-tasks).

A scan takes due timers and fires each in a transaction of its instance. One that is not part of its instance any more
is removed; one of a failed instance is held by the statement that failed it, and left alone until a retry releases it.
A timer that could not be fired is taken again after a back-off, by any process that scans then.
"""

import asyncio
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright import logs
from statewright.background import repeat
from statewright.failures import Failure, ProcessConflict, ProcessNotFound
from statewright.net import uuid_to_ulid
from statewright.processes.language import I, P
from statewright.services.processes import advancing
from statewright.services.processes.hosting import ProcessHost, ProcessHosts
from statewright.services.runtime import Caller, Runtime
from statewright.services.scheduler import system_principal
from statewright.storage.processes import timers, topics
from statewright.storage.processes.timers import DueTimer

BACKOFF_INTERVAL: Final = timedelta(seconds=10)
MAX_BATCH_SIZE: Final = 200
MAX_CONCURRENT_FIRES: Final = 16
"""Timers of one scan that are fired at a time."""

WAKE_INTERVAL_S: Final = 0.02
"""Shortest pause between two scans."""

TimerOutcome: TypeAlias = Literal["fired", "dropped", "kept"]

log = logs.logger("steps")


class TimerScanResult(Struct, frozen=True, kw_only=True):
    """What one scan did."""

    taken: int
    fired: int


class TimerScanner:
    """The boundary timers of one node. A background service."""

    def __init__(self, runtime: Runtime, *, scan_interval: timedelta) -> None:
        self._runtime = runtime
        self._hosts = runtime.extensions.get(ProcessHosts)
        self._interval = scan_interval

    async def run(self) -> None:
        """Scan until cancelled."""
        changed = self._hosts.counters_changed
        await repeat(self._run_round, self._interval, log=log, failure="step_timers_scan_failed", wake=changed)

    async def run_once(self) -> TimerScanResult:
        """Take what is due and fire it, the earliest first. Raises ``StorageUnavailable``."""
        now = self._runtime.clock()
        until = now + BACKOFF_INTERVAL // timedelta(microseconds=1)
        due = await timers.take_due_timers(
            self._runtime.pool, self._hosts.names, now=now, until=until, limit=MAX_BATCH_SIZE
        )
        due += await topics.take_counted(
            self._runtime.pool, self._hosts.names, now=now, until=until, limit=MAX_BATCH_SIZE
        )
        by_instance: dict[tuple[str, str], list[DueTimer]] = {}
        for timer in due:
            by_instance.setdefault((timer.tenant, timer.instance), []).append(timer)
        limiter = asyncio.Semaphore(MAX_CONCURRENT_FIRES)
        fired = await asyncio.gather(*(self._fire_all(group, limiter) for group in by_instance.values()))
        return TimerScanResult(taken=len(due), fired=sum(fired))

    async def _run_round(self) -> bool:
        has_more = (await self.run_once()).taken >= MAX_BATCH_SIZE
        await asyncio.sleep(WAKE_INTERVAL_S)  # counters that change meanwhile wake the next round, all together
        return has_more

    async def _fire_all(self, due: list[DueTimer], limiter: asyncio.Semaphore) -> int:
        """Those of one instance follow each other in the order of their instants (docs/reference/steps.md#guards)."""
        fired = 0
        async with limiter:
            for timer in due:
                try:
                    fired += await self._hosts.get_hosted(timer.language).fire_timer(timer)
                except Failure as failure:  # it is still there, and taken again
                    log.warning("step_timer_not_fired", timer=timer.id, error=failure.detail)
        return fired


async def fire_due(host: ProcessHost[P, I], timer: DueTimer) -> TimerOutcome:
    """Let a timer take effect, at most once even if others have taken it. Raises what an advance can fail with."""
    runtime, name = host.runtime, uuid_to_ulid(timer.id)
    if runtime.suspensions.find_tenant(timer.tenant) is not None:
        return "kept"
    try:
        advanced = await advancing.advance(
            host,
            Caller(system_principal(timer.tenant)),
            timer.instance,
            lambda process, current, moment: host.language.fire_timer(process, current, name, moment),
            kind=advancing.TIMER_KIND,
            unknown=ProcessNotFound("instance of a timer is gone"),
        )
    except ProcessConflict:  # suspended: it is taken again
        return "kept"
    except ProcessNotFound:
        await timers.drop_timers(runtime.pool, timer.tenant, [timer.id])
        return "dropped"
    if advanced.changed is not None:
        return "fired"
    if advanced.instance.marking.phase == "FAILED":
        return "kept"
    await timers.drop_timers(runtime.pool, timer.tenant, [timer.id])
    return "dropped"

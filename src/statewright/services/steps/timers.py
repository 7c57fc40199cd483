"""Firing boundary timers: any node, within one scan interval, at most once (spec/step-engine.md §8.3–§8.5).

A scan takes due timers and fires each in a transaction of its instance. One that is not part of its instance any more
is removed; one of a failed instance is held by the statement that failed it, and left alone until a retry releases it.
A timer that could not be fired is taken again after a back-off, by whoever is there then.
"""

import asyncio
from datetime import timedelta
from typing import Literal, TypeAlias

from msgspec import Struct

from statewright import logs
from statewright.failures import Failure, StepNotFound
from statewright.net import uuid_to_ulid
from statewright.services.firing import system
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import hosting
from statewright.steps.core import fire_timer
from statewright.storage.steps import timers
from statewright.storage.steps.timers import DueTimer

BACKOFF = timedelta(seconds=10)
BATCH = 200
AT_ONCE = 16
"""Timers of one scan that are fired at a time."""

Outcome: TypeAlias = Literal["fired", "dropped", "kept"]

log = logs.logger("steps")


class Scan(Struct, frozen=True, kw_only=True):
    """What one scan did."""

    taken: int
    fired: int


class Timers:
    """The boundary timers of one node. A background service."""

    def __init__(self, runtime: Runtime, *, scan_interval: timedelta) -> None:
        self._runtime = runtime
        self._interval_s = scan_interval.total_seconds()

    async def run(self) -> None:
        """Scan until cancelled."""
        while True:
            try:
                more = (await self.run_once()).taken == BATCH
            except Exception as error:  # a background loop must outlive the failure of one round
                log.warning("step_timers_scan_failed", error=repr(error))
                more = False
            if not more:
                await asyncio.sleep(self._interval_s)

    async def run_once(self) -> Scan:
        """Take what is due and fire it, the earliest first. Raises ``StorageUnavailable``."""
        now = self._runtime.clock()
        until = now + BACKOFF // timedelta(microseconds=1)
        due = await timers.take(self._runtime.pool, now=now, until=until, limit=BATCH)
        by_instance: dict[tuple[str, str], list[DueTimer]] = {}
        for timer in due:
            by_instance.setdefault((timer.tenant, timer.instance), []).append(timer)
        slots = asyncio.Semaphore(AT_ONCE)
        fired = await asyncio.gather(*(self._fire_all(group, slots) for group in by_instance.values()))
        return Scan(taken=len(due), fired=sum(fired))

    async def _fire_all(self, due: list[DueTimer], slots: asyncio.Semaphore) -> int:
        """Those of one instance follow each other in the order of their instants (§8.4)."""
        fired = 0
        async with slots:
            for timer in due:
                try:
                    fired += await fire(self._runtime, timer) == "fired"
                except Failure as failure:  # it is still there, and taken again
                    log.warning("step_timer_not_fired", timer=timer.id, error=failure.detail)
        return fired


async def fire(runtime: Runtime, timer: DueTimer) -> Outcome:
    """Let a timer take effect, at most once whoever else has taken it. Raises what an advance can fail with."""
    name = uuid_to_ulid(timer.id)
    try:
        advanced = await hosting.advance(
            runtime,
            Caller(system(timer.tenant)),
            timer.instance,
            lambda process, current, moment: fire_timer(process, current, name, moment),
            kind="instance.dispatch_boundary",
            unknown=StepNotFound("instance of a timer is gone"),
        )
    except StepNotFound:
        await timers.drop(runtime.pool, timer.tenant, [timer.id])
        return "dropped"
    if advanced.changed is not None:
        return "fired"
    if advanced.instance.status == "FAILED":
        return "kept"
    await timers.drop(runtime.pool, timer.tenant, [timer.id])
    return "dropped"

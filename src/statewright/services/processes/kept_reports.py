"""Reports on jobs that are suspended: accepted, kept, and applied when the suspension ends
(docs/reference/operations.md#suspensions).

A report that is kept ends the lease of its job, which is not handed out again. It is applied as if it came just then,
for the worker that sent it: at most once, whatever others try, since a job that had its effect is no part of its
instance any more; and at least once, since only the commit that applies it removes it.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from typing import Final, cast, get_args

from statewright.entity import Principal, PrincipalKind
from statewright.failures import ProcessBadRequest, ProcessNotFound
from statewright.ids import EntityId, TenantId
from statewright.loop.background import log_failures, repeat
from statewright.services.core import Caller
from statewright.services.processes.documents import read_object_by_size
from statewright.services.processes.hosting import Processes
from statewright.services.processes.jobs import JobReport, Outcome, apply_or_keep
from statewright.services.takings import Round
from statewright.storage.processes import leases
from statewright.storage.processes.leases import KeptReport
from statewright.storage.takings import Look
from statewright.storage.work import REPORTS
from statewright.telemetry import logs

log = logs.logger(__name__)


async def _decode_report(tenant: TenantId, text: str) -> tuple[Principal, JobReport]:
    document = await read_object_by_size(text)
    outcome, by = document.get("outcome"), document.get("by")
    named = by if isinstance(by, dict) else {}
    report = JobReport(
        outcome=cast("Outcome", outcome) if outcome in get_args(Outcome) else "FAILED",
        result=document.get("result"),
        reason=str(document.get("reason") or ""),
    )
    principal = Principal(
        id=str(named.get("id")),
        name=str(named.get("name")),
        kind=cast("PrincipalKind", str(named.get("kind"))),
        tenant=tenant,
    )
    return principal, report


LOOK_INTERVAL: Final = timedelta(seconds=5)
"""Between looks for reports whose suspension another node has ended."""

MAX_BATCH: Final = 24
"""Reports that are taken together: each may have megabytes."""

MAX_CONCURRENT: Final = 8
"""Instances that one node lets go on at a time."""


class ReportKeeper:
    """Applies reports whose suspension has ended, in one process. A background service."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._hosts = processes.hosts
        self._changed = asyncio.Event()
        processes.core.guard.on_change.append(self._changed.set)

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(
            self._run_round, LOOK_INTERVAL, log=log, failure="kept_job_reports_not_applied", wake=self._changed
        )

    async def run_once(self) -> int:
        """Apply what can be; how much was taken. Raises ``StorageUnavailable``."""
        return (await self._take_and_apply()).taken

    async def _take_and_apply(self) -> Round:
        processes, languages = self._processes, list(self._hosts.names)

        async def take(look: Look) -> tuple[Sequence[KeptReport], bool]:
            taken = await leases.take_reports(
                processes.core.pool, languages, now=look.now, until=look.until, limit=MAX_BATCH, taker=look.taker
            )
            return taken, False

        return await processes.core.takings.run_round(
            REPORTS, processes.core.clock, self._apply_taken, languages, limit=MAX_BATCH, take=take
        )

    async def _run_round(self) -> bool:
        self._changed.clear()
        return (await self._take_and_apply()).more

    async def _apply_taken(self, taken: Sequence[KeptReport], taker: str) -> None:
        limiter = asyncio.Semaphore(MAX_CONCURRENT)
        by_instance = groupby(sorted(taken, key=_get_place), key=_get_place)  # of one, in the order of its reports
        await asyncio.gather(*(self._apply_all(list(reports), taker, limiter) for _, reports in by_instance))

    async def _apply_all(self, reports: list[KeptReport], taker: str, limiter: asyncio.Semaphore) -> None:
        takings, clock = self._processes.core.takings, self._processes.core.clock
        async with limiter:
            for kept in reports:
                # one that fails is still there, and taken again
                with log_failures(log, "kept_job_report_not_applied", job=kept.job):
                    async with takings.attempt(REPORTS, kept.tenant, (kept.job,), taker, clock=clock):
                        await self._apply(kept)

    async def _apply(self, kept: KeptReport) -> None:
        principal, report = await _decode_report(kept.tenant, kept.report)
        caller, processes = Caller(principal), self._processes
        try:
            await apply_or_keep(processes, caller, kept.job, kept.owner, report, instead_of=kept.kept_under)
        except ProcessBadRequest as unusable:  # since the instance stands elsewhere now
            failed = JobReport(outcome="FAILED", reason=unusable.message)
            await apply_or_keep(processes, caller, kept.job, kept.owner, failed, instead_of=kept.kept_under)
        except ProcessNotFound:
            pass  # the instance is gone, and nothing waits for the report any more
        free = await leases.discard_report(processes.core.pool, kept)
        if free:
            self._hosts.wakeups.announce(free)


def _get_place(kept: KeptReport) -> tuple[TenantId, EntityId]:
    return kept.tenant, kept.owner.instance

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
from typing import Final, Literal, cast, get_args

from msgspec import Struct

from statewright.entity import Principal, PrincipalKind
from statewright.failures import Conflict, ProcessBadRequest, ProcessNotFound
from statewright.ids import EntityId, TenantId
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import log_failures, repeat, run_in_thread
from statewright.loop.turns import is_large
from statewright.net import uuid_to_ulid
from statewright.operations.active_suspensions import Suspension
from statewright.services.core import Caller, Core
from statewright.services.processes.advancing import MAX_ATTEMPTS, InstanceSuspended
from statewright.services.processes.documents import encode_text, read_object_by_size
from statewright.services.processes.hosting import HostedLanguage, Processes
from statewright.services.takings import Round
from statewright.storage.pool import Pool
from statewright.storage.processes import jobs, leases
from statewright.storage.processes.jobs import WorkOwner
from statewright.storage.processes.leases import KeptReport
from statewright.storage.takings import Look
from statewright.storage.work import REPORTS
from statewright.telemetry import logs

Outcome = Literal["COMPLETED", "FAILED", "LOST"]

log = logs.logger(__name__)


class JobReport(Struct, frozen=True, kw_only=True):
    """How a job ended: with a result, or for a reason, or with its worker, of which nothing is heard any more."""

    outcome: Outcome
    result: JsonValue = None
    reason: str = ""


async def apply_or_keep(
    processes: Processes, caller: Caller, job: EntityId, owner: WorkOwner, report: JobReport
) -> None:
    """Let a report take its effect, or keep it where the job is suspended. Raises ``ProcessNotFound`` when there is no
    such instance, ``ProcessBadRequest`` for a result that the language does not take.
    """
    await _apply_or_keep(processes, caller, job, owner, report, instead_of=None)


async def find_type_suspension(core: Core, tenant: TenantId, language: str, job: EntityId) -> Suspension | None:
    """The one of the type of a job. Reads the job only where a type is suspended."""
    suspensions = core.suspensions
    if not suspensions.is_current():
        await suspensions.ensure_current()
    if not suspensions.has_job_types(tenant):
        return None
    queued = await jobs.fetch_queued_job(core.pool, tenant, language, job)
    return None if queued is None else suspensions.find_job_type(tenant, queued.job_type)


async def _apply_or_keep(
    processes: Processes, caller: Caller, job: EntityId, owner: WorkOwner, report: JobReport, *, instead_of: str | None
) -> None:
    language = processes.hosts.get_hosted(owner.language)
    unknown = ProcessNotFound(f'job "{uuid_to_ulid(job)}" not found')
    for _ in range(MAX_ATTEMPTS):
        suspension = await find_type_suspension(processes.core, caller.tenant, owner.language, job)
        if suspension is None:
            try:
                await _apply(language, caller, job, owner, report, unknown)
            except InstanceSuspended as waits:
                suspension = waits.suspension
            else:
                return
        if report.outcome == "COMPLETED" and instead_of is None:
            await language.check_result(caller.tenant, owner.instance, uuid_to_ulid(job), report.result, unknown)
        if await _keep(processes.core, caller, job, report, suspension, instead_of=instead_of):
            return
        await processes.core.suspensions.load_anew()  # it has ended meanwhile
    raise Conflict("what the job belongs to is suspended and resumed all the time")


async def _apply(
    language: HostedLanguage,
    caller: Caller,
    job: EntityId,
    owner: WorkOwner,
    report: JobReport,
    unknown: ProcessNotFound,
) -> None:
    name = uuid_to_ulid(job)
    if report.outcome == "COMPLETED":
        await language.complete_job(caller, owner.instance, name, report.result, unknown)
    elif report.outcome == "LOST" and language.lost_jobs is not None:
        await language.lost_jobs.fail(caller, owner.instance, name)
    else:
        await language.fail_job(caller, owner.instance, name, report.reason, unknown)


async def _keep(
    core: Core,
    caller: Caller,
    job: EntityId,
    report: JobReport,
    suspension: Suspension,
    *,
    instead_of: str | None,
) -> bool:
    text = await _encode_report(caller.principal, report)

    async def keep(pool: Pool) -> bool:
        return await leases.keep_report(pool, caller.tenant, job, suspension.id, text, instead_of=instead_of)

    is_kept = await caller.carry_out(core.pool, keep, lambda _: None)
    if is_kept:
        log.info("job_report_kept", job=job, suspension=suspension.id, scope=suspension.scope)
    return is_kept


async def _encode_report(principal: Principal, report: JobReport) -> str:
    document: JsonObject = {
        "outcome": report.outcome,
        "result": report.result,
        "reason": report.reason,
        "by": {"id": principal.id, "name": principal.name, "kind": principal.kind},
    }
    if is_large(report.result):
        return await run_in_thread(lambda: encode_text(document))
    return encode_text(document)


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

MAX_BATCH: Final = 200

MAX_CONCURRENT: Final = 8
"""Instances that one node lets go on at a time."""


class ReportKeeper:
    """Applies reports whose suspension has ended, in one process. A background service."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._hosts = processes.hosts
        self._changed = asyncio.Event()
        processes.core.suspensions.on_change.append(self._changed.set)

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
                with log_failures(
                    log, "kept_job_report_not_applied", job=kept.job
                ):  # it is still there, and taken again
                    async with takings.attempt(REPORTS, kept.tenant, (kept.job,), taker, clock=clock):
                        await self._apply(kept)

    async def _apply(self, kept: KeptReport) -> None:
        principal, report = await _decode_report(kept.tenant, kept.report)
        caller, processes = Caller(principal), self._processes
        try:
            await _apply_or_keep(processes, caller, kept.job, kept.owner, report, instead_of=kept.kept_under)
        except ProcessBadRequest as unusable:  # since the instance stands elsewhere now
            failed = JobReport(outcome="FAILED", reason=unusable.message)
            await _apply_or_keep(processes, caller, kept.job, kept.owner, failed, instead_of=kept.kept_under)
        except ProcessNotFound:
            pass  # the instance is gone, and nothing waits for the report any more
        free = await leases.discard_report(processes.core.pool, kept)
        if free:
            self._hosts.wakeups.announce(free)


def _get_place(kept: KeptReport) -> tuple[TenantId, EntityId]:
    return kept.tenant, kept.owner.instance

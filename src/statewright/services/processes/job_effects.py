"""What a job does to its instance, for each language alike: its payload, its result, its failure."""

from contextlib import suppress
from typing import assert_never

from statewright.background import run_by_size
from statewright.failures import InstanceTooLarge, ProcessConflict, ProcessNotFound
from statewright.ids import EntityId, TenantId
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Moment, uuid_to_ulid
from statewright.processes.language import (
    Applied,
    I,
    InputPayloads,
    InstancePayloads,
    JobPlace,
    LeaseLosses,
    P,
    Rejection,
    RunReports,
)
from statewright.processes.retries import Backoff
from statewright.services.processes import advancing
from statewright.services.processes.documents import decode_text
from statewright.services.processes.hosting import ProcessHost
from statewright.services.runtime import Caller
from statewright.storage.processes.jobs import LockedJob, QueuedJob


async def build_payload(host: ProcessHost[P, I], tenant: TenantId, job: LockedJob) -> JsonObject:
    """What the worker is given that claimed a job. Raises ``StorageUnavailable``."""
    value = await run_by_size(job.input_bytes, lambda: decode_text(job.input))
    if job.definition_version == 0:  # made by a node of an earlier version, which knew one kind of payload only
        return value if isinstance(value, dict) else {}
    published = await host.processes.find(tenant, job.definition_id, job.definition_version)
    assert published is not None, "versions of definitions are never deleted"  # noqa: S101
    name = uuid_to_ulid(job.instance)
    place = JobPlace(name, job.node_id, job.element, uuid_to_ulid(job.execution))
    match host.language.payloads:
        case InputPayloads(build):
            return build(published.process, place, value)
        case InstancePayloads(build=build_from_instance):
            instance = await advancing.find_instance(host, tenant, name)
            return {} if instance is None else build_from_instance(published.process, instance, place, value)
        case _ as never:
            assert_never(never)


async def find_backoff(host: ProcessHost[P, I], tenant: TenantId, job: QueuedJob) -> Backoff | None:
    """How long a failed job rests, by its definition. Raises ``StorageUnavailable``."""
    published = await host.processes.find(tenant, job.definition_id, job.definition_version)
    return None if published is None else host.language.find_backoff(published.process, job.node_id)


async def complete_job(
    host: ProcessHost[P, I], caller: Caller, instance: EntityId, job: str, result: JsonValue, unknown: ProcessNotFound
) -> None:
    """Apply the result of a job, which fails when the result is too much for the instance. Raises ``unknown``,
    ``ProcessBadRequest`` for what the language does not take.
    """
    try:
        await advancing.advance(
            host,
            caller,
            instance,
            lambda process, current, moment: host.language.complete_job(process, current, job, result, moment),
            kind="instance.complete_job",
            given=result,
            unknown=unknown,
        )
    except InstanceTooLarge as too_large:
        await fail_job(host, caller, instance, job, too_large.message, unknown)


async def check_result(
    host: ProcessHost[P, I], tenant: TenantId, instance: EntityId, job: str, result: JsonValue, unknown: ProcessNotFound
) -> None:
    """Whether a result could be applied now, without doing so. Raises ``unknown``, ``ProcessBadRequest`` for what the
    language does not take.
    """

    def complete(process: P, current: I, moment: Moment) -> Applied[I] | Rejection:
        return host.language.complete_job(process, current, job, result, moment)

    if await advancing.judge(host, tenant, instance, complete, given=result) is None:
        raise unknown


async def take_report(
    host: ProcessHost[P, I],
    reports: RunReports[P, I],
    caller: Caller,
    instance: EntityId,
    job: str,
    report: JsonValue,
    lease: int,
    waits: bool,
) -> JsonObject:
    """Apply what a job reports that goes on; what need not be reported again. Where the instance, or the type of the
    job (``waits``), is suspended, nothing is applied: it comes again with the result. Raises ``ProcessConflict`` for a
    job that is over, ``ProcessBadRequest`` for what the language does not take.
    """

    def take(process: P, current: I, moment: Moment) -> Applied[I] | Rejection:
        return reports.take_report(process, current, job, report, lease, moment)

    gone = ProcessNotFound("instance of a job is gone")
    try:
        if not waits:
            with suppress(advancing.InstanceSuspended):
                advanced = await advancing.advance(
                    host, caller, instance, take, kind="instance.report_progress", given=report, unknown=gone
                )
                return reports.describe_taken(advanced.instance, job)
        found = await advancing.judge(host, caller.tenant, instance, take, given=report)
    except ProcessNotFound:
        raise ProcessConflict("the instance is gone") from None
    if found is None:
        raise ProcessConflict("the instance is gone")
    return reports.describe_taken(found, job)


async def fail_lost_job(
    host: ProcessHost[P, I], losses: LeaseLosses[P, I], caller: Caller, instance: EntityId, job: str
) -> None:
    """Apply that a job was lost too often; an instance that is gone has no need of it."""
    with suppress(ProcessNotFound):
        await advancing.advance(
            host,
            caller,
            instance,
            lambda process, current, moment: losses.fail_lost_job(process, current, job, moment),
            kind="instance.fail_job",
            unknown=ProcessNotFound("instance of a job is gone"),
        )


async def fail_job(
    host: ProcessHost[P, I], caller: Caller, instance: EntityId, job: str, reason: str, unknown: ProcessNotFound
) -> None:
    """Apply that a job failed for good. Raises ``unknown``."""
    await advancing.advance(
        host,
        caller,
        instance,
        lambda process, current, moment: host.language.fail_job(process, current, job, reason, moment),
        kind="instance.fail_job",
        unknown=unknown,
    )

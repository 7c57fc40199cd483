"""What bulk jobs do with suspensions and incidents, beside moves (docs/reference/operations.md#bulk-jobs)."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from statewright.failures import IncidentClosed, IncidentNotFound, InvalidParameter
from statewright.ids import EntityId, parse_entity_id
from statewright.instants import from_rfc3339
from statewright.operations.active_suspensions import FLAGGED
from statewright.operations.bulk_jobs import (
    BulkArguments,
    BulkJob,
    BulkOperation,
    BulkOrder,
    IncidentSelection,
)
from statewright.operations.incidents import Retry
from statewright.services.core import Caller, Core
from statewright.services.ops import incidents
from statewright.services.ops.bulk_items import MOVES, ItemContext, ItemWork, get_entity, is_of_instances
from statewright.services.ops.bulk_jobs import create_job, prepare_search
from statewright.services.ops.service import Operations
from statewright.services.ops.suspensions import resume_one, suspend_one
from statewright.storage.ops.bulk_claims import BulkClaim, BulkJobs
from statewright.storage.ops.bulk_items import freeze_entities, freeze_incidents
from statewright.storage.ops.incidents import IncidentFilter, count_incidents
from statewright.storage.pool import Pool


async def act_on_group(
    operations: Operations,
    caller: Caller,
    operation: BulkOperation,
    fingerprint: str,
    *,
    reason: str | None,
    force: bool,
) -> BulkJob:
    """Retry or resolve the open incidents of one cause, by a job. Raises ``IncidentNotFound``, ``LimitReached``."""
    chosen = IncidentSelection(fingerprint=[fingerprint])
    if not await count_incidents(operations.core.pool, caller.tenant, read_incident_filter(chosen), limit=1):
        raise IncidentNotFound
    order = BulkOrder(
        operation=operation,
        incidents=chosen,
        arguments=BulkArguments(force=force or None),
        reason=reason,
    )
    return await create_job(operations, caller, order, None)


def read_incident_filter(selection: IncidentSelection) -> IncidentFilter:
    """The filter of a selection. Raises ``BadRequest``."""

    def read_instant(member: str, text: str | None) -> int | None:
        found = None if text is None else from_rfc3339(text)
        if text is not None and found is None:
            raise InvalidParameter(f"/incidents/{member}", "not an instant of RFC 3339")
        return found

    ids = [*(selection.entity_id or ()), *(selection.instance_id or ())]
    subjects = [parse_entity_id(each) for each in ids]
    if None in subjects:
        raise InvalidParameter("/incidents", "an id that is not a UUID")
    return IncidentFilter(
        statuses=("OPEN",),
        kinds=selection.kind,
        severities=selection.severity,
        fingerprints=selection.fingerprint,
        models=selection.model,
        subjects=[each for each in subjects if each is not None] or None,
        components=selection.component,
        codes=selection.code,
        first_from=read_instant("firstFrom", selection.first_from),
        first_to=read_instant("firstTo", selection.first_to),
        last_from=read_instant("lastFrom", selection.last_from),
        last_to=read_instant("lastTo", selection.last_to),
    )


async def freeze(core: Core, jobs: BulkJobs, job: BulkClaim) -> None:
    """Keep the ids of what a job chooses now. Raises ``FreezeLost``, ``TooManyItems`` and what a search is refused
    with.
    """
    if job.plan.incidents is not None:
        await freeze_incidents(core.pool, job, read_incident_filter(job.plan.incidents))
    else:
        query = await prepare_search(core, job.principal, job.plan)
        await freeze_entities(core.pool, jobs.scans, job, query)


async def _suspend(item: ItemContext, id_: EntityId) -> None:
    is_instance = is_of_instances(item.core, await get_entity(item, id_))
    await suspend_one(item.core, item.caller, "INSTANCE" if is_instance else "ENTITY", id_, item.reason)


async def _resume(item: ItemContext, id_: EntityId) -> None:
    await resume_one(item.core, item.caller, id_, item.reason or None)


async def _judge_suspension(is_wanted: bool, item: ItemContext, id_: EntityId) -> str | None:
    await get_entity(item, id_)
    held = item.operations.concerns.active.list_process(item.caller.tenant, id_, "")
    is_suspended = any(each.scope in FLAGGED for each in held)
    return None if is_suspended is is_wanted else "SUSPENDED" if is_suspended else "NOT_SUSPENDED"


async def _retry_incident(item: ItemContext, id_: EntityId) -> None:
    request = Retry(force=item.plan.arguments.force or False)
    await incidents.retry(item.processes, item.caller, id_, request)


async def _resolve_incident(item: ItemContext, id_: EntityId) -> None:
    async def close(pool: Pool) -> bool:
        return await incidents.resolve_within(pool, item.processes, item.caller, id_, item.reason)

    await item.caller.carry_out(item.core.pool, close, lambda done: done)


async def _judge_incident(retries: bool, item: ItemContext, id_: EntityId) -> str | None:
    found = (await incidents.get_incident(item.core, item.caller, id_)).incident
    if found.status != "OPEN":
        raise IncidentClosed(found.status)
    return "NOT_RETRYABLE" if retries and found.kind in incidents.NEVER_RETRIED else None


WORKS: Final[Mapping[BulkOperation, ItemWork]] = {
    **MOVES,
    "SUSPEND": ItemWork(_suspend, partial(_judge_suspension, False)),
    "RESUME": ItemWork(_resume, partial(_judge_suspension, True)),
    "RETRY_INCIDENTS": ItemWork(_retry_incident, partial(_judge_incident, True)),
    "RESOLVE_INCIDENTS": ItemWork(_resolve_incident, partial(_judge_incident, False)),
}
"""All operations."""

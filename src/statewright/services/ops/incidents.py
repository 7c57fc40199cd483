"""Looking at failed work, doing it again, and closing what needs nobody any more
(docs/reference/operations.md#incidents).
"""

import time
from collections import Counter
from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright import logs
from statewright.background import repeat
from statewright.entity import Actor, ModelKey
from statewright.failures import (
    BadRequest,
    IncidentClosed,
    IncidentNotFound,
    IncidentNotRetryable,
    IncidentStale,
    RunCutOff,
)
from statewright.ids import EntityId, TenantId
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import uuid_to_ulid
from statewright.operator_acts import Act
from statewright.services import entities
from statewright.services.incident_reports import IncidentReports, read_run_payload
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.ops.members import ConnectedMembers
from statewright.services.processes.advancing import AdvanceResult
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import instances
from statewright.services.writing import Saved
from statewright.steps import Instance
from statewright.storage.ops import incident_retries as retries
from statewright.storage.ops import incidents as stored
from statewright.storage.ops.incident_retries import INCIDENT_RETRIES
from statewright.storage.ops.incidents import Incident as Incident
from statewright.storage.ops.incidents import IncidentFilter as IncidentFilter
from statewright.storage.ops.incidents import IncidentGroup as IncidentGroup
from statewright.storage.pool import Pool

RETRY_LEASE: Final = timedelta(minutes=15)
"""After so long another may retry an incident, whatever became of the retry; at once where its node is gone."""

REMOVAL_INTERVAL_S: Final = 3600.0

log = logs.logger(__name__)


class IncidentKey(Struct, frozen=True, array_like=True):
    """The place of an incident in its list."""

    at: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    id: UUID


class GroupKey(Struct, frozen=True, array_like=True):
    """The place of a group in its list."""

    open: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    fingerprint: str


class RetryRequest(Struct, frozen=True, kw_only=True):
    """What is done otherwise than before. ``force``: also when the entity was written since."""

    document: JsonValue = None
    variables: "JsonObject | None" = None
    force: bool = False


class RetryResult(Struct, frozen=True, kw_only=True):
    """The incident afterwards, and what the retry came to, in the words of clients."""

    incident: Incident
    result: dict[str, object]


async def list_incidents(
    runtime: Runtime, caller: Caller, wanted: IncidentFilter, page: PageRequest[IncidentKey]
) -> Page[Incident, IncidentKey]:
    """The incidents of the tenant, the one that occurred last first."""
    after = (page.after.at, str(page.after.id)) if page.after else None
    pool, tenant = runtime.pool, caller.tenant
    found = await stored.list_incidents(pool, tenant, wanted, limit=page.size + 1, after=after)
    total = await stored.count_incidents(pool, tenant, wanted, limit=page.count_up_to) if page.counts else None
    return build_page(page, found, lambda each: IncidentKey(each.last_at, UUID(each.id)), total)


async def list_groups(runtime: Runtime, caller: Caller, page: PageRequest[GroupKey]) -> Page[IncidentGroup, GroupKey]:
    """Open incidents by their cause, that of most of them first."""
    after = (page.after.open, page.after.fingerprint) if page.after else None
    found = await stored.list_groups(runtime.pool, caller.tenant, limit=page.size + 1, after=after)
    return build_page(page, found, lambda each: GroupKey(each.open, each.fingerprint))


async def get_incident(runtime: Runtime, caller: Caller, id_: str) -> Incident:
    """One, with its payload. Raises ``IncidentNotFound``."""
    found = await stored.find_incident(runtime.pool, caller.tenant, id_)
    if found is None:
        raise IncidentNotFound
    return found


async def resolve(runtime: Runtime, caller: Caller, id_: str, reason: str) -> Incident:
    """Close an incident that needs nobody any more. Raises ``IncidentNotFound``, ``IncidentClosed``."""
    incident = await get_incident(runtime, caller, id_)
    act, by, pool = _build_act(incident, "incident.resolve", reason), _to_actor(caller), runtime.pool
    if not await stored.resolve_incident(pool, caller.tenant, id_, by, "RESOLVED", act=act, reason=reason):
        raise IncidentClosed("RESOLVED")
    return await get_incident(runtime, caller, id_)


async def retry(runtime: Runtime, caller: Caller, id_: str, request: RetryRequest) -> RetryResult:
    """Do again, as the caller, what was asked for; what comes of it is told as it is. The commit of it closes the
    incident, the first one where there are several.

    Raises ``IncidentNotFound``, ``IncidentClosed``, ``IncidentStale``, ``IncidentNotRetryable``, and what the run does.
    """
    if caller.transaction is not None:
        raise BadRequest("incidents are not retried inside another transaction")
    incident = await get_incident(runtime, caller, id_)
    if incident.status != "OPEN":
        raise IncidentClosed(incident.status)
    pool, lease_us = runtime.pool, RETRY_LEASE // timedelta(microseconds=1)
    node = runtime.extensions.get(ConnectedMembers).node
    claim = await retries.claim_incident(pool, caller.tenant, id_, node=node, for_us=lease_us)
    if claim is None:
        raise IncidentClosed("RETRYING")
    try:
        result = await _repeat(runtime, caller, incident, request, claim)
    except RunCutOff:  # it goes on, and closes the incident
        raise
    except BaseException:
        await runtime.run_to_completion(retries.unclaim_incident(pool, caller.tenant, id_, claim))
        raise
    return RetryResult(incident=await get_incident(runtime, caller, id_), result=result)


def _build_act(incident: Incident, action: str, reason: str | None = None) -> Act:
    details = {"kind": incident.kind, "subject": incident.subject_id, "fingerprint": incident.fingerprint}
    return Act(action=action, target_kind="INCIDENT", target_id=incident.id, reason=reason, details=details)


def _to_actor(caller: Caller) -> Actor:
    return Actor(caller.principal.id, caller.principal.kind)


async def _repeat(
    runtime: Runtime, caller: Caller, incident: Incident, request: RetryRequest, claim: int
) -> dict[str, object]:
    act, by = _build_act(incident, "incident.retry"), _to_actor(caller)
    if incident.kind in ("TIMER_FAILED", "TIMER_DEAD", "TIMER_EXPIRED"):
        return await _repeat_timer(runtime, caller, incident, by, act)
    if incident.kind == "CHAIN_FAILED":
        raise IncidentNotRetryable("start the successor by hand")
    if incident.kind == "NO_WORKER":
        raise IncidentNotRetryable("it is over when a worker comes")
    staged = retries.build_staged_retry(caller.tenant, incident.id, claim, by, act)
    closing = replace(caller, parts={**caller.parts, INCIDENT_RETRIES.name: staged})
    repeat_kind = _repeat_run if incident.kind == "RUN_FAILED" else _repeat_step
    return await repeat_kind(runtime, closing, incident, request)


def _foretell(runtime: Runtime, caller: Caller, incident: Incident, result: dict[str, object]) -> RetryResult:
    """The answer as it is recorded with the commit that closes the incident."""
    closed = replace(
        incident,
        status="RESOLVED",
        resolved_at=runtime.clock(),
        resolved_by_id=caller.principal.id,
        resolved_by_kind=caller.principal.kind,
        resolution="RETRIED",
    )
    return RetryResult(incident=closed, result=result)


def _describe_saved(saved: Saved) -> dict[str, object]:
    return {"transactionId": saved.transaction_id, "entityIds": list(saved.entity_ids)}


def _describe_instance(instance: Instance) -> dict[str, object]:
    return {"instanceId": instance.id, "status": instance.status}


async def _repeat_run(runtime: Runtime, caller: Caller, incident: Incident, request: RetryRequest) -> dict[str, object]:
    document, transition = (b"", None) if incident.payload is None else read_run_payload(incident.payload)
    if request.document is not None:
        document = encode(request.document)
    elif not document:
        raise IncidentNotRetryable("its document was not kept; give one")
    if incident.severity == "WARNING":
        raise IncidentNotRetryable("the run went on")

    def foretell(saved: Saved) -> RetryResult:
        return _foretell(runtime, caller, incident, _describe_saved(saved))

    if incident.subject_kind == "NEW_ENTITY":
        name, _, version = incident.model.rpartition("/")
        key = ModelKey(name, int(version))
        caller.convert_result(foretell)
        return _describe_saved(await entities.create(runtime, caller, key=key, media="JSON", body=document))
    entity_id = EntityId(incident.subject_id)
    current = await entities.read(runtime, caller, entity_id)
    if current.transaction_id != incident.entity_transaction and not request.force:
        raise IncidentStale(current.transaction_id)
    caller.convert_result(foretell)
    saved = await entities.update(
        runtime,
        caller,
        entity_id,
        media="JSON",
        body=document,
        transition=transition,
        if_match=None if request.force else incident.entity_transaction,
    )
    return _describe_saved(saved)


async def _repeat_timer(runtime: Runtime, caller: Caller, incident: Incident, by: Actor, act: Act) -> dict[str, object]:
    result: dict[str, object] = {"timer": incident.transition, "due": True}

    async def make_due(pool: Pool) -> bool:
        return await retries.retry_timer(
            pool,
            caller.tenant,
            incident.id,
            by,
            act,
            entity=incident.subject_id,
            state=incident.state,
            transition=incident.transition or "",
            now_ms=runtime.clock() // 1000,
        )

    keyed = caller.keyed
    answer = _foretell(runtime, caller, incident, result)
    if not await (make_due(runtime.pool) if keyed is None else keyed.commit_act(make_due, answer)):
        raise IncidentNotRetryable("the timer is gone")
    return result


async def _repeat_step(
    runtime: Runtime, caller: Caller, incident: Incident, request: RetryRequest
) -> dict[str, object]:
    if incident.language != "steps" or incident.step is None:
        raise IncidentNotRetryable("instances of this language have no retry of a step")
    ulid = uuid_to_ulid(incident.subject_id)

    def foretell(advanced: AdvanceResult[Instance]) -> RetryResult:
        return _foretell(runtime, caller, incident, _describe_instance(advanced.instance))

    caller.convert_result(foretell)
    return _describe_instance(await instances.retry(runtime, caller, ulid, incident.step, request.variables))


class IncidentSweeper:
    """Closes incidents that took care of themselves, and removes what was closed long ago; every node does so."""

    def __init__(
        self,
        pool: Pool,
        reports: IncidentReports,
        *,
        interval: timedelta,
        retention: timedelta,
        max_open: int = stored.MAX_OPEN,
    ) -> None:
        self._pool = pool
        self._reports = reports
        self._max_open = max_open
        self._interval = interval
        self._retention_us = retention // timedelta(microseconds=1)
        self._removes_at = 0.0
        self.removed = 0
        """Rows since the start of the process."""
        self.open: dict[tuple[str, str], int] = {}
        """Open incidents by tenant and kind, as last counted."""

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, self._interval, log=log, failure="incident_sweep_failed", waits_first=True)

    async def run_once(self) -> bool:
        """One round; whether there may be more to close. Raises ``StorageUnavailable``."""
        closed = await stored.close_settled(self._pool)
        if closed:
            log.info("incidents_closed", count=closed)
        self.open = await stored.count_open(self._pool)
        self._reports.crowded = self._list_crowded()
        if time.monotonic() >= self._removes_at:
            removed = await stored.remove_resolved(self._pool, older_than_us=self._retention_us)
            self.removed += removed
            self._removes_at = time.monotonic() + (0 if removed == stored.MAX_BATCH else REMOVAL_INTERVAL_S)
        return closed == stored.MAX_BATCH

    def _list_crowded(self) -> frozenset[TenantId]:
        counts: Counter[str] = Counter()
        for (tenant, _), count in self.open.items():
            counts[tenant] += count
        return frozenset(TenantId(tenant) for tenant, count in counts.items() if count >= self._max_open)

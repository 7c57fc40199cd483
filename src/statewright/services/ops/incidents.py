"""Looking at failed work, doing it again, and closing what needs nobody any more
(docs/reference/operations.md#incidents).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated, Final, cast
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright.entity import Actor, ModelKey
from statewright.failures import (
    BadRequest,
    ComputationKilled,
    IncidentClosed,
    IncidentNotFound,
    IncidentNotRetryable,
    IncidentStale,
    ProcessNotFound,
    RunCutOff,
)
from statewright.ids import Clock, EntityId, TenantId
from statewright.instants import parse_instant, to_rfc3339, to_us
from statewright.jsonval.values import JsonObject
from statewright.loop.background import Removal, repeat
from statewright.net import uuid_to_ulid
from statewright.operations.active_suspensions import ActiveSuspensions, Suspension
from statewright.operations.incidents import Incident, IncidentEnd, IncidentGroup, IncidentRow, Retry, RetryResult
from statewright.operations.service import Act
from statewright.processes.language import ProcessInstance
from statewright.services import entities
from statewright.services.core import Caller, Core
from statewright.services.incident_reports import IncidentReports, build_stranded, read_run_payload
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.ops.suspensions import SuspensionEnder, SuspensionFollower
from statewright.services.processes.advancing import AdvanceResult
from statewright.services.processes.hosting import Processes
from statewright.services.writing import Saved, encode_by_size
from statewright.storage import takings
from statewright.storage.ops import incidents as stored
from statewright.storage.ops.incidents import INCIDENT_RETRIES, StoredIncident
from statewright.storage.ops.incidents import IncidentFilter as IncidentFilter
from statewright.storage.ops.listings import StateCount
from statewright.storage.ops.service import MAX_BATCH, remove_rows
from statewright.storage.ops.stranded import SurveyedModel, survey_states
from statewright.storage.pool import Pool
from statewright.storage.work import LOSSES, REPORTED, STARTS, WORKS, AnyWork, WorkName
from statewright.telemetry import logs
from statewright.workflow import find_governing, workflows_from_stored

RETRY_LEASE: Final = timedelta(minutes=15)
"""After so long another may retry an incident, whatever became of the retry; at once where its node is gone."""

REMOVAL_INTERVAL: Final = timedelta(hours=1)

SURVEY_INTERVAL: Final = timedelta(seconds=10)

REST_FACTOR: Final = 20
"""After a look at a model the survey rests for so many times as long as it took."""

NEVER_RETRIED: Final[Mapping[str, str]] = {
    "CHAIN_FAILED": "start the successor by hand",
    "NO_WORKER": "it is over when a worker comes",
    "STATE_UNKNOWN": "it is over when a workflow has the state again",
    "WEBHOOK_FAILED": "send the deliveries again",
    "SUBSCRIPTION_DISABLED": "enable the subscription",
}
"""Kinds of incidents of which nothing can be done again, and what is to be done instead."""

log = logs.logger(__name__)


class IncidentKey(Struct, frozen=True, array_like=True):
    """The place of an incident in its list."""

    at: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    id: UUID


class GroupKey(Struct, frozen=True, array_like=True):
    """The place of a group in its list."""

    open: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    fingerprint: str


async def list_incidents(
    core: Core, caller: Caller, wanted: IncidentFilter, page: PageRequest[IncidentKey]
) -> Page[Incident, IncidentKey]:
    """The incidents of the tenant, the one that occurred last first."""
    after = (page.after.at, str(page.after.id)) if page.after else None
    pool, tenant = core.pool, caller.tenant
    found = await stored.list_incidents(pool, tenant, wanted, limit=page.size + 1, after=after)
    total = await stored.count_incidents(pool, tenant, wanted, limit=page.count_up_to) if page.counts else None
    return build_page(page, found, lambda each: IncidentKey(parse_instant(each.last_at), UUID(each.id)), total)


async def list_groups(core: Core, caller: Caller, page: PageRequest[GroupKey]) -> Page[IncidentGroup, GroupKey]:
    """Open incidents by their cause, that of most of them first."""
    after = (page.after.open, page.after.fingerprint) if page.after else None
    found = await stored.list_groups(core.pool, caller.tenant, limit=page.size + 1, after=after)
    total = await stored.count_groups(core.pool, caller.tenant, limit=page.count_up_to) if page.counts else None
    return build_page(page, found, lambda each: GroupKey(each.open, each.fingerprint), total)


async def get_incident(core: Core, caller: Caller, id_: str) -> StoredIncident:
    """One, with its payload. Raises ``IncidentNotFound``."""
    found = await stored.find_incident(core.pool, caller.tenant, id_)
    if found is None:
        raise IncidentNotFound
    return found


async def resolve(processes: Processes, caller: Caller, id_: str, reason: str) -> Incident:
    """Close an incident that needs nobody any more; work that is parked is given up with it. Raises
    ``IncidentNotFound``, ``IncidentClosed``.
    """
    await resolve_within(processes.core.pool, processes, caller, id_, reason)
    return (await get_incident(processes.core, caller, id_)).incident


async def resolve_within(pool: Pool, processes: Processes, caller: Caller, id_: str, reason: str) -> bool:
    """The same by the connections of a pool, which may be those of one transaction."""
    incident = (await get_incident(processes.core, caller, id_)).incident
    act, by = _build_act(incident, "incident.resolve", reason), caller.principal.actor
    if incident.kind == "POISONED" and incident.status == "OPEN":
        await _drop_parked(processes, caller, incident, reason)
    if not await stored.close_incident(pool, caller.tenant, id_, by, act=act, reason=reason):
        raise IncidentClosed("RESOLVED")
    return True


async def retry(processes: Processes, caller: Caller, id_: str, request: Retry) -> RetryResult:
    """Do again, as the caller, what was asked for; what comes of it is told as it is. The commit of it closes the
    incident, the first one where there are several.

    Raises ``IncidentNotFound``, ``IncidentClosed``, ``IncidentStale``, ``IncidentNotRetryable``, and what the run does.
    """
    if caller.transaction is not None:
        raise BadRequest("incidents are not retried inside another transaction")
    found = await get_incident(processes.core, caller, id_)
    incident = found.incident
    if incident.status != "OPEN":
        raise IncidentClosed(incident.status)
    pool, lease_us = processes.core.pool, to_us(RETRY_LEASE)
    node = processes.core.takings.node
    claim = await stored.claim_incident(
        pool, caller.tenant, id_, node=node, for_us=lease_us, force=request.force or incident.kind == "POISONED"
    )
    if claim is None:
        raise IncidentClosed("RETRYING")
    try:
        result = await _repeat(processes, caller, found, request, claim)
    except RunCutOff:  # it goes on, and closes the incident
        raise
    except BaseException as error:
        counts = isinstance(error, ComputationKilled)
        await processes.core.run_to_completion(stored.unclaim_incident(pool, caller.tenant, id_, claim, counts=counts))
        raise
    return RetryResult(incident=(await get_incident(processes.core, caller, id_)).incident, result=result)


def _build_act(incident: Incident, action: str, reason: str | None = None) -> Act:
    details = {"kind": incident.kind, "subject": incident.subject.id, "fingerprint": incident.fingerprint}
    return Act(action=action, target_kind="INCIDENT", target_id=incident.id, reason=reason, details=details)


async def _repeat(
    processes: Processes, caller: Caller, found: StoredIncident, request: Retry, claim: int
) -> JsonObject:
    incident = found.incident
    act, by = _build_act(incident, "incident.retry"), caller.principal.actor
    if incident.kind in ("TIMER_FAILED", "TIMER_DEAD", "TIMER_EXPIRED"):
        return await _repeat_timer(processes.core, caller, incident, by, act)
    if incident.kind == "POISONED":
        return await _repeat_parked(processes.core, caller, incident, by, act)
    if (instead := NEVER_RETRIED.get(incident.kind)) is not None:
        raise IncidentNotRetryable(instead)
    staged = stored.build_staged_retry(caller.tenant, incident.id, claim, by, act)
    closing = replace(caller, parts={**caller.parts, INCIDENT_RETRIES.name: staged})
    repeat_kind = _repeat_run if incident.kind == "RUN_FAILED" else _repeat_step
    return await repeat_kind(processes, closing, found, request)


def _foretell(core: Core, caller: Caller, incident: Incident, result: JsonObject) -> RetryResult:
    """The answer as it is recorded with the commit that closes the incident."""
    closed = replace(
        incident,
        status="RESOLVED",
        resolution=IncidentEnd(by=caller.principal.actor, at=to_rfc3339(core.clock()), how="RETRIED", reason=None),
    )
    return RetryResult(incident=closed, result=result)


def _describe_saved(saved: Saved) -> JsonObject:
    return {"transactionId": saved.transaction_id, "entityIds": list(saved.entity_ids)}


def _describe_instance(instance: ProcessInstance) -> JsonObject:
    return {"instanceId": instance.id, "status": instance.status}


async def _repeat_run(processes: Processes, caller: Caller, found: StoredIncident, request: Retry) -> JsonObject:
    incident = found.incident
    document, transition = b"", None
    if (payload := found.payload) is not None:
        document, transition = await read_run_payload(payload)
    if request.document is not None:
        document = await encode_by_size(request.document)
    elif not document:
        raise IncidentNotRetryable("its document was not kept; give one")
    if incident.severity == "WARNING":
        raise IncidentNotRetryable("the run went on")

    def foretell(saved: Saved) -> RetryResult:
        return _foretell(processes.core, caller, incident, _describe_saved(saved))

    if incident.subject.kind == "NEW_ENTITY":
        name, _, version = incident.subject.model.rpartition("/")
        key = ModelKey(name, int(version))
        caller.convert_result(foretell)
        return _describe_saved(await entities.create(processes.core, caller, key=key, media="JSON", body=document))
    entity_id = EntityId(incident.subject.id)
    current = await entities.read(processes.core, caller, entity_id)
    if current.transaction_id != incident.subject.transaction_id and not request.force:
        raise IncidentStale(current.transaction_id)
    caller.convert_result(foretell)
    saved = await entities.update(
        processes.core,
        caller,
        entity_id,
        media="JSON",
        body=document,
        transition=transition,
        if_match=None if request.force else incident.subject.transaction_id,
    )
    return _describe_saved(saved)


async def _repeat_timer(core: Core, caller: Caller, incident: Incident, by: Actor, act: Act) -> JsonObject:
    async def make_due(pool: Pool) -> bool:
        return await stored.retry_timer(
            pool,
            caller.tenant,
            incident.id,
            by,
            act,
            entity=incident.subject.id,
            state=incident.subject.state,
            transition=incident.transition or "",
            now_ms=core.clock() // 1000,
        )

    return await _make_due(core, caller, incident, make_due, {"timer": incident.transition, "due": True})


async def _repeat_parked(core: Core, caller: Caller, incident: Incident, by: Actor, act: Act) -> JsonObject:
    work = _get_work(incident)

    async def revive(pool: Pool) -> bool:
        return await takings.retry_parked(pool, work, caller.tenant, incident.id, incident.subject.id, by, act)

    return await _make_due(core, caller, incident, revive, {"work": work.name, "due": True})


async def _make_due(
    core: Core,
    caller: Caller,
    incident: Incident,
    make_due: Callable[[Pool], Awaitable[bool]],
    result: JsonObject,
) -> JsonObject:
    answer = _foretell(core, caller, incident, result)
    if not await caller.carry_out(core.pool, make_due, lambda _: answer):
        raise IncidentNotRetryable("the timer is gone" if incident.kind != "POISONED" else "the work is gone")
    return result


def _get_work(incident: Incident) -> AnyWork:
    return WORKS[cast("WorkName", incident.component)]  # as it was written


async def _drop_parked(processes: Processes, caller: Caller, incident: Incident, reason: str) -> None:
    """Give up what is parked, whichever way its owner hears of it."""
    work, owner = _get_work(incident), EntityId(incident.subject.id)
    hosts, pool = processes.hosts, processes.core.pool
    if work.name == "start":
        for child in await takings.list_parked(pool, STARTS, caller.tenant, owner):
            await hosts.get_hosted(child.language).give_up_child(child, f"given up by an operator: {reason}")
    elif work.name in ("loss", "report"):
        for job in await takings.list_parked(pool, LOSSES if work.name == "loss" else REPORTED, caller.tenant, owner):
            unknown = ProcessNotFound("the instance of a job is gone")
            await hosts.get_hosted(job.language).fail_job(caller, owner, uuid_to_ulid(job.id), reason, unknown)
    else:
        await takings.drop_parked(pool, work, caller.tenant, owner)


async def _repeat_step(processes: Processes, caller: Caller, found: StoredIncident, request: Retry) -> JsonObject:
    incident = found.incident
    hosted = processes.hosts.find_hosted(found.language)
    if hosted is None or hosted.retry_node is None:
        raise IncidentNotRetryable(
            "instances of this language have no retry of a step; a restart does again what failed"
        )
    if incident.step is None:
        raise IncidentNotRetryable("no step has failed: the last one is done, and nothing led on from it")
    ulid = uuid_to_ulid(incident.subject.id)

    def foretell(advanced: AdvanceResult[ProcessInstance]) -> RetryResult:
        return _foretell(processes.core, caller, incident, _describe_instance(advanced.instance))

    caller.convert_result(foretell)
    return _describe_instance(await hosted.retry_node(processes, caller, ulid, incident.step, request.variables))


class Obstacles(Struct, frozen=True, kw_only=True):
    """What keeps an entity or an instance from moving beside its definition: suspensions of it as a whole and of
    ``single`` transitions, by their names, and its open incidents.
    """

    whole: tuple[Suspension, ...]
    incidents: tuple[Incident, ...]
    single: Mapping[str, Suspension] = {}

    @property
    def suspensions(self) -> tuple[Suspension, ...]:
        """All of them, each once."""
        return (*self.whole, *dict.fromkeys(self.single.values()))

    @property
    def reason(self) -> str:
        """Why it is suspended; empty where it is not."""
        return next((each.reason for each in self.suspensions), "")

    @property
    def failure(self) -> str | None:
        """What has failed, if anything has."""
        return self.incidents[0].title if any(each.severity == "ERROR" for each in self.incidents) else None


MAX_OBSTACLES: Final = 10
"""Incidents of an entity that are told."""


async def find_entity_obstacles(
    core: Core,
    active: ActiveSuspensions,
    caller: Caller,
    entity: EntityId,
    model: ModelKey,
    workflow: str,
    transitions: Iterable[str],
) -> Obstacles:
    """What keeps an entity from moving, and from taking these transitions of its workflow."""
    tenant = caller.tenant
    held = {each: active.find_transition(tenant, model, workflow, each) for each in transitions}
    return Obstacles(
        whole=active.list_entity(tenant, entity, model, workflow),
        single={name: suspension for name, suspension in held.items() if suspension is not None},
        incidents=await _list_open(core, caller, entity),
    )


async def find_instance_obstacles(
    core: Core, active: ActiveSuspensions, caller: Caller, instance: EntityId, definition: str, job_types: Iterable[str]
) -> Obstacles:
    """What keeps an instance from moving, and its jobs, of these types, from being handed out."""
    of_types = [held for each in job_types if (held := active.find_job_type(caller.tenant, each)) is not None]
    found = (*active.list_process(caller.tenant, instance, definition), *of_types)
    whole = tuple({each.id: each for each in found}.values())
    return Obstacles(whole=whole, incidents=await _list_open(core, caller, instance))


async def _list_open(core: Core, caller: Caller, subject: EntityId) -> tuple[Incident, ...]:
    return tuple(await stored.list_open_of(core.pool, caller.tenant, subject, limit=MAX_OBSTACLES))


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
        self.reports = reports
        self._max_open = max_open
        self._interval = interval
        self.removal = Removal(partial(remove_rows, pool, stored.REMOVE, retention), MAX_BATCH)
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
        self.reports.crowded = self._list_crowded()
        await self.removal.run_if_due(REMOVAL_INTERVAL)
        return closed == stored.MAX_CLOSED

    def _list_crowded(self) -> frozenset[TenantId]:
        counts: Counter[str] = Counter()
        for (tenant, _), count in self.open.items():
            counts[tenant] += count
        return frozenset(TenantId(tenant) for tenant, count in counts.items() if count >= self._max_open)


class StateSurvey:
    """Looks for entities in states that no active workflow of their model has, after each change of workflows; every
    node does so, one at a time. There is an incident of each state while it has such entities.
    """

    def __init__(self, pool: Pool, clock: Clock, reports: IncidentReports) -> None:
        self._pool = pool
        self._clock = clock
        self._reports = reports

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self._look_and_rest, SURVEY_INTERVAL, log=log, failure="state_survey_failed", waits_first=True)

    async def _look_and_rest(self) -> bool:
        began = time.monotonic()
        found = await self.run_once()
        if found:
            await asyncio.sleep(REST_FACTOR * (time.monotonic() - began))
        return found

    async def run_once(self) -> bool:
        """Look at one model; whether any was due. Raises ``StorageUnavailable``."""
        return self._reports.is_on and await survey_states(self._pool, self._build_incidents)

    def _build_incidents(self, model: SurveyedModel, counts: Sequence[StateCount]) -> list[IncidentRow]:
        workflows = workflows_from_stored(model.workflows.encode())
        stranded: Counter[str] = Counter()
        for each in counts:
            if find_governing(workflows, each.state, each.workflow) is None:
                stranded[each.state] += each.count
        at = self._clock()
        return [build_stranded(model.tenant, model.key, state, count, at) for state, count in stranded.items()]


class Concerns(Struct, frozen=True, kw_only=True, eq=False):
    """What follows suspensions and incidents in one process."""

    suspensions: SuspensionFollower
    suspension_ender: SuspensionEnder
    incident_sweeper: IncidentSweeper
    state_survey: StateSurvey

    @property
    def active(self) -> ActiveSuspensions:
        """What this process knows to be suspended."""
        return self.suspensions.active

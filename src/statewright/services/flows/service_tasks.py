"""Jobs of flows that the service does itself: requests, resources, entities (docs/reference/flows.md#requests).

Each is done at least once, as ``services.processes.service_workers`` says.

Resources that are entities of the service (docs/reference/flows.md#entities-as-resources).
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final, TypeAlias

from statewright.egress import HttpFailure, HttpRequest
from statewright.entity import Entity, ModelKey
from statewright.failures import Conflict, EntityNotFound, Failure, ProcessBadRequest
from statewright.flows.definition import ENTITY_TYPES, FlowProcess
from statewright.flows.instance import FlowInstance
from statewright.flows.requests import (
    METHODS,
    FailedAnswer,
    PlannedRequest,
    RequestTask,
    ServerAnswer,
    UnusableTask,
)
from statewright.flows.resources import EntityPlace, find_entity, plan_read, plan_write, read_content, read_reply
from statewright.ids import EntityId, model_id
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import run_in_thread
from statewright.loop.turns import is_large
from statewright.services import entities
from statewright.services.core import Caller, Core
from statewright.services.flows.dialect import FLOW_DIALECT
from statewright.services.processes.documents import read_object_by_size
from statewright.services.processes.hosting import Processes
from statewright.services.processes.jobs import ClaimedJob
from statewright.services.processes.service_workers import ServiceWorker
from statewright.services.processes.writing import to_entity_id
from statewright.services.writing import encode_by_size

AnswerReader: TypeAlias = Callable[[ServerAnswer], JsonValue]

MEDIA: Final = "JSON"


async def read_entity(core: Core, caller: Caller, payload: JsonObject) -> JsonValue:
    """The document of an entity. Raises ``UnusableTask``, ``EntityNotFound``."""
    place = _find_place(payload)
    if not place.id:
        raise UnusableTask("RESOURCE: to read, the reference must have the id of an entity")
    entity = await _read(core, caller, place)
    text = entity.document or ""
    return await read_object_by_size(text)


async def write_entity(core: Core, caller: Caller, payload: JsonObject, job_id: str) -> JsonValue:
    """Make an entity, under the id that the job has, so that the job makes one whatever happens; or update one. Its id.

    Raises ``UnusableTask`` and what creating and updating entities can fail with.
    """
    place, document = _find_place(payload), payload.get("input")
    if not isinstance(document, dict):
        raise UnusableTask("RESOURCE: only an object can be the document of an entity")
    body = await encode_by_size(document)
    if place.id:
        if place.model:
            await _read(core, caller, place)  # another model is refused
        parameters = payload.get("parameters")
        transition = parameters.get("transition") if isinstance(parameters, dict) else None
        if not isinstance(transition, str | None):
            raise UnusableTask("PARAMETERS: transition must be a text")
        await entities.update(core, caller, EntityId(place.id), media=MEDIA, body=body, transition=transition)
        return {"id": place.id}
    id_ = to_entity_id(job_id)
    key = ModelKey(place.model, place.version)
    try:
        await entities.create(core, caller, key=key, media=MEDIA, body=body, entity_id=id_)
    except Conflict:
        if not await _exists(core, caller, id_):
            raise
    return {"id": id_}


def _find_place(payload: JsonObject) -> EntityPlace:
    place = find_entity(payload)
    if place is None:
        raise UnusableTask("RESOURCE: the reference names no entity")
    return place


async def _read(core: Core, caller: Caller, place: EntityPlace) -> Entity:
    entity = await entities.read(core, caller, EntityId(place.id))
    if place.model and entity.model != model_id(place.model, place.version):
        raise EntityNotFound(f"entity {place.id} is of another model than {place.model}/{place.version}")
    return entity


async def _exists(core: Core, caller: Caller, id_: EntityId) -> bool:
    try:
        await entities.read(core, caller, id_)
    except EntityNotFound:
        return False
    return True


async def _plan_by_size(payload: JsonObject, plan: Callable[[], PlannedRequest]) -> PlannedRequest:
    """What a task sends, made by a thread if its payload is large. Raises ``UnusableTask``."""
    return await run_in_thread(plan) if is_large(payload) else plan()


REQUEST_TYPES: Final = (*METHODS, "resource:read", "resource:write")
"""Jobs that workers may do, unless the service is set to send requests."""
MAX_REDIRECTS: Final = 5
LEASE_MARGIN: Final = timedelta(seconds=30)
"""How much longer than the longest request a job is leased."""
WAIT_LEASE: Final = timedelta(days=3650)
"""How long a job waits that another program completes."""

FlowWorker: TypeAlias = ServiceWorker[FlowProcess, FlowInstance]


class _Waiting:
    """Stands for an output that another program is going to report."""


class ServiceTasks:
    """Does these jobs, for the flows of all tenants. A background service."""

    def __init__(self, processes: Processes, *, sends_requests: bool) -> None:
        self._processes = processes
        self._egress = processes.egress
        types = (*ENTITY_TYPES, *(REQUEST_TYPES if sends_requests else ()))
        lease = timedelta(seconds=self._egress.policy.limits.timeout_s) + LEASE_MARGIN
        self._worker = ServiceWorker(FLOW_DIALECT.find_host(processes), types, self._do_and_report, lease=lease)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def run_once(self) -> bool:
        """Begin what can be begun (``ServiceWorker.run_once``)."""
        return await self._worker.run_once()

    async def _do_and_report(self, worker: FlowWorker, caller: Caller, job: ClaimedJob) -> None:
        try:
            output = await self._perform(caller, job)
        except UnusableTask as unusable:
            await worker.fail(caller, job, str(unusable), retryable=False)
        except FailedAnswer as failed:
            await worker.fail(caller, job, str(failed), retryable=failed.may_pass)
        except Failure as failure:
            if failure.status >= 500:
                raise
            await worker.fail(caller, job, f"{failure.code}: {failure.message}", retryable=failure.retryable)
        else:
            if isinstance(output, _Waiting):
                await worker.renew(caller, job, WAIT_LEASE)
                return
            try:
                await worker.complete(caller, job, {"$output": output})
            except ProcessBadRequest as unusable:
                await worker.fail(caller, job, f"RESPONSE: {unusable.message}", retryable=False)

    async def _perform(self, caller: Caller, job: ClaimedJob) -> "JsonValue | _Waiting":
        payload = job.variables
        match job.job_type:
            case "entity:read":
                return await read_entity(self._processes.core, caller, payload)
            case "entity:write":
                return await write_entity(self._processes.core, caller, payload, job.id)
            case "resource:read":
                return await self._send(caller, plan_read(payload), partial(read_content, payload))
            case "resource:write":
                planned = await _plan_by_size(payload, partial(plan_write, payload))
                return await self._send(caller, planned, read_reply)
            case _:
                request = RequestTask(payload, job.id)
                planned = await _plan_by_size(payload, request.plan)
                output = await self._send(caller, planned, request.read_output)
                return _Waiting() if planned.waits else output

    async def _send(self, caller: Caller, planned: PlannedRequest, read: AnswerReader) -> JsonValue:
        """What ``read`` makes of the answer. Raises ``FailedAnswer`` also where there is none."""
        outcome = await self._egress.send(
            HttpRequest(
                url=planned.url,
                method=planned.method,
                headers=planned.headers,
                body=planned.body,
                tenant=caller.tenant,
                max_redirects=MAX_REDIRECTS if planned.method == "GET" else 0,
            )
        )
        if isinstance(outcome, HttpFailure):
            raise FailedAnswer(f"REQUEST: {outcome}", may_pass=outcome.may_pass)
        answer = ServerAnswer(status=outcome.status, media_type=outcome.media_type, body=outcome.body)
        return await outcome.read(lambda _: read(answer))

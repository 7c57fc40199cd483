"""Waiting for entities and instances (docs/reference/operations.md#wait)."""

from datetime import timedelta
from typing import Final

from statewright.api.http.ops.route import serve
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.failures import InvalidParameter, ProcessNotFound
from statewright.ids import EntityId, parse_entity_id
from statewright.instants import to_rfc3339
from statewright.jsonval.values import quote
from statewright.net import parse_delay
from statewright.operations.history import EntityWait, InstanceWait
from statewright.operations.table import WAIT_FOR_ENTITY, WAIT_FOR_INSTANCE
from statewright.services.ops import awaiting
from statewright.services.ops.awaiting import InstanceTarget
from statewright.services.ops.waiting import MAX_WAIT
from statewright.services.processes.documents import read_object

DEFAULT_TIMEOUT: Final = timedelta(seconds=30)
MAX_STATES: Final = 100


@serve(WAIT_FOR_ENTITY)
async def wait_for_entity(request: Request) -> Response:
    """Answer when an entity has got somewhere, or the time is over."""
    states = request.query_all("state")
    if len(states) > MAX_STATES:
        raise InvalidParameter("state", f"at most {MAX_STATES}")
    entity_id = request.entity_id()
    after, within = request.query_transaction("after"), _read_timeout(request)
    result = await awaiting.wait_for_entity(
        request.runtime.operations, request.caller, entity_id, states=states, after=after, within=within
    )
    version = result.version
    if version is None:  # there is none that counts
        now = await request.runtime.core.reader.get(request.caller.tenant, entity_id)
        known = None if now is None else (now.state, now.transaction_id, now.updated_at)
    else:
        known = (version.state, version.transaction_id, version.at)
    state, transaction, at = known or (None, None, None)
    found = EntityWait(
        reached=result.outcome == "reached",
        deleted=result.outcome == "deleted",
        state=state,
        transaction_id=transaction,
        at=None if at is None else to_rfc3339(at),
        waited_ms=result.waited_ms,
    )
    return Response(encode_json(found))


@serve(WAIT_FOR_INSTANCE)
async def wait_for_instance(request: Request) -> Response:
    """Answer when an instance has ended, or waits for somebody, or the time is over."""
    until = request.query("until") or "FINISHED"
    if until not in ("FINISHED", "WAITING"):
        raise InvalidParameter("until", "FINISHED or WAITING")
    target: InstanceTarget = "WAITING" if until == "WAITING" else "FINISHED"
    name = request.path_params["instanceId"]
    result, entity = await awaiting.wait_for_instance(
        request.runtime.operations,
        request.caller,
        read_instance_id(name),
        until=target,
        within=_read_timeout(request),
        unknown=ProcessNotFound(f"instance {quote(name)} not found"),
    )
    reason = read_object(entity.document or "{}").get("failureReason")
    found = InstanceWait(
        reached=result.outcome == "reached",
        deleted=result.outcome == "deleted",
        status=entity.state,
        failure_reason=reason if isinstance(reason, str) else None,
        transaction_id=entity.transaction_id,
        at=to_rfc3339(entity.updated_at),
        waited_ms=result.waited_ms,
    )
    return Response(encode_json(found))


def _read_timeout(request: Request) -> timedelta:
    text = request.query("timeout")
    if text is None:
        return DEFAULT_TIMEOUT
    delay = parse_delay(text)
    if delay is None or delay.months:
        raise InvalidParameter("timeout", "an ISO 8601 duration without months and years")
    return min(timedelta(microseconds=delay.microseconds), MAX_WAIT)


def read_instance_id(text: str) -> EntityId:
    """From a ULID or a UUID. Raises ``ProcessNotFound`` for what is neither."""
    found = parse_entity_id(text)
    if found is None:
        raise ProcessNotFound(f"instance {quote(text)} not found")
    return found

"""Waiting for entities and instances (docs/reference/operations.md#wait)."""

from datetime import timedelta
from typing import Final

from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.failures import InvalidParameter, ProcessNotFound
from statewright.ids import EntityId
from statewright.instants import to_rfc3339
from statewright.jsonval.quoting import quote
from statewright.net import parse_delay
from statewright.services.ops import awaiting
from statewright.services.ops.awaiting import InstanceTarget
from statewright.services.ops.waiting import MAX_WAIT, WaitResult
from statewright.services.processes.documents import read_object
from statewright.services.processes.writing import parse_entity_id

DEFAULT_TIMEOUT: Final = timedelta(seconds=30)
MAX_STATES: Final = 100

TIMEOUT: Final = Query("timeout", "string", "ISO 8601, such as `PT30S`, which is the default; at most `PT50S` count")


async def wait_for_entity(request: Request) -> Response:
    """Answer when an entity has got somewhere, or the time is over."""
    states = request.query_all("state")
    if len(states) > MAX_STATES:
        raise InvalidParameter("state", f"at most {MAX_STATES}")
    entity_id = request.entity_id()
    after, within = request.query_transaction("after"), _read_timeout(request)
    result = await awaiting.wait_for_entity(
        request.runtime, request.caller, entity_id, states=states, after=after, within=within
    )
    version = result.version
    if version is None:  # there is none that counts
        now = await request.runtime.reader.get(request.caller.tenant, entity_id)
        known = {} if now is None else {"state": now.state, "transactionId": now.transaction_id, "at": now.updated_at}
    else:
        known = {"state": version.state, "transactionId": version.transaction_id, "at": version.at}
    return _respond(result, known)


async def wait_for_instance(request: Request) -> Response:
    """Answer when an instance has ended, or waits for somebody, or the time is over."""
    until = request.query("until") or "FINISHED"
    if until not in ("FINISHED", "WAITING"):
        raise InvalidParameter("until", "FINISHED or WAITING")
    target: InstanceTarget = "WAITING" if until == "WAITING" else "FINISHED"
    name = request.path_params["instanceId"]
    result, entity = await awaiting.wait_for_instance(
        request.runtime,
        request.caller,
        read_instance_id(name),
        until=target,
        within=_read_timeout(request),
        unknown=ProcessNotFound(f"instance {quote(name)} not found"),
    )
    known: dict[str, object] = {
        "status": entity.state,
        "transactionId": entity.transaction_id,
        "at": entity.updated_at,
    }
    reason = read_object(entity.document or "{}").get("failureReason")
    return _respond(result, known if reason is None else known | {"failureReason": reason})


def _respond(result: WaitResult, known: dict[str, object]) -> Response:
    at = known.get("at")
    told = known | ({"at": to_rfc3339(at)} if isinstance(at, int) else {})
    outcome = {"reached": result.outcome == "reached", "deleted": result.outcome == "deleted"}
    return Response(encode_json({**outcome, **told, "waitedMs": result.waited_ms}))


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
    if found is not None:
        return found
    try:
        return EntityId(uuid_text("instanceId", text))
    except InvalidParameter:
        raise ProcessNotFound(f"instance {quote(text)} not found") from None


WAIT: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/entities/{entityId}/wait",
        endpoint=wait_for_entity,
        id="waitForEntity",
        summary="Answer when an entity has got somewhere: into a state, to a new version, to its end",
        query=(
            Query("state", "string", "one of these is awaited", repeatable=True),
            Query("after", "string", "a transaction: only what came after it counts", "uuid"),
            TIMEOUT,
        ),
        reply="OpsWaited",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND", "VERSION_NOT_FOUND", "TOO_MANY_REQUESTS"),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/instances/{instanceId}/wait",
        endpoint=wait_for_instance,
        id="waitForInstance",
        summary="Answer when an instance has ended, or waits for a person or a signal",
        query=(Query("until", "string", "`FINISHED`, which is the default, or `WAITING`"), TIMEOUT),
        reply="OpsInstanceWaited",
        problems=("BAD_REQUEST", "STEP_NOT_FOUND", "TOO_MANY_REQUESTS"),
    ),
)

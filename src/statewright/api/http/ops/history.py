"""What has become of entities: their versions (docs/reference/operations.md#versions), changes
(docs/reference/operations.md#changes), events of runs (docs/reference/operations.md#events-of-runs), transactions
(docs/reference/operations.md#transactions); and waiting for entities and for instances
(docs/reference/operations.md#wait).
"""

from datetime import timedelta
from typing import Final

from statewright.api.http.ops.paging import build_cursor, build_list_response, read_page_request
from statewright.api.http.ops.route import build_unknown_instance, read_body, read_instance_id, serve
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.failures import InvalidParameter
from statewright.ids import TransactionId
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.codec import decode_stored, encode_large
from statewright.loop.background import run_by_size
from statewright.net import parse_exact
from statewright.operations.history import ChangedEntities, EntityWait, InstanceWait, Restoration, Restored
from statewright.operations.table import (
    COMPARE_VERSIONS,
    GET_VERSION,
    LIST_CHANGES,
    LIST_EVENTS,
    LIST_VERSIONS,
    LIST_WRITTEN_ENTITIES,
    RESTORE_VERSION,
    WAIT_FOR_ENTITY,
    WAIT_FOR_INSTANCE,
)
from statewright.services.ops import history
from statewright.services.ops.waiting import MAX_WAIT
from statewright.services.processes.documents import read_object


@serve(LIST_VERSIONS)
async def list_versions(request: Request) -> Response:
    """The versions of an entity, newest first."""
    wanted = history.VersionFilter(
        states=request.query_all("state") or None,
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, LIST_VERSIONS, history.VersionKey)
    found = await history.list_versions(request.runtime.core, request.caller, request.entity_id(), wanted, page)
    return build_list_response(request, LIST_VERSIONS, found, history.show_version)


@serve(GET_VERSION)
async def get_version(request: Request) -> Response:
    """One version with its document."""
    transaction = TransactionId(uuid_text("transactionId", request.path_params["transactionId"]))
    found = await history.get_version(request.runtime.core, request.caller, request.entity_id(), transaction)
    text = found.document
    document = b"null" if text is None else await run_by_size(len(text), lambda: encode_large(decode_stored(text)))
    head = encode_json(history.show_version(found.version)).rstrip()
    return Response(b'%b,"document":%b}\n' % (head[:-1], document))


@serve(COMPARE_VERSIONS)
async def compare_versions(request: Request) -> Response:
    """What changed between two versions."""
    newer = _read_name(request, "to", "current")
    older = _read_name(request, "from", "previous")
    found = await history.compare(request.runtime.core, request.caller, request.entity_id(), older=older, newer=newer)
    return Response(await run_by_size(found.size, lambda: encode_json(found.difference)))


@serve(RESTORE_VERSION)
async def restore_version(request: Request) -> Response:
    """Bring a former document back."""
    body = await read_body(request, Restoration)

    async def respond(done: Restored) -> Response:
        return Response(await run_by_size(len(done.patch) * 100, lambda: encode_json(done)))

    wanted = history.RestoreRequest(
        version=_parse_name("/version", body.version),
        reason=body.reason,
        if_match=None if body.if_match is None else uuid_text("/ifMatch", body.if_match),
        transition=body.transition,
        paths=body.paths,
    )
    caller = request.answer_with(respond)
    return await respond(await history.restore(request.runtime.operations, caller, request.entity_id(), wanted))


def _read_name(request: Request, name: str, default: history.VersionName) -> history.VersionName:
    text = request.query(name)
    return default if text is None else _parse_name(name, text)


def _parse_name(name: str, text: str) -> history.VersionName:
    if text == "current":
        return "current"
    if text == "previous":
        return "previous"
    instant = from_rfc3339(text)
    if instant is not None:
        return instant
    return TransactionId(uuid_text(name, text))


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
    result = await history.wait_for_entity(
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
    target: history.InstanceTarget = "WAITING" if until == "WAITING" else "FINISHED"
    name = request.path_params["instanceId"]
    result, entity = await history.wait_for_instance(
        request.runtime.operations,
        request.caller,
        read_instance_id(name),
        until=target,
        within=_read_timeout(request),
        unknown=build_unknown_instance(name),
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
    if (timeout := parse_exact(text)) is None:
        raise InvalidParameter("timeout", "an ISO 8601 duration without months and years")
    return min(timeout, MAX_WAIT)


@serve(LIST_CHANGES)
async def list_changes(request: Request) -> Response:
    """What was done to the entities of the tenant, the newest first."""
    wanted = history.ChangeFilter(
        model=request.query("model"),
        actor=request.query("actor"),
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, LIST_CHANGES, history.ChangeKey)
    scan = await history.find_changes(request.runtime.core, request.caller, wanted, page)
    cursor = None if scan.position is None else build_cursor(request, LIST_CHANGES, scan.position)
    return Response(encode_json(ChangedEntities(items=scan.found, scanned=scan.scanned, next_cursor=cursor)))


@serve(LIST_EVENTS)
async def list_events(request: Request) -> Response:
    """The events of an entity, those of the newest run first."""
    transaction = request.query_transaction("transactionId")
    page = read_page_request(request, LIST_EVENTS, history.EventKey)
    found = await history.list_events(
        request.runtime.core, request.caller, request.entity_id(), page, transaction=transaction
    )
    return build_list_response(request, LIST_EVENTS, found)


@serve(LIST_WRITTEN_ENTITIES)
async def list_written_entities(request: Request) -> Response:
    """The entities that a transaction has written."""
    transaction = TransactionId(uuid_text("transactionId", request.path_params["transactionId"]))
    page = read_page_request(request, LIST_WRITTEN_ENTITIES, history.TransactionKey)
    found = await history.list_written(request.runtime.core, request.caller, transaction, page)
    return build_list_response(request, LIST_WRITTEN_ENTITIES, found)

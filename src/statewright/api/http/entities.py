"""Entities over REST (docs/reference/entities.md#create, docs/reference/entities.md#change-history)."""

from typing import Final

from msgspec.structs import replace

from statewright.api.http.entity_collections import ENTITIES, WAIT, WINDOW, WRITE_PROBLEMS, WRITES, create_array
from statewright.api.http.request import MAX_BODY_BYTES, Request, hold_entity, read_entity_id
from statewright.api.http.response import (
    Response,
    build_warning_headers,
    encode_envelope_by_size,
    encode_json,
    encode_saved,
    respond_saved,
    respond_with_envelopes,
)
from statewright.api.http.router import TIMEOUT, bind_window, bind_write_parameters, check_window
from statewright.entity import Entity, EntityChange, OffsetPage
from statewright.failures import BadRequest, EntityNotFound, InvalidParameter
from statewright.ids import EntityId
from statewright.instants import to_rfc3339
from statewright.operations.entity_answers import DeletedEntity, VersionChange
from statewright.operations.records import POINT_IN_TIME, TRANSACTION, QueryParameter
from statewright.services import entities
from statewright.services.entities import DeletionResult
from statewright.services.writing import Saved

OF_RUN: Final = QueryParameter(
    "transactionId", "string", "only versions of the run that entered with this transaction", "uuid"
)


@WRITES.declare(
    "POST /entity/{format}/{entityName}/{modelVersion}",
    "create",
    hold=hold_entity,
    query=(WINDOW, WAIT, TIMEOUT),
    body="Document",
    reply="TransactionResults",
    problems=("MODEL_NOT_FOUND", "MODEL_NOT_LOCKED", *WRITE_PROBLEMS),
)
async def create_entity(request: Request) -> Response:
    """Create an entity and run its workflow; an array creates one entity of the model for each item."""
    key = request.model_key()
    bind_write_parameters(request)
    window = check_window(bind_window(request))
    body = await request.body(MAX_BODY_BYTES)
    if request.path_params["format"] == "JSON" and body.startswith(b"["):
        return await create_array(request, key, body, window)
    caller = request.answer_with(_respond_created)
    saved = await entities.create(request.runtime.core, caller, key=key, media=request.path_params["format"], body=body)
    request.written = saved
    return request.find_composed(saved) or await _respond_created(saved)


async def _respond_created(saved: Saved) -> Response:
    return Response(b"[" + encode_saved(saved)[:-1] + b"]\n", headers=build_warning_headers(saved.warnings))


@ENTITIES.declare(
    "GET /entity/{entityId}",
    "getOneEntity",
    query=(POINT_IN_TIME, TRANSACTION),
    reply="Envelope",
    problems=("HISTORY_PRUNED", "BAD_REQUEST", "ENTITY_NOT_FOUND"),
)
async def read_entity(request: Request) -> Response:
    """Read an entity as it is, was at an instant, or was left by a transaction."""
    entity_id = request.entity_id()
    entity = await _read_version(request, entity_id)
    definition = await entities.get_governing_definition(request.runtime.core, request.caller, entity)
    return Response(await encode_envelope_by_size(entity, definition.stored.key) + b"\n")


@ENTITIES.declare(
    "GET /entity/{entityName}/{modelVersion}",
    "getAllEntities",
    query=(
        QueryParameter("pageSize", "integer", "0 to 10000, 20 when absent", "int32"),
        QueryParameter("pageNumber", "integer", "from 0", "int32"),
        QueryParameter("afterId", "string", "only entities with a greater id: how to read very many", "uuid"),
        POINT_IN_TIME,
    ),
    reply="Envelopes",
    problems=("HISTORY_PRUNED", "BAD_REQUEST", "MODEL_NOT_FOUND"),
)
async def list_entities(request: Request) -> Response:
    """List the entities of a model, a page at a time."""
    key = request.model_key()
    size, number = request.query_int32("pageSize", 20), request.query_int32("pageNumber", 0)
    instant, after = request.query_instant("pointInTime"), request.query("afterId")
    cut = OffsetPage(size=size, number=number)
    if after is not None:
        cut = replace(cut, after=read_entity_id("afterId", after))
    portions = entities.list_portions(request.runtime.core, request.caller, key, cut, instant=instant)
    return await respond_with_envelopes(portions, key, instant=instant)


KEEPS_DOCUMENT: Final = (
    "without a new document a transition is fired by PUT /platform-api/entity/transition?entityId=…&transitionName=…"
)
"""What a client may want that fires a transition and sends nothing along."""


@WRITES.declare(
    "PUT /entity/{format}/{entityId}",
    "updateSingleWithLoopback",
    hold=hold_entity,
    query=(WAIT, TIMEOUT),
    if_match=True,
    body="Document",
    reply="TransactionResult",
    problems=("ENTITY_NOT_FOUND", "ENTITY_MODIFIED", *WRITE_PROBLEMS),
)
async def update_entity(request: Request) -> Response:
    """Replace an entity's document and let automated transitions run."""
    entity_id = request.entity_id()
    bind_write_parameters(request)
    if_match = request.header(b"if-match") or None
    body = await request.body(MAX_BODY_BYTES)
    transition = request.path_params.get("transition")
    try:
        saved = await entities.update(
            request.runtime.core,
            request.answer_with(respond_saved),
            entity_id,
            media=request.path_params["format"],
            body=body,
            transition=transition,
            if_match=if_match,
        )
    except BadRequest as malformed:
        if transition is None or body.strip():
            raise
        raise BadRequest(f"{malformed.message}; {KEEPS_DOCUMENT}") from malformed
    request.written = saved
    return request.find_composed(saved) or await respond_saved(saved)


fire_transition = replace(
    update_entity,
    path="/entity/{format}/{entityId}/{transition}",
    id="updateSingle",
    summary="Replace an entity's document and fire a transition",
    problems=(*update_entity.problems, "TRANSITION_NOT_FOUND"),
)


@WRITES.declare(
    "DELETE /entity/{entityId}",
    "deleteSingleEntity",
    reply="Deleted",
    problems=("BAD_REQUEST", "ENTITY_NOT_FOUND", "CONFLICT"),
)
async def delete_entity(request: Request) -> Response:
    """Delete an entity; its history stays readable."""
    caller = request.answer_with(_respond_deleted)
    return await _respond_deleted(await entities.delete(request.runtime.core, caller, request.entity_id()))


async def _respond_deleted(deleted: DeletionResult) -> Response:
    return Response(
        encode_json(DeletedEntity(id=deleted.entity_id, model_key=deleted.model, transaction_id=deleted.transaction_id))
    )


@ENTITIES.declare(
    "GET /entity/{entityId}/changes",
    "getEntityChangesMetadata",
    query=(POINT_IN_TIME, OF_RUN),
    reply="Changes",
    problems=("HISTORY_PRUNED", "BAD_REQUEST", "ENTITY_NOT_FOUND"),
)
async def list_changes(request: Request) -> Response:
    """List the versions of an entity, newest first."""
    entity_id = request.entity_id()
    history = await entities.list_changes(
        request.runtime.core,
        request.caller,
        entity_id,
        until=request.query_instant("pointInTime"),
        transaction=request.query_transaction("transactionId"),
    )
    return Response(encode_json([*map(_show_change, history)]))


@ENTITIES.declare(
    "GET /entity/{entityId}/transitions",
    "getEntityTransitions",
    query=(POINT_IN_TIME, TRANSACTION),
    reply="Names",
    problems=("HISTORY_PRUNED", "BAD_REQUEST", "ENTITY_NOT_FOUND"),
)
async def list_transitions(request: Request) -> Response:
    """Name all transitions declared in the entity's state."""
    # Any text that is no known entity is "not found" here; the id is not bound as a parameter
    # (docs/reference/entities.md#list-transitions).
    return await _list_transitions(request, request.path_params["entityId"])


@ENTITIES.declare(
    "GET /platform-api/entity/fetch/transitions",
    "fetchEntityTransitions",
    query=(
        QueryParameter("entityClass", "string", "Name.Version"),
        QueryParameter("entityId", "string", "the entity", "uuid"),
    ),
    reply="Names",
    problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
)
async def list_transitions_by_class(request: Request) -> Response:
    """The same, for older libraries."""
    entity_class, entity_id = request.query("entityClass"), request.query("entityId")
    if not entity_class or not entity_id:
        raise BadRequest("entityClass and entityId are required")
    name, _, version = entity_class.rpartition(".")
    if not name or not version:
        raise BadRequest("entityClass must be in format Name.Version (e.g., Offer.1)")
    return await _list_transitions(request, entity_id)


@ENTITIES.declare(
    "PUT /platform-api/entity/transition",
    "fireTransition",
    hold=hold_entity,
    query=(
        QueryParameter("entityId", "string", "the entity", "uuid"),
        QueryParameter("transitionName", "string", "the transition"),
        QueryParameter("entityClass", "string", "accepted for compatibility"),
    ),
    reply="TransactionResult",
    problems=("ENTITY_NOT_FOUND", "TRANSITION_NOT_FOUND", *WRITE_PROBLEMS),
)
async def fire_by_class_name(request: Request) -> Response:
    """Fire a transition on an entity whose document stays as it is."""
    entity_text, transition = request.query("entityId"), request.query("transitionName")
    if not entity_text or not transition:
        raise BadRequest("entityId and transitionName are required")
    entity_id = read_entity_id("entityId", entity_text)
    caller = request.answer_with(respond_saved)
    saved = await entities.fire_transition(request.runtime.core, caller, entity_id, transition=transition)
    request.written = saved
    return request.find_composed(saved) or await respond_saved(saved)


async def _list_transitions(request: Request, entity_text: str) -> Response:
    request.query_instant("pointInTime", takes_dates=False)  # decision S18
    try:
        entity_id = read_entity_id("entityId", entity_text)
        entity = await _read_version(request, entity_id)
    except (InvalidParameter, EntityNotFound) as failure:
        if isinstance(failure, InvalidParameter) and failure.properties["parameter"] != "entityId":
            raise
        if (
            isinstance(failure, EntityNotFound)
            and request.query("transactionId")
            and await _has_existed(request, entity_text)
        ):
            raise BadRequest("the transaction wrote no version of the entity") from failure
        raise EntityNotFound(f"entity {entity_text} not found") from failure
    names = await entities.list_transitions(request.runtime.core, request.caller, entity)
    return Response(encode_json(names))


async def _has_existed(request: Request, entity_text: str) -> bool:
    """Whether the entity exists or ever did."""
    entity_id = read_entity_id("entityId", entity_text)
    try:
        return bool(await entities.list_changes(request.runtime.core, request.caller, entity_id))
    except EntityNotFound:
        return False


async def _read_version(request: Request, entity_id: EntityId) -> Entity:
    """The version the query asks for. Both scopes at once are refused before anything is looked up."""
    if not request.has_query:
        return await entities.read(request.runtime.core, request.caller, entity_id)
    instant, transaction = request.query_instant("pointInTime"), request.query_transaction("transactionId")
    if instant is not None and transaction is not None:
        raise BadRequest("pointInTime and transactionId are mutually exclusive")
    runtime, caller = request.runtime, request.caller
    if instant is not None:
        return await entities.read_at(runtime.core, caller, entity_id, instant)
    if transaction is not None:
        return await entities.read_by_transaction(runtime.core, caller, entity_id, transaction)
    return await entities.read(runtime.core, caller, entity_id)


def _show_change(change: EntityChange) -> VersionChange:
    return VersionChange(
        change_type=change.type,
        time_of_change=to_rfc3339(change.at),
        user=change.attributed.id,
        attributed_kind=change.attributed.kind,
        executed_by=change.executor,
        transaction_id=None if change.type == "DELETE" else change.transaction_id,
    )

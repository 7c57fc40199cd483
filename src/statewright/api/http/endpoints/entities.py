"""Entities over REST (spec/entities.md §5–§11)."""

from msgspec.structs import replace

from statewright.api.http.bodies import entities_body, entity_body, json_body, saved_body
from statewright.api.http.endpoints.collections import create_array
from statewright.api.http.endpoints.write_parameters import bind_window, bind_write_parameters, check_window
from statewright.api.http.exchange import MAX_BODY_BYTES, Answer, Exchange, uuid_text
from statewright.entity import Entity
from statewright.failures import BadRequest, EntityNotFound, InvalidParameter
from statewright.identity import EntityId
from statewright.instants import to_rfc3339
from statewright.services import by_name, entities
from statewright.storage.entities import Change, Cut


async def create(exchange: Exchange) -> Answer:
    """Create one entity, or all items of an array."""
    key = exchange.model_key()
    bind_write_parameters(exchange)
    window = check_window(bind_window(exchange))
    body = await exchange.body(MAX_BODY_BYTES)
    if exchange.segments["format"] == "JSON" and body.startswith(b"["):
        return await create_array(exchange, key, body, window)
    saved = await entities.create(
        exchange.runtime, exchange.caller, key=key, media=exchange.segments["format"], body=body
    )
    return Answer(b"[" + saved_body(saved)[:-1] + b"]\n")


async def read(exchange: Exchange) -> Answer:
    """The current version of an entity, or the one valid at a time or written by a transaction."""
    entity_id = exchange.entity_id()
    entity = await _version(exchange, entity_id)
    definition = await entities.governing_definition(exchange.runtime, exchange.caller, entity)
    return Answer(entity_body(entity, definition.stored.key))


async def listing(exchange: Exchange) -> Answer:
    """One page of a model's entities."""
    key = exchange.model_key()
    size, number = exchange.query_int32("pageSize", 20), exchange.query_int32("pageNumber", 0)
    instant, after = exchange.query_instant("pointInTime"), exchange.query("afterId")
    cut = Cut(size=size, number=number)
    if after is not None:
        cut = replace(cut, after=EntityId(uuid_text("afterId", after)))
    found = await entities.page(exchange.runtime, exchange.caller, key, cut, instant=instant)
    return Answer(entities_body(found, key, instant=instant))


async def update(exchange: Exchange) -> Answer:
    """Replace an entity's document; with a transition in the path, fire it."""
    entity_id = exchange.entity_id()
    bind_write_parameters(exchange)
    if_match = exchange.header(b"if-match") or None
    body = await exchange.body(MAX_BODY_BYTES)
    saved = await entities.update(
        exchange.runtime,
        exchange.caller,
        entity_id,
        media=exchange.segments["format"],
        body=body,
        transition=exchange.segments.get("transition"),
        if_match=if_match,
    )
    return Answer(saved_body(saved))


async def delete(exchange: Exchange) -> Answer:
    """Delete an entity; its history stays."""
    deleted = await entities.delete(exchange.runtime, exchange.caller, exchange.entity_id())
    key = {"name": deleted.model.name, "version": deleted.model.version}
    return Answer(json_body({"id": deleted.entity_id, "modelKey": key, "transactionId": deleted.transaction_id}))


async def changes(exchange: Exchange) -> Answer:
    """The entity's versions, newest first."""
    entity_id = exchange.entity_id()
    history = await entities.changes(
        exchange.runtime, exchange.caller, entity_id, until=exchange.query_instant("pointInTime")
    )
    return Answer(json_body([_change(change) for change in history]))


async def transitions(exchange: Exchange) -> Answer:
    """Names of all transitions declared in the entity's state."""
    # Any text that is no known entity is "not found" here; the id is not bound as a parameter (spec/entities.md §10).
    return await _transitions(exchange, exchange.segments["entityId"])


async def transitions_by_class(exchange: Exchange) -> Answer:
    """The same for older libraries, which name the entity by query parameters."""
    entity_class, entity_id = exchange.query("entityClass"), exchange.query("entityId")
    if not entity_class or not entity_id:
        raise BadRequest("entityClass and entityId are required")
    name, _, version = entity_class.rpartition(".")
    if not name or not version:
        raise BadRequest("entityClass must be in format Name.Version (e.g., Offer.1)")
    return await _transitions(exchange, entity_id)


async def fire_by_class(exchange: Exchange) -> Answer:
    """Fire a transition on an entity whose document stays as it is, as older libraries ask for it (decision S12)."""
    entity_text, transition = exchange.query("entityId"), exchange.query("transitionName")
    if not entity_text or not transition:
        raise BadRequest("entityId and transitionName are required")
    entity_id = EntityId(uuid_text("entityId", entity_text))
    return Answer(saved_body(await by_name.fire(exchange.runtime, exchange.caller, entity_id, transition=transition)))


async def _transitions(exchange: Exchange, entity_text: str) -> Answer:
    try:
        entity_id = EntityId(uuid_text("entityId", entity_text))
        entity = await _version(exchange, entity_id)
    except (InvalidParameter, EntityNotFound) as failure:
        if isinstance(failure, InvalidParameter) and failure.properties["parameter"] != "entityId":
            raise
        if (
            isinstance(failure, EntityNotFound)
            and exchange.query("transactionId")
            and await _was_there(exchange, entity_text)
        ):
            raise BadRequest("the transaction wrote no version of the entity") from failure
        raise EntityNotFound(f"entity {entity_text} not found") from failure
    names = await entities.transitions(exchange.runtime, exchange.caller, entity)
    return Answer(json_body(names))


async def _was_there(exchange: Exchange, entity_text: str) -> bool:
    """Whether the entity exists or ever did."""
    entity_id = EntityId(uuid_text("entityId", entity_text))
    try:
        return bool(await entities.changes(exchange.runtime, exchange.caller, entity_id))
    except EntityNotFound:
        return False


async def _version(exchange: Exchange, entity_id: EntityId) -> Entity:
    """The version the query asks for. Both scopes at once are refused before anything is looked up."""
    instant, transaction = exchange.query_instant("pointInTime"), exchange.query_transaction("transactionId")
    if instant is not None and transaction is not None:
        raise BadRequest("pointInTime and transactionId are mutually exclusive")
    runtime, caller = exchange.runtime, exchange.caller
    if instant is not None:
        return await entities.read_at(runtime, caller, entity_id, instant)
    if transaction is not None:
        return await entities.read_by_transaction(runtime, caller, entity_id, transaction)
    return await entities.read(runtime, caller, entity_id)


def _change(change: Change) -> dict[str, object]:
    entry: dict[str, object] = {
        "changeType": change.type,
        "timeOfChange": to_rfc3339(change.at),
        "user": change.attributed.id,
        "attributedKind": change.attributed.kind,
        "executedBy": {"id": change.executor.id, "kind": change.executor.kind},
    }
    return entry if change.type == "DELETE" else entry | {"transactionId": change.transaction_id}

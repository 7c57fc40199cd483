"""Handlers of the client's operations on entities in memory, which answer as a server does."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from statewright.conditions import MalformedCondition, compile_predicate, parse
from statewright.conditions.sorting import parse_sort, resolve_sort, sort_items
from statewright.entity import LOOPBACK, EntityMeta
from statewright.failures import BadRequest, EntityModified, SearchResultLimit, TransitionNotFound
from statewright.ids import system_clock
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.patches import apply_merge_patch
from statewright.jsonval.values import JsonValue
from statewright.schema import DeclaredField, flatten_fields, infer, merge
from statewright.sdk.operations import Call, Entity
from statewright.sdk.outcomes import encode_json
from statewright.sdk.testing.view import View, new_entity

MAX_SORT_KEYS: Final = 16


def _create(view: View, call: Call, body: JsonValue) -> bytes:
    model, version = call.target
    transaction, state = view.transaction_id, view.get_initial_state(model, int(version))
    documents = body if isinstance(body, list) else [body]
    made = [new_entity(model, int(version), each, state=state, transaction_id=transaction) for each in documents]
    for entity in made:
        view.put(entity)
    return encode_json([{"transactionId": transaction, "entityIds": [entity.id for entity in made]}])


def _get(view: View, call: Call, _body: JsonValue) -> bytes:
    return encode_json(_to_envelope(view.get(call.target[0])))


def _page(view: View, call: Call, _body: JsonValue) -> bytes:
    model, version = call.target
    size, number = (int(value) for _, value in call.query)
    found = view.list_entities(model, int(version))[size * number : size * (number + 1)]
    return encode_json([_to_envelope(entity) for entity in found])


def _iterate(view: View, call: Call, _body: JsonValue) -> bytes:
    model, version = call.target
    query = dict(call.query)
    found = [one for one in view.list_entities(model, int(version)) if one.id > query.get("afterId", "")]
    return encode_json([_to_envelope(entity) for entity in found[: int(query["pageSize"])]])


def _update(view: View, call: Call, body: JsonValue) -> bytes:
    return _change(view, call, lambda _entity: body)


def _patch(view: View, call: Call, body: JsonValue) -> bytes:
    return _change(view, call, lambda entity: apply_merge_patch(entity.data, body))


def _change(view: View, call: Call, document: Callable[[Entity], JsonValue]) -> bytes:
    entity_id, *rest = call.target
    entity = view.get(entity_id)
    if_match = call.headers.get("If-Match", "*")
    if if_match not in {"*", entity.transaction_id}:
        raise EntityModified(entity.id)
    return _save(view, entity, rest[0] if rest else None, document(entity))


def _fire(view: View, call: Call, _body: JsonValue) -> bytes:
    entity_id, transition = call.target
    entity = view.get(entity_id)
    return _save(view, entity, transition, entity.data)


def _save(view: View, entity: Entity, transition: str | None, data: JsonValue) -> bytes:
    if transition is not None and transition not in view.transitions(entity):
        raise TransitionNotFound(f'transition "{transition}" not found in state "{entity.state}": transition not found')
    state = view.transitions(entity)[transition] if transition else entity.state
    saved = replace(
        entity,
        data=data,
        state=state,
        transaction_id=view.transaction_id,
        updated=to_rfc3339(system_clock()),
        transition=transition or LOOPBACK,
    )
    view.put(saved)
    return encode_json({"transactionId": saved.transaction_id, "entityIds": [saved.id]})


def _delete(view: View, call: Call, _body: JsonValue) -> bytes:
    entity = view.get(call.target[0])
    view.remove(entity.id)
    return encode_json({"id": entity.id, "transactionId": view.transaction_id})


def _transitions(view: View, call: Call, _body: JsonValue) -> bytes:
    return encode_json(list(view.transitions(view.get(call.target[0]))))


def _count(view: View, call: Call, _body: JsonValue) -> bytes:
    model, version = call.target
    return encode_json({"count": len(view.list_entities(model, int(version)))})


def _search(view: View, call: Call, body: JsonValue) -> bytes:
    model, version = call.target
    found = view.list_entities(model, int(version))
    declared = _infer_types(found)
    try:
        matches = compile_predicate(parse(body), declared)
        hits = [entity for entity in found if matches(entity.data, _to_meta(entity))]
    except (MalformedCondition, ValueError) as malformed:
        raise BadRequest(f"invalid condition: {malformed}") from malformed
    limit = int(dict(call.query)["limit"])
    if len(hits) > limit:
        raise SearchResultLimit(limit)
    keys = parse_sort((value for name, value in call.query if name == "sort"), max_keys=MAX_SORT_KEYS)
    order = resolve_sort(keys, declared)
    hits = sort_items(order, hits, lambda entity: (entity.data, _to_meta(entity)))
    return b"\n".join(encode_json(_to_envelope(entity)) for entity in hits)


def _wait(view: View, call: Call, _body: JsonValue) -> bytes:
    """Nothing happens while somebody waits here: what is not there yet is not reached, after no time at all."""
    entity, query = view.get(call.target[0]), dict(call.query)
    states = [value for name, value in call.query if name == "state"]
    is_later = query.get("after") != entity.transaction_id
    if states:
        reached = entity.state in states and is_later
    else:
        reached = is_later if "after" in query else not view.transitions(entity)
    waited_ms = 0 if reached else round(float(query["timeout"].strip("PTS")) * 1000)
    met = {"reached": reached, "deleted": False, "waitedMs": waited_ms, "state": entity.state}
    return encode_json(met | {"transactionId": entity.transaction_id, "at": entity.updated})


Handler: TypeAlias = Callable[[View, Call, JsonValue], bytes]
"""What answers a request: the body."""

HANDLERS: Final[Mapping[str, Handler]] = {
    "create": _create,
    "create_many": _create,
    "get": _get,
    "page": _page,
    "iterate": _iterate,
    "update": _update,
    "patch": _patch,
    "transition": _fire,
    "transitions": _transitions,
    "delete": _delete,
    "search": _search,
    "count": _count,
    "wait": _wait,
}
"""The handlers by name of the operation."""


def _infer_types(entities: list[Entity]) -> Mapping[str, DeclaredField]:
    """The fields that a model of these documents would declare."""
    schema = infer({})
    for entity in entities:
        schema = merge(schema, infer(entity.data))
    return flatten_fields(schema)


def _to_meta(entity: Entity) -> EntityMeta:
    created, updated = (from_rfc3339(text) or 0 for text in (entity.created, entity.updated))
    return EntityMeta(
        id=entity.id,
        state=entity.state,
        creation_date=created // 1000,
        last_update_time=updated // 1000,
        transition=entity.transition,
        transaction_id=entity.transaction_id,
    )


def _to_envelope(entity: Entity) -> dict[str, object]:
    return {"type": "ENTITY", "data": entity.data, "meta": build_meta(entity)}


def build_meta(entity: Entity) -> dict[str, object]:
    """The metadata of an entity in the form of the REST API."""
    return {
        "id": entity.id,
        "modelKey": {"name": entity.model, "version": entity.model_version},
        "state": entity.state,
        "transactionId": entity.transaction_id,
        "creationDate": entity.created,
        "lastUpdateTime": entity.updated,
        "transitionForLatestSave": entity.transition,
    }

"""Resources that are entities of the service (docs/reference/flows.md#entities-as-resources)."""

from typing import Final

from statewright.background import run_by_size
from statewright.entity import Entity, ModelKey
from statewright.failures import Conflict, EntityNotFound
from statewright.flows.requests import UnusableTask
from statewright.flows.resources import EntityPlace, find_entity
from statewright.ids import EntityId, model_id
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.services import entities
from statewright.services.processes.documents import read_object
from statewright.services.processes.writing import to_entity_id
from statewright.services.runtime import Caller, Runtime

MEDIA: Final = "JSON"


async def read_entity(runtime: Runtime, caller: Caller, payload: JsonObject) -> JsonValue:
    """The document of an entity. Raises ``UnusableTask``, ``EntityNotFound``."""
    place = _find_place(payload)
    if not place.id:
        raise UnusableTask("RESOURCE: to read, the reference must have the id of an entity")
    entity = await _read(runtime, caller, place)
    text = entity.document or ""
    return await run_by_size(len(text), lambda: read_object(text))


async def write_entity(runtime: Runtime, caller: Caller, payload: JsonObject, job_id: str) -> JsonValue:
    """Make an entity, under the id that the job has, so that the job makes one whatever happens; or update one. Its id.

    Raises ``UnusableTask`` and what creating and updating entities can fail with.
    """
    place, document = _find_place(payload), payload.get("input")
    if not isinstance(document, dict):
        raise UnusableTask("RESOURCE: only an object can be the document of an entity")
    body = encode(document)
    if place.id:
        if place.model:
            await _read(runtime, caller, place)  # another model is refused
        parameters = payload.get("parameters")
        transition = parameters.get("transition") if isinstance(parameters, dict) else None
        if not isinstance(transition, str | None):
            raise UnusableTask("PARAMETERS: transition must be a text")
        await entities.update(runtime, caller, EntityId(place.id), media=MEDIA, body=body, transition=transition)
        return {"id": place.id}
    id_ = to_entity_id(job_id)
    key = ModelKey(place.model, place.version)
    try:
        await entities.create(runtime, caller, key=key, media=MEDIA, body=body, entity_id=id_)
    except Conflict:
        if not await _exists(runtime, caller, id_):
            raise
    return {"id": id_}


def _find_place(payload: JsonObject) -> EntityPlace:
    place = find_entity(payload)
    if place is None:
        raise UnusableTask("RESOURCE: the reference names no entity")
    return place


async def _read(runtime: Runtime, caller: Caller, place: EntityPlace) -> Entity:
    entity = await entities.read(runtime, caller, EntityId(place.id))
    if place.model and entity.model != model_id(place.model, place.version):
        raise EntityNotFound(f"entity {place.id} is of another model than {place.model}/{place.version}")
    return entity


async def _exists(runtime: Runtime, caller: Caller, id_: EntityId) -> bool:
    try:
        await entities.read(runtime, caller, id_)
    except EntityNotFound:
        return False
    return True

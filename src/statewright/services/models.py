"""Use cases on models: import and export, validation, change level, unique keys, life cycle (spec/models.md §4)."""

import msgspec
from msgspec import Struct

from statewright.entity import ModelKey, Principal
from statewright.failures import (
    BadRequest,
    InvalidChangeLevel,
    ModelAlreadyLocked,
    ModelAlreadyUnlocked,
    ModelHasEntities,
    ModelNotFound,
    Property,
)
from statewright.identity import ModelId, model_id
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonValue
from statewright.schema import (
    EXPORTS,
    ChangeLevel,
    InvalidUniqueKeyDefinition,
    MalformedXml,
    Node,
    UniqueKey,
    Violation,
    compile_validator,
    definition_fault,
    export_document,
    from_stored,
    infer,
    merge,
    normal_form,
    require_reasonable,
    to_stored,
    xml_to_json,
)
from statewright.schema.reading import IMPORTS, MalformedSchema
from statewright.services.runtime import Runtime
from statewright.services.steps.entity_door import refuse_model
from statewright.storage import models
from statewright.storage.models import ModelEdit, StoredModel

_unique_keys = msgspec.json.Decoder(tuple[UniqueKey, ...]).decode


class Validation(Struct, frozen=True):
    """What strict validation says of a document."""

    model: StoredModel
    violations: tuple[Violation, ...]


class Lesson(Struct, frozen=True):
    """What an import brings. ``unique_keys`` is None when it says nothing about them."""

    schema: Node
    unique_keys: tuple[UniqueKey, ...] | None = None


class _Key(Struct):
    id: str | None = None
    fields: tuple[str, ...] | None = None


class _Keys(Struct, rename="camel"):
    unique_keys: tuple[_Key, ...] | None = None


async def import_model(
    runtime: Runtime, principal: Principal, *, key: ModelKey, converter: str, media: str, body: bytes
) -> ModelId:
    """Create a model from a sample or an export, or merge it into an unlocked model (spec/models.md §4.2)."""
    refuse_model(key)
    if converter != "SAMPLE_DATA" and converter not in IMPORTS:
        raise BadRequest("unsupported import converter")
    async with models.edit(runtime.pool, principal.tenant, key) as edit:
        model = await edit.model()
        if model is not None and model.state == "LOCKED":
            name = f"entityModel{{name={key.name}, version={key.version}}}"
            text = f"cannot save {name} because this model has already been registered"
            raise ModelAlreadyLocked(text, properties(key))
        lesson = _lesson(converter, media, body)
        before = None if model is None else _schema(model)
        schema = normal_form(lesson.schema if before is None else merge(before, lesson.schema))
        require_reasonable(schema, before)
        known = () if model is None else _unique_keys(model.unique_keys)
        if fault := definition_fault(known, schema):
            text = f"re-import invalidates existing unique key definitions: {fault}"
            raise InvalidUniqueKeyDefinition(text, properties(key))
        await edit.save_schema(encode(to_stored(schema)).decode())
        if lesson.unique_keys is not None:
            await _set_unique_keys(edit, lesson.unique_keys, schema)
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def export(runtime: Runtime, principal: Principal, *, key: ModelKey, converter: str) -> bytes:
    """The export document of the model in one of the two formats (spec/models.md §7)."""
    model = await _read(runtime, principal, key)
    view = EXPORTS.get(converter)
    if view is None:
        raise BadRequest("unsupported export converter")
    return export_document(view(_schema(model)), state=model.state, unique_keys=_unique_keys(model.unique_keys))


async def validate(runtime: Runtime, principal: Principal, *, key: ModelKey, body: bytes) -> Validation:
    """Check a document strictly; changes nothing (spec/models.md §4.4)."""
    model = await _read(runtime, principal, key)
    try:
        document = decode(body)
    except MalformedJson as malformed:
        raise BadRequest(f"failed to parse request body: {malformed}") from malformed
    return Validation(model, compile_validator(_schema(model))(document))


async def set_change_level(runtime: Runtime, principal: Principal, key: ModelKey, level: str) -> ModelId:
    """Say how far documents may extend the schema, in either state (spec/models.md §4.7)."""
    refuse_model(key)
    async with models.edit(runtime.pool, principal.tenant, key) as edit:
        await _existing(edit)
        valid = tuple(each.value for each in ChangeLevel)
        if level not in valid:
            text = f'invalid change level "{level}"; valid values: {", ".join(valid)}'
            raise InvalidChangeLevel(text, properties(key) | {"suppliedValue": level, "validValues": valid})
        await edit.set_change_level(level)
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def set_unique_keys(runtime: Runtime, principal: Principal, *, key: ModelKey, body: bytes) -> ModelId:
    """Replace the unique keys of an unlocked model (spec/models.md §4.8)."""
    refuse_model(key)
    unique_keys = _requested_unique_keys(body)
    async with models.edit(runtime.pool, principal.tenant, key) as edit:
        model = await _existing(edit)
        if model.state == "LOCKED":
            raise ModelAlreadyLocked(
                f"cannot process {_expectation(key, expected='UNLOCKED', actual='LOCKED')}", _locked(key)
            )
        await _set_unique_keys(edit, unique_keys, _schema(model))
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def lock(runtime: Runtime, principal: Principal, key: ModelKey) -> ModelId:
    """Let entities be created."""
    refuse_model(key)
    async with models.edit(runtime.pool, principal.tenant, key) as edit:
        model = await _existing(edit)
        if model.state == "LOCKED":
            raise ModelAlreadyLocked(
                f"cannot process {_expectation(key, expected='UNLOCKED', actual='LOCKED')}", _locked(key)
            )
        await edit.set_state("LOCKED")
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def unlock(runtime: Runtime, principal: Principal, key: ModelKey) -> ModelId:
    """Let the model be changed again; it must have no entities. What the schema has learnt stays (decision S7)."""
    refuse_model(key)
    async with models.edit(runtime.pool, principal.tenant, key) as edit:
        model = await _existing(edit)
        if model.state == "UNLOCKED":
            states = {"expectedState": "LOCKED", "actualState": "UNLOCKED"}
            text = f"cannot process {_expectation(key, expected='LOCKED', actual='UNLOCKED')}"
            raise ModelAlreadyUnlocked(text, properties(key) | states)
        await _refuse_entities(edit, "unlock")
        await edit.set_state("UNLOCKED")
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def delete(runtime: Runtime, principal: Principal, key: ModelKey) -> ModelId:
    """Delete an unlocked model without entities; its workflows stay (spec/models.md §4.9)."""
    refuse_model(key)
    async with models.edit(runtime.pool, principal.tenant, key) as edit:
        model = await _existing(edit)
        if model.state == "LOCKED":
            raise ModelAlreadyLocked(
                f"cannot delete {_expectation(key, expected='UNLOCKED', actual='LOCKED')}", _locked(key)
            )
        await _refuse_entities(edit, "delete")
        await edit.delete()
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def listing(runtime: Runtime, principal: Principal) -> list[StoredModel]:
    """All models of the tenant, by name and version."""
    return await models.all_models(runtime.pool, principal.tenant)


def not_found(key: ModelKey) -> ModelNotFound:
    """What every model and workflow operation says of an unknown model."""
    return ModelNotFound(f"cannot find model entityName={key.name}, version={key.version}", properties(key))


def properties(key: ModelKey) -> dict[str, Property]:
    """The problem properties that name a model."""
    return {"entityName": key.name, "entityVersion": key.version}


async def _read(runtime: Runtime, principal: Principal, key: ModelKey) -> StoredModel:
    """The model as stored now: management never trusts the cache (spec/models.md §12)."""
    found = await models.definitions(runtime.pool, principal.tenant, model_id(key.name, key.version))
    if found is None:
        raise not_found(key)
    return found.model


async def _existing(edit: ModelEdit) -> StoredModel:
    model = await edit.model()
    if model is None:
        raise not_found(edit.key)
    return model


async def _refuse_entities(edit: ModelEdit, verb: str) -> None:
    """Refuse a model that has entities. Most are refused at once; creates are kept out only to be sure of none."""
    count = await edit.entity_count()
    if not count:
        await edit.keep_creates_out()
        count = await edit.entity_count()
    if count:
        raise ModelHasEntities(f"cannot {verb}: {count} entities exist", properties(edit.key) | {"entityCount": count})


def _lesson(converter: str, media: str, body: bytes) -> Lesson:
    """What the body of an import brings. Exports are JSON, and may stand alone or in their envelope."""
    read = IMPORTS.get(converter)
    if media not in {"JSON", "XML"} or (read and media != "JSON"):
        raise BadRequest(f"unsupported data format: {media}")
    try:
        value = decode(body) if media == "JSON" else xml_to_json(body)
    except (MalformedJson, MalformedXml) as malformed:
        raise BadRequest(f"parse {media}: {malformed}") from malformed
    if read is None:
        return Lesson(infer(value))
    try:
        if isinstance(value, dict) and "currentState" in value and "model" in value:
            return Lesson(read(value["model"]), _keys_of(value))
        return Lesson(read(value))
    except MalformedSchema as malformed:
        raise BadRequest(f"parse {converter}: {malformed}") from malformed


def _requested_unique_keys(body: bytes) -> tuple[UniqueKey, ...]:
    try:
        value = decode(body)
    except MalformedJson as malformed:
        raise BadRequest(f"failed to parse request body: {malformed}") from malformed
    return _keys_of({} if value is None else value) or ()


def _keys_of(value: JsonValue) -> tuple[UniqueKey, ...] | None:
    """The unique keys in a body, checked for their form only; None when it says nothing about them."""
    try:
        keys = msgspec.convert(value, _Keys).unique_keys
    except msgspec.ValidationError as malformed:
        raise BadRequest(f"failed to parse request body: {malformed}") from malformed
    return None if keys is None else tuple(UniqueKey(key.id or "", key.fields or ()) for key in keys)


async def _set_unique_keys(edit: ModelEdit, unique_keys: tuple[UniqueKey, ...], schema: Node) -> None:
    if fault := definition_fault(unique_keys, schema):
        raise InvalidUniqueKeyDefinition(fault, properties(edit.key))
    await edit.set_unique_keys(msgspec.json.encode(unique_keys).decode())


def _schema(model: StoredModel) -> Node:
    return from_stored(decode(model.schema))


def _locked(key: ModelKey) -> dict[str, Property]:
    return properties(key) | {"expectedState": "UNLOCKED", "actualState": "LOCKED"}


def _expectation(key: ModelKey, *, expected: str, actual: str) -> str:
    name = f"entityModel{{entityName={key.name}, entityVersion={key.version}}}"
    return f"{name}. expectedState={expected}, actualState={actual}"

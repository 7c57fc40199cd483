"""Use cases on models: import and export, validation, change level, unique keys, life cycle
(docs/reference/models.md#operations).
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

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
from statewright.ids import ModelId, model_id
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonValue
from statewright.loop.background import run_by_size
from statewright.loop.turns import use_once
from statewright.schema import (
    EXPORTS,
    INFERENCE_WEIGHT,
    ChangeLevel,
    InvalidUniqueKeyDefinition,
    MalformedXml,
    SchemaNode,
    UniqueKey,
    Violation,
    compile_validator,
    export_document,
    find_definition_fault,
    find_sample_limit,
    infer,
    merge,
    normalise,
    require_field_limit,
    schema_from_stored,
    schema_to_stored,
    xml_to_json,
)
from statewright.schema.export import IMPORTS, MalformedSchema, find_lost_keywords
from statewright.services.builtin import ModelScope
from statewright.services.core import Core
from statewright.storage import models
from statewright.storage.models import ModelEdit, StoredModel

_decode_unique_keys = msgspec.json.Decoder(tuple[UniqueKey, ...]).decode


class Validation(Struct, frozen=True):
    """What strict validation says of a document."""

    model: StoredModel
    violations: tuple[Violation, ...]


class ReadImport(Struct, frozen=True):
    """What an import brings; ``unique_keys`` is None when it says nothing about them."""

    schema: SchemaNode
    unique_keys: tuple[UniqueKey, ...] | None
    lost_keywords: tuple[str, ...]


class SavedImport(Struct, frozen=True):
    """What an import has made, and what of a JSON Schema the model does not keep (decision S15)."""

    model: ModelId
    lost_keywords: tuple[str, ...]


class _Key(Struct):
    id: str | None = None
    fields: tuple[str, ...] | None = None


class _Keys(Struct, rename="camel"):
    unique_keys: tuple[_Key, ...] | None = None


async def import_model(
    core: Core, principal: Principal, *, key: ModelKey, converter: str, media: str, body: bytes
) -> SavedImport:
    """Create a model from a sample or an export, or merge it into an unlocked model
    (docs/reference/models.md#import).
    """
    core.builtin.refuse_model(key)
    if converter != "SAMPLE_DATA" and converter not in IMPORTS:
        raise BadRequest("unsupported import converter")
    found = await models.fetch_model_definitions(core.pool, principal.tenant, model_id(key.name, key.version))
    stored = "" if found is None else _require_unlocked(found.model).schema
    weight = len(body) * INFERENCE_WEIGHT
    read = await run_by_size(weight + len(stored), lambda: _read_body(converter, media, body, stored))
    async with models.edit_model(core.pool, principal.tenant, key) as edit:  # only now: reading can take long
        model = await edit.get_model()
        stored = "" if model is None else _require_unlocked(model).schema
        schema, text = await run_by_size(weight + len(stored), lambda: _merge_read(read.schema, stored))
        known = () if model is None else _decode_unique_keys(model.unique_keys)
        if fault := find_definition_fault(known, schema):
            reason = f"re-import invalidates existing unique key definitions: {fault}"
            raise InvalidUniqueKeyDefinition(reason, to_properties(key))
        await edit.save_schema(text)
        if read.unique_keys is not None:
            await _set_unique_keys(edit, read.unique_keys, schema)
    core.definitions.forget(principal.tenant, edit.id)
    return SavedImport(edit.id, read.lost_keywords)


def _require_unlocked(model: StoredModel) -> StoredModel:
    """The model, which must not be locked."""
    if model.state == "LOCKED":
        key = model.key
        name = f"entityModel{{name={key.name}, version={key.version}}}"
        hint = f"it is locked: PUT /model/{key.name}/{key.version}/unlock, as long as it has no entities"
        text = f"cannot save {name} because this model has already been registered; {hint}"
        raise ModelAlreadyLocked(text, to_properties(key))
    return model


async def export(core: Core, principal: Principal, *, key: ModelKey, converter: str) -> bytes:
    """The export document of the model in one of the two formats (docs/reference/models.md#export-formats)."""
    model = await _find_model(core, principal, key)
    view = EXPORTS.get(converter)
    if view is None:
        raise BadRequest("unsupported export converter")

    def build_export() -> bytes:
        return export_document(
            view(_decode_schema(model.schema)), state=model.state, unique_keys=_decode_unique_keys(model.unique_keys)
        )

    return await run_by_size(len(model.schema), build_export)


async def validate(core: Core, principal: Principal, *, key: ModelKey, body: bytes) -> Validation:
    """Check a document strictly; changes nothing (docs/reference/models.md#validate-a-document)."""
    model = await _find_model(core, principal, key)
    return Validation(model, await run_by_size(len(body) + len(model.schema), partial(_validate, model.schema, body)))


async def set_change_level(core: Core, principal: Principal, key: ModelKey, level: str) -> ModelId:
    """Say how far documents may extend the schema, in either state (docs/reference/models.md#set-the-change-level)."""
    async with _change_model(core, principal, key) as (edit, _):
        valid = tuple(each.value for each in ChangeLevel)
        if level not in valid:
            text = f'invalid change level "{level}"; valid values: {", ".join(valid)}'
            raise InvalidChangeLevel(text, to_properties(key) | {"suppliedValue": level, "validValues": valid})
        await edit.set_change_level(level)
    return edit.id


async def set_unique_keys(core: Core, principal: Principal, *, key: ModelKey, body: bytes) -> ModelId:
    """Replace the unique keys of an unlocked model (docs/reference/models.md#set-unique-keys)."""
    core.builtin.refuse_model(key)
    unique_keys = await run_by_size(len(body), partial(_read_unique_keys, body))
    async with _change_model(core, principal, key) as (edit, model):
        _refuse_locked(model, key, "process")
        schema = await run_by_size(len(model.schema), partial(_decode_schema, model.schema))
        await _set_unique_keys(edit, unique_keys, schema)
    return edit.id


async def lock(core: Core, principal: Principal, key: ModelKey) -> ModelId:
    """Let entities be created."""
    async with _change_model(core, principal, key) as (edit, model):
        _refuse_locked(model, key, "process")
        await edit.set_state("LOCKED")
    return edit.id


async def unlock(core: Core, principal: Principal, key: ModelKey) -> ModelId:
    """Let the model be changed again; it must have no entities. What the schema has learnt stays (decision S7)."""
    async with _change_model(core, principal, key) as (edit, model):
        if model.state == "UNLOCKED":
            states = {"expectedState": "LOCKED", "actualState": "UNLOCKED"}
            text = f"cannot process {_describe_expectation(key, expected='LOCKED', actual='UNLOCKED')}"
            raise ModelAlreadyUnlocked(text, to_properties(key) | states)
        await _refuse_entities(edit, "unlock")
        await edit.set_state("UNLOCKED")
    return edit.id


async def delete(core: Core, principal: Principal, key: ModelKey) -> ModelId:
    """Delete an unlocked model without entities; its workflows stay (docs/reference/models.md#delete)."""
    async with _change_model(core, principal, key) as (edit, model):
        _refuse_locked(model, key, "delete")
        await _refuse_entities(edit, "delete")
        await edit.delete()
    return edit.id


async def list_models(core: Core, principal: Principal, scope: ModelScope = "own") -> list[StoredModel]:
    """The models of the tenant, by name and version."""
    found = await models.fetch_models(core.pool, principal.tenant)
    return core.builtin.select(found, lambda model: model.key, scope)


def build_not_found(key: ModelKey) -> ModelNotFound:
    """What every model and workflow operation says of an unknown model."""
    return ModelNotFound(f"cannot find model entityName={key.name}, version={key.version}", to_properties(key))


def to_properties(key: ModelKey) -> dict[str, Property]:
    """The problem properties that name a model."""
    return {"entityName": key.name, "entityVersion": key.version}


async def _find_model(core: Core, principal: Principal, key: ModelKey) -> StoredModel:
    """The model as stored now: management never trusts the cache (docs/reference/models.md#consistency-of-models)."""
    found = await models.fetch_model_definitions(core.pool, principal.tenant, model_id(key.name, key.version))
    if found is None:
        raise build_not_found(key)
    return found.model


@asynccontextmanager
async def _change_model(
    core: Core, principal: Principal, key: ModelKey
) -> AsyncGenerator[tuple[ModelEdit, StoredModel]]:
    """Change a model that there is. What this process remembers of it is forgotten once the change is durable. Raises
    ``ModelNotFound``, and what refuses built-in models.
    """
    core.builtin.refuse_model(key)
    async with models.edit_model(core.pool, principal.tenant, key) as edit:
        model = await edit.get_model()
        if model is None:
            raise build_not_found(key)
        yield edit, model
    core.definitions.forget(principal.tenant, edit.id)


async def _refuse_entities(edit: ModelEdit, verb: str) -> None:
    """Refuse a model that has entities. Most are refused at once; creates are kept out only to be sure of none."""
    count = await edit.count_entities()
    if not count:
        await edit.block_creates()
        count = await edit.count_entities()
    if count:
        raise ModelHasEntities(
            f"cannot {verb}: {count} entities exist", to_properties(edit.key) | {"entityCount": count}
        )


def _read_body(converter: str, media: str, body: bytes, stored: str) -> ReadImport:
    """What the body of an import brings for a stored schema, empty when there is none. Raises ``BadRequest``."""
    before = _decode_schema(stored) if stored else None
    return use_once(_decode_import(converter, media, body), partial(_read_value, converter, before))


def _merge_read(read: SchemaNode, stored: str) -> tuple[SchemaNode, str]:
    """The schema after an import, and the same as it is stored. Raises ``BadRequest`` for one that is too large."""
    before = _decode_schema(stored) if stored else None
    schema = normalise(read if before is None else merge(before, read))
    require_field_limit(schema, before)
    return schema, encode(schema_to_stored(schema)).decode()


def _read_value(converter: str, before: SchemaNode | None, value: JsonValue) -> ReadImport:
    unique_keys = None
    if converter in IMPORTS and isinstance(value, dict) and "currentState" in value and "model" in value:
        unique_keys, value = _parse_unique_keys(value), value["model"]
    read = _read_import(converter, value, before)
    lost_keywords = find_lost_keywords(value) if converter == "JSON_SCHEMA" else ()
    return ReadImport(read, unique_keys, lost_keywords)


def _decode_import(converter: str, media: str, body: bytes) -> JsonValue:
    """The value of the body. Exports are JSON, and may stand alone or in their envelope."""
    if media not in {"JSON", "XML"} or (converter in IMPORTS and media != "JSON"):
        raise BadRequest(f"unsupported data format: {media}")
    try:
        return decode(body) if media == "JSON" else xml_to_json(body)
    except (MalformedJson, MalformedXml) as malformed:
        raise BadRequest(f"parse {media}: {malformed}") from malformed


def _read_import(converter: str, value: JsonValue, before: SchemaNode | None) -> SchemaNode:
    read = IMPORTS.get(converter)
    limit = find_sample_limit(before)
    if read is None:
        return infer(value, limit)
    try:
        return read(value, limit)
    except MalformedSchema as malformed:
        raise BadRequest(f"parse {converter}: {malformed}") from malformed


def _validate(schema: str, body: bytes) -> tuple[Violation, ...]:
    try:
        document = decode(body)
    except MalformedJson as malformed:
        raise BadRequest(f"failed to parse request body: {malformed}") from malformed
    return use_once(document, compile_validator(_decode_schema(schema)))


def _read_unique_keys(body: bytes) -> tuple[UniqueKey, ...]:
    try:
        value = decode(body)
    except MalformedJson as malformed:
        raise BadRequest(f"failed to parse request body: {malformed}") from malformed
    return use_once({} if value is None else value, _parse_unique_keys) or ()


def _parse_unique_keys(value: JsonValue) -> tuple[UniqueKey, ...] | None:
    """The unique keys in a body, checked for their form only; None when it says nothing about them."""
    try:
        keys = msgspec.convert(value, _Keys).unique_keys
    except msgspec.ValidationError as malformed:
        raise BadRequest(f"failed to parse request body: {malformed}") from malformed
    return None if keys is None else tuple(UniqueKey(key.id or "", key.fields or ()) for key in keys)


async def _set_unique_keys(edit: ModelEdit, unique_keys: tuple[UniqueKey, ...], schema: SchemaNode) -> None:
    if fault := find_definition_fault(unique_keys, schema):
        raise InvalidUniqueKeyDefinition(fault, to_properties(edit.key))
    await edit.set_unique_keys(msgspec.json.encode(unique_keys).decode())


def _decode_schema(stored: str) -> SchemaNode:
    return schema_from_stored(decode(stored))


def _refuse_locked(model: StoredModel, key: ModelKey, action: str) -> None:
    if model.state == "LOCKED":
        text = f"cannot {action} {_describe_expectation(key, expected='UNLOCKED', actual='LOCKED')}"
        raise ModelAlreadyLocked(text, to_properties(key) | {"expectedState": "UNLOCKED", "actualState": "LOCKED"})


def _describe_expectation(key: ModelKey, *, expected: str, actual: str) -> str:
    name = f"entityModel{{entityName={key.name}, entityVersion={key.version}}}"
    return f"{name}. expectedState={expected}, actualState={actual}"

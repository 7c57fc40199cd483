"""Use cases on models: import and export, validation, change level, unique keys, life cycle
(docs/reference/models.md#operations).
"""

from functools import partial

import msgspec
from msgspec import Struct

from statewright.background import run_by_size
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
from statewright.freeing import use_once
from statewright.ids import ModelId, model_id
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonValue
from statewright.schema import (
    EXPORTS,
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
from statewright.schema.reading import IMPORTS, MalformedSchema, find_lost_keywords
from statewright.services.runtime import Runtime
from statewright.storage import models
from statewright.storage.models import ModelEdit, StoredModel

_decode_unique_keys = msgspec.json.Decoder(tuple[UniqueKey, ...]).decode


class Validation(Struct, frozen=True):
    """What strict validation says of a document."""

    model: StoredModel
    violations: tuple[Violation, ...]


class ImportedModel(Struct, frozen=True):
    """What an import brings, merged into the schema before it, and that as it is stored.

    ``unique_keys`` is None when it says nothing about them.
    """

    schema: SchemaNode
    unique_keys: tuple[UniqueKey, ...] | None
    lost_keywords: tuple[str, ...]
    text: str


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
    runtime: Runtime, principal: Principal, *, key: ModelKey, converter: str, media: str, body: bytes
) -> SavedImport:
    """Create a model from a sample or an export, or merge it into an unlocked model
    (docs/reference/models.md#import).
    """
    runtime.builtin.refuse_model(key)
    if converter != "SAMPLE_DATA" and converter not in IMPORTS:
        raise BadRequest("unsupported import converter")
    async with models.edit_model(runtime.pool, principal.tenant, key) as edit:
        model = await edit.get_model()
        if model is not None and model.state == "LOCKED":
            name = f"entityModel{{name={key.name}, version={key.version}}}"
            hint = f"it is locked: PUT /model/{key.name}/{key.version}/unlock, as long as it has no entities"
            text = f"cannot save {name} because this model has already been registered; {hint}"
            raise ModelAlreadyLocked(text, to_properties(key))
        stored = "" if model is None else model.schema
        imported = await run_by_size(len(body) + len(stored), lambda: _read_and_merge(converter, media, body, stored))
        schema = imported.schema
        known = () if model is None else _decode_unique_keys(model.unique_keys)
        if fault := find_definition_fault(known, schema):
            text = f"re-import invalidates existing unique key definitions: {fault}"
            raise InvalidUniqueKeyDefinition(text, to_properties(key))
        await edit.save_schema(imported.text)
        if imported.unique_keys is not None:
            await _set_unique_keys(edit, imported.unique_keys, schema)
    runtime.definitions.forget(principal.tenant, edit.id)
    return SavedImport(edit.id, imported.lost_keywords)


async def export(runtime: Runtime, principal: Principal, *, key: ModelKey, converter: str) -> bytes:
    """The export document of the model in one of the two formats (docs/reference/models.md#export-formats)."""
    model = await _find_model(runtime, principal, key)
    view = EXPORTS.get(converter)
    if view is None:
        raise BadRequest("unsupported export converter")

    def build_export() -> bytes:
        return export_document(
            view(_decode_schema(model.schema)), state=model.state, unique_keys=_decode_unique_keys(model.unique_keys)
        )

    return await run_by_size(len(model.schema), build_export)


async def validate(runtime: Runtime, principal: Principal, *, key: ModelKey, body: bytes) -> Validation:
    """Check a document strictly; changes nothing (docs/reference/models.md#validate-a-document)."""
    model = await _find_model(runtime, principal, key)
    return Validation(model, await run_by_size(len(body) + len(model.schema), partial(_validate, model.schema, body)))


async def set_change_level(runtime: Runtime, principal: Principal, key: ModelKey, level: str) -> ModelId:
    """Say how far documents may extend the schema, in either state (docs/reference/models.md#set-the-change-level)."""
    runtime.builtin.refuse_model(key)
    async with models.edit_model(runtime.pool, principal.tenant, key) as edit:
        await _require_model(edit)
        valid = tuple(each.value for each in ChangeLevel)
        if level not in valid:
            text = f'invalid change level "{level}"; valid values: {", ".join(valid)}'
            raise InvalidChangeLevel(text, to_properties(key) | {"suppliedValue": level, "validValues": valid})
        await edit.set_change_level(level)
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def set_unique_keys(runtime: Runtime, principal: Principal, *, key: ModelKey, body: bytes) -> ModelId:
    """Replace the unique keys of an unlocked model (docs/reference/models.md#set-unique-keys)."""
    runtime.builtin.refuse_model(key)
    unique_keys = await run_by_size(len(body), partial(_read_unique_keys, body))
    async with models.edit_model(runtime.pool, principal.tenant, key) as edit:
        model = await _require_model(edit)
        _refuse_locked(model, key, "process")
        schema = await run_by_size(len(model.schema), partial(_decode_schema, model.schema))
        await _set_unique_keys(edit, unique_keys, schema)
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def lock(runtime: Runtime, principal: Principal, key: ModelKey) -> ModelId:
    """Let entities be created."""
    runtime.builtin.refuse_model(key)
    async with models.edit_model(runtime.pool, principal.tenant, key) as edit:
        model = await _require_model(edit)
        _refuse_locked(model, key, "process")
        await edit.set_state("LOCKED")
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def unlock(runtime: Runtime, principal: Principal, key: ModelKey) -> ModelId:
    """Let the model be changed again; it must have no entities. What the schema has learnt stays (decision S7)."""
    runtime.builtin.refuse_model(key)
    async with models.edit_model(runtime.pool, principal.tenant, key) as edit:
        model = await _require_model(edit)
        if model.state == "UNLOCKED":
            states = {"expectedState": "LOCKED", "actualState": "UNLOCKED"}
            text = f"cannot process {_describe_expectation(key, expected='LOCKED', actual='UNLOCKED')}"
            raise ModelAlreadyUnlocked(text, to_properties(key) | states)
        await _refuse_entities(edit, "unlock")
        await edit.set_state("UNLOCKED")
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def delete(runtime: Runtime, principal: Principal, key: ModelKey) -> ModelId:
    """Delete an unlocked model without entities; its workflows stay (docs/reference/models.md#delete)."""
    runtime.builtin.refuse_model(key)
    async with models.edit_model(runtime.pool, principal.tenant, key) as edit:
        model = await _require_model(edit)
        _refuse_locked(model, key, "delete")
        await _refuse_entities(edit, "delete")
        await edit.delete()
    runtime.definitions.forget(principal.tenant, edit.id)
    return edit.id


async def list_models(runtime: Runtime, principal: Principal) -> list[StoredModel]:
    """All models of the tenant, by name and version."""
    return await models.fetch_models(runtime.pool, principal.tenant)


def build_not_found(key: ModelKey) -> ModelNotFound:
    """What every model and workflow operation says of an unknown model."""
    return ModelNotFound(f"cannot find model entityName={key.name}, version={key.version}", to_properties(key))


def to_properties(key: ModelKey) -> dict[str, Property]:
    """The problem properties that name a model."""
    return {"entityName": key.name, "entityVersion": key.version}


async def _find_model(runtime: Runtime, principal: Principal, key: ModelKey) -> StoredModel:
    """The model as stored now: management never trusts the cache (docs/reference/models.md#consistency-of-models)."""
    found = await models.fetch_model_definitions(runtime.pool, principal.tenant, model_id(key.name, key.version))
    if found is None:
        raise build_not_found(key)
    return found.model


async def _require_model(edit: ModelEdit) -> StoredModel:
    model = await edit.get_model()
    if model is None:
        raise build_not_found(edit.key)
    return model


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


def _read_and_merge(converter: str, media: str, body: bytes, stored: str) -> ImportedModel:
    """What the body of an import makes of a stored schema, empty when there is none. Raises ``BadRequest``."""
    before = _decode_schema(stored) if stored else None
    return use_once(_decode_import(converter, media, body), partial(_merge_value, converter, before))


def _merge_value(converter: str, before: SchemaNode | None, value: JsonValue) -> ImportedModel:
    unique_keys = None
    if converter in IMPORTS and isinstance(value, dict) and "currentState" in value and "model" in value:
        unique_keys, value = _parse_unique_keys(value), value["model"]
    read = _read_import(converter, value, before)
    schema = normalise(read if before is None else merge(before, read))
    require_field_limit(schema, before)
    lost_keywords = find_lost_keywords(value) if converter == "JSON_SCHEMA" else ()
    return ImportedModel(schema, unique_keys, lost_keywords, encode(schema_to_stored(schema)).decode())


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

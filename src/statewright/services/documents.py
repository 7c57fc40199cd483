"""Documents on their way in: read from a request body, and accepted by their model (spec/entities.md §4)."""

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.failures import BadRequest, Failure, ModelNotLocked
from statewright.identity import TenantId
from statewright.jsonval.codec import MalformedJson, canonical, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.schema import INCOMPLETE, MalformedXml, xml_to_json
from statewright.schema.validation import kind_of
from statewright.services.definitions import Definition
from statewright.services.runtime import Runtime
from statewright.services.steps.entity_door import refuse_model
from statewright.storage.unit_of_work import UnitOfWork


class Document(Struct, frozen=True):
    """A decoded document beside its encoded text."""

    value: JsonObject
    text: str


def read_document(raw: bytes | str, media: str) -> Document:
    """The document of a request body; ``media`` is the ``{format}`` of its path. Raises ``BadRequest``."""
    if media not in {"JSON", "XML"}:
        raise BadRequest(f"unsupported format: {media}")
    try:
        if media == "XML":
            return as_document(xml_to_json(raw if isinstance(raw, bytes) else raw.encode()))
        value, text = canonical(raw)
    except (MalformedJson, MalformedXml) as malformed:
        raise BadRequest(f"invalid {media}: {malformed}") from malformed
    return Document(_demand_object(value), text.decode())


def as_document(value: JsonValue) -> Document:
    """A value that must be a document. Raises ``BadRequest`` for what is no object (decision S6)."""
    return Document(_demand_object(value), encode(value).decode())


def _demand_object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise BadRequest(f"validation failed: expected object, got {kind_of(value)}")
    return value


async def locked_definition(runtime: Runtime, tenant: TenantId, key: ModelKey) -> Definition:
    """The definition of a model that takes entities. Raises ``Forbidden``, ``ModelNotFound``, ``ModelNotLocked``."""
    refuse_model(key)
    definition = await runtime.definition(tenant, key)
    if not definition.is_locked:
        definition = await runtime.definitions.renewed(definition) or definition
    if not definition.is_locked:
        raise ModelNotLocked
    return definition


async def accepted(
    runtime: Runtime, unit: UnitOfWork, definition: Definition, document: JsonValue, *, strictly: bool = False
) -> Definition:
    """Accept a document, and stage what it teaches its model unless ``strictly``; the definition it was held against.

    A refusal is certain only when it comes from the model as it is now. Raises what ``Documents.accept`` raises.
    """
    try:
        _accept(unit, definition, document, strictly=strictly)
    except Failure:
        renewed = await runtime.definitions.renewed(definition)
        if renewed is None:
            raise
        _accept(unit, renewed, document, strictly=strictly)
        return renewed
    return definition


def require_complete_keys(definition: Definition, document: JsonValue) -> None:
    """Refuse a document that has a unique key in part only (spec/models.md §11.2). Raises ``InvalidUniqueKey``."""
    definition.model.documents.claims(document, refusal=INCOMPLETE)


def _accept(unit: UnitOfWork, definition: Definition, document: JsonValue, *, strictly: bool) -> None:
    documents = definition.model.documents
    if strictly:
        documents.accept_strictly(unit, document)
    else:
        documents.accept(unit, document)

"""The payloads of requests: the types of their members, and the errors about them
(docs/reference/grpc.md#how-requests-are-read).

*Required* means that the name is there: null passes for empty text or an empty object, though not for a choice.
Members that are not declared are ignored, ``error``, ``warnings`` and ``success`` among them. Documents, patches and
conditions stay raw JSON: their digits and their defects are left to the use case.

The payloads of responses (docs/reference/grpc.md#payload-parts, docs/reference/grpc.md#entitymanage,
docs/reference/grpc.md#failures). A class is called what its event type is called.

The defaults are the placeholders of failures, so the blank answer with an error in it is the failure response.
"""

import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from statewright.entity import EntityChange, EntityCount, EntityView, ModelKey
from statewright.failures import EntityNotFound
from statewright.ids import EntityId, ulid_to_uuid
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.codec import MalformedJson, decode, find_text_behind
from statewright.operations.entity_answers import EntityMetadata
from statewright.services.writing import Saved

Text = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
"""A text without NUL characters, which PostgreSQL cannot store, so that no name contains one."""

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
DataFormat = Literal["JSON", "XML"]

RequestT = TypeVar("RequestT")

NULL: Final = Raw(b"null")

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


class InvalidPayload(ValueError):
    """A payload that is not of the shape its event type calls for."""


class Instant:
    """A date-time of a request, in epoch microseconds. No struct: those come from JSON objects."""

    __slots__ = ("micros",)

    def __init__(self, micros: int) -> None:
        self.micros = micros


class Payload(Struct, frozen=True, kw_only=True, rename="camel"):
    """What all requests have: an ``id``, whose value is not read."""

    id: str | None


class ModelSpec(Struct, frozen=True):
    """A model by name and version."""

    name: Text | None
    version: Int32 | None

    @property
    def key(self) -> ModelKey:
        """The model that is meant."""
        return ModelKey(self.name or "", self.version or 0)


NO_MODEL: Final = ModelSpec("", 0)


class ModelRequest(Payload, frozen=True, kw_only=True):
    """What is asked of a model."""

    model: ModelSpec | None

    @property
    def key(self) -> ModelKey:
        """The model, without name when it is null."""
        return (self.model or NO_MODEL).key


def make_decoder(request: type[RequestT]) -> msgspec.json.Decoder[RequestT]:
    """The decoder for payloads of a request type."""
    return msgspec.json.Decoder(request, dec_hook=_decode_instant)


def read(decoder: msgspec.json.Decoder[RequestT], data: str | bytes) -> RequestT:
    """The request that the payload holds, and nothing else. Raises :class:`InvalidPayload`."""
    try:
        return decoder.decode(data)
    except RecursionError as error:
        raise InvalidPayload("nested too deep") from error
    except msgspec.ValidationError as error:
        raise InvalidPayload(str(error)) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidPayload(_find_defect(data) or str(error)) from error


def read_first(decoder: msgspec.json.Decoder[RequestT], data: str | bytes) -> RequestT:
    """The request at the beginning of the payload; what follows it is ignored. Raises :class:`InvalidPayload`."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        end = find_text_behind(error)
    except (UnicodeError, RecursionError):
        end = None
    if end is None:
        return read(decoder, data)  # which says what is wrong
    return read(decoder, (data.encode() if isinstance(data, str) else data)[:end])


def read_entity_id(text: str | None) -> EntityId:
    """The id of an entity that may exist. Raises ``EntityNotFound`` for a text that is neither a UUID nor a ULID
    (docs/reference/grpc.md#ids-and-instants).
    """
    found = parse_uuid(text or "") or ulid_to_uuid(text or "")
    if found is None:
        raise EntityNotFound(f"entity id={text or ''} not found")
    return EntityId(found)


def parse_uuid(text: str) -> str | None:
    """A UUID in lower case; None for any other text."""
    return text.lower() if _UUID.fullmatch(text) else None


def document_bytes(data: Raw, media: DataFormat) -> bytes:
    """A document in its format: XML is the text in a JSON string, and any other JSON is taken as it is."""
    if media == "JSON":
        return bytes(data)
    try:
        return msgspec.json.decode(data, type=str).encode()
    except (msgspec.DecodeError, UnicodeError):
        return bytes(data)


def _decode_instant(kind: type, value: object) -> object:
    """The decoder hook for :class:`Instant`: lenient about blanks and missing offsets (decision S10)."""
    assert kind is Instant, kind  # noqa: S101 - the only type of ours that JSON does not know
    if not isinstance(value, str):
        raise TypeError("Expected a date-time")
    micros = from_rfc3339(value)
    if micros is None:
        raise ValueError("Expected a date-time of RFC 3339")
    return Instant(micros)


def _find_defect(data: str | bytes) -> str | None:
    """What is wrong with the JSON, and where; a better text than that of the fast decoder."""
    try:
        decode(data)
    except MalformedJson as malformed:
        return str(malformed)
    return None


NIL: Final = "00000000-0000-0000-0000-000000000000"


class Error(Struct, frozen=True):
    """``code`` is ``CLIENT_ERROR`` or ``SERVER_ERROR``; what happened is told by the beginning of ``message``."""

    code: str
    message: str
    retryable: bool | UnsetType = UNSET


class Response(Struct, frozen=True, kw_only=True, rename="camel"):
    """What all responses have. ``id`` repeats the id of the event that is answered."""

    id: str = ""
    success: bool = True
    error: Error | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET


class CorrelatedResponse(Response, frozen=True, kw_only=True, rename="camel"):
    """``request_id`` repeats the id of the event that is answered, too."""

    request_id: str = ""


class Outcome(Struct, frozen=True):
    """The answers to a request, in order, and what is to be noted on each of them. Making one may fail as the request
    may; it is the last one then.
    """

    responses: Iterable[Response] | AsyncGenerator[Response]
    warnings: tuple[str, ...] = ()

    async def iterate(self) -> AsyncGenerator[Response]:
        """The answers, each made when it is asked for."""
        if not isinstance(self.responses, AsyncGenerator):
            for response in self.responses:
                yield response
            return
        async with aclosing(self.responses) as responses:
            async for response in responses:
                yield response


NO_KEY: Final = ModelKey("", 0)


class ModelInfo(Struct, frozen=True):
    """A registered model."""

    id: str
    name: str
    version: int
    state: str


class TransactionInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a write did."""

    transaction_id: str | UnsetType = UNSET
    entity_ids: tuple[str, ...] = ()


class DataPayload(Struct, frozen=True):
    """An entity, as the text that is stored: no number passes through a float."""

    type: str = "JSON"
    data: Raw | UnsetType = UNSET
    meta: EntityMetadata | UnsetType = UNSET


class ChangeMeta(Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry of an entity's history."""

    change_type: str = ""
    time_of_change: str = "0001-01-01T00:00:00Z"
    user: str = ""
    transaction_id: str | UnsetType = UNSET


class SnapshotStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How an asynchronous search is doing."""

    snapshot_id: str = NIL
    status: str = "FAILED"
    entities_count: int | UnsetType = UNSET


class EntityTransactionResponse(CorrelatedResponse, frozen=True, kw_only=True, rename="camel"):
    """Answers writes."""

    transaction_info: TransactionInfo = TransactionInfo()


class EntityDeleteResponse(CorrelatedResponse, frozen=True, kw_only=True, rename="camel"):
    """Answers the deletion of an entity."""

    entity_id: str = ""
    model: ModelKey = NO_KEY
    transaction_id: str = NIL


class EntityDeleteAllResponse(CorrelatedResponse, frozen=True, kw_only=True, rename="camel"):
    """Answers the deletion of a model's entities."""

    entity_ids: tuple[str, ...] = ()
    model_id: str = ""
    num_deleted: int = 0


class EntityTransitionResponse(Response, frozen=True, kw_only=True, rename="camel"):
    """Answers a fired transition."""


class EntityModelImportResponse(Response, frozen=True, kw_only=True, rename="camel"):
    """Answers the import of a sample."""

    model_id: str = NIL


class EntityModelExportResponse(Response, frozen=True, kw_only=True, rename="camel"):
    """Answers an export."""

    model_id: str = NIL
    model: ModelKey = NO_KEY
    payload: Raw = field(default_factory=lambda: Raw(b"{}"))


class EntityModelTransitionResponse(Response, frozen=True, kw_only=True, rename="camel"):
    """Answers locking and unlocking."""

    model_id: str = NIL
    state: str = ""


class EntityModelDeleteResponse(Response, frozen=True, kw_only=True, rename="camel"):
    """Answers the deletion of a model."""


class EntityModelGetAllResponse(Response, frozen=True, kw_only=True, rename="camel"):
    """Answers the listing of models."""

    models: tuple[ModelInfo, ...] = ()


class EntityModelSetUniqueKeysResponse(EntityModelTransitionResponse, frozen=True, kw_only=True):
    """Answers the replacement of a model's unique keys."""


class EntityResponse(CorrelatedResponse, frozen=True, kw_only=True, rename="camel"):
    """Brings an entity."""

    payload: DataPayload = DataPayload()


class EntitySnapshotSearchResponse(Response, frozen=True, kw_only=True, rename="camel"):
    """Answers whatever is asked of an asynchronous search."""

    status: SnapshotStatus = SnapshotStatus()


class EntityStatsResponse(CorrelatedResponse, frozen=True, kw_only=True, rename="camel"):
    """Brings the number of a model's entities."""

    model_name: str = ""
    model_version: int = 0
    count: int = 0


class EntityStatsByStateResponse(CorrelatedResponse, frozen=True, kw_only=True, rename="camel"):
    """Brings the number of a model's entities in a state."""

    model_name: str = ""
    model_version: int = 0
    state: str = ""
    count: int = 0


class EntityChangesMetadataResponse(CorrelatedResponse, frozen=True, kw_only=True, rename="camel"):
    """Brings an entry of an entity's history."""

    change_meta: ChangeMeta = ChangeMeta()


def single_response(response: Response, warnings: tuple[str, ...] = ()) -> Outcome:
    """An outcome of a single answer."""
    return Outcome((response,), warnings)


def write_response(saved: Saved) -> Outcome:
    """The answer to a write."""
    info = TransactionInfo(transaction_id=saved.transaction_id, entity_ids=saved.entity_ids)
    return single_response(EntityTransactionResponse(transaction_info=info), saved.warnings)


def entity_response(entity: EntityView, model: ModelKey) -> EntityResponse:
    """An entity of a model."""
    meta = EntityMetadata(
        id=entity.id,
        model_key=model,
        state=entity.state,
        creation_date=to_rfc3339(entity.created_at),
        last_update_time=to_rfc3339(entity.updated_at),
        transaction_id=entity.transaction_id,
        transition_for_latest_save=entity.transition or None,
    )
    return EntityResponse(payload=DataPayload(data=Raw(entity.document), meta=meta))


def change_response(change: EntityChange) -> EntityChangesMetadataResponse:
    """An entry of a history. A deletion leaves no version that could be named."""
    return EntityChangesMetadataResponse(
        change_meta=ChangeMeta(
            change_type=change.type,
            time_of_change=to_rfc3339(change.at),
            user=change.attributed.id,
            transaction_id=UNSET if change.type == "DELETE" else change.transaction_id,
        )
    )


def count_response(count: EntityCount) -> EntityStatsResponse:
    """The number of a model's entities."""
    return EntityStatsResponse(model_name=count.model.name, model_version=count.model.version, count=count.count)


def state_count_response(count: EntityCount) -> EntityStatsByStateResponse:
    """The number of a model's entities in a state."""
    return EntityStatsByStateResponse(
        model_name=count.model.name, model_version=count.model.version, state=count.state or "", count=count.count
    )

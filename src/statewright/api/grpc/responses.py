"""The payloads of responses (docs/reference/grpc.md#payload-parts, docs/reference/grpc.md#entitymanage,
docs/reference/grpc.md#failures). A class is called what its event type is called.

The defaults are the placeholders of failures, so the blank answer with an error in it is the failure response.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType, field

from statewright.entity import EntityChange, EntityCount, EntityView, ModelKey
from statewright.instants import to_rfc3339
from statewright.services.writing import Saved

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


class ModelName(Struct, frozen=True):
    """A model by name and version."""

    name: str = ""
    version: int = 0


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


class EntityMeta(Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata of an entity."""

    id: str
    model_key: ModelName
    state: str
    creation_date: str
    last_update_time: str
    transaction_id: str
    transition_for_latest_save: str | UnsetType = UNSET


class DataPayload(Struct, frozen=True):
    """An entity, as the text that is stored: no number passes through a float."""

    type: str = "JSON"
    data: Raw | UnsetType = UNSET
    meta: EntityMeta | UnsetType = UNSET


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
    model: ModelName = ModelName()
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
    model: ModelName = ModelName()
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


class EntityModelSetUniqueKeysResponse(Response, frozen=True, kw_only=True, rename="camel"):
    """Answers the replacement of a model's unique keys."""

    model_id: str = NIL
    state: str = ""


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
    meta = EntityMeta(
        id=entity.id,
        model_key=ModelName(model.name, model.version),
        state=entity.state,
        creation_date=to_rfc3339(entity.created_at),
        last_update_time=to_rfc3339(entity.updated_at),
        transaction_id=entity.transaction_id,
        transition_for_latest_save=entity.transition or UNSET,
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

"""Models over gRPC (spec/grpc.md §9). Administration takes part in no transaction, so tokens are not looked at."""

from typing import Final, Literal

from msgspec import Raw, Struct, field

from statewright.api.grpc.answers import (
    EntityModelDeleteResponse,
    EntityModelExportResponse,
    EntityModelGetAllResponse,
    EntityModelImportResponse,
    EntityModelSetUniqueKeysResponse,
    EntityModelTransitionResponse,
    ModelInfo,
    ModelName,
    Outcome,
    one,
)
from statewright.api.grpc.payloads import NO_MODEL, NULL, DataFormat, ModelSpec, Payload, document_bytes
from statewright.api.grpc.rpc import Rpc, always, operation, unread
from statewright.failures import BadRequest
from statewright.identity import model_id
from statewright.services import models
from statewright.services.runtime import Caller, Runtime

Converter = Literal["SAMPLE_DATA", "SIMPLE_VIEW"]


class ModelRequest(Payload, frozen=True, kw_only=True):
    """What is asked of a model."""

    model: ModelSpec | None

    @property
    def spec(self) -> ModelSpec:
        """The model, without name when it is null."""
        return self.model or NO_MODEL


class Import(ModelRequest, frozen=True, kw_only=True, rename="camel"):
    """``EntityModelImportRequest``"""

    converter: Converter
    data_format: DataFormat
    payload: Raw


class Export(ModelRequest, frozen=True, kw_only=True):
    """``EntityModelExportRequest``"""

    converter: Converter


class UniqueKeys(Struct, frozen=True, rename="camel"):
    """``EntityModelSetUniqueKeysRequest``, of which nothing must be there (spec/grpc.md §6.3)."""

    model: ModelSpec | None = None
    unique_keys: Raw = field(default_factory=lambda: NULL)


class Transition(ModelRequest, frozen=True, kw_only=True):
    """``EntityModelTransitionRequest``"""

    transition: Literal["LOCK", "UNLOCK"]


async def import_sample(runtime: Runtime, caller: Caller, request: Import) -> Outcome:
    """Infer a model from a sample, or extend one that is not locked."""
    key = request.spec.key
    if not key.name:
        raise BadRequest("model name is empty")
    found = await models.import_model(
        runtime,
        caller.principal,
        key=key,
        converter=request.converter,
        media=request.data_format,
        body=document_bytes(request.payload, request.data_format),
    )
    return one(EntityModelImportResponse(model_id=found))


async def export(runtime: Runtime, caller: Caller, request: Export) -> Outcome:
    """The model's schema in an export format, with the model's id (spec/grpc.md §28.8)."""
    key = request.spec.key
    document = await models.export(runtime, caller.principal, key=key, converter=request.converter)
    return one(
        EntityModelExportResponse(
            model_id=model_id(key.name, key.version), model=ModelName(key.name, key.version), payload=Raw(document)
        )
    )


async def transition(runtime: Runtime, caller: Caller, request: Transition) -> Outcome:
    """Lock or unlock a model."""
    key = request.spec.key
    if request.transition == "LOCK":
        locked = await models.lock(runtime, caller.principal, key)
        return one(EntityModelTransitionResponse(model_id=locked, state="LOCKED"))
    unlocked = await models.unlock(runtime, caller.principal, key)
    return one(EntityModelTransitionResponse(model_id=unlocked, state="UNLOCKED"))


async def set_unique_keys(runtime: Runtime, caller: Caller, request: UniqueKeys) -> Outcome:
    """Replace the unique keys of a model, which is not locked, and stays so."""
    key = (request.model or NO_MODEL).key
    body = b'{"uniqueKeys":%b}' % bytes(request.unique_keys)
    found = await models.set_unique_keys(runtime, caller.principal, key=key, body=body)
    return one(EntityModelSetUniqueKeysResponse(model_id=found, state="UNLOCKED"))


async def delete(runtime: Runtime, caller: Caller, request: ModelRequest) -> Outcome:
    """Delete a model."""
    await models.delete(runtime, caller.principal, request.spec.key)
    return one(EntityModelDeleteResponse())


async def listing(runtime: Runtime, caller: Caller) -> Outcome:
    """All models of the tenant."""
    found = await models.listing(runtime, caller.principal)
    infos = [ModelInfo(model.id, model.key.name, model.key.version, model.state) for model in found]
    return one(EntityModelGetAllResponse(models=tuple(infos)))


ENTITY_MODEL_MANAGE: Final = Rpc(
    kind="model",
    operations={
        "EntityModelImportRequest": operation(Import, import_sample, failing=always(EntityModelImportResponse())),
        "EntityModelExportRequest": operation(Export, export, failing=always(EntityModelExportResponse())),
        "EntityModelTransitionRequest": operation(
            Transition, transition, failing=always(EntityModelTransitionResponse())
        ),
        "EntityModelDeleteRequest": operation(ModelRequest, delete, failing=always(EntityModelDeleteResponse())),
        "EntityModelGetAllRequest": unread(listing, failing=EntityModelGetAllResponse()),
        "EntityModelSetUniqueKeysRequest": operation(
            UniqueKeys, set_unique_keys, failing=always(EntityModelSetUniqueKeysResponse())
        ),
    },
    unjoined=None,
)

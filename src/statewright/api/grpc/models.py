"""Models over gRPC (docs/reference/grpc.md#entitymodelmanage). Administration takes part in no transaction, so tokens
are ignored.
"""

from typing import Final, Literal

from msgspec import Raw, Struct, field

from statewright.api.grpc.handlers import RpcMethod, build_operation, build_unread_operation
from statewright.api.grpc.payloads import (
    NO_MODEL,
    NULL,
    DataFormat,
    EntityModelDeleteResponse,
    EntityModelExportResponse,
    EntityModelGetAllResponse,
    EntityModelImportResponse,
    EntityModelSetUniqueKeysResponse,
    EntityModelTransitionResponse,
    ModelInfo,
    ModelRequest,
    ModelSpec,
    Outcome,
    document_bytes,
    single_response,
)
from statewright.failures import BadRequest
from statewright.ids import model_id
from statewright.services import models
from statewright.services.core import Caller
from statewright.services.runtime import Runtime

Converter = Literal["SAMPLE_DATA", "SIMPLE_VIEW"]


class Import(ModelRequest, frozen=True, kw_only=True, rename="camel"):
    """``EntityModelImportRequest``"""

    converter: Converter
    data_format: DataFormat
    payload: Raw


class Export(ModelRequest, frozen=True, kw_only=True):
    """``EntityModelExportRequest``"""

    converter: Converter


class UniqueKeys(Struct, frozen=True, rename="camel"):
    """``EntityModelSetUniqueKeysRequest``, of which nothing must be there (docs/reference/grpc.md#required-members)."""

    model: ModelSpec | None = None
    unique_keys: Raw = field(default_factory=lambda: NULL)


class Transition(ModelRequest, frozen=True, kw_only=True):
    """``EntityModelTransitionRequest``"""

    transition: Literal["LOCK", "UNLOCK"]


async def import_sample(runtime: Runtime, caller: Caller, request: Import) -> Outcome:
    """Infer a model from a sample, or extend one that is not locked."""
    key = request.key
    if not key.name:
        raise BadRequest("model name is empty")
    imported = await models.import_model(
        runtime.core,
        caller.principal,
        key=key,
        converter=request.converter,
        media=request.data_format,
        body=document_bytes(request.payload, request.data_format),
    )
    return single_response(EntityModelImportResponse(model_id=imported.model))


async def export(runtime: Runtime, caller: Caller, request: Export) -> Outcome:
    """The model's schema in an export format, with the model's id (docs/reference/grpc.md#leniencies)."""
    key = request.key
    document = await models.export(runtime.core, caller.principal, key=key, converter=request.converter)
    return single_response(
        EntityModelExportResponse(model_id=model_id(key.name, key.version), model=key, payload=Raw(document))
    )


async def change_state(runtime: Runtime, caller: Caller, request: Transition) -> Outcome:
    """Lock or unlock a model."""
    key = request.key
    if request.transition == "LOCK":
        locked = await models.lock(runtime.core, caller.principal, key)
        return single_response(EntityModelTransitionResponse(model_id=locked, state="LOCKED"))
    unlocked = await models.unlock(runtime.core, caller.principal, key)
    return single_response(EntityModelTransitionResponse(model_id=unlocked, state="UNLOCKED"))


async def set_unique_keys(runtime: Runtime, caller: Caller, request: UniqueKeys) -> Outcome:
    """Replace the unique keys of a model, which is not locked, and stays so."""
    key = (request.model or NO_MODEL).key
    body = b'{"uniqueKeys":%b}' % bytes(request.unique_keys)
    found = await models.set_unique_keys(runtime.core, caller.principal, key=key, body=body)
    return single_response(EntityModelSetUniqueKeysResponse(model_id=found, state="UNLOCKED"))


async def delete(runtime: Runtime, caller: Caller, request: ModelRequest) -> Outcome:
    """Delete a model."""
    await models.delete(runtime.core, caller.principal, request.key)
    return single_response(EntityModelDeleteResponse())


async def list_models(runtime: Runtime, caller: Caller) -> Outcome:
    """All models of the tenant."""
    found = await models.list_models(runtime.core, caller.principal)
    infos = [ModelInfo(model.id, model.key.name, model.key.version, model.state) for model in found]
    return single_response(EntityModelGetAllResponse(models=tuple(infos)))


ENTITY_MODEL_MANAGE: Final = RpcMethod(
    kind="model",
    operations={
        "EntityModelImportRequest": build_operation(
            Import, import_sample, failing=EntityModelImportResponse(), recording="transaction"
        ),
        "EntityModelExportRequest": build_operation(Export, export, failing=EntityModelExportResponse()),
        "EntityModelTransitionRequest": build_operation(
            Transition, change_state, failing=EntityModelTransitionResponse(), recording="transaction"
        ),
        "EntityModelDeleteRequest": build_operation(
            ModelRequest, delete, failing=EntityModelDeleteResponse(), recording="transaction"
        ),
        "EntityModelGetAllRequest": build_unread_operation(list_models, failing=EntityModelGetAllResponse()),
        "EntityModelSetUniqueKeysRequest": build_operation(
            UniqueKeys, set_unique_keys, failing=EntityModelSetUniqueKeysResponse(), recording="transaction"
        ),
    },
    unjoined=None,
)

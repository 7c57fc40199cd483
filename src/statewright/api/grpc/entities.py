"""Single entities over gRPC (docs/reference/grpc.md#entitymanage)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal

from msgspec import Raw, Struct

from statewright.api.grpc.handlers import RpcMethod, always_respond, build_operation
from statewright.api.grpc.idempotency import answer_with
from statewright.api.grpc.payloads import (
    NO_MODEL,
    NULL,
    DataFormat,
    Int64,
    ModelSpec,
    Payload,
    Text,
    document_bytes,
    parse_entity_id,
)
from statewright.api.grpc.responses import (
    EntityDeleteResponse,
    EntityTransactionResponse,
    EntityTransitionResponse,
    ModelName,
    Outcome,
    single_response,
    write_response,
)
from statewright.background import run_by_size
from statewright.failures import BadRequest, PreconditionRequired
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.patches import PatchFailed, apply_json_patch, apply_merge_patch
from statewright.jsonval.values import JsonValue
from statewright.services import entities
from statewright.services.entities import DeletionResult
from statewright.services.runtime import Caller, Runtime
from statewright.services.writing import Saved

PatchFormat = Literal["MERGE_PATCH", "JSON_PATCH"]

DIALECTS: Final[Mapping[PatchFormat, Callable[[JsonValue, JsonValue], JsonValue]]] = {
    "MERGE_PATCH": apply_merge_patch,
    "JSON_PATCH": apply_json_patch,
}
"""RFC 7396 and, which other servers lack, RFC 6902."""


class NewEntity(Struct, frozen=True, kw_only=True):
    """A document of a model."""

    model: ModelSpec | None
    data: Raw


class NewVersion(Struct, frozen=True, kw_only=True, rename="camel"):
    """A document for an entity, and the transition to fire with it; none when its name is null or empty."""

    entity_id: Text | None
    data: Raw
    transition: Text | None = None


class Create(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityCreateRequest``"""

    data_format: DataFormat
    payload: NewEntity | None
    transaction_timeout_ms: Int64 | None = None


class Update(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityUpdateRequest``"""

    data_format: DataFormat
    payload: NewVersion | None
    transaction_timeout_ms: Int64 | None = None


class Change(Struct, frozen=True, kw_only=True, rename="camel"):
    """A patch for an entity at a version."""

    entity_id: Text | None
    patch: Raw
    if_match: Text | None = None
    transition: Text | None = None


class Patch(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityPatchRequest``"""

    patch_format: PatchFormat
    payload: Change | None
    transaction_timeout_ms: Int64 | None = None


class Delete(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityDeleteRequest``"""

    entity_id: Text | None


class Transition(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityTransitionRequest``"""

    entity_id: Text | None
    transition: Text | None


NO_ENTITY: Final = NewEntity(model=NO_MODEL, data=NULL)
NO_VERSION: Final = NewVersion(entity_id="", data=NULL)
NO_CHANGE: Final = Change(entity_id="", patch=NULL)

ANY_VERSION: Final = "*"


async def create(runtime: Runtime, caller: Caller, request: Create) -> Outcome:
    """Create one entity."""
    new = request.payload or NO_ENTITY
    body = document_bytes(new.data, request.data_format)
    key = (new.model or NO_MODEL).key
    caller = answer_with(caller, write_response)
    return write_response(await entities.create(runtime, caller, key=key, media=request.data_format, body=body))


async def update(runtime: Runtime, caller: Caller, request: Update) -> Outcome:
    """Replace an entity's document."""
    new = request.payload or NO_VERSION
    saved = await entities.update(
        runtime,
        answer_with(caller, write_response),
        parse_entity_id(new.entity_id),
        media=request.data_format,
        body=document_bytes(new.data, request.data_format),
        transition=new.transition or None,
    )
    return write_response(saved)


async def patch(runtime: Runtime, caller: Caller, request: Patch) -> Outcome:
    """Change an entity's document in part."""
    change = request.payload or NO_CHANGE
    if not change.if_match:
        raise PreconditionRequired("ifMatch must be the transactionId of the last read, or * for any version")
    size = len(bytes(change.patch))
    saved = await entities.patch(
        runtime,
        answer_with(caller, write_response),
        parse_entity_id(change.entity_id),
        change=await run_by_size(size, partial(_make_patch, DIALECTS[request.patch_format], change.patch)),
        size=size,
        transition=change.transition or None,
        if_match=None if change.if_match == ANY_VERSION else change.if_match,
    )
    return write_response(saved)


def _make_patch(dialect: Callable[[JsonValue, JsonValue], JsonValue], raw: Raw) -> entities.Patch:
    try:
        patch = decode(bytes(raw))
    except MalformedJson as malformed:
        raise BadRequest(f"invalid patch: {malformed}") from malformed

    def apply_patch(document: JsonValue) -> JsonValue:
        try:
            return dialect(document, patch)
        except PatchFailed as failed:
            raise BadRequest(f"the patch cannot be applied: {failed}") from failed

    return apply_patch


async def delete(runtime: Runtime, caller: Caller, request: Delete) -> Outcome:
    """Delete an entity; its history stays."""
    caller = answer_with(caller, _delete_response)
    return _delete_response(await entities.delete(runtime, caller, parse_entity_id(request.entity_id)))


def _delete_response(deleted: DeletionResult) -> Outcome:
    return single_response(
        EntityDeleteResponse(
            entity_id=deleted.entity_id,
            model=ModelName(deleted.model.name, deleted.model.version),
            transaction_id=deleted.transaction_id,
        )
    )


async def fire(runtime: Runtime, caller: Caller, request: Transition) -> Outcome:
    """Fire a transition, or look for automated ones when none is named."""
    caller = answer_with(caller, _transition_response)
    saved = await entities.fire_transition(
        runtime, caller, parse_entity_id(request.entity_id), transition=request.transition or None
    )
    return _transition_response(saved)


def _transition_response(saved: Saved) -> Outcome:
    return single_response(EntityTransitionResponse(), saved.warnings)


WRITE_FAILED: Final = EntityTransactionResponse()

ENTITY_MANAGE: Final = RpcMethod(
    kind="entity",
    operations={
        "EntityCreateRequest": build_operation(
            Create, create, failing=always_respond(WRITE_FAILED), recording="only commit"
        ),
        "EntityUpdateRequest": build_operation(
            Update, update, failing=always_respond(WRITE_FAILED), recording="only commit"
        ),
        "EntityPatchRequest": build_operation(
            Patch, patch, failing=always_respond(WRITE_FAILED), recording="only commit"
        ),
        "EntityDeleteRequest": build_operation(
            Delete,
            delete,
            failing=lambda request: EntityDeleteResponse(entity_id=request.entity_id or ""),
            recording="only commit",
        ),
        "EntityTransitionRequest": build_operation(
            Transition, fire, failing=always_respond(EntityTransitionResponse()), recording="only commit"
        ),
    },
    unjoined=WRITE_FAILED,
    first_value_counts=True,
)

"""Suspending and resuming (docs/reference/operations.md#suspensions)."""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct

from statewright.api.http.ops.bodies import read_body, refuse_member
from statewright.api.http.ops.lists import PAGING, build_list_response, read_page_request
from statewright.api.http.ops.route import ADMIN, OPERATOR, OpsRoute
from statewright.api.http.ops.wait import read_instance_id
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.entity import Actor, ModelKey
from statewright.failures import Forbidden, InvalidParameter
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.net import uuid_to_ulid
from statewright.services.ops import suspensions
from statewright.services.ops.suspensions import SuspensionFilter, SuspensionKey, SuspensionState
from statewright.suspensions import SCOPES, Scope, Target, TimerPolicy

_Reason = Annotated[str, Meta(min_length=1, max_length=500)]
_Name = Annotated[str, Meta(min_length=1, max_length=256)]


class ModelBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A model by name and version."""

    name: _Name
    version: Annotated[int, Meta(ge=1, le=2**31 - 1)]


class SuspensionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be suspended; which members there are depends on the scope."""

    scope: Scope
    reason: _Reason
    id: str | None = None
    definitionId: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None  # noqa: N815 - as clients write it
    model: ModelBody | None = None
    workflow: _Name | None = None
    transition: _Name | None = None
    name: _Name | None = None
    until: str | None = None


class ResumptionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """How things are to go on."""

    timers: TimerPolicy = "FIRE"
    reason: _Reason | None = None


TARGET_MEMBERS: Final = ("id", "model", "workflow", "transition", "definitionId", "name")

NEEDED: Final[Mapping[Scope, tuple[str, ...]]] = {
    "ENTITY": ("id",),
    "INSTANCE": ("id",),
    "MODEL": ("model",),
    "WORKFLOW": ("model", "workflow"),
    "TRANSITION": ("model", "transition"),
    "DEFINITION": ("definitionId",),
    "JOB_TYPE": ("name",),
    "TAG": ("name",),
    "TENANT": (),
}
"""The members that the target of a scope has; ``TRANSITION`` may also have ``workflow``."""

FILTERS: Final = (
    Query("scope", "string", ", ".join(SCOPES), repeatable=True),
    Query("model", "string", "name of the model"),
    Query("entityId", "string", "the suspensions of this entity or instance", "uuid"),
    Query("active", "boolean", "only those that hold, or that have ended"),
)


async def suspend(request: Request) -> Response:
    """Stop movement at a chosen place, on every node."""
    body = await read_body(request, SuspensionBody)
    target = _read_target(body)
    if body.scope == "TENANT" and ADMIN not in request.principal.roles:
        raise Forbidden(f"suspending a tenant needs {ADMIN}")
    until = None if body.until is None else from_rfc3339(body.until)
    if body.until is not None and until is None:
        raise refuse_member("/until", "not an instant of RFC 3339")

    async def respond(state: SuspensionState) -> Response:
        return Response(encode_json(_describe(state)), 201)

    caller = request.answer_with(respond)
    return await respond(
        await suspensions.suspend(
            request.runtime, caller, scope=body.scope, target=target, reason=body.reason, until=until
        )
    )


async def resume(request: Request) -> Response:
    """Let movement go on."""
    body = await read_body(request, ResumptionBody)

    async def respond(state: SuspensionState) -> Response:
        return Response(encode_json(_describe(state)))

    caller = request.answer_with(respond)
    return await respond(
        await suspensions.resume(request.runtime, caller, _read_id(request), timers=body.timers, reason=body.reason)
    )


async def list_suspensions(request: Request) -> Response:
    """Suspensions, newest first."""
    scopes = request.query_all("scope")
    if any(scope not in SCOPES for scope in scopes):
        raise InvalidParameter("scope")
    entity_id = request.query("entityId")
    wanted = SuspensionFilter(
        scopes=scopes or None,
        model=request.query("model"),
        entity_id=None if entity_id is None else uuid_text("entityId", entity_id),
        is_active=None if request.query("active") is None else request.query_flag("active"),
    )
    page = read_page_request(request, FILTERS, SuspensionKey)
    found = await suspensions.list_suspensions(request.runtime, request.caller, wanted, page)
    return build_list_response(request, FILTERS, found, _describe)


async def get_suspension(request: Request) -> Response:
    """One suspension, active or ended."""
    return Response(
        encode_json(_describe(await suspensions.get_suspension(request.runtime, request.caller, _read_id(request))))
    )


def _read_id(request: Request) -> str:
    return uuid_text("suspensionId", request.path_params["suspensionId"])


def _read_target(body: SuspensionBody) -> Target:
    allowed = {*NEEDED[body.scope], *(("workflow",) if body.scope == "TRANSITION" else ())}
    for member in TARGET_MEMBERS:
        given = getattr(body, member) is not None
        if member in NEEDED[body.scope] and not given:
            raise refuse_member(f"/{member}", f"required with the scope {body.scope}")
        if given and member not in allowed:
            raise refuse_member(f"/{member}", f"not a member of the scope {body.scope}")
    return Target(
        id=None if body.id is None else _read_target_id(body.scope, body.id),
        model=None if body.model is None else ModelKey(body.model.name, body.model.version),
        workflow=body.workflow,
        transition=body.transition,
        definition=body.definitionId,
        name=body.name,
    )


def _read_target_id(scope: Scope, text: str) -> str:
    if scope == "INSTANCE":
        return read_instance_id(text)
    return uuid_text("id", text)


def _describe(state: SuspensionState) -> dict[str, object]:
    suspension = state.suspension
    target = suspension.target
    optional: dict[str, object] = {
        "entityId": target.id if suspension.scope == "ENTITY" else None,
        "instanceId": uuid_to_ulid(target.id) if target.id is not None and suspension.scope == "INSTANCE" else None,
        "definitionId": target.definition,
        "model": None if target.model is None else {"name": target.model.name, "version": target.model.version},
        "workflow": target.workflow,
        "transition": target.transition,
        "name": target.name,
        "effectiveAt": None if suspension.effective_at is None else to_rfc3339(suspension.effective_at),
        "endedAt": None if suspension.ended_at is None else to_rfc3339(suspension.ended_at),
        "endedBy": None if suspension.ended_by is None else _describe_actor(suspension.ended_by),
        "endReason": suspension.end_reason,
        "timers": suspension.timers,
    }
    shown: dict[str, object] = {
        "id": suspension.id,
        "scope": suspension.scope,
        "reason": suspension.reason,
        "since": to_rfc3339(suspension.since),
        "by": _describe_actor(suspension.by),
        "until": None if suspension.until is None else to_rfc3339(suspension.until),
        "active": suspension.ended_at is None,
        "effective": state.is_effective,
        "pendingNodes": list(state.pending_nodes),
        "underWay": state.under_way,
    }
    return shown | {name: value for name, value in optional.items() if value is not None}


def _describe_actor(actor: Actor) -> dict[str, object]:
    return {"id": actor.id, "kind": actor.kind}


SUSPENSIONS: Final = (
    OpsRoute(
        method="POST",
        path="/ops/v1/suspensions",
        endpoint=suspend,
        id="suspend",
        summary="Stop movement at a chosen place, on every node",
        role=OPERATOR,
        recording="commit",
        body="OpsNewSuspension",
        reply="OpsSuspension",
        status=201,
        problems=(
            "BAD_REQUEST",
            "FORBIDDEN",
            "ENTITY_NOT_FOUND",
            "STEP_NOT_FOUND",
            "ALREADY_EXISTS",
            "LIMIT_REACHED",
        ),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/suspensions",
        endpoint=list_suspensions,
        id="listSuspensions",
        summary="What is or was suspended, newest first",
        query=(*FILTERS, *PAGING),
        reply="OpsSuspensions",
        problems=("BAD_REQUEST",),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/suspensions/{suspensionId}",
        endpoint=get_suspension,
        id="getSuspension",
        summary="One suspension, active or ended",
        reply="OpsSuspension",
        problems=("BAD_REQUEST", "SUSPENSION_NOT_FOUND"),
    ),
    OpsRoute(
        method="POST",
        path="/ops/v1/suspensions/{suspensionId}/resume",
        endpoint=resume,
        id="resume",
        summary="Let movement go on",
        role=OPERATOR,
        recording="commit",
        body="OpsResumption",
        reply="OpsSuspension",
        problems=("BAD_REQUEST", "FORBIDDEN", "SUSPENSION_NOT_FOUND"),
    ),
)

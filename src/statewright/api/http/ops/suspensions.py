"""Suspending and resuming (docs/reference/operations.md#suspensions)."""

from collections.abc import Mapping
from typing import Final

from statewright.api.http.ops.paging import build_list_response, read_page_request, read_words
from statewright.api.http.ops.route import ADMIN, read_body, read_id, read_instance_id, refuse_member, serve, serve_act
from statewright.api.http.request import Request, read_entity_id
from statewright.api.http.response import Response, encode_json
from statewright.conditions.wire import parse_tags
from statewright.entity import ModelKey
from statewright.failures import Forbidden
from statewright.instants import from_rfc3339
from statewright.operations.active_suspensions import Target
from statewright.operations.suspensions import SCOPES, Resumption, Scope, SuspensionOrder
from statewright.operations.table import GET_SUSPENSION, LIST_SUSPENSIONS, RESUME, SUSPEND
from statewright.services.ops import suspensions
from statewright.services.ops.suspensions import SuspensionFilter, SuspensionKey, SuspensionState, show_suspension

TARGET_MEMBERS: Final = {
    "id": "id",
    "model": "model",
    "workflow": "workflow",
    "transition": "transition",
    "definition_id": "definitionId",
    "name": "name",
}
"""By what they are called here, as clients write them."""

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


@serve(SUSPEND)
async def suspend(request: Request) -> Response:
    """Stop movement at a chosen place, on every node."""
    body = await read_body(request, SuspensionOrder)
    target = _read_target(body)
    if body.scope == "TENANT" and ADMIN not in request.principal.roles:
        raise Forbidden(f"suspending a tenant needs {ADMIN}")
    until = None if body.until is None else from_rfc3339(body.until)
    if body.until is not None and until is None:
        raise refuse_member("/until", "not an instant of RFC 3339")

    async def respond(state: SuspensionState) -> Response:
        return Response(encode_json(show_suspension(state)), 201)

    caller = request.answer_with(respond)
    return await respond(
        await suspensions.suspend(
            request.runtime.core,
            request.runtime.operations.concerns.suspensions,
            caller,
            scope=body.scope,
            target=target,
            reason=body.reason,
            until=until,
        )
    )


resume = serve_act(
    RESUME,
    Resumption,
    lambda runtime, caller, id_, body: suspensions.resume(
        runtime.core,
        runtime.operations.concerns.suspensions,
        caller,
        id_,
        timers=body.timers,
        reason=body.reason,
    ),
    show_suspension,
)


@serve(LIST_SUSPENSIONS)
async def list_suspensions(request: Request) -> Response:
    """Suspensions, newest first."""
    scopes, entity_id = read_words(request, "scope", SCOPES), request.query("entityId")
    wanted = SuspensionFilter(
        scopes=scopes,
        model=request.query("model"),
        entity_id=None if entity_id is None else read_entity_id("entityId", entity_id),
        is_active=None if request.query("active") is None else request.query_flag("active"),
    )
    page = read_page_request(request, LIST_SUSPENSIONS, SuspensionKey)
    found = await suspensions.list_suspensions(
        request.runtime.core, request.runtime.operations.concerns.suspensions, request.caller, wanted, page
    )
    return build_list_response(request, LIST_SUSPENSIONS, found, show_suspension)


@serve(GET_SUSPENSION)
async def get_suspension(request: Request) -> Response:
    """One suspension, active or ended."""
    runtime, id_ = request.runtime, read_id(request, GET_SUSPENSION)
    found = await suspensions.get_suspension(runtime.core, runtime.operations.concerns.suspensions, request.caller, id_)
    return Response(encode_json(show_suspension(found)))


def _read_target(body: SuspensionOrder) -> Target:
    allowed = {*NEEDED[body.scope], *(("workflow",) if body.scope == "TRANSITION" else ())}
    for field, member in TARGET_MEMBERS.items():
        given = getattr(body, field) is not None
        if member in NEEDED[body.scope] and not given:
            raise refuse_member(f"/{member}", f"required with the scope {body.scope}")
        if given and member not in allowed:
            raise refuse_member(f"/{member}", f"not a member of the scope {body.scope}")
    return Target(
        id=None if body.id is None else _read_target_id(body.scope, body.id),
        model=None if body.model is None else ModelKey(body.model.name, body.model.version),
        workflow=body.workflow,
        transition=body.transition,
        definition=body.definition_id,
        name=None if body.name is None else _read_name(body.scope, body.name),
    )


def _read_name(scope: Scope, name: str) -> str:
    """Tags are the same in whatever case, and two names in one are none that a callout has."""
    if scope != "TAG":
        return name
    tags = parse_tags(name)
    if len(tags) != 1:
        raise refuse_member("/name", "not one tag")
    return tags[0]


def _read_target_id(scope: Scope, text: str) -> str:
    if scope == "INSTANCE":
        return read_instance_id(text)
    return read_entity_id("id", text)

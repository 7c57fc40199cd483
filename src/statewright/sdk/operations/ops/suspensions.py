"""Stopping movement at a chosen place, and letting it go on (docs/reference/operations.md#suspensions)."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.sdk.operations.calls import (
    Instant,
    Operation,
    Page,
    Script,
    build_key_header,
    build_query,
    quote_segment,
)
from statewright.sdk.operations.ops.answers import (
    Actor,
    ModelRef,
    build_call,
    build_reader,
    read_list,
    repeat_parameter,
)

Scope: TypeAlias = Literal[
    "ENTITY", "INSTANCE", "MODEL", "WORKFLOW", "TRANSITION", "DEFINITION", "JOB_TYPE", "TAG", "TENANT"
]


class Suspension(Struct, frozen=True, rename="camel", kw_only=True):
    """A suspension. It is ``effective`` when all nodes act by it; ``under_way`` counts what began before, and comes to
    its end.
    """

    id: str
    scope: str
    reason: str
    since: str
    by: Actor
    active: bool
    effective: bool
    pending_nodes: tuple[str, ...]
    under_way: int
    until: str | None = None
    effective_at: str | None = None
    entity_id: str | None = None
    instance_id: str | None = None
    model: ModelRef | None = None
    workflow: str | None = None
    transition: str | None = None
    definition_id: str | None = None
    name: str | None = None
    ended_at: str | None = None
    ended_by: Actor | None = None
    end_reason: str | None = None
    timers: str | None = None


def suspend(
    scope: Scope,
    *,
    reason: str,
    id: str | None = None,  # noqa: A002 - the member's own name
    model: tuple[str, int] | None = None,
    workflow: str | None = None,
    transition: str | None = None,
    definition_id: str | None = None,
    name: str | None = None,
    until: Instant | None = None,
    idempotency_key: str | None = None,
) -> Operation[Suspension]:
    """Stop movement on every node; ``until`` ends it by itself. For operators, TENANT for administrators.

    Which of the others say what is suspended depends on the scope (docs/reference/operations.md#suspensions): ``id`` of
    an entity or instance, ``name`` of a tag or type of jobs, ``model`` as name and version.
    """
    given = {"id": id, "workflow": workflow, "transition": transition, "definitionId": definition_id, "name": name}
    body: dict[str, object] = {"scope": scope, "reason": reason}
    body.update(build_query(until=until))
    body |= {member: value for member, value in given.items() if value is not None}
    if model is not None:
        body["model"] = {"name": model[0], "version": model[1]}
    headers = build_key_header(idempotency_key)
    return Operation(build_call("suspend", "POST", "/suspensions", headers=headers, body=body), _read_suspension)


def resume(
    suspension_id: str,
    *,
    timers: Literal["FIRE", "SHIFT"] = "FIRE",
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Operation[Suspension]:
    """End a suspension: timers that came due fire once, or all move on by the length of the pause. For operators."""
    body: dict[str, object] = {"timers": timers}
    if reason is not None:
        body["reason"] = reason
    path = f"/suspensions/{quote_segment(suspension_id)}/resume"
    headers = build_key_header(idempotency_key)
    call = build_call("resume", "POST", path, target=(suspension_id,), headers=headers, body=body)
    return Operation(call, _read_suspension)


def get(suspension_id: str) -> Operation[Suspension]:
    """The suspension, whether it holds or has ended."""
    path = f"/suspensions/{quote_segment(suspension_id)}"
    return Operation(build_call("suspension", "GET", path, target=(suspension_id,)), _read_suspension)


def list_all(
    *,
    scopes: Sequence[Scope] = (),
    model: str | None = None,
    entity_id: str | None = None,
    active: bool | None = None,
) -> Script[Page[Suspension]]:
    """Suspensions, newest first; ``model`` is a name, ``active`` ones hold."""
    query = (*repeat_parameter("scope", scopes), *build_query(model=model, entityId=entity_id, active=active))
    return (yield from read_list("suspensions", "/suspensions", Suspension, query))


_read_suspension = build_reader(Suspension)

"""Stopping movement at a chosen place, and letting it go on (docs/reference/operations.md#suspensions)."""

from collections.abc import Sequence
from typing import Literal

from statewright.operations import suspensions, table
from statewright.sdk.exchange import Items, make_method
from statewright.sdk.operations.calls import Instant, Operation, Page, Script, build_query
from statewright.sdk.operations.ops.work import read_list, request


def suspend(
    scope: suspensions.Scope,
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
) -> Operation[suspensions.SuspensionView]:
    """Stop movement on every node; ``until`` ends it by itself. For operators, TENANT for administrators.

    Which of the others say what is suspended depends on the scope (docs/reference/operations.md#suspensions): ``id`` of
    an entity or instance, ``name`` of a tag or type of jobs, ``model`` as name and version.
    """
    body = suspensions.SuspensionOrder(
        scope=scope,
        reason=reason,
        id=id,
        model=None if model is None else suspensions.NamedModel(name=model[0], version=model[1]),
        workflow=workflow,
        transition=transition,
        definition_id=definition_id,
        name=name,
        until=dict(build_query(until=until)).get("until"),
    )
    return request(table.SUSPEND, body=body, key=idempotency_key)


def resume(
    suspension_id: str,
    *,
    timers: Literal["FIRE", "SHIFT"] = "FIRE",
    reason: str | None = None,
    idempotency_key: str | None = None,
) -> Operation[suspensions.SuspensionView]:
    """End a suspension: timers that came due fire once, or all move on by the length of the pause. For operators."""
    return request(
        table.RESUME, suspension_id, body=suspensions.Resumption(timers=timers, reason=reason), key=idempotency_key
    )


def get(suspension_id: str) -> Operation[suspensions.SuspensionView]:
    """The suspension, whether it holds or has ended."""
    return request(table.GET_SUSPENSION, suspension_id)


def list_all(
    *,
    scopes: Sequence[suspensions.Scope] = (),
    model: str | None = None,
    entity_id: str | None = None,
    active: bool | None = None,
) -> Script[Page[suspensions.SuspensionView]]:
    """Suspensions, newest first; ``model`` is a name, ``active`` ones hold."""
    return read_list(
        table.LIST_SUSPENSIONS, query={"scope": scopes, "model": model, "entityId": entity_id, "active": active}
    )


class SuspensionMethods:
    """The methods of ``Client.suspensions``."""

    list = Items(list_all)
    get = make_method(get)
    suspend = make_method(suspend)
    resume = make_method(resume)

"""The audit trail of an entity (docs/reference/workflows.md#audit)."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from statewright.jsonval.values import JsonObject
from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    Instant,
    Operation,
    Page,
    Script,
    ask,
    build_call,
    build_query,
    to_object,
)

EventKind: TypeAlias = Literal["StateMachine", "EntityChange"]


class AuditEvent(Struct, frozen=True, kw_only=True):
    """An entry of the trail: a step of a run (``kind`` StateMachine) or a version (EntityChange).

    ``data`` has the facts of an event, such as the ``reason`` of a criterion (docs/reference/events.md#events-of-runs),
    ``details`` the whole entry as the service writes it.
    """

    kind: str
    type: str
    time: str
    transaction_id: str
    state: str
    text: str
    data: JsonObject
    details: JsonObject


def events(
    entity_id: str,
    *,
    kinds: Sequence[EventKind] = (),
    transaction_id: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    size: int = MAX_PAGE_SIZE,
    cursor: str | None = None,
) -> Script[Page[AuditEvent]]:
    """What happened to the entity, newest first: its versions and every step of every run. ``until`` is exclusive."""
    times = {"fromUtcTime": since, "toUtcTime": until}
    query = build_query(**times, transactionId=transaction_id, limit=size, cursor=cursor)
    asked = (*(("eventType", kind) for kind in kinds), *query)
    call = build_call("audit_events", "GET", "/audit/entity/{}", entity_id, query=asked)
    found = yield from ask(Operation(call, _decode_trail))
    items = [_to_event(item) for item in found.items]
    if not found.pagination.has_next:
        return Page(items)
    onward = partial(events, entity_id, kinds=kinds, transaction_id=transaction_id, since=since, until=until, size=size)
    return Page(items, partial(onward, cursor=found.pagination.next_cursor))


class _Pagination(Struct, frozen=True, rename="camel"):
    has_next: bool = False
    next_cursor: str | None = None


class _Trail(Struct, frozen=True):
    items: list[msgspec.Raw]
    pagination: _Pagination = _Pagination()


_decode_trail = msgspec.json.Decoder(_Trail).decode


def _to_event(item: msgspec.Raw) -> AuditEvent:
    details = to_object(item)
    data = details.get("data")

    def get_text(name: str) -> str:
        value = details.get(name)
        return value if isinstance(value, str) else ""

    return AuditEvent(
        kind=get_text("auditEventType"),
        type=get_text("eventType") or get_text("changeType"),
        time=get_text("utcTime"),
        transaction_id=get_text("transactionId"),
        state=get_text("state"),
        text=get_text("details"),
        data=data if isinstance(data, dict) else {},
        details=details,
    )

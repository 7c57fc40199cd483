"""What was done, and who asks: transactions, events of runs, acts of operators, keys of requests, settings
(docs/reference/operations.md).
"""

from collections.abc import Sequence

from msgspec import Struct

from statewright.sdk.operations.calls import MAX_PAGE_SIZE, Instant, Operation, Page, Script, build_query, quote_segment
from statewright.sdk.operations.ops.answers import (
    Actor,
    Members,
    ModelRef,
    build_call,
    build_reader,
    read_list,
    repeat_parameter,
)


class Asker(Struct, frozen=True):
    """Who asks."""

    id: str
    kind: str
    roles: tuple[str, ...]


class ApiDescription(Struct, frozen=True):
    """What the service offers, and who asks."""

    version: str
    features: tuple[str, ...]
    principal: Asker
    tenant: str


class WrittenEntity(Struct, frozen=True, rename="camel", kw_only=True):
    """An entity that a transaction has written. What is empty or None is not known: its versions were pruned."""

    entity_id: str
    at: str
    events: int
    versions: int
    model: ModelRef | None = None
    state: str = ""
    transition: str = ""
    change_type: str = ""


class EntityChange(Struct, frozen=True, rename="camel", kw_only=True):
    """What a run has done to an entity. What is empty or None is not known: its versions were pruned."""

    at: str
    entity_id: str
    transaction_id: str
    events: int
    model: ModelRef | None = None
    state: str = ""
    transition: str = ""
    change_type: str = ""
    attributed_to: Actor | None = None
    executed_by: Actor | None = None


class RunEvent(Struct, frozen=True, rename="camel", kw_only=True):
    """An event of a run of an entity."""

    at: str
    transaction_id: str
    event_type: str
    details: str
    data: Members | None = None
    state: str = ""


class OperatorAct(Struct, frozen=True, rename="camel", kw_only=True):
    """What an operator has done."""

    id: str
    at: str
    actor: Actor
    action: str
    target: Actor
    details: Members
    reason: str | None = None
    trace_id: str | None = None


class KeyRecord(Struct, frozen=True, rename="camel", kw_only=True):
    """What became of a request with an idempotency key: DONE, IN_PROGRESS or INTERRUPTED."""

    status: str
    entity_ids: tuple[str, ...]
    created_at: str
    expires_at: str
    transaction_id: str | None = None
    answer_status: int | None = None


class Setting(Struct, frozen=True, kw_only=True):
    """A setting of the node that answered. ``variable`` is where it came from, None: it has its default."""

    name: str
    section: str
    value: str | None
    variable: str | None
    meaning: str


def describe() -> Operation[ApiDescription]:
    """What the service offers, and who asks."""
    return Operation(build_call("describe", "GET", ""), _read_description)


def transaction(transaction_id: str) -> Script[Page[WrittenEntity]]:
    """The entities that a transaction has written, by id."""
    path = f"/transactions/{quote_segment(transaction_id)}/entities"
    return (yield from read_list("transaction", path, WrittenEntity, (), target=(transaction_id,)))


def changes(
    *,
    model: str | None = None,
    actor: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    size: int = MAX_PAGE_SIZE,
) -> Script[Page[EntityChange]]:
    """What runs have done to entities, newest first; ``model`` is a name, ``until`` exclusive. The service looks
    backwards in time: iterate over the whole only with ``since``.
    """
    query = build_query(model=model, actor=actor, atFrom=since, atTo=until)
    return (yield from read_list("changes", "/changes", EntityChange, query, size=size))


def events(entity_id: str, *, transaction_id: str | None = None) -> Script[Page[RunEvent]]:
    """The events of the runs of an entity, those of the newest run first."""
    path = f"/entities/{quote_segment(entity_id)}/events"
    query = build_query(transactionId=transaction_id)
    return (yield from read_list("events", path, RunEvent, query, target=(entity_id,)))


def audit(
    *,
    actions: Sequence[str] = (),
    actor: str | None = None,
    target_kind: str | None = None,
    target_id: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
) -> Script[Page[OperatorAct]]:
    """What operators have done, newest first; an ``action`` is such as ``entity.restore``. For operators."""
    query = (
        *repeat_parameter("action", actions),
        *build_query(actor=actor, targetKind=target_kind, targetId=target_id, atFrom=since, atTo=until),
    )
    return (yield from read_list("acts", "/audit", OperatorAct, query))


def idempotency(key: str, *, principal: str | None = None) -> Operation[KeyRecord]:
    """What became of a request with an idempotency key; of another principal, for operators."""
    path = f"/idempotency/{quote_segment(key)}"
    call = build_call("idempotency", "GET", path, target=(key,), query=build_query(principal=principal))
    return Operation(call, _read_key)


def settings() -> Operation[list[Setting]]:
    """The settings of the node that answers; secrets are not told. For administrators."""
    return Operation(build_call("settings", "GET", "/settings"), lambda body: _read_settings(body).items)


class _Settings(Struct, frozen=True):
    items: list[Setting]


_read_description = build_reader(ApiDescription)
_read_key = build_reader(KeyRecord)
_read_settings = build_reader(_Settings)

"""Use cases on the audit trail (docs/reference/workflows.md#audit)."""

from collections.abc import Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Final

from msgspec import Struct

from statewright.entity import VERSION, AuditEvent, EntityChange, Principal
from statewright.failures import EntityNotFound
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.services.core import Core
from statewright.storage import entities, versions
from statewright.storage.versions import TrailEvent

EVENT_SEVERITY: Final = "INFO"
"""Of every event there is."""


class TrailPosition(Struct, frozen=True, order=True, array_like=True):
    """Where an item stands in the trail of its entity, which is told backwards: by time, and at one instant a version
    after events. The rest makes the order total: events of two runs can have the same instant.
    """

    at: int
    is_change: bool
    filed_at: int
    transaction: str
    number: int


class AuditQuery(Struct, frozen=True, kw_only=True):
    """Which items of a trail are wanted. ``since`` is inclusive, ``before`` exclusive, both in epoch microseconds."""

    types: frozenset[str]
    severity: str | None = None
    since: int | None = None
    before: int | None = None
    transaction: TransactionId | None = None
    after: TrailPosition | None = None
    """Only what is told behind the item that stands there."""


class EntityChanged(Struct, frozen=True):
    """A version was written."""

    change: EntityChange

    @property
    def at(self) -> int:
        return self.change.at

    @property
    def transaction(self) -> TransactionId:
        return self.change.transaction_id

    @property
    def position(self) -> TrailPosition:
        return TrailPosition(self.at, is_change=True, transaction=self.transaction, filed_at=self.at, number=0)


class RunEvent(Struct, frozen=True):
    """A step of a run, filed under the run's entry transaction."""

    filed: TrailEvent

    @property
    def event(self) -> AuditEvent:
        return self.filed.event

    @property
    def at(self) -> int:
        return self.event.at

    @property
    def transaction(self) -> TransactionId:
        return self.filed.transaction

    @property
    def position(self) -> TrailPosition:
        filed = self.filed
        return TrailPosition(
            self.at, is_change=False, transaction=filed.transaction, filed_at=filed.filed_at, number=filed.number
        )


TrailItem = EntityChanged | RunEvent


async def find_finish_event(
    core: Core, principal: Principal, entity_id: EntityId, transaction: TransactionId
) -> AuditEvent:
    """How the run of that transaction on the entity ended. Raises ``EntityNotFound`` when it did not settle."""
    events = await versions.fetch_transaction_events(core.pool, principal.tenant, entity_id, transaction)
    for event in events:
        if event.type == "STATE_MACHINE_FINISH":
            return event
    raise EntityNotFound("finished event not found")


async def find_versions(
    core: Core, tenant: TenantId, entity_id: EntityId, transaction: TransactionId
) -> list[TransactionId]:
    """The ids of the versions that a run wrote of an entity: its entry transaction, and what its events name."""
    events = await versions.fetch_transaction_events(core.pool, tenant, entity_id, transaction)
    named = (event.data.get(VERSION) for event in events if event.data is not None)
    return [transaction, *(TransactionId(version) for version in named if isinstance(version, str))]


async def require_entity(core: Core, principal: Principal, entity_id: EntityId) -> None:
    """Raises ``EntityNotFound`` unless there is, or was, such an entity."""
    if not await entities.has_existed(core.pool, principal.tenant, entity_id):
        raise EntityNotFound("entity not found")


async def list_trail(
    core: Core, principal: Principal, entity_id: EntityId, query: AuditQuery, limit: int
) -> list[TrailItem]:
    """So many of the wanted items of an entity at most, newest first, also of a deleted one."""
    items: list[TrailItem] = []
    if query.severity in {None, EVENT_SEVERITY}:
        if "EntityChange" in query.types:
            items += await _list_changes(core, principal, entity_id, query, limit)
        if "StateMachine" in query.types:
            select = partial(_select_events, query, limit)
            items += await versions.fetch_entity_events(core.pool, principal.tenant, entity_id, select)
    return _select_newest(items, query, limit)


async def _list_changes(
    core: Core, principal: Principal, entity_id: EntityId, query: AuditQuery, limit: int
) -> Iterator[EntityChanged]:
    """The newest changes, among which the wanted ones are: versions of an entity begin at different instants."""
    bounds = [entities.FOREVER]
    if query.before is not None:
        bounds.append(query.before - 1)
    if query.after is not None:
        bounds.append(query.after.at)
    found = await entities.fetch_kept_changes(
        core.pool,
        principal.tenant,
        entity_id,
        until=max(0, min(bounds)),  # cursors say any number
        limit=limit + 1 if query.transaction is None else entities.FOREVER,  # the cursor's own is told
        transactions=None if query.transaction is None else [query.transaction],
    )
    return map(EntityChanged, found)


def _select_events(query: AuditQuery, limit: int, events: Iterator[TrailEvent]) -> list[TrailItem]:
    return _select_newest(map(RunEvent, events), query, limit)


def _select_newest(items: Iterable[TrailItem], query: AuditQuery, limit: int) -> list[TrailItem]:
    # At one instant items keep their order, that of their positions: to compare these takes seven times as long.
    newest = sorted([item for item in items if _is_wanted(item, query)], key=attrgetter("at"), reverse=True)
    return newest[:limit]


def _is_wanted(item: TrailItem, query: AuditQuery) -> bool:
    at = item.at
    early = query.since is not None and at < query.since
    late = query.before is not None and at >= query.before
    other = query.transaction is not None and item.transaction != query.transaction
    told = query.after is not None and at >= query.after.at and item.position >= query.after
    return not (early or late or other or told)

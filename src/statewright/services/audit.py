"""Use cases on the audit trail (docs/reference/workflows.md#audit)."""

from collections.abc import Iterator
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


async def list_trail(core: Core, principal: Principal, entity_id: EntityId, query: AuditQuery) -> list[TrailItem]:
    """The wanted items of an entity, newest first, also of a deleted one. Raises ``EntityNotFound``."""
    history = await entities.fetch_changes(core.pool, principal.tenant, entity_id, limit=entities.FOREVER)
    if not history:
        raise EntityNotFound("entity not found")
    items: list[TrailItem] = []
    if query.severity in {None, EVENT_SEVERITY}:
        if "EntityChange" in query.types:
            items += [EntityChanged(change) for change in history]
        if "StateMachine" in query.types:
            events = await versions.fetch_entity_events(core.pool, principal.tenant, entity_id)
            items += [RunEvent(event) for event in events]
    # At one instant items keep their order, that of their positions: to compare these takes seven times as long.
    return sorted(_select_items(items, query), key=lambda item: item.at, reverse=True)


def _select_items(items: list[TrailItem], query: AuditQuery) -> Iterator[TrailItem]:
    for item in items:
        early = query.since is not None and item.at < query.since
        late = query.before is not None and item.at >= query.before
        other = query.transaction is not None and item.transaction != query.transaction
        told = query.after is not None and item.at >= query.after.at and item.position >= query.after
        if not (early or late or other or told):
            yield item

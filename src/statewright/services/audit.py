"""Use cases on the audit trail (spec/workflows.md §14)."""

from collections.abc import Iterator

from msgspec import Struct

from statewright.entity import AuditEvent, Principal
from statewright.failures import EntityNotFound
from statewright.identity import EntityId, TransactionId
from statewright.services.runtime import Runtime
from statewright.storage import audit, entities
from statewright.storage.entities import Change

SEVERITY = "INFO"
"""Of every event there is."""


class AuditQuery(Struct, frozen=True, kw_only=True):
    """Which items of a trail are wanted. ``since`` is inclusive, ``before`` exclusive, both in epoch microseconds."""

    types: frozenset[str]
    severity: str | None = None
    since: int | None = None
    before: int | None = None
    transaction: TransactionId | None = None


class EntityChanged(Struct, frozen=True):
    """A version was written."""

    change: Change

    @property
    def at(self) -> int:
        return self.change.at

    @property
    def transaction(self) -> TransactionId:
        return self.change.transaction_id


class RunEvent(Struct, frozen=True):
    """A step of a run, filed under the run's entry transaction."""

    transaction: TransactionId
    event: AuditEvent

    @property
    def at(self) -> int:
        return self.event.at


Item = EntityChanged | RunEvent


async def finish_event(
    runtime: Runtime, principal: Principal, entity_id: EntityId, transaction: TransactionId
) -> AuditEvent:
    """How the run of that transaction on the entity ended. Raises ``EntityNotFound`` when it did not settle."""
    events = await audit.of_transaction(runtime.pool, principal.tenant, entity_id, transaction)
    for event in events:
        if event.type == "STATE_MACHINE_FINISH":
            return event
    raise EntityNotFound("finished event not found")


async def trail(runtime: Runtime, principal: Principal, entity_id: EntityId, query: AuditQuery) -> list[Item]:
    """The wanted items of an entity, newest first, also of a deleted one. Raises ``EntityNotFound``."""
    history = await entities.changes(runtime.pool, principal.tenant, entity_id, limit=entities.FOREVER)
    if not history:
        raise EntityNotFound("entity not found")
    items: list[Item] = []
    if query.severity in {None, SEVERITY}:
        if "EntityChange" in query.types:
            items += [EntityChanged(change) for change in history]
        if "StateMachine" in query.types:
            events = await audit.of_entity(runtime.pool, principal.tenant, entity_id)
            items += [RunEvent(transaction, event) for transaction, event in events]
    return sorted(_wanted(items, query), key=lambda item: item.at, reverse=True)


def _wanted(items: list[Item], query: AuditQuery) -> Iterator[Item]:
    for item in items:
        early = query.since is not None and item.at < query.since
        late = query.before is not None and item.at >= query.before
        other = query.transaction is not None and item.transaction != query.transaction
        if not (early or late or other):
            yield item

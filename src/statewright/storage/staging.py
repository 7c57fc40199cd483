"""The rows of a transaction: what its writes, reads, events and tasks become when they are committed."""

from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec import Struct

from statewright.entity import AuditEvent, Entity
from statewright.identity import EntityId, TenantId, TransactionId
from statewright.storage.commit_statement import StagedRow

NO_VERSION = (None, None, None, None, None, None, None, None, None)
"""State to document of a row that writes no version."""

_encode_events = msgspec.json.Encoder(decimal_format="number").encode


class Write(Struct, frozen=True, kw_only=True):
    """What a unit does to one entity. ``expected`` is the committed version it must still have; None for a new
    entity. ``claims`` are the hashes of the unique keys it holds from then on; None when its model has no keys.
    ``lock`` is the lock of its model under which a new entity was judged; None when nobody can unlock that model.
    """

    entity: Entity
    expected: TransactionId | None
    deletes: bool = False
    if_match: bool = False
    claims: tuple[str, ...] | None = None
    lock: int | None = None


class Changes(Struct, frozen=True, kw_only=True):
    """What a transaction is about to commit.

    ``writes`` leave a trace, ``reads`` are versions it relies on, ``events`` are by entity and entry transaction;
    ``touched`` are entities of which only scheduled tasks are concerned. ``label`` is the entry transaction.
    """

    tenant: TenantId
    transaction: TransactionId
    label: TransactionId
    writes: Mapping[EntityId, Write]
    reads: Mapping[EntityId, TransactionId]
    events: Mapping[tuple[EntityId, TransactionId], Sequence[AuditEvent]]
    touched: Collection[EntityId] = ()


def lasting(writes: Mapping[EntityId, Write]) -> dict[EntityId, Write]:
    """What was created and deleted within the transaction leaves no trace."""
    return {id_: write for id_, write in writes.items() if not (write.deletes and write.expected is None)}


def rows_of(changes: Changes) -> list[StagedRow]:
    """What to write, in at most one row per entity besides rows that only carry events, or stand for tasks."""
    only = _only_write(changes)
    if only is not None:
        return [_written(changes, only)]
    writes, events = changes.writes, changes.events
    if not writes and not events and not changes.touched:
        return []  # a unit that only read has nothing to protect
    carried = {(id_, write.entity.entry_transaction_id) for id_, write in writes.items()}
    rows = [_written(changes, write) for write in writes.values()]
    rows += [_relied_on(changes, id_, version) for id_, version in changes.reads.items() if id_ not in writes]
    rows += [_only_events(changes, id_, label) for id_, label in events if (id_, label) not in carried]
    rows += [_touched(changes, id_) for id_ in changes.touched]
    return rows


def event_row(tenant: TenantId, entity_id: EntityId, label: TransactionId, event: AuditEvent) -> StagedRow:
    """The row of one event and nothing else."""
    return ("audit", tenant, entity_id, None, None, None, label, *NO_VERSION, *_encoded((event,)))


def _only_write(changes: Changes) -> Write | None:
    """The write of a transaction that concerns one entity and nothing else, as nearly all do; for speed."""
    if len(changes.writes) != 1 or len(changes.reads) > 1 or len(changes.events) > 1 or changes.touched:
        return None
    [(entity_id, write)] = changes.writes.items()
    carried = (entity_id, write.entity.entry_transaction_id)
    if entity_id not in (changes.reads or changes.writes) or carried not in (changes.events or {carried}):
        return None
    return write


def _written(changes: Changes, write: Write) -> StagedRow:
    entity = write.entity
    at, n, events = _audit(changes, entity.id, entity.entry_transaction_id)
    return (
        "delete" if write.deletes else "create" if write.expected is None else "update",
        entity.tenant,
        entity.id,
        entity.model,
        write.expected,
        changes.transaction,
        entity.entry_transaction_id,
        entity.state,
        entity.transition,
        entity.workflow,
        entity.workflow_revision,
        entity.attributed.id,
        entity.attributed.kind,
        entity.executor.id,
        entity.executor.kind,
        None if write.deletes else entity.document,
        at,
        n,
        events,
    )


def _relied_on(changes: Changes, entity_id: EntityId, version: TransactionId) -> StagedRow:
    return ("read", changes.tenant, entity_id, None, version, None, changes.label, *NO_VERSION, None, None, None)


def _only_events(changes: Changes, entity_id: EntityId, label: TransactionId) -> StagedRow:
    at, n, events = _audit(changes, entity_id, label)
    return ("audit", changes.tenant, entity_id, None, None, None, label, *NO_VERSION, at, n, events)


def _touched(changes: Changes, entity_id: EntityId) -> StagedRow:
    return ("tasks", changes.tenant, entity_id, None, None, None, changes.label, *NO_VERSION, None, None, None)


def _audit(
    changes: Changes, entity_id: EntityId, label: TransactionId
) -> tuple[int, int, str] | tuple[None, None, None]:
    events = changes.events.get((entity_id, label))
    return _encoded(events) if events else (None, None, None)


def _encoded(events: Sequence[AuditEvent]) -> tuple[int, int, str]:
    return events[0].at, len(events), _encode_events(events).decode()

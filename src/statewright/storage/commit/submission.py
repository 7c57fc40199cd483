"""What a transaction wants written, how that is made of its writes, reads, events and tasks, and what became of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from statewright.entity import AuditEvent, Entity
from statewright.failures import Failure
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.storage.columns import StagedRow
from statewright.storage.commit.growth import Growth
from statewright.storage.schedules import ScheduledTaskRow

ClaimRow = tuple[
    str,  # tenant
    str,  # entity id
    str | None,  # hash of a unique key's values; None: the entity claims nothing (any more)
]

ModelLock = tuple[TenantId, ModelId, int]
"""The model of a new entity, and the lock under which the entity was judged (``StoredModel.lock_revision``)."""


class StagedPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one transaction stages for a part of the commit statement that this package does not know.

    Its fields are what the SQL text of the part reads as JSON.
    """

    @property
    def size(self) -> int:
        """About how many characters it is, to tell large transactions."""
        return 0

    @property
    def names(self) -> Sequence[str]:
        """What no two transactions of a batch may write, by names of the part's own; one of two waits for the next
        batch.
        """
        return ()

    def merge(self, inner: "StagedPart") -> "StagedPart":
        """What is staged when a nested unit of work has ended well that staged ``inner``, of the same class. A part
        whose rows are staged by owners of transactions only need not know.
        """
        raise NotImplementedError(f"{type(self).__name__} is staged in units that are not nested")


class Submission(Struct, frozen=True, kw_only=True):
    """What one transaction wants written: rows, at most one per entity.

    ``claims`` are what entities with unique keys hold from now on: for each of them every claim it has, or one row
    without a hash. ``growth`` is what the documents teach their models. ``tasks`` are scheduled tasks of entities that
    have a row. ``model_locks`` are the models that new entities need. ``parts`` is what else is written, by the name of
    the part of the statement that writes it.
    """

    rows: Sequence[StagedRow]
    claims: Sequence[ClaimRow] = ()
    growth: Sequence[Growth] = ()
    tasks: Sequence[ScheduledTaskRow] = ()
    model_locks: frozenset[ModelLock] = frozenset()
    parts: Mapping[str, StagedPart] = {}


class AppliedSubmission(Struct, frozen=True):
    """The submission is durable; all its versions carry the instant ``at`` (epoch microseconds)."""

    at: int


class Stale(Struct, frozen=True):
    """Nothing was written: these entities are no longer at the version the submission expected."""

    entities: tuple[EntityId, ...]


class UniqueKeyTaken(Struct, frozen=True):
    """Nothing was written: another entity holds a unique key that the submission claims."""


class ModelLockLost(Struct, frozen=True):
    """Nothing was written: a model of new entities is not locked any more as it was when they were judged.

    ``reason``: ``gone``, ``unlocked``, or ``relocked`` when it was unlocked and locked again since.
    """

    reason: str


class PartRefused(Struct, frozen=True):
    """Nothing was written: an optional part of the statement does not allow it, for the reason that its section
    ``refusal`` gave behind a colon. ``build_failure`` makes of the reason what the client is told.
    """

    build_failure: Callable[[str], Failure]
    reason: str = ""


class Busy(Struct, frozen=True):
    """Nothing was written: another session has locked an entity. Trying again later makes sense."""


Refusal = UniqueKeyTaken | ModelLockLost | PartRefused
Verdict = AppliedSubmission | Stale | Refusal
Attempt = Verdict | Busy
"""What became of a submission that may be tried again."""


NO_EVENTS: Final = (None, None, None)

_encode = msgspec.json.Encoder(decimal_format="number").encode


class Write(Struct, frozen=True, kw_only=True):
    """What a unit does to one entity. ``expected`` is the committed version it must still have; None for a new
    entity. ``claims`` are the hashes of the unique keys it holds from then on; None when its model has no keys.
    ``lock`` is the lock of its model under which a new entity was judged; None when that model cannot be unlocked.
    ``is_intermediate``: the version bears the id that ``entity`` has, rather than that of the transaction.
    """

    entity: Entity
    expected: TransactionId | None
    deletes: bool = False
    if_match: bool = False
    claims: tuple[str, ...] | None = None
    lock: int | None = None
    is_intermediate: bool = False


class StagedChanges(Struct, frozen=True, kw_only=True):
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


def is_transient(write: Write | None) -> bool:
    """Whether an entity was created and deleted within the transaction; that leaves no trace."""
    return write is not None and write.deletes and write.expected is None


def build_rows(changes: StagedChanges) -> list[StagedRow]:
    """What to write, in at most one row per entity besides rows that only carry events, or stand for tasks."""
    only = _find_only_write(changes)
    if only is not None:
        return [_build_write_row(changes, only)]
    writes, events = changes.writes, changes.events
    if not writes and not events and not changes.touched:
        return []  # a unit that only read has nothing to protect
    carried = {(id_, write.entity.entry_transaction_id) for id_, write in writes.items()}
    rows = [_build_write_row(changes, write) for write in writes.values()]
    rows += [_build_read_row(changes, id_, version) for id_, version in changes.reads.items() if id_ not in writes]
    rows += [_build_event_row(changes, id_, label) for id_, label in events if (id_, label) not in carried]
    rows += [_build_task_row(changes, id_) for id_ in changes.touched]
    return rows


def build_event_row(tenant: TenantId, entity_id: EntityId, label: TransactionId, event: AuditEvent) -> StagedRow:
    """The row of one event and nothing else."""
    return StagedRow("audit", None, *_encode_events((event,)), tenant, entity_id, label)


def _find_only_write(changes: StagedChanges) -> Write | None:
    """The write of a transaction that concerns one entity and nothing else, as nearly all do; for speed."""
    if len(changes.writes) != 1 or len(changes.reads) > 1 or len(changes.events) > 1 or changes.touched:
        return None
    [(entity_id, write)] = changes.writes.items()
    carried = (entity_id, write.entity.entry_transaction_id)
    if entity_id not in (changes.reads or changes.writes) or carried not in (changes.events or {carried}):
        return None
    return write


def _build_write_row(changes: StagedChanges, write: Write) -> StagedRow:
    """The values in the order of the fields: twenty keywords would cost ten times as much as all else here."""
    entity = write.entity
    at, n, events = _find_events(changes, entity.id, entity.entry_transaction_id)
    return StagedRow(
        "delete" if write.deletes else "create" if write.expected is None else "update",
        write.expected,
        at,
        n,
        events,
        entity.tenant,
        entity.id,
        entity.entry_transaction_id,
        entity.transaction_id if write.is_intermediate else changes.transaction,
        entity.model,
        entity.state,
        entity.transition,
        entity.workflow,
        entity.workflow_revision,
        entity.attributed.id,
        entity.attributed.kind,
        entity.executor.id,
        entity.executor.kind,
        None if write.deletes else entity.document,
    )


def _build_read_row(changes: StagedChanges, entity_id: EntityId, version: TransactionId) -> StagedRow:
    return StagedRow("read", version, *NO_EVENTS, changes.tenant, entity_id, changes.label)


def _build_event_row(changes: StagedChanges, entity_id: EntityId, label: TransactionId) -> StagedRow:
    at, n, events = _find_events(changes, entity_id, label)
    return StagedRow("audit", None, at, n, events, changes.tenant, entity_id, label)


def _build_task_row(changes: StagedChanges, entity_id: EntityId) -> StagedRow:
    return StagedRow("tasks", None, *NO_EVENTS, changes.tenant, entity_id, changes.label)


def _find_events(
    changes: StagedChanges, entity_id: EntityId, label: TransactionId
) -> tuple[int, int, str] | tuple[None, None, None]:
    events = changes.events.get((entity_id, label))
    return _encode_events(events) if events else NO_EVENTS


def _encode_events(events: Sequence[AuditEvent]) -> tuple[int, int, str]:
    """The instant of the first, their number, and all of them as one text."""
    return events[0].at, len(events), _encode(events).decode()

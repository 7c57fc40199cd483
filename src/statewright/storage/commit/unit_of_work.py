"""The unit of work: a transaction as an object, not as an open database transaction.

It remembers what it read and stages what it writes (``overlay.py``), and hands everything to one group-committed
statement. Until then it holds nothing in PostgreSQL, so a slow processor costs no connection and rolling back is
dropping the object. First committer wins: a version read here that was replaced meanwhile makes ``commit`` fail.

Segments. A run with ``COMMIT_BEFORE_DISPATCH`` processors commits several times. The unit stays the same object:
``commit_segment`` applies what is staged and goes on, empty, under a new id; audit events keep the label of the first.
The label names at most one version of an entity: an outcome, never what a run has made durable on its way.

Nesting. A savepoint, and every request that joins the transaction, is a unit of its own inside the unit it belongs to:
it sees what that one sees, and what it stages becomes visible there only when it commits, which costs no round trip.
Dropping it undoes its work and nothing else, also when other nested units were merged meanwhile. Participants work on
the transaction one at a time (``transaction.py``).
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import Self, TypeVar

from msgspec.structs import replace

from statewright.entity import Actor, AuditEvent, Entity, Principal
from statewright.failures import Conflict, Failure, TransactionNotFound
from statewright.ids import EntityId, TransactionId
from statewright.storage.columns import StagedRow
from statewright.storage.commit.overlay import Overlay
from statewright.storage.commit.submission import StagedPart, build_event_row
from statewright.storage.commit.transaction import Gate, ReleasedGate, Transaction

T = TypeVar("T")


class UnitOfWork(Overlay):
    """A transaction as one principal works on it, or a part of one. Leaving it without ``commit`` discards everything.

    A unit without ``parent`` owns its transaction. One that ``joins`` it is a participant of its own; any other nested
    one is a savepoint of its parent.
    """

    def __init__(
        self,
        transaction: Transaction,
        principal: Principal,
        *,
        parent: "UnitOfWork | None" = None,
        joins: bool = False,
    ) -> None:
        label = transaction.id if parent is None or joins else parent.label
        super().__init__(principal.tenant, label, transaction.reader, parent)
        self.principal = principal
        self.parent = parent
        self.executor = Actor(principal.id, principal.kind)
        self.origin: Actor = transaction.origin or (parent.origin if parent else self.executor)
        self.started_at = transaction.clock()
        self.warnings: list[str] = []
        self.is_open = True
        self.on_close: list[Callable[[], None]] = []
        self._transaction = transaction
        self._joined_id = transaction.id
        self._is_detached = False
        self._is_participant = parent is None or joins
        self._gate: Gate = Gate() if parent is None else Gate(parent._gate.owner) if joins else parent._gate

    async def __aenter__(self) -> Self:
        if self.parent is None:
            self._transaction.count_begin()
        elif self._is_participant:
            await self._gate.take()
            if not self._is_alive or self.id != self._joined_id:  # ended, or gone on to another segment
                self.close()
                raise TransactionNotFound
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_detached:
            self._finish(error)

    async def run_detached(self, work: Coroutine[object, object, T]) -> T:
        """Do work that ends the unit, also when the block that opened the unit is left before."""
        self._is_detached = True
        try:
            done = await work
        except BaseException as error:
            self._finish(error)
            raise
        self._finish(None)
        return done

    def _finish(self, error: BaseException | None) -> None:
        """Close the unit, and count it if it is a whole transaction."""
        ending_at = perf_counter()
        self.close()
        if self.parent is None:
            self._transaction.count_end(since=ending_at, failed=error is not None)

    @property
    def id(self) -> TransactionId:
        """The transaction that is open now: the one a nested unit is part of, the current segment of a run."""
        return self._transaction.id

    @property
    def now(self) -> int:
        """This instant by the unit's clock (epoch microseconds)."""
        return self._transaction.clock()

    @property
    def attributed(self) -> Actor:
        """To whom a write of this unit is attributed."""
        return self.executor if self.executor.kind == "user" else self.origin

    @property
    def _is_alive(self) -> bool:
        return self.is_open and (self.parent is None or self.parent._is_alive)

    def delete(self, entity: Entity) -> None:
        """Stage the deletion of an entity this unit has read or created; its claims are released."""
        last = replace(entity, attributed=self.attributed, executor=self.executor, entry_transaction_id=self.label)
        super().delete(last)

    def take_event_time(self) -> int:
        """An instant for the next audit event, later than all before it in this transaction."""
        return self._transaction.take_event_time()

    def open_savepoint(self) -> "UnitOfWork":
        """A unit inside this one, whose work can be dropped alone."""
        return UnitOfWork(self._transaction, self.principal, parent=self)

    def join(self, principal: Principal) -> "UnitOfWork":
        """A unit inside this one for a request of ``principal``.

        Entering its ``async with`` block waits for the gate, and raises ``TransactionNotFound`` when the transaction
        has ended meanwhile.
        """
        return UnitOfWork(self._transaction, principal, parent=self, joins=True)

    def release_gate(self) -> ReleasedGate:
        """Let go of the gate for the length of a callout, so that its callbacks can work on the transaction."""
        return ReleasedGate(self._gate)

    def close(self) -> None:
        """End the unit; what was not committed is discarded. It cannot be joined any more."""
        self.is_open = False
        if self._is_participant:
            self._gate.close()
        for callback in self.on_close:
            callback()
        self.on_close.clear()

    async def commit(self) -> int | None:
        """Apply everything or nothing.

        Gives the instant of the new versions (epoch microseconds); None when there was nothing to do, and for a nested
        unit, whose writes become its parent's. Raises ``EntityModified`` or ``Conflict`` when a version moved,
        ``UniqueViolation`` when a claim is taken, ``ModelNotFound``, ``ModelNotLocked`` or ``Conflict`` when the model
        of a new entity was deleted, unlocked, or locked anew meanwhile, the failures of
        ``storage.commit.growth.write_growing`` when a document contradicts what its model has learnt meanwhile,
        ``StorageUnavailable`` when the database is away, ``TransactionNotFound`` when the parent is gone.
        """
        if self.parent is None:
            return await self._transaction.commit(self)
        if self._is_participant:
            await self.refuse_taken_claims()
        self._merge(self.parent)
        return None

    @property
    def may_segment(self) -> bool:
        """Whether this is the owner's own part of the transaction, which alone may commit a segment of it."""
        return self._gate is self._gate.owner

    async def commit_segment(self, next_id: TransactionId) -> None:
        """Commit what is staged, in a savepoint with all that is staged around it, and go on under ``next_id``.

        Raises as ``commit`` does; then nothing of this segment is durable.
        """
        assert self.may_segment, "a joined request must not segment"  # noqa: S101
        segment = self.id
        if self.parent is None:
            guards = self._transaction.guards
            for guard in guards:
                guard.stage_segment(self)
            await self._transaction.commit(self)
            for guard in guards:
                guard.confirm_segment()
            self._transaction.id = next_id
        else:
            self._merge(self.parent)
            await self.parent.commit_segment(next_id)
            self.warnings = []
        self.mark_committed(segment)

    async def prepare_callout(self) -> None:
        """To be awaited before a callout: once it is on its way, the run has begun to have effects. Raises the failure
        of a request that another one has overtaken.
        """
        for guard in self._transaction.guards:
            await guard.prepare_callout()

    async def commit_failure_event(self, entity_id: EntityId, event: AuditEvent, failure: Failure) -> bool:
        """Commit the audit event of a failure, what else is to be written with that, and nothing of what is staged: at
        once, or with the record of the request, which is about to fail. Whether operators are told of it by that.
        """
        row = build_event_row(self.tenant, entity_id, self.label, event)
        describe = self._transaction.describe_failure
        parts = {} if describe is None else describe(failure)
        if any(guard.keep_event(row, parts) for guard in self._transaction.guards):
            return False
        if parts and await self._try_commit_rows([row], parts):
            return True
        await self._transaction.commit_rows([row])
        return False

    async def _try_commit_rows(self, rows: Sequence[StagedRow], parts: Mapping[str, StagedPart]) -> bool:
        """Whether rows could be committed with optional parts, without which they can be committed, too."""
        try:
            return await self._transaction.commit_rows(rows, parts)
        except Conflict:
            return False

    def describe_failures(self, describe: "Callable[[Failure], Mapping[str, StagedPart]]") -> None:
        """What is written with the event of a failure behind a segment."""
        self._transaction.describe_failure = describe

    async def commit_rows(self, rows: Sequence[StagedRow], parts: Mapping[str, StagedPart]) -> bool:
        """Commit these rows, with optional parts, and nothing of what is staged; whether they were applied."""
        return await self._transaction.commit_rows(rows, parts)

    def _merge(self, parent: "UnitOfWork") -> None:
        if not parent._is_alive:
            raise TransactionNotFound
        parent.merge(self)
        parent.warnings += self.warnings

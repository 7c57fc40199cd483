"""The unit of work: a transaction as an object, not as an open database transaction.

It remembers what it read and stages what it writes (``overlay.py``), and hands everything to one group-committed
statement. Until then it holds nothing in PostgreSQL, so a slow processor costs no connection and rolling back is
dropping the object. First committer wins: a version read here that was replaced meanwhile makes ``commit`` fail.

Segments. A run with ``COMMIT_BEFORE_DISPATCH`` processors commits several times. The unit stays the same object:
``commit_segment`` applies what is staged and goes on, empty, under a new id; audit events keep the label of the first.
The label names at most one version of an entity: an outcome, never what a run has made durable on its way.

Nesting. A savepoint, and every request that joins the transaction, is a unit of its own inside the unit it belongs to:
it sees what that one sees, and what it stages becomes visible there only when it commits, which costs no round trip.
Dropping it undoes its work and nothing else, also when other nested units were merged meanwhile.

All units of a transaction share its present segment, its clock, its way to the database, and its gate. One participant
at a time works on a transaction: it holds the gate, and lets go of it for the length of every callout; so joined
requests follow each other, see each other's work, and may themselves wait for callbacks to any depth
(docs/reference/workflows.md#callbacks). The owner holds the gate from the beginning: no other can know of the
transaction before its first callout. A savepoint is part of the participant that opened it, and has the same ``Gate``.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import Protocol, Self, TypeVar, assert_never

from msgspec.structs import replace

from statewright.entity import Actor, AuditEvent, Entity, Event, Principal
from statewright.failures import Conflict, Failure, TransactionNotFound, UniqueViolation
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.storage.columns import StagedRow
from statewright.storage.commit.group_commit import GroupCommit
from statewright.storage.commit.overlay import (
    AppliedSubmission,
    ModelLockLost,
    Overlay,
    PartRefused,
    StagedPart,
    Stale,
    Submission,
    UniqueKeyTaken,
    Verdict,
    build_event_row,
)
from statewright.storage.commit.statement import LOST_REASONS, PASSES, Pass, build_suspended
from statewright.storage.entities import EntityReader

T = TypeVar("T")


class Gate:
    """The gate as one participant has it: the owner of the transaction, or a request that joins it at ``owner``."""

    __slots__ = ("_is_held", "_lock", "_owner")

    def __init__(self, owner: "Gate | None" = None) -> None:
        self._owner = owner
        self._lock: asyncio.Lock | None = None  # of the owner's, from its first callout on
        self._is_held = owner is None

    @property
    def owner(self) -> "Gate":
        """That of the transaction's owner."""
        return self if self._owner is None else self._owner

    async def take(self) -> None:
        """Wait until the gate is free, and hold it."""
        lock = self.owner._lock
        assert lock is not None, "a transaction is joined during callouts only"  # noqa: S101
        await lock.acquire()
        self._is_held = True

    def release(self) -> None:
        """Let others work on the transaction, if this one held them off."""
        owner = self.owner
        if owner._lock is None:
            owner._lock = asyncio.Lock()
        elif self._is_held:
            owner._lock.release()
        self._is_held = False

    def close(self) -> None:
        """The participant has ended."""
        if self.owner._lock is not None:
            self.release()
        self._is_held = False


class ReleasedGate:
    """The length of an ``async with`` block, during which others may work on a transaction."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __aenter__(self) -> None:
        self._gate.release()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, asyncio.CancelledError):  # then the unit is dropped, and needs no gate for that
            await self._gate.take()


class TransactionGuard(Protocol):
    """What is written beside the segments of a transaction by the request that began it."""

    async def prepare_callout(self) -> None:
        """To be done before anything outside can learn of the transaction. Raises the failure of a request that must
        not go on.
        """
        ...

    def stage_segment(self, overlay: Overlay) -> None:
        """Stage what belongs to a commit that is not the last one."""
        ...

    def confirm_segment(self) -> None:
        """That commit has succeeded."""
        ...

    def keep_event(self, row: StagedRow, parts: Mapping[str, StagedPart]) -> bool:
        """Whether it writes this audit event, and optional parts, with the failure that is about to end the run."""
        ...


class Transaction:
    """``id`` names the segment that is open now; a transaction that commits no segments on its way has only one.

    ``origin`` is whom its writes are attributed to when a service or the system executes them
    (docs/reference/workflows.md#attribution-of-runs). ``on_model_change`` is called for models that caches must look
    for again. ``guards`` write beside it.
    """

    __slots__ = (
        "_commits",
        "_on_model_change",
        "clock",
        "created_at",
        "describe_failure",
        "guards",
        "id",
        "last_event_at",
        "metrics",
        "origin",
        "reader",
    )

    def __init__(
        self,
        id: TransactionId,  # noqa: A002 - the field's own name
        *,
        reader: EntityReader,
        commits: GroupCommit,
        clock: Callable[[], int],
        origin: Actor | None = None,
        on_model_change: Callable[[TenantId, ModelId], None] | None = None,
        guards: Sequence[TransactionGuard] = (),
    ) -> None:
        self.id = id
        self.guards = guards
        self.reader = reader
        self.clock = clock
        self.origin = origin
        self.describe_failure: Callable[[Failure], Mapping[str, StagedPart]] | None = None
        self._commits = commits
        self._on_model_change = on_model_change
        self.metrics = commits.metrics
        self.created_at = perf_counter()
        self.last_event_at = 0
        """Of its audit events."""

    async def commit(self, overlay: Overlay) -> int | None:
        """Apply what is staged in the owner's overlay, or nothing of it; raises as ``UnitOfWork.commit`` does."""
        submission = overlay.build_submission(self.id)
        if submission is None:
            return None
        try:
            verdict = await self._commits.commit(submission)
            if isinstance(verdict, PartRefused) and verdict.build_failure is build_suspended:
                verdict = await self._commit_half_done(submission, overlay, verdict)
        finally:
            if submission.growth:
                self._notify_model_change(overlay.tenant, [growth.model for growth in submission.growth])
        match verdict:
            case AppliedSubmission(at):
                if submission.tasks:
                    self.metrics.count_timers(overlay.events.values())
                return at
            case UniqueKeyTaken():
                raise UniqueViolation
            case ModelLockLost(reason):
                self._notify_model_change(overlay.tenant, (model for _, model, _ in submission.model_locks))
                failure = LOST_REASONS[reason]()
                raise failure
            case PartRefused(build_failure, reason):
                failure = build_failure(reason)
                raise failure
            case Stale(entities):
                raise overlay.build_conflict(entities)
            case _:
                assert_never(verdict)

    async def _commit_half_done(self, submission: Submission, overlay: Overlay, verdict: PartRefused) -> Verdict:
        """A run of which a segment is durable comes to its end, although an entity was suspended since: a call that is
        half done helps nobody.
        """
        if self.id == overlay.label:
            self.metrics.suspended += 1
            return verdict
        return await self._commits.commit(replace(submission, parts={**submission.parts, PASSES.name: Pass()}))

    async def commit_rows(self, rows: Sequence[StagedRow], parts: Mapping[str, StagedPart] | None = None) -> bool:
        """Apply some rows, with optional parts, and nothing of what is staged; whether they were applied."""
        return isinstance(await self._commits.commit(Submission(rows=rows, parts=parts or {})), AppliedSubmission)

    def _notify_model_change(self, tenant: TenantId, models: Iterable[ModelId]) -> None:
        """Caches of definitions must look again: after a refusal, too, which shows that what they knew is old."""
        if self._on_model_change is not None:
            for model in models:
                self._on_model_change(tenant, model)


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
        self.attributed = self.executor if principal.kind == "user" else self.origin
        """To whom its writes are attributed."""
        self.started_at = transaction.clock()
        self.warnings: list[str] = []
        self.is_open = True
        self.on_close: list[Callable[[], None]] = []
        self._transaction = transaction
        self._joined_id = transaction.id
        self._is_detached = False
        self._is_participant = parent is None or joins
        self._gate: Gate = Gate() if parent is None else Gate(parent._gate.owner) if joins else parent._gate
        self.may_segment = self._gate is self._gate.owner
        """Whether this is the owner's own part of the transaction, which alone may commit a segment of it."""

    async def __aenter__(self) -> Self:
        if self.parent is None:
            self._transaction.metrics.count_begin(perf_counter() - self._transaction.created_at)
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
            self._transaction.metrics.count_end(None if error is None else perf_counter() - ending_at)

    @property
    def id(self) -> TransactionId:
        """The transaction that is open now: the one a nested unit is part of, the current segment of a run."""
        return self._transaction.id

    @property
    def now(self) -> int:
        """This instant by the unit's clock (epoch microseconds)."""
        return self._transaction.clock()

    @property
    def _is_alive(self) -> bool:
        return self.is_open and (self.parent is None or self.parent._is_alive)

    def delete(self, entity: Entity) -> None:
        """Stage the deletion of an entity this unit has read or created; its claims are released."""
        last = replace(entity, attributed=self.attributed, executor=self.executor, entry_transaction_id=self.label)
        super().delete(last)

    def record(self, entity_id: EntityId, event: Event) -> None:
        """File an audit event of the run on the entity, later than all before it in this transaction."""
        self.events.setdefault((entity_id, self.label), []).append(self._stamp(event))

    def _stamp(self, event: Event) -> AuditEvent:
        transaction = self._transaction
        now = transaction.clock()
        transaction.last_event_at = at = now if now > transaction.last_event_at else transaction.last_event_at + 1
        return AuditEvent(type=event.type, at=at, details=event.details, state=event.state, data=event.data)

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

    async def commit_failure_event(self, entity_id: EntityId, event: Event, failure: Failure) -> bool:
        """Commit the audit event of a failure, what else is to be written with that, and nothing of what is staged: at
        once, or with the record of the request, which is about to fail. Whether operators are told of it by that.
        """
        row = build_event_row(self.tenant, entity_id, self.label, self._stamp(event))
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

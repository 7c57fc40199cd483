"""The unit of work: a transaction as an object, not as an open database transaction.

It remembers the versions it read, answers reads from its own writes first, and hands everything it wants written to one
group-committed statement. Until then it holds nothing in PostgreSQL, so a slow processor costs no connection and
rolling back is dropping the object. First committer wins: a version read here that somebody else replaced meanwhile
makes ``commit`` fail.

Segments. A run with ``COMMIT_BEFORE_DISPATCH`` processors commits several times. The unit stays the same object:
``commit_segment`` applies what is staged and goes on, empty, under a new id; audit events keep the label of the first.

Nesting. A savepoint, and every request that joins the transaction, is a unit of its own inside the unit it belongs to:
it sees what that one sees, and what it stages becomes visible there only when it commits, which costs no round trip.
Dropping it undoes its work and nothing else, also when other nested units were merged meanwhile. Should two of them
have changed the same entity from the same version, the second to commit fails with ``Conflict``.

Unique keys. A write carries what its entity claims from then on. Whether a claim is free is decided by the commit, when
all of the transaction is known; so within it one entity may let go of a value and another take it, in any order. A
joined request asks before it merges: it, and not the owner of the transaction, should hear of a value that is taken.

Growth. Documents that extend the schema of a model are kept with the schema as this transaction sees it; others see it
when it commits (docs/adr/0003).

The gate. Whoever works on a transaction holds its gate, and lets go of it for the length of every callout; so joined
requests follow each other, see each other's work, and may themselves wait for callbacks to any depth (spec/workflows.md
§12.2). The owner holds the gate from the beginning: nobody can know of the transaction before its first callout.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import Self, TypeVar, assert_never

from msgspec.structs import replace

from statewright.entity import Actor, AuditEvent, Entity, Principal
from statewright.failures import (
    Conflict,
    EntityModified,
    Failure,
    ModelNotFound,
    ModelNotLocked,
    TransactionNotFound,
    UniqueViolation,
)
from statewright.identity import EntityId, ModelId, TenantId, TransactionId
from statewright.schema import Claim
from statewright.storage.claims import claim_hashes, holders
from statewright.storage.commit_statement import (
    Applied,
    ClaimRow,
    Home,
    Homeless,
    StagedRow,
    Stale,
    Submission,
    Violation,
)
from statewright.storage.entities import EntityReader
from statewright.storage.group_commit import GroupCommit
from statewright.storage.growth import StagedGrowth
from statewright.storage.schedules import StagedTasks, TaskRow
from statewright.storage.staging import Changes, Write, event_row, lasting, rows_of
from statewright.storage.steps.staged import StagedSteps

T = TypeVar("T")

HOMELESS: Mapping[str, Callable[[], Failure]] = {
    "gone": lambda: ModelNotFound("model not found"),
    "unlocked": ModelNotLocked,
    "relocked": Conflict,
}
"""What became of the model of a new entity, and what its client is told."""


class UnitOfWork:
    """One transaction of one principal, or a part of one. Leaving it without ``commit`` discards everything.

    ``label`` is the id under which its audit events are filed: the id of the run's first segment. ``origin`` is whom
    its writes are attributed to when a service or the system executes them (spec/workflows.md §15).
    """

    def __init__(
        self,
        *,
        id: TransactionId,  # noqa: A002 - the field's own name
        principal: Principal,
        reader: EntityReader,
        commits: GroupCommit,
        clock: Callable[[], int],
        origin: Actor | None = None,
        parent: "UnitOfWork | None" = None,
        joins: bool = False,
        on_model_change: Callable[[TenantId, ModelId], None] | None = None,
    ) -> None:
        self._id = id
        self.label = parent.id if parent else id
        self.principal = principal
        self.tenant: TenantId = principal.tenant
        self.executor = Actor(principal.id, principal.kind)
        self.origin = origin or self.executor
        self.started_at = clock()
        self.warnings: list[str] = []
        self.parent = parent
        self._joined_id = self._id
        self._outermost = parent.root if parent else None  # a reference to itself would leave units to the collector
        self.is_open = True
        self.on_close: list[Callable[[], None]] = []
        self._reader = reader
        self._commits = commits
        self._clock = clock
        self._made_at = perf_counter()
        self._reads: dict[EntityId, TransactionId] = {}
        self._prefetched: dict[EntityId, Entity] = {}
        self._writes: dict[EntityId, Write] = {}
        self._events: dict[tuple[EntityId, TransactionId], list[AuditEvent]] = {}
        self._seen: dict[EntityId, Write | None] = {}  # what the parent had staged when we first looked
        self._claimed: dict[str, EntityId] = {}  # who wanted a claim last; it may have changed its mind
        self.growth: StagedGrowth = StagedGrowth(parent.growth if parent else None)
        self._on_model_change = on_model_change
        self.tasks: StagedTasks = StagedTasks(parent.tasks if parent else None)
        self.steps: StagedSteps | None = None
        """What instances of the step engine write beside their versions; only in a unit that is not nested."""
        self._last_event_at = 0
        self._outlives = False
        self._gate: asyncio.Lock | None = None
        self._holds_gate = parent is None
        # A savepoint is part of whoever made it; everybody else goes through the gate on their own.
        self._part_of = None if parent is None or joins else parent._strand

    async def __aenter__(self) -> Self:
        if self.parent is None:
            self._begun()
        elif self._strand is self:
            await self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._outlives:
            self._ended(error)

    async def outliving(self, work: Coroutine[object, object, T]) -> T:
        """Do work that ends the unit, also when the block that opened the unit is left before."""
        self._outlives = True
        try:
            done = await work
        except BaseException as error:
            self._ended(error)
            raise
        self._ended(None)
        return done

    def _begun(self) -> None:
        tally = self._commits.tally
        tally.active += 1
        tally.begins.observe(perf_counter() - self._made_at)

    def _ended(self, error: BaseException | None) -> None:
        """Close the unit, and count it if it is a whole transaction."""
        if self.parent is not None:
            self.close()
            return
        ending_at, tally = perf_counter(), self._commits.tally
        self.close()
        tally.active -= 1
        if error is not None:
            tally.rollbacks.observe(perf_counter() - ending_at)

    @property
    def root(self) -> "UnitOfWork":
        """The unit that commits to the database."""
        return self if self._outermost is None else self._outermost

    @property
    def _strand(self) -> "UnitOfWork":
        """Who goes through the gate for this unit."""
        return self if self._part_of is None else self._part_of

    @property
    def id(self) -> TransactionId:
        """The transaction that is open now: the one a nested unit is part of, the current segment of a run."""
        return self.root._id

    @property
    def now(self) -> int:
        """This instant by the unit's clock (epoch microseconds)."""
        return self._clock()

    @property
    def attributed(self) -> Actor:
        """Whom a write of this unit is attributed to."""
        return self.executor if self.executor.kind == "user" else self.origin

    async def entity(self, entity_id: EntityId) -> Entity | None:
        """The entity as this unit sees it; the version read is checked again at commit."""
        write = self._visible(entity_id)
        if write is not None:
            return None if write.deletes else write.entity
        entity = self._prefetched_entity(entity_id) or await self._reader.get(self.tenant, entity_id)
        if entity is not None:
            self._reads.setdefault(entity_id, entity.transaction_id)
        return entity

    async def prefetch(self, entity_ids: Iterable[EntityId]) -> list[Entity]:
        """Read entities together that are going to be asked for one after the other; those that are there."""
        found = await asyncio.gather(*(self._reader.get(self.tenant, entity_id) for entity_id in set(entity_ids)))
        self._prefetched |= {entity.id: entity for entity in found if entity is not None}
        return list(self._prefetched.values())

    def _prefetched_entity(self, entity_id: EntityId) -> Entity | None:
        entity = self._prefetched.get(entity_id)
        if entity is not None or self.parent is None:
            return entity
        return self.parent._prefetched_entity(entity_id)

    @property
    def staged(self) -> dict[EntityId, Write]:
        """Every write this unit sees that is not committed yet."""
        inherited = self.parent.staged if self.parent else {}
        return inherited | self._writes

    def create(self, entity: Entity, *, claims: Sequence[Claim] | None = None, lock: int | None = None) -> None:
        """Stage a new entity.

        ``claims`` are what it claims of its model's unique keys; None when there are none. ``lock`` is the
        ``lock_revision`` of the model it was judged by, which must still be locked so when this unit commits; None for
        a model that nobody can unlock.
        """
        wanted = self._wanted(entity, claims)
        self._writes[entity.id] = Write(entity=entity, expected=None, claims=wanted, lock=lock)

    def save(self, entity: Entity, *, if_match: bool = False, claims: Sequence[Claim] | None = None) -> None:
        """Stage a new version of an entity this unit has read or created before; what it claimed so far is released.

        With ``if_match`` the version read was demanded by the client, who is then told ``EntityModified`` instead of
        ``Conflict``.
        """
        before = self._visible(entity.id)
        expected = before.expected if before else self._reads[entity.id]
        wanted = self._wanted(entity, claims)
        lock = before.lock if before else None
        self._writes[entity.id] = Write(entity=entity, expected=expected, if_match=if_match, claims=wanted, lock=lock)

    def delete(self, entity: Entity) -> None:
        """Stage the deletion of an entity this unit has read or created; its claims are released."""
        before = self._visible(entity.id)
        expected = before.expected if before else self._reads[entity.id]
        last = replace(entity, attributed=self.attributed, executor=self.executor, entry_transaction_id=self.label)
        self._writes[entity.id] = Write(entity=last, expected=expected, deletes=True, claims=())

    def expect(self, entity_id: EntityId, version: TransactionId) -> None:
        """Demand at commit that the entity is still at ``version``."""
        self._reads.setdefault(entity_id, version)

    def record(self, entity_id: EntityId, event: AuditEvent) -> None:
        """File an audit event of a run on the entity."""
        self._events.setdefault((entity_id, self.label), []).append(event)

    def event_time(self) -> int:
        """An instant for the next audit event, later than all before it in this transaction."""
        root, now = self.root, self._clock()
        root._last_event_at = at = now if now > root._last_event_at else root._last_event_at + 1
        return at

    def savepoint(self) -> "UnitOfWork":
        """A unit inside this one, whose work can be dropped alone."""
        return self._inner(self.principal, joins=False)

    def joined(self, principal: Principal) -> "UnitOfWork":
        """A unit inside this one for a request of ``principal``.

        Entering its ``async with`` block waits for the gate, and raises ``TransactionNotFound`` when the transaction
        has ended meanwhile.
        """
        return self._inner(principal, joins=True)

    def _inner(self, principal: Principal, *, joins: bool) -> "UnitOfWork":
        return UnitOfWork(
            id=self.id,
            principal=principal,
            reader=self._reader,
            commits=self._commits,
            clock=self._clock,
            origin=self.origin,
            parent=self,
            joins=joins,
            on_model_change=self._on_model_change,
        )

    async def _enter(self) -> None:
        await self._take_gate()
        if not self._is_alive or self.root.id != self._joined_id:  # ended, or gone on to another segment
            self.close()
            raise TransactionNotFound

    def callout(self) -> "Interlude":
        """Let go of the gate for the length of a callout, so that its callbacks can work on the transaction."""
        return Interlude(self._strand)

    def _leave_gate(self) -> None:
        root = self.root
        if root._gate is None:
            root._gate = asyncio.Lock()
        elif self._holds_gate:
            root._gate.release()
        self._holds_gate = False

    async def _take_gate(self) -> None:
        gate = self.root._gate
        assert gate is not None, "nobody joins a transaction before its first callout"  # noqa: S101
        await gate.acquire()
        self._holds_gate = True

    @property
    def _is_alive(self) -> bool:
        return self.is_open and (self.parent is None or self.parent._is_alive)

    async def commit(self) -> int | None:
        """Apply everything or nothing.

        Gives the instant of the new versions (epoch microseconds); None when there was nothing to do, and for a nested
        unit, whose writes become its parent's. Raises ``EntityModified`` or ``Conflict`` when a version moved,
        ``UniqueViolation`` when a claim is taken, ``ModelNotFound``, ``ModelNotLocked`` or ``Conflict`` when the model
        of a new entity was deleted, unlocked, or locked anew meanwhile, the failures of ``storage.growth.grow`` when a
        document contradicts what its model has learnt meanwhile, ``StorageUnavailable`` when the database is away,
        ``TransactionNotFound`` when the parent is gone.
        """
        if self.parent is not None:
            if self._strand is self:
                await self._refuse_taken()
            self._merge(self.parent)
            return None
        return await self._flush()

    @property
    def may_segment(self) -> bool:
        """Whether this is the owner's own part of the transaction, which alone may commit a segment of it."""
        return self._strand is self.root

    async def commit_segment(self, next_id: TransactionId) -> None:
        """Commit what is staged, in a savepoint with all that is staged around it, and go on under ``next_id``.

        Raises as ``commit`` does; then nothing of this segment is durable.
        """
        assert self.may_segment, "a joined request must not segment"  # noqa: S101
        segment = self.id
        if self.parent is None:
            await self._flush()
            self._id = next_id
        else:
            self._merge(self.parent)
            await self.parent.commit_segment(next_id)
            self.warnings = []
        self._reads, self._writes, self._events, self._seen = {}, {}, {}, {}
        self._prefetched.clear()  # what was committed since may be newer
        self._claimed = {}
        self.growth.clear()
        self.tasks.committed(segment)

    async def commit_event(self, entity_id: EntityId, event: AuditEvent) -> None:
        """Commit one audit event and nothing else of what is staged."""
        row = event_row(self.tenant, entity_id, self.label, event)
        await self._commits.commit(Submission(rows=[row]))

    def close(self) -> None:
        """End the unit; what was not committed is discarded. Nobody can join it any more."""
        self.is_open = False
        if self._holds_gate and self.root._gate is not None:
            self.root._gate.release()
        self._holds_gate = False
        for tell in self.on_close:
            tell()
        self.on_close.clear()

    def _visible(self, entity_id: EntityId) -> Write | None:
        """The uncommitted write this unit sees of an entity, its own or an outer one."""
        write = self._writes.get(entity_id)
        if write is not None or self.parent is None:
            return write
        outer = self.parent._visible(entity_id)
        self._seen.setdefault(entity_id, outer)
        return outer

    def _merge(self, parent: "UnitOfWork") -> None:
        if not parent._is_alive:
            raise TransactionNotFound
        for entity_id in self._writes:
            if parent._visible(entity_id) is not self._seen.get(entity_id):
                raise Conflict
        self._refuse_claimed_twice(self._writes)
        for entity_id, version in self._reads.items():
            if parent._reads.setdefault(entity_id, version) != version:
                raise Conflict
        parent._writes |= self._writes
        parent._claimed |= self._claimed
        parent.growth.merge(self.growth)
        for key, events in self._events.items():
            parent._events.setdefault(key, []).extend(events)
        parent.tasks.merge(self.tasks)
        parent.warnings += self.warnings

    async def _flush(self) -> int | None:
        rows = self._rows()
        if not rows:
            return None
        self._refuse_claimed_twice(self._writes)
        submission = Submission(
            rows=rows,
            claims=self._claim_rows(),
            growth=self.growth.submissions(self.tenant),
            tasks=self._task_rows(),
            steps=self.steps,
            homes=self._homes(),
        )
        try:
            verdict = await self._commits.commit(submission)
        finally:
            self._tell_changed(self.growth)
        match verdict:
            case Applied(at):
                if self.tasks:
                    self._commits.tally.committed_timers(self._events.values())
                return at
            case Violation():
                raise UniqueViolation
            case Homeless(reason):
                self._tell_changed(model for _, model, _ in submission.homes)
                failure = HOMELESS[reason]()
                raise failure
            case Stale(entities):
                raise self._conflict(entities)
            case _:
                assert_never(verdict)

    def _conflict(self, stale: Sequence[EntityId]) -> Conflict | EntityModified:
        demanded = (id_ for id_ in stale if id_ in self._writes and self._writes[id_].if_match)
        entity_id = next(demanded, None)
        return Conflict() if entity_id is None else EntityModified(entity_id)

    def _tell_changed(self, models: Iterable[ModelId]) -> None:
        """Whoever keeps definitions must look again: after a refusal, too, which shows that what they knew is old."""
        if self._on_model_change is not None:
            for model in models:
                self._on_model_change(self.tenant, model)

    def _rows(self) -> list[StagedRow]:
        return rows_of(
            Changes(
                tenant=self.tenant,
                transaction=self._id,
                label=self.label,
                writes=self._lasting_writes,
                reads=self._reads,
                events=self._events,
                touched=[id_ for id_ in self.tasks if id_ not in self._writes],
            )
        )

    @property
    def _lasting_writes(self) -> dict[EntityId, Write]:
        return lasting(self._writes)

    def _homes(self) -> frozenset[Home]:
        writes = self._writes.values()
        return frozenset((self.tenant, write.entity.model, write.lock) for write in writes if write.lock is not None)

    def _claim_rows(self) -> list[ClaimRow]:
        if all(write.claims is None for write in self._writes.values()):
            return []
        keyed = ((id_, write.claims) for id_, write in self._lasting_writes.items() if write.claims is not None)
        return [(self.tenant, id_, hash_) for id_, claims in keyed for hash_ in claims or (None,)]

    def _task_rows(self) -> list[TaskRow]:
        if not self.tasks:
            return []
        lasting = self._lasting_writes
        ids = [id_ for id_ in self.tasks if id_ in lasting or id_ not in self._writes]
        return [row for id_ in ids for row in self.tasks.rows(self.tenant, id_, self._id)]

    def _wanted(self, entity: Entity, claims: Sequence[Claim] | None) -> tuple[str, ...] | None:
        if claims is None:
            return None
        hashes = claim_hashes(entity.model, claims)
        self._claimed |= dict.fromkeys(hashes, entity.id)
        return hashes

    def _refuse_claimed_twice(self, writes: Mapping[EntityId, Write]) -> None:
        """Raises ``UniqueViolation`` when two entities of this transaction would hold the same claim."""
        if not self._claimed:
            return
        claimed = {hash_: id_ for id_, write in writes.items() for hash_ in write.claims or ()}
        if len(claimed) < sum(len(write.claims or ()) for write in writes.values()):
            raise UniqueViolation
        for hash_, id_ in claimed.items():
            if any(other != id_ and self._keeps(other, hash_) for other in self._claimants(hash_)):
                raise UniqueViolation

    def _claimants(self, hash_: str) -> Iterator[EntityId]:
        """Entities that outer units want the claim for, or did."""
        unit = self.parent
        while unit is not None:
            if (claimant := unit._claimed.get(hash_)) is not None:
                yield claimant
            unit = unit.parent

    def _keeps(self, entity_id: EntityId, hash_: str) -> bool:
        """Whether an entity that has, or wanted, a claim has it at the end of what this unit sees."""
        write = self._visible(entity_id)
        return write is None or (not write.deletes and hash_ in (write.claims or ()))

    async def _refuse_taken(self) -> None:
        """Raises ``UniqueViolation`` when an entity that this unit does not take it from holds a claim it wants."""
        wanted = {hash_: id_ for id_, write in self._writes.items() for hash_ in write.claims or ()}
        if not wanted:
            return
        found = await holders(self._reader.pool, self.tenant, list(wanted))
        if any(holder != wanted[hash_] and self._keeps(holder, hash_) for hash_, holder in found.items()):
            raise UniqueViolation


class Interlude:
    """The length of an ``async with`` block, during which others may work on a transaction."""

    __slots__ = ("_strand",)

    def __init__(self, strand: UnitOfWork) -> None:
        self._strand = strand

    async def __aenter__(self) -> None:
        self._strand._leave_gate()  # pyright: ignore[reportPrivateUsage]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, asyncio.CancelledError):  # then the unit is dropped, and needs no gate for that
            await self._strand._take_gate()  # pyright: ignore[reportPrivateUsage]

"""The overlay of a unit of work: what it has read and staged, seen before what is stored.

It remembers the versions it read and answers reads from its own writes first. Overlays nest as units do: a nested one
sees what the ``outer`` one sees, and what it stages becomes visible there when it is merged. Should two of them have
changed the same entity from the same version, the second to merge fails with ``Conflict``.

Growth. Documents that extend the schema of a model are kept with the schema as this transaction sees it; others see it
when it commits (docs/adr/0003).

Claims of unique keys (docs/reference/models.md#unique-keys). A write carries what its entity claims from then on.
Whether a claim is free is decided by the commit, when all of the transaction is known; so within it one entity may let
go of a value and another take it, in any order. A joined request asks before it merges: it, and not the owner of the
transaction, should hear of a value that is taken.

What a transaction wants written (``Submission``), how that is made of its writes, reads, events and tasks, and what
became of it (``Verdict``).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.entity import VERSION, AuditEvent, Entity
from statewright.failures import Conflict, EntityModified, Failure, UniqueViolation
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.schema import Claim
from statewright.storage.columns import StagedRow
from statewright.storage.commit.growth import GrownSchema, Growth, StagedGrowth
from statewright.storage.entities import EntityReader
from statewright.storage.pool import Pool
from statewright.storage.schedules import OverlayTasks, ScheduledTaskRow

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

_encode_audit = msgspec.json.Encoder(decimal_format="number").encode


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
    return events[0].at, len(events), _encode_audit(events).decode()


HASH_BYTES: Final = 16
"""As long as a UUID, which is how it is stored; claims are equal when their hashes are."""

KeepsClaim = Callable[[EntityId, str], bool]
"""Tells whether an entity that has, or wanted, a claim has it when the transaction ends."""

_encode = msgspec.json.Encoder().encode


def hash_claim(model: ModelId, claim: Claim) -> str:
    """The name of a claim within its tenant, as 32 hexadecimal digits."""
    key = claim.key_id.encode()
    return blake2b(b"%s%d:%s%s" % (model.encode(), len(key), key, claim.values), digest_size=HASH_BYTES).hexdigest()


def hash_claims(model: ModelId, claims: Iterable[Claim]) -> tuple[str, ...]:
    """The names of all claims of one entity."""
    return tuple(hash_claim(model, claim) for claim in claims)


class StagedClaims:
    """Who wants which claim in the overlay of a unit of work; an entity may have changed its mind since."""

    def __init__(self, outer: "StagedClaims | None") -> None:
        self._outer = outer
        self._claimants: dict[str, EntityId] = {}

    def stage(self, entity: Entity, claims: Sequence[Claim]) -> tuple[str, ...]:
        """Note what an entity claims; the hashes."""
        hashes = hash_claims(entity.model, claims)
        self._claimants |= dict.fromkeys(hashes, entity.id)
        return hashes

    def refuse_doubles(self, writes: Mapping[EntityId, Write], keeps: KeepsClaim) -> None:
        """Raises ``UniqueViolation`` when two entities of the transaction would hold the same claim."""
        if not self._claimants:
            return
        claimed = _map_claims(writes)
        if len(claimed) < sum(len(write.claims or ()) for write in writes.values()):
            raise UniqueViolation
        for hash_, id_ in claimed.items():
            if any(other != id_ and keeps(other, hash_) for other in self._iter_outer_claimants(hash_)):
                raise UniqueViolation

    def merge(self, inner: "StagedClaims") -> None:
        """Take over what a nested unit has staged."""
        self._claimants |= inner._claimants

    def clear(self) -> None:
        """Begin anew: what was staged is committed."""
        self._claimants.clear()

    def _iter_outer_claimants(self, hash_: str) -> Iterator[EntityId]:
        outer = self._outer
        while outer is not None:
            if (claimant := outer._claimants.get(hash_)) is not None:
                yield claimant
            outer = outer._outer


def _map_claims(writes: Mapping[EntityId, Write]) -> dict[str, EntityId]:
    """What is claimed, and the entity that claims it."""
    return {hash_: id_ for id_, write in writes.items() for hash_ in write.claims or ()}


def build_claim_rows(tenant: TenantId, writes: Mapping[EntityId, Write]) -> list[ClaimRow]:
    """What entities with unique keys claim from now on."""
    keyed = [(id_, write.claims) for id_, write in writes.items() if write.claims is not None]
    return [(tenant, id_, hash_) for id_, claims in keyed for hash_ in claims or (None,)]


HOLDERS: Final = """
    SELECT claimed.hash, holder.entity
      FROM unnest($2::uuid[]) AS claimed (hash)
     CROSS JOIN LATERAL (SELECT entity FROM unique_claim WHERE tenant = $1 AND hash = claimed.hash LIMIT 1) AS holder
"""


async def fetch_holders(pool: Pool, tenant: TenantId, hashes: Sequence[str]) -> dict[str, EntityId]:
    """Who holds the claims that are taken, as last committed."""
    rows = await pool.fetch(HOLDERS, tenant, hashes)
    return {row["hash"].hex: EntityId(str(row["entity"])) for row in rows}


async def refuse_taken_claims(
    pool: Pool, tenant: TenantId, writes: Mapping[EntityId, Write], keeps: KeepsClaim
) -> None:
    """Raises ``UniqueViolation`` when the writes claim what another entity holds, and keeps."""
    wanted = _map_claims(writes)
    if not wanted:
        return
    found = await fetch_holders(pool, tenant, list(wanted))
    if any(holder != wanted[hash_] and keeps(holder, hash_) for hash_, holder in found.items()):
        raise UniqueViolation


def encode_claims(batch: Sequence[Submission]) -> str | None:
    """The claims of the transactions of a batch, for the commit statement; None when none of them has unique keys."""
    claims = [
        {"t": number, "tenant": tenant, "entity": entity, "hash": hash_}
        for number, submission in enumerate(batch)
        for tenant, entity, hash_ in submission.claims
    ]
    return _encode(claims).decode() if claims else None


class Overlay:
    """What one unit has read and staged.

    ``label`` is the id under which its audit events are filed: that of the run's first segment. ``parts`` are what it
    writes by optional parts of the commit statement, by their names.
    """

    def __init__(
        self, tenant: TenantId, label: TransactionId, reader: EntityReader, outer: "Overlay | None" = None
    ) -> None:
        self.tenant = tenant
        self.label = label
        self.events: dict[tuple[EntityId, TransactionId], list[AuditEvent]] = {}
        self.parts: dict[str, StagedPart] = {}
        self._reader = reader
        self._outer = outer
        self._reads: dict[EntityId, TransactionId] = {}
        self._prefetched: dict[EntityId, Entity] = {}
        self._writes: dict[EntityId, Write] = {}
        self._outer_writes: dict[EntityId, Write | None] = {}  # what the outer one had staged when we first looked
        self._growth: StagedGrowth | None = None  # these three are made when there is something to stage
        self._tasks: OverlayTasks | None = None
        self._claims: StagedClaims | None = None
        self._labelled: set[EntityId] = set()  # committed by an earlier segment, as an outcome that the label names

    @property
    def growth(self) -> StagedGrowth:
        """What documents teach their models, to stage more of it."""
        if self._growth is None:
            self._growth = StagedGrowth(self._outer.growth if self._outer else None)
        return self._growth

    def find_grown(self, model: ModelId) -> GrownSchema | None:
        """A model as the transaction has extended it; None when it has not."""
        if self._growth is not None:
            return self._growth.find(model)
        return None if self._outer is None else self._outer.find_grown(model)

    @property
    def tasks(self) -> OverlayTasks:
        """Scheduled transitions, to look at or to stage."""
        if self._tasks is None:
            self._tasks = OverlayTasks(self._outer.tasks if self._outer else None)
        return self._tasks

    @property
    def claims(self) -> StagedClaims:
        """Claims of unique keys, to stage more of them."""
        if self._claims is None:
            self._claims = StagedClaims(self._outer.claims if self._outer else None)
        return self._claims

    @property
    def staged(self) -> dict[EntityId, Write]:
        """Every write that is seen here and not committed yet."""
        inherited = self._outer.staged if self._outer else {}
        return inherited | self._writes

    @property
    def written_ids(self) -> tuple[EntityId, ...]:
        """The entities with a write of this overlay, or of nested ones that were merged."""
        return tuple(self._writes)

    async def get_entity(self, entity_id: EntityId) -> Entity | None:
        """The entity as it is seen here; the version read is checked again at commit."""
        write = self._find_write(entity_id)
        if write is not None:
            return None if write.deletes else write.entity
        entity = self._find_prefetched(entity_id) or await self._reader.get(self.tenant, entity_id)
        if entity is not None:
            self._reads.setdefault(entity_id, entity.transaction_id)
        return entity

    async def prefetch(self, entity_ids: Iterable[EntityId]) -> list[Entity]:
        """Read entities together that are going to be asked for one after the other; those that are there."""
        found = await asyncio.gather(*(self._reader.get(self.tenant, entity_id) for entity_id in set(entity_ids)))
        self._prefetched |= {entity.id: entity for entity in found if entity is not None}
        return list(self._prefetched.values())

    def _find_prefetched(self, entity_id: EntityId) -> Entity | None:
        entity = self._prefetched.get(entity_id)
        if entity is not None or self._outer is None:
            return entity
        return self._outer._find_prefetched(entity_id)

    def create(
        self,
        entity: Entity,
        *,
        claims: Sequence[Claim] | None = None,
        lock: int | None = None,
        is_intermediate: bool = False,
    ) -> None:
        """Stage a new entity.

        ``claims`` are what it claims of its model's unique keys; None when there are none. ``lock`` is the
        ``lock_revision`` of the model it was judged by, which must still be locked so at commit; None for a model that
        cannot be unlocked. ``is_intermediate``: the version is no outcome, and bears the id that it has here rather
        than that of the transaction.
        """
        hashes = None if claims is None else self.claims.stage(entity, claims)
        self._writes[entity.id] = Write(
            entity=entity, expected=None, claims=hashes, lock=lock, is_intermediate=is_intermediate
        )

    def save(
        self,
        entity: Entity,
        *,
        if_match: bool = False,
        claims: Sequence[Claim] | None = None,
        is_intermediate: bool = False,
    ) -> None:
        """Stage a new version of an entity that was read or created here; what it claimed so far is released.

        With ``if_match`` the version read was demanded by the client, who is then told ``EntityModified`` instead of
        ``Conflict``. ``is_intermediate`` as in ``create``.
        """
        before = self._find_write(entity.id)
        self._writes[entity.id] = Write(
            entity=entity,
            expected=before.expected if before else self._reads[entity.id],
            if_match=if_match,
            claims=None if claims is None else self.claims.stage(entity, claims),
            lock=before.lock if before else None,
            is_intermediate=is_intermediate,
        )

    def delete(self, entity: Entity) -> None:
        """Stage the deletion of an entity that was read or created here; its claims are released."""
        before = self._find_write(entity.id)
        expected = before.expected if before else self._reads[entity.id]
        self._writes[entity.id] = Write(entity=entity, expected=expected, deletes=True, claims=())

    def expect(self, entity_id: EntityId, version: TransactionId) -> None:
        """Demand at commit that the entity is still at ``version``."""
        self._reads.setdefault(entity_id, version)

    def _find_write(self, entity_id: EntityId) -> Write | None:
        """The uncommitted write that is seen of an entity, one of its own or an outer one."""
        write = self._writes.get(entity_id)
        if write is not None or self._outer is None:
            return write
        outer = self._outer._find_write(entity_id)
        self._outer_writes.setdefault(entity_id, outer)
        return outer

    def merge(self, inner: "Overlay") -> None:
        """Take over what a nested one has staged. Raises ``Conflict`` and ``UniqueViolation``."""
        for entity_id in inner._writes:
            if self._find_write(entity_id) is not inner._outer_writes.get(entity_id):
                raise Conflict
        inner._refuse_doubles()
        for entity_id, version in inner._reads.items():
            if self._reads.setdefault(entity_id, version) != version:
                raise Conflict
        self._writes |= inner._writes
        if inner._claims is not None:
            self.claims.merge(inner._claims)
        if inner._growth is not None:
            self.growth.merge(inner._growth)
        for key, events in inner.events.items():
            self.events.setdefault(key, []).extend(events)
        if inner._tasks is not None:
            self.tasks.merge(inner._tasks)
        for name, staged in inner.parts.items():
            self.parts[name] = self.parts[name].merge(staged) if name in self.parts else staged

    def mark_committed(self, segment: TransactionId) -> None:
        """Begin anew: what was staged is stored, by ``segment``."""
        self._labelled |= {id_ for id_, write in self._writes.items() if self._is_labelled(write)}
        self._reads, self._writes, self.events, self._outer_writes = {}, {}, {}, {}
        self._prefetched.clear()  # what was committed since may be newer
        if self._claims is not None:
            self._claims.clear()
        if self._growth is not None:
            self._growth.clear()
        if self._tasks is not None:
            self._tasks.mark_committed(segment)
        self.parts.clear()

    def build_submission(self, transaction: TransactionId) -> Submission | None:
        """What ``transaction`` is to commit; None when there is nothing to do. Raises ``UniqueViolation``."""
        tasks, writes = self._tasks, {id_: write for id_, write in self._writes.items() if not is_transient(write)}
        for id_ in self._labelled & writes.keys():
            writes[id_] = self._unlabel(writes[id_], transaction)
        changes = StagedChanges(
            tenant=self.tenant,
            transaction=transaction,
            label=self.label,
            writes=writes,
            reads=self._reads,
            events=self._name_versions(writes, transaction),
            touched=() if tasks is None else [id_ for id_ in tasks if id_ not in self._writes],
        )
        rows = build_rows(changes)
        if not rows:
            return None
        locks = [(self.tenant, one.entity.model, one.lock) for one in self._writes.values() if one.lock is not None]
        self._refuse_doubles()
        return Submission(
            rows=rows,
            claims=build_claim_rows(self.tenant, writes),
            growth=() if self._growth is None else self._growth.list_growth(self.tenant),
            tasks=() if tasks is None else self._build_task_rows(tasks, transaction),
            model_locks=frozenset(locks),
            parts=self.parts,
        )

    def _name_versions(
        self, writes: Mapping[EntityId, Write], transaction: TransactionId
    ) -> Mapping[tuple[EntityId, TransactionId], list[AuditEvent]]:
        """The audit events. Where a version bears another id than the label they are filed under, the first of those
        that are committed with it names it: so the versions of a run of several segments are found.
        """
        named: dict[tuple[EntityId, TransactionId], list[AuditEvent]] = {}
        for id_, write in writes.items():
            version = write.entity.transaction_id if write.is_intermediate else transaction
            if version == self.label or not (events := self.events.get((id_, self.label))):
                continue
            first = replace(events[0], data=(events[0].data or {}) | {VERSION: version})
            named[id_, self.label] = [first, *events[1:]]
        return self.events | named if named else self.events

    def find_parts(self, name: str) -> Iterator[StagedPart]:
        """What is staged under a name here and in the overlays around it, the innermost first."""
        overlay: Overlay | None = self
        while overlay is not None:
            if (staged := overlay.parts.get(name)) is not None:
                yield staged
            overlay = overlay._outer

    def _is_labelled(self, write: Write) -> bool:
        return write.entity.entry_transaction_id == self.label

    def _unlabel(self, write: Write, transaction: TransactionId) -> Write:
        """The write of an entity of which an earlier segment has stored an outcome, such as an item of a collection
        that names it again: the label names one version of an entity, or a reader of that one would overwrite this.
        """
        if not self._is_labelled(write):
            return write
        return replace(write, entity=replace(write.entity, entry_transaction_id=transaction))

    def _build_task_rows(self, tasks: OverlayTasks, transaction: TransactionId) -> list[ScheduledTaskRow]:
        ids = [id_ for id_ in tasks if not is_transient(self._writes.get(id_))]
        return [row for id_ in ids for row in tasks.build_rows(self.tenant, id_, transaction)]

    def build_conflict(self, stale: Sequence[EntityId]) -> Conflict | EntityModified:
        """What to tell the client of a commit that found these entities at other versions."""
        demanded = (id_ for id_ in stale if id_ in self._writes and self._writes[id_].if_match)
        entity_id = next(demanded, None)
        return Conflict() if entity_id is None else EntityModified(entity_id)

    async def refuse_taken_claims(self) -> None:
        """Raises ``UniqueViolation`` when an entity that this transaction does not take it from holds a claim."""
        await refuse_taken_claims(self._reader.pool, self.tenant, self._writes, self._keeps_claim)

    def _refuse_doubles(self) -> None:
        if self._claims is not None:
            self._claims.refuse_doubles(self._writes, self._keeps_claim)

    def _keeps_claim(self, entity_id: EntityId, hash_: str) -> bool:
        """Whether an entity that has, or wanted, a claim has it at the end of what is seen here."""
        write = self._find_write(entity_id)
        return write is None or (not write.deletes and hash_ in (write.claims or ()))

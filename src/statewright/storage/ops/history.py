"""The versions of an entity, the superseded ones and those of a deleted entity included; and the acts of operators that
commit with what they do to an entity, such as a restore.

Changes of the entities of a tenant, the newest first, found by the events that their runs have filed; the events of one
entity, a page at a time; and what a transaction has written.

*By time.* No index has the runs of a tenant by their time: it would cost every commit an entry. A BRIN index knows the
times of whole ranges of pages. So windows of time are looked at, backwards from where the page begins, each wider than
the one before it while that is quick. One request looks at so much only; where it has come to is part of its answer.

*By transaction.* An index by transaction would cost every commit an entry at a random place. The id of a transaction
has the time at which it was made, and events have the time of their run, so the same BRIN index leaves little to look
at.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final, cast
from uuid import UUID

import asyncpg
import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright.entity import Actor, AuditEvent, ChangeType, Entity
from statewright.failures import SearchTimeout
from statewright.ids import EntityId, TenantId, TransactionId, make_uuid7, system_clock
from statewright.instants import parse_instant, to_rfc3339, to_us
from statewright.jsonval.values import JsonObject
from statewright.operations.history import ChangedEntity, RunEvent, WrittenEntity
from statewright.operations.service import Act
from statewright.storage.commit.overlay import StagedPart
from statewright.storage.commit.statement import build_staged_part, read_sections
from statewright.storage.entities import COLUMNS, to_entity, wait_until_visible
from statewright.storage.ops.records import read_record
from statewright.storage.ops.service import encode_details
from statewright.storage.pool import Pool
from statewright.storage.search.query import SearchDatabase


class VersionKey(Struct, frozen=True, array_like=True):
    """The instant from which a version is valid, unique in an entity."""

    valid_from: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Version(Struct, frozen=True, kw_only=True):
    """One version. ``entity`` has no document; ``until`` is when it was superseded, None for the last one;
    ``stored_bytes`` is what the document takes, mostly compressed. Instants in epoch microseconds.
    """

    entity: Entity
    until: int | None
    stored_bytes: int
    is_deletion: bool
    is_current: bool

    @property
    def at(self) -> int:
        """When it was written."""
        return self.entity.updated_at

    @property
    def change(self) -> ChangeType:
        """What wrote it."""
        if self.is_deletion:
            return "DELETE"
        return "CREATE" if self.entity.created_at == self.entity.updated_at else "UPDATE"


class VersionDocument(Struct, frozen=True):
    """A version with its document as JSON text, None for a deletion."""

    version: Version
    document: str | None


class VersionFilter(Struct, frozen=True, kw_only=True):
    """Which versions are wanted: in one of the states, written from ``since`` on and before ``before``."""

    states: tuple[str, ...] | None = None
    since: int | None = None
    before: int | None = None


_VERSIONS: Final = f"""
    SELECT {COLUMNS}, NULL::bigint AS until, true AS is_current FROM entity WHERE tenant = $1 AND id = $2
     UNION ALL
    SELECT {COLUMNS}, nullif(valid_to, 9223372036854775807) AS until, false AS is_current
      FROM entity_history WHERE tenant = $1 AND id = $2
"""  # noqa: S608 - the column list is a constant

_ABOUT: Final = (
    "coalesce(pg_column_size(document), 0) AS stored_bytes, document IS NULL AS is_deletion, until, is_current"
)

_LISTED: Final = f"{COLUMNS.replace('document', 'NULL AS document')}, {_ABOUT}"

LIST: Final = f"""
    SELECT {_LISTED}
      FROM ({_VERSIONS}) AS version
     WHERE ($3::text[] IS NULL OR state = ANY($3))
       AND valid_from >= coalesce($4::bigint, 0) AND valid_from < coalesce($5::bigint, 9223372036854775807)
       AND valid_from < coalesce($6::bigint, 9223372036854775807)
     ORDER BY valid_from DESC
     LIMIT $7
"""  # noqa: S608

ONE: Final = f"""
    SELECT {COLUMNS}, {_ABOUT}
      FROM ({_VERSIONS}) AS version
     WHERE ($3::uuid IS NULL OR transaction_id = $3) AND valid_from <= coalesce($4::bigint, 9223372036854775807)
     ORDER BY valid_from DESC
     LIMIT 1
"""  # noqa: S608


async def fetch_versions(
    pool: Pool, tenant: TenantId, entity: EntityId, wanted: VersionFilter, *, limit: int, after: VersionKey | None
) -> list[Version]:
    """Up to ``limit`` versions that are kept, newest first; those before one when ``after`` is its key."""
    until = None if after is None else after.valid_from
    rows = await pool.fetch(LIST, tenant, entity, wanted.states, wanted.since, wanted.before, until, limit)
    return [_to_version(row) for row in rows]


async def find_version(
    pool: Pool,
    tenant: TenantId,
    entity: EntityId,
    *,
    transaction: TransactionId | None = None,
    at: int | None = None,
) -> VersionDocument | None:
    """The version that a transaction wrote, or the last one that was written at an instant or before; the last of all
    when neither is given.
    """
    if at is not None:
        await wait_until_visible(pool, at)
    row = await pool.fetchrow(ONE, tenant, entity, transaction, at)
    return None if row is None else VersionDocument(_to_version(row), row["document"])


def _to_version(row: asyncpg.Record) -> Version:
    return Version(
        entity=replace(to_entity(row), document=""),
        until=row["until"],
        stored_bytes=row["stored_bytes"],
        is_deletion=row["is_deletion"],
        is_current=row["is_current"],
    )


class StagedAct(StagedPart, frozen=True, kw_only=True):
    """An act as it is recorded."""

    tenant: TenantId
    id: str
    actor_id: str
    actor_kind: str
    action: str
    target_kind: str
    target_id: str
    details: str
    reason: str | None = None
    trace_id: str | None = None


ACTS: Final = build_staged_part("acts", read_sections("statewright.storage.ops", "acts.sql"))


def build_staged_act(tenant: TenantId, actor: Actor, act: Act) -> StagedAct:
    """What a transaction stages that carries the act out."""
    return StagedAct(
        tenant=tenant,
        id=make_uuid7(system_clock()),
        actor_id=actor.id,
        actor_kind=actor.kind,
        action=act.action,
        target_kind=act.target_kind,
        target_id=act.target_id,
        details=encode_details(act.details),
        reason=act.reason,
        trace_id=act.trace_id,
    )


Instant = Annotated[int, Meta(ge=-(2**53), le=2**63 - 1)]

Uuid = Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]


MAX_SCANNED: Final = 20_000
"""Runs that one request looks at."""

MAX_PART: Final = 2_000
"""Runs that are read at once."""

WITHIN_S: Final = 5.0
"""How long a request may look; one for changes begins no further window when half of it is over."""

FIRST_SPAN: Final = timedelta(seconds=10)
"""The first window that is looked at."""

WIDENING: Final = 4
"""How many times as wide the window after a quick one is."""

QUICK_S: Final = 0.1
"""The longest that a quick window takes."""

BEFORE: Final = timedelta(minutes=1)
"""By how much the clock of a node may be ahead of that of the database."""

AFTER: Final = timedelta(hours=2)
"""How long after the beginning of its run a version is looked for."""


class ChangeKey(Struct, frozen=True, array_like=True):
    """The place of a change: when its run began, the transaction of the run, and the entity."""

    at: Instant
    transaction: Uuid
    entity: Uuid


class ChangeFilter(Struct, frozen=True, kw_only=True):
    """Which changes are wanted: of models with a name, by an actor (who did it, or for whom), in a time (``since``
    inclusive, ``before`` exclusive, epoch microseconds).
    """

    model: str | None = None
    actor: str | None = None
    since: int | None = None
    before: int | None = None


class FoundChanges(Struct, frozen=True, kw_only=True):
    """Changes, and how many runs were looked at for them. ``position`` is where the next request goes on, None when
    there is nothing further.
    """

    found: tuple[ChangedEntity, ...]
    scanned: int
    position: ChangeKey | None


PART: Final = """
    -- Uses entity_audit_at. The window ends before a key.
    SELECT at, transaction_id, entity, n
      FROM entity_audit
     WHERE at >= $2 AND at <= $3 AND tenant = $1 AND (at, transaction_id, entity) < ($3, $4::uuid, $5::uuid)
     ORDER BY at DESC, transaction_id DESC, entity DESC
     LIMIT $6
"""


DETAILS: Final = """
    -- Keys of entity and of entity_history.
    SELECT filed.at, filed.transaction_id, filed.entity AS entity_id, filed.n AS events, version.state,
           version.transition, version.change AS change_type, version.attributed_id AS attributed_to_id,
           version.attributed_kind AS attributed_to_kind, version.executor_id AS executed_by_id,
           version.executor_kind AS executed_by_kind, model.name AS model_name, model.version AS model_version
      FROM unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::int[]) AS filed (at, transaction_id, entity, n)
      LEFT JOIN LATERAL (
            SELECT *
              FROM (SELECT model, state, transition, valid_from, attributed_id, attributed_kind, executor_id,
                           executor_kind, CASE WHEN created_at = valid_from THEN 'CREATE' ELSE 'UPDATE' END AS change
                      FROM entity
                     WHERE tenant = $1 AND id = filed.entity
                       AND filed.transaction_id IN (transaction_id, entry_transaction_id)
                     UNION ALL
                    SELECT model, state, transition, valid_from, attributed_id, attributed_kind, executor_id,
                           executor_kind, CASE WHEN document IS NULL THEN 'DELETE'
                                               WHEN created_at = valid_from THEN 'CREATE' ELSE 'UPDATE' END
                      FROM entity_history
                     WHERE tenant = $1 AND id = filed.entity AND valid_from BETWEEN filed.at - $6 AND filed.at + $7
                       AND filed.transaction_id IN (transaction_id, entry_transaction_id)) AS kept
             ORDER BY valid_from DESC
             LIMIT 1) AS version ON true
      LEFT JOIN model ON model.tenant = $1 AND model.id = version.model
     WHERE ($8::text IS NULL OR model.name = $8)
       AND ($9::text IS NULL OR $9 IN (version.attributed_id, version.executor_id))
     ORDER BY filed.at DESC, filed.transaction_id DESC, filed.entity DESC
"""


_LAST: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"


_FIRST: Final = "00000000-0000-0000-0000-000000000000"


async def find_changes(
    search: SearchDatabase,
    tenant: TenantId,
    wanted: ChangeFilter,
    *,
    now: int,
    limit: int,
    after: ChangeKey | None,
    max_scanned: int = MAX_SCANNED,
) -> FoundChanges:
    """Up to ``limit`` changes, newest first, behind ``after``, as far as one request comes. ``now`` in epoch
    microseconds.

    Raises ``SearchTimeout`` when not even one window could be looked at, ``StorageUnavailable``.
    """
    scan = _Scan(tenant, wanted, after or _begin(wanted, now), limit)
    try:
        async with asyncio.timeout(WITHIN_S), search.open_connection(tenant) as connection:
            await scan.run(connection, max_scanned, until=time.monotonic() + WITHIN_S / 2)
    except TimeoutError as late:
        if not scan.has_come_on:
            raise SearchTimeout(WITHIN_S) from late
    return scan.conclude()


def _begin(wanted: ChangeFilter, now: int) -> ChangeKey:
    """Behind this come all changes that are wanted."""
    newest = now + to_us(BEFORE)
    if wanted.before is None or wanted.before > newest:
        return ChangeKey(newest, _LAST, _LAST)
    return ChangeKey(wanted.before, _FIRST, _FIRST)


class _Scan:
    def __init__(self, tenant: TenantId, wanted: ChangeFilter, begin: ChangeKey, limit: int) -> None:
        self._tenant = tenant
        self._wanted = wanted
        self._begin = begin
        self._limit = limit
        self._found: list[ChangedEntity] = []
        self._position: ChangeKey | None = begin
        self._scanned = 0

    @property
    def has_come_on(self) -> bool:
        """Whether the next request begins elsewhere."""
        return self._position != self._begin

    async def run(self, connection: asyncpg.Connection, max_scanned: int, *, until: float) -> None:
        """Look at windows, at least one, until there is enough, or the time or the number of runs is over."""
        oldest, span = self._wanted.since or 0, to_us(FIRST_SPAN)
        is_filtered = self._wanted.model is not None or self._wanted.actor is not None
        size = MAX_PART if is_filtered else self._limit + 1
        while (here := self._position) is not None:
            began = time.monotonic()
            since = max(oldest, here.at - span)
            rows = await connection.fetch(PART, self._tenant, since, here.at, here.transaction, here.entity, size)
            found = await self._read_details(connection, rows)
            self._scanned += len(rows)
            self._found += found
            if len(rows) == size:
                last = rows[-1]
                self._position = ChangeKey(last["at"], str(last["transaction_id"]), str(last["entity"]))
            elif since == oldest:
                self._position = None
            else:
                self._position = ChangeKey(since, _FIRST, _FIRST)
                span *= WIDENING if time.monotonic() - began < QUICK_S else 1
            if len(self._found) > self._limit or self._scanned >= max_scanned or time.monotonic() > until:
                return

    async def _read_details(
        self, connection: asyncpg.Connection, rows: Sequence[asyncpg.Record]
    ) -> "list[ChangedEntity]":
        if not rows:
            return []
        columns = zip(*((row["at"], row["transaction_id"], row["entity"], row["n"]) for row in rows), strict=True)
        details = await connection.fetch(
            DETAILS,
            self._tenant,
            *columns,
            to_us(BEFORE),
            to_us(AFTER),
            self._wanted.model,
            self._wanted.actor,
        )
        return [read_record(ChangedEntity, row) for row in details]

    def conclude(self) -> FoundChanges:
        """What was found, no more than were asked for."""
        if len(self._found) <= self._limit:
            return FoundChanges(found=tuple(self._found), scanned=self._scanned, position=self._position)
        told = tuple(self._found[: self._limit])
        return FoundChanges(found=told, scanned=self._scanned, position=_to_key(told[-1]))


def _to_key(change: ChangedEntity) -> ChangeKey:
    return ChangeKey(parse_instant(change.at), change.transaction_id, change.entity_id)


class EventKey(Struct, frozen=True, array_like=True):
    """Where an event stands: when its run began, the transaction of the run, and its number there."""

    at: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    transaction: Uuid
    number: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class FiledEvent(Struct, frozen=True, kw_only=True):
    """An event and where it stands."""

    key: EventKey
    event: RunEvent


LAST: Final = EventKey(2**63 - 1, _LAST, 2**31 - 1)
"""Behind all events there are."""


RUNS: Final = """
    -- A range of entity_audit_entity. Events are not read of runs that the page does not come to; of the first run, the
    -- last events may have been told already.
    SELECT at, transaction_id, events
      FROM (SELECT at, transaction_id, events,
                   sum(untold) OVER (ORDER BY at DESC, transaction_id DESC) - untold AS before
              FROM (SELECT at, transaction_id, events,
                           CASE WHEN at = $3 AND transaction_id = $4::uuid THEN least(n, $5) ELSE n END AS untold
                      FROM entity_audit
                     WHERE tenant = $1 AND entity = $2 AND at <= $3 AND (at, transaction_id) <= ($3, $4::uuid)
                       AND ($6::uuid IS NULL OR transaction_id = $6)
                     ORDER BY at DESC, transaction_id DESC
                     LIMIT $7) AS run) AS counted
     WHERE before < $7
     ORDER BY at DESC, transaction_id DESC
"""


_decode = msgspec.json.Decoder(tuple[AuditEvent, ...]).decode


async def fetch_events(
    pool: Pool,
    tenant: TenantId,
    entity: EntityId,
    *,
    limit: int,
    after: EventKey | None,
    transaction: TransactionId | None,
) -> list[FiledEvent]:
    """Up to ``limit`` events, those of the newest run first, and of each run the last one first; those behind a key
    when ``after`` is one. ``transaction``: only those of one run.
    """
    begin = after or LAST
    # Of the first run there may be nothing left to tell: one run more is read than events are wanted.
    rows = await pool.fetch(RUNS, tenant, entity, begin.at, begin.transaction, begin.number, transaction, limit + 1)
    found: list[FiledEvent] = []
    for row in rows:
        events, id_ = _decode(row["events"]), str(row["transaction_id"])
        is_begun = (row["at"], id_) == (begin.at, begin.transaction)
        for number in range(len(events) - 1, -1, -1):
            if is_begun and number >= begin.number:
                continue
            found.append(FiledEvent(key=EventKey(row["at"], id_, number), event=_to_event(events[number], id_)))
            if len(found) == limit:
                return found
    return found


def _to_event(event: AuditEvent, transaction: str) -> RunEvent:
    return RunEvent(
        at=to_rfc3339(event.at),
        transaction_id=transaction,
        event_type=event.type,
        state=event.state,
        details=event.details,
        data=None if event.data is None else cast("JsonObject", event.data),  # of scalars and lists of texts
    )


TRANSACTIONS_AFTER: Final = (timedelta(minutes=2), timedelta(hours=2))
"""How long after its beginning a transaction is looked for: first where nearly all are."""


class TransactionKey(Struct, frozen=True, array_like=True):
    """The place of an entity in the list of a transaction."""

    entity: UUID


FILED: Final = """
    -- Uses entity_audit_at. One row for each entity, and of an entity for each segment.
    SELECT entity, min(at) AS at, sum(n)::int AS events
      FROM entity_audit
     WHERE at >= $3 AND at <= $4 AND tenant = $1 AND transaction_id = $2 AND entity > $5
     GROUP BY entity
     ORDER BY entity
     LIMIT $6
"""


WRITTEN: Final = """
    SELECT filed.entity AS entity_id, filed.at, filed.events, version.state, version.transition,
           version.change AS change_type, coalesce(version.versions, 0) AS versions, model.name AS model_name,
           model.version AS model_version
      FROM unnest($3::uuid[], $4::bigint[], $5::int[]) AS filed (entity, at, events)
      LEFT JOIN LATERAL (
            SELECT model, state, transition, count(*) OVER () AS versions,
                   CASE WHEN is_deletion THEN 'DELETE' WHEN created_at = valid_from THEN 'CREATE' ELSE 'UPDATE' END
                   AS change
              FROM (SELECT model, state, transition, created_at, valid_from, false AS is_deletion
                      FROM entity
                     WHERE tenant = $1 AND id = filed.entity AND $2 IN (transaction_id, entry_transaction_id)
                     UNION ALL
                    SELECT model, state, transition, created_at, valid_from, document IS NULL
                      FROM entity_history
                     WHERE tenant = $1 AND id = filed.entity AND valid_from BETWEEN $6 AND $7
                       AND $2 IN (transaction_id, entry_transaction_id)) AS kept
             ORDER BY valid_from DESC
             LIMIT 1) AS version ON true
      LEFT JOIN model ON model.tenant = $1 AND model.id = version.model
     ORDER BY filed.entity
"""


async def list_written(
    search: SearchDatabase,
    tenant: TenantId,
    transaction: TransactionId,
    *,
    made_at: int,
    limit: int,
    after: TransactionKey | None,
) -> list[WrittenEntity]:
    """Up to ``limit`` entities, by id, that a transaction has written whose id was made at an instant (epoch
    microseconds); those behind ``after``.

    Raises ``SearchTimeout``, ``StorageUnavailable``.
    """
    since, begin = made_at - to_us(BEFORE), after.entity if after else UUID(int=0)
    try:
        async with asyncio.timeout(WITHIN_S), search.open_connection(tenant) as connection:
            for span in TRANSACTIONS_AFTER:
                until = made_at + to_us(span)
                filed = await connection.fetch(FILED, tenant, transaction, since, until, begin, limit)
                if filed:
                    break
            else:
                return []
            ids, instants, events = zip(*filed, strict=True)
            rows = await connection.fetch(WRITTEN, tenant, transaction, ids, instants, events, since, until)
    except TimeoutError as late:
        raise SearchTimeout(WITHIN_S) from late
    return [read_record(WrittenEntity, row) for row in rows]

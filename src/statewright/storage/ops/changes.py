"""Changes of the entities of a tenant, the newest first, found by the events that their runs have filed.

No index has the runs of a tenant by their time: it would cost every commit an entry. A BRIN index knows the times of
whole ranges of pages. So windows of time are looked at, backwards from where the page begins, each wider than the one
before it while that is quick. One request looks at so much only; where it has come to is part of its answer.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final

import asyncpg
from msgspec import Meta, Struct

from statewright.entity import Actor, ChangeType, ModelKey
from statewright.failures import SearchTimeout
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.storage.search.query import SearchDatabase

Instant = Annotated[int, Meta(ge=-(2**53), le=2**63 - 1)]
Uuid = Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]

MAX_SCANNED: Final = 20_000
"""Runs that one request looks at."""

MAX_PART: Final = 2_000
"""Runs that are read at once."""

WITHIN_S: Final = 5.0

FIRST_SPAN: Final = timedelta(seconds=10)
WIDENING: Final = 4
QUICK_S: Final = 0.1
"""A window that took no longer is followed by a wider one."""

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


class FoundChange(Struct, frozen=True, kw_only=True):
    """A run that has filed ``events`` of an entity, and the last version that it wrote, as far as that is kept."""

    key: ChangeKey
    events: int
    model: ModelKey | None = None
    state: str | None = None
    transition: str | None = None
    change: ChangeType | None = None
    attributed: Actor | None = None
    executor: Actor | None = None

    @property
    def entity(self) -> EntityId:
        return EntityId(self.key.entity)

    @property
    def transaction(self) -> TransactionId:
        return TransactionId(self.key.transaction)


class FoundChanges(Struct, frozen=True, kw_only=True):
    """Changes, and how many runs were looked at for them. ``position`` is where the next request goes on, None when
    there is nothing further.
    """

    found: tuple[FoundChange, ...]
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
    SELECT filed.at, filed.transaction_id::text AS transaction, filed.entity::text AS entity, filed.n AS events,
           version.state, version.transition, version.change, version.attributed_id, version.attributed_kind,
           version.executor_id, version.executor_kind, model.name, model.version
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
        async with asyncio.timeout(WITHIN_S), search.open_connection() as connection:
            await scan.run(connection, max_scanned, until=time.monotonic() + WITHIN_S / 2)
    except TimeoutError as late:
        if not scan.has_come_on:
            raise SearchTimeout(WITHIN_S) from late
    return scan.conclude()


def _begin(wanted: ChangeFilter, now: int) -> ChangeKey:
    """Behind this come all changes that are wanted."""
    newest = now + BEFORE // _MICROSECOND
    if wanted.before is None or wanted.before > newest:
        return ChangeKey(newest, _LAST, _LAST)
    return ChangeKey(wanted.before, _FIRST, _FIRST)


class _Scan:
    def __init__(self, tenant: TenantId, wanted: ChangeFilter, begin: ChangeKey, limit: int) -> None:
        self._tenant = tenant
        self._wanted = wanted
        self._begin = begin
        self._limit = limit
        self._found: list[FoundChange] = []
        self._position: ChangeKey | None = begin
        self._scanned = 0

    @property
    def has_come_on(self) -> bool:
        """Whether the next request begins elsewhere."""
        return self._position != self._begin

    async def run(self, connection: asyncpg.Connection, max_scanned: int, *, until: float) -> None:
        """Look at windows, at least one, until there is enough, or the time or the number of runs is over."""
        oldest, span = self._wanted.since or 0, FIRST_SPAN // _MICROSECOND
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
    ) -> "list[FoundChange]":
        if not rows:
            return []
        columns = zip(*((row["at"], row["transaction_id"], row["entity"], row["n"]) for row in rows), strict=True)
        details = await connection.fetch(
            DETAILS,
            self._tenant,
            *columns,
            BEFORE // _MICROSECOND,
            AFTER // _MICROSECOND,
            self._wanted.model,
            self._wanted.actor,
        )
        return [_to_change(row) for row in details]

    def conclude(self) -> FoundChanges:
        """What was found, no more than were asked for."""
        if len(self._found) <= self._limit:
            return FoundChanges(found=tuple(self._found), scanned=self._scanned, position=self._position)
        told = tuple(self._found[: self._limit])
        return FoundChanges(found=told, scanned=self._scanned, position=told[-1].key)


def _to_change(row: asyncpg.Record) -> FoundChange:
    key = ChangeKey(row["at"], row["transaction"], row["entity"])
    if row["change"] is None:
        return FoundChange(key=key, events=row["events"])
    return FoundChange(
        key=key,
        events=row["events"],
        model=None if row["name"] is None else ModelKey(row["name"], row["version"]),
        state=row["state"],
        transition=row["transition"],
        change=row["change"],
        attributed=Actor(row["attributed_id"], row["attributed_kind"]),
        executor=Actor(row["executor_id"], row["executor_kind"]),
    )


_MICROSECOND: Final = timedelta(microseconds=1)

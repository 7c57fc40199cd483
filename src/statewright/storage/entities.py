"""Reading entities: current versions, coalesced by id; versions of the past; pages of a model.

*Shared reads.* Reads by key share statements: those who ask in the same turn of the event loop, or while as many
statements as are useful are on their way, are answered by one. A statement is sent after every request it answers has
arrived, so each reader sees all that was committed before it asked.

*The past, although the present is still being written* (docs/adr/0006). A version carries the instant at which its
statement ran, and becomes visible when its transaction commits, a moment later. A reader between the two, at an instant
after the version's, does not see it; asked again for the same instant, he would. So every statement that writes
versions holds an advisory lock, shared, from before it takes its instant until its versions are visible, and who reads
at an instant T

1. waits, if T is a little in the future, until it has passed: no version can get an instant up to T any more, except in
   a transaction that holds the lock already;
2. looks who holds the lock, and waits until these transactions are gone. Those that came later have later instants.

A snapshot taken after that shows every version up to T, now and for ever. A writer never waits for a reader. An
instant that is old enough needs no look. All instants come from the clock of the database; setting that clock back
takes the promise away.
"""

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import timedelta
from itertools import chain, takewhile
from typing import Any, Final, Generic, TypeVar

import asyncpg

from statewright.entity import Actor, ChangeType, Entity, EntityChange, OffsetPage
from statewright.failures import HistoryPruned, StorageUnavailable
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.storage.columns import ENTITY_COLUMNS
from statewright.storage.pool import Pool
from statewright.storage.versions import MAX_PORTION, PORTION_BYTES, VersionRef, limit_documents, to_ref

MAX_BATCH: Final = 64
MAX_IN_FLIGHT: Final = 3
SECOND_BATCH_MIN: Final = 8
"""Readers that justify another statement while one is on its way; fewer wait for it and then share the next."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedReads(Generic[K, V]):
    """Values by key. ``fetch`` reads those of many keys with one statement, within so many seconds; what it leaves out
    does not exist.
    """

    def __init__(
        self,
        pool: Pool,
        fetch: "Callable[[asyncpg.Connection, Sequence[K], float], Awaitable[Mapping[K, V]]]",
        *,
        name: str,
        within: timedelta = timedelta(seconds=10),
    ) -> None:
        self._pool = pool
        self._fetch = fetch
        self._name = name
        self._within = within
        self._waiting: dict[K, list[asyncio.Future[V | None]]] = {}
        self._in_flight: set[asyncio.Task[None]] = set()
        self._scheduled = False

    def ask(self, key: K) -> "asyncio.Future[V | None]":
        """The value, or None when there is none (any more). Awaiting it raises ``StorageUnavailable``."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[V | None] = loop.create_future()
        self._waiting.setdefault(key, []).append(waiter)
        self._schedule(loop)
        return waiter

    @property
    def _has_capacity(self) -> bool:
        """Whether a statement may leave now."""
        busy = len(self._in_flight)
        return not busy or (busy < MAX_IN_FLIGHT and len(self._waiting) >= SECOND_BATCH_MIN)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._scheduled and self._has_capacity:
            self._scheduled = True
            loop.call_soon(self._send)

    def _send(self) -> None:
        self._scheduled = False
        while self._waiting and self._has_capacity:
            keys = list(self._waiting)[:MAX_BATCH]
            batch = {key: self._waiting.pop(key) for key in keys}
            task = asyncio.get_running_loop().create_task(self._answer(batch), name=self._name)
            self._in_flight.add(task)
            task.add_done_callback(self._finish_batch)

    def _finish_batch(self, task: "asyncio.Task[None]") -> None:
        self._in_flight.discard(task)
        if self._waiting:
            self._schedule(task.get_loop())

    async def _answer(self, batch: "dict[K, list[asyncio.Future[V | None]]]") -> None:
        try:
            async with self._pool.connection(within=self._within) as connection:
                found = await self._fetch(connection, list(batch), self._within.total_seconds())
        except Exception as error:  # a background task: the readers must learn of it, whatever it is
            for waiter in chain.from_iterable(batch.values()):
                if not waiter.done():  # a reader may have been cancelled
                    waiter.set_exception(error)
            return
        for key, readers in batch.items():
            value = found.get(key)
            for waiter in readers:
                if not waiter.done():
                    waiter.set_result(value)


SETTLED_WINDOW: Final = timedelta(minutes=10)
"""Before the time of this machine. No statement that writes versions takes so long, nor do clocks differ so much."""

MAX_AHEAD_US: Final = 250_000
"""An instant no further ahead is waited for, since clocks of clients run ahead; a later one is read as the present."""

WRITERS_TIMEOUT_S: Final = 10.0
MIN_PAUSE_S, MAX_PAUSE_S = 0.0005, 0.05

NOW_AND_WRITERS: Final = """
    -- The sessions that hold the lock that commit/commit.sql and bulk deletion take, in this database.
    SELECT now_us() AS now,
           ARRAY(SELECT virtualtransaction
                   FROM pg_locks
                  WHERE locktype = 'advisory' AND classid = 5371 AND objid = 1 AND objsubid = 2 AND granted
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS writers
"""


async def wait_until_visible(pool: Pool, instant: int) -> None:
    """Wait until everything that was written up to ``instant`` (epoch microseconds) is visible.

    Raises ``StorageUnavailable`` when a writer takes too long.
    """
    if instant < (time.time() - SETTLED_WINDOW.total_seconds()) * 1_000_000:
        return
    now, writers = await _fetch_writers(pool)
    if 0 < instant - now <= MAX_AHEAD_US:
        await asyncio.sleep((instant - now + 1) / 1_000_000)
        now, writers = await _fetch_writers(pool)
    await _outwait(pool, writers)


async def _outwait(pool: Pool, writers: set[str]) -> None:
    pause, deadline = MIN_PAUSE_S, time.monotonic() + WRITERS_TIMEOUT_S
    while writers:
        if time.monotonic() > deadline:
            raise StorageUnavailable("a transaction that was begun before the wanted instant has not ended")
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
        _, present = await _fetch_writers(pool)
        writers &= present


class SettledInstant:
    """Up to when everything that was written is visible, for all of a process who read what is just being written: one
    look for all who ask meanwhile.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._looking: asyncio.Task[int] | None = None
        self.at = 0
        """As of the last look; it never goes back."""

    async def advance(self) -> int:
        """Look again, and wait for who has begun to write. Raises ``StorageUnavailable`` when one takes too long."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="settled-instant")
        return await asyncio.shield(self._looking)

    async def _look(self) -> int:
        try:
            now, writers = await _fetch_writers(self._pool)
            await _outwait(self._pool, writers)
        finally:
            self._looking = None
        self.at = max(self.at, now - 1)  # who begins to write now has this microsecond at the earliest
        return self.at


async def _fetch_writers(pool: Pool) -> tuple[int, set[str]]:
    [(now, writers)] = await pool.fetch(NOW_AND_WRITERS)
    return now, set(writers)


FOREVER: Final = 2**63 - 1
"""``valid_to`` of what has no end: a tombstone, or any instant later than all versions."""

COLUMNS: Final = f"{ENTITY_COLUMNS.entity}"


def to_entity(row: Iterable[Any]) -> Entity:
    """An entity from a row with ``COLUMNS`` in order."""
    (
        tenant,
        id_,
        entry,
        transaction,
        model,
        state,
        transition,
        workflow,
        revision,
        by,
        by_kind,
        ran,
        ran_kind,
        document,
        created,
        valid_from,
        *_,
    ) = row
    return Entity(
        tenant=tenant,
        id=EntityId(str(id_)),
        model=ModelId(str(model)),
        state=state,
        transaction_id=TransactionId(str(transaction)),
        entry_transaction_id=TransactionId(str(entry)),
        created_at=created,
        updated_at=valid_from,
        transition=transition,
        workflow=workflow,
        workflow_revision=revision,
        attributed=Actor(by, by_kind),
        executor=Actor(ran, ran_kind),
        document=document,
    )


# LATERAL … LIMIT 1 keeps the planner at one index probe per id, also with statistics taken while the table was empty.
CURRENT: Final = f"""
    SELECT current.*
      FROM unnest($1::text[], $2::uuid[]) AS wanted (tenant, id)
     CROSS JOIN LATERAL (
            SELECT {COLUMNS}
              FROM entity
             WHERE entity.tenant = wanted.tenant AND entity.id = wanted.id
             LIMIT 1) AS current
"""  # noqa: S608 - the column list is a constant


class EntityReader:
    """Current versions by id. Readers share statements (:class:`SharedReads`)."""

    def __init__(self, pool: Pool, *, within: timedelta = timedelta(seconds=10)) -> None:
        self.pool = pool
        self._reads = SharedReads(pool, _fetch_current, name="entity-read", within=within)

    def get(self, tenant: TenantId, entity_id: EntityId) -> "asyncio.Future[Entity | None]":
        """The current version, or None when there is none (any more). Awaiting it raises ``StorageUnavailable``."""
        return self._reads.ask((tenant, entity_id))


async def _fetch_current(
    connection: asyncpg.Connection, keys: Sequence[tuple[TenantId, EntityId]], timeout_s: float
) -> dict[tuple[TenantId, EntityId], Entity]:
    tenants, ids = [tenant for tenant, _ in keys], [id_ for _, id_ in keys]
    found = map(to_entity, await connection.fetch(CURRENT, tenants, ids, timeout=timeout_s))
    return {(entity.tenant, entity.id): entity for entity in found}


BARE: Final = CURRENT.replace("document", "'' AS document")


async def fetch_bare_entities(pool: Pool, tenant: TenantId, ids: Sequence[EntityId]) -> list[Entity]:
    """Those of the entities that are there now, with everything that is stored of them but their documents."""
    rows = await pool.fetch(BARE, [tenant] * len(ids), ids)
    return [*map(to_entity, rows)]


def _select_version_at(entity_id: str, instant: str) -> str:
    """The version of an entity that was valid at an instant. Of superseded ones it can only be the last that had begun
    by then, so those before it are not read, however many there are.
    """
    return f"""
        SELECT {COLUMNS} FROM entity
         WHERE tenant = $1 AND id = {entity_id} AND valid_from <= {instant}
         UNION ALL
        SELECT {COLUMNS}
          FROM (SELECT {COLUMNS}, valid_to FROM entity_history
                 WHERE tenant = $1 AND id = {entity_id} AND valid_from <= {instant}
                 ORDER BY valid_from DESC LIMIT 1) AS latest
         WHERE valid_to > {instant}
         LIMIT 1
    """  # noqa: S608 - the column list is a constant, the rest are names of parameters and columns


AT_INSTANT: Final = _select_version_at("$2", "$3")

BY_TRANSACTION: Final = f"""
    SELECT {COLUMNS} FROM entity
     WHERE tenant = $1 AND id = $2 AND $3 IN (transaction_id, entry_transaction_id)
     UNION ALL
    SELECT {COLUMNS} FROM entity_history
     WHERE tenant = $1 AND id = $2 AND $3 IN (transaction_id, entry_transaction_id)
     ORDER BY valid_from DESC
     LIMIT 1
"""  # noqa: S608


async def fetch_entity_at(pool: Pool, tenant: TenantId, entity_id: EntityId, instant: int) -> Entity | None:
    """The version valid at ``instant`` (epoch microseconds, inclusive); None before creation and from deletion on.

    Raises ``HistoryPruned``.
    """
    await wait_until_visible(pool, instant)
    async with pool.connection() as connection:
        row = await connection.fetchrow(AT_INSTANT, tenant, entity_id, instant)
        if row is None:
            await _refuse_pruned(connection, tenant, entity_id, instant)
    return None if row is None or row["document"] is None else to_entity(row)


CREATED: Final = """
    SELECT created_at FROM entity WHERE tenant = $1 AND id = $2
     UNION ALL
    SELECT created_at FROM entity_history WHERE tenant = $1 AND id = $2
     LIMIT 1
"""


async def _refuse_pruned(connection: asyncpg.Connection, tenant: TenantId, entity_id: EntityId, instant: int) -> None:
    """An entity that was there by then and of which nothing was found had a version that is kept no longer.

    Raises ``HistoryPruned``.
    """
    created: int | None = await connection.fetchval(CREATED, tenant, entity_id)
    if created is not None and created <= instant:
        raise HistoryPruned(instant)


async def fetch_entity_by_transaction(
    pool: Pool, tenant: TenantId, entity_id: EntityId, transaction: TransactionId
) -> Entity | None:
    """The version that ``transaction`` left behind; None also for the transaction of a deletion."""
    row = await pool.fetchrow(BY_TRANSACTION, tenant, entity_id, transaction)
    return None if row is None or row["document"] is None else to_entity(row)


# The innermost query walks (tenant, model, id) for the page only; OFFSET never fetches a document that is not returned.
PAGE: Final = limit_documents(
    f"""
        SELECT {COLUMNS}, count(*) OVER () AS candidates
          FROM entity
          JOIN (SELECT id AS wanted FROM entity
                 WHERE tenant = $1 AND model = $2 AND id > $5
                 ORDER BY id LIMIT $3 OFFSET $4) AS page
            ON entity.id = page.wanted
         WHERE tenant = $1
    """,  # noqa: S608 - the column list is a constant
    f"{COLUMNS}, candidates",
    most=PORTION_BYTES,
    order="ORDER BY id",
)

# Which entities there were at an instant is known without their versions: those created by then and not deleted until
# later. So ids are walked in order, through entity_model and entity_history_deleted, and versions are looked up for the
# page only. Each branch is cut on its own, or the planner sorts all ids. A version that is not found has been pruned.
PAGE_AT: Final = limit_documents(
    f"""
        SELECT known.id AS wanted, version.*, count(*) OVER () AS candidates
          FROM (SELECT id FROM (
                    (SELECT id
                       FROM entity
                      WHERE tenant = $1 AND model = $2 AND id > $6 AND created_at <= $5
                      ORDER BY id LIMIT $3::bigint + $4::bigint)
                    UNION ALL
                    (SELECT id
                       FROM entity_history
                      WHERE tenant = $1 AND model = $2 AND document IS NULL AND id > $6
                        AND created_at <= $5 AND valid_from > $5
                      ORDER BY id LIMIT $3::bigint + $4::bigint)) AS entities
                 ORDER BY id LIMIT $3 OFFSET $4) AS known
          LEFT JOIN LATERAL ({_select_version_at("known.id", "$5")}) AS version ON true
    """,  # noqa: S608 - the column list is a constant
    f"{COLUMNS}, candidates, wanted",
    most=PORTION_BYTES,
    order="ORDER BY wanted",
)


async def fetch_entities(
    pool: Pool, tenant: TenantId, model: ModelId, page: OffsetPage, *, instant: int | None = None
) -> AsyncGenerator[list[Entity]]:
    """A part of a model's entities in ascending order of id, as they are now or were at ``instant``: one portion or
    more, so that a page of large documents need not be in memory as a whole. No connection is held between portions.

    Raises ``HistoryPruned``.
    """
    if instant is not None:
        await wait_until_visible(pool, instant)
    left, offset, after = page.size, page.offset, page.after
    while True:
        wanted = min(left, MAX_PORTION)
        async with pool.connection() as connection:
            if instant is None:
                rows = await connection.fetch(PAGE, tenant, model, wanted, offset, after)
            else:
                rows = await connection.fetch(PAGE_AT, tenant, model, wanted, offset, instant, after)
        if instant is not None and any(row["id"] is None for row in rows):
            raise HistoryPruned(instant)
        found = [to_entity(row) for row in takewhile(_has_document, rows)]
        left -= len(found)
        is_last = not left or len(found) == (rows[0]["candidates"] if rows else 0) < wanted
        if found:
            yield found
        if is_last:
            return
        offset, after = 0, found[-1].id


def _has_document(row: asyncpg.Record) -> bool:
    return row["document"] is not None


CHANGES: Final = f"""
    SELECT valid_from, created_at, {ENTITY_COLUMNS.stamp}, false AS deleted
      FROM entity
     WHERE tenant = $1 AND id = $2 AND valid_from <= $3
       AND ($5::uuid[] IS NULL OR transaction_id = ANY ($5) OR entry_transaction_id = ANY ($5))
     UNION ALL
    SELECT valid_from, created_at, {ENTITY_COLUMNS.stamp}, document IS NULL
      FROM entity_history
     WHERE tenant = $1 AND id = $2 AND valid_from <= $3
       AND ($5::uuid[] IS NULL OR transaction_id = ANY ($5) OR entry_transaction_id = ANY ($5))
     ORDER BY valid_from DESC
     LIMIT $4
"""  # noqa: S608


async def fetch_changes(
    pool: Pool,
    tenant: TenantId,
    entity_id: EntityId,
    *,
    until: int = FOREVER,
    limit: int = 1000,
    transactions: Collection[TransactionId] | None = None,
) -> list[EntityChange]:
    """The entity's versions up to ``until`` that are kept, newest first; a deletion is an entry of its own.
    ``transactions``: only those that bear one of these ids; None is all.

    Raises ``HistoryPruned`` when the version valid at ``until`` is not kept.
    """
    if until != FOREVER:
        await wait_until_visible(pool, until)
    changes = await fetch_kept_changes(pool, tenant, entity_id, until=until, limit=limit, transactions=transactions)
    if not changes and until != FOREVER and transactions is None:
        async with pool.connection() as connection:
            await _refuse_pruned(connection, tenant, entity_id, until)
    return changes


async def fetch_kept_changes(
    pool: Pool,
    tenant: TenantId,
    entity_id: EntityId,
    *,
    until: int,
    limit: int,
    transactions: Collection[TransactionId] | None,
) -> list[EntityChange]:
    """The newest of the entity's versions up to ``until``, of those that are visible and kept by now; as
    ``fetch_changes``, but nothing is waited for, and none are no failure.
    """
    rows = await pool.fetch(CHANGES, tenant, entity_id, until, limit, transactions)
    return [*map(_to_change, rows)]


def _to_change(row: asyncpg.Record) -> EntityChange:
    kind: ChangeType = "DELETE" if row["deleted"] else "CREATE" if row["valid_from"] == row["created_at"] else "UPDATE"
    return EntityChange(
        type=kind,
        at=row["valid_from"],
        attributed=Actor(row["attributed_id"], row["attributed_kind"]),
        executor=Actor(row["executor_id"], row["executor_kind"]),
        transaction_id=TransactionId(str(row["transaction_id"])),
    )


EXISTED: Final = """
    SELECT EXISTS (SELECT FROM entity WHERE tenant = $1 AND id = $2)
        OR EXISTS (SELECT FROM entity_history WHERE tenant = $1 AND id = $2)
"""


async def has_existed(pool: Pool, tenant: TenantId, entity_id: EntityId) -> bool:
    """Whether the tenant has, or ever had, such an entity."""
    found: bool = await pool.fetchval(EXISTED, tenant, entity_id)
    return found


FIRST_REFS: Final = """
    SELECT id, valid_from, transaction_id FROM entity
     WHERE tenant = $1 AND model = $2 AND id > $4
     ORDER BY id LIMIT $3
"""


async def fetch_first_refs(
    pool: Pool, tenant: TenantId, model: ModelId, *, limit: int, after: EntityId
) -> list[VersionRef]:
    """The versions of the first of a model's entities ``after`` one, in ascending order of id."""
    return [*map(to_ref, await pool.fetch(FIRST_REFS, tenant, model, limit, after))]

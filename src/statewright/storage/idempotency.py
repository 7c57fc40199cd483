"""Records of requests with an ``Idempotency-Key`` (docs/reference/operations.md#idempotent-requests).

A transaction writes the record of its request with its effect, by parts of the commit statement. All else that is done
with records has statements of its own.

What administers models, clients or indexes writes without a unit of work, each on a connection of a pool. Its request
does all its work and leaves its record in one database transaction: a :class:`JoinedPool` stands for a connection with
that transaction open, and what is given it writes into the transaction without knowing of it.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Final

import asyncpg
import msgspec
from asyncpg.transaction import Transaction
from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import IdempotencyClaimLost, IdempotencyKeyTaken
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.instants import to_us
from statewright.operations.idempotency import KeyScope, KeyStatus, StoredAnswer
from statewright.storage.commit.overlay import PartRefused, Refusal, StagedPart, Submission
from statewright.storage.commit.statement import Part, read_sections
from statewright.storage.entities import SharedReads
from statewright.storage.pool import ACQUIRE_TIMEOUT, LEASE_LIMIT, ConnectionLease, DatabaseConnection, Pool

NOBODY: Final = "00000000-0000-0000-0000-000000000000"
"""The token of an attempt that is over with its first write."""


class KeyRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record as a transaction writes it.

    ``claim`` is the token that the stored record must have; None: there must be none. ``token`` and ``node`` tell who
    is at work, and count as long as somebody is. ``element`` is added to those of the chunks before, ``entities`` to
    the ids that are known. ``kept_us`` is for how long the record counts.
    """

    tenant: TenantId
    principal: str
    key: str
    request_hash: str
    claim: str | None = None
    token: str = NOBODY
    node: str = ""
    status: KeyStatus
    is_segmented: bool = False
    transaction_id: str | None = None
    entities: Sequence[str] = ()
    element: str | None = None
    answer_status: int | None = None
    answer_type: str | None = None
    answer: str | None = None
    kept_us: int


class KeyRecords(StagedPart, frozen=True, kw_only=True):
    """The records of one transaction."""

    records: tuple[KeyRecord, ...]

    @property
    def size(self) -> int:
        return sum([len(record.answer or "") + len(record.element or "") for record in self.records])

    @property
    def names(self) -> Sequence[str]:
        return [f"{record.tenant}/{record.principal}/{record.key}" for record in self.records]

    def merge(self, inner: StagedPart) -> "KeyRecords":
        assert isinstance(inner, KeyRecords)  # noqa: S101 - nothing else is staged under its name
        return replace(self, records=(*self.records, *inner.records))


def _build_part(name: str, file: str, refusals: Mapping[str, Refusal], *, claimed: bool) -> Part:
    """A part that writes the records of a batch that are claimed, or those that are not. Its parameter is a list of
    them, each with ``t``, the number of its transaction.
    """

    def encode(batch: Sequence[Submission]) -> str | None:
        parts = [
            b'{"t":%d,%b' % (t, _encode(record)[1:])
            for t, submission in enumerate(batch)
            if isinstance(staged := submission.parts.get(KEYS), KeyRecords)
            for record in staged.records
            if (record.claim is not None) is claimed
        ]
        return f"[{b','.join(parts).decode()}]" if parts else None

    sections = read_sections("statewright.storage.commit", file)
    return Part(name=name, sections=sections, encode=encode, refusals=refusals, staged_as=KEYS)


_encode = msgspec.json.Encoder().encode

KEYS: Final = "keys"
"""The name under which records are staged."""

NEW_KEYS: Final = _build_part(
    KEYS, "idempotency_keys.sql", {"idempotency_taken": PartRefused(lambda _: IdempotencyKeyTaken())}, claimed=False
)
CLAIMED_KEYS: Final = _build_part(
    "key_claims",
    "idempotency_claims.sql",
    {"idempotency_lost": PartRefused(lambda _: IdempotencyClaimLost())},
    claimed=True,
)
KEY_PARTS: Final = (NEW_KEYS, CLAIMED_KEYS)


MAX_BATCH: Final = 1000
"""Records that one statement removes."""


class StoredKey(Struct, frozen=True, kw_only=True):
    """A record as it is stored. Instants are epoch microseconds. ``is_held``: a node that is alive works on it."""

    request_hash: bytes
    status: KeyStatus
    token: str
    node: str
    is_held: bool
    is_segmented: bool
    transaction_id: TransactionId | None
    entities: tuple[EntityId, ...]
    elements: tuple[str, ...]
    answer: StoredAnswer | None
    created_at: int
    expires_at: int


# LATERAL … LIMIT 1 keeps the planner at one index probe per key.
FIND: Final = """
    SELECT wanted.tenant, wanted.principal, wanted.key, stored.*
      FROM unnest($1::text[], $2::text[], $3::uuid[]) AS wanted (tenant, principal, key)
     CROSS JOIN LATERAL (
            SELECT request_hash, status, token, node, is_segmented, transaction_id, entities, elements,
                   answer_status, answer_type, answer, created_at, expires_at,
                   status = 'IN_PROGRESS'
                   AND EXISTS (SELECT FROM cluster_node WHERE id = node AND lease_until > now_us()) AS is_held,
                   status <> 'IN_PROGRESS' AND expires_at <= now_us() AS is_expired
              FROM idempotency
             WHERE idempotency.tenant = wanted.tenant AND idempotency.principal = wanted.principal
               AND idempotency.key = wanted.key
             LIMIT 1) AS stored
"""


DROP_EXPIRED: Final = """
    DELETE FROM idempotency
     USING unnest($1::text[], $2::text[], $3::uuid[]) AS old (tenant, principal, key)
     WHERE idempotency.tenant = old.tenant AND idempotency.principal = old.principal AND idempotency.key = old.key
       AND status <> 'IN_PROGRESS' AND expires_at <= now_us()
"""


class KeyReader:
    """Records by key. Those who ask at the same time share a statement."""

    def __init__(self, pool: Pool) -> None:
        self._reads = SharedReads(pool, _fetch_records, name="idempotency-read")

    async def find(self, scope: KeyScope) -> StoredKey | None:
        """The record; None when there is none, or it does not count any more. Raises ``StorageUnavailable``."""
        return await self._reads.ask(scope)


async def _fetch_records(
    connection: asyncpg.Connection, scopes: Sequence[KeyScope], timeout_s: float
) -> Mapping[KeyScope, StoredKey]:
    tenants, principals = [scope.tenant for scope in scopes], [scope.principal for scope in scopes]
    keys = [scope.key for scope in scopes]
    rows = await connection.fetch(FIND, tenants, principals, keys, timeout=timeout_s)
    expired = [row for row in rows if row["is_expired"]]
    if expired:  # none that counts: they must not be in the way of new ones
        columns = [[row[name] for row in expired] for name in ("tenant", "principal", "key")]
        await connection.execute(DROP_EXPIRED, *columns, timeout=timeout_s)
        rows = [row for row in rows if not row["is_expired"]]
    return {KeyScope(row["tenant"], row["principal"], row["key"].hex): _to_stored_key(row) for row in rows}


def _to_stored_key(row: asyncpg.Record) -> StoredKey:
    status, transaction = row["answer_status"], row["transaction_id"]
    return StoredKey(
        request_hash=row["request_hash"],
        status=row["status"],
        token=str(row["token"]),
        node=row["node"],
        is_held=row["is_held"],
        is_segmented=row["is_segmented"],
        transaction_id=None if transaction is None else TransactionId(str(transaction)),
        entities=tuple(EntityId(str(entity)) for entity in row["entities"]),
        elements=tuple(row["elements"]),
        answer=None if status is None else StoredAnswer(status, row["answer_type"], row["answer"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )


ADD: Final = """
    -- Waits for a twin that is just being written. A record whose time is over does not count, and is replaced.
    INSERT INTO idempotency AS stored (tenant, principal, key, request_hash, token, node, status, transaction_id,
                                       entities, answer_status, answer_type, answer, created_at, expires_at)
    VALUES ($1, $2, $3, decode($4, 'hex'), $5, $6, $7, $8, $9::uuid[], $10, $11, $12, now_us(), now_us() + $13::bigint)
        ON CONFLICT (tenant, principal, key) DO UPDATE
       SET request_hash = excluded.request_hash, token = excluded.token, node = excluded.node,
           status = excluded.status, is_segmented = false, transaction_id = excluded.transaction_id,
           entities = excluded.entities, elements = '{}', answer_status = excluded.answer_status,
           answer_type = excluded.answer_type, answer = excluded.answer,
           created_at = excluded.created_at, expires_at = excluded.expires_at
     WHERE stored.status <> 'IN_PROGRESS' AND stored.expires_at <= now_us()
    RETURNING true
"""

CHANGE: Final = """
    UPDATE idempotency
       SET status = $5, transaction_id = coalesce($6, transaction_id), entities = entities || $7::uuid[],
           is_segmented = false, answer_status = $8, answer_type = $9, answer = $10, expires_at = now_us() + $11::bigint
     WHERE tenant = $1 AND principal = $2 AND key = $3 AND token = $4 AND status = 'IN_PROGRESS'
    RETURNING true
"""


async def write_record(connection: asyncpg.Connection, record: KeyRecord) -> bool:
    """Write a record by a statement of its own; False when another attempt has the key."""
    answer = (record.answer_status, record.answer_type, record.answer, record.kept_us)
    written, scope = (record.transaction_id, list(record.entities)), (record.tenant, record.principal, record.key)
    if record.claim is not None:
        change = (*scope, record.claim, record.status, *written, *answer)
        return await connection.fetchval(CHANGE, *change) is True
    made = (*scope, record.request_hash, record.token, record.node, record.status, *written, *answer)
    return await connection.fetchval(ADD, *made) is True


async def store_record(pool: Pool, record: KeyRecord) -> bool:
    """:func:`write_record` on a connection of the pool. Raises ``StorageUnavailable``."""
    async with pool.connection() as connection:
        return await write_record(connection, record)


TAKE_OVER: Final = """
    UPDATE idempotency SET token = $5, node = $6
     WHERE tenant = $1 AND principal = $2 AND key = $3 AND token = $4 AND status = 'IN_PROGRESS' AND NOT is_segmented
       AND (node = $6 OR NOT EXISTS (SELECT FROM cluster_node WHERE id = node AND lease_until > now_us()))
    RETURNING elements
"""


async def take_over(pool: Pool, scope: KeyScope, *, former: str, token: str, node: str) -> tuple[str, ...] | None:
    """Go on with what another attempt has begun whose node is gone, or this one's that is over. What became of the
    chunks so far; None when somebody else was faster.
    """
    elements = await pool.fetchval(TAKE_OVER, scope.tenant, scope.principal, scope.key, former, token, node)
    return None if elements is None else tuple(elements)


INTERRUPT: Final = """
    UPDATE idempotency SET status = 'INTERRUPTED', expires_at = now_us() + $5::bigint
     WHERE tenant = $1 AND principal = $2 AND key = $3 AND token = $4 AND status = 'IN_PROGRESS' AND is_segmented
"""


async def interrupt(pool: Pool, scope: KeyScope, *, former: str, kept: timedelta) -> None:
    """Mark a run of which a part is durable, and whose node is gone: it is never run again."""
    async with pool.connection() as connection:
        kept_us = to_us(kept)
        await connection.execute(INTERRUPT, scope.tenant, scope.principal, scope.key, former, kept_us)


GIVE_UP: Final = """
    -- A commit that is still on its way holds the row, and is waited for.
    WITH removed AS (
        DELETE FROM idempotency
         WHERE tenant = $1 AND principal = $2 AND key = $3 AND token = $4 AND status = 'IN_PROGRESS'
           AND NOT is_segmented AND elements = '{}'
    )
    UPDATE idempotency SET node = ''
     WHERE tenant = $1 AND principal = $2 AND key = $3 AND token = $4 AND status = 'IN_PROGRESS'
       AND (is_segmented OR elements <> '{}')
"""


async def give_up(pool: Pool, scope: KeyScope, token: str) -> None:
    """The attempt is over without an answer: its claim is removed, or, where something of it is durable, left to
    whoever repeats the request.
    """
    await pool.execute(GIVE_UP, scope.tenant, scope.principal, scope.key, token)


AMEND: Final = """
    UPDATE idempotency SET answer_status = $5, answer_type = $6, answer = $7
     WHERE tenant = $1 AND principal = $2 AND key = $3 AND request_hash = $4 AND status = 'DONE'
"""


async def amend_answer(pool: Pool, scope: KeyScope, request_hash: bytes, answer: StoredAnswer) -> None:
    """Replace the answer of a request that has been recorded."""
    async with pool.connection() as connection:
        own = (scope.tenant, scope.principal, scope.key, request_hash)
        await connection.execute(AMEND, *own, answer.status, answer.media_type, answer.body)


REMOVE: Final = """
    -- Uses idempotency_expiry. Nodes that sweep at once pass each other's rows by.
    WITH old AS MATERIALIZED (
        SELECT tenant, principal, key FROM idempotency
         WHERE expires_at <= now_us()
           AND (status <> 'IN_PROGRESS'
                OR NOT EXISTS (SELECT FROM cluster_node WHERE id = node AND lease_until > now_us()))
         ORDER BY expires_at
         LIMIT $1 FOR UPDATE SKIP LOCKED
    ),
    removed AS (
        DELETE FROM idempotency USING old
         WHERE idempotency.tenant = old.tenant AND idempotency.principal = old.principal AND idempotency.key = old.key
        RETURNING 1
    )
    SELECT count(*) FROM removed
"""


async def remove_expired_records(pool: Pool) -> int:
    """Remove up to ``MAX_BATCH`` records, of all tenants, whose time is over; how many."""
    removed: int = await pool.fetchval(REMOVE, MAX_BATCH)
    return removed


ESTIMATE: Final = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'idempotency'::regclass"


async def estimate_records(pool: Pool) -> int:
    """About how many records there are, as the database counted last: a look at all of them would cost too much."""
    count: int = await pool.fetchval(ESTIMATE)
    return count


class JoinedLease(ConnectionLease):
    """The connection for the length of a block, whose work is undone alone when the block fails."""

    __slots__ = ("_joined", "_savepoint")

    def __init__(self, pool: Pool, connection: DatabaseConnection) -> None:
        super().__init__(pool, ACQUIRE_TIMEOUT, None)
        self._joined = connection
        self._savepoint: Transaction | None = None

    async def __aenter__(self) -> DatabaseConnection:
        self._savepoint = self._joined.transaction()
        await self._savepoint.start()
        return self._joined

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._savepoint is not None  # noqa: S101 - the block was entered
        if error is None:
            await self._savepoint.commit()
        elif not self._joined.is_closed():
            await self._savepoint.rollback()


class JoinedPool(Pool):
    """A pool whose only connection is in an open transaction. It is for one task, which asks for one thing after the
    other.
    """

    def __init__(self, pool: Pool, connection: DatabaseConnection) -> None:
        self.faults = pool.faults
        self._connection = connection

    def connection(
        self,
        *,
        within: timedelta = ACQUIRE_TIMEOUT,
        limit: timedelta | None = LEASE_LIMIT,
        tenant: TenantId | None = None,
    ) -> ConnectionLease:
        """The connection, in a savepoint for the length of the block."""
        return JoinedLease(self, self._connection)


class RecordedTransaction:
    """An open transaction: ``pool`` is what writes into it."""

    def __init__(self, pool: JoinedPool, connection: asyncpg.Connection) -> None:
        self.pool = pool
        self._connection = connection

    async def write(self, record: KeyRecord) -> bool:
        """Write a record of the request; False when another attempt has the key. A twin that is at work is waited
        for.
        """
        return await write_record(self._connection, record)


@asynccontextmanager
async def open_recorded_transaction(pool: Pool) -> AsyncIterator[RecordedTransaction]:
    """A transaction that is committed when the block is left, and undone when it fails."""
    async with pool.connection(limit=None) as connection, connection.transaction(isolation="read_committed"):
        yield RecordedTransaction(JoinedPool(pool, connection), connection)

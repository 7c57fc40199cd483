"""What was committed of tenants that record it: the switch, the outbox, and the documents of its versions
(docs/reference/operations.md#events-out).

The rows are written by the commit statement (``storage/commit/outbox.sql``) and by bulk deletion. Changes of the switch
follow each other with those of suspensions (``storage/ops/suspensions.py``), and nodes confirm them likewise.
"""

from collections.abc import Sequence
from typing import Final

import asyncpg
from msgspec import Struct

from statewright.entity import Actor, ModelKey, PrincipalKind
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.operations.events import Change, EventPosition, EventRow
from statewright.operations.service import Act
from statewright.storage.ops.service import record_act
from statewright.storage.ops.suspensions import announce_switch, take_revision
from statewright.storage.pool import Pool

MAX_COUNT: Final = 10_000
"""As far as the rows of a tenant are counted."""

MAX_BODY_BYTES: Final = 1024 * 1024
"""Of one document, as text; a longer one is left out."""


class RecordingState(Struct, frozen=True, kw_only=True):
    """The switch of a tenant. ``since`` is None while it is off, or some nodes do not act by it yet."""

    enabled: bool = False
    subscribed: bool = False
    revision: int = 0
    since: int | None = None


SWITCH: Final = """
    INSERT INTO event_recording AS recording (tenant, enabled, revision)
    VALUES ($1, $2, $3)
        ON CONFLICT (tenant) DO UPDATE
       SET enabled = excluded.enabled, revision = excluded.revision,
           since = CASE WHEN recording.subscribed THEN recording.since END
     WHERE recording.enabled <> excluded.enabled
 RETURNING enabled, subscribed, revision, since
"""

FIND: Final = "SELECT enabled, subscribed, revision, since FROM event_recording WHERE tenant = $1"


async def switch_recording(pool: Pool, tenant: TenantId, by: Actor, *, enabled: bool) -> RecordingState:
    """Have a tenant record, or stop it, and tell the nodes; what is so already stays as it is."""

    async def act(connection: asyncpg.Connection) -> RecordingState:
        revision = await take_revision(connection)
        row = await connection.fetchrow(SWITCH, tenant, enabled, revision)
        if row is None:
            return await _find(connection, tenant)
        trail = Act(action="events.recording", target_kind="TENANT", target_id=tenant, details={"enabled": enabled})
        await record_act(connection, tenant, by, trail)
        await announce_switch(connection, revision)
        return RecordingState(**row)

    return await pool.transact(act)


async def find_recording(pool: Pool, tenant: TenantId) -> RecordingState:
    """The switch of a tenant."""
    async with pool.connection() as connection:
        return await _find(connection, tenant)


async def _find(connection: asyncpg.Connection, tenant: TenantId) -> RecordingState:
    row = await connection.fetchrow(FIND, tenant)
    return RecordingState() if row is None else RecordingState(**row)


RECORDED: Final = "SELECT tenant FROM event_recording WHERE enabled OR subscribed"


async def load_recorded(pool: Pool) -> frozenset[TenantId]:
    """The tenants that record."""
    return frozenset(TenantId(row["tenant"]) for row in await pool.fetch(RECORDED))


MARK_SINCE: Final = """
    UPDATE event_recording SET since = now_us()
     WHERE (enabled OR subscribed) AND since IS NULL
       AND NOT EXISTS (SELECT FROM cluster_node
                        WHERE lease_until > now_us() AND recordings < event_recording.revision)
 RETURNING tenant
"""

IS_UNCONFIRMED: Final = "SELECT EXISTS (SELECT FROM event_recording WHERE (enabled OR subscribed) AND since IS NULL)"


async def mark_since(pool: Pool) -> None:
    """Keep since when everything is recorded of tenants of which all nodes now know that they record."""
    async with pool.connection() as connection:
        if await connection.fetchval(IS_UNCONFIRMED):
            await connection.execute(MARK_SINCE)


PENDING: Final = """
    SELECT name FROM cluster_node WHERE lease_until > now_us() AND recordings < $1 ORDER BY name LIMIT 100
"""


async def list_pending_nodes(pool: Pool, revision: int) -> tuple[str, ...]:
    """The names of nodes that are alive and may not act by this revision yet."""
    return tuple(row["name"] for row in await pool.fetch(PENDING, revision))


class OutboxState(Struct, frozen=True):
    """How many rows of a tenant are kept, counted up to ``MAX_COUNT`` + 1; and the time of the database."""

    rows: int
    now: int


COUNT: Final = """
    SELECT (SELECT count(*) FROM (SELECT FROM event_outbox WHERE tenant = $1 LIMIT $2) AS counted) AS rows,
           now_us() AS now
"""


async def count_rows(pool: Pool, tenant: TenantId) -> OutboxState:
    """What is kept of a tenant."""
    [row] = await pool.fetch(COUNT, tenant, MAX_COUNT + 1)
    return OutboxState(**row)


COLUMNS: Final = """row.at, row.transaction_id, row.entity, row.model, model.name, model.version, row.change,
           row.from_state, row.state, row.transition, row.attributed_id, row.attributed_kind, row.executor_id,
           row.executor_kind"""

READ: Final = f"""
    -- Uses the primary key. Of several tenants at once, each behind its own position.
    SELECT wanted.tenant, {COLUMNS}
      FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::uuid[]) AS wanted (tenant, at, transaction_id, entity)
     CROSS JOIN LATERAL (
            SELECT * FROM event_outbox
             WHERE event_outbox.tenant = wanted.tenant
               AND (event_outbox.at, event_outbox.transaction_id, event_outbox.entity)
                   > (wanted.at, wanted.transaction_id, wanted.entity)
               AND event_outbox.at <= $5
             ORDER BY event_outbox.at, event_outbox.transaction_id, event_outbox.entity
             LIMIT $6) AS row
      LEFT JOIN model ON model.tenant = row.tenant AND model.id = row.model
     ORDER BY wanted.tenant, row.at, row.transaction_id, row.entity
"""  # noqa: S608 - a constant


async def read_rows(
    pool: Pool, behind: Sequence[tuple[TenantId, EventPosition]], *, until: int, limit: int
) -> dict[TenantId, list[EventRow]]:
    """Up to ``limit`` rows of each tenant, in order, behind its position and up to an instant that is settled."""
    found: dict[TenantId, list[EventRow]] = {tenant: [] for tenant, _ in behind}
    if not behind:
        return found
    positions = zip(*[(tenant, *position) for tenant, position in behind], strict=True)
    for tenant, *row in await pool.fetch(READ, *positions, until, limit):
        found[TenantId(tenant)].append(to_row(*row))
    return found


def to_row(  # in the order of the columns
    at: int,
    transaction: object,
    entity: object,
    model: object,
    name: str | None,
    version: int,
    change: Change,
    from_state: str | None,
    state: str,
    transition: str | None,
    by: str,
    by_kind: PrincipalKind,
    ran: str,
    ran_kind: PrincipalKind,
) -> EventRow:
    return EventRow(
        at=at,
        transaction_id=TransactionId(str(transaction)),
        entity=EntityId(str(entity)),
        model_id=ModelId(str(model)),
        model=None if name is None else ModelKey(name, version),
        change=change,
        from_state=from_state,
        state=state,
        transition=transition,
        attributed=Actor(by, by_kind),
        executor=Actor(ran, ran_kind),
    )


class StoredBody(Struct, frozen=True):
    """The document of a version as JSON text; None where there is none, or where it ``is_large`` or ``is_pruned``."""

    document: str | None
    is_large: bool
    is_pruned: bool


BODIES: Final = """
    -- Versions by the instant at which they were written, and those that they replaced. A deletion has no document.
    SELECT after.id IS NULL AS pruned, after.size > $4 AS large,
           CASE WHEN after.size <= $4 THEN after.document END AS document,
           before.id IS NULL AS before_pruned, before.size > $4 AS before_large,
           CASE WHEN before.size <= $4 THEN before.document END AS before
      FROM unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS wanted (id, at, n)
      LEFT JOIN LATERAL (
            SELECT id, document, octet_length(document::text) AS size FROM entity
             WHERE tenant = $1 AND entity.id = wanted.id AND valid_from = wanted.at
             UNION ALL
            SELECT id, document, octet_length(document::text) AS size FROM entity_history
             WHERE tenant = $1 AND entity_history.id = wanted.id AND valid_from = wanted.at
             LIMIT 1) AS after ON true
      LEFT JOIN LATERAL (
            SELECT id, document, octet_length(document::text) AS size FROM entity_history
             WHERE tenant = $1 AND entity_history.id = wanted.id AND valid_to = wanted.at
             LIMIT 1) AS before ON $5
     ORDER BY wanted.n
"""


async def fetch_bodies(
    pool: Pool, tenant: TenantId, rows: Sequence[EventRow], *, with_before: bool
) -> list[tuple[StoredBody, StoredBody]]:
    """The documents after and before each change, in order."""
    ids, instants = [row.entity for row in rows], [row.at for row in rows]
    found = await pool.fetch(BODIES, tenant, ids, instants, MAX_BODY_BYTES, with_before)
    return [
        (
            StoredBody(row["document"], bool(row["large"]), row["pruned"]),
            StoredBody(row["before"], bool(row["before_large"]), row["before_pruned"]),
        )
        for row in found
    ]


REMOVE: Final = """
    -- The oldest of each tenant, by the primary key; those that another node is removing are skipped.
    WITH old AS MATERIALIZED (
        SELECT row.place
          FROM event_recording
         CROSS JOIN LATERAL (
                SELECT ctid AS place FROM event_outbox
                 WHERE event_outbox.tenant = event_recording.tenant AND at < now_us() - $1::bigint
                 ORDER BY at, transaction_id, entity
                 LIMIT $2 FOR UPDATE SKIP LOCKED) AS row
         LIMIT $2
    ),
    removed AS (
        DELETE FROM event_outbox USING old WHERE event_outbox.ctid = old.place RETURNING 1
    )
    SELECT count(*) FROM removed
"""


ESTIMATE: Final = """
    SELECT greatest(n_live_tup, 0)::bigint FROM pg_stat_user_tables WHERE relid = 'event_outbox'::regclass
"""


async def estimate_rows(pool: Pool) -> int:
    """How many rows there are of all tenants, as the database estimates it."""
    count: int | None = await pool.fetchval(ESTIMATE)
    return count or 0

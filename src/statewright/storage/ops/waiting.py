"""What entities have become since some instant: for those who wait for one of their states."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.ids import EntityId, TenantId, TransactionId
from statewright.storage.pool import Pool

MAX_VERSIONS: Final = 1000
"""Of one entity in one look; the next look goes on behind them."""


class SeenVersion(Struct, frozen=True):
    """A version as far as waiting is concerned. ``at`` is in epoch microseconds."""

    transaction_id: TransactionId
    state: str
    at: int
    is_deleted: bool


class Position(Struct, frozen=True):
    """From when on versions of an entity count: those later than ``since`` (epoch microseconds)."""

    tenant: TenantId
    entity: EntityId
    since: int


SINCE: Final = f"""
    -- Uses the primary keys of both tables; a row of the history that is valid for ever is a tombstone.
    SELECT wanted.n, seen.transaction_id, seen.state, seen.valid_from, seen.is_deleted
      FROM unnest($1::text[], $2::uuid[], $3::bigint[]) WITH ORDINALITY AS wanted (tenant, id, since, n)
     CROSS JOIN LATERAL (
            SELECT transaction_id, state, valid_from, false AS is_deleted FROM entity
             WHERE entity.tenant = wanted.tenant AND entity.id = wanted.id AND entity.valid_from > wanted.since
             UNION ALL
            SELECT transaction_id, state, valid_from, valid_to = 9223372036854775807 FROM entity_history AS old
             WHERE old.tenant = wanted.tenant AND old.id = wanted.id AND old.valid_from > wanted.since
             ORDER BY valid_from
             LIMIT {MAX_VERSIONS}) AS seen
     ORDER BY wanted.n, seen.valid_from
"""  # noqa: S608 - the limit is a constant


async def fetch_since(pool: Pool, positions: Sequence[Position]) -> list[list[SeenVersion]]:
    """For each position the versions behind it, in order; by one statement."""
    tenants, ids = [each.tenant for each in positions], [each.entity for each in positions]
    async with pool.connection() as connection:
        rows = await connection.fetch(SINCE, tenants, ids, [each.since for each in positions])
    found: list[list[SeenVersion]] = [[] for _ in positions]
    for n, transaction, state, at, is_deleted in rows:
        found[n - 1].append(SeenVersion(TransactionId(str(transaction)), state, at, is_deleted))
    return found


WRITTEN: Final = """
    SELECT min(valid_from) FROM (
        SELECT valid_from FROM entity
         WHERE tenant = $1 AND id = $2 AND $3 IN (transaction_id, entry_transaction_id)
         UNION ALL
        SELECT valid_from FROM entity_history
         WHERE tenant = $1 AND id = $2 AND $3 IN (transaction_id, entry_transaction_id)) AS written
"""


async def find_instant(pool: Pool, tenant: TenantId, entity: EntityId, transaction: TransactionId) -> int | None:
    """When a transaction wrote an entity first (epoch microseconds); None when it never did, or that is not kept."""
    async with pool.connection() as connection:
        at: int | None = await connection.fetchval(WRITTEN, tenant, entity, transaction)
    return at

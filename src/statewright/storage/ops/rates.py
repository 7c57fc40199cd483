"""How much a tenant has written in each of the last minutes, as all nodes have counted it."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from statewright.ids import TenantId
from statewright.storage.commit.rates import Rate
from statewright.storage.pool import Pool

WINDOW_MINUTES: Final = 60

_KEPT_MINUTES: Final = 2 * WINDOW_MINUTES


class MinuteRate(Struct, frozen=True):
    """What was written in a minute, which began at ``minute`` minutes after the epoch."""

    minute: int
    transactions: int
    versions: int


ADD: Final = """
    INSERT INTO commit_rate AS stored (tenant, minute, transactions, versions)
    SELECT *
      FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
        AS counted (tenant, minute, transactions, versions)
     ORDER BY tenant, minute
        ON CONFLICT (tenant, minute) DO UPDATE
       SET transactions = stored.transactions + excluded.transactions, versions = stored.versions + excluded.versions
"""

REMOVE: Final = """
    DELETE FROM commit_rate WHERE minute < now_us() / 60000000 - $1
"""

RECENT: Final = """
    SELECT asked.minute, coalesce(stored.transactions, 0) AS transactions, coalesce(stored.versions, 0) AS versions
      FROM generate_series(now_us() / 60000000 - $2 + 1, now_us() / 60000000) AS asked (minute)
      LEFT JOIN commit_rate AS stored ON stored.tenant = $1 AND stored.minute = asked.minute
     ORDER BY asked.minute
"""


async def add_rates(pool: Pool, rates: Mapping[tuple[TenantId, int], Rate]) -> None:
    """Store what a node has counted, by tenant and minute, and forget what nobody asks for any more."""
    async with pool.connection() as connection, connection.transaction():
        if rates:
            await connection.execute(
                ADD,
                [tenant for tenant, _minute in rates],
                [minute for _tenant, minute in rates],
                [rate.transactions for rate in rates.values()],
                [rate.versions for rate in rates.values()],
            )
        await connection.execute(REMOVE, _KEPT_MINUTES)


async def list_recent_rates(pool: Pool, tenant: TenantId) -> list[MinuteRate]:
    """The minutes of the last hour, the oldest first; the last one is not over."""
    async with pool.connection() as connection:
        rows = await connection.fetch(RECENT, tenant, WINDOW_MINUTES)
    return [MinuteRate(row["minute"], row["transactions"], row["versions"]) for row in rows]

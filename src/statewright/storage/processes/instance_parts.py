"""Parts of instances that their documents name, and leave out."""

from collections.abc import Sequence
from typing import Final

from statewright.ids import EntityId, TenantId
from statewright.storage.pool import Pool

FETCH: Final = """
    SELECT name, value FROM process_part WHERE tenant = $1 AND instance = $2 AND name = ANY ($3::text[])
"""


async def fetch_parts(pool: Pool, tenant: TenantId, instance: EntityId, names: Sequence[str]) -> dict[str, str]:
    """Parts of an instance as JSON texts, by their names."""
    async with pool.connection() as connection:
        rows = await connection.fetch(FETCH, tenant, instance, list(names))
    return {row["name"]: row["value"] for row in rows}

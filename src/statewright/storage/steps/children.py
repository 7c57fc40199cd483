"""Instances that have still to be started because another one has ended: a durable outbox."""

import asyncpg
from msgspec import Struct

from statewright.identity import EntityId, TenantId
from statewright.storage.pool import Pool


class DueChild(Struct, frozen=True, kw_only=True):
    """An instance to be started, under the id it is going to have. ``variables`` is JSON text."""

    tenant: TenantId
    id: EntityId
    parent: EntityId
    definition_id: str
    business_key: str | None
    variables: str


TAKE = """
    -- Uses step_child_due. Each failure doubles the pause before the next attempt, up to 64 times the first one.
    UPDATE step_child
       SET not_before = $1 + $2 * (1 << least(attempts, 6)), attempts = attempts + 1
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM step_child
             WHERE not_before <= $1
             ORDER BY not_before, id
             LIMIT $3 FOR UPDATE SKIP LOCKED))
 RETURNING tenant, id, parent, definition_id, business_key, variables
"""


async def take(pool: Pool, *, now: int, backoff: int, limit: int) -> list[DueChild]:
    """Up to ``limit`` instances that nobody has started by ``now``; nobody takes them again for ``backoff``.

    Times in microseconds.
    """
    async with pool.connection() as connection:
        rows = await connection.fetch(TAKE, now, backoff, limit)
    return [_child(row) for row in rows]


DUE = """
    SELECT tenant, id, parent, definition_id, business_key, variables FROM step_child WHERE tenant = $1 AND id = $2
"""


async def due(pool: Pool, tenant: TenantId, child: EntityId) -> DueChild | None:
    """An instance that has still to be started; None when it was."""
    async with pool.connection() as connection:
        row = await connection.fetchrow(DUE, tenant, child)
    return None if row is None else _child(row)


def _child(row: asyncpg.Record) -> DueChild:
    tenant, id_, parent, definition_id, business_key, variables = row
    return DueChild(
        tenant=TenantId(tenant),
        id=EntityId(str(id_)),
        parent=EntityId(str(parent)),
        definition_id=definition_id,
        business_key=business_key,
        variables=variables,
    )

"""Boundary timers that are armed: taken by any node when they are due, fired in the transaction of their instance.

Taking marks a timer with a back-off, so that a node which dies leaves it to the others. What makes a timer fire at most
once is not the taking, but the version of its instance: the second process to fire it finds it used up.
"""

from collections.abc import Sequence
from typing import Final

import asyncpg
from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.storage.pool import Pool


class DueTimer(Struct, frozen=True, kw_only=True):
    """A timer that was taken."""

    tenant: TenantId
    language: str
    id: str
    instance: EntityId
    fire_at: int


TAKE: Final = """
    -- Uses process_timer_due. Rows that another node is just taking are skipped.
    UPDATE process_timer
       SET not_before = $2
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM process_timer
             WHERE greatest(fire_at, not_before) <= $1 AND NOT held AND language = ANY ($4::text[])
             ORDER BY greatest(fire_at, not_before), id
             LIMIT $3 FOR UPDATE SKIP LOCKED))
 RETURNING tenant, language, id, instance, fire_at
"""


async def take_due_timers(pool: Pool, languages: Sequence[str], *, now: int, until: int, limit: int) -> list[DueTimer]:
    """Up to ``limit`` timers that are due ``now``, earliest first; none is taken again before ``until``."""
    async with pool.connection() as connection:
        rows = await connection.fetch(TAKE, now, until, limit, list(languages))
    return to_due_timers(rows)


def to_due_timers(rows: Sequence[asyncpg.Record]) -> list[DueTimer]:
    """The timers in rows of tenant, language, id, instance and instant, the earliest first."""
    due = [
        DueTimer(
            tenant=TenantId(tenant), language=language, id=str(id_), instance=EntityId(str(instance)), fire_at=fire_at
        )
        for tenant, language, id_, instance, fire_at in rows
    ]
    return sorted(due, key=lambda timer: (timer.fire_at, timer.id))


DROP: Final = "DELETE FROM process_timer WHERE tenant = $1 AND id = ANY ($2::uuid[])"


async def drop_timers(pool: Pool, tenant: TenantId, timers: Sequence[str]) -> None:
    """Remove timers whose instance knows nothing of them."""
    async with pool.connection() as connection:
        await connection.execute(DROP, tenant, list(timers))

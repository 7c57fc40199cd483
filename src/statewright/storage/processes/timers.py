"""Boundary timers that are armed: taken by any node when they are due, fired in the transaction of their instance.

Taking (storage/takings.py) marks a timer with a back-off, so that a node which dies leaves it to the others. What makes
a timer fire at most once is not the taking, but the version of its instance: the second process to fire it finds it
used up.

What waits for events and for counters has rows among them, too: timers that time never fires.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

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


COLUMNS: Final = "tenant, language, id, instance, fire_at"


def to_due_timer(row: Iterable[Any]) -> DueTimer:
    """A timer from a row with ``COLUMNS`` in order."""
    tenant, language, id_, instance, fire_at = row
    return DueTimer(
        tenant=TenantId(tenant), language=language, id=str(id_), instance=EntityId(str(instance)), fire_at=fire_at
    )


DROP: Final = "DELETE FROM process_timer WHERE tenant = $1 AND id = ANY ($2::uuid[])"


async def drop_timers(pool: Pool, tenant: TenantId, timers: Sequence[str]) -> None:
    """Remove timers whose instance knows nothing of them."""
    await pool.execute(DROP, tenant, list(timers))


class Waiter(Struct, frozen=True, kw_only=True):
    """A task that waits for an event."""

    id: str
    instance: EntityId


WAITERS: Final = """
    -- Uses process_timer_topic.
    SELECT id, instance FROM process_timer
     WHERE tenant = $1 AND language = $2 AND topic = $3 AND NOT held AND ($4::uuid IS NULL OR id > $4)
     ORDER BY id
     LIMIT $5
"""


MATCHED_WAITERS: Final = """
    -- Uses process_timer_matched and, for those of whose values not all are known, process_timer_unmatched. The
    -- planner, which does not know how few tasks have the values, would walk through all that wait for the topic.
    WITH matched AS MATERIALIZED (
        SELECT tenant, language, topic, held, id, instance FROM process_timer WHERE matched @> $6::bigint[]
    )
    SELECT id, instance
      FROM (SELECT id, instance FROM matched
             WHERE tenant = $1 AND language = $2 AND topic = $3 AND NOT held AND ($4::uuid IS NULL OR id > $4)
             UNION ALL
            (SELECT id, instance FROM process_timer
              WHERE tenant = $1 AND language = $2 AND topic = $3 AND topic IS NOT NULL AND matched IS NULL
                AND NOT held AND ($4::uuid IS NULL OR id > $4)
              ORDER BY id
              LIMIT $5)) AS found
     ORDER BY id
     LIMIT $5
"""


async def fetch_waiters(
    pool: Pool,
    tenant: TenantId,
    language: str,
    topic: str,
    *,
    matched: Sequence[int] = (),
    after: str | None,
    limit: int,
) -> list[Waiter]:
    """Up to ``limit`` of those that wait for a topic, from the one ``after`` on; the longest waiting first. Without
    those of which it is known that they lack one of the ``matched`` hashes.
    """
    async with pool.connection() as connection:
        if matched:
            mixed = mix_tenant(tenant, matched)
            rows = await connection.fetch(MATCHED_WAITERS, tenant, language, topic, after, limit, mixed)
        else:
            rows = await connection.fetch(WAITERS, tenant, language, topic, after, limit)
    return [Waiter(id=str(row["id"]), instance=EntityId(str(row["instance"]))) for row in rows]


def mix_tenant(tenant: TenantId, hashes: Sequence[int]) -> list[int]:
    """The hashes as they are stored: tenants that wait for the same values do not share them."""
    salt = int.from_bytes(blake2b(tenant.encode(), digest_size=8).digest(), "big", signed=True)
    return [salt ^ each for each in hashes]


COUNTER: Final = "SELECT value FROM process_counter WHERE tenant = $1 AND name = $2"


async def fetch_counter(pool: Pool, tenant: TenantId, name: str) -> int:
    """The value of a counter; zero for one that was never changed."""
    value: int | None = await pool.fetchval(COUNTER, tenant, name)
    return value or 0

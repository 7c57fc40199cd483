"""What waits for events and for counters: timers that time never fires."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.storage.pool import Pool
from statewright.storage.processes.timers import DueTimer, to_due_timers


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


async def fetch_waiters(
    pool: Pool, tenant: TenantId, language: str, topic: str, *, after: str | None, limit: int
) -> list[Waiter]:
    """Up to ``limit`` of those that wait for a topic, from the one ``after`` on; the longest waiting first."""
    async with pool.connection() as connection:
        rows = await connection.fetch(WAITERS, tenant, language, topic, after, limit)
    return [Waiter(id=str(row["id"]), instance=EntityId(str(row["instance"]))) for row in rows]


TAKE_COUNTED: Final = """
    -- Uses process_timer_counter, which has those that wait only. Rows that another node is just taking are skipped.
    UPDATE process_timer
       SET not_before = $2
     WHERE ctid = ANY (ARRAY(
            SELECT waiting.ctid
              FROM process_timer AS waiting
              LEFT JOIN process_counter AS counted
                ON counted.tenant = waiting.tenant AND counted.name = waiting.counter
             WHERE waiting.counter IS NOT NULL AND NOT waiting.held AND waiting.not_before <= $1
               AND waiting.language = ANY ($4::text[]) AND coalesce(counted.value, 0) <= 0
             ORDER BY waiting.id
             LIMIT $3 FOR UPDATE OF waiting SKIP LOCKED))
 RETURNING tenant, language, id, instance, fire_at
"""


async def take_counted(pool: Pool, languages: Sequence[str], *, now: int, until: int, limit: int) -> list[DueTimer]:
    """Up to ``limit`` of those that wait for a counter which is zero or less; none is taken again before ``until``."""
    async with pool.connection() as connection:
        rows = await connection.fetch(TAKE_COUNTED, now, until, limit, list(languages))
    return to_due_timers(rows)


COUNTER: Final = "SELECT value FROM process_counter WHERE tenant = $1 AND name = $2"


async def fetch_counter(pool: Pool, tenant: TenantId, name: str) -> int:
    """The value of a counter; zero for one that was never changed."""
    async with pool.connection() as connection:
        value: int | None = await connection.fetchval(COUNTER, tenant, name)
    return value or 0

"""Logs of instances: every event, by its number."""

from typing import Final

from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.storage.pool import Pool

MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
"""The events of one page together; there is at least one."""


class StoredEvent(Struct, frozen=True):
    """An event of a log, as JSON text; its instant in epoch microseconds."""

    number: int
    at: int
    event: str


EVENTS: Final = f"""
    WITH listed AS MATERIALIZED (
        SELECT number, at, event::text AS event FROM process_event
         WHERE tenant = $1 AND instance = $2 AND number > $3
         ORDER BY number
         LIMIT $4
    ),
    measured AS (
        SELECT listed.*, sum(octet_length(event)) OVER (ORDER BY number) - octet_length(event) AS before FROM listed
    )
    SELECT number, at, event FROM measured WHERE before < {MAX_PAGE_BYTES} ORDER BY number
"""  # noqa: S608 - a constant


async def fetch_events(
    pool: Pool, tenant: TenantId, instance: EntityId, *, after: int, limit: int
) -> list[StoredEvent]:
    """The events behind a number, in order: up to ``limit``, and of ``MAX_PAGE_BYTES`` together."""
    async with pool.connection() as connection:
        rows = await connection.fetch(EVENTS, tenant, instance, after, limit)
    return [StoredEvent(row["number"], row["at"], row["event"]) for row in rows]


HAS_ENDED: Final = """
    SELECT finished_at IS NOT NULL FROM process_instance WHERE tenant = $1 AND id = $2 AND language = $3
"""


async def has_ended(pool: Pool, tenant: TenantId, language: str, instance: EntityId) -> bool | None:
    """Whether an instance has come to an end, and its log with it; None: there is no such instance."""
    async with pool.connection() as connection:
        ended: bool | None = await connection.fetchval(HAS_ENDED, tenant, instance, language)
    return ended

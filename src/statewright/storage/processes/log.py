"""Logs of instances: every event, by its number."""

from typing import Final

from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.storage.pool import Pool

MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
"""The events of one page together; there is at least one."""


class StoredEvent(Struct, frozen=True):
    """An event of a log, as JSON text."""

    number: int
    event: str


EVENTS: Final = f"""
    WITH listed AS MATERIALIZED (
        SELECT number, event::text AS event FROM process_event
         WHERE tenant = $1 AND instance = $2 AND number > $3
         ORDER BY number
         LIMIT $4
    ),
    measured AS (
        SELECT listed.*, sum(octet_length(event)) OVER (ORDER BY number) - octet_length(event) AS before FROM listed
    )
    SELECT number, event FROM measured WHERE before < {MAX_PAGE_BYTES} ORDER BY number
"""  # noqa: S608 - a constant


async def fetch_events(
    pool: Pool, tenant: TenantId, instance: EntityId, *, after: int, limit: int
) -> list[StoredEvent]:
    """The events behind a number, in order: up to ``limit``, and of ``MAX_PAGE_BYTES`` together."""
    async with pool.connection() as connection:
        rows = await connection.fetch(EVENTS, tenant, instance, after, limit)
    return [StoredEvent(row["number"], row["event"]) for row in rows]


LAST_NUMBER: Final = "SELECT max(number) FROM process_event WHERE tenant = $1 AND instance = $2"


async def fetch_last_number(pool: Pool, tenant: TenantId, instance: EntityId) -> int:
    """The number of the last event; 0 where there is none."""
    async with pool.connection() as connection:
        number: int | None = await connection.fetchval(LAST_NUMBER, tenant, instance)
    return number or 0

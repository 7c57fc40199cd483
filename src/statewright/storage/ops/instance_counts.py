"""How many instances of processes are where, counted up to a bound."""

import asyncio
from typing import Final

from msgspec import Struct

from statewright.failures import SearchTimeout
from statewright.ids import TenantId
from statewright.storage.pool import Pool

MAX_INSTANCES: Final = 100_000
"""Instances that are counted; with more, every count is a lower bound."""

MAX_UNDER_WAY: Final = 10_000
"""Instances under way whose steps are counted; with more, every count is a lower bound."""

WITHIN_S: Final = 2.0


class InstanceCount(Struct, frozen=True, kw_only=True):
    """Instances of a definition with a status."""

    language: str
    definition_id: str
    status: str
    count: int


class StepCount(Struct, frozen=True, kw_only=True):
    """Executions under way at a step of a definition."""

    step: str
    count: int


INSTANCES: Final = """
    -- A range of process_instance_definition, cut at the bound.
    SELECT language, definition_id, status, count(*) AS count
      FROM (SELECT language, definition_id, status FROM process_instance
             WHERE tenant = $1 AND ($2::text IS NULL OR language = $2) AND ($3::text IS NULL OR definition_id = $3)
             LIMIT $4) AS counted
     GROUP BY language, definition_id, status
     ORDER BY language, definition_id, status
"""

STEPS: Final = """
    SELECT made.node_id AS step, count(*) AS count
      FROM (SELECT id FROM process_instance
             WHERE tenant = $1 AND language = $2 AND definition_id = $3
               AND status NOT IN ('COMPLETED', 'CANCELLED', 'TERMINATED')
             LIMIT $4) AS counted
     CROSS JOIN LATERAL (
            SELECT id, node_id FROM process_execution
             WHERE tenant = $1 AND instance = counted.id AND status = 'RUNNING') AS made
     GROUP BY made.node_id
     ORDER BY made.node_id
"""

UNDER_WAY: Final = """
    SELECT count(*) FROM (SELECT FROM process_instance
             WHERE tenant = $1 AND language = $2 AND definition_id = $3
               AND status NOT IN ('COMPLETED', 'CANCELLED', 'TERMINATED')
             LIMIT $4) AS counted
"""


async def count_instances(
    pool: Pool, tenant: TenantId, *, language: str | None, definition_id: str | None
) -> tuple[tuple[InstanceCount, ...], bool]:
    """Instances by definition and status, and whether all were counted. Raises ``SearchTimeout``."""
    try:
        async with asyncio.timeout(WITHIN_S), pool.connection() as connection:
            rows = await connection.fetch(INSTANCES, tenant, language, definition_id, MAX_INSTANCES + 1)
    except TimeoutError as late:
        raise SearchTimeout(WITHIN_S) from late
    return tuple(InstanceCount(**row) for row in rows), sum(row["count"] for row in rows) <= MAX_INSTANCES


async def count_steps(
    pool: Pool, tenant: TenantId, *, language: str, definition_id: str
) -> tuple[tuple[StepCount, ...], bool]:
    """Executions under way by step of a definition, and whether all were counted. Raises ``SearchTimeout``."""
    arguments = (tenant, language, definition_id, MAX_UNDER_WAY + 1)
    try:
        async with asyncio.timeout(WITHIN_S), pool.connection() as connection:
            instances: int = await connection.fetchval(UNDER_WAY, *arguments)
            rows = await connection.fetch(STEPS, *arguments)
    except TimeoutError as late:
        raise SearchTimeout(WITHIN_S) from late
    return tuple(StepCount(step=row["step"], count=row["count"]) for row in rows), instances <= MAX_UNDER_WAY

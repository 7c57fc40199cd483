"""The inbox: user tasks that are open, and whose instance is not failed."""

from typing import Final

import asyncpg
from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.storage.pool import Pool


class TaskFilter(Struct, frozen=True, kw_only=True):
    """Which tasks are wanted; an empty text matches all, and so does no instant (epoch microseconds)."""

    job_type: str = ""
    definition_id: str = ""
    opened_before: int | None = None


class OpenTask(Struct, frozen=True, kw_only=True):
    """An open task. ``input`` is JSON text."""

    id: str
    instance: EntityId
    execution: str
    definition_id: str
    definition_version: int
    node_id: str
    job_type: str
    business_key: str | None
    created_at: int
    input: str


MATCHING: Final = """tenant = $1 AND language = $5 AND NOT held AND ($2 = '' OR job_type = $2)
              AND ($3 = '' OR definition_id = $3) AND ($4::bigint IS NULL OR created_at <= $4)"""

LISTED: Final = f"""
    SELECT task.id, task.instance, task.execution, task.definition_id, task.definition_version, task.node_id,
           task.job_type, task.business_key, task.created_at, made.input
      FROM (SELECT * FROM process_task WHERE {MATCHING} ORDER BY id OFFSET $6 LIMIT $7) AS task
     CROSS JOIN LATERAL (
            SELECT input FROM process_execution
             WHERE process_execution.tenant = $1 AND process_execution.instance = task.instance
               AND process_execution.id = task.execution
             LIMIT 1) AS made
     ORDER BY task.id
"""  # noqa: S608 - made of constants

COUNT: Final = f"SELECT count(*) FROM process_task WHERE {MATCHING}"  # noqa: S608


async def fetch_open_tasks(
    pool: Pool, tenant: TenantId, language: str, wanted: TaskFilter, *, offset: int, limit: int
) -> tuple[list[OpenTask], int]:
    """A page of open tasks, the oldest first, and how many match altogether."""
    args = (tenant, wanted.job_type, wanted.definition_id, wanted.opened_before, language)
    async with pool.connection() as connection:
        total: int = await connection.fetchval(COUNT, *args)
        rows = await connection.fetch(LISTED, *args, offset, limit) if total > offset else []
    return [_to_task(row) for row in rows], total


def _to_task(row: asyncpg.Record) -> OpenTask:
    return OpenTask(
        id=str(row["id"]),
        instance=EntityId(str(row["instance"])),
        execution=str(row["execution"]),
        definition_id=row["definition_id"],
        definition_version=row["definition_version"],
        node_id=row["node_id"],
        job_type=row["job_type"],
        business_key=row["business_key"],
        created_at=row["created_at"],
        input=row["input"],
    )

"""Instances of processes as they are listed: their lines, their history, their log of numbered events, the parts that
their documents name and leave out, and the inbox of open user tasks, without those of failed instances. Instances that
ended long ago are removed here.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg
from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.storage.pool import Pool


class InstanceFilter(Struct, frozen=True, kw_only=True):
    """Which instances are wanted; an empty text matches all."""

    definition_id: str = ""
    status: str = ""
    business_key: str = ""


class StoredExecution(Struct, frozen=True, kw_only=True):
    """A line of the history. ``input`` and ``output`` are JSON text; instants are epoch microseconds."""

    id: str
    node_id: str
    node_type: str
    attempt: int
    status: str
    started_at: int
    ended_at: int | None
    input: str | None
    output: str | None
    failure_reason: str | None
    element: int | None
    are_values_omitted: bool = False


class ListedInstance(Struct, frozen=True, kw_only=True):
    """An instance in a list. ``document`` is None where those before it were too large together."""

    id: str
    definition_id: str
    status: str
    business_key: str | None
    finished_at: int | None
    document: str | None


BY_KEY: Final = """
    -- Uses process_instance_business_key.
    SELECT id FROM process_instance
     WHERE tenant = $1 AND language = $2 AND business_key = $3 AND ($4 = '' OR definition_id = $4)
       AND status <> ALL ($5::text[])
     ORDER BY id DESC
     LIMIT 2
"""


async def find_by_key(
    pool: Pool, tenant: TenantId, language: str, business_key: str, *, definition_id: str, ended: Sequence[str]
) -> list[EntityId]:
    """One or two instances that have a business key and have not ended; an empty definition is any."""
    rows = await pool.fetch(BY_KEY, tenant, language, business_key, definition_id, ended)
    return [EntityId(str(row["id"])) for row in rows]


MAX_LIST_BYTES: Final = 2 * 1024 * 1024
"""The documents of one page together, as they are stored, which is compressed."""


async def fetch_abridged_instances(
    pool: Pool, tenant: TenantId, language: str, wanted: InstanceFilter, *, offset: int, limit: int
) -> tuple[list[ListedInstance], int]:
    """A page of instances, the newest first, and how many match altogether. Beyond ``MAX_LIST_BYTES`` without their
    documents, which are not even read then.
    """
    where, args = _build_where(tenant, language, wanted)
    page = f"""
        SELECT id, definition_id, status, business_key, finished_at FROM process_instance
         WHERE {where} ORDER BY id DESC OFFSET ${len(args) + 1} LIMIT ${len(args) + 2}
    """  # noqa: S608 - made of constants, all values are arguments
    measured = f"""
        SELECT listed.*, current.document,
               sum(current.bytes) OVER (ORDER BY listed.id DESC) - current.bytes < {MAX_LIST_BYTES} AS fits
          FROM ({page}) AS listed
         CROSS JOIN LATERAL (
                SELECT document, pg_column_size(document) AS bytes FROM entity
                 WHERE entity.tenant = $1 AND entity.id = listed.id LIMIT 1) AS current
    """  # noqa: S608 - as above
    columns = "id, definition_id, status, business_key, finished_at, CASE WHEN fits THEN document END AS document"
    async with pool.connection() as connection:
        total: int = await connection.fetchval(f"SELECT count(*) FROM process_instance WHERE {where}", *args)  # noqa: S608
        statement = f"SELECT {columns} FROM ({measured}) AS measured ORDER BY id DESC"  # noqa: S608
        rows = await connection.fetch(statement, *args, offset, limit) if total > offset else []
    return [ListedInstance(**_read_fields(row)) for row in rows], total


DOCUMENTS: Final = f"""
    SELECT number, id, document
      FROM (SELECT wanted.number, wanted.id, current.document,
                   sum(current.bytes) OVER (ORDER BY wanted.number) - current.bytes < {MAX_LIST_BYTES} AS fits
              FROM unnest($2::uuid[]) WITH ORDINALITY AS wanted (id, number)
             CROSS JOIN LATERAL (
                    SELECT document, pg_column_size(document) AS bytes FROM entity
                     WHERE entity.tenant = $1 AND entity.id = wanted.id LIMIT 1) AS current) AS measured
     WHERE fits
     ORDER BY number
"""  # noqa: S608 - a constant


async def fetch_documents(pool: Pool, tenant: TenantId, ids: Sequence[str]) -> tuple[list[tuple[str, str]], int]:
    """The documents of the first of some instances, as many as come to ``MAX_LIST_BYTES``, each behind the id, and how
    many of the ids that were. Instances that are gone have no document.
    """
    rows = await pool.fetch(DOCUMENTS, tenant, ids)
    found: list[tuple[str, str]] = [(str(row["id"]), row["document"]) for row in rows]
    return found, rows[-1]["number"] if rows else len(ids)


def _build_where(tenant: TenantId, language: str, wanted: InstanceFilter) -> tuple[str, list[object]]:
    """As text, since one statement for all combinations would have one plan for all."""
    where, args = ["tenant = $1", "language = $2"], list[object]([tenant, language])
    for column in wanted.__struct_fields__:
        value = getattr(wanted, column)
        if value:
            args.append(value)
            where.append(f"{column} = ${len(args)}")
    return " AND ".join(where), args


MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
"""The values of the lines of one page together; the line that exceeds it still has its own."""

HISTORY_PAGE: Final = f"""
    WITH listed AS MATERIALIZED (
        SELECT id, node_id, node_type, attempt, status, started_at, ended_at, input, output, failure_reason, element,
               coalesce(octet_length(input::text), 0) + coalesce(octet_length(output::text), 0) AS bytes
          FROM process_execution
         WHERE tenant = $1 AND language = $3 AND instance = $2
         ORDER BY started_at, id
        OFFSET $4 LIMIT $5
    ),
    measured AS (
        SELECT listed.*, sum(bytes) OVER (ORDER BY started_at, id) - bytes >= {MAX_PAGE_BYTES} AS is_beyond FROM listed
    )
    SELECT id, node_id, node_type, attempt, status, started_at, ended_at, failure_reason, element,
           is_beyond AND bytes > 0 AS are_values_omitted,
           CASE WHEN NOT is_beyond THEN input END AS input, CASE WHEN NOT is_beyond THEN output END AS output
      FROM measured
     ORDER BY started_at, id
"""  # noqa: S608 - a constant

HISTORY_SIZE: Final = "SELECT count(*) FROM process_execution WHERE tenant = $1 AND language = $3 AND instance = $2"


async def fetch_execution_page(
    pool: Pool, tenant: TenantId, language: str, instance: EntityId, *, offset: int, limit: int
) -> tuple[list[StoredExecution], int]:
    """A page of the lines of an instance, by start, then id, and how many there are altogether."""
    async with pool.connection() as connection:
        total: int = await connection.fetchval(HISTORY_SIZE, tenant, instance, language)
        rows = await connection.fetch(HISTORY_PAGE, tenant, instance, language, offset, limit)
    return [StoredExecution(**_read_fields(row)) for row in rows], total


LAST_STATUSES: Final = """
    SELECT DISTINCT ON (node_id) node_id, status FROM process_execution
     WHERE tenant = $1 AND language = $3 AND instance = $2
     ORDER BY node_id, attempt DESC, id DESC
"""


async def fetch_last_statuses(pool: Pool, tenant: TenantId, language: str, instance: EntityId) -> list[tuple[str, str]]:
    """By node, the status of the last line of an instance."""
    rows = await pool.fetch(LAST_STATUSES, tenant, instance, language)
    return [(row["node_id"], row["status"]) for row in rows]


def _read_fields(row: asyncpg.Record) -> dict[str, Any]:  # Any: the columns of a row
    """The columns of a row as the fields of a struct: ids as texts."""
    return {name: str(value) if isinstance(value, UUID) else value for name, value in row.items()}


PURGE: Final = """
    -- Uses process_instance_finished. User tasks are entities, too; the history of their instance names them.
    WITH doomed AS MATERIALIZED (
        SELECT tenant, id FROM process_instance
         WHERE language = $4 AND status IN ('COMPLETED', 'CANCELLED') AND finished_at < $1
           AND ($2::text IS NULL OR tenant = $2)
         ORDER BY finished_at
         LIMIT $3 FOR UPDATE SKIP LOCKED
    ),
    executions AS MATERIALIZED (
        SELECT made.tenant, made.instance, made.id, made.work, made.node_type
          FROM doomed
         CROSS JOIN LATERAL (
                SELECT tenant, instance, id, work, node_type FROM process_execution
                 WHERE process_execution.tenant = doomed.tenant AND process_execution.instance = doomed.id
                OFFSET 0) AS made
    ),
    entities AS MATERIALIZED (
        SELECT tenant, id FROM doomed
         UNION ALL
        SELECT tenant, work FROM executions WHERE work IS NOT NULL AND node_type = ANY ($5::text[])
    ),
    tenants AS MATERIALIZED (SELECT DISTINCT tenant FROM doomed),
    current_versions AS (
        DELETE FROM entity
         WHERE tenant = ANY (ARRAY(SELECT tenant FROM tenants)) AND id = ANY (ARRAY(SELECT id FROM entities))
    ),
    superseded_versions AS (
        DELETE FROM entity_history
         WHERE tenant = ANY (ARRAY(SELECT tenant FROM tenants)) AND id = ANY (ARRAY(SELECT id FROM entities))
    ),
    trails AS (
        DELETE FROM entity_audit
         WHERE tenant = ANY (ARRAY(SELECT tenant FROM tenants)) AND entity = ANY (ARRAY(SELECT id FROM entities))
    ),
    histories AS (
        DELETE FROM process_execution
         WHERE tenant = ANY (ARRAY(SELECT tenant FROM tenants))
           AND instance = ANY (ARRAY(SELECT id FROM doomed)) AND id = ANY (ARRAY(SELECT id FROM executions))
    ),
    logs AS (
        DELETE FROM process_event
         WHERE tenant = ANY (ARRAY(SELECT tenant FROM tenants)) AND instance = ANY (ARRAY(SELECT id FROM doomed))
    ),
    parts AS (
        DELETE FROM process_part
         WHERE tenant = ANY (ARRAY(SELECT tenant FROM tenants)) AND instance = ANY (ARRAY(SELECT id FROM doomed))
    ),
    lines AS (
        DELETE FROM process_instance
         WHERE tenant = ANY (ARRAY(SELECT tenant FROM tenants)) AND id = ANY (ARRAY(SELECT id FROM doomed))
    )
    SELECT count(*) FROM doomed
"""


async def delete_finished_instances(
    pool: Pool,
    language: str,
    *,
    finished_before: int,
    tenant: TenantId | None,
    limit: int,
    task_types: Sequence[str],
) -> int:
    """Remove up to ``limit`` instances that completed or were cancelled before an instant, of one tenant or of all.

    Nothing of them stays. How many there were; fewer than ``limit`` when there are no more. ``task_types``: the types
    of nodes whose work is a user task.
    """
    async with pool.connection(limit=None) as connection:
        count: int = await connection.fetchval(PURGE, finished_before, tenant, limit, language, list(task_types))
    return count


LOG_MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
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
    SELECT number, at, event FROM measured WHERE before < {LOG_MAX_PAGE_BYTES} ORDER BY number
"""  # noqa: S608 - a constant


async def fetch_events(
    pool: Pool, tenant: TenantId, instance: EntityId, *, after: int, limit: int
) -> list[StoredEvent]:
    """The events behind a number, in order: up to ``limit``, and of ``LOG_MAX_PAGE_BYTES`` together."""
    rows = await pool.fetch(EVENTS, tenant, instance, after, limit)
    return [StoredEvent(row["number"], row["at"], row["event"]) for row in rows]


HAS_ENDED: Final = """
    SELECT finished_at IS NOT NULL FROM process_instance WHERE tenant = $1 AND id = $2 AND language = $3
"""


async def has_ended(pool: Pool, tenant: TenantId, language: str, instance: EntityId) -> bool | None:
    """Whether an instance has come to an end, and its log with it; None: there is no such instance."""
    ended: bool | None = await pool.fetchval(HAS_ENDED, tenant, instance, language)
    return ended


FETCH: Final = """
    SELECT name, value FROM process_part WHERE tenant = $1 AND instance = $2 AND name = ANY ($3::text[])
"""


async def fetch_parts(pool: Pool, tenant: TenantId, instance: EntityId, names: Sequence[str]) -> dict[str, str]:
    """Parts of an instance as JSON texts, by their names."""
    rows = await pool.fetch(FETCH, tenant, instance, list(names))
    return {row["name"]: row["value"] for row in rows}


class TaskFilter(Struct, frozen=True, kw_only=True):
    """Which tasks are wanted; an empty text matches all, and so does no instant (epoch microseconds)."""

    language: str = ""
    job_type: str = ""
    definition_id: str = ""
    assignee: str = ""
    group: str = ""
    opened_before: int | None = None


class OpenTask(Struct, frozen=True, kw_only=True):
    """An open task. ``input`` and ``about`` are JSON texts."""

    id: str
    language: str
    instance: EntityId
    execution: str
    definition_id: str
    definition_version: int
    node_id: str
    job_type: str
    business_key: str | None
    created_at: int
    input: str
    about: str
    """What its author said of it: a part of the document of its entity."""


MATCHING: Final = """tenant = $1 AND ($5 = '' OR language = $5) AND NOT held AND ($2 = '' OR job_type = $2)
              AND ($3 = '' OR definition_id = $3) AND ($4::bigint IS NULL OR created_at <= $4)
              AND ($6 = '' AND $7 = '' OR EXISTS (
                    SELECT FROM entity
                     WHERE entity.tenant = $1 AND entity.id = process_task.id
                       AND ($6 = '' OR document ->> 'assignee' = $6) AND ($7 = '' OR document -> 'groups' ? $7)))"""

LISTED: Final = f"""
    SELECT (SELECT count(*) FROM process_task WHERE {MATCHING}) AS total,
           ARRAY (SELECT id FROM process_task WHERE {MATCHING} ORDER BY id OFFSET $8 LIMIT $9) AS ids
"""  # noqa: S608 - made of constants

OPEN_TASKS: Final = f"""
    SELECT id, language, instance, execution, definition_id, definition_version, node_id, job_type, business_key,
           created_at, input,
           coalesce(jsonb_strip_nulls(jsonb_build_object(
                        'title', document -> 'title', 'description', document -> 'description',
                        'groups', document -> 'groups', 'assignee', document -> 'assignee',
                        'form', document -> 'form')), '{{}}')::text AS about
      FROM (SELECT task.*, made.input, own.document,
                   sum(bytes) OVER (ORDER BY task.id) - bytes < {MAX_LIST_BYTES} AS fits
              FROM process_task AS task
             CROSS JOIN LATERAL (
                    SELECT coalesce(input, 'null') AS input FROM process_execution  -- none is null, as of jobs
                     WHERE process_execution.tenant = $1 AND process_execution.instance = task.instance
                       AND process_execution.id = task.execution
                     LIMIT 1) AS made
              LEFT JOIN LATERAL (
                    SELECT document FROM entity WHERE entity.tenant = $1 AND entity.id = task.id LIMIT 1) AS own ON true
             CROSS JOIN LATERAL (
                    SELECT greatest(pg_column_size(input), pg_column_size(document)) AS bytes) AS size
             WHERE task.tenant = $1 AND task.id = ANY ($2::uuid[]) AND NOT task.held) AS measured
     WHERE fits
     ORDER BY id
"""  # noqa: S608 - as above


async def list_open_tasks(
    pool: Pool, tenant: TenantId, wanted: TaskFilter, *, offset: int, limit: int
) -> tuple[list[str], int]:
    """The ids of a page of open tasks, the oldest first, and how many match altogether."""
    given = (wanted.job_type, wanted.definition_id, wanted.opened_before, wanted.language)
    [row] = await pool.fetch(LISTED, tenant, *given, wanted.assignee, wanted.group, offset, limit)
    return [str(id_) for id_ in row["ids"]], row["total"]


async def fetch_open_tasks(pool: Pool, tenant: TenantId, ids: Sequence[str]) -> tuple[list[OpenTask], Sequence[str]]:
    """The first of some tasks, as many as come to ``MAX_LIST_BYTES``, and the ids that are behind them. Those that are
    not open any more are left out.
    """
    tasks = [OpenTask(**_read_fields(row)) for row in await pool.fetch(OPEN_TASKS, tenant, ids)]
    return tasks, ids[ids.index(tasks[-1].id) + 1 :] if tasks else []

"""The items of bulk jobs: which they are, and what became of them (docs/reference/operations.md#bulk-jobs).

The ids of a job are kept in parts, in an order that is frozen with them; an item is known by its place. A result of an
item that was worked on is committed with its work.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg
import msgspec

from statewright.failures import BulkJobNotFound, Conflict
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.operations.bulk_jobs import MAX_ITEMS, BulkItem, BulkStatus, ItemStatus
from statewright.storage.commit.overlay import PartRefused, StagedPart
from statewright.storage.commit.statement import build_staged_part, read_sections
from statewright.storage.entities import wait_until_visible
from statewright.storage.ops.bulk_claims import BulkClaim, name_claim
from statewright.storage.ops.incidents import MATCHING, IncidentFilter, list_arguments
from statewright.storage.ops.records import read_record
from statewright.storage.pool import Pool
from statewright.storage.search.matching import Candidates, iterate_matches
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery, select_versions
from statewright.storage.versions import VIEW_COLUMNS

PART: Final = 1000
"""Ids in a row."""

MAX_MESSAGE_CHARS: Final = 1000


class TooManyItems(Exception):
    """More entities match than a job may have."""


class FreezeLost(Exception):
    """Another node has frozen the job, or is about to."""


class StagedItem(StagedPart, frozen=True, kw_only=True):
    """An item of a job, as the transaction commits it that does its work."""

    tenant: TenantId
    job: str
    worker: str
    n: int
    entity: EntityId
    status: ItemStatus
    transaction_id: TransactionId


BULK_ITEMS: Final = build_staged_part(
    "bulk_items",
    read_sections("statewright.storage.ops", "bulk_items.sql"),
    {"bulk_lost": PartRefused(lambda _: Conflict())},
)


# The set.

ADD_PART: Final = "INSERT INTO bulk_part (tenant, job, part, ids) VALUES ($1, $2, $3, $4)"

ADD_FAILED: Final = f"""
    INSERT INTO bulk_part (tenant, job, part, ids)
    SELECT $1, $2, place / {PART}, array_agg(entity ORDER BY place)
      FROM (SELECT entity, row_number() OVER (ORDER BY n) - 1 AS place
              FROM bulk_item WHERE tenant = $1 AND job = $3 AND status = 'FAILED') AS failed
     GROUP BY place / {PART}
"""  # noqa: S608

SET_FROZEN: Final = """
    UPDATE bulk_job
       SET instant = coalesce(instant, now_us()),
           total = (SELECT coalesce(sum(cardinality(ids)), 0) FROM bulk_part WHERE tenant = $1 AND job = $2)
     WHERE tenant = $1 AND id = $2
"""


async def freeze_ids(
    connection: asyncpg.Connection, tenant: TenantId, job: str, ids: Sequence[UUID] | None, again: str | None
) -> None:
    """Keep the ids that a new job names, or those of the items that failed in the job ``again``; with neither they are
    looked for later.
    """
    if ids is None and again is None:
        return
    if again is not None:
        await connection.execute(ADD_FAILED, tenant, job, again)
    elif ids is not None:
        parts = [(tenant, job, at // PART, ids[at : at + PART]) for at in range(0, len(ids), PART)]
        await connection.executemany(ADD_PART, parts)
    await connection.execute(SET_FROZEN, tenant, job)


FREEZE_INSTANT: Final = """
    UPDATE bulk_job SET instant = coalesce(instant, now_us())
     WHERE tenant = $1 AND id = $2 AND worker = $3
 RETURNING instant
"""

LOCK_FREEZE: Final = """
    -- Locks the job until the parts are there: of two nodes that freeze it only the one that has it keeps its order.
    SELECT true FROM bulk_job WHERE tenant = $1 AND id = $2 AND worker = $3 AND total IS NULL FOR NO KEY UPDATE
"""

FREEZE_INCIDENTS: Final = f"""
    INSERT INTO bulk_part (tenant, job, part, ids)
    SELECT $1, $14, place / {PART}, array_agg(id ORDER BY place)
      FROM (SELECT id, row_number() OVER (ORDER BY last_at DESC, id DESC) - 1 AS place {MATCHING}) AS found
     GROUP BY place / {PART}
"""  # noqa: S608


async def freeze_entities(pool: Pool, scans: Pool, job: BulkClaim, query: EntityQuery) -> None:
    """Keep the ids of what matches at the instant of the job, which is taken now. Raises ``TooManyItems``,
    ``FreezeLost``."""
    instant = await pool.fetchval(FREEZE_INSTANT, *name_claim(job))
    if instant is None:
        return
    await wait_until_visible(pool, instant)
    query = msgspec.structs.replace(query, instant=instant)
    condition = query.search.compile_sql(first=FIRST_ARGUMENT)
    columns = "id" if condition.is_exact else VIEW_COLUMNS
    statement = select_versions(query, columns, condition=condition)
    async with scans.connection(limit=None) as connection, connection.transaction():
        await connection.execute("DELETE FROM bulk_part WHERE tenant = $1 AND job = $2", job.tenant, job.id)
        ids: list[UUID] = []
        part = 0
        if condition.is_exact:
            rows = (row async for row in connection.cursor(statement.text, *statement.args, prefetch=PART))
        else:
            wanted = Candidates(tenant=job.tenant, statement=statement, columns=columns)
            rows = (row async for row, _ in iterate_matches(connection, wanted, query))
        async for row in rows:
            ids.append(row["id"])
            if len(ids) == PART:
                await connection.execute(ADD_PART, job.tenant, job.id, part, ids)
                ids, part = [], part + 1
                if part * PART > MAX_ITEMS:
                    raise TooManyItems
        if ids:
            if part * PART + len(ids) > MAX_ITEMS:
                raise TooManyItems
            await connection.execute(ADD_PART, job.tenant, job.id, part, ids)
        if not await connection.fetchval(LOCK_FREEZE, *name_claim(job)):
            raise FreezeLost
        await connection.execute(SET_FROZEN, job.tenant, job.id)


async def freeze_incidents(pool: Pool, job: BulkClaim, wanted: IncidentFilter) -> None:
    """Keep the ids of the incidents that are chosen now. Raises ``FreezeLost``."""
    async with pool.connection(limit=None) as connection, connection.transaction():
        if not await connection.fetchval(LOCK_FREEZE, *name_claim(job)):
            raise FreezeLost
        await connection.execute(FREEZE_INCIDENTS, job.tenant, *list_arguments(wanted), job.id)
        await connection.execute(SET_FROZEN, job.tenant, job.id)


# Results.

READ_PART: Final = "SELECT ids FROM bulk_part WHERE tenant = $1 AND job = $2 AND part = $3"

READ_RESULTS: Final = """
    SELECT n, status, judged FROM bulk_item WHERE tenant = $1 AND job = $2 AND n BETWEEN $3 AND $4
"""

WRITE_RESULT: Final = """
    WITH held AS (
        UPDATE bulk_job
           SET succeeded = succeeded + ($6 = 'SUCCEEDED')::int, failed = failed + ($6 = 'FAILED')::int,
               skipped = skipped + ($6 = 'SKIPPED')::int,
               failures = failures + ($6 = 'FAILED')::int,
               status = CASE WHEN status = 'RUNNING' AND $6 = 'FAILED' AND failures + 1 >= stop_after THEN 'STOPPED'
                             ELSE status END
         WHERE tenant = $1 AND id = $2 AND worker = $3
     RETURNING tenant, id, status
    ),
    written AS (
        INSERT INTO bulk_item (tenant, job, n, entity, status, code, message, at)
        SELECT tenant, id, $4, $5, $6, $7, $8, now_us() FROM held
            ON CONFLICT (tenant, job, n) DO UPDATE
           SET status = excluded.status, judged = false, code = excluded.code, message = excluded.message,
               at = excluded.at
    )
    SELECT status FROM held
"""

WRITE_VERDICTS: Final = """
    WITH held AS (
        UPDATE bulk_job SET skipped = skipped + cardinality(array_positions($6::text[], 'SKIPPED'))
         WHERE tenant = $1 AND id = $2 AND worker = $3 AND status = 'FREEZING'
     RETURNING tenant, id
    )
    INSERT INTO bulk_item (tenant, job, n, entity, status, judged, code, at)
    SELECT held.tenant, held.id, $4 + verdict.place - 1, verdict.entity, verdict.status, true, verdict.code, now_us()
      FROM held
     CROSS JOIN unnest($5::uuid[], $6::text[], $7::text[]) WITH ORDINALITY AS verdict (entity, status, code, place)
"""


async def read_part(
    pool: Pool, job: BulkClaim, part: int
) -> tuple[list[tuple[int, EntityId]], dict[int, tuple[str, bool]]]:
    """The items of a part by number; the results of some: their status, and whether a dry run judged them."""
    async with pool.connection() as connection:
        ids = await connection.fetchval(READ_PART, job.tenant, job.id, part)
        rows = await connection.fetch(READ_RESULTS, job.tenant, job.id, part * PART, (part + 1) * PART - 1)
    items = [(part * PART + place, EntityId(str(id_))) for place, id_ in enumerate(ids or ())]
    return items, {row["n"]: (row["status"], row["judged"]) for row in rows}


async def write_verdicts(
    pool: Pool, job: BulkClaim, first: int, ids: Sequence[EntityId], codes: Sequence[str | None]
) -> None:
    """Store what would become of successive items: why they would be skipped, None for one that would not."""
    statuses = ["ELIGIBLE" if code is None else "SKIPPED" for code in codes]
    await pool.execute(WRITE_VERDICTS, *name_claim(job), first, ids, statuses, codes)


async def write_result(
    pool: Pool,
    job: BulkClaim,
    n: int,
    entity: EntityId,
    status: ItemStatus,
    code: str | None = None,
    message: str | None = None,
) -> BulkStatus | None:
    """Store what became of an item; the status of the job, None when it is another node's."""
    told = None if message is None else message[:MAX_MESSAGE_CHARS]
    arguments = (*name_claim(job), n, entity, status, code, told)
    found: BulkStatus | None = await pool.fetchval(WRITE_RESULT, *arguments)
    return found


_SHOWN: Final = "entity::text AS id, status, code, message, transaction_id, at, n"

LIST_RESULTS: Final = f"""
    -- Uses bulk_item_unplain, or the primary key.
    SELECT {_SHOWN} FROM bulk_item
     WHERE tenant = $1 AND job = $2 AND n > $3 AND ($4::text[] IS NULL OR status = ANY ($4))
       AND ($5::text[] IS NULL OR code = ANY ($5)) AND (NOT judged OR $7)
     ORDER BY n LIMIT $6
"""  # noqa: S608

LIST_ITEMS: Final = f"""
    SELECT item.entity::text AS id, coalesce(done.status, $8) AS status, done.code, done.message, done.transaction_id,
           done.at, item.place::int AS n
      FROM bulk_part
     CROSS JOIN LATERAL (SELECT entity, bulk_part.part * {PART} + position - 1 AS place
                           FROM unnest(bulk_part.ids) WITH ORDINALITY AS each (entity, position)) AS item
      LEFT JOIN bulk_item AS done
        ON done.tenant = $1 AND done.job = $2 AND done.n = item.place AND (NOT done.judged OR $7)
     WHERE bulk_part.tenant = $1 AND bulk_part.job = $2 AND bulk_part.part >= $3 / {PART} AND item.place > $3
       AND ($4::text[] IS NULL OR coalesce(done.status, $8) = ANY ($4)) AND ($5::text[] IS NULL OR done.code = ANY ($5))
     ORDER BY bulk_part.part, item.place LIMIT $6
"""  # noqa: S608


FIND_STATUS: Final = "SELECT status FROM bulk_job WHERE tenant = $1 AND id = $2"


async def list_items(
    pool: Pool,
    tenant: TenantId,
    id_: str,
    *,
    statuses: Sequence[str] | None,
    codes: Sequence[str] | None,
    limit: int,
    after: int,
) -> list[tuple[int, BulkItem]]:
    """The items of a job in order, each with its number. Raises ``BulkJobNotFound``."""
    async with pool.connection() as connection:
        status = await connection.fetchval(FIND_STATUS, tenant, id_)
        if status is None:
            raise BulkJobNotFound
        counts_verdicts = status in ("FREEZING", "READY")  # later they are what might have been
        arguments = (tenant, id_, after, statuses, codes, limit, counts_verdicts)
        open_as = "CANCELLED" if status == "CANCELLED" else "PENDING"
        if codes is not None or (statuses is not None and open_as not in statuses):
            rows = await connection.fetch(LIST_RESULTS, *arguments)
        else:
            rows = await connection.fetch(LIST_ITEMS, *arguments, open_as)
    return [(row["n"], read_record(BulkItem, row)) for row in rows]

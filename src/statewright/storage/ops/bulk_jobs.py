"""Bulk jobs (docs/reference/operations.md#bulk-jobs): rows that outlive the node that works on them.

*Leases.* A node claims a job under a name that no other attempt has, and renews its lease. Everything it writes demands
that name: the commit of an item locks the job's row, and is refused once another attempt has it. So an item is never
done twice, whatever a node does that was taken for dead.

*Counts* stand in the row of the job, and change with what they count: whoever reads the row sees sums that add up.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

import asyncpg
import msgspec
from msgspec import Struct

from statewright.entity import Actor, Principal
from statewright.failures import BulkJobNotFound, BulkState, Conflict, LimitReached
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.jsonval.codec import decode, encode
from statewright.operations.bulk_jobs import (
    LEGAL_FROM,
    MAX_ITEMS,
    MAX_UNFINISHED,
    RESULTS,
    BulkItem,
    BulkJob,
    BulkPlan,
    BulkStatus,
    ItemStatus,
)
from statewright.operations.service import Act
from statewright.storage.commit.overlay import PartRefused, StagedPart
from statewright.storage.commit.statement import build_staged_part, read_sections
from statewright.storage.entities import wait_until_visible
from statewright.storage.ops.incidents import MATCHING, IncidentFilter, list_arguments
from statewright.storage.ops.records import read_record
from statewright.storage.ops.service import record_act
from statewright.storage.pool import Pool
from statewright.storage.search.matching import Candidates, iterate_matches
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery, select_versions
from statewright.storage.versions import VIEW_COLUMNS

PART: Final = 1000
"""Ids in a row."""

MAX_RUNNING: Final = timedelta(hours=24)
"""How long the roles of whoever started or resumed a job count."""

MAX_MESSAGE_CHARS: Final = 1000
LAST_ERRORS: Final = 5

_US: Final = timedelta(microseconds=1)


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


class NewBulkJob(Struct, frozen=True, kw_only=True):
    """A job to be stored. ``ids`` are its entities where they are named, or those that failed in the job ``again``."""

    id: str
    plan: BulkPlan
    reason: str | None
    rate: int
    concurrency: int
    stop_after: int | None
    ids: Sequence[UUID] | None = None
    again: str | None = None


class BulkClaim(Struct, frozen=True, kw_only=True):
    """A job that a node works on, under the name ``worker``. ``total`` is None before it is frozen."""

    tenant: TenantId
    id: str
    status: BulkStatus
    plan: BulkPlan
    principal: Principal
    rate: int
    concurrency: int
    total: int | None
    instant: int | None
    worker: str
    reason: str | None


class Beat(Struct, frozen=True, kw_only=True):
    """What a job is told while it runs."""

    status: BulkStatus
    rate: int
    concurrency: int


_OPEN: Final = "('COMPLETED', 'CANCELLED')"

_SELECT: Final = f"""
    SELECT job.tenant, job.id, job.operation, job.status, job.instant, job.reason, job.failure,
           job.rate AS rate_per_second, job.concurrency, job.created_at, job.created_by_id,
           job.created_by_kind, job.started_at, job.finished_at,
           (job.plan::json ->> 'dryRun')::boolean AS dry_run,
           coalesce(job.total, 0) AS totals_total, job.succeeded AS totals_succeeded, job.skipped AS totals_skipped,
           job.failed AS totals_failed, busy.running AS totals_running,
           CASE WHEN job.status = 'CANCELLED' THEN 0 ELSE busy.rest END AS totals_pending,
           CASE WHEN job.status = 'CANCELLED' THEN busy.rest ELSE 0 END AS totals_cancelled,
           CASE WHEN job.status = 'RUNNING' THEN now_us() + busy.rest * 1000000::bigint / job.rate END AS eta,
           (SELECT coalesce(json_agg(json_build_object('id', entity, 'code', code, 'message', message)), '[]')::text
              FROM (SELECT entity, code, message FROM bulk_item
                     WHERE tenant = job.tenant AND bulk_item.job = job.id AND bulk_item.status = 'FAILED'
                     ORDER BY n DESC LIMIT {LAST_ERRORS}) AS last) AS last_errors
      FROM bulk_job AS job
     CROSS JOIN LATERAL (
            SELECT coalesce(job.total, 0) - job.succeeded - job.skipped - job.failed AS left_over) AS open
     CROSS JOIN LATERAL (
            -- A node that has not heard of a pause yet may begin with one more.
            SELECT CASE WHEN job.worker IS NULL OR job.lease_until <= now_us() THEN 0
                        ELSE least(greatest(job.running, (job.status NOT IN ('FREEZING', 'READY'))::int),
                                   open.left_over) END
                   AS running) AS now
     CROSS JOIN LATERAL (SELECT now.running, open.left_over - now.running AS rest) AS busy
"""  # noqa: S608 - a constant

COUNT_UNFINISHED: Final = f"""
    SELECT count(*) FROM bulk_job WHERE tenant = $1 AND status NOT IN {_OPEN}
"""  # noqa: S608

ADD: Final = """
    INSERT INTO bulk_job (tenant, id, status, operation, plan, reason, rate, concurrency, stop_after, created_at,
                          created_by_id, created_by_kind, runner_id, runner_kind, runner_roles)
    VALUES ($1, $2, 'FREEZING', $3, $4, $5, $6, $7, $8, now_us(), $9, $10, $9, $10, $11)
"""

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


async def add_job(pool: Pool, principal: Principal, job: NewBulkJob) -> BulkJob:
    """Store a job. Raises ``LimitReached``."""
    tenant, by = principal.tenant, Actor(principal.id, principal.kind)

    async def act(connection: asyncpg.Connection) -> BulkJob:
        await connection.execute("SELECT pg_advisory_xact_lock(5372, hashtext($1))", tenant)
        if await connection.fetchval(COUNT_UNFINISHED, tenant) >= MAX_UNFINISHED:
            raise LimitReached("unfinished bulk jobs", MAX_UNFINISHED)
        pace = (job.reason, job.rate, job.concurrency, job.stop_after)
        plan = encode_plan(job.plan)
        who = (by.id, by.kind, list(principal.roles))
        await connection.execute(ADD, tenant, job.id, job.plan.operation, plan, *pace, *who)
        if job.again is not None:
            await connection.execute(ADD_FAILED, tenant, job.id, job.again)
        elif job.ids is not None:
            parts = [(tenant, job.id, at // PART, job.ids[at : at + PART]) for at in range(0, len(job.ids), PART)]
            await connection.executemany(ADD_PART, parts)
        if job.ids is not None or job.again is not None:
            await connection.execute(SET_FROZEN, tenant, job.id)
        details = {"operation": job.plan.operation, "dryRun": job.plan.dry_run, "retryOf": job.again}
        await _record(connection, tenant, by, "create", job.id, job.reason, details)
        return await _require(connection, tenant, job.id)

    return await pool.transact(act)


def encode_plan(plan: BulkPlan) -> str:
    """As it is stored; numbers keep their digits."""
    return encode(msgspec.to_builtins(plan, builtin_types=(Decimal,))).decode()


def decode_plan(text: str) -> BulkPlan:
    """A plan that is stored."""
    return msgspec.convert(decode(text), BulkPlan)


async def _record(
    connection: asyncpg.Connection,
    tenant: TenantId,
    by: Actor,
    action: str,
    id_: str,
    reason: str | None = None,
    details: Mapping[str, object] | None = None,
) -> None:
    told = {name: value for name, value in (details or {}).items() if value is not None}
    act = Act(action=f"bulk.{action}", target_kind="BULK_JOB", target_id=id_, reason=reason, details=told)
    await record_act(connection, tenant, by, act)


FIND: Final = f"{_SELECT} WHERE job.tenant = $1 AND job.id = $2"

LIST: Final = f"""
    {_SELECT}
     WHERE job.tenant = $1 AND ($2::text[] IS NULL OR job.status = ANY ($2)) AND ($3::uuid IS NULL OR job.id < $3)
     ORDER BY job.id DESC LIMIT $4
"""


async def _require(connection: asyncpg.Connection, tenant: TenantId, id_: str) -> BulkJob:
    row = await connection.fetchrow(FIND, tenant, id_)
    if row is None:
        raise BulkJobNotFound
    return read_record(BulkJob, row)


async def get_job(pool: Pool, tenant: TenantId, id_: str) -> BulkJob:
    """The job as it is now. Raises ``BulkJobNotFound``."""
    async with pool.connection() as connection:
        return await _require(connection, tenant, id_)


async def list_jobs(
    pool: Pool, tenant: TenantId, statuses: Sequence[str] | None, *, limit: int, after: UUID | None
) -> list[BulkJob]:
    """The jobs of the tenant, newest first."""
    async with pool.connection() as connection:
        rows = await connection.fetch(LIST, tenant, statuses, after, limit)
    return [read_record(BulkJob, row) for row in rows]


READ_PLAN: Final = "SELECT plan, rate, concurrency, stop_after, reason FROM bulk_job WHERE tenant = $1 AND id = $2"


async def read_plan(pool: Pool, tenant: TenantId, id_: str) -> asyncpg.Record:
    """What a job does, and how quickly. Raises ``BulkJobNotFound``."""
    async with pool.connection() as connection:
        row = await connection.fetchrow(READ_PLAN, tenant, id_)
    if row is None:
        raise BulkJobNotFound
    return row


CHANGE: Final = """
    UPDATE bulk_job
       SET status = $3, started_at = CASE WHEN $3 = 'RUNNING' THEN coalesce(started_at, now_us()) ELSE started_at END,
           finished_at = CASE WHEN $3 = 'CANCELLED' THEN now_us() END,
           runner_id = CASE WHEN $3 = 'RUNNING' THEN $4 ELSE runner_id END,
           runner_kind = CASE WHEN $3 = 'RUNNING' THEN $5 ELSE runner_kind END,
           runner_roles = CASE WHEN $3 = 'RUNNING' THEN $6::text[] ELSE runner_roles END,
           failures = CASE WHEN $3 = 'RUNNING' THEN 0 ELSE failures END,
           ran_us = CASE WHEN $3 = 'RUNNING' THEN 0 ELSE ran_us END,
           skipped = CASE WHEN status = 'READY' THEN 0 ELSE skipped END
     WHERE tenant = $1 AND id = $2
"""

LOCK: Final = "SELECT status, total FROM bulk_job WHERE tenant = $1 AND id = $2 FOR NO KEY UPDATE"


async def change_status(pool: Pool, principal: Principal, id_: str, action: str) -> BulkJob:
    """Carry out ``start``, ``pause``, ``resume`` or ``cancel``; where that is so already, nothing. Raises
    ``BulkJobNotFound``, ``BulkState``.
    """
    tenant, wanted = principal.tenant, RESULTS[action]

    async def act(connection: asyncpg.Connection) -> BulkJob:
        row = await connection.fetchrow(LOCK, tenant, id_)
        if row is None:
            raise BulkJobNotFound
        if row["status"] == wanted and action != "start":
            return await _require(connection, tenant, id_)
        if row["status"] not in LEGAL_FROM[action]:
            raise BulkState(row["status"])
        who = (principal.id, principal.kind, list(principal.roles))
        await connection.execute(CHANGE, tenant, id_, wanted, *who)
        await _record(connection, tenant, Actor(principal.id, principal.kind), action, id_)
        return await _require(connection, tenant, id_)

    return await pool.transact(act)


SET_PACE: Final = f"""
    UPDATE bulk_job SET rate = coalesce($3, rate), concurrency = coalesce($4, concurrency)
     WHERE tenant = $1 AND id = $2 AND status NOT IN {_OPEN}
 RETURNING 1
"""  # noqa: S608


async def set_pace(pool: Pool, principal: Principal, id_: str, rate: int | None, concurrency: int | None) -> BulkJob:
    """Let a job run at another pace. Raises ``BulkJobNotFound``, ``BulkState``."""
    tenant = principal.tenant

    async def act(connection: asyncpg.Connection) -> BulkJob:
        changed = await connection.fetchval(SET_PACE, tenant, id_, rate, concurrency)
        found = await _require(connection, tenant, id_)
        if changed is None:
            raise BulkState(found.status)
        details = {"ratePerSecond": rate, "concurrency": concurrency}
        await _record(connection, tenant, Actor(principal.id, principal.kind), "pace", id_, None, details)
        return found

    return await pool.transact(act)


_SHOWN: Final = "entity::text AS id, status, code, message, transaction_id, at, n"

LIST_RESULTS: Final = f"""
    -- Uses bulk_item_unplain, or the primary key.
    SELECT {_SHOWN} FROM bulk_item
     WHERE tenant = $1 AND job = $2 AND n > $3 AND ($4::text[] IS NULL OR status = ANY ($4))
       AND ($5::text[] IS NULL OR code = ANY ($5))
     ORDER BY n LIMIT $6
"""  # noqa: S608

LIST_ITEMS: Final = f"""
    SELECT item.entity::text AS id, coalesce(done.status, $7) AS status, done.code, done.message, done.transaction_id,
           done.at, item.place::int AS n
      FROM bulk_part
     CROSS JOIN LATERAL (SELECT entity, bulk_part.part * {PART} + position - 1 AS place
                           FROM unnest(bulk_part.ids) WITH ORDINALITY AS each (entity, position)) AS item
      LEFT JOIN bulk_item AS done ON done.tenant = $1 AND done.job = $2 AND done.n = item.place
     WHERE bulk_part.tenant = $1 AND bulk_part.job = $2 AND bulk_part.part >= $3 / {PART} AND item.place > $3
       AND ($4::text[] IS NULL OR coalesce(done.status, $7) = ANY ($4)) AND ($5::text[] IS NULL OR done.code = ANY ($5))
     ORDER BY bulk_part.part, item.place LIMIT $6
"""  # noqa: S608


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
        status = (await _require(connection, tenant, id_)).status
        arguments = (tenant, id_, after, statuses, codes, limit)
        open_as = "CANCELLED" if status == "CANCELLED" else "PENDING"
        if codes is not None or (statuses is not None and open_as not in statuses):
            rows = await connection.fetch(LIST_RESULTS, *arguments)
        else:
            rows = await connection.fetch(LIST_ITEMS, *arguments, open_as)
    return [(row["n"], read_record(BulkItem, row)) for row in rows]


# What a node does that works on jobs.

CLAIM: Final = """
    -- Uses bulk_job_active. Nodes that claim at the same time pass each other's jobs by.
    WITH due AS MATERIALIZED (
        SELECT tenant, id FROM bulk_job
         WHERE status IN ('FREEZING', 'RUNNING') AND lease_until < now_us()
         ORDER BY created_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE bulk_job
       SET worker = $1 || ' ' || gen_random_uuid(), lease_until = now_us() + $2::bigint, running = 0
      FROM due
     WHERE bulk_job.tenant = due.tenant AND bulk_job.id = due.id
 RETURNING bulk_job.tenant, bulk_job.id, status, plan, runner_id, runner_kind, runner_roles, rate, concurrency, total,
           instant, worker, reason
"""

RENEW: Final = """
    UPDATE bulk_job
       SET lease_until = now_us() + $4::bigint, running = $5, ran_us = ran_us + $6::bigint,
           status = CASE WHEN status = 'RUNNING' AND ran_us + $6::bigint >= $7::bigint THEN 'PAUSED' ELSE status END
     WHERE tenant = $1 AND id = $2 AND worker = $3
 RETURNING status, rate, concurrency
"""

RELEASE: Final = """
    UPDATE bulk_job SET worker = NULL, lease_until = 0, running = 0 WHERE tenant = $1 AND id = $2 AND worker = $3
"""

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

END_FREEZE: Final = """
    UPDATE bulk_job SET status = $4, started_at = CASE WHEN $4 = 'RUNNING' THEN now_us() END
     WHERE tenant = $1 AND id = $2 AND worker = $3 AND status = 'FREEZING'
"""

GIVE_UP: Final = """
    UPDATE bulk_job SET status = 'CANCELLED', finished_at = now_us(), failure = $4
     WHERE tenant = $1 AND id = $2 AND worker = $3 AND status = 'FREEZING'
"""

COMPLETE: Final = """
    UPDATE bulk_job SET status = 'COMPLETED', finished_at = now_us(), running = 0
     WHERE tenant = $1 AND id = $2 AND worker = $3 AND status = 'RUNNING'
"""

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
         WHERE tenant = $1 AND id = $2 AND worker = $3
     RETURNING tenant, id
    )
    INSERT INTO bulk_item (tenant, job, n, entity, status, judged, code, at)
    SELECT held.tenant, held.id, $4 + verdict.place - 1, verdict.entity, verdict.status, true, verdict.code, now_us()
      FROM held
     CROSS JOIN unnest($5::uuid[], $6::text[], $7::text[]) WITH ORDINALITY AS verdict (entity, status, code, place)
"""

COUNT_JOBS: Final = "SELECT status, count(*) AS jobs FROM bulk_job GROUP BY status"

REMOVE: Final = """
    -- A thousand items at a time; a job goes with the last of what it has.
    WITH old AS MATERIALIZED (
        SELECT tenant, id FROM bulk_job WHERE finished_at <= now_us() - $1::bigint
         ORDER BY finished_at LIMIT 1 FOR UPDATE SKIP LOCKED
    ),
    items AS MATERIALIZED (
        SELECT bulk_item.tenant, bulk_item.job, n
          FROM bulk_item JOIN old ON bulk_item.tenant = old.tenant AND job = old.id
         LIMIT $2
    ),
    items_removed AS (
        DELETE FROM bulk_item USING items
         WHERE bulk_item.tenant = items.tenant AND bulk_item.job = items.job AND bulk_item.n = items.n
     RETURNING 1
    ),
    parts_removed AS (
        DELETE FROM bulk_part USING old
         WHERE bulk_part.tenant = old.tenant AND job = old.id AND NOT EXISTS (SELECT FROM items)
     RETURNING 1
    ),
    job_removed AS (
        DELETE FROM bulk_job USING old
         WHERE bulk_job.tenant = old.tenant AND bulk_job.id = old.id AND NOT EXISTS (SELECT FROM items)
     RETURNING 1
    )
    SELECT (SELECT count(*) FROM items_removed) + (SELECT count(*) FROM parts_removed)
           + (SELECT count(*) FROM job_removed)
"""

MAX_BATCH: Final = 1000


class TooManyItems(Exception):
    """More entities match than a job may have."""


class FreezeLost(Exception):
    """Another node has frozen the job, or is about to."""


class BulkJobs:
    """The jobs of all tenants, for a node that works on them. ``scans`` has the connections for long searches."""

    def __init__(self, pool: Pool, scans: Pool) -> None:
        self._pool = pool
        self._scans = scans

    async def claim(self, worker: str, *, lease: timedelta, most: int) -> list[BulkClaim]:
        """Up to ``most`` jobs that no node works on, now this one's."""
        async with self._pool.connection() as connection:
            rows = await connection.fetch(CLAIM, worker, lease // _US, most)
        return [_to_claimed(row) for row in rows]

    async def renew(self, job: BulkClaim, *, lease: timedelta, running: int = 0, ran_us: int = 0) -> Beat | None:
        """Keep the job for longer, and say how far it is; None when it is another node's."""
        limit = MAX_RUNNING // _US
        async with self._pool.connection() as connection:
            row = await connection.fetchrow(RENEW, *_name(job), lease // _US, running, ran_us, limit)
        return None if row is None else Beat(**row)

    async def release(self, job: BulkClaim) -> None:
        """Nothing of the job is under way any more."""
        async with self._pool.connection() as connection:
            await connection.execute(RELEASE, *_name(job))

    async def freeze(self, job: BulkClaim, query: EntityQuery) -> None:
        """Keep the ids of what matches at the instant of the job, which is taken now. Raises ``TooManyItems``,
        ``FreezeLost``."""
        async with self._pool.connection() as connection:
            instant = await connection.fetchval(FREEZE_INSTANT, *_name(job))
        if instant is None:
            return
        await wait_until_visible(self._pool, instant)
        query = msgspec.structs.replace(query, instant=instant)
        condition = query.search.compile_sql(first=FIRST_ARGUMENT)
        columns = "id" if condition.is_exact else VIEW_COLUMNS
        statement = select_versions(query, columns, condition=condition)
        async with self._scans.connection(limit=None) as connection, connection.transaction():
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
            if not await connection.fetchval(LOCK_FREEZE, *_name(job)):
                raise FreezeLost
            await connection.execute(SET_FROZEN, job.tenant, job.id)

    async def freeze_incidents(self, job: BulkClaim, wanted: IncidentFilter) -> None:
        """Keep the ids of the incidents that are chosen now. Raises ``FreezeLost``."""
        async with self._pool.connection(limit=None) as connection, connection.transaction():
            if not await connection.fetchval(LOCK_FREEZE, *_name(job)):
                raise FreezeLost
            await connection.execute(FREEZE_INCIDENTS, job.tenant, *list_arguments(wanted), job.id)
            await connection.execute(SET_FROZEN, job.tenant, job.id)

    async def end_freeze(self, job: BulkClaim, status: BulkStatus) -> None:
        """The set is frozen, and judged if that was wanted."""
        async with self._pool.connection() as connection:
            await connection.execute(END_FREEZE, *_name(job), status)

    async def give_up(self, job: BulkClaim, reason: str) -> None:
        """The set cannot be frozen."""
        async with self._pool.connection() as connection:
            await connection.execute(GIVE_UP, *_name(job), reason)

    async def complete(self, job: BulkClaim) -> None:
        """All items have a result."""
        async with self._pool.connection() as connection:
            await connection.execute(COMPLETE, *_name(job))

    async def read_part(
        self, job: BulkClaim, part: int
    ) -> tuple[list[tuple[int, EntityId]], dict[int, tuple[str, bool]]]:
        """The items of a part by number; the results of some: their status, and whether a dry run judged them."""
        async with self._pool.connection() as connection:
            ids = await connection.fetchval(READ_PART, job.tenant, job.id, part)
            rows = await connection.fetch(READ_RESULTS, job.tenant, job.id, part * PART, (part + 1) * PART - 1)
        items = [(part * PART + place, EntityId(str(id_))) for place, id_ in enumerate(ids or ())]
        return items, {row["n"]: (row["status"], row["judged"]) for row in rows}

    async def write_result(
        self, job: BulkClaim, n: int, entity: EntityId, status: ItemStatus, code: str, message: str
    ) -> BulkStatus | None:
        """Store that an item has failed or was skipped; the status of the job, None when it is another node's."""
        return await write_result(self._pool, job, n, entity, status, code, message)

    async def write_verdicts(
        self, job: BulkClaim, first: int, ids: Sequence[EntityId], codes: Sequence[str | None]
    ) -> None:
        """Store what would become of successive items: why they would be skipped, None for one that would not."""
        statuses = ["ELIGIBLE" if code is None else "SKIPPED" for code in codes]
        async with self._pool.connection() as connection:
            await connection.execute(WRITE_VERDICTS, *_name(job), first, ids, statuses, codes)

    async def count(self) -> dict[str, int]:
        """Jobs of all tenants by their status."""
        async with self._pool.connection() as connection:
            return {row["status"]: row["jobs"] for row in await connection.fetch(COUNT_JOBS)}

    async def remove_old(self, *, older_than: timedelta) -> int:
        """Remove a portion of what ended so long ago; how many rows."""
        async with self._pool.connection() as connection:
            removed: int = await connection.fetchval(REMOVE, older_than // _US, MAX_BATCH)
        return removed


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
    async with pool.connection() as connection:
        found: BulkStatus | None = await connection.fetchval(WRITE_RESULT, *_name(job), n, entity, status, code, told)
    return found


def _name(job: BulkClaim) -> tuple[str, str, str]:
    return job.tenant, job.id, job.worker


def _to_claimed(row: asyncpg.Record) -> BulkClaim:
    who = Principal(
        id=row["runner_id"],
        name=row["runner_id"],
        kind=row["runner_kind"],
        tenant=row["tenant"],
        roles=tuple(row["runner_roles"]),
    )
    return BulkClaim(
        tenant=row["tenant"],
        id=str(row["id"]),
        status=row["status"],
        plan=decode_plan(row["plan"]),
        principal=who,
        rate=row["rate"],
        concurrency=row["concurrency"],
        total=row["total"],
        instant=row["instant"],
        worker=row["worker"],
        reason=row["reason"],
    )

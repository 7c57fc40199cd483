"""Bulk jobs as operators make, read and change them (docs/reference/operations.md#bulk-jobs).

*Counts* stand in the row of the job, and change with what they count: whoever reads the row sees sums that add up.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import asyncpg
from msgspec import Struct

from statewright.entity import Actor, Principal
from statewright.failures import BulkJobNotFound, BulkState, LimitReached
from statewright.ids import TenantId
from statewright.operations.bulk_jobs import (
    LEGAL_FROM,
    MAX_UNFINISHED,
    RESULTS,
    BulkJob,
    BulkPlan,
)
from statewright.operations.service import Act
from statewright.storage.ops.bulk_claims import encode_plan
from statewright.storage.ops.bulk_items import freeze_ids
from statewright.storage.ops.records import read_record
from statewright.storage.ops.service import record_act
from statewright.storage.pool import Pool

LAST_ERRORS: Final = 5


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


_OPEN: Final = "('COMPLETED', 'CANCELLED')"

_SELECT: Final = f"""
    SELECT job.tenant, job.id, job.operation, job.status, job.instant, job.reason, job.failure,
           job.rate AS rate_per_second, job.concurrency, job.created_at, job.created_by_id,
           job.created_by_kind, job.started_at, job.finished_at,
           (job.plan::json ->> 'dryRun')::boolean AND job.started_at IS NULL AS dry_run,
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


async def add_job(pool: Pool, principal: Principal, job: NewBulkJob) -> BulkJob:
    """Store a job. Raises ``LimitReached``."""
    tenant, by = principal.tenant, principal.actor

    async def act(connection: asyncpg.Connection) -> BulkJob:
        await connection.execute("SELECT pg_advisory_xact_lock(5372, hashtext($1))", tenant)
        if await connection.fetchval(COUNT_UNFINISHED, tenant) >= MAX_UNFINISHED:
            raise LimitReached("unfinished bulk jobs", MAX_UNFINISHED)
        pace = (job.reason, job.rate, job.concurrency, job.stop_after)
        plan = encode_plan(job.plan)
        who = (by.id, by.kind, list(principal.roles))
        await connection.execute(ADD, tenant, job.id, job.plan.operation, plan, *pace, *who)
        await freeze_ids(connection, tenant, job.id, job.ids, job.again)
        details = {"operation": job.plan.operation, "dryRun": job.plan.dry_run, "retryOf": job.again}
        await _record(connection, tenant, by, "create", job.id, job.reason, details)
        return await _require(connection, tenant, job.id)

    return await pool.transact(act)


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
    rows = await pool.fetch(LIST, tenant, statuses, after, limit)
    return [read_record(BulkJob, row) for row in rows]


READ_PLAN: Final = "SELECT plan, rate, concurrency, stop_after, reason FROM bulk_job WHERE tenant = $1 AND id = $2"


async def read_plan(pool: Pool, tenant: TenantId, id_: str) -> asyncpg.Record:
    """What a job does, and how quickly. Raises ``BulkJobNotFound``."""
    row = await pool.fetchrow(READ_PLAN, tenant, id_)
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
           skipped = CASE WHEN status IN ('FREEZING', 'READY') THEN 0 ELSE skipped END
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
        await _record(connection, tenant, principal.actor, action, id_)
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
        await _record(connection, tenant, principal.actor, "pace", id_, None, details)
        return found

    return await pool.transact(act)

"""Claimed jobs: leases, retries and rests, each one statement that changes queue rows and nothing else.

Rests. A job that failed may rest before it can be claimed again. It has no worker then, and in ``lock_expires_at`` the
instant until which no claim sees it; only a lease has ``locked_at``.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.ids import EntityId, TenantId, TransactionId
from statewright.storage.pool import Pool
from statewright.storage.processes.jobs import QueuedJob, Topic

REQUEUE: Final = """
    -- Only if it still is what was judged: any other change of the job changes one of these columns, or removes it.
    WITH requeued AS (
        UPDATE process_job
           SET retries = retries - 1, worker = '', locked_at = NULL, lock_expires_at = $8
         WHERE tenant = $1 AND id = $2 AND retries = $3 AND worker = $4 AND NOT held AND kept_under IS NULL
     RETURNING tenant, instance
    ),
    audited AS (
        INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
        SELECT tenant, instance, $5, $6, 1, $7 FROM requeued
    )
    SELECT count(*) FROM requeued
"""


class AuditLine(Struct, frozen=True, kw_only=True):
    """One event for the audit trail of an instance; ``events`` is the JSON text of a list with it."""

    at: int
    transaction: TransactionId
    events: str


async def requeue_job(
    pool: Pool, tenant: TenantId, job: str, judged: QueuedJob, line: AuditLine, *, rests_until: int | None = None
) -> bool:
    """Use up a retry and let any worker claim the job again, at once or later; whether it still was as ``judged``."""
    async with pool.connection() as connection:
        count = await connection.fetchval(
            REQUEUE, tenant, job, judged.retries, judged.worker, line.at, line.transaction, line.events, rests_until
        )
    return bool(count)


END_RESTS: Final = """
    -- Uses process_job_leased.
    WITH rested AS (
        UPDATE process_job SET lock_expires_at = NULL
         WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM process_job
                 WHERE lock_expires_at <= $1 AND locked_at IS NULL
                 ORDER BY lock_expires_at
                 LIMIT $2 FOR UPDATE SKIP LOCKED))
     RETURNING tenant, language, job_type
    )
    SELECT tenant, language, job_type FROM rested
"""


async def end_rests(pool: Pool, *, now: int, limit: int) -> list[Topic]:
    """Let jobs be claimed, of all tenants, that have rested long enough; of what types they are."""
    async with pool.connection() as connection:
        rows = await connection.fetch(END_RESTS, now, limit)
    return [(TenantId(tenant), language, job_type) for tenant, language, job_type in rows]


RENEW: Final = """
    UPDATE process_job SET lock_expires_at = $4
     WHERE tenant = $1 AND id = $2 AND worker = $3 AND locked_at IS NOT NULL
 RETURNING lock_expires_at
"""


async def renew_lease(pool: Pool, tenant: TenantId, job: str, *, worker: str, until: int) -> bool:
    """Move the end of a lease; whether the worker holds the job."""
    async with pool.connection() as connection:
        return await connection.fetchval(RENEW, tenant, job, worker, until) is not None


RELEASE: Final = """
    UPDATE process_job SET worker = '', locked_at = NULL, lock_expires_at = $5
     WHERE tenant = $1 AND id = ANY ($2::uuid[]) AND worker = $3 AND locked_at IS NOT NULL
       AND language = ANY ($4)
 RETURNING language, job_type
"""


async def release_jobs(
    pool: Pool,
    tenant: TenantId,
    languages: Sequence[str],
    jobs: Sequence[str],
    *,
    worker: str,
    rests_until: int | None = None,
) -> list[Topic]:
    """Give jobs back that the worker holds, to be claimed again at once or later; their types."""
    async with pool.connection() as connection:
        rows = await connection.fetch(RELEASE, tenant, list(jobs), worker, list(languages), rests_until)
    return [(tenant, row["language"], row["job_type"]) for row in rows]


SWEEP: Final = """
    -- Uses process_job_leased. The event is that of services.steps.trail.
    WITH expired AS (
        UPDATE process_job SET worker = '', locked_at = NULL, lock_expires_at = NULL, losses = losses + 1
         WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM process_job
                 WHERE lock_expires_at < $1 AND locked_at IS NOT NULL
                   AND NOT EXISTS (
                        SELECT 1 FROM unnest($5::text[], $6::int[]) AS limited (language, most)
                         WHERE limited.language = process_job.language AND process_job.losses >= limited.most)
                 ORDER BY lock_expires_at
                 LIMIT $2 FOR UPDATE SKIP LOCKED))
     RETURNING tenant, language, id, instance, job_type
    ),
    audited AS (
        INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
        SELECT tenant, instance, $1, $3, 1, $4 FROM expired
    )
    SELECT tenant, language, job_type FROM expired
"""


async def sweep_expired(pool: Pool, *, limit: int, line: AuditLine, loss_limits: Mapping[str, int]) -> list[Topic]:
    """Take back jobs whose lease ended before ``line.at``, without using a retry; what may be claimed again.

    Those that were taken back as often as ``loss_limits`` says for their language are left (``fetch_lost_jobs``).
    """
    languages, limits = list(loss_limits), list(loss_limits.values())
    async with pool.connection() as connection:
        rows = await connection.fetch(SWEEP, line.at, limit, line.transaction, line.events, languages, limits)
    return [(TenantId(tenant), language, job_type) for tenant, language, job_type in rows]


LOST: Final = """
    -- Uses process_job_leased.
    SELECT tenant, language, id, instance
      FROM process_job
     WHERE lock_expires_at < $1 AND locked_at IS NOT NULL
       AND losses >= (
            SELECT most FROM unnest($3::text[], $4::int[]) AS limited (language, most)
             WHERE limited.language = process_job.language)
     ORDER BY lock_expires_at
     LIMIT $2
"""


class LostJob(Struct, frozen=True):
    """A job whose lease has ended once more than it may."""

    tenant: TenantId
    language: str
    id: str
    instance: EntityId


async def fetch_lost_jobs(pool: Pool, *, now: int, limit: int, loss_limits: Mapping[str, int]) -> list[LostJob]:
    """The jobs that ``sweep_expired`` has left, of all tenants, the longest overdue first."""
    async with pool.connection() as connection:
        rows = await connection.fetch(LOST, now, limit, list(loss_limits), list(loss_limits.values()))
    return [LostJob(TenantId(tenant), language, str(id_), EntityId(str(one))) for tenant, language, id_, one in rows]

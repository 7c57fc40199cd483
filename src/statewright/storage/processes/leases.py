"""Claimed jobs: leases, retries and rests, each one statement that changes queue rows and nothing else.

Rests. A job that failed may rest before it can be claimed again. It has no worker then, and in ``lock_expires_at`` the
instant until which no claim sees it; only a lease has ``locked_at``.

Reports. What workers report of jobs that are suspended is kept in the rows of the jobs until the suspension has ended.
Keeping locks the suspension against its end. So whoever ends it leaves no report that nobody finds, and a report that
comes too late to be kept finds that it can be applied. Ending a suspension touches no job: nodes look for reports
whose suspension has ended, each takes some for a while, and the commit that applies one removes the row of its job.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from statewright.ids import EntityId, TenantId, TransactionId
from statewright.net.effects import NEVER
from statewright.storage.pool import Pool
from statewright.storage.processes.jobs import QueuedJob, Topic, WorkOwner

MAX_TAKERS: Final = 3
"""Nodes that may end with the same work under way, before it is to blame (storage/takings.py)."""

REQUEUE: Final = """
    -- Only if it still is what was judged: any other change of the job changes one of these columns, or removes it.
    WITH requeued AS (
        UPDATE process_job
           SET retries = retries - 1, worker = '', locked_at = NULL, lock_expires_at = $8, takers = '{}'
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
    count = await pool.fetchval(
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
    rows = await pool.fetch(END_RESTS, now, limit)
    return [(TenantId(tenant), language, job_type) for tenant, language, job_type in rows]


RENEW: Final = """
    UPDATE process_job SET lock_expires_at = $4
     WHERE tenant = $1 AND id = $2 AND worker = $3 AND locked_at IS NOT NULL
 RETURNING lock_expires_at
"""


async def renew_lease(pool: Pool, tenant: TenantId, job: str, *, worker: str, until: int) -> bool:
    """Move the end of a lease; whether the worker holds the job."""
    return await pool.fetchval(RENEW, tenant, job, worker, until) is not None


RELEASE: Final = """
    UPDATE process_job SET worker = '', locked_at = NULL, lock_expires_at = $5, takers = '{}'
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
    rows = await pool.fetch(RELEASE, tenant, list(jobs), worker, list(languages), rests_until)
    return [(tenant, row["language"], row["job_type"]) for row in rows]


OWN_WORKERS: Final = "^(push|service)-"
"""What the names of workers begin with that are nodes: their end with a job under way counts as an attempt."""


def build_max_losses(job: str, languages: str, limits: str) -> str:
    """SQL: how often the lease of a job may end, by itself or by its language; two parameters are the languages that
    limit that, and their limits. Without any it is a number that no count comes to.
    """
    return f"""coalesce({job}.max_losses, (SELECT most FROM unnest({languages}::text[], {limits}::int[])
                                             AS limited (language, most)
                                     WHERE limited.language = {job}.language), {2**31 - 1})"""  # noqa: S608 - constants


SWEEP: Final = f"""
    -- Uses process_job_leased. The event comes from services.processes.background. A job that so many nodes ended with
    -- keeps its lease, which is over: it is parked next (storage.work.LOSSES).
    WITH expired AS (
        UPDATE process_job AS job
           SET takers = lost.takers, losses = losses + 1,
               worker = CASE WHEN lost.is_last THEN worker ELSE '' END,
               locked_at = CASE WHEN lost.is_last THEN locked_at END,
               lock_expires_at = CASE WHEN lost.is_last THEN lock_expires_at END
          FROM (SELECT place, counted.takers, cardinality(counted.takers) >= {MAX_TAKERS} AS is_last
                  FROM (SELECT ctid AS place, worker, takers, {build_max_losses("process_job", "$5", "$6")} AS most
                          FROM process_job
                         WHERE lock_expires_at < $1 AND locked_at IS NOT NULL AND cardinality(takers) < {MAX_TAKERS}
                           AND losses < {build_max_losses("process_job", "$5", "$6")}
                         ORDER BY lock_expires_at
                         LIMIT $2 FOR UPDATE SKIP LOCKED) AS due
                 CROSS JOIN LATERAL (
                        SELECT CASE WHEN worker ~ '{OWN_WORKERS}' AND most > {MAX_TAKERS}
                                    THEN due.takers || concat($1::bigint, ' ', worker)
                                    ELSE due.takers END AS takers) AS counted) AS lost
         WHERE job.ctid = lost.place
     RETURNING job.tenant, job.language, job.id, job.instance, job.job_type
    ),
    audited AS (
        INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
        SELECT tenant, instance, $1, $3, 1, $4 FROM expired
    )
    SELECT tenant, language, job_type FROM expired
"""  # noqa: S608 - constants


async def sweep_expired(pool: Pool, *, limit: int, line: AuditLine, loss_limits: Mapping[str, int]) -> list[Topic]:
    """Take back jobs whose lease ended before ``line.at``, without using a retry; what may be claimed again.

    Those that were taken back as often as they may are left (``storage.work.LOSSES``); the limits are of languages.
    """
    languages, limits = list(loss_limits), list(loss_limits.values())
    rows = await pool.fetch(SWEEP, line.at, limit, line.transaction, line.events, languages, limits)
    return [(TenantId(tenant), language, job_type) for tenant, language, job_type in rows]


LOST_COLUMNS: Final = "tenant, language, id, instance"


class LostJob(Struct, frozen=True):
    """A job whose lease has ended once more than it may."""

    tenant: TenantId
    language: str
    id: str
    instance: EntityId


def to_lost_job(row: Iterable[Any]) -> LostJob:
    """A job from a row with ``LOST_COLUMNS`` in order."""
    tenant, language, id_, instance = row
    return LostJob(TenantId(tenant), language, str(id_), EntityId(str(instance)))


COUNT_KILL: Final = f"""
    -- The last one ends the lease, whether there is any, so that the job is parked (storage.work.LOSSES).
    UPDATE process_job AS job
       SET takers = counted.takers,
           locked_at = CASE WHEN counted.is_last THEN coalesce(locked_at, 0) ELSE locked_at END,
           lock_expires_at = CASE WHEN counted.is_last THEN 0 ELSE lock_expires_at END
      FROM (SELECT id, takers || $3::text AS takers, cardinality(takers) + 1 >= {MAX_TAKERS} AS is_last
              FROM process_job
             WHERE tenant = $1 AND id = $2 AND kept_under IS NULL AND cardinality(takers) < {MAX_TAKERS}
               FOR UPDATE) AS counted
     WHERE job.tenant = $1 AND job.id = counted.id
"""  # noqa: S608 - a constant


async def count_kill(pool: Pool, tenant: TenantId, job: EntityId, taker: str) -> None:
    """A report on a job had no effect because what it amounts to was killed while it was computed."""
    await pool.execute(COUNT_KILL, tenant, job, taker)


KEEP: Final = f"""
    -- The first report counts; one that is kept under a suspension may be moved to another.
    WITH holding AS MATERIALIZED (
        SELECT 1 FROM suspension WHERE tenant = $1 AND id = $3 AND ended_at IS NULL FOR SHARE
    ),
    kept AS (
        UPDATE process_job
           SET worker = '', locked_at = NULL, lock_expires_at = {NEVER}, kept_under = $3, report = $4,
               reported_at = coalesce(reported_at, now_us()), taken_until = 0
         WHERE tenant = $1 AND id = $2 AND kept_under IS NOT DISTINCT FROM $5 AND EXISTS (SELECT FROM holding)
    )
    SELECT count(*) FROM holding
"""  # noqa: S608 - a constant


async def keep_report(
    pool: Pool, tenant: TenantId, job: EntityId, suspension: str, report: str, *, instead_of: str | None = None
) -> bool:
    """Keep a report until a suspension ends; ``instead_of`` is the suspension it was kept under before. Without effect
    when the job is finished, or has a report. False: the suspension has ended.
    """
    return bool(await pool.fetchval(KEEP, tenant, job, suspension, report, instead_of))


COLUMNS: Final = "tenant, language, id, instance, kept_under, report"

TAKE: Final = f"""
    -- Jumps from suspension to suspension in process_job_kept: one probe for each, however many reports there are.
    WITH RECURSIVE kept AS (
        (SELECT tenant, kept_under FROM process_job
          WHERE kept_under IS NOT NULL
          ORDER BY tenant, kept_under LIMIT 1)
         UNION ALL
        SELECT following.tenant, following.kept_under
          FROM kept
         CROSS JOIN LATERAL (
                SELECT tenant, kept_under FROM process_job
                 WHERE kept_under IS NOT NULL AND (tenant, kept_under) > (kept.tenant, kept.kept_under)
                 ORDER BY tenant, kept_under LIMIT 1) AS following
    ),
    taken AS (
        UPDATE process_job SET taken_until = $2, takers = ARRAY[$5::text]
         WHERE ctid = ANY (ARRAY(
                SELECT due.place
                  FROM kept
                 CROSS JOIN LATERAL (
                        SELECT ctid AS place FROM process_job
                         WHERE process_job.tenant = kept.tenant AND process_job.kept_under = kept.kept_under
                           AND taken_until <= $1 AND language = ANY ($4::text[]) AND takers = '{{}}'
                         ORDER BY reported_at
                         LIMIT $3 FOR UPDATE SKIP LOCKED) AS due
                 WHERE NOT EXISTS (SELECT FROM suspension
                                    WHERE suspension.tenant = kept.tenant AND suspension.id = kept.kept_under
                                      AND suspension.ended_at IS NULL)
                 LIMIT $3))
     RETURNING {COLUMNS}, reported_at
    )
    SELECT {COLUMNS} FROM taken ORDER BY reported_at, id
"""  # noqa: S608 - a constant


class KeptReport(Struct, frozen=True, kw_only=True):
    """A report that can be applied. ``report`` is JSON text."""

    tenant: TenantId
    job: EntityId
    owner: WorkOwner
    kept_under: str
    report: str


async def take_reports(
    pool: Pool, languages: Sequence[str], *, now: int, until: int, limit: int, taker: str
) -> list[KeptReport]:
    """Up to ``limit`` fresh reports of all tenants whose suspension has ended, the oldest first. None is taken again
    before ``until``.
    """
    rows = await pool.fetch(TAKE, now, until, limit, list(languages), taker)
    return [to_report(row) for row in rows]


def to_report(row: Iterable[Any]) -> KeptReport:
    """A report from a row with ``COLUMNS`` in order."""
    tenant, language, id_, instance, kept_under, report = row
    owner = WorkOwner(language, EntityId(str(instance)))
    return KeptReport(
        tenant=TenantId(tenant), job=EntityId(str(id_)), owner=owner, kept_under=str(kept_under), report=report
    )


DISCARD: Final = """
    UPDATE process_job SET kept_under = NULL, report = NULL, reported_at = NULL, taken_until = NULL,
                           lock_expires_at = NULL, takers = '{}'
     WHERE tenant = $1 AND id = $2 AND kept_under = $3
 RETURNING language, job_type
"""


async def discard_report(pool: Pool, kept: KeptReport) -> list[Topic]:
    """Give a job back whose report had no effect although the job is there; its type."""
    rows = await pool.fetch(DISCARD, kept.tenant, kept.job, kept.kept_under)
    return [(kept.tenant, row["language"], row["job_type"]) for row in rows]

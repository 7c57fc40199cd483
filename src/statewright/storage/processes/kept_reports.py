"""What workers report of jobs that are suspended, kept in the rows of the jobs until the suspension has ended.

Keeping locks the suspension against its end. So whoever ends it leaves no report that nobody finds, and a report that
comes too late to be kept finds that it can be applied. Ending a suspension touches no job: nodes look for reports
whose suspension has ended, each takes some for a while, and the commit that applies one removes the row of its job.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.net.effects import NEVER
from statewright.storage.pool import Pool
from statewright.storage.processes.jobs import Topic, WorkOwner

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
    async with pool.connection() as connection:
        return bool(await connection.fetchval(KEEP, tenant, job, suspension, report, instead_of))


TAKE: Final = """
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
        UPDATE process_job SET taken_until = $2
         WHERE ctid = ANY (ARRAY(
                SELECT due.place
                  FROM kept
                 CROSS JOIN LATERAL (
                        SELECT ctid AS place FROM process_job
                         WHERE process_job.tenant = kept.tenant AND process_job.kept_under = kept.kept_under
                           AND taken_until <= $1 AND language = ANY ($4::text[])
                         ORDER BY reported_at
                         LIMIT $3 FOR UPDATE SKIP LOCKED) AS due
                 WHERE NOT EXISTS (SELECT FROM suspension
                                    WHERE suspension.tenant = kept.tenant AND suspension.id = kept.kept_under
                                      AND suspension.ended_at IS NULL)
                 LIMIT $3))
     RETURNING tenant, language, id, instance, kept_under, report, reported_at
    )
    SELECT * FROM taken ORDER BY reported_at, id
"""


class KeptReport(Struct, frozen=True, kw_only=True):
    """A report that can be applied. ``report`` is JSON text."""

    tenant: TenantId
    job: EntityId
    owner: WorkOwner
    kept_under: str
    report: str


async def take_reports(pool: Pool, languages: Sequence[str], *, now: int, until: int, limit: int) -> list[KeptReport]:
    """Up to ``limit`` reports of all tenants whose suspension has ended, the oldest first. None is taken again before
    ``until``.
    """
    async with pool.connection() as connection:
        rows = await connection.fetch(TAKE, now, until, limit, list(languages))
    return [
        KeptReport(
            tenant=TenantId(row["tenant"]),
            job=EntityId(str(row["id"])),
            owner=WorkOwner(row["language"], EntityId(str(row["instance"]))),
            kept_under=str(row["kept_under"]),
            report=row["report"],
        )
        for row in rows
    ]


DISCARD: Final = """
    UPDATE process_job SET kept_under = NULL, report = NULL, reported_at = NULL, taken_until = NULL,
                           lock_expires_at = NULL
     WHERE tenant = $1 AND id = $2 AND kept_under = $3
 RETURNING language, job_type
"""


async def discard_report(pool: Pool, kept: KeptReport) -> list[Topic]:
    """Give a job back whose report had no effect although the job is there; its type."""
    async with pool.connection() as connection:
        rows = await connection.fetch(DISCARD, kept.tenant, kept.job, kept.kept_under)
    return [(kept.tenant, row["language"], row["job_type"]) for row in rows]

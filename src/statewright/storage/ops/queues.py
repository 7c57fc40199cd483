"""The job queues of a tenant, of all process languages together."""

from typing import Final

from msgspec import Struct

from statewright.ids import TenantId
from statewright.storage.pool import Pool

MAX_JOBS: Final = 100_000
"""Unfinished jobs of a tenant that are counted; with more, every count is a lower bound."""


class JobQueue(Struct, frozen=True, kw_only=True):
    """The unfinished jobs of a type. ``depth`` of them can be claimed, ``in_flight`` are leased, ``delayed`` rest after
    a failure, ``held`` wait for their failed instance. ``oldest_age_us`` is the age of the oldest that can be claimed.
    ``routes`` are the tags that definitions name for them, None where the job type is the tag.
    """

    job_type: str
    depth: int
    in_flight: int
    delayed: int
    held: int
    oldest_age_us: int | None
    routes: tuple[str | None, ...]


class LeaseHolder(Struct, frozen=True, kw_only=True):
    """A worker with jobs of some types, and when it took the last one, in epoch microseconds."""

    worker: str
    job_types: tuple[str, ...]
    leases: int
    last_lease_at: int


class JobCensus(Struct, frozen=True, kw_only=True):
    """The queues by type, and who has leased jobs of them. ``is_complete``: whether all jobs were counted."""

    queues: tuple[JobQueue, ...]
    holders: tuple[LeaseHolder, ...]
    is_complete: bool


QUEUES: Final = """
    -- Grouped by hash, with the tags: one sort of so many jobs would take as long as all the rest.
    SELECT job_type, sum(jobs)::bigint AS jobs, sum(depth)::bigint AS depth, sum(in_flight)::bigint AS in_flight,
           sum(delayed)::bigint AS delayed, sum(held)::bigint AS held,
           now_us() - min(oldest) AS oldest_age_us, array_agg(tags) AS routes
      FROM (SELECT job_type, tags, count(*) AS jobs,
                   count(*) FILTER (WHERE lock_expires_at IS NULL AND NOT held) AS depth,
                   count(*) FILTER (WHERE locked_at IS NOT NULL AND NOT held) AS in_flight,
                   count(*) FILTER (WHERE lock_expires_at IS NOT NULL AND locked_at IS NULL AND NOT held) AS delayed,
                   count(*) FILTER (WHERE held) AS held,
                   min(created_at) FILTER (WHERE lock_expires_at IS NULL AND NOT held) AS oldest
              FROM (SELECT job_type, tags, locked_at, lock_expires_at, held, created_at
                      FROM process_job WHERE tenant = $1 LIMIT $2) AS counted
             GROUP BY job_type, tags) AS route
     GROUP BY job_type
     ORDER BY job_type
"""

HOLDERS: Final = """
    -- Leased jobs are few, and have an index of their own.
    SELECT worker, array_agg(DISTINCT job_type) AS job_types, count(*) AS leases, max(locked_at) AS last_lease_at
      FROM (SELECT worker, job_type, locked_at
              FROM process_job
             WHERE tenant = $1 AND lock_expires_at IS NOT NULL AND locked_at IS NOT NULL LIMIT $2) AS leased
     GROUP BY worker
     ORDER BY worker
"""


async def count_jobs(pool: Pool, tenant: TenantId) -> JobCensus:
    """The unfinished jobs of a tenant, up to ``MAX_JOBS``."""
    async with pool.connection() as connection:
        rows = await connection.fetch(QUEUES, tenant, MAX_JOBS + 1)
        holders = await connection.fetch(HOLDERS, tenant, MAX_JOBS + 1)
    return JobCensus(
        queues=tuple(
            JobQueue(
                job_type=row["job_type"],
                depth=row["depth"],
                in_flight=row["in_flight"],
                delayed=row["delayed"],
                held=row["held"],
                oldest_age_us=row["oldest_age_us"],
                routes=tuple(row["routes"]),
            )
            for row in rows
        ),
        holders=tuple(
            LeaseHolder(
                worker=row["worker"],
                job_types=tuple(row["job_types"]),
                leases=row["leases"],
                last_lease_at=row["last_lease_at"],
            )
            for row in holders
        ),
        is_complete=sum(row["jobs"] for row in rows) <= MAX_JOBS,
    )

"""The job queue: claims, leases and retries, each one statement that changes queue rows and nothing else.

Whoever claims, sweeps or purges skips rows that another is just taking, so none of these waits for anybody, and a
commit that removes or holds a job waits for no longer than such a statement takes.

Claims. The oldest jobs of each wanted type are locked first, then the oldest of these are claimed: with one ``LIMIT``
over all types the planner would sort the queue. Rows locked in vain are free again when the statement ends.

Clocks. ``now`` is always the caller's, as for scheduled transitions.
"""

from collections.abc import Sequence

import asyncpg
from msgspec import Struct

from statewright.identity import EntityId, TenantId, TransactionId
from statewright.storage.pool import Pool


class Claimed(Struct, frozen=True, kw_only=True):
    """A job that was locked just now. ``input`` is JSON text; instants are epoch microseconds."""

    id: str
    instance: EntityId
    execution: str
    definition_id: str
    step_id: str
    job_type: str
    retries: int
    created_at: int
    input: str


class QueuedJob(Struct, frozen=True, kw_only=True):
    """An unfinished job. ``worker`` is empty, and ``lock_expires_at`` None, when nobody has it."""

    instance: EntityId
    job_type: str
    retries: int
    worker: str
    lock_expires_at: int | None
    held: bool


class Lease(Struct, frozen=True, kw_only=True):
    """Who claims, when, and until when."""

    worker: str
    now: int
    until: int


Topic = tuple[TenantId, str]
"""A tenant and a job type."""


def _claiming(oldest: str) -> str:
    """The statement that claims the oldest of what ``oldest`` selects and locks: the ids of jobs of one type."""
    return f"""
    WITH claimed AS (
        UPDATE step_job
           SET worker = $4, locked_at = $5, lock_expires_at = $6
         WHERE tenant = $1
           AND id = ANY (ARRAY(
                SELECT oldest.id
                  FROM unnest($2::text[]) AS wanted (job_type)
                 CROSS JOIN LATERAL ({oldest}) AS oldest
                 ORDER BY oldest.id
                 LIMIT $3))
     RETURNING id, instance, execution, definition_id, step_id, job_type, retries, created_at
    )
    SELECT claimed.id, claimed.instance, claimed.execution, claimed.definition_id, claimed.step_id, claimed.job_type,
           claimed.retries, claimed.created_at, made.input
      FROM claimed
     CROSS JOIN LATERAL (
            SELECT input FROM step_execution
             WHERE step_execution.tenant = $1 AND step_execution.instance = claimed.instance
               AND step_execution.id = claimed.execution
             LIMIT 1) AS made
     ORDER BY claimed.id
    """  # noqa: S608 - the parts below


def _oldest(tags: str) -> str:
    """Uses the index whose condition on the tags this is."""
    return f"""
        SELECT id FROM step_job
         WHERE tenant = $1 AND job_type = wanted.job_type AND lock_expires_at IS NULL AND NOT held AND tags {tags}
         ORDER BY id
         LIMIT $3 FOR UPDATE SKIP LOCKED
    """  # noqa: S608 - the conditions below


CLAIM = _claiming(
    f"SELECT id FROM ({_oldest('IS NULL')}) AS plain UNION ALL SELECT id FROM ({_oldest('IS NOT NULL')}) AS tagged"  # noqa: S608
)
CLAIM_PLAIN = _claiming(_oldest("IS NULL"))
CLAIM_TAGGED = _claiming(_oldest("= $7"))


async def claim(pool: Pool, tenant: TenantId, types: Sequence[str], limit: int, lease: Lease) -> list[Claimed]:
    """Lock up to ``limit`` of the oldest claimable jobs of the types, in order of creation."""
    async with pool.connection() as connection:
        rows = await connection.fetch(CLAIM, tenant, list(types), limit, lease.worker, lease.now, lease.until)
    return [_claimed(row) for row in rows]


class Route(Struct, frozen=True):
    """Where jobs are pushed to: ``tags`` as definitions spell them, None where the job type is the tag."""

    job_type: str
    tags: str | None


async def claim_route(pool: Pool, tenant: TenantId, route: Route, limit: int, lease: Lease) -> list[Claimed]:
    """The same for the jobs of a route."""
    args = (tenant, [route.job_type], limit, lease.worker, lease.now, lease.until)
    async with pool.connection() as connection:
        if route.tags is None:
            rows = await connection.fetch(CLAIM_PLAIN, *args)
        else:
            rows = await connection.fetch(CLAIM_TAGGED, *args, route.tags)
    return [_claimed(row) for row in rows]


ROUTES = """
    -- Jumps from type to type in step_job_claimable, and from route to route in step_job_tags: one probe for each,
    -- however many jobs there are.
    WITH RECURSIVE types AS (
        (SELECT job_type FROM step_job
          WHERE tenant = $1 AND lock_expires_at IS NULL AND NOT held AND tags IS NULL
          ORDER BY job_type LIMIT 1)
         UNION ALL
        SELECT (SELECT job_type FROM step_job
                 WHERE tenant = $1 AND lock_expires_at IS NULL AND NOT held AND tags IS NULL
                   AND job_type > types.job_type
                 ORDER BY job_type LIMIT 1)
          FROM types
         WHERE types.job_type IS NOT NULL
    ),
    routes AS (
        (SELECT tags, job_type FROM step_job
          WHERE tenant = $1 AND lock_expires_at IS NULL AND NOT held AND tags IS NOT NULL
          ORDER BY tags, job_type LIMIT 1)
         UNION ALL
        SELECT following.tags, following.job_type
          FROM routes
         CROSS JOIN LATERAL (
                SELECT tags, job_type FROM step_job
                 WHERE tenant = $1 AND lock_expires_at IS NULL AND NOT held AND tags IS NOT NULL
                   AND (tags, job_type) > (routes.tags, routes.job_type)
                 ORDER BY tags, job_type LIMIT 1) AS following
    )
    SELECT job_type, NULL AS tags FROM types WHERE job_type IS NOT NULL
     UNION ALL
    SELECT job_type, tags FROM routes
"""


async def routes(pool: Pool, tenant: TenantId) -> list[Route]:
    """The routes on which there are jobs to be claimed."""
    async with pool.connection() as connection:
        return [Route(job_type, tags) for job_type, tags in await connection.fetch(ROUTES, tenant)]


QUEUED = """
    SELECT instance, job_type, retries, worker, lock_expires_at, held FROM step_job WHERE tenant = $1 AND id = $2
"""


async def queued(pool: Pool, tenant: TenantId, job: str) -> QueuedJob | None:
    """An unfinished job; None when it is finished or never was."""
    async with pool.connection() as connection:
        row = await connection.fetchrow(QUEUED, tenant, job)
    if row is None:
        return None
    instance, job_type, retries, worker, lock_expires_at, held = row
    return QueuedJob(
        instance=EntityId(str(instance)),
        job_type=job_type,
        retries=retries,
        worker=worker,
        lock_expires_at=lock_expires_at,
        held=held,
    )


INSTANCE_OF = "SELECT instance FROM step_execution WHERE tenant = $1 AND work = $2 LIMIT 1"


async def instance_of(pool: Pool, tenant: TenantId, work: str) -> EntityId | None:
    """Whose job or user task this is or was; None when there never was one of this id."""
    async with pool.connection() as connection:
        found = await connection.fetchval(INSTANCE_OF, tenant, work)
    return None if found is None else EntityId(str(found))


REQUEUE = """
    -- Only if it still is what was judged: whoever else changes the job changes one of these columns, or removes it.
    WITH requeued AS (
        UPDATE step_job
           SET retries = retries - 1, worker = '', locked_at = NULL, lock_expires_at = NULL
         WHERE tenant = $1 AND id = $2 AND retries = $3 AND worker = $4 AND NOT held
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


async def requeue(pool: Pool, tenant: TenantId, job: str, judged: QueuedJob, line: AuditLine) -> bool:
    """Use up a retry and let anybody claim the job again; whether it still was as ``judged``."""
    async with pool.connection() as connection:
        count = await connection.fetchval(
            REQUEUE, tenant, job, judged.retries, judged.worker, line.at, line.transaction, line.events
        )
    return bool(count)


RENEW = """
    UPDATE step_job SET lock_expires_at = $4
     WHERE tenant = $1 AND id = $2 AND worker = $3 AND lock_expires_at IS NOT NULL
 RETURNING lock_expires_at
"""


async def renew(pool: Pool, tenant: TenantId, job: str, *, worker: str, until: int) -> bool:
    """Move the end of a lease; whether the worker holds the job."""
    async with pool.connection() as connection:
        return await connection.fetchval(RENEW, tenant, job, worker, until) is not None


RELEASE = """
    UPDATE step_job SET worker = '', locked_at = NULL, lock_expires_at = NULL
     WHERE tenant = $1 AND id = ANY ($2::uuid[]) AND worker = $3 AND lock_expires_at IS NOT NULL
 RETURNING job_type
"""


async def release(pool: Pool, tenant: TenantId, jobs: Sequence[str], *, worker: str) -> list[Topic]:
    """Give jobs back that the worker holds; what may be claimed again."""
    async with pool.connection() as connection:
        rows = await connection.fetch(RELEASE, tenant, list(jobs), worker)
    return [(tenant, row["job_type"]) for row in rows]


SWEEP = """
    -- Uses step_job_leased. The event is that of services.steps.trail.
    WITH expired AS (
        UPDATE step_job SET worker = '', locked_at = NULL, lock_expires_at = NULL
         WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM step_job
                 WHERE lock_expires_at < $1
                 ORDER BY lock_expires_at
                 LIMIT $2 FOR UPDATE SKIP LOCKED))
     RETURNING tenant, id, instance, job_type
    ),
    audited AS (
        INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
        SELECT tenant, instance, $1, $3, 1, $4 FROM expired
    )
    SELECT tenant, job_type FROM expired
"""


async def sweep(pool: Pool, *, limit: int, line: AuditLine) -> list[Topic]:
    """Take back jobs whose lease ended before ``line.at``, without using a retry; what may be claimed again."""
    async with pool.connection() as connection:
        rows = await connection.fetch(SWEEP, line.at, limit, line.transaction, line.events)
    return [(TenantId(tenant), job_type) for tenant, job_type in rows]


def _claimed(row: asyncpg.Record) -> Claimed:
    id_, instance, execution, definition_id, step_id, job_type, retries, created_at, input_ = row
    return Claimed(
        id=str(id_),
        instance=EntityId(str(instance)),
        execution=str(execution),
        definition_id=definition_id,
        step_id=step_id,
        job_type=job_type,
        retries=retries,
        created_at=created_at,
        input=input_,
    )

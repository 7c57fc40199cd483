"""Asynchronous searches: rows that outlive the process which works on them.

*States.* A job is RUNNING from its submission on, until exactly one conditional update ends it: to SUCCESSFUL or FAILED
by the process that has the lease, to CANCELLED by any process. The first update wins, because each demands RUNNING.

*Leases.* A process claims jobs whose lease has run out, and renews its leases while it works. If it dies, the lease
ends and another process begins anew, which leads to the same result: the job names the instant it looks at. What a
process finds becomes visible in the transaction that ends the job, so an interrupted attempt leaves nothing behind.

*Results.* A hit names an entity and the version that matched. A page reads these very versions, so it never changes,
whatever is written, and in whatever order commits become visible.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final, cast
from uuid import UUID

import asyncpg
from msgspec import Struct

from statewright.entity import ModelKey
from statewright.ids import EntityId, ModelId, TenantId
from statewright.instants import to_us
from statewright.operations.listings import JobId, JobStatus, SearchJob
from statewright.storage.deletion import require_kept
from statewright.storage.entities import wait_until_visible
from statewright.storage.pool import Pool
from statewright.storage.search.matching import Candidates, iterate_matches
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery, Statement, select_versions
from statewright.storage.versions import VIEW_COLUMNS, EntityList, Entry, VersionRef

HITS_PER_PART: Final = 1000


class NewSearchJob(Struct, frozen=True, kw_only=True):
    """A search to be carried out. ``condition`` and ``sort`` are JSON text; no ``instant`` = now, nor a later one."""

    tenant: TenantId
    id: JobId
    model: ModelId
    key: ModelKey
    condition: str
    sort: str
    instant: int | None = None


JOB_COLUMNS: Final = """search_job.tenant, search_job.id, search_job.model, search_job.name, search_job.version,
                 search_job.condition, search_job.sort, search_job.instant, search_job.status, search_job.created_at,
                 search_job.finished_at, search_job.hits,
                 search_job.failure, search_job.attempts"""


class SearchJobs:
    """The jobs of all tenants. ``pool`` is for short statements, ``workers`` has a connection per job that is worked
    on; results are kept for ``retention`` after a job's end.
    """

    def __init__(self, pool: Pool, workers: Pool, *, retention: timedelta) -> None:
        self._pool = pool
        self._workers = workers
        self.retention_us = to_us(retention)

    SUBMIT = """
        INSERT INTO search_job (tenant, id, model, name, version, condition, sort, instant, status, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, least($8::bigint, now_us()), 'RUNNING', now_us())
    """

    async def submit(self, job: NewSearchJob) -> None:
        """Have a search carried out by whichever process comes first."""
        key, search = job.key, (job.condition, job.sort, job.instant)
        await self._pool.execute(self.SUBMIT, job.tenant, job.id, job.model, key.name, key.version, *search)

    # Results are gone when their time is over, whether or not a sweep has removed them.
    FIND = f"""
        SELECT {JOB_COLUMNS} FROM search_job
         WHERE tenant = $1 AND id = $2 AND (finished_at IS NULL OR finished_at > now_us() - $3::bigint)
    """  # noqa: S608 - the column list is a constant

    async def find(self, tenant: TenantId, job: JobId) -> SearchJob | None:
        """The job as it is now; None when the tenant has none of that id (any more)."""
        row = await self._pool.fetchrow(self.FIND, tenant, job, self.retention_us)
        return None if row is None else _to_job(row)

    CANCEL = """
        UPDATE search_job SET status = 'CANCELLED', finished_at = now_us()
         WHERE tenant = $1 AND id = $2 AND status = 'RUNNING'
    """

    async def cancel(self, tenant: TenantId, job: JobId) -> bool:
        """End a running job; False when there is none, or none that runs."""
        return await self._pool.execute(self.CANCEL, tenant, job) == "UPDATE 1"

    PARTS = """
        SELECT entities, versions FROM search_hits
         WHERE tenant = $1 AND job = $2 AND part BETWEEN $3 AND $4
         ORDER BY part
    """

    async def list_page(self, tenant: TenantId, job: JobId, *, offset: int, size: int) -> EntityList:
        """The matches from ``offset`` on, at most ``size`` of them, in order."""
        if size <= 0:
            return EntityList(self._pool, tenant, [])
        first = offset // HITS_PER_PART
        parts = await self._pool.fetch(self.PARTS, tenant, job, first, (offset + size - 1) // HITS_PER_PART)
        start = offset - first * HITS_PER_PART
        entities = [entity for part in parts for entity in part["entities"]][start : start + size]
        moments = [moment for part in parts for moment in part["versions"]][start : start + size]
        hits: list[Entry] = [VersionRef(EntityId(str(id_)), at) for id_, at in zip(entities, moments, strict=True)]
        return EntityList(self._pool, tenant, hits, skips_missing=True)

    # SKIP LOCKED: processes that claim at the same time share the jobs instead of queueing. Uses search_job_running.
    CLAIM = f"""
        WITH due AS MATERIALIZED (
            SELECT tenant, id FROM search_job
             WHERE status = 'RUNNING' AND lease_until < now_us() AND tenant <> ALL ($4::text[])
             ORDER BY created_at LIMIT $3 FOR UPDATE SKIP LOCKED
        )
        UPDATE search_job SET worker = $1, lease_until = now_us() + $2::bigint, attempts = attempts + 1
          FROM due WHERE search_job.tenant = due.tenant AND search_job.id = due.id
     RETURNING {JOB_COLUMNS}
    """  # noqa: S608

    async def claim(
        self, worker: str, *, lease: timedelta, most: int, served: Collection[TenantId] = ()
    ) -> list[SearchJob]:
        """Up to ``most`` jobs that no process works on, now ``worker``'s: the oldest, those of the tenants that are
        ``served`` already after those of others, so that nobody waits behind all that another has submitted.
        """
        rows: list[asyncpg.Record] = []
        for others in (list(served), []) if served else ([],):
            if len(rows) < most:
                rows += await self._pool.fetch(self.CLAIM, worker, to_us(lease), most - len(rows), others)
        return [_to_job(row) for row in rows]

    RENEW = """
        UPDATE search_job SET lease_until = now_us() + $4::bigint
         WHERE tenant = $1 AND id = $2 AND worker = $3 AND status = 'RUNNING'
    """

    async def renew(self, job: SearchJob, worker: str, *, lease: timedelta) -> bool:
        """Keep the job for longer; False when it was cancelled or is another process's by now."""
        return await self._pool.execute(self.RENEW, job.tenant, job.id, worker, to_us(lease)) == "UPDATE 1"

    RELEASE = """
        UPDATE search_job SET worker = NULL, lease_until = 0, attempts = attempts - 1
         WHERE tenant = $1 AND id = $2 AND worker = $3 AND status = 'RUNNING'
    """

    async def release(self, job: SearchJob, worker: str) -> None:
        """Give an unfinished job back, so that another process need not wait for the lease to end."""
        await self._pool.execute(self.RELEASE, job.tenant, job.id, worker)

    FAIL = """
        UPDATE search_job SET status = 'FAILED', finished_at = now_us(), failure = $4
         WHERE tenant = $1 AND id = $2 AND worker = $3 AND status = 'RUNNING'
    """

    async def fail(self, job: SearchJob, worker: str, reason: str) -> bool:
        """End a job without a result; False when it was ended before."""
        return await self._pool.execute(self.FAIL, job.tenant, job.id, worker, reason) == "UPDATE 1"

    SUCCEED = """
        UPDATE search_job SET status = 'SUCCESSFUL', finished_at = now_us(), hits = $4
         WHERE tenant = $1 AND id = $2 AND worker = $3 AND status = 'RUNNING'
    """

    async def execute(self, job: SearchJob, worker: str, query: EntityQuery) -> int | None:
        """Search, keep what is found and end the job; the number of matches, None when the job was ended before."""
        await wait_until_visible(self._pool, job.instant)
        async with self._workers.connection(limit=None) as connection:
            transaction = connection.transaction()
            await transaction.start()
            is_kept = False
            try:
                hits = await _store_matches(connection, job, query)
                await require_kept(self._pool, job.tenant, job.model, job.instant)
                tag = await connection.execute(self.SUCCEED, job.tenant, job.id, worker, hits)
                is_kept = tag == "UPDATE 1"
            finally:
                await (transaction.commit() if is_kept else transaction.rollback())
        return hits if is_kept else None

    EXPIRE = """
        DELETE FROM search_job
         WHERE (tenant, id) IN (SELECT tenant, id FROM search_job
                                 WHERE status <> 'RUNNING' AND finished_at <= now_us() - $1::bigint
                                 ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    """

    async def expire(self, *, most: int = 100) -> int:
        """Remove up to ``most`` jobs whose time is over, with their results; how many there were."""
        tag = await self._pool.execute(self.EXPIRE, self.retention_us, most)
        return int(tag.removeprefix("DELETE "))


async def _store_matches(connection: asyncpg.Connection, job: SearchJob, query: EntityQuery) -> int:
    condition = query.search.compile_sql(first=FIRST_ARGUMENT)
    candidates = select_versions(query, VIEW_COLUMNS, condition=condition)
    ordering = query.search.compile_order_by(first=len(candidates.args) + 1)
    args = (*candidates.args, *ordering.args)
    if condition.is_exact:
        return await _store_selected(connection, job, candidates, Statement(ordering.text, args))
    text = f"SELECT {VIEW_COLUMNS} FROM ({candidates.text}) AS version ORDER BY {ordering.text}"  # noqa: S608
    return await _store_judged(connection, job, query, Statement(text, args))


async def _store_selected(
    connection: asyncpg.Connection, job: SearchJob, candidates: Statement, ordered: Statement
) -> int:
    """Without a row leaving the database."""
    tenant, id_ = len(ordered.args) + 1, len(ordered.args) + 2
    text = f"""
        WITH hit AS (
            SELECT id, valid_from, row_number() OVER (ORDER BY {ordered.text}) - 1 AS n
              FROM ({candidates.text}) AS version
        ),
        kept AS (
            INSERT INTO search_hits (tenant, job, part, entities, versions)
            SELECT ${tenant}, ${id_}, n / {HITS_PER_PART}, array_agg(id ORDER BY n), array_agg(valid_from ORDER BY n)
              FROM hit
             GROUP BY n / {HITS_PER_PART}
         RETURNING cardinality(entities) AS size
        )
        SELECT coalesce(sum(size), 0) FROM kept
    """  # noqa: S608 - names are our own, values are arguments
    return int(await connection.fetchval(text, *ordered.args, job.tenant, job.id))


STORE_PART: Final = "INSERT INTO search_hits (tenant, job, part, entities, versions) VALUES ($1, $2, $3, $4, $5)"


async def _store_judged(
    connection: asyncpg.Connection, job: SearchJob, query: EntityQuery, candidates: Statement
) -> int:
    wanted = Candidates(tenant=query.tenant, statement=candidates, columns=VIEW_COLUMNS)
    pending: list[Hit] = []
    parts = 0
    async for row, _ in iterate_matches(connection, wanted, query):
        pending.append((row["id"], row["valid_from"]))
        if len(pending) == HITS_PER_PART:
            await _store_part(connection, job, parts, pending)
            pending, parts = [], parts + 1
    if pending:
        await _store_part(connection, job, parts, pending)
    return parts * HITS_PER_PART + len(pending)


Hit = tuple[UUID, int]
"""An entity, and the instant of its version that matched."""


async def _store_part(connection: asyncpg.Connection, job: SearchJob, part: int, hits: Sequence[Hit]) -> None:
    ids, moments = [id_ for id_, _ in hits], [at for _, at in hits]
    await connection.execute(STORE_PART, job.tenant, job.id, part, ids, moments)


def _to_job(row: asyncpg.Record) -> SearchJob:
    return SearchJob(
        tenant=row["tenant"],
        id=JobId(str(row["id"])),
        model=ModelId(str(row["model"])),
        key=ModelKey(row["name"], row["version"]),
        condition=row["condition"],
        sort=row["sort"],
        instant=row["instant"],
        status=cast("JobStatus", row["status"]),  # the table has a CHECK
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        hits=row["hits"],
        failure=row["failure"],
        attempts=row["attempts"],
    )

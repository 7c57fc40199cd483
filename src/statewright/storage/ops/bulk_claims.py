"""Bulk jobs as the nodes know them that work on them (docs/reference/operations.md#bulk-jobs).

*Leases.* A node claims a job under a name that no other attempt has, and renews its lease. Everything it writes demands
that name: the commit of an item locks the job's row, and is refused once another attempt has it. So an item is never
done twice, whatever a node does that was taken for dead.
"""

from datetime import timedelta
from decimal import Decimal
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from statewright.entity import Principal
from statewright.ids import TenantId
from statewright.instants import to_us
from statewright.jsonval.codec import decode, encode
from statewright.operations.bulk_jobs import BulkPlan, BulkStatus
from statewright.storage.pool import Pool

MAX_RUNNING: Final = timedelta(hours=24)
"""How long the roles of whoever started or resumed a job count."""


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
    principal: Principal
    """Whoever started or resumed it last."""


def encode_plan(plan: BulkPlan) -> str:
    """As it is stored; numbers keep their digits."""
    return encode(msgspec.to_builtins(plan, builtin_types=(Decimal,))).decode()


def decode_plan(text: str) -> BulkPlan:
    """A plan that is stored."""
    return msgspec.convert(decode(text), BulkPlan)


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
 RETURNING tenant, status, rate, concurrency, runner_id, runner_kind, runner_roles
"""

RELEASE: Final = """
    UPDATE bulk_job SET worker = NULL, lease_until = 0, running = 0 WHERE tenant = $1 AND id = $2 AND worker = $3
"""

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


class BulkJobs:
    """The jobs of all tenants, for a node that works on them. ``scans`` has the connections for long searches."""

    def __init__(self, pool: Pool, scans: Pool) -> None:
        self._pool = pool
        self.scans = scans

    async def claim(self, worker: str, *, lease: timedelta, most: int) -> list[BulkClaim]:
        """Up to ``most`` jobs that no node works on, now this one's."""
        rows = await self._pool.fetch(CLAIM, worker, to_us(lease), most)
        return [_to_claimed(row) for row in rows]

    async def renew(self, job: BulkClaim, *, lease: timedelta, running: int = 0, ran_us: int = 0) -> Beat | None:
        """Keep the job for longer, and say how far it is; None when it is another node's."""
        limit = to_us(MAX_RUNNING)
        row = await self._pool.fetchrow(RENEW, *name_claim(job), to_us(lease), running, ran_us, limit)
        if row is None:
            return None
        return Beat(status=row["status"], rate=row["rate"], concurrency=row["concurrency"], principal=_read_runner(row))

    async def release(self, job: BulkClaim) -> None:
        """Nothing of the job is under way any more."""
        await self._pool.execute(RELEASE, *name_claim(job))

    async def end_freeze(self, job: BulkClaim, status: BulkStatus) -> None:
        """The set is frozen, and judged if that was wanted."""
        await self._pool.execute(END_FREEZE, *name_claim(job), status)

    async def give_up(self, job: BulkClaim, reason: str) -> None:
        """The set cannot be frozen."""
        await self._pool.execute(GIVE_UP, *name_claim(job), reason)

    async def complete(self, job: BulkClaim) -> None:
        """All items have a result."""
        await self._pool.execute(COMPLETE, *name_claim(job))

    async def count(self) -> dict[str, int]:
        """Jobs of all tenants by their status."""
        return {row["status"]: row["jobs"] for row in await self._pool.fetch(COUNT_JOBS)}

    async def remove_old(self, *, older_than: timedelta) -> int:
        """Remove a portion of what ended so long ago; how many rows."""
        removed: int = await self._pool.fetchval(REMOVE, to_us(older_than), MAX_BATCH)
        return removed


def name_claim(job: BulkClaim) -> tuple[str, str, str]:
    """What everything is written under that a node does for a job."""
    return job.tenant, job.id, job.worker


def _read_runner(row: asyncpg.Record) -> Principal:
    return Principal(
        id=row["runner_id"],
        name=row["runner_id"],
        kind=row["runner_kind"],
        tenant=row["tenant"],
        roles=tuple(row["runner_roles"]),
    )


def _to_claimed(row: asyncpg.Record) -> BulkClaim:
    return BulkClaim(
        tenant=row["tenant"],
        id=str(row["id"]),
        status=row["status"],
        plan=decode_plan(row["plan"]),
        principal=_read_runner(row),
        rate=row["rate"],
        concurrency=row["concurrency"],
        total=row["total"],
        instant=row["instant"],
        worker=row["worker"],
        reason=row["reason"],
    )

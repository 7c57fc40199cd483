"""What waits to be done, and who could do it: jobs of all process languages together, and callouts. Of a queue that
nobody serves there is an incident, raised once, and closed when somebody does.

The nodes of the installation as operators see them, those whose lease has not ended, and the calculation members of all
nodes; and what nodes tell each other of workers that poll, and of callouts that wait or are under way.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import asyncpg
import msgspec
from msgspec import Meta, Struct

from statewright.entity import Actor, PrincipalKind
from statewright.ids import NodeId, TenantId
from statewright.operations.incidents import IncidentRow, Resolution
from statewright.operations.queues import ServiceNode
from statewright.storage.ops.incidents import write_incidents
from statewright.storage.ops.records import read_record
from statewright.storage.ops.service import build_removal
from statewright.storage.pool import Pool

MAX_JOBS: Final = 100_000
"""Unfinished jobs of a tenant that are counted; with more, every count is a lower bound."""

SEEN_WITHIN_US: Final = 60_000_000
"""A worker that has polled within this time is there."""


class JobTypeQueue(Struct, frozen=True, kw_only=True):
    """The unfinished jobs of a type. ``depth`` of them can be claimed, ``in_flight`` are leased, ``delayed`` rest after
    a failure, ``held`` wait for their failed instance, or have a report that is kept. ``oldest_age_us`` is the age of
    the oldest that can be claimed. ``routes`` are the tags that definitions name for them, None where the job type is
    the tag.
    """

    tenant: TenantId
    job_type: str
    depth: int
    in_flight: int
    delayed: int
    held: int
    oldest_age_us: int | None
    routes: tuple[str | None, ...]


class LeaseHolder(Struct, frozen=True, kw_only=True):
    """A worker with jobs of some types, and when it took the last one, in epoch microseconds."""

    tenant: TenantId
    worker: str
    job_types: tuple[str, ...]
    leases: int
    last_lease_at: int


class Poller(Struct, frozen=True, kw_only=True):
    """A worker that has polled jobs of some types at a node, the last time at ``seen_at``, in epoch microseconds."""

    tenant: TenantId
    worker: str
    node: str
    job_types: tuple[str, ...]
    seen_at: int


class CalloutQueue(Struct, frozen=True, kw_only=True):
    """The callouts of all nodes that need the same tags, sorted and joined by commas."""

    tenant: TenantId
    tags: str
    depth: int
    in_flight: int
    oldest_age_us: int | None


class WorkCensus(Struct, frozen=True, kw_only=True):
    """What waits, and who is there. ``handed_out`` in the last minute, by tenant, kind and name of the queue.
    ``crowded``: tenants of which not all jobs were counted.
    """

    jobs: tuple[JobTypeQueue, ...]
    callouts: tuple[CalloutQueue, ...]
    holders: tuple[LeaseHolder, ...]
    pollers: tuple[Poller, ...]
    handed_out: Mapping[tuple[TenantId, str, str], int]
    crowded: frozenset[TenantId]


_TENANTS: Final = """
    -- Jumps from tenant to tenant in the primary key.
    tenants AS (
        (SELECT tenant FROM process_job ORDER BY tenant LIMIT 1)
         UNION ALL
        SELECT (SELECT tenant FROM process_job WHERE tenant > tenants.tenant ORDER BY tenant LIMIT 1)
          FROM tenants
         WHERE tenants.tenant IS NOT NULL
    )
"""

_COUNTED: Final = (
    "SELECT tenant, job_type, tags, locked_at, lock_expires_at, created_at, held, kept_under FROM process_job"
)

_COUNTED_OF_ALL: Final = f"""
                      FROM tenants
                     CROSS JOIN LATERAL ({_COUNTED} WHERE process_job.tenant = tenants.tenant LIMIT $1) AS of_tenant
"""
"""So many of each: a tenant with more of them hides nothing of the others."""

_COUNTED_OF_TENANT: Final = f"FROM ({_COUNTED} WHERE tenant = $2 LIMIT $1) AS of_tenant"


def _build_queues(condition: str) -> str:
    tenants, counted = (
        (f"WITH RECURSIVE {_TENANTS}", _COUNTED_OF_ALL) if condition == "true" else ("", _COUNTED_OF_TENANT)
    )
    return f"""
    {tenants}
    -- Grouped by hash, with the tags: one sort of so many jobs would take as long as all the rest.
    SELECT tenant, job_type, sum(jobs)::bigint AS jobs, sum(depth)::bigint AS depth,
           sum(in_flight)::bigint AS in_flight, sum(delayed)::bigint AS delayed, sum(held)::bigint AS held,
           now_us() - min(oldest) AS oldest_age_us, array_agg(tags) AS routes
      FROM (SELECT tenant, job_type, tags, count(*) AS jobs,
                   count(*) FILTER (WHERE lock_expires_at IS NULL AND NOT held) AS depth,
                   count(*) FILTER (WHERE locked_at IS NOT NULL AND NOT held) AS in_flight,
                   count(*) FILTER (WHERE lock_expires_at IS NOT NULL AND locked_at IS NULL AND NOT held) AS delayed,
                   count(*) FILTER (WHERE held) AS held,
                   min(created_at) FILTER (WHERE lock_expires_at IS NULL AND NOT held) AS oldest
              FROM (SELECT of_tenant.tenant, job_type, tags, locked_at, lock_expires_at, created_at,
                             held OR kept_under IS NOT NULL AS held
                      {counted}) AS counted
             GROUP BY tenant, job_type, tags) AS route
     GROUP BY tenant, job_type
     ORDER BY tenant, job_type
    """  # noqa: S608 - the conditions below


def _build_holders(condition: str) -> str:
    return f"""
    -- Leased jobs are few, and have an index of their own.
    SELECT tenant, worker, array_agg(DISTINCT job_type) AS job_types, count(*) AS leases,
           max(locked_at) AS last_lease_at
      FROM (SELECT tenant, worker, job_type, locked_at
              FROM process_job
             WHERE {condition} AND lock_expires_at IS NOT NULL AND locked_at IS NOT NULL LIMIT $1) AS leased
     GROUP BY tenant, worker
     ORDER BY tenant, worker
    """  # noqa: S608 - the conditions below


def _build_pollers(condition: str) -> str:
    return f"""
    SELECT tenant, worker, node, job_types, seen_at
      FROM worker_seen
     WHERE {condition} AND seen_at > now_us() - {SEEN_WITHIN_US}
     ORDER BY tenant, worker, seen_at
     LIMIT $1
    """  # noqa: S608 - the conditions below


def _build_callouts(condition: str) -> str:
    return f"""
    SELECT queue.tenant, queue.tags, sum(queue.depth)::bigint AS depth, sum(queue.in_flight)::bigint AS in_flight,
           now_us() - min(queue.oldest_at) AS oldest_age_us
      FROM callout_queue AS queue JOIN cluster_node AS node ON node.id = queue.node AND node.lease_until > now_us()
     WHERE {condition.replace("tenant", "queue.tenant")}
     GROUP BY queue.tenant, queue.tags
     ORDER BY queue.tenant, queue.tags
     LIMIT $1
    """  # noqa: S608 - the conditions below


def _build_rates(condition: str) -> str:
    return f"""
    SELECT rate.tenant, rate.kind, rate.name, sum(rate.handed_out)::bigint AS handed_out
      FROM queue_rate AS rate JOIN cluster_node AS node ON node.id = rate.node AND node.lease_until > now_us()
     WHERE {condition.replace("tenant", "rate.tenant")}
     GROUP BY rate.tenant, rate.kind, rate.name
     LIMIT $1
    """  # noqa: S608 - the conditions below


_BUILDERS: Final = (_build_queues, _build_holders, _build_pollers, _build_callouts, _build_rates)
OF_ALL: Final = tuple(build("true") for build in _BUILDERS)
OF_TENANT: Final = tuple(build("tenant = $2") for build in _BUILDERS)


async def count_work(pool: Pool, tenant: TenantId | None = None, *, max_jobs: int = MAX_JOBS) -> WorkCensus:
    """What waits for a tenant, or for all of them, up to ``max_jobs`` jobs of each."""
    statements, arguments = (OF_ALL, ()) if tenant is None else (OF_TENANT, (tenant,))
    jobs, holders, pollers, callouts, rates = [
        await pool.fetch(statement, max_jobs + 1, *arguments) for statement in statements
    ]
    return WorkCensus(
        jobs=tuple(JobTypeQueue(**_to_fields(row, without="jobs")) for row in jobs),
        holders=tuple(LeaseHolder(**_to_fields(row)) for row in holders),
        pollers=tuple(Poller(**_to_fields(row)) for row in pollers),
        callouts=tuple(CalloutQueue(**_to_fields(row)) for row in callouts),
        handed_out={(row["tenant"], row["kind"], row["name"]): row["handed_out"] for row in rates},
        crowded=_find_crowded(jobs, max_jobs),
    )


def _find_crowded(jobs: Sequence[asyncpg.Record], max_jobs: int) -> frozenset[TenantId]:
    counts: Counter[TenantId] = Counter()
    for row in jobs:
        counts[row["tenant"]] += row["jobs"]
    return frozenset(tenant for tenant, count in counts.items() if count > max_jobs)


def _to_fields(row: asyncpg.Record, *, without: str = "") -> dict[str, Any]:
    """Arrays as tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items() if name != without}


MAX_ALERTS: Final = 1_000
"""That are looked at in one round."""

_encode = msgspec.json.Encoder().encode


class OpenAlert(Struct, frozen=True, kw_only=True):
    """An open incident of a queue; ``subject_id`` is its kind and name."""

    tenant: TenantId
    id: str
    subject_id: str


class ClosedAlert(Struct, frozen=True, kw_only=True):
    """An incident that is over, and why."""

    tenant: TenantId
    id: str
    how: Resolution


OPEN: Final = """
    -- Uses incident_alert.
    SELECT tenant, id::text AS id, subject_id FROM incident
     WHERE status = 'OPEN' AND kind = 'NO_WORKER'
     ORDER BY tenant, subject_id
     LIMIT $1
"""

CLOSE: Final = """
    UPDATE incident
       SET status = 'RESOLVED', resolved_at = now_us(), resolved_by_id = 'system', resolved_by_kind = 'system',
           resolution = over.how
      FROM json_to_recordset($1::json) AS over (tenant text, id uuid, how text)
     WHERE incident.tenant = over.tenant AND incident.id = over.id AND incident.status = 'OPEN'
"""


async def raise_alert(pool: Pool, row: IncidentRow) -> bool:
    """Store the incident of a queue, unless there is an open one; whether it was."""
    return await write_incidents(pool, [row], once=True) == 1


async def list_open_alerts(pool: Pool) -> list[OpenAlert]:
    """The open incidents of queues, of all tenants."""
    return [OpenAlert(**dict(row)) for row in await pool.fetch(OPEN, MAX_ALERTS)]


async def close_alerts(pool: Pool, closed: Sequence[ClosedAlert]) -> None:
    """Close incidents of queues."""
    await pool.execute(CLOSE, _encode(closed).decode())


class NodeKey(Struct, frozen=True, array_like=True):
    """The place of a node in its list."""

    id: Annotated[str, Meta(max_length=64)]


NODES: Final = """
    SELECT id, name, program AS version, draining, started_at, lease_until,
           (SELECT count(*) FROM cluster_member AS member WHERE member.node = node.id AND member.tenant = $1) AS members
      FROM cluster_node AS node
     WHERE lease_until > now_us() AND id > $2
     ORDER BY id
     LIMIT $3
"""

COUNT_NODES: Final = """
    SELECT count(*) FROM (SELECT FROM cluster_node WHERE lease_until > now_us() LIMIT $1) AS counted
"""


async def list_nodes(pool: Pool, tenant: TenantId, *, limit: int, after: NodeKey | None) -> list[ServiceNode]:
    """Up to ``limit`` nodes that are alive, by id; those behind ``after``."""
    rows = await pool.fetch(NODES, tenant, after.id if after else "", limit)
    return [read_record(ServiceNode, row) for row in rows]


async def count_nodes(pool: Pool, *, limit: int) -> int:
    """How many nodes are alive, counted up to ``limit``."""
    count: int = await pool.fetchval(COUNT_NODES, limit)
    return count


_decode_tags = msgspec.json.Decoder(tuple[str, ...]).decode


class ObservedMember(Struct, frozen=True, kw_only=True):
    """A member as its node has told of it last, a few seconds ago. Instants in epoch microseconds."""

    node: NodeId
    id: str
    tags: tuple[str, ...]
    software: str
    principal: Actor | None
    connected_at: int
    last_seen_at: int
    in_flight: int
    succeeded: int
    failed: int
    timed_out: int
    is_draining: bool


MEMBERS: Final = """
    SELECT member.node, member.id, member.tags, member.software, member.principal_id, member.principal_kind,
           member.connected_at, member.last_seen_at, member.in_flight, member.succeeded, member.failed,
           member.timed_out,
           member.draining OR node.draining AS is_draining
      FROM cluster_node AS node
      JOIN cluster_member AS member ON member.node = node.id
     WHERE node.lease_until > now_us() AND node.id <> $2 AND member.tenant = $1
     ORDER BY member.id
"""


async def list_members_elsewhere(pool: Pool, tenant: TenantId, node: NodeId) -> Sequence[ObservedMember]:
    """The members of a tenant that are connected to other nodes than this one."""
    rows = await pool.fetch(MEMBERS, tenant, node)
    return [_read_member(**row) for row in rows]


def _read_member(
    *, tags: str, principal_id: str | None, principal_kind: PrincipalKind | None, **rest: Any
) -> ObservedMember:  # a row
    principal = None if principal_id is None or principal_kind is None else Actor(principal_id, principal_kind)
    return ObservedMember(tags=_decode_tags(tags), principal=principal, **rest)


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A worker that polls. ``seen_at`` in epoch microseconds."""

    tenant: TenantId
    worker: str
    job_types: tuple[str, ...]
    seen_at: int


class CalloutQueueRow(Struct, frozen=True, kw_only=True):
    """Callouts of one node that need the same tags: ``depth`` wait, the oldest since ``oldest_at`` (epoch
    microseconds). ``tags`` are sorted and joined by commas.
    """

    tenant: TenantId
    tags: str
    depth: int
    in_flight: int
    oldest_at: int | None


SEE: Final = """
    INSERT INTO worker_seen (tenant, worker, node, job_types, seen_at)
    SELECT tenant, worker, $1, ARRAY(SELECT json_array_elements_text(job_types)), seen_at
      FROM json_to_recordset($2::json) AS seen (tenant text, worker text, job_types json, seen_at bigint)
        ON CONFLICT (tenant, worker, node) DO UPDATE SET job_types = excluded.job_types, seen_at = excluded.seen_at
"""


FORGET: Final = build_removal("worker_seen", "seen_at < now_us() - $1::bigint")


WITHDRAW: Final = """
    DELETE FROM callout_queue
     WHERE node = $1 AND (tenant, tags) NOT IN (SELECT tenant, tags FROM json_to_recordset($2::json)
                                                    AS told (tenant text, tags text))
"""


TELL: Final = """
    INSERT INTO callout_queue (node, tenant, tags, depth, in_flight, oldest_at)
    SELECT $1, tenant, tags, depth, in_flight, oldest_at
      FROM json_to_recordset($2::json)
        AS told (tenant text, tags text, depth integer, in_flight integer, oldest_at bigint)
     WHERE EXISTS (SELECT FROM cluster_node WHERE id = $1)
        ON CONFLICT (node, tenant, tags) DO UPDATE
       SET depth = excluded.depth, in_flight = excluded.in_flight, oldest_at = excluded.oldest_at
"""


async def publish_workers(pool: Pool, node: NodeId, workers: Sequence[WorkerRow]) -> None:
    """Tell which workers poll at a node."""
    await pool.execute(SEE, node, _encode(workers).decode())


async def publish_callouts(pool: Pool, node: NodeId, queues: Sequence[CalloutQueueRow]) -> None:
    """Tell what waits and is under way at a node, in place of what it told before."""
    text = _encode(queues).decode()
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(WITHDRAW, node, text)
        await connection.execute(TELL, node, text)


class QueueRateRow(Struct, frozen=True, kw_only=True):
    """How much a node has handed out of a queue in the last minute."""

    tenant: TenantId
    kind: str
    name: str
    handed_out: int


WITHDRAW_RATES: Final = """
    DELETE FROM queue_rate
     WHERE node = $1 AND (tenant, kind, name) NOT IN (SELECT tenant, kind, name FROM json_to_recordset($2::json)
                                                          AS told (tenant text, kind text, name text))
"""


TELL_RATES: Final = """
    INSERT INTO queue_rate (node, tenant, kind, name, handed_out)
    SELECT $1, tenant, kind, name, handed_out
      FROM json_to_recordset($2::json) AS told (tenant text, kind text, name text, handed_out integer)
     WHERE EXISTS (SELECT FROM cluster_node WHERE id = $1)
        ON CONFLICT (node, tenant, kind, name) DO UPDATE SET handed_out = excluded.handed_out
     WHERE queue_rate.handed_out <> excluded.handed_out
"""


async def publish_rates(pool: Pool, node: NodeId, rates: Sequence[QueueRateRow]) -> None:
    """Tell how much a node hands out, in place of what it told before."""
    text = _encode(rates).decode()
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(WITHDRAW_RATES, node, text)
        await connection.execute(TELL_RATES, node, text)


SEEN_TAGS: Final = "SELECT tag FROM tag_seen WHERE tenant = $1"


async def list_seen_tags(pool: Pool, tenant: TenantId) -> frozenset[str]:
    """The tags that calculation members of the tenant ever had, in lower case."""
    rows = await pool.fetch(SEEN_TAGS, tenant)
    return frozenset(row["tag"] for row in rows)

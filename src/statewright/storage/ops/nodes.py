"""The nodes of the installation as operators see them, those whose lease has not ended, and the calculation members of
all nodes; and what nodes tell each other of workers that poll, and of callouts that wait or are under way.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from statewright.ids import NodeId, TenantId
from statewright.operations.work import ServiceNode
from statewright.storage.ops.records import read_record
from statewright.storage.pool import Pool


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

COUNT: Final = """
    SELECT count(*) FROM (SELECT FROM cluster_node WHERE lease_until > now_us() LIMIT $1) AS counted
"""


async def list_nodes(pool: Pool, tenant: TenantId, *, limit: int, after: NodeKey | None) -> list[ServiceNode]:
    """Up to ``limit`` nodes that are alive, by id; those behind ``after``."""
    async with pool.connection() as connection:
        rows = await connection.fetch(NODES, tenant, after.id if after else "", limit)
    return [read_record(ServiceNode, row) for row in rows]


async def count_nodes(pool: Pool, *, limit: int) -> int:
    """How many nodes are alive, counted up to ``limit``."""
    async with pool.connection() as connection:
        count: int = await connection.fetchval(COUNT, limit)
    return count


_decode_tags = msgspec.json.Decoder(tuple[str, ...]).decode


class ObservedMember(Struct, frozen=True, kw_only=True):
    """A member as its node has told of it last, a few seconds ago. Instants in epoch microseconds."""

    node: NodeId
    id: str
    tags: tuple[str, ...]
    software: str
    connected_at: int
    last_seen_at: int
    in_flight: int
    succeeded: int
    failed: int
    timed_out: int
    is_draining: bool


MEMBERS: Final = """
    SELECT member.node, member.id, member.tags, member.software, member.connected_at, member.last_seen_at,
           member.in_flight, member.succeeded, member.failed, member.timed_out,
           member.draining OR node.draining AS is_draining
      FROM cluster_node AS node
      JOIN cluster_member AS member ON member.node = node.id
     WHERE node.lease_until > now_us() AND node.id <> $2 AND member.tenant = $1
     ORDER BY member.id
"""


async def list_members_elsewhere(pool: Pool, tenant: TenantId, node: NodeId) -> Sequence[ObservedMember]:
    """The members of a tenant that are connected to other nodes than this one."""
    async with pool.connection() as connection:
        rows = await connection.fetch(MEMBERS, tenant, node)
    return [ObservedMember(**{**dict(row), "tags": _decode_tags(row["tags"])}) for row in rows]


MAX_BATCH: Final = 1_000
"""Rows that one statement removes."""

_encode = msgspec.json.Encoder().encode


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

FORGET: Final = """
    DELETE FROM worker_seen
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM worker_seen WHERE seen_at < now_us() - $1::bigint LIMIT $2 FOR UPDATE SKIP LOCKED))
"""

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
    async with pool.connection() as connection:
        await connection.execute(SEE, node, _encode(workers).decode())


async def forget_workers(pool: Pool, *, older_than_us: int) -> int:
    """Remove up to ``MAX_BATCH`` workers that have not polled for so long; how many."""
    async with pool.connection() as connection:
        status: str = await connection.execute(FORGET, older_than_us, MAX_BATCH)
    return int(status.rsplit(" ", 1)[1])


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
    async with pool.connection() as connection:
        rows = await connection.fetch(SEEN_TAGS, tenant)
    return frozenset(row["tag"] for row in rows)

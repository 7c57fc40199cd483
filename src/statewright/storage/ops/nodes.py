"""The nodes of the installation as operators see them: those whose lease has not ended."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from statewright.ids import NodeId, TenantId
from statewright.storage.pool import Pool


class NodeKey(Struct, frozen=True, array_like=True):
    """The place of a node in its list."""

    id: Annotated[str, Meta(max_length=64)]


class ObservedNode(Struct, frozen=True, kw_only=True):
    """A node that counts as alive until ``lease_until``, with the calculation members that a tenant has there. Instants
    in epoch microseconds.
    """

    id: NodeId
    name: str
    version: str
    draining: bool
    started_at: int
    lease_until: int
    members: int


NODES: Final = """
    SELECT id, name, program, draining, started_at, lease_until,
           (SELECT count(*) FROM cluster_member AS member WHERE member.node = node.id AND member.tenant = $1) AS members
      FROM cluster_node AS node
     WHERE lease_until > now_us() AND id > $2
     ORDER BY id
     LIMIT $3
"""

COUNT: Final = """
    SELECT count(*) FROM (SELECT FROM cluster_node WHERE lease_until > now_us() LIMIT $1) AS counted
"""


async def list_nodes(pool: Pool, tenant: TenantId, *, limit: int, after: NodeKey | None) -> list[ObservedNode]:
    """Up to ``limit`` nodes that are alive, by id; those behind ``after``."""
    async with pool.connection() as connection:
        rows = await connection.fetch(NODES, tenant, after.id if after else "", limit)
    return [
        ObservedNode(
            id=NodeId(row["id"]),
            name=row["name"],
            version=row["program"],
            draining=row["draining"],
            started_at=row["started_at"],
            lease_until=row["lease_until"],
            members=row["members"],
        )
        for row in rows
    ]


async def count_nodes(pool: Pool, *, limit: int) -> int:
    """How many nodes are alive, counted up to ``limit``."""
    async with pool.connection() as connection:
        count: int = await connection.fetchval(COUNT, limit)
    return count

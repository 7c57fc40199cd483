"""Calculation members of all nodes as operators see them."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from statewright.ids import NodeId, TenantId
from statewright.storage.pool import Pool

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

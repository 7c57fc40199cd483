"""Which nodes there are, and which calculation members are connected to each of them.

A node is a service process. It says that it lives by renewing a lease, and by the same statement learns of the others.
Members change seldom and are many, so they are read again only when the revision of their node has changed. A change
is announced (LISTEN/NOTIFY), and seen at the next beat if the announcement is lost.

All of it goes over one connection that only presence uses: a pool that is exhausted must not make a node look dead.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from statewright.entity import PrincipalKind
from statewright.ids import NodeId, TenantId
from statewright.instants import to_us
from statewright.storage.connections import DatabaseUrl, announce
from statewright.storage.pool import DatabaseConnection, connect

CHANNEL: Final = "statewright_cluster"

_tags = msgspec.json.Decoder(frozenset[str])
_encode = msgspec.json.Encoder().encode


class NodeRow(Struct, frozen=True, kw_only=True):
    """A node as the others see it. ``address`` is ``host:port``; ``draining``: it takes no new callouts."""

    id: NodeId
    name: str
    address: str
    machine: str
    program: str
    draining: bool
    revision: int


class MemberRow(Struct, frozen=True):
    """A calculation member that is connected to a node; tags in lower case."""

    tenant: TenantId
    id: str
    tags: frozenset[str]
    is_draining: bool = False
    """It is sent nothing any more: the others need not know it."""


class MemberCounters(Struct, frozen=True, kw_only=True):
    """What operators want to know of a member. Instants in epoch microseconds."""

    tenant: TenantId
    id: str
    software: str
    principal_id: str | None
    principal_kind: PrincipalKind | None
    connected_at: int
    last_seen_at: int
    in_flight: int
    succeeded: int
    failed: int
    timed_out: int


class NodeTable:
    """The statements of one node on its connection. They raise what asyncpg raises; the caller begins anew then."""

    def __init__(self, connection: DatabaseConnection) -> None:
        self._connection = connection

    # A row that others have removed comes back with revision -1, which tells its owner to publish its members again.
    RENEW_LEASE = """
        INSERT INTO cluster_node AS node (id, name, address, machine, program, draining, revision, lease_until)
        VALUES ($1, $2, $3, $4, $5, $6, -1, now_us() + $7::bigint)
        ON CONFLICT (id) DO UPDATE SET draining = excluded.draining, lease_until = excluded.lease_until
        RETURNING revision
    """

    async def renew_lease(self, node: NodeRow, *, lease: timedelta) -> int:
        """Claim to be alive for the length of ``lease`` from now on; the revision of the members that are stored."""
        lease_us = to_us(lease)
        claim = (node.id, node.name, node.address, node.machine, node.program, node.draining, lease_us)
        revision: int = await self._connection.fetchval(self.RENEW_LEASE, *claim)
        return revision

    PEERS = """
        SELECT id, name, address, machine, program, draining, revision
          FROM cluster_node
         WHERE id <> $1 AND lease_until > now_us()
         ORDER BY id
    """

    async def list_peers(self, node: NodeId) -> list[NodeRow]:
        """The other nodes that are alive."""
        rows = await self._connection.fetch(self.PEERS, node)
        return [NodeRow(**row) for row in rows]

    MEMBERS = """
        SELECT node, tenant, id, tags FROM cluster_member
         WHERE node = ANY ($1::text[]) AND NOT draining
         ORDER BY node, id
    """

    async def list_members(self, nodes: Sequence[NodeId]) -> dict[NodeId, tuple[MemberRow, ...]]:
        """The members of some nodes that can be asked."""
        found: dict[NodeId, list[MemberRow]] = {node: [] for node in nodes}
        for node, tenant, id_, tags in await self._connection.fetch(self.MEMBERS, list(nodes)):
            found[NodeId(node)].append(MemberRow(TenantId(tenant), id_, _tags.decode(tags)))
        return {node: tuple(members) for node, members in found.items()}

    REVISE = "UPDATE cluster_node SET revision = $2 WHERE id = $1 RETURNING true"

    LEAVE = """
        DELETE FROM cluster_member
         WHERE node = $1 AND (tenant, id) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
    """

    JOIN = """
        INSERT INTO cluster_member AS member (node, tenant, id, tags, draining)
        SELECT $1, tenant, id, tags, draining
          FROM unnest($2::text[], $3::text[], $4::text[], $5::boolean[]) AS joined (tenant, id, tags, draining)
        ON CONFLICT (node, tenant, id) DO UPDATE SET draining = excluded.draining
         WHERE member.draining <> excluded.draining
    """

    MAX_TAGS = 10_000

    REMEMBER_TAGS = """
        -- For who asks whether a tag is a slip of the pen: which ones there ever were, so many of a tenant at most.
        INSERT INTO tag_seen (tenant, tag)
        SELECT DISTINCT joined.tenant, tag
          FROM unnest($1::text[], $2::text[]) AS joined (tenant, tags)
         CROSS JOIN LATERAL json_array_elements_text(joined.tags::json) AS tag
         WHERE NOT EXISTS (SELECT FROM tag_seen WHERE tag_seen.tenant = joined.tenant AND tag_seen.tag = tag.value)
           AND (SELECT count(*) FROM tag_seen WHERE tag_seen.tenant = joined.tenant) < $3
        ON CONFLICT DO NOTHING
    """

    async def publish(self, node: NodeId, members: Iterable[MemberRow], revision: int) -> bool:
        """Make these the node's members, as ``revision``, and say so; False when the node's row is gone."""
        connected = list(members)
        tenants, ids = [member.tenant for member in connected], [member.id for member in connected]
        tags = [_encode(sorted(member.tags)).decode() for member in connected]
        async with self._connection.transaction():
            if not await self._connection.fetchval(self.REVISE, node, revision):
                return False
            await self._connection.execute(self.LEAVE, node, tenants, ids)
            draining = [member.is_draining for member in connected]
            await self._connection.execute(self.JOIN, node, tenants, ids, tags, draining)
            await self._connection.execute(self.REMEMBER_TAGS, tenants, tags, self.MAX_TAGS)
            await announce(self._connection, CHANNEL, node)
        return True

    COUNT = """
        UPDATE cluster_member AS member
           SET software = told.software, principal_id = told.principal_id, principal_kind = told.principal_kind,
               connected_at = told.connected_at, last_seen_at = told.last_seen_at,
               in_flight = told.in_flight, succeeded = told.succeeded, failed = told.failed, timed_out = told.timed_out
          FROM json_to_recordset($2::json)
            AS told (tenant text, id text, software text, principal_id text, principal_kind text, connected_at bigint,
                     last_seen_at bigint, in_flight integer, succeeded bigint, failed bigint, timed_out bigint)
         WHERE member.node = $1 AND member.tenant = told.tenant AND member.id = told.id
    """

    async def publish_counters(self, node: NodeId, counters: Sequence[MemberCounters]) -> None:
        """Tell operators of members whose counters have changed."""
        await self._connection.execute(self.COUNT, node, _encode(counters).decode())

    # Two nodes that remove the same rows do not wait for each other, so they cannot wait in a circle either.
    REMOVE_EXPIRED = """
        DELETE FROM cluster_node
         WHERE id IN (SELECT id FROM cluster_node WHERE lease_until <= now_us() FOR UPDATE SKIP LOCKED)
        RETURNING id, name
    """

    async def remove_expired(self) -> Mapping[NodeId, str]:
        """Remove nodes whose lease has ended; their names by id."""
        return {NodeId(id_): name for id_, name in await self._connection.fetch(self.REMOVE_EXPIRED)}

    LEAVE_CLUSTER = "DELETE FROM cluster_node WHERE id = $1"

    async def leave(self, node: NodeId) -> None:
        """Remove a node that has come to its end."""
        async with self._connection.transaction():
            await self._connection.execute(self.LEAVE_CLUSTER, node)
            await announce(self._connection, CHANNEL, node)


@asynccontextmanager
async def open_node_table(
    database: DatabaseUrl, on_announced: Callable[[NodeId], None], on_lost: Callable[[], None]
) -> AsyncIterator[NodeTable]:
    """A connection for presence. ``on_announced`` is told which node has changed, ``on_lost`` that the connection is
    gone.

    Raises ``StorageUnavailable``.
    """

    def handle_notification(_connection: object, _process: int, _channel: str, payload: object) -> None:
        on_announced(NodeId(str(payload)))

    connection = await connect(database)
    try:
        connection.add_termination_listener(lambda _connection: on_lost())
        await connection.add_listener(CHANNEL, handle_notification)
        yield NodeTable(connection)
    finally:
        connection.terminate()


OFFER_KEY: Final = "INSERT INTO cluster_key (key) VALUES ($1) ON CONFLICT DO NOTHING"

KEY: Final = "SELECT key FROM cluster_key"

KEY_BYTES: Final = 32


async def load_cluster_key(database: DatabaseUrl, within: timedelta) -> bytes:
    """The key that all nodes of this database share; the first one to ask makes it up. Never to be logged.

    Raises ``StorageUnavailable`` and ``TimeoutError``.
    """
    async with asyncio.timeout(within.total_seconds()):
        connection: asyncpg.Connection = await connect(database)
        try:
            await connection.execute(OFFER_KEY, secrets.token_bytes(KEY_BYTES))
            return bytes(await connection.fetchval(KEY))
        finally:
            await connection.close()

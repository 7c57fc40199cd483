"""Keeps a node's claim to be alive, and its picture of the others.

*Beats.* Several times per lease the node renews its claim and looks at the others. Between beats it looks when somebody
announces a change, and it publishes its own members as soon as they change. All that happens in one task, one after
the other, on one connection.

*Leases.* A claim counts from the moment it was sent, so the node knows no later than the others that its lease is over;
no two clocks are compared. Nobody takes anything over from a node whose lease has ended: its transactions are in its
memory, and what it does in the database is checked by the statements that do it. So losing the lease means only that
others stop sending it work. The node itself says that it is not ready, forgets the others, and works with its own
members alone until the database answers again. Then it goes on under its own id: its tokens are good again.

*Endings.* A node that stops marks itself as draining first: the others ask its members no more, and it can still be
reached by callbacks into its transactions. Its row goes last. The row of a node that was killed stays until its lease
ends; then it does not count, and the next beat of any node removes it.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from random import Random

from msgspec.structs import replace

from statewright import logs
from statewright.cluster.picture import Peer, Picture, RemoteMember
from statewright.compute.members import Members
from statewright.identity import NodeId
from statewright.storage.connections import Target
from statewright.storage.presence import MemberRow, NodeRow, PresenceConnection, presence_connection

_jitter = Random()  # noqa: S311 - our own: tests of laws reset the module's shared state, and compare it

BEATS_PER_LEASE = 4

RETRY_AFTER_S = 0.5

FAREWELL_WITHIN_S = 2.0
"""For the last words of a node that stops; without them its lease ends by itself."""

UNPUBLISHED = -1
"""The revision of a node that has told nobody of its members yet."""

log = logs.logger("cluster")


class Presence:
    """The presence of this node. ``gone`` is told of nodes that are no more."""

    def __init__(
        self,
        node: NodeRow,
        database: Target,
        members: Members,
        picture: Picture,
        *,
        lease: timedelta,
        gone: Callable[[NodeId], None],
    ) -> None:
        self._node = node
        self._database = database
        self._members = members
        self._picture = picture
        self._lease = lease
        self._gone = gone
        self._held_until = 0.0
        self._published: frozenset[MemberRow] = frozenset()
        self._revision = UNPUBLISHED
        self._cache: dict[NodeId, tuple[int, tuple[RemoteMember, ...]]] = {}
        self._wanted = asyncio.Event()
        self._first = asyncio.Event()
        self._unreachable: set[NodeId] = set()
        self._bury_at = 0.0
        members.observers.append(self._members_changed)
        picture.look = self._wanted.set

    @property
    def is_held(self) -> bool:
        """Whether the others can still take this node for alive."""
        return asyncio.get_running_loop().time() < self._held_until

    async def run(self) -> None:
        """Keep the claim until cancelled."""
        while True:
            try:
                async with self._connected() as connection:
                    while True:
                        await self.beat_once(connection)
                        await self._pause()
            except Exception as away:  # a background loop must outlive whatever becomes of one connection
                log.warning("presence_interrupted", node=self._node.id, error=repr(away))
            self._let_go_if_late()
            await asyncio.sleep(RETRY_AFTER_S)

    async def began(self) -> None:
        """Returns when the node has claimed to be alive for the first time, and has seen the others."""
        await self._first.wait()

    async def beat_once(self, connection: PresenceConnection) -> None:
        """One beat, one look."""
        self._wanted.clear()
        loop = asyncio.get_running_loop()
        sent = loop.time()
        async with asyncio.timeout(self._lease.total_seconds() / 2):
            stored = await connection.beat(self._node, lease=self._lease)
            if loop.time() >= self._bury_at:
                await self._bury(connection)
            await self._publish(connection, stored)
            await self._look(connection)
        if not self._held_until:
            log.info("node_joined", node=self._node.id, name=self._node.name, peers=len(self._picture.peers))
        self._held_until = sent + self._lease.total_seconds()
        self._first.set()

    def drain(self) -> None:
        """Stop taking callouts of others: the node is about to stop."""
        self._node = replace(self._node, draining=True)
        self._revision = UNPUBLISHED  # published anew, which is what others hear
        self._wanted.set()

    async def leave(self) -> None:
        """Say goodbye."""
        with suppress(Exception):  # the lease ends by itself
            async with asyncio.timeout(FAREWELL_WITHIN_S), self._connected() as connection:
                await connection.leave(self._node.id)

    def _connected(self) -> AbstractAsyncContextManager[PresenceConnection]:
        return presence_connection(self._database, self._announced, self._wanted.set)

    def _announced(self, node: NodeId) -> None:
        if node != self._node.id:
            self._cache.pop(node, None)
            self._wanted.set()

    def _members_changed(self) -> None:
        self._wanted.set()
        self._picture.stir()

    async def _pause(self) -> None:
        pause = self._lease.total_seconds() / BEATS_PER_LEASE * _jitter.uniform(0.8, 1.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wanted.wait()

    async def _bury(self, connection: PresenceConnection) -> None:
        for node, name in (await connection.bury()).items():
            log.warning("node_lost", node=node, name=name)
        self._bury_at = asyncio.get_running_loop().time() + self._lease.total_seconds() / BEATS_PER_LEASE

    async def _publish(self, connection: PresenceConnection, stored: int) -> None:
        connected = frozenset(MemberRow(m.tenant, m.id, m.tags) for m in self._members.everybody())
        if stored == self._revision != UNPUBLISHED and connected == self._published:
            return
        revision = max(stored, self._revision) + 1
        if await connection.publish(self._node.id, connected, revision):
            self._published, self._revision = connected, revision

    async def _look(self, connection: PresenceConnection) -> None:
        rows = [row for row in await connection.peers(self._node.id) if self._can_reach(row)]
        stale = [row.id for row in rows if row.id not in self._cache or self._cache[row.id][0] != row.revision]
        fresh = await connection.members(stale) if stale else {}
        cache: dict[NodeId, tuple[int, tuple[RemoteMember, ...]]] = {}
        for row in rows:
            members = self._cache[row.id][1] if row.id not in fresh else _remote(row.id, fresh[row.id])
            cache[row.id] = (row.revision, members)
        self._cache = cache
        self._show([_peer(row, cache[row.id][1]) for row in rows])

    def _show(self, peers: list[Peer]) -> None:
        for node in self._picture.show(peers):
            log.info("node_gone", node=node)
            self._gone(node)

    def _can_reach(self, row: NodeRow) -> bool:
        host = row.address.rpartition(":")[0].strip("[]")
        if row.machine == self._node.machine or not (host == "localhost" or host.startswith("127.") or host == "::1"):
            return True
        if row.id not in self._unreachable:
            self._unreachable.add(row.id)
            log.warning("node_unreachable", node=row.id, name=row.name, reason="it announces a loopback address")
        return False

    def _let_go_if_late(self) -> None:
        if self._held_until and not self.is_held and self._picture:
            log.error("node_lease_lost", node=self._node.id)
            self._cache = {}
            self._show([])


def _remote(node: NodeId, rows: tuple[MemberRow, ...]) -> tuple[RemoteMember, ...]:
    return tuple(RemoteMember(node, row.tenant, row.id, row.tags) for row in rows)


def _peer(row: NodeRow, members: tuple[RemoteMember, ...]) -> Peer:
    return Peer(
        id=row.id, name=row.name, address=row.address, draining=row.draining, revision=row.revision, members=members
    )


async def kept(presence: Presence, *, within: timedelta) -> "asyncio.Task[None]":
    """The task that keeps a node present, which it is by now; the caller's to cancel.

    Raises ``TimeoutError`` when the database does not answer in time.
    """
    keeper = asyncio.create_task(presence.run(), name="presence")
    try:
        async with asyncio.timeout(within.total_seconds()):
            await presence.began()
    except BaseException:
        keeper.cancel()
        raise
    return keeper

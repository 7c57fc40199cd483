"""Keeps a node's claim to be alive, and its table of the others.

*Beats.* Several times per lease the node renews its claim and looks at the others. Between beats it looks when another
node announces a change, and it publishes its own members as soon as they change. All that happens in one task, one
after the other, on one connection.

*Leases.* A claim counts from the moment it was sent, so the node knows no later than the others that its lease is over;
no two clocks are compared. No node takes anything over from one whose lease has ended: its transactions are in its
memory, and what it does in the database is checked by the statements that do it. So losing the lease means only that
others stop sending it work. The node itself says that it is not ready, forgets the others, and works with its own
members alone until the database answers again. Then it goes on under its own id: its tokens are good again.

*Endings.* A node that stops marks itself as draining first: the others ask its members no more, and it can still be
reached by callbacks into its transactions. Its row goes last. The row of a node that was killed stays until its lease
ends; then it does not count, and the next beat of any node removes it.

*Peers.* What a node knows of the others is in memory, so choosing a member of another node costs no query. The table
may be some moments old: a member in it may have gone, and then its node says so and the next is asked.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from random import Random
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.compute.members import Member, Members
from statewright.ids import NodeId, TenantId
from statewright.loop.background import wait_at_most
from statewright.loop.deadlines import Lease
from statewright.storage.connections import DatabaseUrl
from statewright.storage.nodes import MemberCounters, MemberRow, NodeRow, NodeTable, open_node_table
from statewright.telemetry import logs


class RemoteMember(Struct, frozen=True):
    """A calculation member that is connected to another node; tags in lower case."""

    node: NodeId
    tenant: TenantId
    id: str
    tags: frozenset[str]


class Peer(Struct, frozen=True, kw_only=True):
    """Another node that is alive. One that is ``draining`` owns transactions still, and takes no new callouts; one that
    ``is_local`` runs on this machine.
    """

    id: NodeId
    name: str
    address: str
    is_local: bool
    draining: bool
    revision: int
    members: tuple[RemoteMember, ...]


class MemberLoad:
    """How much a member of another node has got from here: callouts without an answer, and when it was last chosen."""

    __slots__ = ("in_flight", "turn")

    def __init__(self) -> None:
        self.in_flight = 0
        self.turn = 0


class PeerTable:
    """The other nodes and their members."""

    def __init__(self) -> None:
        self._peers: Mapping[NodeId, Peer] = {}
        self._by_tenant: dict[TenantId, list[RemoteMember]] = {}
        self._loads: dict[str, MemberLoad] = {}
        self._choices = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self.request_refresh: Callable[[], None] = lambda: None
        """Asks for a new look at the database."""

    def __bool__(self) -> bool:
        """Whether there are other nodes."""
        return bool(self._peers)

    @property
    def peers(self) -> Mapping[NodeId, Peer]:
        """The other nodes by id."""
        return self._peers

    @property
    def member_count(self) -> int:
        """Members of all other nodes that can be asked."""
        return sum(map(len, self._by_tenant.values()))

    def replace_peers(self, peers: Iterable[Peer]) -> frozenset[NodeId]:
        """Replace what is known; the nodes that are gone since the last time."""
        before = self._peers
        self._peers = {peer.id: peer for peer in peers}
        self._by_tenant = {}
        for peer in self._peers.values():
            if peer.draining:
                continue
            for member in peer.members:
                self._by_tenant.setdefault(member.tenant, []).append(member)
        known = {member.id for peer in self._peers.values() for member in peer.members}
        self._loads = {id_: load for id_, load in self._loads.items() if id_ in known}
        self.notify()
        return frozenset(before.keys() - self._peers.keys())

    def list_members(self, tenant: TenantId) -> tuple[RemoteMember, ...]:
        """The members of a tenant that can be asked."""
        return tuple(self._by_tenant.get(tenant, ()))

    def select(
        self,
        tenant: TenantId,
        required: Iterable[str],
        *,
        avoiding: Collection[str] = (),
        without: Collection[NodeId] = (),
    ) -> RemoteMember | None:
        """The member to ask: fewest callouts from here first, then the one chosen longest ago.

        Those named in ``avoiding`` only when there is no other, none of the nodes ``without``. None: there is none.
        """
        wanted = frozenset(tag.lower() for tag in required)
        matching = [m for m in self._by_tenant.get(tenant, ()) if wanted <= m.tags and m.node not in without]
        if not matching:
            return None
        others = [member for member in matching if member.id not in avoiding] if avoiding else matching
        chosen = min(others or matching, key=self._rank)
        self._choices += 1
        self._get_load(chosen.id).turn = self._choices
        return chosen

    def begin(self, member: RemoteMember) -> None:
        """A callout is on its way to the member."""
        self._get_load(member.id).in_flight += 1

    def end(self, member: RemoteMember) -> None:
        """It is over."""
        load = self._loads.get(member.id)
        if load is not None and load.in_flight:
            load.in_flight -= 1

    def forget(self, member: RemoteMember) -> None:
        """Its node has just said that it is gone; the next look at the database knows better."""
        members = self._by_tenant.get(member.tenant, [])
        self._by_tenant[member.tenant] = [other for other in members if other.id != member.id]

    def notify(self) -> None:
        """Let all tasks that wait for a member look again."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    async def wait_changed(self) -> None:
        """Returns when members may have come, here or elsewhere."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)

    async def refresh(self, *, within_s: float) -> None:
        """Returns when there was a new look at the database, or the time is up."""
        self.request_refresh()
        await wait_at_most(self.wait_changed(), within_s)

    def _get_load(self, member: str) -> MemberLoad:
        load = self._loads.get(member)
        if load is None:
            load = self._loads[member] = MemberLoad()
        return load

    def _rank(self, member: RemoteMember) -> tuple[int, int]:
        load = self._loads.get(member.id)
        return (0, 0) if load is None else (load.in_flight, load.turn)


_jitter = Random()  # noqa: S311 - our own: tests of laws reset the module's shared state, and compare it

BEATS_PER_LEASE: Final = 4

RETRY_AFTER_S: Final = 0.5

COUNTERS_INTERVAL_S: Final = 2.0
"""At least between two times that counters of members are published; with the pause of a beat it is twice as much."""

LEAVE_TIMEOUT_S: Final = 2.0
"""For the last words of a node that stops; without them its lease ends by itself."""

UNPUBLISHED: Final = -1
"""The revision of a node that has not published its members yet."""

log = logs.logger(__name__)


class Heartbeat:
    """The presence of this node. ``on_gone`` is told of nodes that are no more."""

    def __init__(
        self,
        node: NodeRow,
        database: DatabaseUrl,
        members: Members,
        peer_table: PeerTable,
        *,
        lease: timedelta,
        presence: Lease,
        on_gone: Callable[[NodeId], None],
    ) -> None:
        self._node = node
        self._database = database
        self._members = members
        self.peer_table = peer_table
        self._lease = lease
        self._on_gone = on_gone
        self._presence = presence
        self._published: frozenset[MemberRow] = frozenset()
        self._counters: dict[tuple[TenantId, str], MemberCounters] = {}
        self._counters_at = 0.0
        self._revision = UNPUBLISHED
        self._cache: dict[NodeId, tuple[int, tuple[RemoteMember, ...]]] = {}
        self._refresh_requested = asyncio.Event()
        self._started = asyncio.Event()
        self._unreachable: set[NodeId] = set()
        self._cleanup_at = 0.0
        members.observers.append(self._on_members_changed)
        peer_table.request_refresh = self._refresh_requested.set

    async def run(self) -> None:
        """Keep the claim until cancelled."""
        while True:
            try:
                async with self._connect() as connection:
                    while True:
                        await self.beat_once(connection)
                        await self._pause()
            except Exception as away:  # a background loop must outlive whatever becomes of one connection
                log.warning("presence_interrupted", node=self._node.id, error=repr(away))
            self._forget_peers_if_expired()
            await asyncio.sleep(RETRY_AFTER_S)

    async def wait_started(self) -> None:
        """Returns when the node has claimed to be alive for the first time, and has seen the others."""
        await self._started.wait()

    async def beat_once(self, connection: NodeTable) -> None:
        """One beat, one look."""
        self._refresh_requested.clear()
        loop = asyncio.get_running_loop()
        sent = loop.time()
        async with asyncio.timeout(self._lease.total_seconds() / 2):
            stored = await connection.renew_lease(self._node, lease=self._lease)
            if loop.time() >= self._cleanup_at:
                await self._remove_expired(connection)
            await self._publish(connection, stored)
            await self._publish_counters(connection)
            await self._refresh_peers(connection)
        if not self._presence.until:
            log.info("node_joined", node=self._node.id, name=self._node.name, peers=len(self.peer_table.peers))
        self._presence.until = sent + self._lease.total_seconds()
        self._started.set()

    def drain(self) -> None:
        """Stop taking callouts of others: the node is about to stop."""
        self._node = replace(self._node, draining=True)
        self._revision = UNPUBLISHED  # published anew, which is what others hear
        self._refresh_requested.set()

    async def leave(self) -> None:
        """Say goodbye."""
        with suppress(Exception):  # the lease ends by itself
            async with asyncio.timeout(LEAVE_TIMEOUT_S), self._connect() as connection:
                await connection.leave(self._node.id)

    def _connect(self) -> AbstractAsyncContextManager[NodeTable]:
        return open_node_table(self._database, self.receive_announcement, self._refresh_requested.set)

    def receive_announcement(self, node: NodeId) -> None:
        """A node has changed, as the revision of its row tells; it may say so in the middle of a look."""
        if node != self._node.id:
            self._refresh_requested.set()

    def _on_members_changed(self) -> None:
        self._refresh_requested.set()
        self.peer_table.notify()

    async def _pause(self) -> None:
        pause = self._lease.total_seconds() / BEATS_PER_LEASE * _jitter.uniform(0.8, 1.0)
        await wait_at_most(self._refresh_requested.wait(), pause)

    async def _remove_expired(self, connection: NodeTable) -> None:
        for node, name in (await connection.remove_expired()).items():
            log.warning("node_lost", node=node, name=name)
        self._cleanup_at = asyncio.get_running_loop().time() + self._lease.total_seconds() / BEATS_PER_LEASE

    async def _publish(self, connection: NodeTable, stored: int) -> None:
        connected = frozenset(MemberRow(m.tenant, m.id, m.tags, m.is_draining) for m in self._members.iterate_all())
        if stored == self._revision != UNPUBLISHED and connected == self._published:
            return
        revision = max(stored, self._revision) + 1
        if await connection.publish(self._node.id, connected, revision):
            self._published, self._revision = connected, revision
            self._counters = {}

    async def _publish_counters(self, connection: NodeTable) -> None:
        """Now and then, and only what has changed."""
        now = asyncio.get_running_loop().time()
        if now < self._counters_at:
            return
        self._counters_at = now + COUNTERS_INTERVAL_S
        told = {(m.tenant, m.id): _to_counters(m) for m in self._members.iterate_all()}
        changed = [each for key, each in told.items() if self._counters.get(key) != each]
        if changed:
            await connection.publish_counters(self._node.id, changed)
        self._counters = told

    async def _refresh_peers(self, connection: NodeTable) -> None:
        rows = [row for row in await connection.list_peers(self._node.id) if self._can_reach(row)]
        stale = [row.id for row in rows if row.id not in self._cache or self._cache[row.id][0] != row.revision]
        fresh = await connection.list_members(stale) if stale else {}
        cache: dict[NodeId, tuple[int, tuple[RemoteMember, ...]]] = {}
        for row in rows:
            members = self._cache[row.id][1] if row.id not in fresh else _to_members(row.id, fresh[row.id])
            cache[row.id] = (row.revision, members)
        self._cache = cache
        machine = self._node.machine
        self._update_peers([_to_peer(row, cache[row.id][1], is_local=row.machine == machine) for row in rows])

    def _update_peers(self, peers: list[Peer]) -> None:
        for node in self.peer_table.replace_peers(peers):
            log.info("node_gone", node=node)
            self._on_gone(node)

    def _can_reach(self, row: NodeRow) -> bool:
        host = row.address.rpartition(":")[0].strip("[]")
        if row.machine == self._node.machine or not (host == "localhost" or host.startswith("127.") or host == "::1"):
            return True
        if row.id not in self._unreachable:
            self._unreachable.add(row.id)
            log.warning("node_unreachable", node=row.id, name=row.name, reason="it announces a loopback address")
        return False

    def _forget_peers_if_expired(self) -> None:
        if 0 < self._presence.until <= asyncio.get_running_loop().time() and self.peer_table:
            log.error("node_lease_lost", node=self._node.id)
            self._cache = {}
            self._update_peers([])


def _to_counters(member: Member) -> MemberCounters:
    return MemberCounters(
        tenant=member.tenant,
        id=member.id,
        software=member.software,
        principal_id=None if member.principal is None else member.principal.id,
        principal_kind=None if member.principal is None else member.principal.kind,
        connected_at=member.connected_at,
        last_seen_at=member.last_seen_at,
        in_flight=member.in_flight,
        succeeded=member.succeeded,
        failed=member.failed,
        timed_out=member.timed_out,
    )


def _to_members(node: NodeId, rows: tuple[MemberRow, ...]) -> tuple[RemoteMember, ...]:
    return tuple(RemoteMember(node, row.tenant, row.id, row.tags) for row in rows)


def _to_peer(row: NodeRow, members: tuple[RemoteMember, ...], *, is_local: bool) -> Peer:
    return Peer(
        id=row.id,
        name=row.name,
        address=row.address,
        is_local=is_local,
        draining=row.draining,
        revision=row.revision,
        members=members,
    )


async def start_heartbeat(heartbeat: Heartbeat, *, within: timedelta) -> "asyncio.Task[None]":
    """The task that keeps a node present, which it is by now; the caller's to cancel.

    Raises ``TimeoutError`` when the database does not answer in time.
    """
    task = asyncio.create_task(heartbeat.run(), name="presence")
    try:
        async with asyncio.timeout(within.total_seconds()):
            await heartbeat.wait_started()
    except BaseException:
        task.cancel()
        raise
    return task

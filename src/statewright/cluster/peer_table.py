"""What a node knows of the others, in memory. Choosing a member of another node costs no query.

The table may be some moments old: a member in it may have gone, and then its node says so and the next is asked.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec import Struct

from statewright.background import wait_at_most
from statewright.ids import NodeId, TenantId


class RemoteMember(Struct, frozen=True):
    """A calculation member that is connected to another node; tags in lower case."""

    node: NodeId
    tenant: TenantId
    id: str
    tags: frozenset[str]


class Peer(Struct, frozen=True, kw_only=True):
    """Another node that is alive. One that is ``draining`` owns transactions still, and takes no new callouts."""

    id: NodeId
    name: str
    address: str
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

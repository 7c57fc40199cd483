"""The calculation members that are connected, to this node and to the others (docs/reference/operations.md#members)."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from statewright.cluster.draining import MemberDrains
from statewright.cluster.peer_table import PeerTable
from statewright.compute.members import Member, Members
from statewright.entity import Actor
from statewright.failures import MemberNotFound
from statewright.ids import NodeId, TenantId
from statewright.operator_acts import Act
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops.audit import record_act
from statewright.storage.ops.members import ObservedMember, list_members_elsewhere
from statewright.storage.pool import Pool

WorkerKind = Literal["STREAM", "POLL"]


class CallCounts(Struct, frozen=True, kw_only=True):
    """What became of the calls to a member since it connected."""

    succeeded: int
    failed: int
    timed_out: int


class Worker(Struct, frozen=True, kw_only=True):
    """Who can be given work: a member with a stream, or a worker that polls jobs. Instants in epoch microseconds."""

    id: str
    kind: WorkerKind
    node: NodeId | None = None
    software: str | None = None
    tags: frozenset[str] = frozenset()
    job_types: tuple[str, ...] = ()
    connected_at: int | None = None
    last_seen_at: int | None = None
    in_flight: int | None = None
    calls: CallCounts | None = None
    is_draining: bool = False


class Declared(Struct, frozen=True):
    """A member that can be asked, and its tags in lower case."""

    id: str
    tags: frozenset[str]


class ConnectedMembers:
    """What this node knows of members: its own at once, those of other nodes as of their last heartbeat."""

    def __init__(self, node: NodeId, local: Members, peers: PeerTable) -> None:
        self.node = node
        self._local = local
        self._peers = peers

    def count(self, tenant: TenantId, tags: Iterable[str]) -> int:
        """How many can be asked that declare all of the tags."""
        wanted = frozenset(tag.lower() for tag in tags)
        return sum(wanted <= member.tags for member in self.iterate(tenant))

    def iterate(self, tenant: TenantId) -> Iterator[Declared]:
        """The members of a tenant that can be asked, those of this node first."""
        for member in self._local.list_members(tenant):
            if not member.is_draining:
                yield Declared(member.id, member.tags)
        for remote in self._peers.list_members(tenant):
            yield Declared(remote.id, remote.tags)

    def list_here(self, tenant: TenantId) -> list[Worker]:
        """The members of a tenant that are connected to this node, those that are being drained included."""
        return [_to_worker(member, self.node) for member in self._local.list_members(tenant)]


async def list_streams(runtime: Runtime, tenant: TenantId) -> list[Worker]:
    """All members of a tenant, of all nodes; what others tell of theirs is a few seconds old."""
    connected = runtime.extensions.get(ConnectedMembers)
    elsewhere = await list_members_elsewhere(runtime.pool, tenant, connected.node)
    return [*connected.list_here(tenant), *map(_describe_elsewhere, elsewhere)]


async def drain(runtime: Runtime, caller: Caller, member_id: str, *, within: timedelta) -> Worker:
    """Send a member nothing any more, and let it go when it is idle, at the latest after ``within``; how it is now.

    Raises ``MemberNotFound``, and ``ComputeMemberDisconnected`` when its node does not answer.
    """
    streams = await list_streams(runtime, caller.tenant)
    member = next((each for each in streams if each.id == member_id), None)
    if member is None or member.node is None:
        raise MemberNotFound
    drains, node = runtime.extensions.get(MemberDrains), member.node
    drained = replace(member, is_draining=True)
    act = Act(
        action="member.drain",
        target_kind="MEMBER",
        target_id=member_id,
        details={"node": node, "tags": sorted(member.tags), "withinSeconds": round(within.total_seconds())},
    )

    async def apply(pool: Pool) -> bool:
        async with pool.connection() as connection, connection.transaction():
            by = Actor(caller.principal.id, caller.principal.kind)
            await record_act(connection, caller.tenant, by, act)
            await drains.drain(caller.tenant, node, member_id, within=within)  # what fails leaves no act behind
        return True

    keyed = caller.keyed
    await (apply(runtime.pool) if keyed is None else keyed.commit_act(apply, drained))
    return drained


def _to_worker(member: Member, node: NodeId) -> Worker:
    return Worker(
        id=member.id,
        kind="STREAM",
        node=node,
        software=member.software,
        tags=member.tags,
        connected_at=member.connected_at,
        last_seen_at=member.last_seen_at,
        in_flight=member.in_flight,
        calls=CallCounts(succeeded=member.succeeded, failed=member.failed, timed_out=member.timed_out),
        is_draining=member.is_draining,
    )


def _describe_elsewhere(member: ObservedMember) -> Worker:
    return Worker(
        id=member.id,
        kind="STREAM",
        node=member.node,
        software=member.software,
        tags=frozenset(member.tags),
        connected_at=member.connected_at or None,
        last_seen_at=member.last_seen_at or None,
        in_flight=member.in_flight,
        calls=CallCounts(succeeded=member.succeeded, failed=member.failed, timed_out=member.timed_out),
        is_draining=member.is_draining,
    )

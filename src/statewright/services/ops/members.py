"""The calculation members that are connected, to this node and to the others (docs/reference/operations.md#members)."""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from statewright.cluster.peer_table import PeerTable
from statewright.compute.members import Members
from statewright.ids import NodeId, TenantId

WorkerKind = Literal["STREAM", "POLL"]


class CallCounts(Struct, frozen=True, kw_only=True):
    """What became of the calls to a member since it connected."""

    succeeded: int
    failed: int
    timed_out: int


class Worker(Struct, frozen=True, kw_only=True):
    """Who can be given work: a member with a stream, or a worker that has polled jobs and not finished them.

    Of members of other nodes only ``id``, ``node`` and ``tags`` are known here. Instants in epoch microseconds.
    """

    id: str
    kind: WorkerKind
    node: NodeId | None = None
    tags: frozenset[str] = frozenset()
    job_types: tuple[str, ...] = ()
    connected_at: int | None = None
    last_seen_at: int | None = None
    in_flight: int | None = None
    calls: CallCounts | None = None


class ConnectedMembers:
    """What this node knows of members: its own at once, those of other nodes as of their last heartbeat."""

    def __init__(self, node: NodeId, local: Members, peers: PeerTable) -> None:
        self._node = node
        self._local = local
        self._peers = peers

    def count(self, tenant: TenantId, tags: Iterable[str]) -> int:
        """How many declare all of the tags."""
        wanted = frozenset(tag.lower() for tag in tags)
        return sum(wanted <= member.tags for member in self.iterate(tenant))

    def iterate(self, tenant: TenantId) -> Iterator[Worker]:
        """The members of a tenant, those of this node first."""
        for member in self._local.list_members(tenant):
            calls = CallCounts(succeeded=member.succeeded, failed=member.failed, timed_out=member.timed_out)
            yield Worker(
                id=member.id,
                kind="STREAM",
                node=self._node,
                tags=member.tags,
                connected_at=member.connected_at,
                in_flight=member.in_flight,
                calls=calls,
            )
        for remote in self._peers.list_members(tenant):
            yield Worker(id=remote.id, kind="STREAM", node=remote.node, tags=remote.tags)

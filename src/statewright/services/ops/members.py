"""The calculation members that are connected, to this node and to the others."""

from collections.abc import Iterable, Sequence

from statewright.cluster.peer_table import PeerTable
from statewright.compute.members import Members
from statewright.ids import TenantId


class ConnectedMembers:
    """What this node knows of members: its own at once, those of other nodes as of their last heartbeat."""

    def __init__(self, local: Members, peers: PeerTable) -> None:
        self._local = local
        self._peers = peers

    def count(self, tenant: TenantId, tags: Iterable[str]) -> int:
        """How many declare all of the tags."""
        wanted = frozenset(tag.lower() for tag in tags)
        declared: Sequence[frozenset[str]] = (
            *(member.tags for member in self._local.list_members(tenant)),
            *(member.tags for member in self._peers.list_members(tenant)),
        )
        return sum(wanted <= tags for tags in declared)

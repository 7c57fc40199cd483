"""What a node sees of the others when it looks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta

from statewright.cluster.heartbeat import Heartbeat, PeerTable
from statewright.compute.members import Members
from statewright.ids import NodeId, TenantId
from statewright.loop.deadlines import Lease
from statewright.storage.connections import parse_database_url
from statewright.storage.nodes import MemberCounters, MemberRow, NodeRow, NodeTable

ACME = TenantId("acme")


def a_row(id_: str, revision: int = 0) -> NodeRow:
    return NodeRow(id=NodeId(id_), name=id_, address="a:1", machine="m", program="p", draining=False, revision=revision)


class Others(NodeTable):
    """Other nodes, each with a member of its name. Those of ``announcing`` say that they have changed while members are
    read.
    """

    def __init__(self, *rows: NodeRow) -> None:
        self.rows = list(rows)
        self.announcing: Collection[NodeId] = ()
        self.heartbeat = Heartbeat(
            a_row("me"),
            parse_database_url("postgresql://localhost/none"),
            Members(),
            PeerTable(),
            lease=timedelta(seconds=10),
            presence=Lease(),
            on_gone=lambda _: None,
        )

    async def renew_lease(self, node: NodeRow, *, lease: timedelta) -> int:
        return 0

    async def remove_expired(self) -> Mapping[NodeId, str]:
        return {}

    async def publish(self, node: NodeId, members: Iterable[MemberRow], revision: int) -> bool:
        return True

    async def publish_counters(self, node: NodeId, counters: Sequence[MemberCounters]) -> None:
        pass

    async def list_peers(self, node: NodeId) -> list[NodeRow]:
        return self.rows

    async def list_members(self, nodes: Sequence[NodeId]) -> dict[NodeId, tuple[MemberRow, ...]]:
        for node in self.announcing:
            self.heartbeat.receive_announcement(node)
        return {node: (MemberRow(ACME, f"at-{node}", frozenset({"billing"})),) for node in nodes}

    async def look(self) -> set[str]:
        """The members of other nodes, once the node has looked."""
        await self.heartbeat.beat_once(self)
        return {member.id for member in self.heartbeat.peer_table.list_members(ACME)}


async def test_a_node_that_changes_while_the_members_of_another_are_read_is_seen_as_it_was():
    others = Others(a_row("n1"))
    assert await others.look() == {"at-n1"}
    others.rows, others.announcing = [a_row("n1"), a_row("n2")], [NodeId("n1")]
    assert await others.look() == {"at-n1", "at-n2"}

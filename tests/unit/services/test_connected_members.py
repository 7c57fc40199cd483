"""Members of this node and of others in one list (docs/reference/operations.md#members)."""

from statewright.cluster.peer_table import Peer, PeerTable, RemoteMember
from statewright.compute.members import Members
from statewright.ids import NodeId, TenantId
from statewright.services.ops.members import ConnectedMembers

TENANT = TenantId("t")
HERE, THERE = NodeId("here"), NodeId("there")


def test_members_of_other_nodes_are_listed_and_counted_with_those_of_this_one():
    local, peers = Members(), PeerTable()
    local.join(TENANT, ["Mail"], member_id="m-1")
    remote = RemoteMember(THERE, TENANT, "m-2", frozenset({"mail", "print"}))
    foreign = RemoteMember(THERE, TenantId("x"), "m-3", frozenset({"mail"}))
    members = (remote, foreign)
    peers.replace_peers([Peer(id=THERE, name="n", address="a:1", draining=False, revision=1, members=members)])
    connected = ConnectedMembers(HERE, local, peers)

    first, second = connected.iterate(TENANT)

    assert (first.id, first.node, first.in_flight) == ("m-1", HERE, 0)
    assert (second.id, second.node, second.in_flight) == ("m-2", THERE, None)
    assert [connected.count(TENANT, tags) for tags in ([], ["MAIL"], ["mail", "print"], ["fax"])] == [2, 2, 1, 0]

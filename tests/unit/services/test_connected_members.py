"""Members of this node and of others in one list (docs/reference/operations.md#members)."""

from statewright.cluster.heartbeat import Peer, PeerTable, RemoteMember
from statewright.compute.members import Members
from statewright.ids import NodeId, TenantId
from statewright.services.ops.queues import ConnectedMembers

TENANT = TenantId("t")
HERE, THERE = NodeId("here"), NodeId("there")


def test_members_of_other_nodes_are_listed_and_counted_with_those_of_this_one():
    local, peers = Members(), PeerTable()
    local.join(TENANT, ["Mail"], member_id="m-1")
    remote = RemoteMember(THERE, TENANT, "m-2", frozenset({"mail", "print"}))
    foreign = RemoteMember(THERE, TenantId("x"), "m-3", frozenset({"mail"}))
    members = (remote, foreign)
    peers.replace_peers(
        [Peer(id=THERE, name="n", address="a:1", is_local=True, draining=False, revision=1, members=members)]
    )
    connected = ConnectedMembers(HERE, local, peers)

    first, second = connected.iterate(TENANT)

    assert (first.id, second.id) == ("m-1", "m-2")
    assert [connected.count(TENANT, tags) for tags in ([], ["MAIL"], ["mail", "print"], ["fax"])] == [2, 2, 1, 0]


async def test_a_member_that_is_being_drained_cannot_be_asked():
    local = Members()
    local.join(TENANT, ["mail"], member_id="m-1")
    connected = ConnectedMembers(HERE, local, PeerTable())
    assert local.drain_member(TenantId("x"), "m-1", within_s=1) is None
    assert local.drain_member(TENANT, "m-1", within_s=1) is not None
    assert connected.count(TENANT, ["mail"]) == 0
    assert [(each.id, each.is_draining) for each in connected.list_here(TENANT)] == [("m-1", True)]
    assert local.select(TENANT, ["mail"]) is None

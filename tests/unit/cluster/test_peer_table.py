"""What a node knows of the others, and whom it asks."""

import asyncio
from collections import Counter

from statewright.cluster.heartbeat import Peer, PeerTable, RemoteMember
from statewright.ids import NodeId, TenantId

ACME = TenantId("acme")


def a_peer(id_: str, *members: str, tags: tuple[str, ...] = ("billing",), draining: bool = False) -> Peer:
    node = NodeId(id_)
    connected = tuple(RemoteMember(node, ACME, member, frozenset(tags)) for member in members)
    return Peer(
        id=node, name=id_, address="127.0.0.1:1", is_local=True, draining=draining, revision=1, members=connected
    )


def of(*peers: Peer) -> PeerTable:
    picture = PeerTable()
    picture.replace_peers(peers)
    return picture


def test_a_member_must_declare_all_required_tags_in_any_case_and_be_of_the_tenant():
    picture = of(a_peer("n1", "m1", tags=("billing", "eu")))
    assert picture.select(ACME, ["Billing", "EU"]) is not None
    assert picture.select(ACME, ["billing", "us"]) is None
    assert picture.select(TenantId("globex"), ["billing"]) is None
    assert picture.select(ACME, []) is not None


def test_turns_go_round_all_members_whatever_node_they_are_at():
    picture = of(a_peer("n1", "m1"), a_peer("n2", "m2", "m3"))
    chosen = Counter(member.id for _ in range(12) if (member := picture.select(ACME, ["billing"])))
    assert chosen == {"m1": 4, "m2": 4, "m3": 4}


def test_who_has_fewer_callouts_from_here_is_asked_first():
    picture = of(a_peer("n1", "m1"), a_peer("n2", "m2"))
    busy = picture.select(ACME, ["billing"])
    assert busy is not None
    picture.begin(busy)
    assert {picture.select(ACME, ["billing"]) for _ in range(3)} == {
        member for peer in picture.peers.values() for member in peer.members if member != busy
    }
    picture.end(busy)
    assert picture.select(ACME, ["billing"]) == busy


def test_those_to_be_avoided_are_the_last_resort():
    picture = of(a_peer("n1", "m1"), a_peer("n2", "m2"))
    assert {m.id for _ in range(4) if (m := picture.select(ACME, ["billing"], avoiding=["m1"]))} == {"m2"}
    assert picture.select(ACME, ["billing"], avoiding=["m1", "m2"]) is not None
    assert picture.select(ACME, ["billing"], without=[NodeId("n1"), NodeId("n2")]) is None


def test_a_node_that_drains_owns_transactions_still_and_is_not_asked():
    picture = of(a_peer("n1", "m1", draining=True))
    assert picture.select(ACME, ["billing"]) is None
    assert NodeId("n1") in picture.peers


def test_a_new_picture_tells_who_is_gone():
    picture = of(a_peer("n1", "m1"), a_peer("n2"))
    assert picture.replace_peers([a_peer("n2")]) == {"n1"}
    assert picture.select(ACME, ["billing"]) is None
    assert picture.replace_peers([]) == {"n2"}
    assert not picture


async def test_who_waits_for_members_hears_of_every_change():
    picture = PeerTable()
    waiting = [asyncio.create_task(picture.wait_changed()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    picture.replace_peers([a_peer("n1", "m1")])
    async with asyncio.timeout(30):
        await waiting[1]
    assert [task.cancelled() for task in waiting] == [True, False]

"""Links between nodes of one machine: who may use them, and what becomes of calls when one side goes."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest

from statewright.cluster import local_links
from statewright.cluster.channels import NodeAuthenticator
from statewright.cluster.heartbeat import Peer, PeerTable
from statewright.cluster.local_links import FrameKind, LinkLost, LocalLink, LocalLinks, LocalServer
from statewright.ids import NodeId
from statewright.proto import cluster_pb2 as pb

SECRET = b"s" * 32
HERE = NodeId("caller")

_names = count()


async def echo(request: pb.DispatchRequest) -> pb.DispatchReply:
    """A reply that has the payload of the callout."""
    return pb.DispatchReply(reply=pb.MemberReply(success=True, data=request.payload))


def a_request(payload: bytes = b"x") -> pb.DispatchRequest:
    return pb.DispatchRequest(payload=payload)


@asynccontextmanager
async def a_node(
    answer: Callable[[pb.DispatchRequest], Awaitable[pb.DispatchReply]] = echo, *, secret: bytes = SECRET
) -> AsyncIterator[NodeId]:
    """A node that answers calls over links."""
    node = NodeId(f"called-{next(_names)}")
    server = LocalServer(NodeAuthenticator(secret, node), answer)
    await server.start()
    try:
        yield node
    finally:
        await server.close(within_s=0.1)


@asynccontextmanager
async def links_to(*nodes: NodeId, is_local: bool = True) -> AsyncIterator[LocalLinks]:
    """The links of a node that knows those."""
    table = PeerTable()
    table.replace_peers(
        Peer(id=node, name=node, address="", is_local=is_local, draining=False, revision=1, members=())
        for node in nodes
    )
    links = LocalLinks(table, NodeAuthenticator(SECRET, HERE))
    try:
        yield links
    finally:
        links.close()


@asynccontextmanager
async def a_link(node: NodeId) -> AsyncIterator[LocalLink]:
    async with links_to(node) as links:
        link = await links.connect(node)
        assert link is not None
        yield link


async def test_calls_that_are_open_together_get_their_own_answers() -> None:
    payloads = [b"%d" % number * number for number in range(1, 500)]
    async with a_node() as node, links_to(node) as links:
        first, *others = await asyncio.gather(*[links.connect(node) for _ in payloads])
        assert first is not None
        assert all(other is first for other in others)
        replies = await asyncio.gather(*[first.dispatch(a_request(each), within_s=10) for each in payloads])
    assert [reply.reply.data for reply in replies] == payloads


async def test_the_largest_documents_pass_beside_small_ones() -> None:
    large = bytes(10 * 1024 * 1024)
    async with a_node() as node, a_link(node) as link:
        replies = await asyncio.gather(
            *[link.dispatch(a_request(each), within_s=30) for each in (large, b"a", large, b"b")]
        )
    assert [len(reply.reply.data) for reply in replies] == [len(large), 1, len(large), 1]


async def test_a_node_with_another_secret_or_of_another_machine_is_not_linked() -> None:
    async with a_node(secret=b"t" * 32) as stranger, a_node() as node:
        async with links_to(stranger) as links:
            assert await links.connect(stranger) is None
        async with links_to(node, is_local=False) as links:
            assert await links.connect(node) is None


async def test_a_node_that_does_not_listen_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = NodeId("silent")
    async with links_to(silent) as links:
        assert await links.connect(silent) is None
        node_opens = LocalServer(NodeAuthenticator(SECRET, silent), echo)
        await node_opens.start()
        assert await links.connect(silent) is None
        monkeypatch.setattr(local_links, "RETRY_AFTER_S", 0.0)
        assert await links.connect(silent) is not None
        await node_opens.close(within_s=0)


async def raw(node: NodeId) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    connected = socket.socket(socket.AF_UNIX)
    connected.setblocking(False)
    connected.connect(f"\0statewright-{node}")
    return await asyncio.open_unix_connection(sock=connected)


def frame(kind: FrameKind, content: bytes, number: int = 1) -> bytes:
    return local_links.HEAD.pack(len(content), kind, number) + content


@pytest.mark.parametrize(
    "sent",
    [
        frame(FrameKind.CALL, a_request().SerializeToString()),
        frame(FrameKind.PROOF, b""),
        frame(FrameKind.HELLO, bytes(16) + b"caller") + frame(FrameKind.PROOF, bytes(32)),
        frame(FrameKind.HELLO, b"") + frame(FrameKind.HELLO, b""),
        b"\xff" * local_links.HEAD.size,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_strangers_are_cut_off_without_an_answer(sent: bytes) -> None:
    async def answer(request: pb.DispatchRequest) -> pb.DispatchReply:
        raise AssertionError("a stranger was heard")

    async with a_node(answer) as node:
        reader, writer = await raw(node)
        writer.write(sent)
        async with asyncio.timeout(5):
            told = await reader.read(10_000)
            assert await reader.read(10_000) == b""
        assert len(told) in (0, local_links.HEAD.size + 16 + 32)  # the node's own introduction at most
        writer.close()


async def test_a_recorded_introduction_is_of_no_use() -> None:
    """Each side contributes a nonce of its own."""
    async with a_node() as node:
        reader, writer = await raw(node)
        nonce = bytes(16)
        writer.write(frame(FrameKind.HELLO, nonce + HERE.encode()))
        introduced = await reader.readexactly(local_links.HEAD.size + 16 + 32)
        nonces = nonce + introduced[local_links.HEAD.size :][:16]
        proof = NodeAuthenticator(SECRET, HERE).prove_link("caller", HERE, node, nonces)
        call = frame(FrameKind.CALL, a_request().SerializeToString())
        writer.write(frame(FrameKind.PROOF, proof) + call)
        assert await reader.readexactly(local_links.HEAD.size)
        writer.close()
        reader, writer = await raw(node)
        writer.write(frame(FrameKind.HELLO, nonce + HERE.encode()) + frame(FrameKind.PROOF, proof) + call)
        async with asyncio.timeout(5):
            assert len(await reader.read(10_000)) in (0, len(introduced))
            assert await reader.read(10_000) == b""
        writer.close()


async def test_those_who_prove_nothing_are_bounded_and_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_links, "MAX_UNPROVEN", 2)
    monkeypatch.setattr(local_links, "OPEN_TIMEOUT_S", 0.3)
    async with a_node() as node:
        opened = [await raw(node) for _ in range(3)]
        async with asyncio.timeout(5):
            assert [await reader.read(1) for reader, _ in opened] == [b"", b"", b""]
        async with a_link(node) as link:
            assert (await link.dispatch(a_request(), within_s=5)).reply.success
        for _, writer in opened:
            writer.close()


async def test_a_node_that_may_have_no_socket_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    node = NodeId("barred")
    server = LocalServer(NodeAuthenticator(SECRET, node), echo)
    with monkeypatch.context() as patch:
        patch.setattr(local_links.socket, "socket", refuse)
        await server.start()
    async with links_to(node) as links:
        assert await links.connect(node) is None
    await server.close(within_s=0)


class Held:
    """Answers nothing; knows what became of the calls."""

    def __init__(self) -> None:
        self.asked, self.cancelled = asyncio.Event(), asyncio.Event()

    async def answer(self, request: pb.DispatchRequest) -> pb.DispatchReply:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError


async def test_a_cancelled_call_is_cancelled_there() -> None:
    held = Held()
    async with asyncio.timeout(10), a_node(held.answer) as node, a_link(node) as link:
        call = asyncio.create_task(link.dispatch(a_request(), within_s=10))
        await held.asked.wait()
        call.cancel()
        await held.cancelled.wait()
        assert link.is_open


async def test_a_call_that_takes_too_long_is_lost_and_given_up_there() -> None:
    held = Held()
    async with asyncio.timeout(10), a_node(held.answer) as node, a_link(node) as link:
        with pytest.raises(LinkLost, match="DEADLINE"):
            await link.dispatch(a_request(), within_s=0.05)
        await held.cancelled.wait()


async def test_a_node_that_ends_loses_its_calls_at_once() -> None:
    held = Held()
    async with asyncio.timeout(10), links_to(NodeId("ending")) as links:
        server = LocalServer(NodeAuthenticator(SECRET, NodeId("ending")), held.answer)
        await server.start()
        link = await links.connect(NodeId("ending"))
        assert link is not None
        call = asyncio.create_task(link.dispatch(a_request(), within_s=10))
        await held.asked.wait()
        await server.close(within_s=0.05)
        with pytest.raises(LinkLost, match="NODE_GONE"):
            await call
        with pytest.raises(LinkLost, match="NODE_GONE"):
            await link.dispatch(a_request(), within_s=10)
        assert await links.connect(NodeId("ending")) is None


async def test_a_caller_that_ends_has_its_calls_cancelled_there() -> None:
    held = Held()
    async with asyncio.timeout(10), a_node(held.answer) as node:
        async with a_link(node) as link:
            call = asyncio.create_task(link.dispatch(a_request(), within_s=10))
            await held.asked.wait()
        with pytest.raises(LinkLost):
            await call
        await held.cancelled.wait()


async def test_a_node_that_hangs_is_found_out_and_one_that_works_long_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_links, "PING_INTERVAL_S", 0.05)

    async def answer(request: pb.DispatchRequest) -> pb.DispatchReply:
        await asyncio.sleep(0.5)
        return await echo(request)

    async with asyncio.timeout(10), a_node(answer) as node, a_link(node) as link:
        assert (await link.dispatch(a_request(), within_s=10)).reply.success
        monkeypatch.setattr(local_links.ServedLink, "receive", lambda *_: None)  # it reads, and never answers
        with pytest.raises(LinkLost, match="NODE_GONE"):
            await link.dispatch(a_request(), within_s=10)

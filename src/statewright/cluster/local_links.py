"""Callouts to processes of the same machine: frames over a Unix socket, a fraction of what a gRPC call costs.

Every node listens on an abstract Unix socket that is named by its id; the first callout to a member of such a node
opens a *link*, which all callouts from here to there share. Where that does not succeed (another network namespace,
another system, a node of an earlier version) callouts take the gRPC channel, as those to other machines do.

*Frames.* The length of the content (four bytes), the kind (one), the number of the call (eight), the content: the
messages of proto/cluster.proto. Frames that are sent in one turn of the loop leave in one system call.

*Authentication.* Both sides prove that they know the secret of the cluster, over both ids and a fresh nonce of each,
before the first call is read. No other process can read or change what a Unix socket carries.

*Losses.* A process that ended closes its links at once. One that hangs is found out by a ping that nothing answers.
"""

import asyncio
import hmac
import secrets
import socket
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Final, cast

from google.protobuf.message import DecodeError

from statewright.cluster.channels import MAX_MESSAGE_BYTES, NodeAuthenticator
from statewright.cluster.heartbeat import PeerTable
from statewright.ids import NodeId
from statewright.proto import cluster_pb2 as pb
from statewright.telemetry import logs

HEAD: Final = struct.Struct("!IBQ")

NONCE_BYTES: Final = 16

OPEN_TIMEOUT_S: Final = 2.0
"""For a link to be opened and proven."""

RETRY_AFTER_S: Final = 30.0
"""How long gRPC is used after a link could not be opened."""

PING_INTERVAL_S: Final = 5.0
"""While calls are open; a link on which nothing came from one ping to the next is given up."""

MAX_CALLS: Final = 10_000
"""Open calls of one link; beyond, nothing more is read from it."""

MAX_UNPROVEN: Final = 100
"""Connections that have not proven anything yet."""

MAX_INTRODUCTION_BYTES: Final = 256
"""Of a frame that opens a link: who has proven nothing takes next to no memory."""

AnswerCall = Callable[[pb.DispatchRequest], Awaitable[pb.DispatchReply]]

log = logs.logger(__name__)


class LinkLost(Exception):
    """The link ended, or the answer did not come in time. Whether the call was carried out is not known."""


class FrameKind(IntEnum):
    """What a frame is. ``HELLO`` and ``PROOF`` open a link and come once each."""

    HELLO = 0
    PROOF = 1
    CALL = 2
    REPLY = 3
    CANCEL = 4
    PING = 5
    PONG = 6


class FrameProtocol(asyncio.Protocol, ABC):
    """Frames of one connection; those that are not understood end it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._unsent: list[bytes] = []
        self._writable = asyncio.Event()
        self._writable.set()
        self._received = 0
        self._max_bytes = MAX_INTRODUCTION_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.Protocol`, as for the next three."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += 1
        self._unread += data
        start, end = 0, len(self._unread)
        reason: str | None = None
        with memoryview(self._unread) as unread:
            while end - start >= HEAD.size and reason is None:
                size, kind, number = HEAD.unpack_from(unread, start)
                after = start + HEAD.size + size
                if size > self._max_bytes:
                    reason = "frame too large"
                elif after > end:
                    break
                else:
                    reason = self.receive(kind, number, bytes(unread[start + HEAD.size : after]))
                    start = after
        if reason is not None:
            self.abort(reason)
        del self._unread[:start]

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._writable.set()  # whoever waits finds that the link is gone

    @abstractmethod
    def receive(self, kind: int, number: int, content: bytes) -> str | None:
        """Take a frame; a text says why the connection cannot go on."""

    def accept_messages(self) -> None:
        """The other side has proven who it is: its frames may be as large as messages."""
        self._max_bytes = MAX_MESSAGE_BYTES

    def send(self, kind: FrameKind, number: int = 0, content: bytes = b"") -> None:
        """Send a frame with all others of this turn of the loop."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent += (HEAD.pack(len(content), kind, number), content)

    def abort(self, reason: str) -> None:
        """End the connection and say why in the log."""
        if self._transport is not None:
            log.warning("local_link_ended", reason=reason)
            self._transport.abort()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None:
            self._transport.writelines(unsent)


class LocalLink(FrameProtocol):
    """The calls of this node to one other."""

    def __init__(self, authenticator: NodeAuthenticator, node: NodeId) -> None:
        super().__init__()
        self._authenticator = authenticator
        self._node = node
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._count = 0
        self._pinged_at = -1
        self._watch_timer: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] = self._loop.create_future()

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        return self._transport is not None and self._opened.done()

    async def wait_open(self) -> None:
        """Returns when both sides have proven who they are. Raises :class:`LinkLost`."""
        await self._opened

    async def dispatch(self, request: pb.DispatchRequest, *, within_s: float) -> pb.DispatchReply:
        """What the other node says of a callout. Raises :class:`LinkLost`."""
        content = request.SerializeToString()
        await self._writable.wait()
        if not self.is_open:
            raise LinkLost("NODE_GONE")
        self._count = number = self._count + 1
        answered: asyncio.Future[bytes] = self._loop.create_future()
        self._calls[number] = answered
        self.send(FrameKind.CALL, number, content)
        if self._watch_timer is None:
            self._pinged_at = -1
            self._watch_timer = self._loop.call_later(PING_INTERVAL_S, self._watch)
        deadline = self._loop.call_later(within_s, _fail, answered, LinkLost("DEADLINE_EXCEEDED"))
        try:
            return pb.DispatchReply.FromString(await answered)
        except (asyncio.CancelledError, LinkLost):
            self.send(FrameKind.CANCEL, number)
            raise
        except DecodeError as error:
            raise LinkLost("INVALID_REPLY") from error
        finally:
            deadline.cancel()
            del self._calls[number]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(FrameKind.HELLO, 0, self._nonce + self._authenticator.node.encode())

    def receive(self, kind: int, number: int, content: bytes) -> str | None:
        match kind:
            case FrameKind.REPLY:
                answered = self._calls.get(number)
                if answered is not None and not answered.done():
                    answered.set_result(content)
            case FrameKind.PONG:
                pass
            case FrameKind.HELLO if not self._opened.done():
                return self._prove(content)
            case _:
                return "frame not understood"
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._watch_timer is not None:
            self._watch_timer.cancel()
        _fail(self._opened, LinkLost("NODE_GONE"))
        for answered in self._calls.values():
            _fail(answered, LinkLost("NODE_GONE"))

    def _prove(self, content: bytes) -> str | None:
        nonces = self._nonce + content[:NONCE_BYTES]
        proof = self._authenticator.prove_link("called", self._authenticator.node, self._node, nonces)
        if not hmac.compare_digest(content[NONCE_BYTES:], proof):
            return "proof of the called node is wrong"
        own = self._authenticator.prove_link("caller", self._authenticator.node, self._node, nonces)
        self.send(FrameKind.PROOF, 0, own)
        self.accept_messages()
        self._opened.set_result(None)
        return None

    def _watch(self) -> None:
        self._watch_timer = None
        if not self._calls:
            return
        if self._pinged_at == self._received:
            self.abort("no answer to a ping")
            return
        self._pinged_at = self._received
        self.send(FrameKind.PING)
        self._watch_timer = self._loop.call_later(PING_INTERVAL_S, self._watch)


class LocalLinks:
    """The links of this node to others of its machine, each opened at its first call."""

    def __init__(self, peer_table: PeerTable, authenticator: NodeAuthenticator) -> None:
        self._peer_table = peer_table
        self._authenticator = authenticator
        self._open: dict[NodeId, LocalLink] = {}
        self._opening: dict[NodeId, asyncio.Task[LocalLink | None]] = {}
        self._failed_at: dict[NodeId, float] = {}

    async def connect(self, node: NodeId) -> LocalLink | None:
        """A link on which calls can be made; None where there is none, so that gRPC is to be used."""
        link = self._open.get(node)
        if link is not None and link.is_open:
            return link
        peer = self._peer_table.peers.get(node)
        if peer is None or not peer.is_local:
            return None
        loop = asyncio.get_running_loop()
        if loop.time() - self._failed_at.get(node, -RETRY_AFTER_S) < RETRY_AFTER_S:
            return None
        if node not in self._opening:
            task = self._opening[node] = loop.create_task(self._connect(node), name="open-local-link")
            task.add_done_callback(lambda _: self._opening.pop(node, None))
        return await asyncio.shield(self._opening[node])

    def drop(self, node: NodeId) -> None:
        """A node is gone: end its calls."""
        self._failed_at.pop(node, None)
        link = self._open.pop(node, None)
        if link is not None:
            link.close()

    def close(self) -> None:
        """End all."""
        for task in self._opening.values():
            task.cancel()
        for node in list(self._open):
            self.drop(node)

    async def _connect(self, node: NodeId) -> LocalLink | None:
        loop = asyncio.get_running_loop()
        link = LocalLink(self._authenticator, node)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await loop.create_unix_connection(lambda: link, sock=_connect(_build_address(node)))
                await link.wait_open()
        except (OSError, LinkLost) as error:
            link.close()
            self._failed_at[node] = loop.time()
            log.info("local_link_unavailable", node=node, error=repr(error))
            return None
        self._open[node] = link
        return link


class LocalServer:
    """Answers the calls of nodes of this machine."""

    def __init__(self, authenticator: NodeAuthenticator, answer: AnswerCall) -> None:
        self.authenticator = authenticator
        self.answer = answer
        self.served: set[ServedLink] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen, where there are abstract sockets and this process may have one; else callouts come by gRPC."""
        if sys.platform != "linux":
            return
        try:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(_build_address(self.authenticator.node))
        except OSError as error:
            log.info("local_links_unavailable", error=repr(error))
            return
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: ServedLink(self), sock=listener)

    async def close(self, *, within_s: float) -> None:
        """Take no more links, let calls end in time, and end what is left."""
        if self._server is not None:
            self._server.close()
        if tasks := [task for link in self.served for task in link.tasks.values()]:
            await asyncio.wait(tasks, timeout=within_s)
        for link in tuple(self.served):
            link.close()


class ServedLink(FrameProtocol):
    """The calls of one other node to this one."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__()
        self._server = server
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._expected = b""
        self.is_proven = False
        self.tasks: dict[int, asyncio.Task[None]] = {}
        """Calls without an answer, by number."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        served = self._server.served
        if sum(not link.is_proven for link in served) >= MAX_UNPROVEN:
            self.abort("too many connections that have proven nothing")
            return
        served.add(self)
        self._loop.call_later(OPEN_TIMEOUT_S, self._end_unproven)

    def receive(self, kind: int, number: int, content: bytes) -> str | None:
        match kind:
            case FrameKind.CALL if self.is_proven and number not in self.tasks:
                self.tasks[number] = self._loop.create_task(self._answer(number, content), name="local-call")
                if len(self.tasks) >= MAX_CALLS and self._transport is not None:
                    self._transport.pause_reading()
            case FrameKind.CANCEL if self.is_proven:
                if number in self.tasks:
                    self.tasks[number].cancel()
            case FrameKind.PING if self.is_proven:
                self.send(FrameKind.PONG)
            case FrameKind.HELLO if not self._expected:
                self._introduce(content)
            case FrameKind.PROOF if self._expected and hmac.compare_digest(content, self._expected):
                self.is_proven = True
                self.accept_messages()
            case _:
                return "frame not understood, or sent without a proof"
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._server.served.discard(self)
        for task in self.tasks.values():
            task.cancel()

    def _introduce(self, content: bytes) -> None:
        authenticator = self._server.authenticator
        caller, nonces = NodeId(content[NONCE_BYTES:].decode("latin-1")), content[:NONCE_BYTES] + self._nonce
        self._expected = authenticator.prove_link("caller", caller, authenticator.node, nonces)
        proof = authenticator.prove_link("called", caller, authenticator.node, nonces)
        self.send(FrameKind.HELLO, 0, self._nonce + proof)

    def _end_unproven(self) -> None:
        if not self.is_proven:
            self.abort("no proof in time")

    async def _answer(self, number: int, content: bytes) -> None:
        try:
            reply = await self._server.answer(pb.DispatchRequest.FromString(content))
            await self._writable.wait()
            self.send(FrameKind.REPLY, number, reply.SerializeToString())
        except DecodeError:
            self.abort("call not understood")
        finally:
            del self.tasks[number]
            if len(self.tasks) == MAX_CALLS - 1 and self._transport is not None:
                self._transport.resume_reading()


def _build_address(node: NodeId) -> str:
    return f"\0statewright-{node}"


def _connect(address: str) -> socket.socket:
    """A connected socket; that takes no time on one machine. Raises ``OSError``, also when many wait to be accepted."""
    connected = socket.socket(socket.AF_UNIX)
    connected.setblocking(False)
    try:
        connected.connect(address)
    except OSError:
        connected.close()
        raise
    return connected


def _fail(waiting: "asyncio.Future[bytes] | asyncio.Future[None]", error: LinkLost) -> None:
    if not waiting.done():
        waiting.set_exception(error)

"""HTTP requests that join a transaction of another node: sent to its owner as they come in, answered as it answers.

Nothing is held: parts of bodies go on as they arrive, in both directions, at the pace of the slower side. The owner's
limits on bodies apply. A client that goes away cancels the call, and the owner's work for it. An owner that is lost
before its answer began is 503 ``TRANSACTION_NODE_UNAVAILABLE``; after that the answer is torn.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

from statewright.cluster.channels import Channels, NodeUnknown, NodeUnreachable
from statewright.failures import TransactionNodeUnavailable
from statewright.ids import NodeId
from statewright.loop.background import is_cancelled
from statewright.proto import cluster_pb2 as pb
from statewright.proto.cluster_pb2_grpc import NodeStub
from statewright.telemetry import logs
from statewright.telemetry.tracing import TRACEPARENT, TRACESTATE, get_trace, list_trace_headers

Scope = MutableMapping[str, Any]  # Any: what an ASGI scope or message holds is the server's business
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
ProxyCall: TypeAlias = "grpc.aio.StreamStreamCall[pb.RelayRequest, pb.RelayResponse]"

RELAY_METHOD: Final = "/statewright.cluster.v1.Node/Relay"

REQUEST_ID: Final = b"x-request-id"

NOT_FORWARDED: Final = frozenset(
    {
        *(b"origin", b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"expect"),
        *(REQUEST_ID, TRACEPARENT.encode(), TRACESTATE.encode()),
    }
)
"""Headers of one connection, and of cross-origin requests (docs/reference/grpc.md#callbacks-to-other-nodes); the name
of the request, and its place in a trace, are sent as they are known here.
"""

MAX_BODY_PART_BYTES: Final = 256 * 1024

log = logs.logger(__name__)


class RelayAbandoned(Exception):
    """The client has gone, before its answer began."""


class RelayTorn(Exception):
    """The owner was lost after its answer had begun."""


class HttpProxy:
    """Sends requests to the owners of their transactions. ``limit``: longest wait for an answer to begin, zero: any."""

    def __init__(self, channels: Channels, *, limit: timedelta) -> None:
        self._channels = channels
        self._limit_s = limit.total_seconds() or None
        self.relayed = 0
        """Requests that other nodes were asked to answer."""

    async def forward(self, owner: NodeId, scope: Scope, receive: Receive, send: Send) -> int:
        """Have ``owner`` answer; the status, also of an answer whose client has gone meanwhile.

        Raises ``TransactionNodeUnavailable`` and ``RelayAbandoned`` while nothing was answered, then ``RelayTorn``.
        """
        call = await self._open_call(owner)
        self.relayed += 1
        pump = asyncio.create_task(_pump(call, _encode_head(scope), receive), name="relay")
        head: pb.ResponseHead | None = None
        try:
            async with asyncio.timeout(self._limit_s):
                part = await call.read()
            if not isinstance(part, pb.RelayResponse):
                raise build_unreachable()
            head = part.head
            await _send_response(call, part, send)
        except (grpc.aio.AioRpcError, TimeoutError, RelayTorn) as broken:
            if not _has_client_gone(pump):
                log.warning("relay_failed", node=owner, error=repr(broken)[:200])
                raise build_unreachable() if head is None else RelayTorn from broken
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            if not _has_client_gone(pump):  # the channel was closed because its node is gone
                raise build_unreachable() if head is None else RelayTorn from None
        finally:
            call.cancel()
            pump.cancel()
            with suppress(asyncio.CancelledError, Exception):  # its failure is that of the call
                await pump
        if head is None:
            raise RelayAbandoned
        return head.status

    async def _open_call(self, owner: NodeId) -> ProxyCall:
        channel = await connect_to_owner(owner, self._channels)
        return NodeStub(channel).Relay(metadata=self._channels.sign(owner, RELAY_METHOD))


async def connect_to_owner(owner: NodeId, channels: Channels) -> grpc.aio.Channel:
    """A connected channel to the node that owns a transaction. Raises ``TransactionNodeUnavailable``."""
    try:
        return await channels.connect(owner)
    except NodeUnknown as gone:
        raise TransactionNodeUnavailable("transaction node is not available") from gone
    except NodeUnreachable as away:
        raise build_unreachable() from away


def build_unreachable() -> TransactionNodeUnavailable:
    """The owner is said to live, and does not answer."""
    return TransactionNodeUnavailable("transaction node is unreachable")


def _encode_head(scope: Scope) -> pb.RequestHead:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return pb.RequestHead(
        method=scope["method"],
        path=raw.partition(b"?")[0],
        query=scope.get("query_string", b""),
        headers=[pb.Header(name=name, value=value) for name, value in _list_forwarded(scope)],
    )


def _list_forwarded(scope: Scope) -> Iterator[tuple[bytes, bytes]]:
    """The headers for the other node, and the name that the request has here: its log is to speak of the same one."""
    yield from ((name, value) for name, value in scope["headers"] if name not in NOT_FORWARDED)
    if (request_id := logs.get_request_id()) is not None:
        yield REQUEST_ID, request_id.encode()
    yield from ((name.encode(), value.encode()) for name, value in list_trace_headers(get_trace()))


def _has_client_gone(pump: asyncio.Task[None]) -> bool:
    """Whether it was the pump that cancelled the call: it ends with the client, or with the call."""
    return pump.done() and not pump.cancelled() and pump.exception() is None


def _cut_body(message: Message) -> Iterator[bytes]:
    """The body of a message in parts that calls carry: at least one, which may be empty."""
    body: bytes = message.get("body", b"")
    for start in range(0, len(body) or 1, MAX_BODY_PART_BYTES):
        yield body[start : start + MAX_BODY_PART_BYTES]


async def _pump(call: ProxyCall, head: pb.RequestHead | None, receive: Receive) -> None:
    """The request, part by part, then nothing until the client has gone, which cancels the call."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            call.cancel()
            return
        for part in _cut_body(message):
            if head is not None or part:
                await call.write(pb.RelayRequest(head=head, body=part))
            head = None
        if not message.get("more_body"):
            break
    await call.done_writing()
    while (await receive())["type"] != "http.disconnect":
        pass
    call.cancel()


async def _send_response(call: ProxyCall, part: pb.RelayResponse, send: Send) -> None:
    """Pass the owner's answer on. Raises ``RelayTorn`` where its end does not come."""
    headers = [(header.name, header.value) for header in part.head.headers]
    await send({"type": "http.response.start", "status": part.head.status, "headers": headers})
    following: object = part
    while isinstance(following, pb.RelayResponse):
        if following.body:
            await send({"type": "http.response.body", "body": following.body, "more_body": True})
        following = await call.read()
    if await call.code() is not grpc.StatusCode.OK:
        raise RelayTorn
    await send({"type": "http.response.body", "body": b""})


async def serve_proxied_request(
    application: Application,
    requests: AsyncIterator[pb.RelayRequest],
    write: Callable[[pb.RelayResponse], Awaitable[None]],
) -> None:
    """Answer a request that another node relays, by the service of this one."""
    first = await anext(requests, None)
    if first is None:
        return
    incoming = _RequestMessages(first, requests)
    outgoing = _ResponseMessages(write)
    scope = _build_scope(first.head)
    mark = logs.RequestMark(dict(scope["headers"]).get(REQUEST_ID, b"").decode("latin-1"))
    logs.request_mark.set(mark)
    try:
        await application(scope, incoming.receive, outgoing.send)
    finally:
        mark.id = None


def _build_scope(head: pb.RequestHead) -> Scope:
    path = head.path
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": head.method,
        "path": path.decode("latin-1"),
        "raw_path": path,
        "query_string": head.query,
        "root_path": "",
        "headers": [(header.name, header.value) for header in head.headers],
        "client": None,
        "server": None,
    }


class _RequestMessages:
    """A relayed request as ASGI messages. Its client is gone when the call is cancelled, which cancels the handler."""

    def __init__(self, first: pb.RelayRequest, requests: AsyncIterator[pb.RelayRequest]) -> None:
        self._next: pb.RelayRequest | None = first
        self._requests = requests
        self._ended = False

    async def receive(self) -> Message:
        if self._ended:
            await asyncio.get_running_loop().create_future()  # until the handler is cancelled
        held = self._next if self._next is not None else await anext(self._requests, None)
        following = await anext(self._requests, None) if held is not None else None
        self._next, self._ended = following, following is None
        return {
            "type": "http.request",
            "body": held.body if held is not None else b"",
            "more_body": following is not None,
        }


class _ResponseMessages:
    """ASGI messages as the answer to a relayed request."""

    def __init__(self, write: Callable[[pb.RelayResponse], Awaitable[None]]) -> None:
        self._write = write
        self._head: pb.ResponseHead | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [pb.Header(name=name, value=value) for name, value in message.get("headers", ())]
            self._head = pb.ResponseHead(status=message["status"], headers=headers)
            return
        for part in _cut_body(message):
            if self._head is not None or part:
                await self._write(pb.RelayResponse(head=self._head, body=part))
            self._head = None

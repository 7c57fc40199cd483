"""Calls to other nodes: one gRPC channel to each, opened at the first call and closed when the node is gone.

Closing a channel cancels the calls on it, so no caller waits for a node that has lost its lease. Callouts and their
outcomes travel as proto/cluster.proto says.

*Authentication.* Nodes prove to each other that they belong together. Every call between nodes carries who calls, a
number, and an HMAC-SHA256 over both, the method and the node that is called. The key is derived from the secret that
all nodes share and is never sent. A node's id is new for every start, and each caller counts its calls to each node, so
a proof is good once and at one place; no clocks are compared.

The content of a call is not covered: where others could change packets between nodes, these need a network of their own
(docs/cluster.md).
"""

import asyncio
import hmac
from collections.abc import Collection, Iterable
from typing import Final, Literal, cast

import grpc
import grpc.aio
from msgspec import UNSET

from statewright.cluster.heartbeat import PeerTable, RemoteMember
from statewright.compute.callout import (
    Callout,
    CalloutKind,
    CalloutResult,
    CalloutTimeout,
    member_lost_failure,
    no_member_failure,
)
from statewright.entity import Principal, PrincipalKind
from statewright.failures import ComputeMemberDisconnected, DispatchTimeout, Failure, NoComputeMember, WorkflowFailed
from statewright.ids import NodeId, TenantId
from statewright.jsonval.codec import decode, encode
from statewright.proto import cluster_pb2 as pb
from statewright.telemetry.tracing import parse_trace

CALLER_KEY: Final = "statewright-node"
NUMBER_KEY: Final = "statewright-call"
PROOF_KEY: Final = "statewright-proof"

REPLAY_WINDOW_SIZE: Final = 4096
"""Calls of one caller may overtake each other by so many."""

MAX_CALLERS: Final = 1000
"""Nodes, dead ones included, whose calls are remembered; the ones heard of first are forgotten first."""

Metadata = tuple[tuple[str, str], ...]


class NodeAuthenticator:
    """Signs the calls of this node and checks those of others. ``secret`` is that of the cluster."""

    def __init__(self, secret: bytes, node: NodeId) -> None:
        self._key = hmac.digest(secret, b"statewright channel between nodes", "sha256")
        self.node = node
        self._sent: dict[NodeId, int] = {}
        self._replay_windows: dict[NodeId, ReplayWindow] = {}

    def sign(self, called: NodeId, method: str) -> Metadata:
        """What a call of ``method`` on the node ``called`` must carry."""
        number = self._sent[called] = self._sent.get(called, 0) + 1
        proof = self._compute_proof(self.node, called, method, number)
        return (CALLER_KEY, self.node), (NUMBER_KEY, str(number)), (PROOF_KEY, proof)

    def accepts(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> bool:
        """Whether a call comes from a node of this cluster, is meant for this node, and comes for the first time."""
        given = {key: value for key, value in metadata if isinstance(value, str)}
        caller, text = NodeId(given.get(CALLER_KEY, "")), given.get(NUMBER_KEY, "")
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            return False
        expected = self._compute_proof(caller, self.node, method, int(text))
        if not hmac.compare_digest(given.get(PROOF_KEY, "").encode(), expected.encode()):
            return False
        if caller not in self._replay_windows and len(self._replay_windows) >= MAX_CALLERS:
            del self._replay_windows[next(iter(self._replay_windows))]
        return self._replay_windows.setdefault(caller, ReplayWindow()).is_new(int(text))

    def prove_link(self, side: Literal["caller", "called"], caller: NodeId, called: NodeId, nonces: bytes) -> bytes:
        """The proof of one side of a local link; ``nonces`` are those of the caller and the called."""
        return self._digest("link", side, caller, called, nonces.hex())

    def _compute_proof(self, caller: NodeId, called: NodeId, method: str, number: int) -> str:
        return self._digest(caller, called, method, str(number)).hex()

    def _digest(self, *texts: str) -> bytes:
        return hmac.digest(self._key, "\0".join(texts).encode(), "sha256")


class ReplayWindow:
    """The numbers of one caller's calls."""

    def __init__(self) -> None:
        self._highest = 0
        self._recent: set[int] = set()

    def is_new(self, number: int) -> bool:
        """Whether the number comes for the first time; one that is too old to tell counts as repeated."""
        if number <= self._highest - REPLAY_WINDOW_SIZE or number in self._recent:
            return False
        self._recent.add(number)
        self._highest = max(self._highest, number)
        if len(self._recent) > 2 * REPLAY_WINDOW_SIZE:
            self._recent = {seen for seen in self._recent if seen > self._highest - REPLAY_WINDOW_SIZE}
        return True


MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""A callout carries a document of 10 MiB at most, twice as large as text within text."""

CHANNEL_OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
]

CONNECT_TIMEOUT_S: Final = 2.0

REFRESH_TIMEOUT_S: Final = 1.0


class NodeUnreachable(Exception):
    """There is no connection to a node. Nothing was sent."""


class NodeUnknown(NodeUnreachable):
    """There is no such node, or it is no more."""


class Channels:
    """The channels of this node."""

    def __init__(self, peer_table: PeerTable, authenticator: NodeAuthenticator) -> None:
        self._peer_table = peer_table
        self._authenticator = authenticator
        self._open: dict[NodeId, tuple[str, grpc.aio.Channel]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def connect(self, node: NodeId) -> grpc.aio.Channel:
        """A channel with a connection. Raises :class:`NodeUnreachable`.

        One who is unknown may have come just now, so the database is looked at first.
        """
        if node not in self._peer_table.peers:
            await self._peer_table.refresh(within_s=REFRESH_TIMEOUT_S)
        channel = self._get_channel(node)
        if channel.get_state() is grpc.ChannelConnectivity.READY:
            return channel
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await _wait_connected(channel)
        except (TimeoutError, grpc.aio.UsageError) as late:
            raise NodeUnreachable(node) from late
        return channel

    def _get_channel(self, node: NodeId) -> grpc.aio.Channel:
        peer = self._peer_table.peers.get(node)
        if peer is None:
            raise NodeUnknown(node)
        held = self._open.get(node)
        if held is not None and held[0] == peer.address:
            return held[1]
        if held is not None:
            self.drop(node)
        channel = grpc.aio.insecure_channel(peer.address, options=CHANNEL_OPTIONS)
        self._open[node] = peer.address, channel
        return channel

    def sign(self, node: NodeId, method: str) -> tuple[tuple[str, str], ...]:
        """The metadata that lets a call of ``method`` in."""
        return self._authenticator.sign(node, method)

    def drop(self, node: NodeId) -> None:
        """A node is gone: end its calls."""
        held = self._open.pop(node, None)
        if held is not None:
            task = asyncio.get_running_loop().create_task(held[1].close(), name="close-channel")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End all."""
        for node in list(self._open):
            self.drop(node)
        if self._closing:
            await asyncio.wait(set(self._closing))


async def _wait_connected(channel: grpc.aio.Channel) -> None:
    """Returns with a connection; the first failed attempt raises ``TimeoutError``, since the node should be there."""
    while True:
        state = channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.READY:
            return
        if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            raise TimeoutError
        await channel.wait_for_state_change(state)


def encode_callout(callout: Callout, avoiding: Collection[str]) -> pb.DispatchRequest:
    """A callout for the members of another node."""
    principal = callout.principal
    return pb.DispatchRequest(
        kind=callout.kind,
        request_id=callout.request_id,
        name=callout.name,
        tags=callout.tags,
        tags_text=callout.tags_text,
        timeout_ms=callout.timeout_ms,
        entity_id=callout.entity_id,
        workflow=callout.workflow,
        transition=callout.transition,
        state_from=callout.state_from,
        state_to=callout.state_to,
        target=callout.target,
        transaction_id=callout.transaction_id,
        parameters=callout.parameters,
        payload=callout.payload,
        principal=pb.Principal(
            id=principal.id,
            name=principal.name,
            kind=principal.kind,
            tenant=callout.tenant,
            tenant_name=principal.tenant_name,
            roles=principal.roles,
        ),
        tx_token=callout.tx_token,
        avoiding=avoiding,
        has_secrets=callout.has_secrets,
        traceparent=None if callout.trace is None else callout.trace.traceparent,
        tracestate=None if callout.trace is None else callout.trace.state or None,
    )


def decode_callout(request: pb.DispatchRequest) -> Callout:
    """The callout that another node sends. It was made by a node of this cluster, so its words are trusted."""
    principal = request.principal
    tenant = TenantId(principal.tenant)
    return Callout(
        kind=cast("CalloutKind", request.kind),
        request_id=request.request_id,
        tenant=tenant,
        name=request.name,
        tags=tuple(request.tags),
        tags_text=request.tags_text,
        timeout_ms=request.timeout_ms,
        entity_id=request.entity_id,
        workflow=request.workflow,
        transition=request.transition,
        state_from=request.state_from,
        state_to=request.state_to,
        target=request.target,
        transaction_id=request.transaction_id,
        parameters=request.parameters,
        payload=request.payload if request.HasField("payload") else None,
        principal=Principal(
            id=principal.id,
            name=principal.name,
            kind=cast("PrincipalKind", principal.kind),
            tenant=tenant,
            tenant_name=principal.tenant_name,
            roles=tuple(principal.roles),
        ),
        tx_token=request.tx_token if request.HasField("tx_token") else None,
        has_secrets=request.has_secrets,
        trace=parse_trace(request.traceparent, request.tracestate) if request.traceparent else None,
    )


def encode_result(result: CalloutResult) -> pb.DispatchReply:
    """What a member replied."""
    message = pb.MemberReply(
        success=result.success,
        error=result.error,
        final=not result.retryable,
        warnings=result.warnings,
        data=None if result.data is UNSET else result.data,
        matches=result.matches,
        reason=result.reason,
        result=encode(result.result),
        result_kind=result.result_kind,
    )
    return pb.DispatchReply(reply=message)


def encode_failure(failure: Failure) -> pb.DispatchReply:
    """What became of a callout that no member replied to."""
    message = pb.MemberFailure(message=failure.message)
    match failure:
        case NoComputeMember():
            message.kind = pb.MemberFailure.NO_MEMBER
        case CalloutTimeout():
            message.kind, message.member_id, message.written = (
                pb.MemberFailure.TIMEOUT,
                failure.member_id,
                failure.written,
            )
        case DispatchTimeout():
            message.kind, message.written = pb.MemberFailure.TIMEOUT, True
        case ComputeMemberDisconnected():
            message.kind, message.written = pb.MemberFailure.DISCONNECTED, failure.written
            message.member_id = failure.member_id
        case _:
            message.kind = pb.MemberFailure.OTHER
    return pb.DispatchReply(failure=message)


def decode_result(answer: pb.DispatchReply, callout: Callout, member: RemoteMember) -> CalloutResult:
    """The reply that another node brought. Raises what its dispatcher raised."""
    if not answer.HasField("reply"):
        raise _decode_failure(answer.failure, callout, member)
    reply = answer.reply
    return CalloutResult(
        success=reply.success,
        error=reply.error if reply.HasField("error") else None,
        retryable=not reply.final,
        warnings=tuple(reply.warnings),
        data=reply.data if reply.HasField("data") else UNSET,
        matches=reply.matches,
        reason=reply.reason if reply.HasField("reason") else None,
        result=decode(reply.result) if reply.result else None,
        result_kind=reply.result_kind if reply.HasField("result_kind") else None,
        member_id="" if reply.success else member.id,
    )


def _decode_failure(message: pb.MemberFailure, callout: Callout, member: RemoteMember) -> Failure:
    if message.kind == pb.MemberFailure.NO_MEMBER:
        return no_member_failure(callout)
    if message.kind == pb.MemberFailure.TIMEOUT:
        return CalloutTimeout(callout, member_id=message.member_id or member.id, written=message.written)
    if message.kind == pb.MemberFailure.DISCONNECTED:
        return member_lost_failure(callout, written=message.written, member_id=message.member_id or member.id)
    return WorkflowFailed(message.message)

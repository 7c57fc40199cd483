"""Calls to other nodes: one gRPC channel to each, opened at the first call and closed when the node is gone.

Closing a channel cancels the calls on it, so no caller waits for a node that has lost its lease.
"""

import asyncio
from typing import Final

import grpc
import grpc.aio

from statewright.cluster.authentication import NodeAuthenticator
from statewright.cluster.peer_table import PeerTable
from statewright.ids import NodeId

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

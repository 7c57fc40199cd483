"""This process as a node: everything it needs for the others, put together.

The gRPC server for other nodes listens on an address that no client needs to reach. Every call must prove that it comes
from a node of this cluster (``channels``). The requests of clients that come through here are authenticated all the
same, by their own credentials: knowing the secret makes no caller a principal.

Calculation members can be let go from here, whatever node they are connected to
(docs/reference/operations.md#draining-a-member).
"""

import asyncio
import os
import platform
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
from msgspec import Struct
from msgspec.structs import replace

from grpc_h2 import CallRefused, Incidents, Limits, PortLoad, RequestHeaders, Server
from statewright.cluster.channels import (
    MAX_MESSAGE_BYTES,
    Channels,
    NodeAuthenticator,
    NodeUnreachable,
    decode_callout,
    encode_failure,
    encode_result,
)
from statewright.cluster.forwarding import ClusterDispatcher
from statewright.cluster.heartbeat import Heartbeat, PeerTable, start_heartbeat
from statewright.cluster.http_proxy import Application, HttpProxy, serve_proxied_request
from statewright.cluster.local_links import LocalLinks, LocalServer
from statewright.compute.members import Dispatcher, Members
from statewright.failures import ComputeMemberDisconnected, Failure, MemberNotFound
from statewright.ids import NodeId, TenantId
from statewright.loop.deadlines import Lease
from statewright.network.sockets import bind_watched_socket
from statewright.proto import cluster_pb2 as pb
from statewright.proto.cluster_pb2_grpc import NodeServicer, NodeStub, add_NodeServicer_to_server
from statewright.storage.connections import DatabaseUrl
from statewright.storage.nodes import NodeRow, load_cluster_key
from statewright.telemetry import logs

LIMITS: Final = Limits(
    message_bytes=MAX_MESSAGE_BYTES,
    concurrent_calls=10_000,
    connection_bytes=8 * MAX_MESSAGE_BYTES,
    port_bytes=16 * MAX_MESSAGE_BYTES,
    idle_timeout_s=3600.0,
)
"""All callouts and requests of one node share a connection, and nodes trust each other."""

STOP_GRACE_S: Final = 1.0

RegisterServices = Callable[[grpc.aio.Server], None]


class NodeService(NodeServicer):
    """What other nodes ask of this one."""

    def __init__(self, dispatcher: Dispatcher, members: Members) -> None:
        self._dispatcher = dispatcher
        self._members = members
        self.application: Application | None = None
        """Answers HTTP requests; None until the service is there."""

    async def Dispatch(  # noqa: N802 - the name in the proto file
        self, request: pb.DispatchRequest, context: "grpc.aio.ServicerContext[pb.DispatchRequest, pb.DispatchReply]", /
    ) -> pb.DispatchReply:
        return await self.answer_callout(request)

    async def answer_callout(self, request: pb.DispatchRequest) -> pb.DispatchReply:
        """What becomes of a callout of another node."""
        try:
            return encode_result(await self._dispatcher.dispatch(decode_callout(request), avoiding=request.avoiding))
        except Failure as failure:
            return encode_failure(failure)

    async def Drain(  # noqa: N802
        self, request: pb.DrainRequest, context: "grpc.aio.ServicerContext[pb.DrainRequest, pb.DrainReply]", /
    ) -> pb.DrainReply:
        member = self._members.drain_member(
            TenantId(request.tenant), request.member_id, within_s=request.within_ms / 1000
        )
        return pb.DrainReply(found=member is not None)

    async def Relay(  # noqa: N802 - the name in the proto file
        self,
        request: AsyncIterator[pb.RelayRequest],
        context: "grpc.aio.ServicerContext[pb.RelayRequest, pb.RelayResponse]",
        /,
    ) -> None:
        if self.application is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not ready")
        await serve_proxied_request(self.application, request, context.write)


NOT_PROVEN: Final = "not proven to come from a node of this service: is STATEWRIGHT_HMAC_SECRET the same on all?"


def build_node_server(
    service: NodeService, authenticator: NodeAuthenticator, register_services: RegisterServices, connections: int
) -> Server:
    """A server for other nodes. ``register_services`` adds services that answer clients of other nodes."""
    incidents = Incidents(logs.logger("grpc_h2"))

    def authorize(call: RequestHeaders, peer: str) -> None:
        if not authenticator.accepts(call.path, call.metadata):
            incidents.report("node_refused", is_warning=True, method=call.path, peer=peer)
            raise CallRefused(grpc.StatusCode.UNAUTHENTICATED, NOT_PROVEN)

    server = Server(replace(LIMITS, connections=connections), authorize=authorize, incidents=incidents)
    add_NodeServicer_to_server(service, server)
    register_services(server)
    return server


DRAIN_METHOD: Final = "/statewright.cluster.v1.Node/Drain"

TIMEOUT_S: Final = 5.0

log = logs.logger(__name__)


class MemberDrains:
    """Lets members go."""

    def __init__(self, node: NodeId, members: Members, channels: Channels) -> None:
        self._node = node
        self._members = members
        self._channels = channels

    async def drain(self, tenant: TenantId, node: NodeId, member_id: str, *, within: timedelta) -> None:
        """From the return on the member is sent nothing; its stream ends when it is idle, at the latest ``within``.

        Raises ``MemberNotFound``, and ``ComputeMemberDisconnected`` when its node does not answer: it may be drained
        all the same.
        """
        if node == self._node:
            is_found = self._members.drain_member(tenant, member_id, within_s=within.total_seconds()) is not None
        else:
            is_found = await self._ask(tenant, node, member_id, within)
        if not is_found:
            raise MemberNotFound

    async def _ask(self, tenant: TenantId, node: NodeId, member_id: str, within: timedelta) -> bool:
        request = pb.DrainRequest(tenant=tenant, member_id=member_id, within_ms=within // timedelta(milliseconds=1))
        try:
            stub = NodeStub(await self._channels.connect(node))
            reply = await stub.Drain(request, timeout=TIMEOUT_S, metadata=self._channels.sign(node, DRAIN_METHOD))
        except (NodeUnreachable, grpc.aio.AioRpcError) as broken:
            log.warning("member_drain_failed", node=node, member=member_id, error=repr(broken))
            raise ComputeMemberDisconnected("the node of the member does not answer") from broken
        return bool(reply.found)


BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class NodeConfig(Struct, frozen=True, kw_only=True):
    """Where and as what a node is present, and how long it lets others wait.

    ``host`` is where the others reach it, ``bind`` where it listens, on the first free one of ``ports``. ``secret``
    None: the database keeps one.
    """

    name: str
    program: str
    bind: str
    ports: tuple[int, ...]
    host: str
    lease: timedelta
    secret: bytes | None
    dispatch_wait: timedelta
    dispatch_limit: timedelta
    relay_limit: timedelta
    within: timedelta


class ClusterNode:
    """A node. Until :meth:`open` it is alone; it says goodbye at the end of :func:`open_cluster_node`."""

    def __init__(self, config: NodeConfig, database: DatabaseUrl, secret: bytes, members: Members) -> None:
        self.id = NodeId(secrets.token_hex(12))
        self.name = config.name or f"{socket.gethostname()}:{os.getpid()}"
        self.secret = secret
        """Signs transaction tokens. Never to be logged."""
        self.presence = Lease()
        """As long as the others can take it for alive."""
        self.peer_table = PeerTable()
        self._config = config
        self._database = database
        self.members = members
        self._authenticator = NodeAuthenticator(secret, self.id)
        self.channels = Channels(self.peer_table, self._authenticator)
        self._links = LocalLinks(self.peer_table, self._authenticator)
        self.local = Dispatcher(members)
        self.callouts = ClusterDispatcher(
            self.local,
            members,
            self.peer_table,
            self.channels,
            self._links,
            wait=config.dispatch_wait,
            limit=config.dispatch_limit,
        )
        self.drains = MemberDrains(self.id, members, self.channels)
        self.http_proxy = HttpProxy(self.channels, limit=config.relay_limit)
        self._service = NodeService(self.local, members)
        self._local_server = LocalServer(self._authenticator, self._service.answer_callout)
        self._server: Server | None = None
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_task: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the others can take it for alive."""
        return asyncio.get_running_loop().time() < self.presence.until

    def get_port_load(self) -> PortLoad | None:
        """What other nodes take of this one at the moment; None before it is open."""
        return self._server.load if self._server is not None else None

    async def open(self, application: Application, register_services: RegisterServices, *, connections: int) -> None:
        """Let the others in and be seen. ``application`` answers relayed HTTP requests, ``register_services`` adds
        those for clients of other nodes, and there may be so many ``connections``.

        Raises ``OSError`` and ``TimeoutError``.
        """
        self._service.application = application
        server = build_node_server(self._service, self._authenticator, register_services, connections)
        port = self._listen(server)
        await server.start()
        self._server = server
        await self._local_server.start()
        self._heartbeat = Heartbeat(
            self._build_row(port),
            self._database,
            self.members,
            self.peer_table,
            lease=self._config.lease,
            presence=self.presence,
            on_gone=self._drop_peer,
        )
        self._heartbeat_task = await start_heartbeat(self._heartbeat, within=self._config.within)

    def drain(self) -> None:
        """This node is about to stop: no new callouts from others."""
        if self._heartbeat is not None:
            self._heartbeat.drain()

    async def close(self) -> None:
        """Say goodbye, and end what is still open between nodes."""
        if self._heartbeat_task is not None and self._heartbeat is not None:
            self._heartbeat_task.cancel()
            await asyncio.wait([self._heartbeat_task])
            await self._heartbeat.leave()
        if self._server is not None:
            await asyncio.gather(self._server.stop(STOP_GRACE_S), self._local_server.close(within_s=STOP_GRACE_S))
        self._links.close()
        await self.channels.close()

    def _drop_peer(self, node: NodeId) -> None:
        self._links.drop(node)
        self.channels.drop(node)

    def _listen(self, server: Server) -> int:
        """The port, the first free one. Raises ``OSError``."""
        *others, last = self._config.ports
        for port in others:
            with suppress(OSError):
                return server.add_socket(bind_watched_socket(self._config.bind.strip("[]"), port))
        return server.add_socket(bind_watched_socket(self._config.bind.strip("[]"), last))

    def _build_row(self, port: int) -> NodeRow:
        host = self._config.host or self._config.bind
        return NodeRow(
            id=self.id,
            name=self.name,
            address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            machine=_identify_machine(),
            program=self._config.program,
            draining=False,
            revision=-1,
        )


@asynccontextmanager
async def open_cluster_node(config: NodeConfig, database: DatabaseUrl, members: Members) -> AsyncIterator[ClusterNode]:
    """A node for the length of the block, which opens it when it can serve.

    Raises ``StorageUnavailable`` and ``TimeoutError``.
    """
    secret = config.secret or await load_cluster_key(database, config.within)
    node = ClusterNode(config, database, secret, members)
    try:
        yield node
    finally:
        await node.close()


def _identify_machine() -> str:
    """Tells whether two processes share a loopback interface, as far as that can be told."""
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    return f"{platform.node()} {boot}".strip()

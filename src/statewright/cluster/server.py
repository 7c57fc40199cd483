"""The gRPC server for other nodes, on an address that no client needs to reach.

Every call must prove that it comes from a node of this cluster (``authentication``). The requests of clients that come
through here are authenticated all the same, by their own credentials: knowing the secret makes no caller a principal.
"""

from collections.abc import AsyncIterator, Callable
from typing import Final

import grpc
import grpc.aio
from msgspec.structs import replace

from statewright.cluster.authentication import NodeAuthenticator
from statewright.cluster.channels import MAX_MESSAGE_BYTES
from statewright.cluster.http_proxy import Application, serve_proxied_request
from statewright.cluster.wire import decode_callout, encode_failure, encode_result
from statewright.compute.dispatch import Dispatcher
from statewright.compute.members import Members
from statewright.failures import Failure
from statewright.ids import TenantId
from statewright.proto import cluster_pb2 as pb
from statewright.proto.cluster_pb2_grpc import NodeServicer, add_NodeServicer_to_server
from statewright.rpc.headers import CallRefused, RequestHeaders
from statewright.rpc.http2 import Limits
from statewright.rpc.incidents import Incidents
from statewright.rpc.server import PortLoad, Server

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


class NodeServer:
    """A server that listens."""

    def __init__(self, server: Server, port: int) -> None:
        self._server = server
        self.port = port

    @property
    def load(self) -> PortLoad:
        """What other nodes take at the moment."""
        return self._server.load

    async def stop(self) -> None:
        """Let calls finish for a moment, then cut them off."""
        await self._server.stop(STOP_GRACE_S)


async def start_node_server(
    service: NodeService,
    authenticator: NodeAuthenticator,
    register_services: RegisterServices,
    *,
    host: str,
    port: int,
    connections: int,
) -> NodeServer:
    """Listens for other nodes. ``register_services`` adds services that answer clients of other nodes.

    Raises ``OSError``.
    """

    incidents = Incidents()

    def authorize(call: RequestHeaders, peer: str) -> None:
        if not authenticator.accepts(call.path, call.metadata):
            incidents.report("node_refused", is_warning=True, method=call.path, peer=peer)
            raise CallRefused(grpc.StatusCode.UNAUTHENTICATED, "forbidden")

    server = Server(replace(LIMITS, connections=connections), authorize=authorize, incidents=incidents)
    add_NodeServicer_to_server(service, server)
    register_services(server)
    bound = server.add_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    await server.start()
    return NodeServer(server, bound)

"""The door for other nodes: a gRPC server of its own, on an address that no client needs to reach.

Every call must prove that it comes from a node of this cluster (``proof``). The requests of clients that come through
here are authenticated all the same, by their own credentials: knowing the secret makes nobody a principal.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, TypeVar, cast

import grpc
import grpc.aio

from statewright import logs
from statewright.cluster.channels import MAX_MESSAGE_BYTES
from statewright.cluster.proof import Prover
from statewright.cluster.relay import Application, relayed
from statewright.cluster.wire import answer_of, callout_of, refusal_of
from statewright.compute.dispatch import Dispatcher
from statewright.failures import Failure
from statewright.proto import cluster_pb2 as pb
from statewright.proto.cluster_pb2_grpc import NodeServicer, add_NodeServicer_to_server

OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
    ("grpc.so_reuseport", 0),
]

FAREWELL_S: Final = 1.0

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

Register = Callable[[grpc.aio.Server], None]

log = logs.logger("cluster")


class NodeDoor(NodeServicer):
    """What other nodes ask of this one."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.application: Application | None = None
        """Answers HTTP requests; None until the service is there."""

    async def Dispatch(  # noqa: N802 - the name in the proto file
        self, request: pb.DispatchRequest, context: "grpc.aio.ServicerContext[pb.DispatchRequest, pb.DispatchReply]", /
    ) -> pb.DispatchReply:
        try:
            return answer_of(await self._dispatcher.dispatch(callout_of(request), avoiding=request.avoiding))
        except Failure as failure:
            return refusal_of(failure)

    async def Relay(  # noqa: N802 - the name in the proto file
        self,
        request: AsyncIterator[pb.RelayRequest],
        context: "grpc.aio.ServicerContext[pb.RelayRequest, pb.RelayResponse]",
        /,
    ) -> None:
        if self.application is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not ready")
        await relayed(self.application, request, context.write)


class OnlyNodes(grpc.aio.ServerInterceptor):
    """Lets nobody in who cannot prove to be a node of this cluster."""

    def __init__(self, prover: Prover) -> None:
        self._prover = prover

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["grpc.RpcMethodHandler[RequestT, ReplyT] | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[RequestT, ReplyT] | None":
        metadata = handler_call_details.invocation_metadata or ()
        if self._prover.accepts(handler_call_details.method, metadata):
            return await continuation(handler_call_details)
        log.warning("node_refused", method=handler_call_details.method)
        return cast("grpc.RpcMethodHandler[RequestT, ReplyT]", _REFUSAL)  # it looks at no message


async def _refuse(_requests: object, context: "grpc.aio.ServicerContext[object, object]") -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "forbidden")


_REFUSAL: "grpc.RpcMethodHandler[object, object]" = grpc.stream_stream_rpc_method_handler(
    cast("Callable[..., Iterator[object]]", _refuse)
)
"""For any method: on the wire all are streams of messages. The types know only synchronous handlers."""


class NodeServer:
    """A listening door."""

    def __init__(self, server: grpc.aio.Server, port: int) -> None:
        self._server = server
        self.port = port

    async def stop(self) -> None:
        """Let calls finish for a moment, then cut them off."""
        await self._server.stop(FAREWELL_S)


async def listen(door: NodeDoor, prover: Prover, others: Register, *, host: str, port: int) -> NodeServer:
    """Opens the door. ``others`` adds services that answer clients of other nodes. Raises ``OSError``."""
    server = grpc.aio.server(interceptors=[OnlyNodes(prover)], options=OPTIONS)
    add_NodeServicer_to_server(door, server)
    others(server)
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        bound = server.add_insecure_port(place)
    except RuntimeError as error:
        raise OSError(f"cannot listen on {place}") from error
    await server.start()
    return NodeServer(server, bound)

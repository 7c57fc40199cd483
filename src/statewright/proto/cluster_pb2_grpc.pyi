from collections.abc import AsyncIterable, AsyncIterator, Awaitable

import grpc.aio

from statewright.proto import cluster_pb2

class NodeStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    Dispatch: grpc.aio.UnaryUnaryMultiCallable[cluster_pb2.DispatchRequest, cluster_pb2.DispatchReply]
    Relay: grpc.aio.StreamStreamMultiCallable[cluster_pb2.RelayRequest, cluster_pb2.RelayResponse]
    Drain: grpc.aio.UnaryUnaryMultiCallable[cluster_pb2.DrainRequest, cluster_pb2.DrainReply]

class NodeServicer:
    def Dispatch(self, request: cluster_pb2.DispatchRequest, context: grpc.aio.ServicerContext[cluster_pb2.DispatchRequest, cluster_pb2.DispatchReply], /) -> Awaitable[cluster_pb2.DispatchReply]: ...
    def Relay(self, request: AsyncIterator[cluster_pb2.RelayRequest], context: grpc.aio.ServicerContext[cluster_pb2.RelayRequest, cluster_pb2.RelayResponse], /) -> AsyncIterable[cluster_pb2.RelayResponse] | Awaitable[None]: ...
    def Drain(self, request: cluster_pb2.DrainRequest, context: grpc.aio.ServicerContext[cluster_pb2.DrainRequest, cluster_pb2.DrainReply], /) -> Awaitable[cluster_pb2.DrainReply]: ...

def add_NodeServicer_to_server(
    servicer: NodeServicer, server: grpc.aio.Server
) -> None: ...

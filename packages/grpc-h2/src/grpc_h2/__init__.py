"""gRPC over HTTP/2 for servicers written for ``grpc.aio``, on asyncio and h2.

The protocol is the published one: "gRPC over HTTP2" and RFC 9113, whose frames, header compression and stream states
are h2's business. Everything happens on the event loop: what a read brings is handed to its calls at once, and what
they write in one turn of the loop leaves in one write. grpcio's own server hands every message from thread to thread
and competes with the loop for the interpreter, which costs more than the rest of a small call.
"""

from grpc_h2.context import CallContext, Inspect
from grpc_h2.headers import CallRefused, RequestHeaders
from grpc_h2.http2 import Limits
from grpc_h2.incidents import EventLog, Incidents
from grpc_h2.server import Authorize, PortLoad, Server

__all__ = [
    "Authorize",
    "CallContext",
    "CallRefused",
    "EventLog",
    "Incidents",
    "Inspect",
    "Limits",
    "PortLoad",
    "RequestHeaders",
    "Server",
]

"""A server for servicers written for ``grpc.aio``: what the generated ``add_…Servicer_to_server`` functions register is
called as grpcio would call it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from typing import Any, Final, TypeAlias, cast

import grpc
import grpc.aio

from statewright import logs
from statewright.rpc.call import Call, CallEnded
from statewright.rpc.connection import PREFACE_TIMEOUT_S, ServerConnection
from statewright.rpc.context import CallContext, Codec
from statewright.rpc.headers import CallRefused, Metadata
from statewright.rpc.http2 import Limits
from statewright.sockets import bind_listening_socket

log = logs.logger(__name__)

MAX_PENDING_CONNECTIONS: Final = 1024
"""Connections that may wait to be accepted."""

TERMINATION_TIMEOUT_S: Final = 1.0
"""How long clients may take to read the status of calls that were cut off."""

TLS_CLOSE_TIMEOUT_S: Final = TERMINATION_TIMEOUT_S / 2
"""How long clients may take to answer the closure alert of TLS. grpcio's do not answer it."""

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # Any: each method has message types of its own
Method: TypeAlias = Callable[[Any, CallContext[Any, Any]], Any]

Authorize: TypeAlias = Callable[[str, Metadata], bool]
"""Says by path and metadata whether a call may be made at all."""


class Server(grpc.aio.Server):
    """With ``reuse_port`` several processes may listen on the same port. ``tls`` is a context with the ALPN protocol
    ``h2``, for all ports; None: plaintext. Calls that ``authorize`` does not let in are UNAUTHENTICATED, whether there
    is such a method or not.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        reuse_port: bool = False,
        tls: ssl.SSLContext | None = None,
        authorize: Authorize | None = None,
    ) -> None:
        self.limits = limits
        self._reuse_port = reuse_port
        self._tls = tls
        self._authorize = authorize
        self._methods: dict[str, Handler] = {}
        self._sockets: list[socket.socket] = []
        self._listeners: list[asyncio.Server] = []
        self._connections: set[ServerConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._is_stopping = False
        self._terminated = asyncio.Event()

    # Registration.

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Nothing: to ask them at each call would cost each call, and generated code registers methods by name, too."""

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Handler]) -> None:
        self._methods |= {f"/{service_name}/{name}": handler for name, handler in method_handlers.items()}

    def add_port(self, address: str) -> int:
        """Binds to ``host:port``; gives the port. Raises ``OSError``."""
        host, _, port = address.rpartition(":")
        listener = bind_listening_socket(host.strip("[]"), int(port), shared=self._reuse_port)
        self._sockets.append(listener)
        listener.listen(MAX_PENDING_CONNECTIONS)  # only now is the port taken for good
        number: int = listener.getsockname()[1]
        return number

    def add_insecure_port(self, address: str) -> int:
        """The same, for a server that was made without TLS."""
        if self._tls is not None:
            raise ValueError("this server speaks TLS")
        return self.add_port(address)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        raise NotImplementedError("grpcio's credentials cannot be read: give the server an ssl.SSLContext")

    # Life.

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._sockets:
            self._listeners.append(
                await loop.create_server(
                    lambda: ServerConnection(self),
                    sock=listener,
                    backlog=MAX_PENDING_CONNECTIONS,
                    ssl=self._tls,
                    ssl_handshake_timeout=PREFACE_TIMEOUT_S if self._tls else None,
                    ssl_shutdown_timeout=TLS_CLOSE_TIMEOUT_S if self._tls else None,
                )
            )

    async def stop(self, grace: float | None) -> None:
        """Accepts nothing new, lets calls finish for ``grace`` seconds, then ends them with ``UNAVAILABLE``."""
        self._is_stopping = True
        for listener in self._listeners or self._sockets:
            listener.close()
        for connection in list(self._connections):
            connection.begin_goaway()
        await self._wait_disconnected(within=grace or 0.0)
        for connection in list(self._connections):
            connection.terminate(grpc.StatusCode.UNAVAILABLE, "server is shutting down")
        await self._wait_disconnected(within=TERMINATION_TIMEOUT_S)
        for connection in list(self._connections):
            connection.abort()
        await self._wait_disconnected(within=TERMINATION_TIMEOUT_S)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=TERMINATION_TIMEOUT_S)
        self._terminated.set()

    async def wait_for_termination(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - grpc.aio's signature
        """Whether it has not stopped within so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._terminated.wait()
        return not self._terminated.is_set()

    async def _wait_disconnected(self, *, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._connections:
                    self._changed.clear()
                    await self._changed.wait()

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    @property
    def handlers(self) -> int:
        """How many methods are running."""
        return len(self._tasks)

    # What connections report.

    def add_connection(self, connection: ServerConnection) -> None:
        self._connections.add(connection)
        if self._is_stopping:  # it was accepted just before the listener closed
            connection.begin_goaway()

    def remove_connection(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        self._changed.set()

    def start_call(self, call: Call, peer: str) -> None:
        """Has the method answer that the call asks for."""
        if self._authorize is not None and not self._authorize(call.headers.path, call.headers.metadata):
            return call.finish(grpc.StatusCode.UNAUTHENTICATED, "forbidden")
        handler = self._methods.get(call.headers.path)
        if handler is None:
            return call.finish(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        task = call.task = asyncio.get_running_loop().create_task(_run_call(call, handler, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return None


async def _run_call(call: Call, handler: Handler, peer: str) -> None:
    """Run a method to its end; whatever becomes of it, the client gets a status."""
    context = CallContext(
        call, Codec(handler.request_deserializer or bytes, handler.response_serializer or bytes), peer=peer
    )
    try:
        await _run_method(handler, context)
        context.finish()
    except CallRefused as refused:
        call.finish(refused.code, str(refused))
    except (grpc.aio.AbortError, CallEnded):
        pass  # the status is known, or there is no client to tell it
    except asyncio.CancelledError:
        call.finish(grpc.StatusCode.CANCELLED)
    except Exception:
        log.exception("grpc_method_failed", method=call.headers.path)
        call.finish(grpc.StatusCode.UNKNOWN, "internal error")
    finally:
        context.notify_done()


async def _run_method(handler: Handler, context: CallContext[Any, Any]) -> None:
    request = context if handler.request_streaming else await context.read_single_request()
    result = _get_method(handler)(request, context)
    if not handler.response_streaming:
        response = await result
        if context.code() is grpc.StatusCode.OK:  # otherwise there may be none, and clients expect none
            await context.write(response)
    elif isinstance(result, AsyncIterable):
        async with _close_on_exit(result):
            async for response in result:
                await context.write(response)
    else:
        await result


def _get_method(handler: Handler) -> Method:
    """The servicer's method, whichever of the four kinds it is."""
    return cast("Method", handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream)


def _close_on_exit(responses: AsyncIterable[Any]) -> AbstractAsyncContextManager[object]:
    """Has a generator that is left early clean up at once."""
    return aclosing(responses) if isinstance(responses, AsyncGenerator) else nullcontext()

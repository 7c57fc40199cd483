"""A server for servicers written for ``grpc.aio``: what the generated ``add_…Servicer_to_server`` functions register is
called as grpcio would call it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from functools import partial
from typing import Any, Final, TypeAlias, cast

import grpc
import grpc.aio
from msgspec import Struct

from grpc_h2.call import Call, CallEnded
from grpc_h2.connection import ServerConnection
from grpc_h2.context import CallContext, Codec, Inspect
from grpc_h2.headers import CallRefused, RequestHeaders
from grpc_h2.http2 import FairTurns, Limits
from grpc_h2.incidents import EventLog, Incidents
from grpc_h2.listener import Listener
from grpc_h2.memory import MemoryBudget

MAX_PENDING_CONNECTIONS: Final = 1024
"""Connections that may wait to be accepted."""

TERMINATION_TIMEOUT_S: Final = 1.0
"""How long clients may take to read the status of calls that were cut off."""

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # Any: each method has message types of its own
Method: TypeAlias = Callable[[Any, CallContext[Any, Any]], Any]

Authorize: TypeAlias = Callable[[RequestHeaders, str], object]
"""Called with the head of a call and the peer. Raises ``CallRefused`` when the call may not be made at all; what it
returns is the ``authorization`` of the context.
"""


class PortLoad(Struct, frozen=True, kw_only=True):
    """What the clients of a port take, and what they should not have done since the start, by event."""

    connections: int
    memory_bytes: int
    incidents: Mapping[str, int]


REVIEW_INTERVAL_S: Final = 1.0
"""How often connections are looked at that may have been idle, or slow, for too long."""


class Server(grpc.aio.Server):
    """``tls`` is a context with the ALPN protocol ``h2``, for all ports; None: plaintext. ``authorize`` refuses calls
    at their head, before anything of a message is taken, and whether there is such a method or not; with a future it
    decides later, and ends the call if it refuses. ``inspect`` may refuse large messages. ``incidents`` are given by
    who counts some of its own, or has a log.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        tls: ssl.SSLContext | None = None,
        authorize: Authorize | None = None,
        inspect: Inspect | None = None,
        incidents: Incidents | None = None,
    ) -> None:
        self.limits = limits
        self.memory = MemoryBudget(limits.port_bytes)
        self.incidents = incidents or Incidents()
        self.turns = FairTurns()
        self._tls = tls
        self._authorize = authorize
        self._inspect = inspect
        self._methods: dict[str, Handler] = {}
        self._sockets: list[socket.socket] = []
        self._listeners: list[Listener] = []
        self._connections: set[ServerConnection] = set()
        self._newcomers: dict[ServerConnection, None] = {}
        """Connections on which no call was let in yet, the oldest first."""
        self._review: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._is_stopping = False
        self._terminated = asyncio.Event()

    # Registration.

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Nothing: to ask them at each call would cost each call, and generated code registers methods by name, too."""

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Handler]) -> None:
        self._methods |= {f"/{service_name}/{name}": handler for name, handler in method_handlers.items()}

    def add_socket(self, bound: socket.socket) -> int:
        """Listens on a socket, which is the server's from now on; gives the port. Connections inherit its options, such
        as those that have TCP find out that a client is gone. Raises ``OSError``.
        """
        try:
            bound.listen(MAX_PENDING_CONNECTIONS)  # only now is the port taken for good
        except OSError:
            bound.close()
            raise
        self._sockets.append(bound)
        number: int = bound.getsockname()[1]
        return number

    def add_port(self, address: str) -> int:
        """Listens on ``host:port``, of which ``[::]`` stands for all addresses of both families; gives the port. Raises
        ``OSError``.
        """
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return self.add_socket(socket.create_server((host, int(port)), family=family, dualstack_ipv6=host == "::"))

    def add_insecure_port(self, address: str) -> int:
        """The same, for a server that was made without TLS."""
        if self._tls is not None:
            raise ValueError("this server speaks TLS")
        return self.add_port(address)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        raise NotImplementedError("grpcio's credentials cannot be read: give the server an ssl.SSLContext")

    # Life.

    async def start(self) -> None:
        self._listeners = [
            Listener(
                listening,
                lambda: ServerConnection(self),
                tls=self._tls,
                make_room=self._make_room,
                incidents=self.incidents,
            )
            for listening in self._sockets
        ]
        self._review_soon()

    async def stop(self, grace: float | None) -> None:
        """Accepts nothing new, lets calls finish for ``grace`` seconds, then ends them with ``UNAVAILABLE``."""
        self._is_stopping = True
        if self._review is not None:
            self._review.cancel()
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
    def load(self) -> PortLoad:
        """What is going on."""
        return PortLoad(
            connections=len(self._connections),
            memory_bytes=self.memory.used,
            incidents=dict(self.incidents.counts),
        )

    @property
    def handlers(self) -> int:
        """How many methods are running."""
        return len(self._tasks)

    # What connections report.

    def add_connection(self, connection: ServerConnection) -> None:
        self._connections.add(connection)
        self._newcomers[connection] = None
        for listener in self._listeners:
            listener.finish_opening(connection)
        if self._is_stopping:  # it was accepted just before the listener closed
            connection.begin_goaway()

    def welcome_connection(self, connection: ServerConnection) -> None:
        self._newcomers.pop(connection, None)

    def remove_connection(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        self._newcomers.pop(connection, None)
        self._changed.set()

    def start_call(self, call: Call, peer: str) -> None:
        """Has the method answer that the call asks for; one that takes a single message when that is there."""
        if self._authorize is not None:
            call.authorization = self._authorize(call.headers, peer)
            if isinstance(call.authorization, asyncio.Future):
                call.authorization.add_done_callback(partial(_end_if_refused, call))
        handler = self._methods.get(call.headers.path)
        if handler is None:
            raise CallRefused(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        if handler.request_streaming:
            self._start_handler(call, handler, peer)
            return
        call.start_on_end = partial(self._start_handler, call, handler, peer)
        if self.limits.request_timeout_s is not None:
            call.request_due = asyncio.get_running_loop().time() + self.limits.request_timeout_s

    def _start_handler(self, call: Call, handler: Handler, peer: str) -> None:
        codec = Codec(handler.request_deserializer or bytes, handler.response_serializer or bytes)
        context = CallContext(call, codec, peer=peer, inspect=self._inspect)
        running = _run_call(call, handler, context, self.incidents.log)
        task = call.task = asyncio.get_running_loop().create_task(running)
        self._tasks.add(task)

        def forget(ended: asyncio.Task[None]) -> None:
            self._tasks.discard(ended)
            call.release()

        task.add_done_callback(forget)

    # What happens by itself.

    def _make_room(self) -> bool:
        """Whether one more connection may come in, if need be in the place of one that has not made a call yet."""
        opening = sum(listener.opening for listener in self._listeners)
        if len(self._connections) + opening < self.limits.connections:
            return True
        if self._newcomers:
            oldest = next(iter(self._newcomers))
            del self._newcomers[oldest]
            self.incidents.report("grpc_newcomer_displaced", peer=oldest.peer)
            oldest.abort()
            return True
        return any(listener.drop_oldest_opening() for listener in self._listeners)

    def _review_soon(self) -> None:
        limits = self.limits
        times = (limits.request_timeout_s, limits.idle_timeout_s, limits.first_call_timeout_s)
        interval = min(REVIEW_INTERVAL_S, *(time / 4 for time in times if time is not None))
        self._review = asyncio.get_running_loop().call_later(interval, self._review_connections)

    def _review_connections(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self._connections):
            connection.review(now)
        self.incidents.report_unlogged()
        self._review_soon()


def _end_if_refused(call: Call, authorization: "asyncio.Future[Any]") -> None:  # Any: only a refusal is looked at
    """What was decided after the head of a call had come counts before its message has."""
    refused = None if authorization.cancelled() else authorization.exception()
    if isinstance(refused, CallRefused):
        call.abort(refused.code, str(refused))


async def _run_call(call: Call, handler: Handler, context: CallContext[Any, Any], log: EventLog) -> None:
    """Run a method to its end; whatever becomes of it, the client gets a status."""
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

"""A real server with one small service of all four kinds, whose messages are plain octets."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio
from msgspec import Struct

from grpc_h2.context import CallContext, Inspect
from grpc_h2.http2 import Limits
from grpc_h2.server import Authorize, Server

SERVICE = "test.Echo"
PATIENCE = 30.0
"""Seconds after which a fact that has not come true is taken for a failure."""

MAX_MESSAGE_BYTES = 9 * 1024 * 1024
LIMITS = Limits(message_bytes=MAX_MESSAGE_BYTES)

Context: TypeAlias = CallContext[bytes, bytes]


class Echo:
    """Says what it was told; some methods wait for the test, and all tell it what becomes of them."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []
        self.running = 0
        self.cancelled = 0
        self.released = asyncio.Event()
        self.written = 0
        self.change = asyncio.Condition()

    async def say(self, message: bytes, context: Context) -> bytes:
        """unary to unary"""
        self.contexts.append(context)
        return message

    async def wait(self, message: bytes, context: Context) -> bytes:
        """Answers when the test releases it."""
        async with self.watched(context):
            await self.released.wait()
        return message

    async def fail(self, message: bytes, context: Context) -> bytes:
        raise RuntimeError("a secret of the house")

    async def refuse(self, message: bytes, context: Context) -> bytes:
        self.contexts.append(context)
        await context.abort(
            grpc.StatusCode.FAILED_PRECONDITION, message.decode(), (("why", "because"), ("octets-bin", b"\x00\xff"))
        )

    async def mark(self, message: bytes, context: Context) -> bytes | None:
        """Sets a status instead of raising it, and has no message then."""
        context.set_code(grpc.StatusCode.NOT_FOUND)
        context.set_details("not here")
        context.set_trailing_metadata((("hint", "elsewhere"),))
        return None

    async def meta(self, message: bytes, context: Context) -> bytes:
        """Gives metadata back at both ends."""
        self.contexts.append(context)
        own = tuple((name, value) for name, value in context.invocation_metadata() if name.startswith("x-"))
        await context.send_initial_metadata(own)
        context.set_trailing_metadata(own)
        return message

    async def size(self, message: bytes, context: Context) -> bytes:
        """As many octets as asked for."""
        return bytes(int(message))

    async def count(self, message: bytes, context: Context) -> AsyncIterator[bytes]:
        """unary to stream: ``number size``"""
        number, size = map(int, message.split())
        async with self.watched(context):
            for _ in range(number):
                yield bytes(size)
                self.written += size

    async def sum(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        """stream to unary: how many messages, and how many octets"""
        number = size = 0
        async for message in messages:
            number, size = number + 1, size + len(message)
        return b"%d %d" % (number, size)

    async def first(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        """Answers to the first message, whatever follows."""
        return await anext(aiter(messages))

    async def ignore(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        """Reads nothing until it is released."""
        async with self.watched(context):
            await self.released.wait()
        return await self.sum(messages, context)

    async def chat(self, messages: AsyncIterator[bytes], context: Context) -> None:
        """stream to stream, as a coroutine that writes"""
        async with self.watched(context):
            async for message in messages:
                await context.write(message)

    async def talk(self, messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        """stream to stream, as a generator"""
        async with self.watched(context):
            async for message in messages:
                yield message

    @asynccontextmanager
    async def watched(self, context: Context) -> AsyncIterator[None]:
        await self._changes(running=1)
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
            asyncio.get_running_loop().create_task(self._changes())

    async def _changes(self, *, running: int = 0) -> None:
        async with self.change:
            self.running += running
            self.change.notify_all()

    async def until_running(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE), self.change:
            await self.change.wait_for(lambda: self.running == number)


UNARY: Final = grpc.unary_unary_rpc_method_handler
KINDS: Final[dict[str, Callable[..., Any]]] = {
    **dict.fromkeys(("say", "wait", "fail", "refuse", "mark", "meta", "size"), UNARY),
    "count": grpc.unary_stream_rpc_method_handler,
    **dict.fromkeys(("sum", "first", "ignore"), grpc.stream_unary_rpc_method_handler),
    **dict.fromkeys(("chat", "talk"), grpc.stream_stream_rpc_method_handler),
}


class House(Struct, frozen=True, kw_only=True):
    """A server that listens, and the service in it."""

    server: Server
    echo: Echo
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def until_empty(self) -> None:
        """Returns when nobody is connected and no method runs."""
        await until(lambda: self.server.connections == 0)
        await self.until_idle()

    async def until_idle(self) -> None:
        """Returns when no method runs."""
        await until(lambda: self.server.handlers == 0)


async def until(holds: Callable[[], bool]) -> None:
    """Returns as soon as something holds that other parts of this loop bring about."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - the server has no event for each of its facts
            await asyncio.sleep(0.001)


@asynccontextmanager
async def a_house(
    *,
    limits: Limits = LIMITS,
    tls: ssl.SSLContext | None = None,
    authorize: Authorize | None = None,
    inspect: Inspect | None = None,
    listening: socket.socket | None = None,
) -> AsyncIterator[House]:
    """Stops with the test, which must not have left anything that hinders it. ``listening`` None: on a port of its
    own.
    """
    echo, server = Echo(), Server(limits, tls=tls, authorize=authorize, inspect=inspect)
    methods = {name: kind(getattr(echo, name)) for name, kind in KINDS.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    server.add_registered_method_handlers(SERVICE, methods)
    port = server.add_port("127.0.0.1:0") if listening is None else server.add_socket(listening)
    await server.start()
    try:
        yield House(server=server, echo=echo, port=port)
    finally:
        async with asyncio.timeout(PATIENCE):
            await server.stop(0)
        assert (server.connections, server.handlers) == (0, 0)


class Client:
    """grpcio's, calling methods by their short names with plain octets."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    def say(self, message: bytes, **options: Any) -> "grpc.aio.UnaryUnaryCall[bytes, bytes]":
        return self.call("say", message, **options)

    def call(self, method: str, message: bytes = b"", **options: Any) -> "grpc.aio.UnaryUnaryCall[bytes, bytes]":
        """unary to unary"""
        return self.channel.unary_unary(path(method))(message, **patient(options))

    def listen(self, method: str, message: bytes, **options: Any) -> "grpc.aio.UnaryStreamCall[bytes, bytes]":
        """unary to stream"""
        return self.channel.unary_stream(path(method))(message, **patient(options))

    def tell(self, method: str, messages: Any = None, **options: Any) -> "grpc.aio.StreamUnaryCall[bytes, bytes]":
        """stream to unary"""
        return self.channel.stream_unary(path(method))(messages, **patient(options))

    def meet(self, method: str = "chat", **options: Any) -> "grpc.aio.StreamStreamCall[bytes, bytes]":
        """stream to stream"""
        return self.channel.stream_stream(path(method))(**patient(options))


def path(method: str) -> str:
    return f"/{SERVICE}/{method}"


def patient(options: dict[str, Any]) -> dict[str, Any]:
    return {"timeout": PATIENCE} | options


@asynccontextmanager
async def a_client(house: House, *options: tuple[str, Any]) -> AsyncIterator[Client]:
    """A channel with a connection of its own."""
    own: Sequence[tuple[str, Any]] = (
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        *options,
    )
    async with grpc.aio.insecure_channel(house.address, options=own) as channel:
        yield Client(channel)


async def status(call: Any) -> grpc.StatusCode:
    """What the call ends with, after messages that nobody wants."""
    async with asyncio.timeout(PATIENCE):
        if hasattr(call, "read"):
            with suppress(grpc.aio.AioRpcError):  # the status itself, when it is not OK
                while await call.read() is not grpc.aio.EOF:
                    pass
        code: grpc.StatusCode = await call.code()
        return code

"""A call as servicers written for ``grpc.aio`` see it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Generic, Never, Self, TypeAlias, TypeVar

import grpc
import grpc.aio

from grpc_h2.call import Call
from grpc_h2.headers import CallRefused, encode_metadata

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


INSPECTED_BYTES: Final = 512 * 1024
"""Of a message, above which it is inspected before it is decoded."""

Inspect: TypeAlias = Callable[[str, bytes], Awaitable[None]]
"""Called with the method and a large message before that is decoded, which is one call that nothing interrupts. Raises
``CallRefused`` when it would last too long.
"""


class Codec(Generic[RequestT, ResponseT]):
    """Messages to octets and back, as the method of the call has them."""

    def __init__(self, decode: Callable[[bytes], RequestT], encode: Callable[[ResponseT], bytes]) -> None:
        self.decode = decode
        self.encode = encode


class CallContext(grpc.aio.ServicerContext[RequestT, ResponseT]):
    """Everything of ``grpc.aio.ServicerContext`` but the identities of client certificates, which no servicer asks
    for, and compression of responses, which are sent as they are."""

    def __init__(
        self, call: Call, codec: Codec[RequestT, ResponseT], *, peer: str, inspect: Inspect | None = None
    ) -> None:
        self._call = call
        self._inspect = inspect
        self._codec = codec
        self._peer = peer
        self._metadata: grpc.aio.Metadata | None = None
        self._code = grpc.StatusCode.OK
        self._details = ""
        self._trailing = grpc.aio.Metadata()
        self._observers: list[Callable[[CallContext[RequestT, ResponseT]], None]] = []

    def __aiter__(self) -> Self:
        """The messages of the client to the last."""
        return self

    async def __anext__(self) -> RequestT:
        """Raises ``CallRefused`` for a message that cannot be read."""
        message = await self._call.read()
        if message is None:
            raise StopAsyncIteration
        return await self._decode(message)

    async def read_single_request(self) -> RequestT:
        """The one message of the client. Raises ``CallRefused`` when there is none, or more."""
        return await self._decode(await self._call.read_single())

    async def read(self) -> RequestT:
        message = await self._call.read()
        if message is None:
            return grpc.aio.EOF  # type: ignore[return-value]  # as grpc.aio has it, whatever its types say
        return await self._decode(message)

    async def write(self, message: ResponseT) -> None:
        await self._call.write(self._codec.encode(message))

    async def send_initial_metadata(self, initial_metadata: Iterable[tuple[str, str | bytes]]) -> None:
        self._call.begin(encode_metadata(initial_metadata))

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Iterable[tuple[str, str | bytes]] = ()
    ) -> Never:
        self._code, self._details = code, details
        self._call.finish(code, details, trailing_metadata or self._trailing)
        raise grpc.aio.AbortError(details)

    async def abort_with_status(self, status: grpc.Status) -> Never:
        await self.abort(status.code, status.details, status.trailing_metadata or ())

    def finish(self) -> None:
        """Sends the status that was set, if none was sent."""
        self._call.finish(self._code, self._details, self._trailing)

    def notify_done(self) -> None:
        """Tells those who wanted to know that the call is over."""
        for observer in self._observers:
            observer(self)

    def invocation_metadata(self) -> grpc.aio.Metadata:
        if self._metadata is None:
            self._metadata = grpc.aio.Metadata(*self._call.headers.metadata)
        return self._metadata

    def set_trailing_metadata(self, trailing_metadata: Iterable[tuple[str, str | bytes]]) -> None:
        self._trailing = grpc.aio.Metadata(*trailing_metadata)

    def trailing_metadata(self) -> grpc.aio.Metadata:
        return self._trailing

    def set_code(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def set_details(self, details: str) -> None:
        self._details = details

    def details(self) -> str:
        return self._details

    def peer(self) -> str:
        return self._peer

    def time_remaining(self) -> float:
        """Seconds until the deadline, infinitely many without one."""
        deadline = self._call.deadline
        return float("inf") if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())

    @property
    def method(self) -> str:
        """The path of the call, ``/package.Service/Method``."""
        return self._call.headers.path

    @property
    def authorization(self) -> object:
        """What the server has found out about the caller, before anything of a message was taken."""
        return self._call.authorization

    @property
    def last_ping(self) -> float | None:
        """When the client has sent an HTTP/2 ping to keep the connection alive, by ``time.monotonic``; those by which
        it measures what it is sent do not count.
        """
        return self._call.last_ping

    def cancelled(self) -> bool:
        """Whether the client has gone, or its time is up."""
        return self._call.is_aborted

    def done(self) -> bool:
        return self._call.has_ended

    def add_done_callback(self, callback: "Callable[[CallContext[RequestT, ResponseT]], None]") -> None:
        self._observers.append(callback)

    def set_compression(self, compression: grpc.Compression) -> None:
        """Responses are not compressed, which is always allowed."""

    def disable_next_message_compression(self) -> None:
        """It is not compressed anyway."""

    def peer_identities(self) -> Iterable[bytes] | None:
        return None

    def peer_identity_key(self) -> str | None:
        return None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return {}

    async def _decode(self, message: bytes) -> RequestT:
        if self._inspect is not None and len(message) > INSPECTED_BYTES:
            await self._inspect(self.method, message)
        try:
            return self._codec.decode(message)
        except Exception as error:  # protobuf's, whichever
            raise CallRefused(grpc.StatusCode.INTERNAL, "a message is not of its type") from error

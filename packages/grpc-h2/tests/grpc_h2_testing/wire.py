"""A client that speaks HTTP/2 frame by frame, and need not speak it well."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingAckReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

from grpc_h2.messages import MessageReader, frame_message
from grpc_h2_testing.echo import PATIENCE, House, path

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Http2Client(H2Connection):
    """Goes on with its calls after the server has said goodbye, as clients must (RFC 9113 §6.8)."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        event = ConnectionTerminated()
        event.last_stream_id = frame.last_stream_id
        return [], [event]


class Answer:
    """What has come on one stream."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.data = bytearray()
        self.is_over = False
        self.reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.headers[b"grpc-status"])

    @property
    def messages(self) -> list[bytes]:
        return [message.body for message in MessageReader(limit=1 << 30).feed(bytes(self.data))]


class Wire:
    """``h2`` is the client's; what it would not send goes through :meth:`raw`. With ``grants`` what is received is
    granted again at once.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.h2 = Http2Client(
            H2Configuration(
                client_side=True,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.reader, self.writer = reader, writer
        self.answers: dict[int, Answer] = {}
        self.goaways: list[int] = []
        """The last streams that the server said it would answer."""
        self.pings = 0
        self.grants = True

    async def greet(self, **settings: int) -> None:
        """Sends the preface with settings, by their names in lower case."""
        self.h2.local_settings = Settings(
            client=True,
            initial_values={SettingCodes.ENABLE_PUSH: 0}
            | {SettingCodes[name.upper()]: value for name, value in settings.items()},
        )
        self.h2.max_inbound_frame_size = self.h2.local_settings.max_frame_size
        self.h2.initiate_connection()
        await self.flush()
        await self.until(lambda: self.h2.remote_settings.max_concurrent_streams == 1000)

    async def flush(self) -> None:
        self.raw(self.h2.data_to_send())
        await self.writer.drain()

    def raw(self, octets: bytes | Frame) -> None:
        self.writer.write(octets.serialize() if isinstance(octets, Frame) else octets)

    def request(self, method: str, *messages: bytes, end: bool = True, **headers: bytes) -> Answer:
        """Begins a call; leaves it to :meth:`flush` to send it."""
        stream = self.begin(method, **headers)
        for message in messages:
            self.h2.send_data(stream, frame_message(message))
        if end:
            self.h2.end_stream(stream)
        return self.answers[stream]

    def begin(self, method: str, **headers: bytes) -> int:
        """The stream of a call that has sent no message."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, head(method, **headers))
        self.answers[stream] = Answer()
        return stream

    async def ask(self, method: str, *messages: bytes, **headers: bytes) -> Answer:
        """The whole answer to a call."""
        answer = self.request(method, *messages, **headers)
        await self.flush()
        await self.over(answer)
        return answer

    async def over(self, *answers: Answer) -> None:
        await self.until(lambda: all(answer.is_over for answer in answers))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Reads until something holds. Raises ``ConnectionError`` when the server closes before that."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                octets = await self.reader.read(1 << 16)
                if not octets:
                    raise ConnectionError("the server has closed the connection")
                await self.take(octets)

    async def take(self, octets: bytes) -> None:
        for event in self.h2.receive_data(octets):
            self._heed(event)
        await self.flush()

    def _heed(self, event: Event) -> None:
        match event:
            case ResponseReceived() | TrailersReceived():
                self.answers[event.stream_id].headers |= dict(event.headers)
            case DataReceived(stream_id=stream):
                self.answers[stream].data += event.data
                if self.grants:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
            case StreamEnded(stream_id=stream):
                self.answers[stream].is_over = True
            case StreamReset(stream_id=stream):
                self.answers[stream].is_over, self.answers[stream].reset = True, int(event.error_code)
            case ConnectionTerminated():
                self.goaways.append(event.last_stream_id or 0)
            case PingAckReceived():
                self.pings += 1
            case _:
                pass


def head(method: str, **headers: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of a call."""
    more = {name.encode().replace(b"__", b":").replace(b"_", b"-"): value for name, value in headers.items()}
    return [
        *{
            b":method": b"POST",
            b":scheme": b"http",
            b":path": path(method).encode(),
            b":authority": b"localhost",
            b"te": b"trailers",
            b"content-type": b"application/grpc",
            **more,
        }.items()
    ]


@asynccontextmanager
async def a_socket(house: House) -> AsyncIterator[Wire]:
    """A connection on which nothing was said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def a_wire(house: House, **settings: int) -> AsyncIterator[Wire]:
    """A connection whose settings are exchanged."""
    async with a_socket(house) as wire:
        await wire.greet(**settings)
        yield wire

"""h2 as a server of gRPC wants it, and what is asked of its transport.

How connections share the event loop.

What one read brings may take seconds to handle when it is made of tiny frames. So the frames of all connections of a
port have ``TURN_S`` in a turn of the loop together. A connection that is not done by then is read from no more, and
waits in line for its next slice. Everything else that the loop has to do comes in between, and has as much time: an
answer to somebody else may take several turns of the loop.
"""

import asyncio
import socket
import ssl
import struct
from collections import deque
from time import monotonic, perf_counter
from typing import Final, Protocol

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import Event
from h2.exceptions import DenialOfServiceError, FrameTooLargeError, ProtocolError
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes, Settings
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame
from msgspec import Struct

MAX_FRAME_BYTES: Final = 16_384
"""Bytes that every client takes in one frame (RFC 9113 §6.5.2)."""

STREAM_WINDOW: Final = 256 * 1024
CONNECTION_WINDOW: Final = 16 * 1024 * 1024
"""Of many streams: some that are not read must not hold up the others. Half of what a connection may hold in memory."""

MAX_HEADER_BYTES: Final = 64 * 1024
"""Headers of a request as RFC 9113 §6.5.2 counts them. A call with more is refused."""

MAX_DECODED_HEADER_BYTES: Final = 4 * MAX_HEADER_BYTES
"""A client that sends even more is cut off: they are not decompressed to the end."""

MAX_HEADER_BLOCK_BYTES: Final = 2 * MAX_HEADER_BYTES
"""Headers as they are sent: it takes 20 ms to decompress so many. A client that sends even more is cut off."""

MAX_FRAMES_AT_ONCE: Final = 16
"""Frames that are handled before anybody looks at the clock."""

HEADER_FRAMES: Final = 8
HEADER_BYTES_PER_FRAME: Final = 512
"""Headers take as long as so many frames, and as one more for so many bytes: a call is authenticated with them."""

MAX_CONTROL_FRAMES: Final = 10_000
CONTROL_FRAMES_PER_S: Final = 1000.0
"""Frames without content that a client may send at once, and every second."""

FRAMES_PER_FRAME: Final = 4
"""Frames without content that a client may send more for each frame that it is sent: windows, and measurements."""

MAX_CLOSED_STREAMS: Final = 8192
"""Streams of which is remembered how they ended: what comes late on one of them is no error of the connection."""

_INITIAL_WINDOW: Final = 65_535
_MAX_FRAME_WITH_HEAD: Final = 9 + MAX_FRAME_BYTES
"""Octets of the longest frame of a client, with its head."""


class Limits(Struct, frozen=True, kw_only=True):
    """What clients may take. Times in seconds; None: for ever."""

    message_bytes: int
    """The longest message, inflated."""
    concurrent_calls: int = 1000
    connection_bytes: int = 32 * 1024 * 1024
    """What one connection may hold in memory (``memory``)."""
    port_bytes: int = 256 * 1024 * 1024
    """What all connections of the port may hold together."""
    connections: int = 10_000
    request_timeout_s: float | None = 30.0
    """How long the one message of a call may take to be there."""
    idle_timeout_s: float | None = 300.0
    """After which a connection without calls is closed."""
    first_call_timeout_s: float | None = 30.0
    """How long a new client may take to make a call that is let in."""


class TooManyControlFrames(ProtocolError):
    """A client sends frames without content at a rate that no client needs."""

    error_code = ErrorCodes.ENHANCE_YOUR_CALM


class InboundFrames(FrameBuffer):
    """Frames as they come, ``MAX_FRAMES_AT_ONCE`` of them at a time."""

    def __init__(self) -> None:
        super().__init__(server=True)
        self._left = MAX_FRAMES_AT_ONCE
        self._control_frames = float(MAX_CONTROL_FRAMES)
        """How many more may come."""
        self._counted_at = monotonic()

    @property
    def pending_bytes(self) -> int:
        """Octets that are not a whole frame yet, or wait for their turn."""
        return len(self._data)

    @property
    def unfinished_header_bytes(self) -> int:
        """Octets of headers whose end has not come."""
        return sum(len(frame.data) for frame in self._headers_buffer)

    def drop(self) -> None:
        """Forget all that was not handled."""
        self._data = bytearray()
        self._headers_buffer = []

    def begin_batch(self) -> None:
        """Give out ``MAX_FRAMES_AT_ONCE`` frames more."""
        self._left = MAX_FRAMES_AT_ONCE

    @property
    def is_batch_full(self) -> bool:
        """Whether there may be more frames than were given out."""
        return self._left <= 0

    def allow_control_frames(self, number: int) -> None:
        """The client was sent something, or does something that counts."""
        if self._control_frames < MAX_CONTROL_FRAMES:
            self._control_frames += number

    def __next__(self) -> Frame:
        if self._left <= 0:
            raise StopIteration
        frame = super().__next__()
        self._left -= 1
        if isinstance(frame, HeadersFrame):
            self._left -= HEADER_FRAMES + len(frame.data) // HEADER_BYTES_PER_FRAME
        elif not (isinstance(frame, DataFrame) and frame.data):
            self.count_control_frame()
        return frame

    def _update_header_buffer(self, f: Frame | None) -> Frame | None:
        if isinstance(f, ContinuationFrame):
            self.count_control_frame()
            if self.unfinished_header_bytes + len(f.data) > MAX_HEADER_BLOCK_BYTES:
                raise DenialOfServiceError("Received overlong header block")
        return super()._update_header_buffer(f)

    def count_control_frame(self) -> None:
        """Raises :class:`TooManyControlFrames`."""
        self._control_frames -= 1
        if self._control_frames >= 0:
            return
        now = monotonic()
        earned = (now - self._counted_at) * CONTROL_FRAMES_PER_S
        self._control_frames = min(self._control_frames + earned, MAX_CONTROL_FRAMES)
        self._counted_at = now
        if self._control_frames < 0:
            raise TooManyControlFrames("too many frames without content")


class Http2Connection(H2Connection):
    """The server's side of a connection, whose settings are about to be sent."""

    MAX_CLOSED_STREAMS = MAX_CLOSED_STREAMS

    def __init__(self, *, concurrent_calls: int, frames: InboundFrames | None = None) -> None:
        # The headers of requests are looked at by ``read_request_headers``: a call that has a wrong one is refused,
        # which is no reason to drop all calls of the connection.
        super().__init__(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
            )
        )
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: concurrent_calls,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            },
        )
        self.incoming_buffer = self.inbound_frames = frames or InboundFrames()
        self.decoder.max_header_list_size = MAX_DECODED_HEADER_BYTES
        self.initiate_connection()
        self.increment_flow_control_window(CONNECTION_WINDOW - _INITIAL_WINDOW)

    def feed(self) -> list[Event]:
        """What the client tells with its next ``MAX_FRAMES_AT_ONCE`` frames. Raises ``ProtocolError``."""
        frames = self.inbound_frames
        frames.begin_batch()
        events = self._receive_batch()
        if not frames.is_batch_full and frames.pending_bytes > _MAX_FRAME_WITH_HEAD:
            # h2 would look at the length of a frame when all of it is here.
            self.close_connection(ErrorCodes.FRAME_SIZE_ERROR)
            raise FrameTooLargeError("Received overlong frame")
        return events

    def _receive_batch(self) -> list[Event]:
        """Handle the frames that are given out now."""
        return self.receive_data(b"")

    def count_refused_call(self) -> None:
        """A call was refused at its head, which counts as a frame without content. Raises ``ProtocolError``."""
        try:
            self.inbound_frames.count_control_frame()
        except TooManyControlFrames as flood:
            self.close_connection(flood.error_code)
            raise

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        # A client that has said GOAWAY begins no more calls, and waits for the answers to those it began (RFC 9113
        # §6.8). h2 would take the connection for closed.
        return [], []


def build_goaway(last_stream_id: int) -> bytes:
    """The frame that asks a client to begin no more calls; h2 would end the connection with it."""
    return GoAwayFrame(stream_id=0, last_stream_id=last_stream_id).serialize()


HTTP2_PROTOCOL: Final = "h2"
"""HTTP/2 over TLS, as ALPN names it."""


def drop_unsent(transport: asyncio.Transport) -> None:
    """Have the system forget what was not sent when the transport is closed: for a client that does not read, it would
    keep that for minutes.
    """
    connected = transport.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def speaks_http2(transport: asyncio.Transport) -> bool:
    """Whether the client agreed to HTTP/2 by ALPN, as one has to with TLS (RFC 9113 §3.2)."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return tls is None or tls.selected_alpn_protocol() == HTTP2_PROTOCOL


def format_peer(transport: asyncio.Transport) -> str:
    """The client's address, spelled as grpcio spells it."""
    return format_address(transport.get_extra_info("peername") or ("", 0))


def format_address(address: tuple[str | int, ...]) -> str:
    """The same of an address of a socket."""
    host, port, *_ = address
    return f"ipv6:[{host}]:{port}" if ":" in str(host) else f"ipv4:{host}:{port}"


TURN_S: Final = 0.004
"""Seconds for all connections in one turn of the loop."""

SLICE_S: Final = 0.002
"""Seconds for one of them, while others wait."""


class Sliced(Protocol):
    """Somebody with frames to handle."""

    def handle_frames(self, until: float) -> bool:
        """Handle what is there, by ``time.perf_counter`` not much longer than ``until``; whether some is left."""
        ...

    def pause_reading(self) -> None:
        """Take nothing more from the network for now."""
        ...

    def resume_reading(self) -> None:
        """Go on."""
        ...


class FairTurns:
    """The turns of one loop."""

    def __init__(self) -> None:
        self._waiting: deque[Sliced] = deque()
        self._spent = 0.0
        """Seconds in this turn."""
        self._is_due = False

    def handle(self, connection: Sliced) -> None:
        """Handle the frames of a connection: at once if there is time left in this turn, else later."""
        if not self._waiting and self._spent < TURN_S:
            begun = perf_counter()
            is_left = connection.handle_frames(begun + SLICE_S)
            self._spent += perf_counter() - begun
            if not is_left:
                return self._continue_soon()
        connection.pause_reading()
        self._waiting.append(connection)
        return self._continue_soon()

    def _continue_soon(self) -> None:
        """In the next turn; if somebody waits, not before everything else has had as much time as they."""
        if self._is_due:
            return
        self._is_due = True
        loop = asyncio.get_running_loop()
        if self._waiting:
            loop.call_later(self._spent, self._continue)
        else:
            loop.call_soon(self._continue)

    def _continue(self) -> None:
        """A new turn has begun: those who wait are first."""
        self._is_due = False
        self._spent = 0.0
        if not self._waiting:
            return
        begun = now = perf_counter()
        until = begun + TURN_S
        while self._waiting and now < until:
            connection = self._waiting.popleft()
            if connection.handle_frames(min(until, now + SLICE_S)):
                self._waiting.append(connection)
            else:
                connection.resume_reading()
            now = perf_counter()
        self._spent = now - begun
        self._continue_soon()

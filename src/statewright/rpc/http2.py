"""h2 as a server of gRPC wants it, and what is asked of the sockets of its clients."""

import asyncio
import ssl
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import Event
from h2.exceptions import FrameTooLargeError
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame
from msgspec import Struct

from statewright.sockets import enable_keepalive

MAX_FRAME_BYTES: Final = 16_384
"""Bytes that every client takes in one frame (RFC 9113 §6.5.2)."""

STREAM_WINDOW: Final = 1024 * 1024
CONNECTION_WINDOW: Final = 32 * 1024 * 1024
"""Of many streams: some that are not read must not hold up the others."""

MAX_HEADER_BYTES: Final = 64 * 1024
"""Headers of a request as RFC 9113 §6.5.2 counts them. A call with more is refused."""

MAX_DECODED_HEADER_BYTES: Final = 4 * MAX_HEADER_BYTES
"""A client that sends even more is cut off: they are not decompressed to the end."""

_INITIAL_WINDOW: Final = 65_535
_MAX_FRAME_WITH_HEAD: Final = 9 + MAX_FRAME_BYTES
"""Octets of the longest frame of a client, with its head."""


class Limits(Struct, frozen=True, kw_only=True):
    """What one client may take."""

    message_bytes: int
    """The longest message, decompressed."""
    concurrent_calls: int = 1000
    unread_bytes: int = 64 * 1024 * 1024
    """Messages of one connection that handlers have not read, or that are not complete."""


class InboundFrames(FrameBuffer):
    """Frames as they come."""

    @property
    def pending_bytes(self) -> int:
        """Octets that are not a whole frame yet."""
        return len(self._data)


class Http2Connection(H2Connection):
    """The server's side of a connection, whose settings are about to be sent."""

    def __init__(self, *, concurrent_calls: int) -> None:
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
        self.incoming_buffer = self._frames = InboundFrames(server=True)
        self.decoder.max_header_list_size = MAX_DECODED_HEADER_BYTES
        self.initiate_connection()
        self.increment_flow_control_window(CONNECTION_WINDOW - _INITIAL_WINDOW)

    def feed(self, data: bytes) -> list[Event]:
        """What the client tells. Raises ``ProtocolError``."""
        if self._frames.pending_bytes > _MAX_FRAME_WITH_HEAD:  # h2 would look at its length when all of it is here
            self.close_connection(ErrorCodes.FRAME_SIZE_ERROR)
            raise FrameTooLargeError("Received overlong frame")
        return self.receive_data(data)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        # A client that has said GOAWAY begins no more calls, and waits for the answers to those it began (RFC 9113
        # §6.8). h2 would take the connection for closed.
        return [], []


def build_goaway(last_stream_id: int) -> bytes:
    """The frame that asks a client to begin no more calls; h2 would end the connection with it."""
    return GoAwayFrame(stream_id=0, last_stream_id=last_stream_id).serialize()


HTTP2_PROTOCOL: Final = "h2"
"""HTTP/2 over TLS, as ALPN names it."""

KEEPALIVE_IDLE_S: Final = 60
"""After which TCP asks whether the client is still there, and how long sent bytes may stay unacknowledged."""


def watch_peer(transport: asyncio.Transport) -> None:
    """Has TCP find out that a client is gone which could not say so."""
    connected = transport.get_extra_info("socket")
    enable_keepalive(connected, idle_s=KEEPALIVE_IDLE_S, interval_s=10, unacknowledged_s=KEEPALIVE_IDLE_S)


def speaks_http2(transport: asyncio.Transport) -> bool:
    """Whether the client agreed to HTTP/2 by ALPN, as one has to with TLS (RFC 9113 §3.2)."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return tls is None or tls.selected_alpn_protocol() == HTTP2_PROTOCOL


def format_peer(transport: asyncio.Transport) -> str:
    """The client's address, spelled as grpcio spells it."""
    host, port, *_ = transport.get_extra_info("peername") or ("", 0)
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"

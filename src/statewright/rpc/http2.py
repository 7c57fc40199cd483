"""h2 as a server of gRPC wants it."""

from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event
from h2.exceptions import FrameTooLargeError
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

FRAME: Final = 16_384
"""Bytes that every client takes in one frame (RFC 9113 §6.5.2)."""

STREAM_WINDOW: Final = 1024 * 1024
CONNECTION_WINDOW: Final = 32 * 1024 * 1024
"""Of many streams: some that are not read must not hold up the others."""

CONCURRENT_CALLS: Final = 1000
HEADER_BYTES: Final = 64 * 1024
"""Headers of a request as RFC 9113 §6.5.2 counts them. A call with more is refused."""

MOST_HEADER_BYTES: Final = 4 * HEADER_BYTES
"""A client that sends even more is cut off: they are not decompressed to the end."""

_INITIAL_WINDOW: Final = 65_535
_LENGTH: Final = 3
"""Octets at the beginning of a frame that say how long it is."""


class Frames(FrameBuffer):
    """Frames as they come; one that is too long is refused before it is here."""

    def __next__(self) -> Frame:
        if len(self._data) >= _LENGTH and int.from_bytes(self._data[:_LENGTH]) > self.max_frame_size:
            raise FrameTooLargeError("Received overlong frame")
        return super().__next__()


class Http2(H2Connection):
    """The server's side of a connection, whose settings are about to be sent."""

    def __init__(self) -> None:
        # The headers of requests are looked at by ``read_head``: a call that has a wrong one is refused, which is no
        # reason to drop all calls of the connection.
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
                SettingCodes.MAX_CONCURRENT_STREAMS: CONCURRENT_CALLS,
                SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_BYTES,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            },
        )
        self.incoming_buffer = Frames(server=True)
        self.decoder.max_header_list_size = MOST_HEADER_BYTES
        self.initiate_connection()
        self.increment_flow_control_window(CONNECTION_WINDOW - _INITIAL_WINDOW)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        # A client that has said GOAWAY begins no more calls, and waits for the answers to those it began (RFC 9113
        # §6.8). h2 would take the connection for closed.
        return [], []


def goaway(last_stream_id: int) -> bytes:
    """The frame that asks a client to begin no more calls; h2 would end the connection with it."""
    return GoAwayFrame(stream_id=0, last_stream_id=last_stream_id).serialize()

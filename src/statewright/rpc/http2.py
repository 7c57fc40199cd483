"""h2 as a server of gRPC wants it."""

from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
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
_LONGEST: Final = 9 + FRAME
"""Octets of the longest frame of a client, with its head."""


class Frames(FrameBuffer):
    """Frames as they come."""

    @property
    def rest(self) -> int:
        """Octets that are not a whole frame yet."""
        return len(self._data)


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
        self.incoming_buffer = self._frames = Frames(server=True)
        self.decoder.max_header_list_size = MOST_HEADER_BYTES
        self.initiate_connection()
        self.increment_flow_control_window(CONNECTION_WINDOW - _INITIAL_WINDOW)

    def events(self, data: bytes) -> list[Event]:
        """What the client tells. Raises ``ProtocolError``."""
        if self._frames.rest > _LONGEST:  # h2 would look at its length when all of it is here
            self.close_connection(ErrorCodes.FRAME_SIZE_ERROR)
            raise FrameTooLargeError("Received overlong frame")
        return self.receive_data(data)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        # A client that has said GOAWAY begins no more calls, and waits for the answers to those it began (RFC 9113
        # §6.8). h2 would take the connection for closed.
        return [], []


def goaway(last_stream_id: int) -> bytes:
    """The frame that asks a client to begin no more calls; h2 would end the connection with it."""
    return GoAwayFrame(stream_id=0, last_stream_id=last_stream_id).serialize()

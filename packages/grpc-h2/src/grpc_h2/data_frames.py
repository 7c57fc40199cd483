"""DATA of open streams, past the state machines and frame objects of h2.

Streams that live long, such as those of callouts, are DATA and little else, and all that a frame of it changes is how
far the windows are open. Handled here are only frames that h2 would let pass and that change nothing else. All others
go its way, and it decides, counts and errs: frames with padding or a flag, empty ones, those of streams that are not
open, those longer than a window or a frame may be, those of a request that says how long it is, and those in the middle
of headers. The windows and buffers are h2's own, so it knows what was sent and received.

What is used of h2 that it does not promise, which is why its minor version is bounded; the tests compare all of this
with h2 alone (``tests/unit/test_data_frames.py``):

- ``H2Connection``: ``streams``, ``state_machine.state``, ``_data_to_send``, ``_inbound_flow_control_window_manager``;
  that ``receive_data`` handles a frame before it asks for the next
- ``H2Stream``: ``state_machine.state``, ``outbound_flow_control_window``, ``_inbound_window_manager``,
  ``_expected_content_length``, ``_actual_content_length``
- ``WindowManager``: ``current_window_size``
- ``FrameBuffer``: ``__next__``, ``_data``, ``_headers_buffer``
"""

import struct
from typing import Any, Final

from h2.connection import ConnectionState
from h2.events import DataReceived, Event
from h2.stream import H2Stream, StreamState
from hyperframe.frame import Frame

from grpc_h2.http2 import Http2Connection, InboundFrames

_HEAD: Final = struct.Struct(">HBHL")
"""Of a frame (RFC 9113 §4.1): its length but for the last octet, that octet, type and flags, the stream."""

_PLAIN_DATA: Final = 0
"""Type and flags of DATA without a flag (RFC 9113 §6.1)."""

_SENDING: Final = frozenset({StreamState.OPEN, StreamState.HALF_CLOSED_REMOTE})
"""The states of a stream in which the server may send (RFC 9113 §5.1)."""


class DirectFrames(InboundFrames):
    """Frames as they come, up to the next plain DATA, which is the connection's to take or to leave to h2."""

    def __init__(self) -> None:
        super().__init__()
        self._passes_data = False
        self.is_at_data = False
        """Whether plain DATA was not given out."""

    def pass_next(self) -> None:
        """Give out the next frame, whatever it is, and those behind it up to plain DATA."""
        self._passes_data, self.is_at_data = True, False

    def peek_data(self) -> tuple[int, int]:
        """Stream and length of the plain DATA that is next and here to its end; no length if there is none."""
        octets = self._data
        if len(octets) > _HEAD.size and self._left > 0 and not self._headers_buffer:
            high, low, kind, stream_id = _HEAD.unpack_from(octets)
            size = high << 8 | low
            if kind == _PLAIN_DATA and len(octets) >= _HEAD.size + size:
                return stream_id, size
        return 0, 0

    def take_data(self, size: int) -> bytes:
        """What is in the frame of :meth:`peek_data`."""
        end = _HEAD.size + size
        data = bytes(self._data[_HEAD.size : end])
        del self._data[:end]
        self._left -= 1
        return data

    def __next__(self) -> Frame:
        if not self._passes_data and self._data[3:5] == b"\0\0":
            self.is_at_data = True
            raise StopIteration
        self._passes_data = False
        return super().__next__()


class DirectConnection(Http2Connection):
    """The server's side of a connection, which handles plain DATA itself."""

    def __init__(self, *, concurrent_calls: int) -> None:
        self._frames = DirectFrames()
        super().__init__(concurrent_calls=concurrent_calls, frames=self._frames)

    def send_data(
        self,
        stream_id: int,
        data: bytes | memoryview,
        end_stream: bool = False,
        pad_length: Any = None,  # Any: as h2 has it
    ) -> None:
        stream, size = self.streams.get(stream_id), len(data)
        if (
            stream is None
            or not 0 < size <= min(self.outbound_flow_control_window, stream.outbound_flow_control_window)
            or size > self.max_outbound_frame_size
            or stream.state_machine.state not in _SENDING
            or self.state_machine.state is not ConnectionState.SERVER_OPEN
            or end_stream
            or pad_length is not None
        ):
            return super().send_data(stream_id, data, end_stream, pad_length)
        self._data_to_send += _HEAD.pack(size >> 8, size & 0xFF, _PLAIN_DATA, stream_id)
        self._data_to_send += data
        self.outbound_flow_control_window -= size
        stream.outbound_flow_control_window -= size
        return None

    def _receive_batch(self) -> list[Event]:
        frames = self._frames
        events: list[Event] = []
        while True:
            stream_id, size = frames.peek_data()
            if size and (stream := self.streams.get(stream_id)) is not None and self._may_receive(stream, size):
                events.append(self._receive_plain_data(stream, size))
                continue
            if not frames.pending_bytes:
                return events
            frames.pass_next()
            events += self.receive_data(b"")
            if not frames.is_at_data:
                return events

    def _may_receive(self, stream: H2Stream, size: int) -> bool:
        """Whether h2 would let so many octets of data pass."""
        return (
            stream.state_machine.state is StreamState.OPEN
            and size <= self._inbound_flow_control_window_manager.current_window_size
            and size <= stream._inbound_window_manager.current_window_size
            and size <= self.max_inbound_frame_size
            and stream._expected_content_length is None
            and self.state_machine.state is ConnectionState.SERVER_OPEN
        )

    def _receive_plain_data(self, stream: H2Stream, size: int) -> DataReceived:
        self._inbound_flow_control_window_manager.current_window_size -= size
        stream._inbound_window_manager.current_window_size -= size
        stream._actual_content_length += size
        return DataReceived(stream_id=stream.stream_id, data=self._frames.take_data(size), flow_controlled_length=size)

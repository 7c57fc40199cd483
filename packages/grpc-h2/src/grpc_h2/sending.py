"""What leaves on one connection.

What calls send is collected during one turn of the event loop and leaves in one write. DATA waits for the client's
windows and for a transport whose buffer is full; control frames do not, so a client that provokes more of them than it
reads is cut off.
"""

import asyncio
from typing import Final

from h2.exceptions import FlowControlError, H2Error

from grpc_h2.call import CallEnded
from grpc_h2.headers import Headers
from grpc_h2.http2 import FRAMES_PER_FRAME, MAX_FRAME_BYTES, Http2Connection, drop_unsent
from grpc_h2.incidents import Incidents

WRITE_HIGH_WATER: Final = 256 * 1024
"""Bytes in the transport from which on DATA waits."""

WRITE_QUANTUM: Final = 64 * 1024
"""Bytes of DATA after which others get their turn; no frame is longer, whatever the client would take."""

MAX_UNSENT_BYTES: Final = 4 * 1024 * 1024
"""Bytes in the transport at which a client that does not read is cut off; they are mostly control frames."""


class SendingConnection(asyncio.Protocol):
    """The half of a connection that sends."""

    def __init__(self, h2: Http2Connection, incidents: Incidents) -> None:
        self.peer = ""
        self.has_sent_data = False
        """Since that was looked at."""
        self._h2 = h2
        self._incidents = incidents
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self._is_hostile = False
        """Whether the client did what it must not."""
        self._unflushed = 0
        self._flush_is_due = False
        self._is_paused = False
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._wake_writers()

    def abort(self) -> None:
        """Drop the connection; if its client is hostile, with all that the system still holds for it."""
        if self._transport is None:
            return
        if self._is_hostile:
            drop_unsent(self._transport)
        self._transport.abort()

    # What calls ask for.

    def begin(self, stream_id: int, headers: Headers) -> None:
        """Raises :class:`CallEnded`."""
        try:
            self._h2.send_headers(stream_id, headers)
        except H2Error as error:
            raise CallEnded(str(error)) from error
        self._flush_soon()

    def send(self, stream_id: int, data: bytes, at: int) -> int:
        """How much of the data from ``at`` on is on its way. Raises :class:`CallEnded`."""
        if self._is_paused:
            return 0
        size = len(data) - at
        try:
            if size > MAX_FRAME_BYTES or not self._try_send(stream_id, data[at:] if at else data):
                window = self._h2.local_flow_control_window(stream_id)
                size = min(size, window, self._h2.max_outbound_frame_size, WRITE_QUANTUM)
                if size <= 0 or not self._try_send(stream_id, data[at : at + size]):
                    return 0
        except H2Error as error:
            raise CallEnded(str(error)) from error
        self.has_sent_data = True
        self._h2.inbound_frames.allow_control_frames(FRAMES_PER_FRAME)
        self._unflushed += size
        if self._unflushed > WRITE_HIGH_WATER:
            self._flush()
        else:
            self._flush_soon()
        return size

    async def wait_writable(self, stream_id: int) -> None:
        """Returns when a window has been opened, the transport has sent what it had, or the connection is lost."""
        waiting = self._waiting[stream_id] = self._loop.create_future()
        try:
            await waiting
        finally:
            del self._waiting[stream_id]

    async def yield_to_loop(self) -> None:
        """Lets others have their turn after ``WRITE_QUANTUM`` bytes."""
        if self._unflushed > WRITE_QUANTUM:
            self._flush()
            await asyncio.sleep(0)

    # What leaves.

    def _try_send(self, stream_id: int, data: bytes) -> bool:
        try:
            self._h2.send_data(stream_id, data)
        except FlowControlError:
            return False
        return True

    def _wake_writers(self, stream_id: int = 0) -> None:
        """For one stream, or for all."""
        for waiting in (self._waiting.get(stream_id),) if stream_id else self._waiting.values():
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self._unflushed = 0
        data = self._h2.data_to_send()
        if not data or self._is_closed or self._transport is None:
            return
        self._transport.write(data)
        if self._is_paused and self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._incidents.report("grpc_client_does_not_read", peer=self.peer)
            self._is_hostile = True
            self.abort()

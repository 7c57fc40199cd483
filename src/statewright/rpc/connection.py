"""One connection of a client: h2 between a transport and the calls.

What arrives is handed to calls as it comes. What they send is collected during one turn of the event loop and leaves in
one write. DATA waits for the client's windows and for a transport whose buffer is full; control frames do not, so a
client that provokes more of them than it reads is cut off, as is one that opens streams only to reset them.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol, cast

import grpc
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import FlowControlError, H2Error, ProtocolError

from statewright import logs
from statewright.rpc.call import Call, CallEnded
from statewright.rpc.headers import CallRefused, Headers, NotGrpc, RequestHeaders, read_request_headers
from statewright.rpc.http2 import (
    MAX_FRAME_BYTES,
    Http2Connection,
    Limits,
    build_goaway,
    format_peer,
    speaks_http2,
    watch_peer,
)
from statewright.rpc.messages import IDENTITY

log = logs.logger(__name__)

WRITE_HIGH_WATER: Final = 256 * 1024
"""Bytes in the transport from which on DATA waits."""

WRITE_QUANTUM: Final = 64 * 1024
"""Bytes of DATA after which others get their turn; no frame is longer, whatever the client would take."""

MAX_UNSENT_BYTES: Final = 4 * 1024 * 1024
"""Bytes in the transport at which a client that does not read is cut off; they are mostly control frames."""

MAX_RESETS: Final = 10_000
RESET_WINDOW_S: Final = 10.0
"""A client whose many calls all run out of time resets them; one that does nothing else is cut off."""

PREFACE_TIMEOUT_S: Final = 10.0
"""How long a client may take to send its preface."""

GOAWAY_TIMEOUT_S: Final = 1.0
"""How long a client may take to notice that the server leaves, and to close the connection that the server closed."""

MAX_STREAM_ID: Final = 2**31 - 1
GOAWAY_PING: Final = b"farewell"
NO_HEADERS: Final = RequestHeaders(path="", metadata=(), timeout=None, encoding=IDENTITY)


class CallServer(Protocol):
    """Who answers calls."""

    limits: Limits

    def add_connection(self, connection: "ServerConnection") -> None:
        """A client has connected."""
        ...

    def remove_connection(self, connection: "ServerConnection") -> None:
        """It has gone."""
        ...

    def start_call(self, call: Call, peer: str) -> None:
        """Has the call answered."""
        ...


class ServerConnection(asyncio.Protocol):
    """The ``Stream`` of its calls."""

    def __init__(self, service: CallServer) -> None:
        self.peer = ""
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._h2 = Http2Connection(concurrent_calls=service.limits.concurrent_calls)
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, Call] = {}
        self._unflushed = 0
        self._flush_is_due = False
        self._is_paused = False
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._preface_timer = self._loop.call_later(PREFACE_TIMEOUT_S, self.abort)
        self._goaway_timer: asyncio.TimerHandle | None = None
        self._resets, self._resets_since = 0, 0.0
        self._is_going_away = False
        self._goaway_acknowledged = False
        self._is_terminated = False
        self._is_closed = False

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # a stream server makes no others
        if not speaks_http2(self._transport):
            return self._transport.abort()
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self.peer = format_peer(self._transport)
        watch_peer(self._transport)
        self._service.add_connection(self)
        self._flush()
        return None

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            return None
        try:
            events = self._h2.feed(data)
        except ProtocolError as error:
            log.info("grpc_connection_refused", peer=self.peer, reason=str(error)[:200])
            return self._close()
        except Exception:  # of parsers of a stranger's bytes: his connection ends, the others do not
            log.exception("grpc_connection_failed", peer=self.peer)
            return self.abort()
        for event in events:
            self._dispatch(event)
        self._flush_soon()
        return None

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._wake_writers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._preface_timer.cancel()
        if self._goaway_timer is not None:
            self._goaway_timer.cancel()
        self._wake_writers()
        for call in list(self._calls.values()):
            call.abandon()
        self._calls.clear()
        self._service.remove_connection(self)

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

    def end(self, stream_id: int, headers: Headers, *, abandoned: bool) -> None:
        """The status of a call, which is forgotten."""
        self._calls.pop(stream_id, None)
        try:
            self._h2.send_headers(stream_id, headers, end_stream=True)
            if abandoned:
                self._h2.reset_stream(stream_id, ErrorCodes.NO_ERROR)
        except H2Error as gone:  # the client has gone first
            log.debug("grpc_status_unsent", peer=self.peer, reason=str(gone))
        self._flush_soon()
        self._close_if_done()

    def reset(self, stream_id: int) -> None:
        """The end of a call in the middle of a message."""
        self._calls.pop(stream_id, None)
        if not self._is_terminated:  # then the end of the connection tells more
            try:
                self._h2.reset_stream(stream_id, ErrorCodes.CANCEL)
            except H2Error as gone:
                log.debug("grpc_status_unsent", peer=self.peer, reason=str(gone))
        self._flush_soon()
        self._close_if_done()

    def release_window(self, stream_id: int, size: int) -> None:
        """Lets the client send so many bytes more."""
        try:
            self._h2.acknowledge_received_data(size, stream_id)
        except H2Error as gone:
            log.debug("grpc_window_closed", peer=self.peer, reason=str(gone))
        self._flush_soon()

    # The end.

    def begin_goaway(self) -> None:
        """Asks the client to begin no more calls here, and closes when those under way are over.

        Calls that were on their way meanwhile are answered: they arrive before the client's answer to the ping.
        """
        if self._is_going_away or self._is_closed or self._transport is None:
            return
        self._is_going_away = True
        self._h2.ping(GOAWAY_PING)
        self._transport.write(build_goaway(MAX_STREAM_ID))
        self._flush()
        self._goaway_timer = self._loop.call_later(GOAWAY_TIMEOUT_S, self._acknowledge_goaway)

    def terminate(self, code: grpc.StatusCode, text: str) -> None:
        """Ends all calls with a status and closes."""
        self._is_terminated = True
        for call in list(self._calls.values()):
            call.abort(code, text)
        self._close()

    def abort(self) -> None:
        """Drops the connection."""
        if self._transport is not None:
            self._transport.abort()

    # What arrives.

    def _dispatch(self, event: Event) -> None:
        match event:
            case DataReceived():
                self._receive_data(event)
            case StreamEnded(stream_id=stream_id):
                if call := self._calls.get(stream_id):
                    call.receive_end()
            case RequestReceived():
                self._start_request(event.stream_id, event.headers)
            case WindowUpdated(stream_id=stream_id):
                self._wake_writers(stream_id)
            case StreamReset(stream_id=stream_id):
                self._receive_reset(stream_id)
            case RemoteSettingsChanged():
                self._receive_settings()
            case PingAckReceived(ping_data=data) if data == GOAWAY_PING:
                self._acknowledge_goaway()
            case _:
                pass

    def _receive_data(self, event: DataReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:  # it was answered before all of it was here
            return self.release_window(event.stream_id, event.flow_controlled_length)
        call.receive_data(event.data, event.flow_controlled_length)
        # One of them holds more than its share, or all of them together do not hold too much.
        limits = self._service.limits
        if (
            call.unread_bytes > limits.unread_bytes // limits.concurrent_calls
            and sum(call.unread_bytes for call in self._calls.values()) > limits.unread_bytes
        ):
            call.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many bytes of this connection are under way")
        return None

    def _start_request(self, stream_id: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        try:
            head = read_request_headers(headers)
        except NotGrpc as foreign:
            return self.end(stream_id, [(b":status", b"%d" % foreign.status)], abandoned=True)
        except CallRefused as refused:
            return Call(self, stream_id, NO_HEADERS, limit=0).finish(refused.code, str(refused))
        call = self._calls[stream_id] = Call(self, stream_id, head, limit=self._service.limits.message_bytes)
        call.start_deadline(self._loop)
        self._service.start_call(call, self.peer)
        return None

    def _receive_reset(self, stream_id: int) -> None:
        call = self._calls.pop(stream_id, None)
        if call is not None:
            call.abandon()
        now = self._loop.time()
        if now - self._resets_since > RESET_WINDOW_S:
            self._resets, self._resets_since = 0, now
        self._resets += 1
        if self._resets > MAX_RESETS:
            log.warning("grpc_client_resets_streams", peer=self.peer)
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            return self._close()
        return self._close_if_done()

    def _receive_settings(self) -> None:
        """The client's settings are here, which may widen the windows of its streams."""
        self._preface_timer.cancel()
        self._wake_writers()

    def _acknowledge_goaway(self) -> None:
        """The client knows that the server leaves, or has had time to know."""
        self._goaway_acknowledged = True
        self._close_if_done()

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
            log.warning("grpc_client_does_not_read", peer=self.peer)
            self.abort()

    def _close_if_done(self) -> None:
        if self._goaway_acknowledged and not self._calls and not self._is_closed and self._transport is not None:
            self._flush()
            self._transport.write(build_goaway(self._h2.highest_inbound_stream_id))
            self._close()

    def _close(self) -> None:
        """Says that nothing more will come; the client closes then.

        To close at once, with octets of the client's unread, could cost it the last that was written (RFC 9112 §9.6).
        TLS has no half of a connection to close: its closure alert is answered by the client's.
        """
        self._flush()
        if self._is_closed or self._transport is None or self._transport.is_closing():
            return
        self._is_closed = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        if self._goaway_timer is not None:
            self._goaway_timer.cancel()
        self._goaway_timer = self._loop.call_later(GOAWAY_TIMEOUT_S, self.abort)
        for call in list(self._calls.values()):
            call.abandon()
        self._calls.clear()

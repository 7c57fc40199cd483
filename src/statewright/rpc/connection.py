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
from statewright.rpc.call import Call, CallOver
from statewright.rpc.heads import CallRefused, Head, Headers, NotGrpc, read_head
from statewright.rpc.http2 import CONCURRENT_CALLS, FRAME, Http2, goaway
from statewright.rpc.messages import IDENTITY
from statewright.rpc.sockets import peer_of, watch

log = logs.logger("grpc")

WRITE_BUFFER: Final = 256 * 1024
"""Bytes in the transport from which on DATA waits."""

BREATH: Final = 64 * 1024
"""Bytes of DATA after which others get their turn; no frame is longer, whatever the client would take."""

MOST_UNREAD: Final = 4 * 1024 * 1024
"""Bytes in the transport at which a client that does not read is cut off; they are mostly control frames."""

HELD: Final = 64 * 1024 * 1024
"""Bytes of messages of one connection that handlers have not read, or that are not complete."""

RESETS: Final = 10_000
RESETS_WITHIN_S: Final = 10.0
"""A client whose many calls all run out of time resets them; one that does nothing else is cut off."""

OPENING_S: Final = 10.0
"""How long a client may take to send its preface."""

HEARING_S: Final = 1.0
"""How long a client may take to notice that the server leaves, and to close the connection that the server closed."""

LAST_POSSIBLE: Final = 2**31 - 1
FAREWELL: Final = b"farewell"
NO_HEAD: Final = Head(path="", metadata=(), timeout=None, encoding=IDENTITY)


class Service(Protocol):
    """Who answers calls."""

    limit: int
    """The longest message in bytes."""

    def opened(self, connection: "Connection") -> None:
        """A client has connected."""
        ...

    def closed(self, connection: "Connection") -> None:
        """It has gone."""
        ...

    def start_call(self, call: Call, peer: str) -> None:
        """Has the call answered."""
        ...


class Connection(asyncio.Protocol):
    """The ``Stream`` of its calls."""

    def __init__(self, service: Service) -> None:
        self.peer = ""
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._h2 = Http2()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, Call] = {}
        self._unflushed = 0
        self._flush_is_due = False
        self._is_paused = False
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._opening = self._loop.call_later(OPENING_S, self.abort)
        self._hearing: asyncio.TimerHandle | None = None
        self._resets, self._resets_since = 0, 0.0
        self._is_retiring = False
        self._was_heard = False
        self._is_cut_off = False
        self._is_closed = False

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # a stream server makes no others
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self.peer = peer_of(self._transport)
        watch(self._transport)
        self._service.opened(self)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            return None
        try:
            events = self._h2.events(data)
        except ProtocolError as error:
            log.info("grpc_connection_refused", peer=self.peer, reason=str(error)[:200])
            return self._close()
        except Exception:  # of parsers of a stranger's bytes: his connection ends, the others do not
            log.exception("grpc_connection_failed", peer=self.peer)
            return self.abort()
        for event in events:
            self._heed(event)
        self._flush_soon()
        return None

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._opening.cancel()
        if self._hearing is not None:
            self._hearing.cancel()
        self._make_room()
        for call in list(self._calls.values()):
            call.abandon()
        self._calls.clear()
        self._service.closed(self)

    # What calls ask for.

    def begin(self, stream_id: int, headers: Headers) -> None:
        """Raises :class:`CallOver`."""
        try:
            self._h2.send_headers(stream_id, headers)
        except H2Error as error:
            raise CallOver(str(error)) from error
        self._flush_soon()

    def send(self, stream_id: int, data: bytes, at: int) -> int:
        """How much of the data from ``at`` on is on its way. Raises :class:`CallOver`."""
        if self._is_paused:
            return 0
        size = len(data) - at
        try:
            if size > FRAME or not self._sent(stream_id, data[at:] if at else data):
                window = self._h2.local_flow_control_window(stream_id)
                size = min(size, window, self._h2.max_outbound_frame_size, BREATH)
                if size <= 0 or not self._sent(stream_id, data[at : at + size]):
                    return 0
        except H2Error as error:
            raise CallOver(str(error)) from error
        self._unflushed += size
        if self._unflushed > WRITE_BUFFER:
            self._flush()
        else:
            self._flush_soon()
        return size

    async def room(self, stream_id: int) -> None:
        """Returns when a window has been opened, the transport has sent what it had, or the connection is lost."""
        waiting = self._waiting[stream_id] = self._loop.create_future()
        try:
            await waiting
        finally:
            del self._waiting[stream_id]

    async def breath(self) -> None:
        """Lets others have their turn after ``BREATH`` bytes."""
        if self._unflushed > BREATH:
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
        self._leave_if_done()

    def reset(self, stream_id: int) -> None:
        """The end of a call in the middle of a message."""
        self._calls.pop(stream_id, None)
        if not self._is_cut_off:  # then the end of the connection tells more
            try:
                self._h2.reset_stream(stream_id, ErrorCodes.CANCEL)
            except H2Error as gone:
                log.debug("grpc_status_unsent", peer=self.peer, reason=str(gone))
        self._flush_soon()
        self._leave_if_done()

    def grant(self, stream_id: int, size: int) -> None:
        """Lets the client send so many bytes more."""
        try:
            self._h2.acknowledge_received_data(size, stream_id)
        except H2Error as gone:
            log.debug("grpc_window_closed", peer=self.peer, reason=str(gone))
        self._flush_soon()

    # The end.

    def retire(self) -> None:
        """Asks the client to begin no more calls here, and closes when those under way are over.

        Calls that were on their way meanwhile are answered: they arrive before the client's answer to the ping.
        """
        if self._is_retiring or self._is_closed or self._transport is None:
            return
        self._is_retiring = True
        self._h2.ping(FAREWELL)
        self._transport.write(goaway(LAST_POSSIBLE))
        self._flush()
        self._hearing = self._loop.call_later(HEARING_S, self._heard)

    def cut_off(self, code: grpc.StatusCode, text: str) -> None:
        """Ends all calls with a status and closes."""
        self._is_cut_off = True
        for call in list(self._calls.values()):
            call.break_off(code, text)
        self._close()

    def abort(self) -> None:
        """Drops the connection."""
        if self._transport is not None:
            self._transport.abort()

    # What arrives.

    def _heed(self, event: Event) -> None:
        match event:
            case DataReceived():
                self._data(event)
            case StreamEnded(stream_id=stream_id):
                if call := self._calls.get(stream_id):
                    call.half_closed()
            case RequestReceived():
                self._request(event.stream_id, event.headers)
            case WindowUpdated(stream_id=stream_id):
                self._make_room(stream_id)
            case StreamReset(stream_id=stream_id):
                self._was_reset(stream_id)
            case RemoteSettingsChanged():
                self._greeted()
            case PingAckReceived(ping_data=data) if data == FAREWELL:
                self._heard()
            case _:
                pass

    def _data(self, event: DataReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:  # it was answered before all of it was here
            return self.grant(event.stream_id, event.flow_controlled_length)
        call.received(event.data, event.flow_controlled_length)
        # One of them holds more than its share, or all of them together do not hold too much.
        if call.held > HELD // CONCURRENT_CALLS and sum(call.held for call in self._calls.values()) > HELD:
            call.break_off(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many bytes of this connection are under way")
        return None

    def _request(self, stream_id: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        try:
            head = read_head(headers)
        except NotGrpc as foreign:
            return self.end(stream_id, [(b":status", b"%d" % foreign.status)], abandoned=True)
        except CallRefused as refused:
            return Call(self, stream_id, NO_HEAD, limit=0).finish(refused.code, str(refused))
        call = self._calls[stream_id] = Call(self, stream_id, head, limit=self._service.limit)
        call.limit_time(self._loop)
        self._service.start_call(call, self.peer)
        return None

    def _was_reset(self, stream_id: int) -> None:
        call = self._calls.pop(stream_id, None)
        if call is not None:
            call.abandon()
        now = self._loop.time()
        if now - self._resets_since > RESETS_WITHIN_S:
            self._resets, self._resets_since = 0, now
        self._resets += 1
        if self._resets > RESETS:
            log.warning("grpc_client_resets_streams", peer=self.peer)
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            return self._close()
        return self._leave_if_done()

    def _greeted(self) -> None:
        """The client's settings are here, which may widen the windows of its streams."""
        self._opening.cancel()
        self._make_room()

    def _heard(self) -> None:
        """The client knows that the server leaves, or has had time to know."""
        self._was_heard = True
        self._leave_if_done()

    # What leaves.

    def _sent(self, stream_id: int, data: bytes) -> bool:
        try:
            self._h2.send_data(stream_id, data)
        except FlowControlError:
            return False
        return True

    def _make_room(self, stream_id: int = 0) -> None:
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
        if self._is_paused and self._transport.get_write_buffer_size() > MOST_UNREAD:
            log.warning("grpc_client_does_not_read", peer=self.peer)
            self.abort()

    def _leave_if_done(self) -> None:
        if self._was_heard and not self._calls and not self._is_closed and self._transport is not None:
            self._flush()
            self._transport.write(goaway(self._h2.highest_inbound_stream_id))
            self._close()

    def _close(self) -> None:
        """Says that nothing more will come; the client closes then.

        To close at once, with octets of the client's unread, could cost it the last that was written (RFC 9112 §9.6).
        """
        self._flush()
        if self._is_closed or self._transport is None or self._transport.is_closing():
            return
        self._is_closed = True
        self._transport.write_eof()
        if self._hearing is not None:
            self._hearing.cancel()
        self._hearing = self._loop.call_later(HEARING_S, self.abort)
        for call in list(self._calls.values()):
            call.abandon()
        self._calls.clear()

"""One connection of a client: h2 between a transport and the calls.

What arrives is handled frame by frame, as long as the turn of the connection lasts (``turns``), and handed to calls as
it comes; ``sending`` has what leaves. A client that does nothing but reset its calls, or sends frames without content
at a rate that no client needs, is cut off.
"""

import asyncio
from collections.abc import Iterable
from time import monotonic, perf_counter
from typing import Final, Protocol, cast

import grpc
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    PingReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, ProtocolError

from grpc_h2.call import TOO_MUCH_MEMORY, Call
from grpc_h2.data_frames import DirectConnection
from grpc_h2.headers import CallRefused, Headers, NotGrpc, RequestHeaders, read_request_headers
from grpc_h2.http2 import (
    FRAMES_PER_FRAME,
    FairTurns,
    Limits,
    TooManyControlFrames,
    build_goaway,
    format_peer,
    speaks_http2,
)
from grpc_h2.incidents import Incidents
from grpc_h2.memory import MemoryAccount, MemoryBudget
from grpc_h2.messages import IDENTITY
from grpc_h2.receiving import ReceiveWindows
from grpc_h2.sending import WRITE_HIGH_WATER, SendingConnection

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
    memory: MemoryBudget
    incidents: Incidents
    turns: FairTurns

    def add_connection(self, connection: "ServerConnection") -> None:
        """A client has connected."""
        ...

    def welcome_connection(self, connection: "ServerConnection") -> None:
        """It has made its first call that was let in."""
        ...

    def remove_connection(self, connection: "ServerConnection") -> None:
        """It has gone."""
        ...

    def start_call(self, call: Call, peer: str) -> None:
        """Has the call answered. Raises :class:`CallRefused`."""
        ...


class ServerConnection(SendingConnection):
    """The ``Stream`` of its calls."""

    def __init__(self, service: CallServer) -> None:
        super().__init__(DirectConnection(concurrent_calls=service.limits.concurrent_calls), service.incidents)
        self._service = service
        self._calls: dict[int, Call] = {}
        self.memory = MemoryAccount(service.memory, service.limits.connection_bytes)
        self.last_ping: float | None = None
        self._windows = ReceiveWindows(service.memory, self.memory, self._calls, self._grant, self._count_refused_call)
        self._inbound_bytes = 0
        """Those of frames and headers that are not complete, or wait for their turn."""
        self._is_in_line = False
        self._preface_timer = self._loop.call_later(PREFACE_TIMEOUT_S, self.abort)
        self._goaway_timer: asyncio.TimerHandle | None = None
        self._resets, self._resets_since = 0, 0.0
        self._is_welcome = False
        self._idle_since = self._loop.time()
        self._is_going_away = False
        self._goaway_acknowledged = False
        self._is_terminated = False

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # a stream server makes no others
        if not speaks_http2(self._transport):
            return self._transport.abort()
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self.peer = format_peer(self._transport)
        self._service.add_connection(self)
        self._flush()
        return None

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            return None
        try:
            self._h2.inbound_frames.add_data(data)
        except ProtocolError as error:
            return self._refuse(error)
        if not self._is_in_line:
            self._service.turns.handle(self)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._preface_timer.cancel()
        if self._goaway_timer is not None:
            self._goaway_timer.cancel()
        self._wake_writers()
        self._abandon_calls()
        self._windows.close()
        self._count_inbound(0)
        self.memory.close()
        self._service.remove_connection(self)

    # Turns.

    def handle_frames(self, until: float) -> bool:
        """Handle what has come until ``time.perf_counter`` says so; whether some is left."""
        frames, is_left = self._h2.inbound_frames, False
        if self._is_closed or self._transport is None:
            return False
        while not self._is_closed:
            try:
                for event in self._h2.feed():
                    self._dispatch(event)
            except ProtocolError as error:
                self._refuse(error)
                return False
            except Exception:  # of parsers of a stranger's bytes: his connection ends, the others do not
                self._incidents.log.exception("grpc_connection_failed", peer=self.peer)
                self.abort()
                return False
            if not frames.is_batch_full:
                break
            if is_left := perf_counter() >= until:
                break
        self._count_inbound(frames.pending_bytes + frames.unfinished_header_bytes)
        self._flush_soon()
        return is_left

    def pause_reading(self) -> None:
        """Until :meth:`resume_reading`."""
        self._is_in_line = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, unless the client floods."""
        self._is_in_line = False
        if self._transport is not None and not self._transport.is_closing() and not self._is_hostile:
            self._transport.resume_reading()

    # What calls ask for, and ``sending`` does not do.

    def end(self, stream_id: int, headers: Headers, *, abandoned: bool) -> None:
        """The status of a call, which is forgotten."""
        self._forget(stream_id)
        try:
            self._h2.send_headers(stream_id, headers, end_stream=True)
            if abandoned:
                self._h2.reset_stream(stream_id, ErrorCodes.NO_ERROR)
        except H2Error as gone:  # the client has gone first
            self._incidents.log.debug("grpc_status_unsent", peer=self.peer, reason=str(gone))
        self._flush_soon()
        self._close_if_done()

    def reset(self, stream_id: int) -> None:
        """The end of a call in the middle of a message."""
        self._forget(stream_id)
        if not self._is_terminated:  # then the end of the connection tells more
            try:
                self._h2.reset_stream(stream_id, ErrorCodes.CANCEL)
            except H2Error as gone:
                self._incidents.log.debug("grpc_status_unsent", peer=self.peer, reason=str(gone))
        self._flush_soon()
        self._close_if_done()

    def release_window(self, stream_id: int, size: int) -> None:
        """Lets the client send so many bytes more, when there is room for them."""
        self._windows.release(stream_id, size)

    def relieve_memory(self) -> bool:
        """Refuse the newest calls until the connection holds no more than it may; whether that is so."""
        return self._windows.refuse_until_not_over()

    # The end.

    def review(self, now: float) -> None:
        """End calls whose messages take too long, and the connection if nobody uses it. ``now`` is the loop's time."""
        limits = self._service.limits
        for call in [call for call in self._calls.values() if call.request_due is not None and call.request_due < now]:
            self._incidents.report("grpc_request_too_slow", peer=self.peer, method=call.headers.path)
            text = f"the request was not here within {limits.request_timeout_s:g} s"
            call.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)
        allowed = limits.idle_timeout_s if self._is_welcome else limits.first_call_timeout_s
        if not self._calls and allowed is not None and now - self._idle_since > allowed:
            self.begin_goaway()

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

    # What arrives.

    def _dispatch(self, event: Event) -> None:
        if self._is_closed:
            return
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
            case PingReceived():
                self._receive_ping()
            case RemoteSettingsChanged():
                self._receive_settings()
            case PingAckReceived(ping_data=data) if data == GOAWAY_PING:
                self._acknowledge_goaway()
            case _:
                pass

    def _receive_data(self, event: DataReceived) -> None:
        if call := self._calls.get(event.stream_id):  # else it was answered before all of it was here
            call.receive_data(event.data, event.flow_controlled_length)
        self._windows.receive(event.flow_controlled_length)

    def _start_request(self, stream_id: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        try:
            head = read_request_headers(headers)
        except NotGrpc as foreign:
            self._h2.count_refused_call()
            return self.end(stream_id, [(b":status", b"%d" % foreign.status)], abandoned=True)
        except CallRefused as refused:
            self._h2.count_refused_call()
            return Call(self, stream_id, NO_HEADERS, limit=0).finish(refused.code, str(refused))
        call = self._calls[stream_id] = Call(self, stream_id, head, limit=self._service.limits.message_bytes)
        if self.memory.is_over:
            self._count_refused_call()
            return call.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MUCH_MEMORY)
        try:
            call.start_deadline(self._loop)
            self._service.start_call(call, self.peer)
        except CallRefused as refused:
            self._h2.count_refused_call()
            return call.finish(refused.code, str(refused))
        self._h2.inbound_frames.allow_control_frames(FRAMES_PER_FRAME)
        if not self._is_welcome:
            self._is_welcome = True
            self._service.welcome_connection(self)
        return None

    def _receive_reset(self, stream_id: int) -> None:
        call = self._forget(stream_id)
        if call is not None:
            call.abandon()
        now = self._loop.time()
        if now - self._resets_since > RESET_WINDOW_S:
            self._resets, self._resets_since = 0, now
        self._resets += 1
        if self._resets > MAX_RESETS:
            self._incidents.report("grpc_client_resets_streams", peer=self.peer)
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            return self._close()
        return self._close_if_done()

    def _receive_ping(self) -> None:
        """Clients send pings to keep a connection alive, and others after every bit of data, to measure it."""
        if not self.has_sent_data:
            self.last_ping = monotonic()
        self.has_sent_data = False

    def _receive_settings(self) -> None:
        """The client's settings are here, which may widen the windows of its streams."""
        self._preface_timer.cancel()
        self._wake_writers()

    def _acknowledge_goaway(self) -> None:
        """The client knows that the server leaves, or has had time to know."""
        self._goaway_acknowledged = True
        self._close_if_done()

    # Accounts.

    def _forget(self, stream_id: int) -> Call | None:
        call = self._calls.pop(stream_id, None)
        self._windows.forget(stream_id)
        if not self._calls and self._is_welcome:
            self._idle_since = self._loop.time()
        return call

    def _grant(self, stream_id: int, size: int) -> None:
        try:
            self._h2.increment_flow_control_window(size, stream_id or None)
        except H2Error as gone:
            self._incidents.log.debug("grpc_window_closed", peer=self.peer, reason=str(gone))
        self._flush_soon()

    def _count_inbound(self, size: int) -> None:
        """So many octets are not handled. A client that sends them when there is no room is cut off."""
        if size > self._inbound_bytes:
            self.memory.take(size - self._inbound_bytes)
        elif size < self._inbound_bytes:
            self.memory.give_back(self._inbound_bytes - size)
        self._inbound_bytes = size
        if size and self.memory.is_over and not self.relieve_memory() and not self._calls:
            self._incidents.report("grpc_connection_refused", peer=self.peer, reason=TOO_MUCH_MEMORY)
            self._is_closed = self._is_hostile = True
            self._h2.inbound_frames.drop()
            self._count_inbound(0)
            self.abort()

    def _count_refused_call(self) -> None:
        self._incidents.report("grpc_memory_exhausted", peer=self.peer)

    # The end of the connection.

    def _refuse(self, error: ProtocolError) -> None:
        is_flood = isinstance(error, TooManyControlFrames)
        event = "grpc_client_floods" if is_flood else "grpc_connection_refused"
        self._incidents.report(event, peer=self.peer, reason=str(error)[:200])
        self._close()
        if is_flood:
            self._is_hostile = True
            self.pause_reading()  # for good: what else it sends is not worth the time

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
        self._abandon_calls()

    def _abandon_calls(self) -> None:
        for call in list(self._calls.values()):
            call.abandon()
        self._calls.clear()

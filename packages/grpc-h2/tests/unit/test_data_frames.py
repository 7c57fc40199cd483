"""Plain DATA, which h2 has no part in: everything comes to the same as with h2 alone."""

from itertools import pairwise
from typing import Any

import pytest
from h2.connection import H2Connection
from h2.events import DataReceived
from h2.exceptions import (
    FlowControlError,
    FrameTooLargeError,
    H2Error,
    InvalidBodyLengthError,
    NoSuchStreamError,
    ProtocolError,
    StreamClosedError,
)
from h2.stream import H2Stream
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from grpc_h2.data_frames import DirectConnection
from grpc_h2.http2 import CONNECTION_WINDOW, MAX_FRAME_BYTES, MAX_FRAMES_AT_ONCE, STREAM_WINDOW, Http2Connection

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GREETING = PREFACE + SettingsFrame(0).serialize()

Step = tuple[Any, ...]
"""``read`` and octets of the client, or a method of h2 and its arguments."""


def open_stream(stream: int, *, end: bool = False, length: int | None = None) -> HeadersFrame:
    fields = [(":method", "POST"), (":path", "/a/b"), (":scheme", "http")]
    if length is not None:
        fields.append(("content-length", str(length)))
    return HeadersFrame(stream, Encoder().encode(fields), flags=["END_HEADERS"] + ["END_STREAM"] * end)


def lay(*frames: Frame | bytes) -> bytes:
    return b"".join(frame if isinstance(frame, bytes) else frame.serialize() for frame in frames)


def a_connection(kind: type[Http2Connection], *frames: Frame | bytes) -> Http2Connection:
    """The server's side, which has read the greeting and these frames, and sent what they made it send."""
    h2 = kind(concurrent_calls=100)
    take(h2, ("read", GREETING + lay(*frames)))
    h2.data_to_send()
    return h2


def take(h2: Http2Connection, step: Step) -> list[object]:
    """What comes of a step: events by batch, or a failure."""
    name, *arguments = step
    told: list[object] = []
    try:
        if name != "read":
            return [getattr(h2, name)(*arguments)]
        h2.inbound_frames.add_data(*arguments)
        while True:
            told.append([(repr(event), getattr(event, "data", b"")) for event in h2.feed()])
            if not h2.inbound_frames.is_batch_full:
                return told
    except (H2Error, KeyError) as failure:  # h2 looks a stream up whose window is to be widened
        return [*told, type(failure), str(failure), getattr(failure, "error_code", None)]


def observe(h2: Http2Connection) -> tuple[object, ...]:
    """What h2 knows, and sends now."""
    streams = {
        stream.stream_id: (
            stream.state_machine.state,
            stream.outbound_flow_control_window,
            stream.inbound_flow_control_window,
            stream._actual_content_length,
        )
        for stream in h2.streams.values()
    }
    windows = h2.outbound_flow_control_window, h2.inbound_flow_control_window
    frames = h2.inbound_frames
    return h2.data_to_send(), h2.state_machine.state, windows, streams, frames.pending_bytes, frames._left


OPEN = (open_stream(1), open_stream(3, length=40_000), open_stream(5), open_stream(7, end=True))
"""Streams of all conversations."""


def play(kind: type[Http2Connection], steps: list[Step]) -> list[object]:
    """What comes of each step and is known after it, to the end of the connection."""
    h2, told = a_connection(kind, *OPEN), list[object]()
    for step in steps:
        told += [step[0], *(came := take(h2, step)), observe(h2)]
        if step[0] == "read" and came and not isinstance(came[-1], list):
            break  # nothing more is read after a failure
    return told


def a_frame(kind: type[Frame], *streams: int, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return st.builds(kind, st.sampled_from(streams), **fields).map(Frame.serialize)


sizes = st.sampled_from([1, 5, 600, 600, MAX_FRAME_BYTES - 1, MAX_FRAME_BYTES])
any_sizes = st.one_of(sizes, st.sampled_from([0, MAX_FRAME_BYTES + 1, 32_768, 65_535, 65_536]))
increments = st.sampled_from([1, 600, 65_535])
plain = a_frame(DataFrame, 1, 1, 1, 5, 5, 3, 7, data=sizes.map(bytes))
granting = st.one_of(
    a_frame(WindowUpdateFrame, 0, 1, 3, 5, window_increment=increments),
    a_frame(SettingsFrame, 0, settings=st.fixed_dictionaries({4: st.sampled_from([0, 600, 65_535, 1 << 20])})),
    a_frame(SettingsFrame, 0, settings=st.fixed_dictionaries({5: st.sampled_from([16_384, 32_768])})),
)
usual = st.one_of(
    plain,
    plain,
    granting,
    st.builds(lambda frame, times: frame * times, plain, st.sampled_from([2, MAX_FRAMES_AT_ONCE, 20])),
    a_frame(DataFrame, 1, 5, data=st.binary(max_size=9), flags=st.just(["PADDED"]), pad_length=st.integers(0, 255)),
    a_frame(DataFrame, 1, 5, flags=st.sampled_from([[], ["END_STREAM"]])),
    a_frame(RstStreamFrame, 3, 5),
    a_frame(PingFrame, 0, opaque_data=st.just(b"12345678")),
)
"""What a client sends that is not out of its mind."""

odd = st.one_of(
    st.builds(  # all flags and the bit that is reserved; padding may be longer than its frame
        lambda stream, flags, reserved, body: (
            len(body).to_bytes(3) + b"\0" + flags.to_bytes() + (stream | reserved << 31).to_bytes(4) + body
        ),
        st.sampled_from([1, 1, 5, 3, 7, 9, 2, 0]),
        st.sampled_from([0, 0, 1, 2, 8, 9, 0xF6, 0xFF]),
        st.booleans(),
        st.one_of(st.binary(max_size=300), any_sizes.map(bytes)),
    ),
    st.builds(
        open_stream, st.sampled_from([1, 3, 9, 11]), end=st.booleans(), length=st.sampled_from([None, 0, 600])
    ).map(Frame.serialize),
    a_frame(HeadersFrame, 1, 9, flags=st.sampled_from([[], ["END_HEADERS"]])),
    a_frame(ContinuationFrame, 1, 9, flags=st.sampled_from([[], ["END_HEADERS"]])),
    a_frame(WindowUpdateFrame, 0, 1, 9, window_increment=st.just(2**31 - 1)),
    a_frame(DataFrame, 1, 5, data=st.just(bytes(MAX_FRAME_BYTES + 1))),
    a_frame(GoAwayFrame, 0),
)
outbound: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("send_data"), st.sampled_from([1, 5, 7]), sizes.map(bytes)),
    st.tuples(st.just("send_data"), st.sampled_from([1, 5, 7]), sizes.map(bytes)),
    st.tuples(
        st.just("send_data"),
        st.sampled_from([1, 3, 5, 7, 9]),
        any_sizes.map(bytes),
        st.booleans(),
        st.sampled_from([None, None, 0, 255]),
    ),
    st.tuples(st.just("send_headers"), st.sampled_from([1, 3, 5, 7]), st.just([(":status", "200")]), st.booleans()),
    st.tuples(st.just("reset_stream"), st.sampled_from([3, 5, 7])),
    st.tuples(st.just("increment_flow_control_window"), increments, st.sampled_from([None, 1, 3, 5])),
)
closing: st.SearchStrategy[list[Step]] = st.sampled_from([[], [], [], [("close_connection",)]])


@st.composite
def conversations(draw: st.DrawFn) -> list[Step]:
    """Frames of the client, torn at random octets, and what the server does in between."""
    frames = draw(st.lists(usual, min_size=1, max_size=25))
    for frame in draw(st.lists(odd, max_size=2)):
        frames.insert(draw(st.integers(0, len(frames))), frame)
    octets = b"".join(frames)
    cuts = sorted(draw(st.lists(st.integers(0, len(octets)), max_size=5)))
    steps: list[Step] = []
    for begin, end in pairwise([0, *cuts, len(octets)]):
        steps += [*draw(st.lists(outbound, max_size=2)), ("read", octets[begin:end])]
    return [*steps, *draw(closing), *steps[-2:]]


@settings(max_examples=300)
@given(conversations())
def test_what_is_read_comes_to_the_same_as_with_h2_alone(steps: list[Step]):
    assert play(DirectConnection, steps) == play(Http2Connection, steps)


@settings(max_examples=100)
@given(st.lists(st.one_of(outbound, outbound, st.tuples(st.just("read"), granting)), max_size=40), closing)
def test_what_is_sent_comes_to_the_same_as_with_h2_alone(steps: list[Step], end: list[Step]):
    steps += [*end, *steps[-2:]]
    assert play(DirectConnection, steps) == play(Http2Connection, steps)


FULL = DataFrame(1, bytes(MAX_FRAME_BYTES))
MANY = range(9, 9 + 2 * (CONNECTION_WINDOW // STREAM_WINDOW + 1), 2)
FRAMES_OF_A_WINDOW = STREAM_WINDOW // MAX_FRAME_BYTES
REFUSED: dict[str, tuple[type[Exception], list[Step]]] = {
    "the window of a stream": (FlowControlError, [("read", lay(FULL) * (FRAMES_OF_A_WINDOW + 1))]),
    "the window of the connection": (
        FlowControlError,
        [
            ("read", lay(*map(open_stream, MANY))),
            *(("read", lay(DataFrame(stream, FULL.data)) * FRAMES_OF_A_WINDOW) for stream in MANY),
        ],
    ),
    "the length of a frame": (FrameTooLargeError, [("read", lay(DataFrame(1, bytes(MAX_FRAME_BYTES + 1))))]),
    "the length of a request": (InvalidBodyLengthError, [("read", lay(DataFrame(3, FULL.data)) * 3)]),
    "in the middle of headers": (ProtocolError, [("read", lay(HeadersFrame(9, b""), FULL))]),
    "a stream that is not open": (NoSuchStreamError, [("read", lay(DataFrame(9, b"x")))]),
    "a connection that is closed": (ProtocolError, [("close_connection",), ("read", lay(FULL))]),
    "what a stream takes": (
        FlowControlError,
        [("read", lay(SettingsFrame(0, settings={4: 600}))), ("send_data", 1, bytes(601))],
    ),
    "what a connection takes": (
        FlowControlError,
        [("read", lay(SettingsFrame(0, settings={4: 1 << 20}))), *[("send_data", 1, FULL.data)] * 4],
    ),
    "what a frame takes": (FrameTooLargeError, [("send_data", 1, bytes(MAX_FRAME_BYTES + 1))]),
    "to a stream that was reset": (StreamClosedError, [("read", lay(RstStreamFrame(1))), ("send_data", 1, b"x")]),
    "to a connection that is closed": (ProtocolError, [("close_connection",), ("send_data", 1, b"x")]),
}


@pytest.mark.parametrize("beyond", REFUSED)
def test_what_h2_refuses_is_refused(beyond: str):
    failure, steps = REFUSED[beyond]
    told = play(DirectConnection, steps)
    assert failure in told
    assert told == play(Http2Connection, steps)


def test_plain_data_are_none_of_h2s_business(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("h2 is asked")

    h2 = a_connection(DirectConnection, open_stream(1))
    monkeypatch.setattr(H2Connection, "receive_data", refuse)
    monkeypatch.setattr(H2Stream, "send_data", refuse)
    h2.inbound_frames.add_data(lay(DataFrame(1, b"there")))
    assert h2.feed() == [DataReceived(stream_id=1, data=b"there", flow_controlled_length=5)]
    h2.send_data(1, b"back")
    assert h2.data_to_send() == lay(DataFrame(1, b"back"))


def test_events_come_in_the_order_of_their_frames():
    h2 = a_connection(DirectConnection, open_stream(1), open_stream(3))
    ping, window = PingFrame(0, b"12345678"), WindowUpdateFrame(1, window_increment=1)
    octets = lay(DataFrame(1, b"a"), ping, DataFrame(3, b"b"), DataFrame(1, b"c"), window, DataFrame(3, b"d"), ping)
    h2.inbound_frames.add_data(octets)
    told = [event.data if isinstance(event, DataReceived) else type(event).__name__ for event in h2.feed()]
    assert told == [b"a", "PingReceived", b"b", b"c", "WindowUpdated", b"d", "PingReceived"]


def test_data_count_among_the_frames_that_are_handled_at_once():
    h2 = a_connection(DirectConnection, open_stream(1))
    h2.inbound_frames.add_data(lay(DataFrame(1, b"x")) * (MAX_FRAMES_AT_ONCE + 1))
    batches = [len(h2.feed()), len(h2.feed())]
    assert batches == [MAX_FRAMES_AT_ONCE, 1]

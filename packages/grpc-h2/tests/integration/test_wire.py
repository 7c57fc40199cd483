"""HTTP/2 as clients of other languages speak it, and as nobody should (RFC 9113)."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import h2.errors
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from grpc_h2 import connection as rpc
from grpc_h2 import sending
from grpc_h2.http2 import CONNECTION_WINDOW, STREAM_WINDOW, Limits
from grpc_h2.messages import frame_message
from grpc_h2_testing.echo import PATIENCE, Client, House, a_client, a_house, until
from grpc_h2_testing.wire import PREFACE, Wire, a_socket, a_wire, head

KIB, MIB = 1024, 1024 * 1024


@pytest.fixture
async def wire(house: House) -> AsyncIterator[Wire]:
    async with a_wire(house) as opened:
        yield opened


@asynccontextmanager
async def a_bystander(house: House) -> AsyncIterator[Client]:
    """A client whose conversation goes on whatever others do; after that nobody is left."""
    async with a_client(house) as client:
        chat = client.meet()
        await chat.write(b"before")
        yield client
        await chat.write(b"after")
        assert [await chat.read(), await chat.read()] == [b"before", b"after"]
        assert await client.say(b"x") == b"x"
        await chat.done_writing()
        assert await chat.read() is grpc.aio.EOF
        await until(lambda: house.server.connections == 1)
        await house.until_idle()


# Windows and frames of clients that are not grpcio.


async def test_a_client_that_grants_much_and_rarely_gets_long_messages(house: House):
    async with a_wire(house, initial_window_size=16 * MIB) as wire:
        wire.h2.increment_flow_control_window(16 * MIB)
        wire.grants = False
        answer = await wire.ask("size", b"%d" % (8 * MIB))
        assert (answer.messages, answer.status) == ([bytes(8 * MIB)], 0)


async def test_a_client_that_takes_large_frames_is_not_taken_for_one_that_does_not_read(house: House):
    async with a_wire(house, initial_window_size=64 * MIB, max_frame_size=2**24 - 1) as wire:
        wire.h2.increment_flow_control_window(64 * MIB)
        answers = [wire.request("size", b"%d" % (8 * MIB)) for _ in range(4)]
        await wire.flush()
        await wire.over(*answers)
        assert [answer.status for answer in answers] == [0] * 4


async def test_a_client_that_grants_octet_by_octet(house: House):
    async with a_wire(house, initial_window_size=0) as wire:
        wire.grants = False
        answer = wire.request("say", b"0123456789")
        await wire.flush()
        await wire.until(lambda: b":status" in answer.headers)
        for taken in range(15):
            assert len(answer.data) == taken
            wire.h2.increment_flow_control_window(1, 1)
            await wire.flush()
            await wire.until(lambda taken=taken: len(answer.data) > taken)
        await wire.over(answer)
        assert (answer.messages, answer.status) == ([b"0123456789"], 0)


async def test_windows_of_nothing_are_opened_by_settings(house: House):
    async with a_wire(house, initial_window_size=0) as wire:
        answers = [wire.request("say", bytes(KIB)) for _ in range(10)]
        await wire.flush()
        await wire.until(lambda: all(b":status" in answer.headers for answer in answers))
        assert all(not answer.data for answer in answers)
        wire.h2.update_settings({4: MIB})
        await wire.flush()
        await wire.over(*answers)
        assert [answer.messages for answer in answers] == [[bytes(KIB)]] * 10


async def test_settings_may_take_windows_back_below_nothing(house: House):
    async with a_wire(house, initial_window_size=50_000) as wire:
        wire.grants = False
        wire.h2.increment_flow_control_window(MIB)
        answer = wire.request("size", b"100000")
        await wire.flush()
        await wire.until(lambda: len(answer.data) == 50_000)
        wire.h2.increment_flow_control_window(100_000, 1)
        wire.h2.data_to_send()  # is said in parts
        wire.raw(SettingsFrame(0, settings={4: 10}))  # the window is now 10 - 50,000
        wire.raw(window(1, 49_990))  # and now 0
        wire.raw(PingFrame(0, b"12345678"))
        await wire.until(lambda: wire.pings == 1)
        assert len(answer.data) == 50_000
        wire.raw(window(1, 50_005))
        await wire.over(answer)
        assert answer.messages == [bytes(100_000)]


async def test_the_window_of_the_connection_holds_all_streams_up_and_lets_all_go(house: House):
    async with a_wire(house, initial_window_size=MIB) as wire:
        wire.grants = False
        answers = [wire.request("size", b"20000") for _ in range(6)]
        await wire.flush()
        await wire.until(lambda: sum(len(answer.data) for answer in answers) == 65_535)
        wire.raw(window(0, MIB))
        wire.h2.increment_flow_control_window(MIB)
        wire.h2.data_to_send()
        await wire.over(*answers)
        assert [answer.messages for answer in answers] == [[bytes(20_000)]] * 6


async def test_a_stream_that_is_held_up_does_not_hold_up_others(house: House):
    async with a_wire(house, initial_window_size=20_000) as wire:
        wire.grants = False
        slow = wire.request("count", b"100 20000")
        await wire.flush()
        await wire.until(lambda: len(slow.data) == 20_000)
        assert (await wire.ask("say", b"x")).messages == [b"x"]
        wire.h2.reset_stream(1)
        await wire.flush()
        await house.until_idle()


async def test_octets_may_come_one_at_a_time(house: House):
    async with a_socket(house) as wire:
        wire.h2.initiate_connection()
        answer = wire.request("say", b"hello")
        sock = wire.writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in wire.h2.data_to_send():
            wire.raw(bytes([octet]))
            await asyncio.sleep(0)
        await wire.over(answer)
        assert (answer.messages, answer.status) == ([b"hello"], 0)


async def test_everything_may_come_at_once(house: House):
    async with a_socket(house) as wire:
        wire.h2.initiate_connection()
        answers = [wire.request("say", b"%d" % n) for n in range(90)]
        await wire.flush()
        await wire.over(*answers)
        assert [answer.messages for answer in answers] == [[b"%d" % n] for n in range(90)]


async def test_padding_is_given_back(wire: Wire):
    stream = wire.begin("sum")
    for _ in range(2 * STREAM_WINDOW // (256 * 7)):
        await wire.until(lambda: wire.h2.local_flow_control_window(stream) > 256 * 7)
        for _ in range(7):
            wire.h2.send_data(stream, b"", pad_length=255)
        await wire.flush()
    wire.h2.send_data(stream, frame_message(b"x"), end_stream=True)
    await wire.flush()
    await wire.over(wire.answers[stream])
    assert wire.answers[stream].messages == [b"1 1"]


async def test_a_message_may_be_scattered_over_frames(wire: Wire):
    stream = wire.begin("sum")
    for octet in frame_message(b"hello") + frame_message(b"world"):
        wire.h2.send_data(stream, bytes([octet]))
        wire.h2.send_data(stream, b"")
    wire.h2.end_stream(stream)
    await wire.flush()
    await wire.over(wire.answers[stream])
    assert wire.answers[stream].messages == [b"2 10"]


async def test_trailers_of_a_client_end_its_side(wire: Wire):
    stream = wire.begin("sum")
    wire.h2.send_data(stream, frame_message(b"x"))
    wire.h2.send_headers(stream, [(b"x-checksum", b"1")], end_stream=True)
    await wire.flush()
    await wire.over(wire.answers[stream])
    assert wire.answers[stream].messages == [b"1 1"]


async def test_priorities_and_frames_that_nobody_knows_are_ignored(wire: Wire):
    wire.h2.prioritize(1, weight=7)
    wire.raw(b"\0\0\3\xee\0\0\0\0\0abc")
    assert (await wire.ask("say", b"x")).messages == [b"x"]


async def test_empty_settings_are_settings(house: House):
    async with a_socket(house) as wire:
        wire.raw(PREFACE + b"\0\0\0\4\0\0\0\0\0")
        wire.raw(PingFrame(0, b"12345678"))
        wire.h2.initiate_connection()
        wire.h2.data_to_send()
        await wire.until(lambda: wire.pings == 1)
        assert (await wire.ask("say", b"x")).messages == [b"x"]


# Calls that are none.


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"__method": b"GET"}, b"405"),
        ({"content_type": b"text/html"}, b"415"),
        ({"Upper": b"x"}, b"400"),
        ({"x": b"a\nb"}, b"400"),
        ({"__path": b""}, b"400"),
    ],
)
async def test_a_request_that_is_no_call_gets_an_http_status_and_others_go_on(
    house: House, wire: Wire, headers: dict[str, bytes], status: bytes
):
    waiting = wire.request("wait", b"x")
    answer = await wire.ask("say", b"x", **headers)
    assert answer.headers[b":status"] == status
    house.echo.released.set()
    await wire.over(waiting)
    assert waiting.status == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"grpc_timeout": b"soon"}, 13),
        ({"x_bin": b"!"}, 13),
        ({"grpc_encoding": b"snappy"}, 12),
        ({"__path": b"/nowhere"}, 12),
        ({"x_long": b"x" * 65_536}, 8),
    ],
)
async def test_a_call_that_cannot_be_gets_a_status_and_others_go_on(
    house: House, wire: Wire, headers: dict[str, bytes], status: int
):
    waiting = wire.request("wait", b"x")
    answer = await wire.ask("say", b"x", **headers)
    assert answer.headers[b":status"] == b"200"
    assert answer.headers[b"content-type"] == b"application/grpc"
    assert answer.status == status
    house.echo.released.set()
    await wire.over(waiting)
    assert waiting.status == 0


@pytest.mark.parametrize("messages", [(), (b"one", b"two")])
async def test_a_unary_call_has_one_message(wire: Wire, messages: tuple[bytes, ...]):
    assert (await wire.ask("say", *messages)).status == 13


@pytest.mark.parametrize("cut", [1, 4, 5, 8])
async def test_half_a_message_before_the_end_is_refused(wire: Wire, cut: int):
    stream = wire.begin("sum")
    wire.h2.send_data(stream, frame_message(b"whole") + frame_message(b"half")[:cut], end_stream=True)
    await wire.flush()
    await wire.over(wire.answers[stream])
    assert wire.answers[stream].status == 13


async def test_a_message_longer_than_allowed_is_refused_at_its_length(wire: Wire):
    stream = wire.begin("sum")
    wire.h2.send_data(stream, b"\0\xff\xff\xff\xff")
    await wire.flush()
    await wire.over(wire.answers[stream])
    assert wire.answers[stream].status == 8


# Clients that mean no good. A bystander goes on, and nothing is left of them.


async def test_a_client_that_speaks_another_protocol_is_shown_the_door(house: House):
    async with a_bystander(house):
        for greeting in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", b"\0" * 100):
            async with a_socket(house) as wire:
                wire.raw(greeting)
                await closed(wire)


async def test_a_client_that_says_nothing_is_shown_the_door(monkeypatch: pytest.MonkeyPatch, house: House):
    async with a_bystander(house):
        monkeypatch.setattr(rpc, "PREFACE_TIMEOUT_S", 0.05)
        for greeting in (b"", PREFACE[:10], PREFACE, PREFACE + b"\0\0\0"):
            async with a_socket(house) as wire:
                wire.raw(greeting)
                await closed(wire)


async def test_headers_without_end_are_cut_off(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        block = wire.h2.encoder.encode(head("say"))
        wire.raw(HeadersFrame(1, block))
        for _ in range(10_000):
            wire.raw(ContinuationFrame(1, wire.h2.encoder.encode([(b"x", b"y" * 1000)])))
        await closed(wire)


async def test_headers_that_grow_when_they_are_unpacked_are_cut_off(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        wire.h2.encoder.encode([(b"x", b"y" * 4000)])
        block = wire.h2.encoder.encode([*head("say"), *[(b"x", b"y" * 4000)] * 10_000])
        assert len(block) < 20_000
        frame = HeadersFrame(1, block, flags=["END_HEADERS"])
        wire.raw(frame)
        await closed(wire)


async def test_streams_that_are_opened_only_to_be_reset_are_cut_off(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rpc, "MAX_RESETS", 200)
    async with a_bystander(house), a_wire(house) as wire:
        for _ in range(400):
            wire.h2.reset_stream(wire.begin("wait"))
        await wire.flush()
        await closed(wire)
        await house.echo.until_running(1)


@pytest.mark.parametrize("provocation", [PingFrame(0, b"12345678"), SettingsFrame(0, settings={4: 1 << 20})])
async def test_a_client_that_provokes_more_than_it_reads_is_cut_off(
    provocation: PingFrame | SettingsFrame, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rpc, "WRITE_HIGH_WATER", 4 * KIB)
    monkeypatch.setattr(sending, "MAX_UNSENT_BYTES", 64 * KIB)
    listening = with_a_small_send_buffer()
    async with a_house(listening=listening) as house, a_bystander(house), a_wire(house) as wire:
        wire.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(flood(wire, provocation), PATIENCE)


async def flood(wire: Wire, frame: PingFrame | SettingsFrame) -> None:
    while True:
        wire.raw(frame.serialize() * 100)
        await wire.writer.drain()


def with_a_small_send_buffer() -> socket.socket:
    """Has connections that are not read fill up soon. Only in one direction: TCP takes seconds to go on with a buffer
    that was full for a moment.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * KIB)
    return listening


async def test_a_frame_that_is_too_long_is_not_waited_for(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        wire.raw(b"\xff\xff\xff\0\0\0\0\0\1")
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(flood(wire, PingFrame(0, b"12345678")), PATIENCE)


async def test_a_connection_may_not_hold_too_much_of_everything():
    limits = Limits(message_bytes=9 * MIB, connection_bytes=512 * KIB)
    async with a_house(limits=limits) as house, a_bystander(house), a_wire(house) as wire:
        halves = [wire.request("sum", end=False) for _ in range(3)]
        await wire.flush()
        for stream in wire.answers:
            wire.raw(
                b"".join(DataFrame(stream, part).serialize() for part in in_frames(frame_message(bytes(MIB))[:200_000]))
            )
        await wire.until(lambda: any(answer.is_over for answer in halves))
        refused = [answer for answer in halves if answer.is_over]
        assert [answer.status for answer in refused] == [8]
        assert (await wire.ask("say", b"x")).messages == [b"x"]


def in_frames(octets: bytes) -> list[bytes]:
    return [octets[at : at + 16_384] for at in range(0, len(octets), 16_384)]


async def test_data_beyond_the_window_end_the_connection(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        stream = wire.begin("ignore")
        await wire.flush()
        for _ in range(STREAM_WINDOW // 16_384 + 100):
            wire.raw(DataFrame(stream, frame_message(bytes(16_379))))
        await closed(wire)


async def test_data_after_the_end_of_a_stream_cost_the_stream_alone(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        answer = wire.request("wait", b"x")
        await wire.flush()
        wire.raw(DataFrame(1, frame_message(b"more")))
        await wire.over(answer)
        assert answer.reset == h2.errors.ErrorCodes.STREAM_CLOSED
        await house.echo.until_running(1)
        assert (await wire.ask("say", b"x")).messages == [b"x"]


async def test_data_on_streams_that_were_refused_are_given_back(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        for _ in range(2 * CONNECTION_WINDOW // STREAM_WINDOW):
            refused = wire.request("nothing", end=False)
            stream = max(wire.answers)
            await wire.flush()
            for _ in range(STREAM_WINDOW // 16_384):
                wire.raw(DataFrame(stream, bytes(16_384)))
            await wire.over(refused)
        assert (await wire.ask("say", b"x")).messages == [b"x"]


async def test_a_client_that_goes_in_the_middle_leaves_nothing(house: House):
    async with a_bystander(house):
        for cut in (10, 30, 60, 200):
            async with a_wire(house) as wire:
                wire.request("wait", bytes(100))
                wire.request("ignore", bytes(100), end=False)
                wire.request("count", b"1000000 1000")
                wire.raw(wire.h2.data_to_send()[:cut])
                await wire.writer.drain()
        for _ in range(3):
            async with a_wire(house) as wire:
                wire.request("wait", b"x")
                wire.request("chat", end=False)
                await wire.flush()
                await house.echo.until_running(3)
                linger = struct.pack("ii", 1, 0)
                wire.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            await house.echo.until_running(1)


async def test_a_client_that_takes_back_its_call_in_the_middle_of_a_message(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        for _ in range(40):
            stream = wire.begin("sum")
            wire.h2.send_data(stream, frame_message(bytes(MIB))[:16_000])
            wire.h2.reset_stream(stream)
            await wire.flush()
        assert (await wire.ask("say", b"x")).messages == [b"x"]
        assert wire.h2.outbound_flow_control_window > CONNECTION_WINDOW // 2 - 40 * 16_000


async def test_more_streams_than_allowed_cost_nobody_else_anything(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        wire.h2.remote_settings = type(wire.h2.remote_settings)(initial_values={3: 10_000})
        for _ in range(1100):
            wire.request("wait", b"x")
        await wire.flush()
        await closed(wire)


async def test_a_thousand_streams_at_once(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        answers = [wire.request("wait", b"%d" % n) for n in range(1000)]
        await wire.flush()
        await house.echo.until_running(1001)
        house.echo.released.set()
        await wire.over(*answers)
        assert [answer.messages for answer in answers] == [[b"%d" % n] for n in range(1000)]


async def test_a_reader_of_nothing_with_many_streams_needs_little_memory(house: House):
    async with a_bystander(house), a_wire(house, initial_window_size=2**31 - 1) as wire:
        wire.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        for _ in range(50):
            wire.request("count", b"1000 100000")
        await wire.flush()
        await house.echo.until_running(51)
        await wire.until(lambda: sum(len(answer.data) for answer in wire.answers.values()) > 4 * MIB)
        # From here on nothing is read: what was written is what the sockets of both sides hold.
        assert house.echo.written < 64 * MIB


async def test_calls_of_a_client_that_says_goodbye_are_answered(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        answers = [wire.request("wait", b"x"), wire.request("ignore", b"x", end=False)]
        await wire.flush()
        wire.raw(GoAwayFrame(0))
        await house.echo.until_running(3)
        wire.h2.end_stream(3)
        await wire.flush()
        house.echo.released.set()
        await wire.over(*answers)
        assert [answer.status for answer in answers] == [0, 0]


async def test_a_reset_of_a_stream_that_is_over_is_nothing(house: House):
    async with a_bystander(house), a_wire(house) as wire:
        await wire.ask("say", b"x")
        wire.raw(RstStreamFrame(1, error_code=h2.errors.ErrorCodes.CANCEL))
        wire.raw(window(1, 100))
        assert (await wire.ask("say", b"y")).messages == [b"y"]


@pytest.mark.parametrize(
    "octets",
    [
        b"\0\0\4\x08\0\0\0\0\0\0\0\0\0",  # a window is widened by nothing
        b"\0\0\4\x08\0\0\0\0\0\x7f\xff\xff\xff" * 2,  # and by too much
        b"\0\0\1\0\0\0\0\0\1x",  # data on a stream that is not open
        b"\0\0\5\1\4\0\0\0\2xxxxx",  # a stream of an even number
        b"\0\0\1\x06\0\0\0\0\0x",  # a ping that is too short
        b"\0\x40\1\0\0\0\0\0\1" + bytes(16_385),  # a frame that is too long
        b"\0\0\3\4\0\0\0\0\0abc",  # settings that are none
        b"\0\0\1\1\4\0\0\0\1\x80",  # headers that cannot be decompressed
        b"\0\0\5\2\0\0\0\0\3\0\0\0\3\0",  # a stream that depends on itself
        b"\0\0\4\5\4\0\0\0\1\0\0\0\2",  # a push
    ],
)
async def test_frames_that_are_none_end_their_connection_alone(house: House, octets: bytes):
    async with a_bystander(house), a_wire(house) as wire:
        wire.request("wait", b"x")
        if octets[3] not in {0, 1, 5}:
            await wire.flush()
            await house.echo.until_running(2)
        wire.raw(octets)
        await closed(wire)
        await house.echo.until_running(1)


def window(stream: int, size: int) -> WindowUpdateFrame:
    return WindowUpdateFrame(stream, window_increment=size)


async def closed(wire: Wire) -> None:
    """Returns when the server has closed the connection."""
    async with asyncio.timeout(PATIENCE):
        try:
            while await wire.reader.read(1 << 16):
                pass
        except ConnectionError:
            pass

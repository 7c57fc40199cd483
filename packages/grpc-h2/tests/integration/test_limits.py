"""What clients may take of the server, alone and together: memory, time, connections.

Nothing that one of them does costs another its calls.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from grpc_h2 import http2
from grpc_h2.headers import CallRefused, RequestHeaders
from grpc_h2.http2 import CONNECTION_WINDOW, Limits
from grpc_h2.messages import frame_message
from grpc_h2_testing.echo import PATIENCE, House, a_client, a_house, until
from grpc_h2_testing.wire import Answer, Wire, a_wire, head

KIB, MIB = 1024, 1024 * 1024
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
LATE = grpc.StatusCode.DEADLINE_EXCEEDED.value[0]


def compressed(message: bytes) -> bytes:
    body = gzip.compress(message)
    return b"\1" + len(body).to_bytes(4) + body


def upload(wire: Wire, octets: bytes, *, end: bool = False, method: str = "say", **headers: bytes) -> Answer:
    """A call with a part of its message."""
    stream = wire.begin(method, **headers)
    for at in range(0, len(octets), 16_384):
        part = octets[at : at + 16_384]
        if wire.h2.local_flow_control_window(stream) >= len(part):
            wire.h2.send_data(stream, part)
    if end:
        wire.h2.end_stream(stream)
    return wire.answers[stream]


def send_long_head(wire: Wire, stream: int, *, end: bool, **headers: bytes) -> None:
    """The head of a call that is too long for one frame, uncompressed."""
    block = Encoder().encode(head("chat", **headers), huffman=False)
    parts = [block[at : at + 16_384] for at in range(0, len(block), 16_384)]
    wire.raw(HeadersFrame(stream, parts[0]))
    for n, part in enumerate(parts[1:], 2):
        wire.raw(ContinuationFrame(stream, part, flags=["END_HEADERS"] if end and n == len(parts) else []))


@asynccontextmanager
async def wires(house: House, number: int) -> AsyncIterator[list[Wire]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(a_wire(house)) for _ in range(number)]


# Memory.


async def test_messages_without_end_are_not_inflated(house: House):
    async with a_wire(house) as wire:
        before = house.server.memory.used
        bomb = compressed(bytes(4 * MIB))
        for _ in range(300):
            upload(wire, bomb, grpc_encoding=b"gzip")
        await wire.flush()
        wire.h2.ping(b"12345678")
        await wire.flush()
        await wire.until(lambda: wire.pings == 1)
        assert house.server.memory.used - before < 300 * 32 * KIB
        assert house.server.handlers == 0, "no handler is started for half a request"


async def test_what_compressed_messages_are_inflated_to_counts_and_they_wait_for_one_another():
    limits = Limits(message_bytes=4 * MIB, connection_bytes=16 * MIB)
    async with a_house(limits=limits) as house, a_wire(house) as wire:
        answers = [
            upload(wire, compressed(bytes(4 * MIB)), end=True, method="wait", grpc_encoding=b"gzip") for _ in range(12)
        ]
        await wire.flush()
        await house.echo.until_running(2)
        assert house.server.memory.used < 16 * MIB
        house.echo.released.set()
        await wire.over(*answers)
        assert [answer.status for answer in answers] == [0] * 12


async def test_many_long_messages_at_once_are_held_up_and_all_arrive(house: House):
    async with a_client(house) as client:
        calls = [client.call("say", bytes(4 * MIB)) for _ in range(30)]
        peak = 0
        while not all(call.done() for call in calls):
            peak = max(peak, house.server.memory.used)
            await asyncio.sleep(0.001)
        answers = [await call.code() for call in calls]
        assert peak <= 32 * MIB
        assert answers == [grpc.StatusCode.OK] * 30


async def test_the_newest_calls_of_a_connection_are_refused_when_all_of_it_is_full(house: House):
    async with a_wire(house) as wire:
        waiting = wire.request("wait", b"x")
        halves: list[Answer] = []
        while not any(answer.is_over for answer in halves):
            halves.append(upload(wire, frame_message(bytes(MIB))[: 200 * KIB]))
            wire.h2.ping(b"12345678")
            await wire.flush()
            pings = wire.pings
            await wire.until(lambda pings=pings: wire.pings > pings)
        refused = [n for n, answer in enumerate(halves) if answer.is_over]
        newest = range(refused[0], len(halves))
        assert len(newest) <= 2, "a ping may be answered before the upload in front of it is refused"
        assert refused in ([*newest], [newest[0]])
        assert {halves[n].status for n in refused} == {EXHAUSTED}
        assert 20 * MIB < house.server.memory.used <= house.server.limits.connection_bytes
        house.echo.released.set()
        await wire.over(waiting)
        assert waiting.status == 0


async def test_many_connections_share_what_the_port_has_and_a_newcomer_finds_room():
    limits = Limits(message_bytes=4 * MIB, port_bytes=40 * MIB)
    async with a_house(limits=limits) as house, wires(house, 10) as greedy:
        for wire in greedy:
            for _ in range(40):
                upload(wire, frame_message(bytes(MIB))[: 200 * KIB])
            await wire.flush()
            wire.h2.ping(b"12345678")
            await wire.flush()
            await wire.until(lambda wire=wire: wire.pings == 1)
        assert house.server.memory.used <= 40 * MIB
        async with a_client(house) as client:
            assert len(await client.say(bytes(100 * KIB))) == 100 * KIB
    assert house.server.memory.used == 0


async def test_headers_of_calls_count_too():
    limits = Limits(message_bytes=MIB, connection_bytes=4 * MIB)
    async with a_house(limits=limits) as house, a_wire(house) as wire:
        answers = [wire.answers[wire.begin("chat")] for _ in range(100)]
        wire.h2.data_to_send()  # is said by hand
        for stream in wire.answers:
            send_long_head(wire, stream, end=True, x=b"x" * 60_000)
        await wire.until(lambda: any(answer.is_over for answer in answers))
        await wire.until(lambda: house.server.memory.used <= 4 * MIB)  # what was just read counts until it is handled
        assert {answer.status for answer in answers if answer.is_over} == {EXHAUSTED}


async def test_headers_without_end_count_too():
    limits = Limits(message_bytes=MIB, port_bytes=2 * MIB)
    async with a_house(limits=limits) as house, wires(house, 30) as many:
        for wire in many:
            send_long_head(wire, 1, end=False, x=b"x" * 100_000)
        await until(lambda: house.server.incidents.counts["grpc_connection_refused"] > 0)
        assert house.server.memory.used <= 2 * MIB + 256 * KIB


async def test_nothing_is_counted_any_more_when_all_is_over(house: House):
    async with a_client(house) as client:
        await asyncio.gather(*(client.say(bytes(100 * KIB), compression=grpc.Compression.Gzip) for _ in range(20)))
        with pytest.raises(grpc.aio.AioRpcError):
            await client.call("fail", bytes(MIB))
        with pytest.raises(grpc.aio.AioRpcError):
            await client.call("wait", bytes(MIB), timeout=0.05)
        chat = client.meet()
        await chat.write(bytes(MIB))
        await chat.read()
        chat.cancel()
        await house.until_idle()
        assert house.server.memory.used == 0


# Authorization.


async def test_nothing_of_a_message_is_taken_before_the_call_is_let_in():
    def authorize(call: RequestHeaders, peer: str) -> object:
        raise CallRefused(grpc.StatusCode.UNAUTHENTICATED, "no")

    async with a_house(authorize=authorize) as house, a_wire(house) as wire:
        answers = [upload(wire, b"\xff" * 5, grpc_encoding=b"gzip", method=method) for method in ("say", "nothing")]
        for _ in range(4 * CONNECTION_WINDOW // MIB):
            answers.append(upload(wire, frame_message(bytes(MIB))[: 200 * KIB]))
            await wire.flush()
            await wire.over(answers[-1])
        await wire.over(*answers)
        assert {answer.status for answer in answers} == {16}
        await until(lambda: house.server.memory.used < 64 * KIB)  # what was just read counts until it is handled


# Time.


async def test_a_request_that_takes_too_long_is_given_up_and_streams_are_not():
    limits = Limits(message_bytes=MIB, request_timeout_s=0.2)
    async with a_house(limits=limits) as house, a_wire(house) as wire:
        slow = [wire.request("say", end=False), wire.request("say", b"x", end=False), upload(wire, b"\0\0\0")]
        chat = wire.request("chat", b"x", end=False)
        waiting = wire.request("wait", b"x")
        await wire.flush()
        await wire.over(*slow)
        assert [answer.status for answer in slow] == [LATE] * 3
        house.echo.released.set()
        await wire.over(waiting)
        assert waiting.status == 0
        assert not chat.is_over


async def test_a_connection_without_calls_is_asked_to_go_and_one_with_a_call_is_not():
    limits = Limits(message_bytes=MIB, idle_timeout_s=0.3)
    async with a_house(limits=limits) as house, a_wire(house) as idle, a_wire(house) as busy:
        assert (await idle.ask("say", b"x")).status == 0
        chat = busy.request("chat", b"x", end=False)
        await busy.flush()
        with pytest.raises(ConnectionError):
            await idle.until(lambda: False)
        assert idle.goaways
        assert not chat.is_over
        assert not busy.goaways


async def test_a_client_of_grpcio_does_not_notice_that_it_was_idle_for_too_long():
    limits = Limits(message_bytes=MIB, idle_timeout_s=0.1)
    async with a_house(limits=limits) as house, a_client(house) as client:
        for n in range(3):
            assert await client.say(b"%d" % n) == b"%d" % n
            await until(lambda: house.server.connections == 0)


async def test_a_client_that_makes_no_call_that_is_let_in_is_asked_to_go():
    def authorize(call: RequestHeaders, peer: str) -> object:
        raise CallRefused(grpc.StatusCode.UNAUTHENTICATED, "no")

    limits = Limits(message_bytes=MIB, first_call_timeout_s=0.3)
    async with a_house(limits=limits, authorize=authorize) as house, a_wire(house) as wire:
        with pytest.raises(ConnectionError):
            await ask_for_ever(wire)


async def ask_for_ever(wire: Wire) -> None:
    while True:
        await wire.ask("say", b"x")


# Connections.


async def test_when_all_connections_are_taken_one_that_has_made_no_call_makes_room():
    limits = Limits(message_bytes=MIB, connections=5)
    async with a_house(limits=limits) as house, AsyncExitStack() as stack:
        at_work = [await stack.enter_async_context(a_wire(house)) for _ in range(2)]
        for wire in at_work:
            assert (await wire.ask("say", b"x")).status == 0
        idle = [await stack.enter_async_context(a_wire(house)) for _ in range(20)]
        assert house.server.connections <= 5
        assert (await idle[-1].ask("say", b"x")).status == 0
        for wire in at_work:
            assert (await wire.ask("say", b"x")).status == 0


async def test_when_all_connections_are_at_work_one_more_is_refused():
    limits = Limits(message_bytes=MIB, connections=2)
    async with a_house(limits=limits) as house, wires(house, 2) as at_work:
        for wire in at_work:
            assert (await wire.ask("say", b"x")).status == 0
        with pytest.raises((ConnectionError, OSError)):
            async with a_wire(house):
                pass
        for wire in at_work:
            assert (await wire.ask("say", b"x")).status == 0
    assert house.server.incidents.counts["grpc_connections_exhausted"] == 1


# Floods.

MANY = 500
"""Frames without content that a client may send in these tests."""


@pytest.fixture
def _few_control_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "MAX_CONTROL_FRAMES", MANY)
    monkeypatch.setattr(http2, "CONTROL_FRAMES_PER_S", 1.0)


FLOODS: dict[str, Frame | bytes] = {
    "pings": PingFrame(0, b"12345678"),
    "settings": SettingsFrame(0),
    "empty data": DataFrame(1, b""),
    "windows": WindowUpdateFrame(0, window_increment=1),
    "resets": RstStreamFrame(3),
    "priorities": PriorityFrame(1, depends_on=0, stream_weight=1),
    "frames that nobody knows": b"\0\0\0\xee\0\0\0\0\0",
}


@pytest.mark.usefixtures("_few_control_frames")
@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_of_frames_without_content_ends_its_connection_and_holds_up_nobody(house: House, kind: str):
    frame = FLOODS[kind]
    octets = frame if isinstance(frame, bytes) else frame.serialize()
    async with a_wire(house) as wire, a_client(house) as client:
        wire.begin("chat")
        wire.h2.reset_stream(wire.begin("chat"))
        await wire.flush()
        drained = asyncio.create_task(discard(wire))
        wire.raw(octets * 4 * MANY)
        while not drained.done():
            assert await client.say(b"x") == b"x"
        assert house.server.incidents.counts["grpc_client_floods"] == 1


async def discard(wire: Wire) -> None:
    """Reads to the end of the connection."""
    async with asyncio.timeout(PATIENCE):
        try:
            while await wire.reader.read(1 << 16):
                pass
        except ConnectionError:
            pass


@pytest.mark.usefixtures("_few_control_frames")
async def test_who_is_sent_much_may_send_as_many_windows(house: House):
    async with a_wire(house, initial_window_size=16_384) as wire:
        answer = wire.request("size", b"%d" % (8 * MIB))
        await wire.flush()
        while not answer.is_over:
            await wire.take(await wire.reader.read(1 << 16))
            for _ in range(2):
                wire.raw(WindowUpdateFrame(0, window_increment=1))
        assert answer.status == 0


@pytest.mark.usefixtures("_few_control_frames")
async def test_calls_that_are_refused_again_and_again_end_the_connection(house: House):
    async with a_wire(house) as wire:
        drained = asyncio.create_task(discard(wire))
        wire.raw(HeadersFrame(1, wire.h2.encoder.encode(head("nothing")), flags=["END_HEADERS"]))
        block = wire.h2.encoder.encode(head("nothing"))  # refers to the first one, like all that follow
        for n in range(2 * MANY):
            wire.raw(HeadersFrame(3 + 2 * n, block, flags=["END_HEADERS"]))
        await drained
        assert house.server.incidents.counts["grpc_client_floods"] == 1

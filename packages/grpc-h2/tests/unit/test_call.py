"""A call over a connection that keeps account of everything."""

import asyncio
import gzip
import zlib
from collections.abc import Callable

import grpc
import pytest

from grpc_h2.call import MAX_UNREAD_BYTES, MESSAGE_OVERHEAD_BYTES, MIN_GRANT_BYTES, Call, CallEnded
from grpc_h2.headers import CallRefused, Headers, RequestHeaders
from grpc_h2.memory import CALL_BYTES, MemoryAccount, MemoryBudget
from grpc_h2.messages import frame_message

LIMIT = 4 * MAX_UNREAD_BYTES


class FakeStream:
    """Takes what its room allows, and writes down what it was asked."""

    def __init__(self, *, takes: int = 1 << 30) -> None:
        self.takes = takes
        self.sent = bytearray()
        self.begun: list[Headers] = []
        self.ended: list[tuple[Headers, bool]] = []
        self.resets = 0
        self.granted = 0
        self.is_gone = False
        self.memory = MemoryAccount(MemoryBudget(1 << 40), 1 << 40)
        self.last_ping: float | None = None
        self._room = asyncio.Event()

    def begin(self, stream_id: int, headers: Headers) -> None:
        self.begun.append(headers)

    def send(self, stream_id: int, data: bytes, at: int) -> int:
        if self.is_gone:
            raise CallEnded("gone")
        size = min(self.takes, len(data) - at)
        self.takes -= size
        self.sent += data[at : at + size]
        return size

    def open(self, size: int) -> None:
        self.takes += size
        self._room.set()

    async def wait_writable(self, stream_id: int) -> None:
        self._room.clear()
        await self._room.wait()

    async def yield_to_loop(self) -> None:
        await asyncio.sleep(0)

    def end(self, stream_id: int, headers: Headers, *, abandoned: bool) -> None:
        self.ended.append((headers, abandoned))

    def reset(self, stream_id: int) -> None:
        self.resets += 1

    def release_window(self, stream_id: int, size: int) -> None:
        self.granted += size

    def relieve_memory(self) -> bool:
        return True

    @property
    def statuses(self) -> list[bytes]:
        return [dict(headers)[b"grpc-status"] for headers, _ in self.ended]


def a_call(stream: FakeStream, *, timeout: float | None = None, limit: int = LIMIT, encoding: str = "identity") -> Call:
    return Call(stream, 1, RequestHeaders(path="/s/m", metadata=(), timeout=timeout, encoding=encoding), limit=limit)


def receive(call: Call, data: bytes, *, padding: int = 0) -> int:
    """Gives the call data; how much of the client's windows they took."""
    call.receive_data(data, len(data) + padding)
    return len(data) + padding


async def turns(number: int = 3) -> None:
    """Lets everything happen that can."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_messages_are_read_in_order_and_then_the_end():
    call = a_call(FakeStream())
    receive(call, frame_message(b"a") + frame_message(b"b"))
    call.receive_end()
    assert [await call.read(), await call.read(), await call.read()] == [b"a", b"b", None]


async def test_a_reader_that_waits_is_woken_by_a_message_and_by_the_end():
    call = a_call(FakeStream())
    reading = asyncio.create_task(call.read())
    await turns()
    receive(call, frame_message(b"a"))
    assert await reading == b"a"
    reading = asyncio.create_task(call.read())
    await turns()
    call.receive_end()
    assert await reading is None


async def test_a_reader_that_gave_up_loses_nothing():
    call = a_call(FakeStream())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await call.read()
    receive(call, frame_message(b"a"))
    assert await call.read() == b"a"


async def test_half_a_message_at_the_end_is_refused_after_the_whole_ones():
    call = a_call(FakeStream())
    receive(call, frame_message(b"a") + frame_message(b"bc")[:-1])
    call.receive_end()
    assert await call.read() == b"a"
    with pytest.raises(CallRefused, match="middle of a message"):
        await call.read()


async def test_what_is_read_is_granted_again_with_its_padding():
    stream = FakeStream()
    call = a_call(stream)
    took = receive(call, frame_message(b"a"), padding=MIN_GRANT_BYTES)
    assert stream.granted == took


async def test_what_is_not_worth_a_frame_is_granted_with_what_follows():
    stream = FakeStream()
    call = a_call(stream)
    took = receive(call, frame_message(b"a"), padding=MIN_GRANT_BYTES // 2)
    assert stream.granted == 0
    took += receive(call, frame_message(b"b"), padding=MIN_GRANT_BYTES // 2)
    assert stream.granted == took


async def test_a_client_is_held_up_behind_a_backlog_and_let_go_when_half_of_it_is_read():
    stream = FakeStream()
    call = a_call(stream)
    piece = frame_message(bytes(MAX_UNREAD_BYTES // 8 - MESSAGE_OVERHEAD_BYTES))
    took = [receive(call, piece, padding=MIN_GRANT_BYTES) for _ in range(12)]
    assert stream.granted == sum(took[:8])
    for _ in range(7):
        await call.read()
    assert stream.granted == sum(took[:8])
    await call.read()
    assert stream.granted == sum(took)


async def test_empty_messages_make_a_backlog_too():
    stream = FakeStream()
    call = a_call(stream)
    receive(call, frame_message(b"") * (MAX_UNREAD_BYTES // MESSAGE_OVERHEAD_BYTES + 1), padding=MIN_GRANT_BYTES)
    assert stream.granted == 0
    assert call.unread_bytes > MAX_UNREAD_BYTES


async def test_the_rest_of_a_message_longer_than_the_backlog_is_always_granted():
    stream = FakeStream()
    call = a_call(stream)
    message = frame_message(bytes(3 * MAX_UNREAD_BYTES))
    took = sum(receive(call, message[at : at + 16_384]) for at in range(0, len(message) - 16_384, 16_384))
    assert took - stream.granted < MIN_GRANT_BYTES
    assert call.unread_bytes == took


async def test_a_message_counts_until_its_handler_asks_for_the_next_one():
    stream = FakeStream()
    call = a_call(stream)
    before = stream.memory.held
    receive(call, frame_message(bytes(1000)))
    assert stream.memory.held == before + 1000 + MESSAGE_OVERHEAD_BYTES
    await call.read()
    assert stream.memory.held == before + 1000
    call.receive_end()
    await call.read()
    assert stream.memory.held == before


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_message_counts_as_it_is_until_it_is_read_and_inflated_then(encoding: str):
    stream = FakeStream()
    call = a_call(stream, encoding=encoding)
    before, large = stream.memory.held, bytes(LIMIT)
    body = {"gzip": gzip.compress, "deflate": zlib.compress}[encoding](large)
    receive(call, b"\1" + len(body).to_bytes(4) + body)
    assert stream.memory.held < before + 10_000
    assert await call.read() == large
    assert stream.memory.held == before + len(large)


async def test_a_message_counts_until_the_handler_has_ended_even_after_the_status():
    stream = FakeStream()
    call = a_call(stream)
    receive(call, frame_message(bytes(1000)))
    call.task = asyncio.create_task(forever(call))
    await call.read()
    call.abort(grpc.StatusCode.DEADLINE_EXCEEDED)
    assert stream.memory.held >= 1000 + CALL_BYTES
    call.release()
    assert stream.memory.held == 0


async def test_the_one_message_of_a_call_is_read_when_the_client_has_sent_all():
    call = a_call(FakeStream())
    receive(call, frame_message(b"a"))
    reading = asyncio.create_task(call.read_single())
    await turns()
    assert not reading.done()
    call.receive_end()
    assert await reading == b"a"


@pytest.mark.parametrize("octets", [b"", frame_message(b"a") * 2, frame_message(b"a") + b"\0"])
async def test_a_call_of_one_message_has_one(octets: bytes):
    call = a_call(FakeStream())
    receive(call, octets)
    call.receive_end()
    with pytest.raises(CallRefused):
        await call.read_single()


ENDINGS: dict[str, Callable[[Call], None]] = {
    "its handler finishes": lambda call: call.finish(grpc.StatusCode.OK),
    "it is broken off": lambda call: call.abort(grpc.StatusCode.UNAVAILABLE),
    "the client goes": lambda call: call.abandon(),
    "a message is too large": lambda call: call.receive_data(frame_message(bytes(LIMIT + 1))[:5], 0),
    "a message is unreadable": lambda call: call.receive_data(b"\1\0\0\0\0", 0),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_nothing_is_held_however_a_call_ends(ending: str):
    stream = FakeStream()
    call = a_call(stream)
    receive(call, frame_message(bytes(2 * MAX_UNREAD_BYTES)))
    assert stream.memory.held > 2 * MAX_UNREAD_BYTES
    ENDINGS[ending](call)
    assert stream.memory.held == 0
    ENDINGS[ending](call)
    assert stream.memory.held == 0


async def test_a_message_that_is_too_large_stops_the_handler():
    stream = FakeStream()
    call = a_call(stream, limit=10)
    task = call.task = asyncio.create_task(forever(call))
    await turns()
    receive(call, frame_message(bytes(11)))
    await asyncio.wait([task])
    assert task.cancelled()
    assert stream.statuses == [b"8"]
    assert stream.ended[0][1], "the client need not send the rest"


async def test_the_first_status_counts():
    stream = FakeStream()
    call = a_call(stream)
    call.finish(grpc.StatusCode.NOT_FOUND, "first")
    call.abort(grpc.StatusCode.UNKNOWN, "second")
    assert stream.statuses == [b"5"]


async def test_nothing_can_be_written_after_the_status():
    call = a_call(FakeStream())
    call.finish(grpc.StatusCode.OK)
    with pytest.raises(CallEnded):
        await call.write(b"x")
    with pytest.raises(CallEnded):
        call.begin()


async def test_metadata_that_cannot_be_sent_do_not_swallow_the_status():
    stream = FakeStream()
    call = a_call(stream)
    with pytest.raises(ValueError, match="metadata"):
        call.finish(grpc.StatusCode.OK, metadata=[("Wrong Name", "x")])
    call.finish(grpc.StatusCode.UNKNOWN)
    assert stream.statuses == [b"2"]


async def test_headers_are_sent_once_and_before_the_first_message():
    stream = FakeStream()
    call = a_call(stream)
    call.begin([(b"a", b"1")])
    await call.write(b"x")
    call.begin([(b"a", b"2")])
    assert [dict(headers)[b"a"] for headers in stream.begun] == [b"1"]


async def test_a_call_without_messages_has_headers_and_status_in_one():
    stream = FakeStream()
    a_call(stream).finish(grpc.StatusCode.OK)
    headers, _ = stream.ended[0]
    assert dict(headers)[b":status"] == b"200"
    assert not stream.begun


async def test_a_message_is_written_in_as_many_parts_as_the_client_takes():
    stream = FakeStream(takes=3)
    call = a_call(stream)
    writing = asyncio.create_task(call.write(b"0123456789"))
    for _ in range(3):
        await turns()
        assert not writing.done()
        stream.open(4)
    await writing
    assert stream.sent == frame_message(b"0123456789")


async def test_parts_follow_one_another_as_long_as_there_is_room():
    class InFours(FakeStream):
        def send(self, stream_id: int, data: bytes, at: int) -> int:
            return super().send(stream_id, data[: at + 4], at)

    stream = InFours()
    await asyncio.wait_for(a_call(stream).write(bytes(100)), 30)
    assert stream.sent == frame_message(bytes(100))


async def test_a_status_in_the_middle_of_a_message_is_a_reset():
    stream = FakeStream(takes=3)
    call = a_call(stream)
    task = call.task = asyncio.create_task(call.write(b"0123456789"))
    await turns()
    call.abort(grpc.StatusCode.DEADLINE_EXCEEDED)
    await asyncio.wait([task])
    assert (stream.resets, stream.ended) == (1, [])


async def test_nothing_follows_a_message_that_was_given_up_in_its_middle():
    stream = FakeStream(takes=3)
    call = a_call(stream)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await call.write(b"0123456789")
    stream.open(100)
    with pytest.raises(CallEnded):
        await call.write(b"next")
    assert len(stream.sent) == 3
    call.finish(grpc.StatusCode.OK)
    assert (stream.resets, stream.ended) == (1, [])


async def test_a_message_that_was_given_up_before_it_began_may_be_followed_by_others():
    stream = FakeStream(takes=0)
    call = a_call(stream)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await call.write(b"first")
    stream.open(100)
    await call.write(b"second")
    call.finish(grpc.StatusCode.OK)
    assert (stream.sent, stream.statuses) == (frame_message(b"second"), [b"0"])


async def test_time_that_is_up_ends_the_call_and_its_handler():
    stream = FakeStream()
    call = a_call(stream, timeout=0.01)
    task = call.task = asyncio.create_task(forever(call))
    call.start_deadline(asyncio.get_running_loop())
    async with asyncio.timeout(30):
        await asyncio.wait([task])
    assert stream.statuses == [b"4"]
    assert call.is_aborted


async def test_time_that_is_up_after_the_status_changes_nothing():
    stream = FakeStream()
    call = a_call(stream, timeout=0.0)
    call.start_deadline(asyncio.get_running_loop())
    call.finish(grpc.StatusCode.OK)
    await turns()
    assert stream.statuses == [b"0"]
    assert not call.is_aborted


@pytest.mark.parametrize("seconds", [99_999_999 * 3600.0, 0.0])
async def test_the_longest_time_and_none_at_all_are_times(seconds: float):
    stream = FakeStream()
    call = a_call(stream, timeout=seconds)
    call.start_deadline(asyncio.get_running_loop())
    await turns()
    assert stream.statuses == ([] if seconds else [b"4"])
    call.finish(grpc.StatusCode.OK)


async def forever(call: Call) -> None:
    await call.read()
    raise AssertionError("there is nothing to read")

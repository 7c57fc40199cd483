"""grpcio's clients get from the server what they would get from grpcio's own."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import repeat

import grpc
import grpc.aio
import pytest

from grpc_h2 import CallRefused, Limits, RequestHeaders
from grpc_h2_testing.echo import (
    MAX_MESSAGE_BYTES,
    PATIENCE,
    SERVICE,
    Client,
    House,
    a_client,
    a_house,
    path,
    status,
)

KIB, MIB = 1024, 1024 * 1024

SIZES = pytest.mark.parametrize(
    "size", [0, 1, 16 * KIB - 6, 16 * KIB - 5, 16 * KIB - 4, 64 * KIB - 5, 64 * KIB, 300 * KIB, 8 * MIB]
)


@SIZES
async def test_messages_of_all_sizes_go_both_ways(client: Client, size: int):
    message = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert await client.say(message) == message


@SIZES
async def test_messages_of_all_sizes_go_through_streams(client: Client, size: int):
    message = bytes(range(256)) * (size // 256) + bytes(size % 256)
    talk = client.meet("talk")
    for _ in range(2):
        await talk.write(message)
        assert await talk.read() == message
    await talk.done_writing()
    assert await talk.read() is grpc.aio.EOF
    assert await talk.code() == grpc.StatusCode.OK


async def test_all_four_kinds(client: Client):
    assert await client.say(b"x") == b"x"
    assert [len(part) async for part in client.listen("count", b"3 7")] == [7, 7, 7]
    assert await client.tell("sum", iter([b"a", b"bc"])) == b"2 3"
    chat = client.meet("chat")
    await chat.write(b"x")
    assert await chat.read() == b"x"
    await chat.done_writing()
    assert await chat.read() is grpc.aio.EOF


async def test_streams_without_messages(client: Client):
    assert await client.tell("sum", iter([])) == b"0 0"
    assert [part async for part in client.listen("count", b"0 0")] == []


async def test_a_blocking_client(house: House):
    def calls() -> list[object]:
        with grpc.insecure_channel(house.address) as channel:
            said = channel.unary_unary(path("say"))(bytes(MIB), timeout=PATIENCE)
            counted = list(channel.unary_stream(path("count"))(b"3 70000", timeout=PATIENCE))
            summed = channel.stream_unary(path("sum"))(iter([b"a"] * 500), timeout=PATIENCE)
            talked = list(channel.stream_stream(path("talk"))(iter([b"a", b"b"]), timeout=PATIENCE))
            return [len(said), [len(part) for part in counted], summed, talked]

    assert await asyncio.to_thread(calls) == [MIB, [70_000] * 3, b"500 500", [b"a", b"b"]]


async def test_metadata_come_and_go(house: House, client: Client):
    sent = (("x-text", "one two"), ("x-text", "three"), ("x-octets-bin", bytes(range(256))), ("x-none-bin", b""))
    call = client.call("meta", metadata=sent)
    await call
    assert [pair for pair in await call.initial_metadata() if pair[0].startswith("x-")] == [*sent]
    assert [*await call.trailing_metadata()] == [*sent]
    (context,) = house.echo.contexts
    assert context.peer().startswith("ipv4:127.0.0.1:")
    received = dict(context.invocation_metadata())
    assert "grpc-python" in str(received["user-agent"])
    assert not {":path", "te", "content-type", "grpc-timeout"} & set(received)


async def test_odd_metadata_cost_neither_the_call_nor_the_connection(client: Client):
    waiting = client.meet()
    await waiting.write(b"x")
    call = client.call("meta", metadata=(("x-odd", " spaces "), ("cookie", "a=1"), ("cookie", "b=2"), ("x-empty", "")))
    await call
    assert ("x-odd", "spaces") in [*await call.trailing_metadata()]
    assert await waiting.read() == b"x"


async def test_more_metadata_than_allowed_cost_one_call(client: Client):
    waiting = client.meet()
    await waiting.write(b"x")
    call = client.call("say", metadata=(("x-much", "x" * 100_000),))
    assert await status(call) == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await waiting.read() == b"x"
    await waiting.write(b"y")
    assert await waiting.read() == b"y"


@pytest.mark.parametrize("text", ["plain", " ends ", "Grüße\n你好\t\U0001f600", "100 % %41", "x" * 3000, ""])
async def test_an_abort_says_why(client: Client, text: str):
    call = client.call("refuse", text.encode())
    assert await call.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert await call.details() == text
    assert [*await call.trailing_metadata()] == [("why", "because"), ("octets-bin", b"\x00\xff")]


async def test_a_very_long_reason_is_cut_and_the_status_arrives(client: Client):
    call = client.call("refuse", b"x" * 100_000)
    assert await call.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert set(await call.details() or "") == {"x"}


async def test_a_status_may_be_set_instead_of_raised(client: Client):
    call = client.call("mark")
    assert await call.code() == grpc.StatusCode.NOT_FOUND
    assert await call.details() == "not here"
    assert [*await call.trailing_metadata()] == [("hint", "elsewhere")]


async def test_a_failure_is_unknown_and_nobody_learns_more(client: Client):
    call = client.call("fail")
    assert await call.code() == grpc.StatusCode.UNKNOWN
    assert "secret" not in (await call.details() or "")
    assert await client.say(b"x") == b"x"


@pytest.mark.parametrize("method", ["/test.Echo/nothing", "/test.Echo", "/", "/other.Service/say", "/test.Echo/say/"])
async def test_an_unknown_method_is_unimplemented(client: Client, method: str):
    assert await status(client.channel.unary_unary(method)(b"x")) == grpc.StatusCode.UNIMPLEMENTED
    assert await status(client.channel.unary_stream(method)(bytes(3 * MIB))) == grpc.StatusCode.UNIMPLEMENTED
    assert await client.say(b"x") == b"x"


async def test_a_deadline_ends_the_call_on_both_sides(house: House, client: Client):
    call = client.call("wait", timeout=0.05)
    assert await status(call) == grpc.StatusCode.DEADLINE_EXCEEDED
    await house.until_idle()
    assert house.echo.cancelled == 1


async def test_the_server_keeps_the_deadline_of_a_client_that_does_not(house: House, client: Client):
    call = client.call("wait", timeout=None, metadata=(("grpc-timeout", "50m"),))
    assert await status(call) == grpc.StatusCode.DEADLINE_EXCEEDED
    await house.until_idle()


async def test_a_method_knows_how_much_time_is_left(house: House, client: Client):
    await client.say(b"x", timeout=20)
    await client.say(b"x", timeout=None)
    limited, unlimited = house.echo.contexts
    assert 0 < limited.time_remaining() < 25  # clients round up
    assert unlimited.time_remaining() == float("inf")


async def test_a_client_that_cancels_stops_the_method(house: House, client: Client):
    calls = [client.call("wait"), client.listen("count", b"1000000000 1000"), client.meet(), client.meet("talk")]
    await house.echo.until_running(4)
    for call in calls:
        call.cancel()
    await house.until_idle()
    assert house.echo.cancelled == 4
    assert await client.say(b"x") == b"x"


async def test_a_client_that_closes_its_channel_stops_its_methods(house: House):
    async with a_client(house) as client:
        calls = [client.call("wait"), client.meet()]
        await house.echo.until_running(2)
        assert not any(call.done() for call in calls)
    await house.until_idle()
    assert house.echo.cancelled == 2


async def test_half_a_conversation(client: Client):
    chat = client.meet()
    await chat.done_writing()
    assert await chat.read() is grpc.aio.EOF
    assert await chat.code() == grpc.StatusCode.OK


async def test_an_answer_before_the_client_has_said_all(house: House):
    """With the blocking client: the other one may take its own failed write for the end of the call."""

    def answers() -> list[bytes]:
        with grpc.insecure_channel(house.address) as channel:
            first = channel.stream_unary(path("first"))
            return [first(repeat(bytes(100 * KIB)), timeout=PATIENCE) for _ in range(20)]

    assert await asyncio.to_thread(answers) == [bytes(100 * KIB)] * 20
    await house.until_idle()


async def test_two_thousand_calls_at_once_over_one_connection(client: Client):
    answers = await asyncio.gather(*(client.say(b"%d" % n) for n in range(2000)))
    assert answers == [b"%d" % n for n in range(2000)]


async def test_two_thousand_calls_at_once_over_fifty_connections(house: House):
    channels = [grpc.aio.insecure_channel(house.address, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(50)]
    answers = await asyncio.gather(*(Client(channels[n % 50]).say(b"%d" % n) for n in range(2000)))
    assert answers == [b"%d" % n for n in range(2000)]
    assert house.server.connections == 50
    await asyncio.gather(*(channel.close() for channel in channels))
    await house.until_empty()


async def test_more_calls_than_a_connection_may_have_wait_for_their_turn(house: House, client: Client):
    waiting = [client.call("wait", b"%d" % n) for n in range(1200)]
    await house.echo.until_running(1000)
    house.echo.released.set()
    assert await asyncio.gather(*waiting) == [b"%d" % n for n in range(1200)]


async def test_many_calls_that_are_cancelled_together_cost_the_others_nothing(house: House, client: Client):
    chat = client.meet()
    await chat.write(b"before")
    for _ in range(3):
        calls = [client.call("wait") for _ in range(900)]
        await house.echo.until_running(901)
        for call in calls:
            call.cancel()
        await house.echo.until_running(1)
    await chat.write(b"after")
    assert [await chat.read(), await chat.read()] == [b"before", b"after"]


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_requests_may_be_compressed(client: Client, compression: grpc.Compression):
    assert await client.say(bytes(MIB), compression=compression) == bytes(MIB)
    assert await client.say(b"", compression=compression) == b""
    assert await client.tell("sum", iter([bytes(1000), b"x"]), compression=compression) == b"2 1001"


async def test_a_message_that_is_too_large_costs_its_call_alone():
    async with a_house(limits=Limits(message_bytes=MIB)) as house, a_client(house) as client:
        chat = client.meet()
        await chat.write(b"before")
        for _ in range(50):
            refused = client.say(bytes(2 * MIB))
            assert await status(refused) == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "larger than max" in (await refused.details() or "")
        assert await client.say(bytes(MIB)) == bytes(MIB)
        await chat.write(b"after")
        assert [await chat.read(), await chat.read()] == [b"before", b"after"]
        await chat.done_writing()
        assert await chat.read() is grpc.aio.EOF
        assert house.server.connections == 1


async def test_a_compressed_message_that_is_too_large_costs_its_call_alone():
    async with a_house(limits=Limits(message_bytes=MIB)) as house, a_client(house) as client:
        refused = client.say(bytes(2 * MIB), compression=grpc.Compression.Gzip)
        assert await status(refused) == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await client.say(bytes(MIB), compression=grpc.Compression.Gzip) == bytes(MIB)


async def test_a_slow_reader_holds_up_nobody_but_itself(house: House, client: Client):
    slow = client.listen("count", b"1000 1000000")  # a gigabyte, of which nobody reads anything
    await house.echo.until_running(1)
    async with a_client(house) as other:
        for _ in range(20):
            assert await client.say(bytes(KIB)) == bytes(KIB)
            assert await other.say(bytes(KIB)) == bytes(KIB)
    assert house.echo.written < 50 * MIB
    slow.cancel()
    await house.until_idle()


async def test_many_uploads_that_nobody_reads_hold_up_nobody_but_themselves(house: House, client: Client):
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield bytes(100 * KIB)

    unread = [client.tell("ignore", parts()) for _ in range(16)]
    await house.echo.until_running(16)
    for _ in range(20):
        assert await client.say(bytes(KIB)) == bytes(KIB)
    house.echo.released.set()
    assert await asyncio.gather(*unread) == [b"20 2048000"] * 16


async def test_big_answers_do_not_keep_others_waiting(house: House, client: Client):
    big = [client.call("size", b"%d" % (8 * MIB)) for _ in range(4)]
    small = [client.say(b"x") for _ in range(20)]
    assert await asyncio.gather(*small) == [b"x"] * 20
    assert [len(answer) for answer in await asyncio.gather(*big)] == [8 * MIB] * 4


@pytest.mark.parametrize("with_call", [True, False])
async def test_a_client_may_ping_every_second_with_and_without_calls(house: House, with_call: bool):
    options = (
        ("grpc.keepalive_time_ms", 1000),
        ("grpc.keepalive_timeout_ms", 5000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    )
    async with a_client(house, *options) as client:
        chat = client.meet() if with_call else None
        began = time.monotonic()
        await client.say(b"x")
        while time.monotonic() < began + 3.5:  # three pings: what happens is that nothing happens
            await asyncio.sleep(0.1)
            assert house.server.connections == 1
        if chat is not None:
            await chat.write(b"x")
            assert await chat.read() == b"x"
        assert await client.say(b"x") == b"x"


async def test_the_largest_message_allowed(client: Client):
    assert len(await client.call("size", b"%d" % MAX_MESSAGE_BYTES)) == MAX_MESSAGE_BYTES
    assert await client.tell("sum", iter([bytes(MAX_MESSAGE_BYTES)])) == b"1 %d" % MAX_MESSAGE_BYTES


async def test_observers_learn_that_the_call_has_ended(house: House, client: Client):
    await client.say(b"x")
    (context,) = house.echo.contexts
    assert context.done()
    assert not context.cancelled()
    assert SERVICE in path("say")


async def test_calls_that_are_not_authorized_find_nothing_out():
    def authorize(call: RequestHeaders, peer: str) -> None:
        if ("key", "right") not in call.metadata:
            raise CallRefused(grpc.StatusCode.UNAUTHENTICATED, "forbidden")

    async with a_house(authorize=authorize) as house, grpc.aio.insecure_channel(f"127.0.0.1:{house.port}") as channel:
        for method in (path("say"), "/no.Such/method"):
            call = channel.unary_unary(method)
            assert await status(call(b"x", metadata=(("key", "wrong"),))) == grpc.StatusCode.UNAUTHENTICATED
        assert await channel.unary_unary(path("say"))(b"x", metadata=(("key", "right"),)) == b"x"
        unknown = channel.unary_unary("/no.Such/method")(b"x", metadata=(("key", "right"),))
        assert await status(unknown) == grpc.StatusCode.UNIMPLEMENTED


async def test_large_messages_are_inspected_before_they_are_decoded():
    seen = []

    async def inspect(method: str, message: bytes) -> None:
        seen.append((method, len(message)))
        await asyncio.sleep(0)
        if message.endswith(b"no"):
            raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, "too much")

    large = bytes(600_000)
    limits = Limits(message_bytes=1_000_000, connection_bytes=8_000_000, port_bytes=64_000_000)
    async with (
        a_house(limits=limits, inspect=inspect) as house,
        grpc.aio.insecure_channel(f"127.0.0.1:{house.port}") as channel,
    ):
        assert await channel.unary_unary(path("say"))(b"no") == b"no"
        assert len(await channel.unary_unary(path("say"))(large)) == len(large)
        assert await status(channel.unary_unary(path("say"))(large + b"no")) == grpc.StatusCode.INVALID_ARGUMENT
        assert await status(channel.stream_unary(path("sum"))(iter([large, large + b"no"]))) == (
            grpc.StatusCode.INVALID_ARGUMENT
        )
    sizes = [600_000, 600_002]
    assert seen == [(path(name), size) for name in ("say", "sum") for size in sizes]

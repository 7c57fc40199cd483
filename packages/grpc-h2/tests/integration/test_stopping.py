"""How a server leaves: what has begun is finished, what begins goes elsewhere, and nobody holds it up."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from grpc_h2 import connection as rpc
from grpc_h2.connection import MAX_STREAM_ID
from grpc_h2.http2 import Limits
from grpc_h2.server import Server
from grpc_h2_testing.echo import House, a_client, a_house, path, status, until
from grpc_h2_testing.wire import PREFACE, Wire, a_socket, a_wire

MIB = 1024 * 1024
LONG = 3600.0


@asynccontextmanager
async def stopping(house: House, *, grace: float | None) -> AsyncIterator["asyncio.Task[None]"]:
    """The server asked to stop, which it does in the end."""
    task = asyncio.create_task(house.server.stop(grace))
    yield task
    async with asyncio.timeout(30):
        await task
    assert (house.server.connections, house.server.handlers) == (0, 0)
    assert not await house.server.wait_for_termination()


async def test_idle_clients_are_let_go_at_once(house: House):
    async with a_client(house) as client:
        await client.say(b"x")
        async with stopping(house, grace=LONG):
            pass


async def test_clients_that_never_said_anything_are_let_go_soon(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rpc, "GOAWAY_TIMEOUT_S", 0.05)
    async with a_socket(house) as silent, a_socket(house) as begun:
        begun.raw(PREFACE)
        await until(lambda: house.server.connections == 2)
        async with stopping(house, grace=LONG):
            assert await last_octets(silent)


async def test_calls_that_have_begun_are_finished(house: House):
    async with a_client(house) as client:
        calls = [client.call("wait", b"%d" % n) for n in range(20)]
        chat = client.meet()
        await house.echo.until_running(21)
        async with stopping(house, grace=LONG) as stop:
            await chat.write(b"still here")
            assert await chat.read() == b"still here"
            house.echo.released.set()
            assert await asyncio.gather(*calls) == [b"%d" % n for n in range(20)]
            assert not stop.done()
            await chat.done_writing()
            assert await chat.read() is grpc.aio.EOF
            assert await chat.code() == grpc.StatusCode.OK


async def test_the_last_answer_arrives_however_long_it_is(house: House):
    async with a_client(house) as client:
        call = client.call("wait", bytes(8 * MIB))
        await house.echo.until_running(1)
        async with stopping(house, grace=LONG):
            house.echo.released.set()
            assert len(await call) == 8 * MIB


async def test_what_has_not_finished_within_the_grace_is_unavailable(house: House):
    async with a_client(house) as client:
        calls = [client.call("wait"), client.meet(), client.listen("count", b"1000000 1000"), client.tell("ignore")]
        await house.echo.until_running(4)
        async with stopping(house, grace=0.05):
            for call in calls:
                assert await status(call) == grpc.StatusCode.UNAVAILABLE
    assert house.echo.cancelled == 4


async def test_half_an_answer_is_unavailable_too(house: House):
    async with a_wire(house, initial_window_size=20_000) as wire:
        wire.grants = False
        answer = wire.request("size", b"50000")
        await wire.flush()
        await wire.until(lambda: len(answer.data) == 20_000)
        async with stopping(house, grace=0.05):
            with pytest.raises(ConnectionError):
                await wire.over(answer)
        assert answer.reset is None  # a reset would say that the call was cancelled; its connection says more


async def test_a_client_learns_that_it_should_go_before_its_calls_are_over(house: House):
    async with a_wire(house) as wire:
        waiting = wire.request("wait", b"x")
        await wire.flush()
        await house.echo.until_running(1)
        async with stopping(house, grace=LONG):
            await until(lambda: refuses(house.port))
            crossing = await wire.ask("say", b"crossing")  # it was on its way already
            assert (crossing.messages, wire.goaways) == ([b"crossing"], [MAX_STREAM_ID])
            house.echo.released.set()
            await wire.until(lambda: waiting.is_over and len(wire.goaways) == 2)
            assert (waiting.messages, wire.goaways[1]) == ([b"x"], 3)


async def test_calls_one_after_the_other_are_answered_here_or_there():
    """Two servers behind a channel; one leaves while calls come and go, and none of them is lost."""
    async with a_house() as one, a_house() as other:
        both = f"ipv4:127.0.0.1:{one.port},127.0.0.1:{other.port}"
        options = (
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.lb_policy_name", "round_robin"),
            ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
        )
        async with grpc.aio.insecure_channel(both, options) as channel:
            say = channel.unary_unary(path("say"))
            await until(lambda: True)

            async def calls() -> int:
                for n in range(200):
                    assert await say(b"%d" % n, timeout=30, wait_for_ready=True) == b"%d" % n
                return 200

            async def leave() -> None:
                await until(lambda: len(one.echo.contexts) > 50 and len(other.echo.contexts) > 50)
                await one.server.stop(LONG)

            *answered, _ = await asyncio.gather(*(calls() for _ in range(8)), leave())
            assert answered == [200] * 8
            assert len(other.echo.contexts) > len(one.echo.contexts)


async def test_nobody_gets_in_any_more(house: House):
    async with a_client(house) as client:
        chat = client.meet()
        await chat.write(b"x")
        await chat.read()
        async with stopping(house, grace=LONG):
            await until(lambda: refuses(house.port))
            await chat.done_writing()


async def test_a_client_that_was_accepted_just_before_is_let_go_as_well(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rpc, "GOAWAY_TIMEOUT_S", 0.05)
    async with a_wire(house) as wire:
        waiting = wire.request("wait", b"x")
        await wire.flush()
        await house.echo.until_running(1)
        async with stopping(house, grace=LONG):
            await until(lambda: refuses(house.port))
            with socket.create_server(("127.0.0.1", 0)) as listener:
                client = socket.create_connection(listener.getsockname())
                accepted, _ = listener.accept()
            with client:
                accept = asyncio.get_running_loop().connect_accepted_socket
                await accept(lambda: rpc.ServerConnection(house.server), accepted)
                await until(lambda: house.server.connections == 1)
            house.echo.released.set()
            await wire.over(waiting)


async def test_a_client_that_does_not_listen_does_not_hold_up_the_stop(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rpc, "GOAWAY_TIMEOUT_S", 0.05)
    async with a_wire(house, initial_window_size=64 * MIB) as wire:
        wire.h2.increment_flow_control_window(64 * MIB)
        wire.request("size", b"%d" % (8 * MIB))
        wire.request("count", b"1000 100000")
        await wire.flush()
        await house.echo.until_running(1)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        began = time.monotonic()
        async with stopping(house, grace=0.2):
            pass
        assert time.monotonic() - began < 20


async def test_a_client_whose_connection_failed_and_who_reads_nothing_does_not_spoil_the_stop(house: House):
    async with a_wire(house, initial_window_size=64 * MIB) as wire:
        wire.h2.increment_flow_control_window(64 * MIB)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.request("count", b"1000 100000")
        await wire.flush()
        await house.echo.until_running(1)
        wire.raw(b"\0\0\4\x08\0\0\0\0\0\0\0\0\0")  # widens a window by nothing, which is an error
        await house.echo.until_running(0)  # its calls end with its words, not with its connection
        async with stopping(house, grace=LONG):
            pass


async def test_stopping_twice_and_without_a_start_is_fine(house: House):
    await asyncio.gather(house.server.stop(None), house.server.stop(0))
    await house.server.stop(LONG)
    never = Server(Limits(message_bytes=1))
    never.add_insecure_port("127.0.0.1:0")
    await never.stop(None)


async def last_octets(wire: Wire) -> bytes:
    """All that the server says until it closes."""
    return await wire.reader.read()


def refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_socket_whose_port_is_taken_meanwhile_is_closed_and_the_server_takes_another():
    with socket.socket() as first:
        second = socket.socket()
        for bound in (first, second):
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        second.bind(first.getsockname())
        first.listen()
        server = Server(Limits(message_bytes=1000))
        with pytest.raises(OSError, match="in use"):
            server.add_socket(second)
        assert second.fileno() == -1
        assert server.add_port("127.0.0.1:0") != first.getsockname()[1]
        await server.start()
        await server.stop(0)

"""HTTP connections on the wire: keep-alive, pipelining, bodies in parts, limits, and clients that go away."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from msgspec import Struct

from statewright.api.http.asgi import (
    ClientGone,
    Receive,
    RequestLimits,
    RequestStream,
    Scope,
    Send,
    cancel_on_disconnect,
    get_address,
)
from statewright.api.http.server import HttpLimits, serve_http
from statewright.failures import BadRequest
from statewright.loop.background import ShutdownBudget
from statewright.network.sockets import Network, bind_listening_socket

PATIENCE = 30.0
LOOPBACK = ip_network("127.0.0.0/8")
UNHURRIED = HttpLimits(head_timeout_s=2.5)
"""Enough for a busy machine to have read what was sent, and not too much to wait for."""

GET = b"GET /%b HTTP/1.1\r\nHost: here\r\n\r\n"

Answering = Callable[[Scope, Receive, Send], Awaitable[None]]


async def body_of(receive: Receive) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body


async def respond(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with method, path and body, in one piece, or by ASGI messages below ``/messages``."""
    text = b"%b %b %b" % (scope["method"].encode(), scope["raw_path"], await body_of(receive))
    if not scope["path"].startswith("/messages"):
        await respond(send, 200, [(b"x-own", b"yes")], text)
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"yes")]})
    for letter in text.split(b" ")[:2]:
        await send({"type": "http.response.body", "body": letter, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class Waiting:
    """An endpoint that waits until it is allowed to answer, and remembers how it ended."""

    def __init__(self) -> None:
        self.arrived = asyncio.Semaphore(0)
        self.allowed = asyncio.Semaphore(0)
        self.ended: asyncio.Queue[object] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with cancel_on_disconnect(receive):
                if scope["path"] == "/reads":
                    await body_of(receive)
                self.arrived.release()
                await self.allowed.acquire()
        except (ClientGone, BadRequest) as failure:
            self.ended.put_nowait(failure)
            await respond(send, 400, [], str(failure).encode())
            return
        self.ended.put_nowait("answered")
        await respond(send, 200, [], scope["raw_path"])


class Wire(Struct):
    """A client's end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def response(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next response."""
        async with asyncio.timeout(PATIENCE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = b""
            if has_body and headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readline(), 16):
                    body += await self.reader.readexactly(size)
                    await self.reader.readline()
                await self.reader.readline()
            elif has_body:
                body = await self.reader.readexactly(int(headers.get("content-length", "0")))
            return int(first.split()[1]), headers, body

    async def rest(self) -> bytes:
        """Everything until the server closes; a reset, when it has not read all that was sent, is an end, too."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


def serve(
    application: Answering, limits: HttpLimits, grace: ShutdownBudget, **more: Any
) -> AbstractAsyncContextManager[int]:
    listener = bind_listening_socket("127.0.0.1", 0)
    return serve_http(application, listener, asyncio.Event(), limits, grace=grace, **more)


@asynccontextmanager
async def a_wire(application: Answering, limits: HttpLimits | None = None) -> AsyncIterator[Wire]:
    async with (
        serve(application, limits or HttpLimits(), ShutdownBudget(timedelta(seconds=1))) as port,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield Wire(reader, writer)
        finally:
            writer.close()


async def soon(awaited: Awaitable[object]) -> object:
    async with asyncio.timeout(PATIENCE):
        return await awaited


async def test_a_connection_carries_one_request_after_the_other():
    async with a_wire(echo) as wire:
        for n in range(3):
            wire.send(b"PUT /%d HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello" % n)
            status, headers, body = await wire.response()
            assert (status, headers["x-own"], body) == (200, "yes", b"PUT /%d hello" % n)
            assert "date" in headers


async def test_a_body_may_come_in_parts_and_in_chunks():
    async with a_wire(echo) as wire:
        wire.send(b"PUT /a HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhe")
        await asyncio.sleep(0)
        wire.send(b"llo")
        assert (await wire.response())[2] == b"PUT /a hello"
        wire.send(b"PUT /b HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        wire.send(b"2\r\nde\r\n0\r\n\r\n")
        assert (await wire.response())[2] == b"PUT /b abcde"


async def test_a_body_larger_than_every_buffer_arrives_whole():
    body = bytes(range(32, 127)) * 40_000
    async with a_wire(echo) as wire:
        wire.send(b"PUT /big HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert (await wire.response())[2] == b"PUT /big " + body


async def test_whoever_expects_to_be_told_is_told_to_continue():
    async with a_wire(echo) as wire:
        wire.send(b"PUT /a HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await soon(wire.reader.readuntil(b"\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(b"hi")
        assert (await wire.response())[2] == b"PUT /a hi"


async def test_a_response_may_come_in_parts():
    async with a_wire(echo) as wire:
        wire.send(GET % b"messages/1")
        status, headers, body = await wire.response()
        assert (status, headers["transfer-encoding"], body) == (200, "chunked", b"GET/messages/1")


@pytest.mark.parametrize("path", [b"a", b"messages"])
async def test_head_is_answered_without_a_body(path: bytes):
    async with a_wire(echo) as wire:
        wire.send((GET % path).replace(b"GET", b"HEAD"))
        assert (await wire.response(has_body=False))[0] == 200
        wire.send(GET % b"next")
        assert (await wire.response())[2] == b"GET /next "


@pytest.mark.parametrize("path", [b"a", b"messages"])
@pytest.mark.parametrize(
    "request_line", [b"GET /%b HTTP/1.0\r\n\r\n", b"GET /%b HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"]
)
async def test_a_connection_that_is_not_to_stay_is_closed_after_the_response(path: bytes, request_line: bytes):
    async with a_wire(echo) as wire:
        wire.send(request_line % path)
        head, _, body = (await wire.rest()).partition(b"\r\n\r\n")
        assert b"connection: close" in head or head.startswith(b"HTTP/1.0")
        assert b"GET" in body
        assert b"/" + path in body


async def test_pipelined_requests_are_answered_in_their_order():
    async with a_wire(echo) as wire:
        wire.send(b"".join(GET % b"%d" % n for n in range(50)))
        assert [(await wire.response())[2] for _ in range(50)] == [b"GET /%d " % n for n in range(50)]


async def test_a_pipelined_request_waits_for_the_response_before_it():
    waiting = Waiting()
    async with a_wire(waiting) as wire:
        wire.send(GET % b"1" + GET % b"2")
        await soon(waiting.arrived.acquire())
        assert waiting.arrived.locked()
        waiting.allowed.release()
        assert (await wire.response())[2] == b"/1"
        await soon(waiting.arrived.acquire())
        waiting.allowed.release()
        assert (await wire.response())[2] == b"/2"


@pytest.mark.parametrize(
    "request_text",
    [
        GET % b"here",
        b"PUT /here HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n",
        b"POST /here HTTP/1.1\r\nHost: here\r\n\r\n",
        b"PUT /here HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello",
        b"PUT /reads HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello",
        GET % b"here" + GET % b"there",
    ],
    ids=["get", "put without body", "post without body", "body not read", "body read", "pipelined"],
)
async def test_a_request_ends_when_its_client_goes_away(request_text: bytes):
    waiting = Waiting()
    async with a_wire(waiting) as wire:
        wire.send(request_text)
        await soon(waiting.arrived.acquire())
        wire.writer.transport.abort()
        assert isinstance(await soon(waiting.ended.get()), ClientGone)
    assert waiting.ended.empty()


async def test_a_client_that_goes_away_in_the_middle_of_a_body_ends_the_request():
    waiting = Waiting()
    async with a_wire(waiting) as wire:
        wire.send(b"PUT /reads HTTP/1.1\r\nHost: here\r\nContent-Length: 50\r\n\r\nhello")
        wire.send(b"again")
        await soon(wire.writer.drain())
        wire.writer.close()
        assert isinstance(await soon(waiting.ended.get()), ClientGone)


async def test_a_client_that_stops_in_the_middle_of_a_body_is_refused():
    waiting = Waiting()
    async with a_wire(waiting, HttpLimits(requests=RequestLimits(body_timeout_s=0.2))) as wire:
        wire.send(b"PUT /reads HTTP/1.1\r\nHost: here\r\nContent-Length: 50\r\n\r\nhello")
        status, headers, body = await wire.response()
        assert (status, headers["connection"]) == (400, "close")
        assert body == b"no part of the request body came for 0.2 s"
        assert await wire.rest() == b""


async def test_a_body_that_comes_too_slowly_is_refused_though_parts_come():
    waiting = Waiting()
    limits = HttpLimits(requests=RequestLimits(body_grace_s=0.3, body_rate=1000))
    async with a_wire(waiting, limits) as wire:
        wire.send(b"PUT /reads HTTP/1.1\r\nHost: here\r\nContent-Length: 5000\r\n\r\n")
        ended = asyncio.create_task(waiting.ended.get())
        while not ended.done():
            wire.send(b"x")
            await asyncio.wait([ended], timeout=0.02)
        assert str(await ended) == "the request body comes with less than 1000 bytes a second"
        status, headers, _ = await wire.response()
        assert (status, headers["connection"]) == (400, "close")
        assert await wire.rest() == b""


async def test_a_body_that_comes_fast_enough_may_take_longer_than_the_grace():
    async with a_wire(echo, HttpLimits(requests=RequestLimits(body_grace_s=0.1, body_rate=10))) as wire:
        wire.send(b"PUT /a HTTP/1.1\r\nHost: here\r\nContent-Length: 500\r\n\r\n" + b"x" * 499)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wire.reader.read(1), timeout=1.0)
        wire.send(b"x")
        assert (await wire.response())[0] == 200


async def refuse_excess(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers who is too many; others wait for the rest of their bodies."""
    assert isinstance(receive, RequestStream)
    if receive.excess is not None:
        await respond(send, receive.excess.status, [], b"")
        return
    await echo(scope, receive, send)


async def test_who_is_too_many_is_told_at_once_and_its_connection_ends():
    limits = HttpLimits(requests=RequestLimits(connections=16))
    unfinished = b"PUT /a HTTP/1.1\r\nHost: here\r\nContent-Length: 50\r\n\r\n["
    async with serve(refuse_excess, limits, ShutdownBudget(timedelta(seconds=1))) as port:
        waiting = list[Wire]()
        for _ in range(12):  # three quarters
            waiting.append(Wire(*await asyncio.open_connection("127.0.0.1", port)))
            waiting[-1].send(unfinished)
        late = Wire(*await asyncio.open_connection("127.0.0.1", port))
        late.send(unfinished)
        status, headers, _ = await late.response()
        assert (status, headers["connection"]) == (429, "close")
        assert await late.rest() == b""
        late.writer.close()
        for wire in waiting:
            wire.send(b"]" * 49)
            assert (await wire.response())[0] == 200
        waiting[0].send(GET % b"a")
        assert (await waiting[0].response())[0] == 200
        for wire in waiting:
            wire.writer.close()


async def tell_address(scope: Scope, _receive: Receive, send: Send) -> None:
    await respond(send, 200, [], get_address(scope).encode())


@pytest.mark.parametrize(("proxies", "address"), [((), b"127.0.0.1"), ((LOOPBACK,), b"203.0.113.7")])
async def test_only_a_trusted_proxy_is_believed_whom_it_speaks_for(proxies: tuple[Network, ...], address: bytes):
    forwarded = b"X-Forwarded-For: 198.51.100.9\r\nX-Forwarded-For: 203.0.113.7, 127.0.0.9\r\n"
    async with a_wire(tell_address, HttpLimits(requests=RequestLimits(proxies=proxies))) as wire:
        wire.send(b"GET /a HTTP/1.1\r\nHost: here\r\n" + forwarded + b"\r\n")
        assert (await wire.response())[2] == address


async def test_a_stranger_who_goes_on_with_its_body_is_disconnected(monkeypatch: pytest.MonkeyPatch):
    """Its answer is there at once; a body that nobody wants is taken for a time that does not depend on its bytes."""
    monkeypatch.setattr("statewright.api.http.asgi.DISCARD_TIMEOUT_S", 0.3)

    async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
        await respond(send, 401, [], b"")

    async with a_wire(refuse) as wire:
        wire.send(b"PUT /a HTTP/1.1\r\nHost: here\r\nContent-Length: 5000\r\n\r\n")
        assert (await wire.response())[0] == 401
        ended = asyncio.create_task(wire.rest())
        async with asyncio.timeout(PATIENCE):
            while not ended.done():
                wire.send(b"x")
                await asyncio.wait([ended], timeout=0.02)


async def test_a_head_that_does_not_end_in_time_ends_the_connection():
    """Without an answer: the server knows of none (docs/adr/0019)."""
    async with a_wire(echo, UNHURRIED) as wire:
        wire.send(b"GET / HTTP/1.1\r\nHost: he")
        assert await wire.rest() == b""


async def test_the_head_of_a_later_request_is_waited_for_no_longer():
    async with a_wire(echo, UNHURRIED) as wire:
        wire.send(GET % b"a")
        await wire.response()
        wire.send(b"GET / HTTP/1.1\r\n")
        assert await wire.rest() == b""


async def test_a_connection_without_a_request_is_closed():
    async with a_wire(echo, HttpLimits(head_timeout_s=0.4)) as wire:
        assert await wire.rest() == b""


async def test_heads_that_never_end_do_not_keep_others_out_when_the_port_is_full():
    """The head of a slow client may take a quarter of an hour here; those who wait for a connection are not so slow."""
    limits = HttpLimits(requests=RequestLimits(connections=40), head_timeout_s=900.0, idle_timeout_s=900.0)
    async with serve(echo, limits, ShutdownBudget(timedelta(seconds=1))) as port:
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(120)]
        for _, writer in slow:
            writer.write(b"GET / HTTP/1.1\r\nHost: he")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        late = Wire(reader, writer)
        late.send(GET % b"late")
        assert (await late.response())[0] == 200
        for _, opened in (*slow, (reader, writer)):
            opened.close()


async def test_connections_that_are_not_in_the_way_of_others_stay():
    limits = HttpLimits(requests=RequestLimits(connections=40), head_timeout_s=900.0, idle_timeout_s=900.0)
    async with serve(echo, limits, ShutdownBudget(timedelta(seconds=1))) as port:
        kept = [Wire(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(25)]
        for wire in kept:
            wire.send(GET % b"a")
            await wire.response()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(kept[0].reader.read(1), timeout=1.5)
        for wire in kept:
            wire.send(GET % b"b")
            assert (await wire.response())[0] == 200
            wire.writer.close()


async def test_an_idle_connection_is_closed_after_the_keep_alive_time():
    async with a_wire(echo, HttpLimits(head_timeout_s=0.2)) as wire:
        wire.send(GET % b"a")
        await wire.response()
        assert await wire.rest() == b""


async def test_a_request_may_take_longer_than_its_client_may():
    waiting = Waiting()
    limits = HttpLimits(requests=RequestLimits(body_timeout_s=0.2), head_timeout_s=0.2, idle_timeout_s=0.2)
    async with a_wire(waiting, limits) as wire:
        wire.send(GET % b"slow")
        await soon(waiting.arrived.acquire())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wire.reader.read(1), timeout=1.5)
        waiting.allowed.release()
        assert (await wire.response())[2] == b"/slow"


@pytest.mark.parametrize("split", [1, 2, 700, 40_000])
async def test_a_head_that_is_too_large_is_refused(split: int):
    head = b"GET / HTTP/1.1\r\nHost: here\r\n" + b"X-Much: %b\r\n" % (b"x" * 1000) * 64
    head += b"X: " + b"x" * (65_536 - len(head))  # its end is the first that is too much
    async with a_wire(echo) as wire:
        for start in range(0, len(head), -(-len(head) // split) if split < 100 else split):
            wire.send(head[start : start + (-(-len(head) // split) if split < 100 else split)])
            await asyncio.sleep(0)
        status, headers, _ = await wire.response()
        assert (status, headers["connection"]) == (431, "close")


async def test_a_single_header_without_end_is_refused():
    beginning = b"GET / HTTP/1.1\r\nX: "
    async with a_wire(echo) as wire:
        wire.send(beginning)
        for size in (*[8192] * 7, 8192 - len(beginning)):  # what came later could destroy the answer
            wire.send(b"x" * size)
            await asyncio.sleep(0)
        assert (await wire.response())[0] == 431


async def test_a_large_body_and_many_small_requests_do_not_count_as_a_head():
    big = b"PUT /big HTTP/1.1\r\nHost: here\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000
    async with a_wire(echo) as wire:
        wire.send(big + GET % b"next" * 1)
        assert len((await wire.response())[2]) == 200_009
        assert (await wire.response())[2] == b"GET /next "
        wire.send((GET % b"many") * 3000)
        for _ in range(3000):
            assert (await wire.response())[2] == b"GET /many "


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"hello\r\n\r\n"]
)
async def test_what_is_no_request_is_refused(garbage: bytes):
    async with a_wire(echo) as wire:
        wire.send(garbage)
        status, headers, _ = await wire.response()
        assert (status, headers["connection"]) == (400, "close")


async def test_what_is_no_request_is_refused_after_the_responses_before_it():
    waiting = Waiting()
    async with a_wire(waiting) as wire:
        wire.send(GET % b"good" + b"nonsense\r\n\r\n")
        await soon(waiting.arrived.acquire())
        waiting.allowed.release()
        assert (await wire.response())[2] == b"/good"
        assert (await wire.response())[0] == 400
        assert await wire.rest() == b""


async def test_an_endpoint_that_fails_is_answered_with_500():
    async def failing(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise LookupError("a defect")

    async with a_wire(failing) as wire:
        wire.send(GET % b"a")
        status, headers, body = await wire.response()
        assert (status, headers["connection"], body) == (500, "close", b"Internal Server Error")


async def test_a_header_with_a_line_break_never_leaves():
    async def forging(_scope: Scope, _receive: Receive, send: Send) -> None:
        await respond(send, 200, [(b"x", b"1\r\nset-cookie: 2")], b"")

    async with a_wire(forging) as wire:
        wire.send(GET % b"a")
        status, headers, _ = await wire.response()
        assert status == 500
        assert "set-cookie" not in headers


async def test_a_wish_for_another_protocol_is_ignored():
    async with a_wire(echo) as wire:
        wire.send(b"GET /a HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        assert (await wire.response())[2] == b"GET /a "


async def test_a_response_under_way_is_finished_before_the_server_stops():
    waiting = Waiting()
    serving = serve(waiting, HttpLimits(), ShutdownBudget(timedelta(seconds=PATIENCE)))
    port = await serving.__aenter__()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    wire = Wire(reader, writer)
    wire.send(GET % b"last")
    await soon(waiting.arrived.acquire())
    stopping = asyncio.create_task(serving.__aexit__(None, None, None))
    await asyncio.sleep(0.3)  # gives a server that does not wait the time to show it
    waiting.allowed.release()
    assert (await wire.response())[2] == b"/last"
    assert await wire.rest() == b""
    await soon(stopping)
    writer.close()


async def test_while_the_server_drains_new_connections_are_served_and_told_to_close():
    window = timedelta(seconds=1.5)
    serving = serve(echo, HttpLimits(), ShutdownBudget(window + timedelta(seconds=1)), drain_window=window)
    port = await serving.__aenter__()
    idle = Wire(*await asyncio.open_connection("127.0.0.1", port))
    idle.send(GET % b"before")
    assert "connection" not in (await idle.response())[1]
    stopping = asyncio.create_task(serving.__aexit__(None, None, None))
    await asyncio.sleep(0.1)
    new = Wire(*await asyncio.open_connection("127.0.0.1", port))
    for wire in (idle, new):
        wire.send(GET % b"during")
        status, headers, _ = await wire.response()
        assert (status, headers["connection"]) == (200, "close")
        assert await wire.rest() == b""
    await soon(stopping)
    with pytest.raises(OSError, match="onnect"):
        await asyncio.open_connection("127.0.0.1", port)
    for wire in (idle, new):
        wire.writer.close()


async def test_no_connection_is_reset_that_was_made_while_the_server_drained():
    serving = serve(echo, HttpLimits(), ShutdownBudget(timedelta(seconds=2)), drain_window=timedelta(seconds=0.4))
    port = await serving.__aenter__()

    async def ask_until_refused() -> int:
        for asked in itertools.count():
            try:
                wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
            except ConnectionRefusedError:
                return asked
            wire.send(GET % b"new")
            assert (await wire.response())[0] == 200
            wire.writer.close()
        raise AssertionError

    asking = [asyncio.create_task(ask_until_refused()) for _ in range(8)]
    await soon(serving.__aexit__(None, None, None))
    assert all(await asyncio.gather(*asking))


async def test_a_response_that_nobody_reads_is_made_no_further():
    made = 0

    async def endless(_scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal made
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with cancel_on_disconnect(receive):
            while True:
                await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
                made += 1

    async with a_wire(endless) as wire:
        wire.send(GET % b"a")
        await asyncio.sleep(0.5)
        held = made
        await asyncio.sleep(0.5)
        assert made == held < 400
        wire.writer.transport.abort()


async def test_a_body_that_nobody_takes_is_read_no_further():
    sent = 0

    async def idle(_scope: Scope, receive: Receive, _send: Send) -> None:
        with cancel_on_disconnect(receive):
            await receive()
            await asyncio.Event().wait()

    async with a_wire(idle) as wire:
        wire.send(b"PUT /a HTTP/1.1\r\nHost: here\r\nContent-Length: 1000000000\r\n\r\n")
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                while sent < 64 * 1024 * 1024:
                    wire.send(b"x" * 65_536)
                    await wire.writer.drain()
                    sent += 65_536
        assert sent < 64 * 1024 * 1024
        wire.writer.transport.abort()

"""Servers that are slow, endless or lying hold nothing up (docs/reference/egress.md#limits)."""

import asyncio
import gzip
import zlib

import pytest

from statewright.egress import EgressLimits, HttpFailure, HttpRequest, HttpResponse
from tests.integration.egress.conftest import Answer, Server, open_egress, respond, serve

SMALL = EgressLimits(timeout_s=20, read_timeout_s=20, max_body_bytes=100_000, max_header_bytes=4_000)


async def send_to(
    answer: Answer | bytes, limits: EgressLimits = SMALL, **members: object
) -> HttpResponse | HttpFailure:
    async with serve(answer) as server, open_egress(limits=limits) as egress:
        return await egress.send(HttpRequest(url=server.url(), **members))


def reason_of(outcome: HttpResponse | HttpFailure) -> str:
    assert isinstance(outcome, HttpFailure), f"there is a response: {outcome}"
    return outcome.reason


def repeat(head: bytes, part: bytes) -> Answer:
    """An answer that has no end."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(part)
            await writer.drain()

    return answer


async def stay_silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read(1)  # until the other side has gone


async def test_a_silent_server_is_given_up():
    quick = EgressLimits(timeout_s=20, read_timeout_s=0.1)
    outcome = await send_to(stay_silent, quick)
    assert isinstance(outcome, HttpFailure)
    assert (outcome.reason, outcome.was_sent) == ("timed_out", True)


async def test_a_body_arrives_as_fast_as_the_server_takes_it():
    body, arrived = bytes(3 * 1024 * 1024), list[int]()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while sum(arrived) < len(body):
            arrived.append(len(await reader.read(256 * 1024)))
            await asyncio.sleep(0)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    outcome = await send_to(take, EgressLimits(), method="POST", body=body)
    assert isinstance(outcome, HttpResponse)
    assert (outcome.status, sum(arrived)) == (204, len(body))


async def test_a_server_that_takes_nothing_of_a_body_is_given_up():
    async def take_nothing(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    limits = EgressLimits(timeout_s=20, read_timeout_s=0.1, max_body_bytes=32 * 1024 * 1024)
    outcome = await send_to(take_nothing, limits, method="POST", body=bytes(32 * 1024 * 1024))
    assert isinstance(outcome, HttpFailure)
    assert (outcome.reason, outcome.was_sent) == ("timed_out", True)


async def test_a_server_that_sends_a_byte_now_and_then_is_given_up_when_the_time_is_over():
    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    assert reason_of(await send_to(drip, timeout_s=0.3)) == "timed_out"


async def test_a_request_can_only_shorten_the_time():
    assert reason_of(await send_to(stay_silent, EgressLimits(timeout_s=0.1), timeout_s=60)) == "timed_out"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
    ],
)
async def test_a_body_without_an_end_is_cut(head: bytes):
    assert reason_of(await send_to(repeat(head, b"x" * 10_000))) == "body_too_large"


async def test_a_request_can_only_lower_the_size():
    assert reason_of(await send_to(respond(b"x" * 5_001), max_response_bytes=5_000)) == "body_too_large"
    assert isinstance(await send_to(respond(b"x" * 5_000), max_response_bytes=5_000), HttpResponse)
    assert reason_of(await send_to(respond(b"x" * 100_001), max_response_bytes=1_000_000)) == "body_too_large"


async def test_a_longer_response_is_cut_for_who_wants_only_its_beginning():
    for body, encoding in ((b"x" * 50_000, ""), (gzip.compress(b"x" * 50_000_000), "gzip")):
        answer = respond(body, Content_Encoding=encoding)
        outcome = await send_to(answer, max_response_bytes=5_000, cuts_response=True)
        assert isinstance(outcome, HttpResponse)
        assert (outcome.status, outcome.body) == (200, b"x" * 5_000)


async def test_framing_without_an_end_is_cut():
    """Chunks of one byte cost six, so that the limit is met by what carries them."""
    answer = repeat(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1_000)
    assert reason_of(await send_to(answer)) == "body_too_large"


@pytest.mark.parametrize("part", [b"X-A: b\r\n" * 100, b"a" * 1_000])
async def test_a_head_without_an_end_is_cut(part: bytes):
    limits = EgressLimits(timeout_s=20, max_header_bytes=4_000)
    assert reason_of(await send_to(repeat(b"HTTP/1.1 200 OK\r\n", part), limits)) == "headers_too_large"


async def test_a_large_head_is_refused():
    assert reason_of(await send_to(respond(b"", X="y" * 5_000))) == "headers_too_large"


async def test_heads_before_the_head_have_an_end():
    assert reason_of(await send_to(repeat(b"", b"HTTP/1.1 103 Early\r\n\r\n" * 50))) == "body_too_large"


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("body", [b"", b"hello" * 1_000])
async def test_a_packed_body_is_unpacked(pack: object, body: bytes):
    assert callable(pack)
    encoding = "gzip" if pack is gzip.compress else "deflate"
    response = await send_to(respond(pack(body), Content_Encoding=encoding))
    assert isinstance(response, HttpResponse)
    assert response.body == body


async def test_a_decompression_bomb_is_cut():
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < SMALL.max_body_bytes
    assert reason_of(await send_to(respond(bomb, Content_Encoding="gzip"))) == "body_too_large"


@pytest.mark.parametrize(
    ("packed", "encoding", "reason"),
    [
        (b"no gzip", "gzip", "response_malformed"),
        (gzip.compress(b"x" * 1_000, mtime=0)[:-4], "gzip", "response_malformed"),
        (b"x", "br", "encoding_unsupported"),
        (b"x", "gzip, gzip", "encoding_unsupported"),
    ],
)
async def test_what_cannot_be_unpacked_is_refused(packed: bytes, encoding: str, reason: str):
    assert reason_of(await send_to(respond(packed, Content_Encoding=encoding))) == reason


@pytest.mark.parametrize(
    "answer",
    [
        b"220 smtp.example.com ESMTP\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    ],
)
async def test_what_is_no_response_is_refused(answer: bytes):
    assert reason_of(await send_to(answer)) == "response_malformed"


async def test_a_response_that_ends_early_is_none():
    async def break_off(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        writer.close()

    assert reason_of(await send_to(break_off)) == "response_malformed"


async def test_a_server_that_closes_the_connection_without_a_word_has_closed_it():
    async def leave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    assert reason_of(await send_to(leave)) == "connection_lost"


async def test_a_closed_port_is_told_and_nothing_was_sent():
    async with serve(respond()) as server:
        url = server.url()
    async with open_egress() as egress:
        outcome = await egress.send(HttpRequest(url=url))
    assert isinstance(outcome, HttpFailure)
    assert (outcome.reason, outcome.was_sent) == ("connection_failed", False)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", (("Host", "other.test"),)),
        ("GET", (("transfer-encoding", "chunked"),)),
        ("GET", (("X", "a\r\nY: b"),)),
        ("GET", (("X\r\nY", "b"),)),
        ("GET", (("X", "\u2603"),)),
        ("GET /\r\nX: y\r\n\r\nGET", ()),
    ],
)
async def test_one_request_cannot_be_made_two(method: str, headers: tuple[tuple[str, str], ...]):
    async with serve(respond()) as server, open_egress() as egress:
        outcome = await egress.send(HttpRequest(url=server.url(), method=method, headers=headers))
    assert reason_of(outcome) == "request_malformed"
    assert server.requests == []


async def test_connections_are_used_again():
    async with serve(respond()) as server, open_egress() as egress:
        for _ in range(3):
            await egress.send(HttpRequest(url=server.url()))
    assert len(server.requests) == 3
    assert len(server.connections) == 1


class Gate:
    """An answer that waits until it is opened."""

    def __init__(self, expected: int) -> None:
        self.opened = asyncio.Event()
        self.full = asyncio.Event()
        self.waiting = self.most = 0
        self._expected = expected

    async def __call__(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.waiting == self._expected:
            self.full.set()
        await self.opened.wait()
        self.waiting -= 1
        writer.write(respond())


async def test_a_tenant_has_so_many_requests_under_way_and_others_are_served_meanwhile():
    limits = EgressLimits(timeout_s=30, max_tenant_requests=2, max_tenant_waiting=2)
    gate = Gate(expected=2)
    async with serve(gate) as slow, serve(respond()) as quick, open_egress(limits=limits) as egress:

        async def send(server: Server, tenant: str) -> HttpResponse | HttpFailure:
            return await egress.send(HttpRequest(url=server.url(), tenant=tenant))

        running = [asyncio.create_task(send(slow, "one")) for _ in range(4)]
        await gate.full.wait()
        refused = await send(quick, "one")
        other = await send(quick, "two")
        gate.opened.set()
        outcomes = await asyncio.gather(*running)
    assert reason_of(refused) == "too_many_requests"
    assert isinstance(other, HttpResponse)
    assert all(isinstance(outcome, HttpResponse) for outcome in outcomes)
    assert gate.most == 2
    assert egress.outcomes == {"response": 5, "too_many_requests": 1}


async def test_a_cancelled_request_gives_its_place_back():
    limits = EgressLimits(timeout_s=30, max_tenant_requests=1, max_requests=1)
    gate = Gate(expected=1)
    async with serve(gate) as slow, serve(respond()) as quick, open_egress(limits=limits) as egress:
        task = asyncio.create_task(egress.send(HttpRequest(url=slow.url())))
        await gate.full.wait()
        task.cancel()
        await asyncio.wait([task])
        assert isinstance(await egress.send(HttpRequest(url=quick.url())), HttpResponse)
        gate.opened.set()


async def test_nothing_of_a_request_but_its_host_is_told():
    async with serve(respond(b"hunter2" * 100)) as server, open_egress() as egress:
        request = HttpRequest(
            url=server.url(path="/hunter2?key=hunter2"),
            headers=(("Authorization", "hunter2"),),
            body=b"hunter2",
            method="POST",
            max_response_bytes=10,
        )
        outcome = await egress.send(request)
    assert reason_of(outcome) == "body_too_large"
    assert "hunter2" not in f"{outcome} {outcome!r} {request!r}"

"""Attacks on the HTTP port, without credentials: the service stays well, forgets them, and logs no traceback.

A second process asks for the health of the service all the time. Its questions are due at fixed moments, so that an
answer that keeps the next questions waiting counts against them, too.
"""

import asyncio
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import psutil
import pytest

from tests.database import Template
from tests.e2e.health import Health
from tests.e2e.program import Program, started
from tests.service import a_token, eventually, signing_key_pem

HEAD_TIMEOUT_S: Final = 1.0
MAX_HEAD_BYTES: Final = 65_536
MAX_KEPT_BYTES: Final = 20 * 1024 * 1024
MAX_HEALTH_S: Final = 0.1
"""The 99th of a hundred questions for health is answered in it, beside the time in which it waited for a processor."""

HOST: Final = b"Host: here\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
GET: Final = b"GET /api/health HTTP/1.1\r\n" + HOST + b"\r\n"
MARKED: Final = b"GET /api/help HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
"""A request that must never be answered when it stands where a body is."""

SECOND: Final = b"GET /api/health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"


class Target:
    """The program under attack."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.health = Health(program)
        self._process = psutil.Process(program.process.pid)

    @property
    def memory(self) -> int:
        return int(self._process.memory_info().rss)

    def connect(self, *, receive_buffer: int | None = None) -> socket.socket:
        client = socket.socket()
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(20)
        client.connect(("127.0.0.1", self.program.ports["HTTP"]))
        return client

    def ask(self, *segments: bytes) -> bytes:
        """Everything that the service says to the segments of a connection, until it closes."""
        with self.connect() as client:
            for n, segment in enumerate(segments):
                if n:
                    sleep(0.1)  # so that they arrive apart
                client.sendall(segment)
            return rest(client)


def rest(client: socket.socket) -> bytes:
    """What comes until the end of the connection, orderly or not. The service must end it."""
    received = b""
    with suppress(ConnectionError):
        while part := client.recv(65_536):
            received += part
    return received


def statuses(received: bytes) -> list[int]:
    """Of all responses in what was received."""
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


def send_until_refused(client: socket.socket, part: bytes, limit: int) -> int:
    """Send the part again and again; how many bytes went off before the connection ended, or ``limit``."""
    sent = 0
    with suppress(ConnectionError):
        while sent < limit:
            client.sendall(part)
            sent += len(part)
    return sent


@contextmanager
def a_database(template: Template) -> Iterator[str]:
    """A database for all tests of this file."""
    with asyncio.Runner() as runner:
        clone = template.clone()
        try:
            yield runner.run(clone.__aenter__())
        finally:
            runner.run(clone.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def target(database_template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    home: Path = tmp_path_factory.mktemp("attacked")
    settings = {
        "IAM_MODE": "jwt",
        "JWT_SIGNING_KEY": signing_key_pem(),
        "HTTP_HEADER_TIMEOUT": f"{HEAD_TIMEOUT_S:g}s",
        "HTTP_MAX_HEADER_BYTES": str(MAX_HEAD_BYTES),
    }
    with a_database(database_template) as database, started(home, POSTGRES_URL=database, **settings) as program:
        program.ready()
        attacked = Target(program)
        for _ in range(200):  # what a service has at hand after its first requests is no leak
            attacked.ask(SECOND)
        with attacked.connect() as client:
            for _ in range(4):
                client.sendall(b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n")
                client.recv(1 << 20)
        try:
            yield attacked
        finally:
            attacked.health.stop()
        assert program.terminate() == 0
        assert program.errors == []
        assert "Traceback" not in program.log
        assert "panicked" not in program.log


@contextmanager
def unharmed(target: Target) -> Iterator[None]:
    """A block in which the service stays well, and after which it holds nothing of what was sent."""
    begun, kept = monotonic(), target.memory
    yield
    assert target.health.p99_since(begun) < MAX_HEALTH_S
    eventually(lambda: target.memory - kept < MAX_KEPT_BYTES)


@pytest.fixture(autouse=True)
def _unharmed(target: Target) -> Iterator[None]:
    with unharmed(target):
        yield


# Trailers


def a_trailer(path: bytes = b"/api/oauth/token") -> bytes:
    """A request up to the end of its body; what follows is the trailer."""
    return b"POST " + path + b" HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n3\r\nabc\r\n0\r\n"


def test_a_trailer_without_end_is_refused(target: Target) -> None:
    with target.connect() as client:
        client.sendall(a_trailer())
        assert send_until_refused(client, b"X-Much: " + b"x" * 60_000, 50_000_000) < 20_000_000


def test_a_trailer_of_many_fields_is_refused(target: Target) -> None:
    with target.connect() as client:
        client.sendall(a_trailer())
        assert send_until_refused(client, b"X: " + b"y" * 1000 + b"\r\n", 200 * 1024 * 1024) < 20_000_000


def test_a_field_of_a_trailer_authenticates_nobody(target: Target) -> None:
    token = a_token("attacked").encode()
    with target.connect() as client:
        head = b"POST /api/entity/JSON/prize/1 HTTP/1.1\r\n" + HOST + CHUNKED + b"Connection: close\r\n"
        field = b"Authorization: Bearer " + token + b"\r\n"
        client.sendall(head + b"Trailer: Authorization\r\n\r\n2\r\n{}\r\n0\r\n" + field + b"\r\n")
        assert statuses(rest(client)) == [401]
    proof = target.ask(head + field + b"\r\n2\r\n{}\r\n0\r\n\r\n")
    assert statuses(proof) == [404], "the token is good"


# Too much


def test_pipelined_requests_whose_answers_nobody_reads_wait_outside(target: Target) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
    many, sent = request * 1000, 0
    clients = [target.connect(receive_buffer=4096) for _ in range(2)]
    for client in clients:
        client.settimeout(1.0)
        with suppress(TimeoutError, ConnectionError):
            while sent < 17_000_000:
                sent += client.send(many)
    for client in clients:
        client.close()


def test_a_header_without_end_is_refused(target: Target) -> None:
    with target.connect() as client:
        client.sendall(b"GET /api/health HTTP/1.1\r\nX: ")
        assert send_until_refused(client, b"x" * 10_000, 50_000_000) < 20_000_000
    head = b"GET /api/health HTTP/1.1\r\n" + HOST + b"X: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n"
    assert statuses(target.ask(head)) == [431]


def test_headers_without_end_are_refused(target: Target) -> None:
    assert statuses(target.ask(b"GET / HTTP/1.1\r\n" + b"X-Much: %b\r\n" % (b"x" * 1000) * 70 + b"\r\n")) == [431]


def test_a_url_without_end_is_refused(target: Target) -> None:
    with target.connect() as client:
        client.sendall(b"GET /")
        assert send_until_refused(client, b"x" * 10_000, 50_000_000) < 20_000_000


def test_a_chunk_extension_without_end_is_refused(target: Target) -> None:
    with target.connect() as client:
        client.sendall(b"POST /api/oauth/token HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n3;")
        assert send_until_refused(client, b"x" * 10_000, 50_000_000) < 20_000_000


def test_many_chunks_of_one_byte_are_refused(target: Target) -> None:
    body = b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n"
    request = b"POST /api/oauth/token HTTP/1.1\r\n" + HOST + CHUNKED + b"Connection: close\r\n\r\n" + body
    with target.connect() as client, suppress(ConnectionError):
        client.sendall(request)
        assert statuses(rest(client)) == [400]


def test_a_body_that_is_too_large_is_refused_and_its_sender_can_read_why(target: Target) -> None:
    token = a_token("attacked").encode()
    path = b"/api/message/new/x"
    head = b"POST " + path + b" HTTP/1.1\r\n" + HOST + b"Authorization: Bearer " + token + b"\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: 12000000\r\nConnection: close\r\n\r\n"
    with target.connect() as client:
        client.sendall(head + b'{"payload":"' + b"x" * 11_999_986 + b'"}')
        assert statuses(rest(client)) == [413]


# Too slowly


def test_slow_heads_are_given_up(target: Target) -> None:
    clients = [target.connect() for _ in range(60)]
    for n, client in enumerate(clients):
        client.sendall([b"", b"G", b"GET / HTTP/1.1\r\nHost: he", b"PRI * HT"][n % 3])
    begun = monotonic()
    for client in clients:
        assert statuses(rest(client)) in ([], [408])
        client.close()
    assert monotonic() - begun < 5 * HEAD_TIMEOUT_S + 5


def test_a_head_that_trickles_is_given_up(target: Target) -> None:
    begun = monotonic()
    with target.connect() as client, suppress(ConnectionError):
        for byte in GET.replace(b"here", b"x" * 1000):
            client.sendall(bytes([byte]))
            sleep(0.1)
            assert monotonic() - begun < 5 * HEAD_TIMEOUT_S + 5


def test_slow_bodies_hold_up_nobody(target: Target) -> None:
    clients = [target.connect() for _ in range(100)]
    for client in clients:
        client.sendall(b"POST /api/oauth/token HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\nx")
    for _ in range(10):
        for client in clients:
            client.sendall(b"x")
        sleep(0.1)
    for client in clients:
        client.close()


# Two readings of one request


def posted(headers: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    return b"POST /api/oauth/token HTTP/" + version + b"\r\n" + HOST + headers + b"\r\n" + body


REFUSED: Final = {
    "no host": b"GET /api/health HTTP/1.1\r\n\r\n",
    "an empty host": b"GET /api/health HTTP/1.1\r\nHost:\r\n\r\n",
    "two hosts": b"GET /api/health HTTP/1.1\r\n" + HOST * 2 + b"\r\n",
    "two different hosts": b"GET /api/health HTTP/1.1\r\n" + HOST + b"Host: there\r\n\r\n",
    "two authorizations": b"GET /api/model/ HTTP/1.1\r\n" + HOST + b"Authorization: Bearer a\r\n" * 2 + b"\r\n",
    "two lengths": posted(b"Content-Length: 3\r\nContent-Length: 4\r\n", b"abcd" + MARKED),
    "a list of lengths": posted(b"Content-Length: 3, 4\r\n", b"abcd" + MARKED),
    "a length with a sign": posted(b"Content-Length: +3\r\n", b"abc" + MARKED),
    "a negative length": posted(b"Content-Length: -3\r\n", b"abc" + MARKED),
    "a length in hexadecimal": posted(b"Content-Length: 0x3\r\n", b"abc" + MARKED),
    "an endless length": posted(b"Content-Length: 99999999999999999999\r\n", b"abc"),
    "an unknown coding": posted(b"Transfer-Encoding: xchunked\r\n", b"3\r\nabc\r\n0\r\n\r\n" + MARKED),
    "chunked, but not last": posted(b"Transfer-Encoding: chunked, identity\r\n", b"3\r\nabc\r\n0\r\n\r\n" + MARKED),
    "chunked in HTTP/1.0": posted(CHUNKED, b"3\r\nabc\r\n0\r\n\r\n" + MARKED, b"1.0"),
    "a folded header": posted(b"X: 1\r\n 2\r\nContent-Length: 3\r\n", b"abc" + MARKED),
    "a space before a colon": posted(b"Content-Length : 3\r\n", b"abc" + MARKED),
    "a NUL in a header": posted(b"X: a\0b\r\nContent-Length: 3\r\n", b"abc" + MARKED),
    "a carriage return in a header": posted(b"X: a\rb\r\nContent-Length: 3\r\n", b"abc" + MARKED),
    "a name without a colon": posted(b"Content-Length\r\n", b"abc" + MARKED),
    "a name of other letters": posted(b"Content-L\xc3\xa4ngth: 3\r\n", b"abc" + MARKED),
    "a version nobody knows": b"GET /api/health HTTP/9.9\r\n" + HOST + b"\r\n",
    "a version in small letters": b"GET /api/health http/1.1\r\n" + HOST + b"\r\n",
    "a path with a space": b"GET /api/he alth HTTP/1.1\r\n" + HOST + b"\r\n",
    "no version": b"GET /api/health\r\n" + HOST + b"\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "nonsense": b"hello\r\n\r\n",
}


@pytest.mark.parametrize("request_text", REFUSED.values(), ids=REFUSED)
def test_what_can_be_read_in_two_ways_is_refused(target: Target, request_text: bytes) -> None:
    received = target.ask(request_text)
    assert statuses(received) == [400]
    assert b"connection: close" in received.lower()


BAD_CHUNKS: Final = {
    "a size that is none": b"3x\r\nabc\r\n0\r\n\r\n",
    "a negative size": b"-3\r\nabc\r\n0\r\n\r\n",
    "a size with a prefix": b"0x3\r\nabc\r\n0\r\n\r\n",
    "an empty size": b"\r\nabc\r\n0\r\n\r\n",
    "bare line feeds": b"3\nabc\n0\n\n",
    "more than it says": b"3\r\nabcd\r\n0\r\n\r\n",
    "more than anybody has": b"FFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("body", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
def test_chunks_that_are_none_end_the_connection(target: Target, body: bytes) -> None:
    assert statuses(target.ask(posted(CHUNKED, body + MARKED))) == [400]


BOTH: Final = {"length first": b"Content-Length: 6\r\n" + CHUNKED, "length last": CHUNKED + b"Content-Length: 6\r\n"}


@pytest.mark.parametrize("headers", BOTH.values(), ids=BOTH)
def test_a_length_beside_chunks_is_no_way_to_hide_a_request(target: Target, headers: bytes) -> None:
    """Whatever follows the chunks is not read: another reader may have taken it for the body."""
    received = target.ask(posted(headers, b"0\r\n\r\n" + MARKED))
    assert len(statuses(received)) == 1
    assert b"connection: close" in received.lower()


def test_bare_line_feeds_end_lines_or_nothing(target: Target) -> None:
    assert statuses(target.ask(SECOND.replace(b"\r\n", b"\n"))) in ([200], [400])


# Wishes for other protocols


UPGRADES: Final = {
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n",
    "nothing": b"Connection: Upgrade\r\n",
    "TLS": b"Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
}


@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES)
@pytest.mark.parametrize("segments", [1, 2])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
def test_a_wish_for_another_protocol_costs_no_body(
    target: Target, upgrade: bytes, segments: int, is_chunked: bool
) -> None:
    token = b"Authorization: Bearer " + a_token("attacked").encode() + b"\r\n"
    document = b'[1, 2, 3, "GET /api/help HTTP/1.1"]'
    framing = CHUNKED if is_chunked else b"Content-Length: %d\r\n" % len(document)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(document), document) if is_chunked else document
    head = b"POST /api/model/import/JSON/SAMPLE_DATA/upgraded/1 HTTP/1.1\r\n"
    head += HOST + token + upgrade + b"Content-Type: application/json\r\n" + framing + b"\r\n"
    parts = [head + body + SECOND] if segments == 1 else [head, body + SECOND]
    received = target.ask(*parts)
    assert len(statuses(received)) == 2
    assert statuses(received)[1] == 200
    assert b"EOF" not in received
    assert b"101" not in received.split(b"\r\n", 1)[0]


def test_a_wish_for_a_web_socket_is_ignored(target: Target) -> None:
    wish = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    wish += b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    received = target.ask(GET.replace(b"\r\n\r\n", b"\r\n" + wish + b"\r\n") + SECOND)
    assert statuses(received) == [200, 200]


def test_http2_with_prior_knowledge_is_spoken(target: Target) -> None:
    settings = struct.pack(">I", 0)[1:] + b"\x04\x00\x00\x00\x00\x00"
    with target.connect() as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
        assert client.recv(9)[3] == 4, "its settings come first"


# At random


def mutated(generator: random.Random) -> bytes:
    """A request in which something is wrong, usually."""
    request = bytearray(generator.choice(SEEDS))
    for _ in range(generator.randint(1, 6)):
        at = generator.randrange(len(request))
        match generator.randrange(5):
            case 0:
                request[at] = generator.randrange(256)
            case 1:
                del request[at : at + generator.randint(1, 8)]
            case 2:
                request[at:at] = generator.randbytes(generator.randint(1, 16))
            case 3:
                request[at:at] = request[at : at + generator.randint(1, 40)]
            case _:
                request[at:at] = generator.choice([b"\r\n", b"\n", b"\0", b":", b" ", b"0\r\n\r\n", b"%00", b"\xff"])
        if not request:
            return b"\r\n"
    return bytes(request)


SEEDS: Final = (
    GET,
    SECOND,
    MARKED,
    posted(b"Content-Length: 3\r\n", b"abc"),
    posted(CHUNKED, b"3\r\nabc\r\n0\r\n\r\n"),
    *REFUSED.values(),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    b"CONNECT here:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /v1/definitions HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\nabcd",
    b"GET http://here/api/health HTTP/1.1\r\n" + HOST + b"\r\n",
)


def test_requests_at_random_do_no_harm(target: Target) -> None:
    generator = random.Random(20_260)
    for _ in range(2500):
        with target.connect() as client, suppress(OSError):  # it may be refused at once
            client.sendall(mutated(generator))
            if generator.random() < 0.1:
                client.shutdown(socket.SHUT_WR)
            client.settimeout(0.01)
            client.recv(4096)
    assert statuses(target.ask(SECOND)) == [200]

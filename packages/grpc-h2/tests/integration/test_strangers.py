"""Whatever strangers say, in whatever order: nothing fails, nobody else notices, nothing is left of them."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import suppress

from hpack import Encoder

from grpc_h2.messages import frame_message
from grpc_h2_testing.echo import KINDS, PATIENCE, House, a_client, until
from grpc_h2_testing.wire import PREFACE, Wire, a_socket, head

SESSIONS = 300
WINDOWS = (0, 1, 100, 65_535, 2**24 - 1, 2**31 - 1)
TIMEOUTS = (b"1n", b"10m", b"0S", b"99999999H", b"soon")
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
POLLER = "PollerCompletionQueue._handle_events"
"""Of the client of grpcio, which reads a socket in the event loop that another thread may have emptied."""


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


class Stranger:
    """Somebody who has read of HTTP/2, and remembers most of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.encoder = Encoder()
        self.streams: list[int] = []

    def words(self) -> Iterator[bytes]:
        yield PREFACE + frame(SETTINGS, 0, 0, b"")
        sayings: tuple[Callable[[], bytes], ...] = (
            *(self.call,) * 7,
            *(self.message,) * 9,
            *(self.reset, self.window, self.ping, self.setting),
            *(self.goodbye, self.nonsense) * self.often(0.3),
        )
        for _ in range(self.chance.randrange(1, 60)):
            yield self.chance.choice(sayings)() if self.streams else self.call()

    def often(self, probability: float) -> bool:
        return self.chance.random() < probability

    def stream(self) -> int:
        return self.chance.choice(self.streams[-3:] or [1])

    def call(self) -> bytes:
        headers = head(self.chance.choice([*KINDS, "nothing"]))
        if self.often(0.2):
            headers.append((b"grpc-timeout", self.chance.choice(TIMEOUTS)))
        if self.often(0.2):
            headers.append((b"grpc-encoding", self.chance.choice([b"gzip", b"deflate", b"identity", b"snappy"])))
        if self.often(0.1):
            headers.append((b"content-length", self.chance.choice([b"0", b"5", b"x", b"-1"])))
        if self.often(0.1):
            self.chance.shuffle(headers)
            headers.pop()
        self.streams.append(2 * len(self.streams) + 1 + 2 * self.often(0.02))
        flags = END_HEADERS | END_STREAM * self.often(0.2)
        return frame(HEADERS, flags, self.streams[-1], self.encoder.encode(headers))

    def message(self) -> bytes:
        body = frame_message(self.chance.choice([b"5", b"3 10", b"1000 100", bytes(self.chance.randrange(3000)), b""]))
        if self.often(0.2):
            body = body[: self.chance.randrange(len(body))]
        if self.often(0.1):
            body = self.chance.choice([b"\1", b"\2", b"\xff"]) + body[1:]
        return frame(DATA, END_STREAM * self.often(0.5) | PADDED * self.often(0.02), self.stream(), body)

    def reset(self) -> bytes:
        return frame(RESET, 0, self.stream(), self.chance.randrange(14).to_bytes(4))

    def window(self) -> bytes:
        return frame(WINDOW, 0, self.chance.choice([0, self.stream()]), self.chance.choice(WINDOWS[1:4]).to_bytes(4))

    def ping(self) -> bytes:
        return frame(PING, self.often(0.5), 0, self.chance.choice([b"farewell", b"12345678"]))

    def setting(self) -> bytes:
        which = self.chance.choice([1, 2, 3, 4, 4, 4, 5, 6, 9])
        return frame(SETTINGS, 0, 0, which.to_bytes(2) + self.chance.choice(WINDOWS).to_bytes(4))

    def goodbye(self) -> bytes:
        return frame(GOAWAY, 0, 0, bytes(8))

    def nonsense(self) -> bytes:
        octets = self.chance.randbytes(self.chance.randrange(1, 40))
        return frame(octets[0], octets[-1], self.stream(), octets) if self.often(0.7) else octets


async def test_whatever_strangers_say_nobody_else_notices(house: House):
    failures: list[dict[str, object]] = []

    def note(_loop: asyncio.AbstractEventLoop, failure: dict[str, object]) -> None:
        if POLLER not in str(failure["message"]):
            failures.append(failure)

    asyncio.get_running_loop().set_exception_handler(note)
    async with a_client(house) as client:
        chat = client.meet()
        for seed in range(SESSIONS):
            stranger = Stranger(seed)
            async with a_socket(house) as wire:
                octets = b"".join(stranger.words())
                while octets and not wire.writer.is_closing():
                    piece = stranger.chance.choice([1, 9, 100, 5000])
                    wire.raw(octets[:piece])
                    octets = octets[piece:]
                    if stranger.often(0.3):
                        await asyncio.sleep(0)
                if stranger.often(0.8):  # the others leave in the middle
                    await heard(wire)
            await chat.write(b"%d" % seed)
            assert await chat.read() == b"%d" % seed
            assert not failures, f"seed {seed}"
        await until(lambda: (house.server.connections, house.server.handlers) == (1, 1))
    assert not failures


async def heard(wire: Wire) -> None:
    """Returns when the server has taken notice of everything."""
    async with asyncio.timeout(PATIENCE):
        with suppress(ConnectionError, OSError):
            wire.writer.write_eof()
            while await wire.reader.read(1 << 16):
                pass

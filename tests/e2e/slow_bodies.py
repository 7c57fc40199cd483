"""Requests whose bodies come a byte a second, as a process of its own: ``python -m tests.e2e.slow_bodies --help``.

Each connection that the service ends is opened again after a pause, so that all are there all the time. Every second
it prints a line of JSON: how many connections are open, how many were opened, and how often which status came.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from contextlib import suppress
from typing import Final, cast

PATH: Final = "/api/entity/JSON/prize/1"
BYTES_OF_BODY: Final = 1_000_000


class SlowBody(asyncio.Protocol):
    """A connection with one request, of whose body a byte comes now and then."""

    def __init__(self, attack: "Attack") -> None:
        self._attack = attack
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._attack.open.add(self)
        self._attack.counts["opened"] += 1
        self._transport.write(self._attack.head)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 "):
            self._attack.counts[data[9:12].decode()] += 1

    def connection_lost(self, _error: Exception | None) -> None:
        self._attack.open.discard(self)
        self._attack.begin_later()

    def drip(self) -> None:
        if self._transport is not None:
            self._transport.write(b" ")


class Attack:
    """Connections that are opened one after the other, and again a ``pause_s`` after they were closed."""

    def __init__(self, port: int, token: str, path: str, pause_s: float, *, is_headless: bool) -> None:
        credentials = f"Authorization: Bearer {token}\r\n" if token else ""
        head = f"POST {path} HTTP/1.1\r\nHost: here\r\n{credentials}Content-Length: {BYTES_OF_BODY}\r\n"
        self.head = head.encode() if is_headless else f"{head}\r\n[".encode()
        self.open: set[SlowBody] = set()
        self.counts: Counter[str] = Counter()
        self._port = port
        self._pause_s = pause_s
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        task = asyncio.create_task(self._connect())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def begin_later(self) -> None:
        asyncio.get_running_loop().call_later(self._pause_s, self.begin)

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: SlowBody(self), "127.0.0.1", self._port)
        except OSError:
            self.counts["refused"] += 1
            self.begin_later()

    async def run(self, connections: int, rate: float) -> None:
        later = asyncio.get_running_loop().call_later
        for number in range(connections):
            later(number / rate, self.begin)
        while True:
            await asyncio.sleep(1.0)
            for each in tuple(self.open):
                each.drip()
            sys.stdout.write(json.dumps({"open": len(self.open), **self.counts}) + "\n")
            sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--token", default="")
    parser.add_argument("--path", default=PATH)
    parser.add_argument("--pause", type=float, default=10.0, help="seconds before a connection is opened again")
    parser.add_argument("--rate", type=float, default=400.0, help="connections that are opened in a second at first")
    parser.add_argument("--headless", action="store_true", help="the heads of the requests never end")
    options = parser.parse_args()
    attack = Attack(options.port, options.token, options.path, options.pause, is_headless=options.headless)
    with suppress(KeyboardInterrupt):
        asyncio.run(attack.run(options.connections, options.rate))


if __name__ == "__main__":
    sys.exit(main())

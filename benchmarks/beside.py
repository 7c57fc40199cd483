"""What features cost the requests beside them: ``python -m benchmarks.beside``.

One installation. In every round, in random order, requests are loaded while nothing else is going on, while events are
recorded, while one webhook subscription is sent all of them, and while a bulk job works at its default rate. Its
receiver is this process, which answers as soon as it has read a request. Each is compared with nothing, of the same
round; nothing is measured twice, so that the table shows its own noise. *rows/s* are those of a collection of ten
thousand entities, which are copied into the table.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, get_args

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.bulk import created
from benchmarks.jobs import Job, Operation
from benchmarks.processes import HOST, Disturbance, Stage, _ask
from benchmarks.report import show_machine
from benchmarks.versions import Turn, take_turn
from benchmarks.workload import documents

Beside = Literal["nothing", "nothing again", "recording", "one subscriber", "bulk job"]

OPERATIONS: Final[tuple[Operation, ...]] = ("create", "transition", "dispatch")
PRELOADED: Final = 5_000
COPIED: Final = 10_000
SETTINGS: Final = {"STATEWRIGHT_WEBHOOK_ALLOW_HTTP": "true", "STATEWRIGHT_WEBHOOK_ALLOW_PRIVATE_NETWORKS": "true"}
READY_WITHIN: Final = 100
"""Looks, a tenth of a second apart, until all nodes record."""


class Receiver(asyncio.Protocol):
    """Takes webhooks."""

    received = 0
    ANSWER: Final = b"HTTP/1.1 204 No Content\r\n\r\n"
    LENGTH: Final = re.compile(rb"content-length: (\d+)\r\n", re.IGNORECASE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._rest = transport, b""

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            length = self.LENGTH.search(self._rest, 0, end + 2)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self._rest) < whole:
                return
            self._rest = self._rest[whole:]
            Receiver.received += 1
            self._transport.write(self.ANSWER)  # type: ignore[attr-defined]


class Service:
    """The installation, and what goes on in it."""

    def __init__(self, stage: Stage, receiver_port: int) -> None:
        self.stage = stage
        self._port = stage.service_port
        self._receiver = f"http://{HOST}:{receiver_port}/"
        self._subscription = self._bulk_job = ""

    def begin(self, beside: Beside) -> None:
        """Returns when it is going on."""
        if beside == "one subscriber":
            order = {"name": "all", "target": {"url": self._receiver}, "filters": [{}]}
            self._subscription = self._call("POST", "/subscriptions", order)["id"]
        if beside in {"recording", "one subscriber"}:
            self._call("PUT", "/events/recording", {"enabled": True})
            self._wait_until_recorded()
        if beside == "bulk job":
            order = {"operation": "LOOPBACK", "ids": self._list_ids(), "reason": "benchmark"}
            self._bulk_job = self._call("POST", "/bulk-jobs", order)["id"]

    def end(self, beside: Beside) -> None:
        """Nothing goes on any more."""
        if beside == "one subscriber":
            self._call("DELETE", f"/subscriptions/{self._subscription}", None)
        if beside in {"recording", "one subscriber"}:
            self._call("PUT", "/events/recording", {"enabled": False})
        if beside == "bulk job":
            self._call("POST", f"/bulk-jobs/{self._bulk_job}/cancel", {})

    async def copy(self) -> float:
        """Entities a second of one large collection."""
        samples = documents()
        body = b"[" + b",".join(samples[n % len(samples)] for n in range(COPIED)) + b"]"
        return await created(self._port, body, COPIED, 1000)

    def _wait_until_recorded(self) -> None:
        for _ in range(READY_WITHIN):
            if self._call("GET", "/events/recording", None)["effective"]:
                return
            time.sleep(0.1)
        raise RuntimeError("events are not recorded")

    def _list_ids(self) -> list[str]:
        samples = documents()
        body = b"[" + b",".join(samples[n % len(samples)] for n in range(COPIED // 5)) + b"]"
        status, answer = _ask(self._port, "POST", "/api/entity/JSON/nobel-prize/1?transactionWindow=1000", body)
        assert status == 200, answer[:300]
        return [id_ for chunk in json.loads(answer) for id_ in chunk["entityIds"]]

    def _call(self, method: str, path: str, body: object) -> Any:
        content = None if body is None else json.dumps(body).encode()
        status, answer = _ask(self._port, method, f"/ops/v1{path}", content)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer[:500]!r}")
        return json.loads(answer) if answer else {}


async def compare(options: argparse.Namespace, console: Console) -> None:
    """Measure and print the table."""
    disturbance, order = Disturbance(), list(get_args(Beside))
    turns: dict[tuple[str, Beside], list[Turn]] = defaultdict(list)
    copied: dict[Beside, list[float]] = defaultdict(list)
    receiver = await asyncio.get_running_loop().create_server(Receiver, HOST, 0)
    port = receiver.sockets[0].getsockname()[1]
    logs = Path(tempfile.mkdtemp(prefix="statewright-beside-"))
    async with Stage.set(log_directory=logs, variables=SETTINGS) as stage:
        service = Service(stage, port)
        await stage.loads["statewright"].do(Job(operation="create", clients=64, limit=PRELOADED))
        for _ in range(options.rounds):
            random.shuffle(order)
            for beside in order:
                await asyncio.to_thread(service.begin, beside)
                copied[beside].append(await service.copy())
                for operation in OPERATIONS:
                    turn = await take_turn(stage, operation, clients=options.clients, seconds=options.seconds)
                    turns[operation, beside].append(turn)
                await asyncio.to_thread(service.end, beside)
    receiver.close()
    show(console, turns, copied)
    console.print(f"{Receiver.received:,} webhooks were received.")
    show_machine(console, disturbance.share())


def show(console: Console, turns: dict[tuple[str, Beside], list[Turn]], copied: dict[Beside, list[float]]) -> None:
    """Medians, and the medians of the ratios of single rounds."""
    table = Table("operation", "beside", "ops/s", "p99 ms", "sum µs", "rate", "p99", "sum", title="ratios to nothing")
    for operation in OPERATIONS:
        alone = turns[operation, "nothing"]
        for beside in get_args(Beside):
            these = turns[operation, beside]
            table.add_row(
                operation,
                beside,
                f"{median(turn.rate for turn in these):,.0f}",
                f"{median(turn.p99 for turn in these):.1f}",
                f"{median(turn.sum_us for turn in these):.0f}",
                _compare(turn.rate / other.rate for turn, other in zip(these, alone, strict=True)),
                _compare(turn.p99 / other.p99 for turn, other in zip(these, alone, strict=True)),
                _compare(turn.sum_us / other.sum_us for turn, other in zip(these, alone, strict=True)),
            )
    for beside in get_args(Beside):
        pairs = zip(copied[beside], copied["nothing"], strict=True)
        rate = _compare(rate / other for rate, other in pairs)
        table.add_row("collection", beside, f"{median(copied[beside]):,.0f} rows", "", "", rate, "", "")
    console.print(table)


def _compare(ratios: Iterable[float]) -> str:
    found = sorted(ratios)
    return f"{median(found):.2f} ({found[0]:.2f}–{found[-1]:.2f})"


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--clients", type=int, default=64)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    uvloop.run(compare(parse_options(sys.argv[1:]), Console(width=150)))

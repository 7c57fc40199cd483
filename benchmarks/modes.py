"""What each execution mode sustains while its processor takes its time: ``python -m benchmarks.modes``.

A service with ten connections moves entities whose transition runs one processor, which answers at once or after 50 ms.
Beside it, in the same round, a handler as one writes it first holds one of its ten connections while it waits: it cannot
do more than connections / processor time. Everything runs on this machine, each part as a process.
"""

import argparse
import asyncio
import json
import logging
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from itertools import cycle
from pathlib import Path
from typing import Final

import httpx
import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.held import CONNECTIONS
from benchmarks.http_load import TAILS, Client, Load, Prize
from benchmarks.jobs import Job, Outcome
from benchmarks.pausing import PAUSES_MS, TAG
from benchmarks.processes import HOST, Disturbance, Starter, free_ports, service_settings
from benchmarks.workload import CLOSED, MODEL, OPEN, VERSION, documents
from statewright.storage.embedded import server

MODES: Final[Mapping[str, Mapping[str, str | bool]]] = {
    "SYNC": {"executionMode": "SYNC"},
    "ASYNC_SAME_TX": {"executionMode": "ASYNC_SAME_TX"},
    "ASYNC_NEW_TX": {"executionMode": "ASYNC_NEW_TX"},
    "COMMIT_BEFORE_DISPATCH": {"executionMode": "COMMIT_BEFORE_DISPATCH"},
    "COMMIT_BEFORE_DISPATCH+tx": {"executionMode": "COMMIT_BEFORE_DISPATCH", "startNewTxOnDispatch": True},
}
"""The names transitions begin with, and how their processors are declared."""

FLOOR: Final = "held connection"

ENTITIES: Final = 256
"""For each contender; more than clients, so that nobody waits for anybody's entity."""

READY_WITHIN_S: Final = 60.0


class Options(Struct, frozen=True, kw_only=True):
    """The command line."""

    seconds: float
    rounds: int
    clients: tuple[int, ...]


class Row(Struct, frozen=True):
    """What is measured: a contender at a processor time and a number of clients."""

    contender: str
    pause_ms: int
    clients: int


def workflow() -> bytes:
    """Two states, and a way there and back for every mode and every processor time."""
    moves = {OPEN: ("close", CLOSED), CLOSED: ("reopen", OPEN)}
    states = {
        state: {
            "transitions": [
                {"name": f"{mode}-{pause}-{name}", "next": to, "manual": True, "processors": [processor(mode, pause)]}
                for mode in MODES
                for pause in PAUSES_MS
            ]
        }
        for state, (name, to) in moves.items()
    }
    return json.dumps(
        {"workflows": [{"version": "1.3", "name": "prize-lifecycle", "initialState": OPEN, "states": states}]}
    ).encode()


def processor(mode: str, pause_ms: int) -> dict[str, object]:
    """A processor that makes no callback."""
    declared = MODES[mode]
    config: dict[str, object] = {"calculationNodesTags": TAG, "responseTimeoutMs": 30_000}
    if "startNewTxOnDispatch" in declared:
        config["startNewTxOnDispatch"] = True
    name = f"pause-{pause_ms}"
    return {"type": "externalized", "name": name, "executionMode": declared["executionMode"], "config": config}


class Target:
    """A server, and the entities it has for this load."""

    def __init__(self, port: int, ids: list[str]) -> None:
        self._port = port
        self._prizes = [Prize(each.encode(), tail) for each, tail in zip(ids, cycle(TAILS), strict=False)]

    async def work(self, row: Row, job: Job) -> Outcome:
        """Move entities as fast as so many clients can."""
        loop, clients = asyncio.get_running_loop(), list[Client]()
        try:
            for number in range(row.clients):
                client = Client(self._requests(row, number))
                await loop.create_connection(lambda client=client: client, HOST, self._port)  # type: ignore[misc]
                clients.append(client)
            return await Load(job, clients).run()
        finally:
            for client in clients:
                client.transport.close()

    def _requests(self, row: Row, number: int) -> Iterator[tuple[bytes, Prize | None]]:
        begin = f"/{row.contender.replace(' ', '_').replace('+', '%2B')}-{row.pause_ms}-".encode()
        moves = {True: begin + b"close", False: begin + b"reopen"}
        for prize in cycle(self._prizes[number :: row.clients]):
            yield b"PUT /api/entity/JSON/" + prize.id + moves[prize.is_open] + prize.tail, prize


async def prepared(port: int, *, models: bool) -> Target:
    """A server that is ready, with entities."""
    async with httpx.AsyncClient(
        base_url=f"http://{HOST}:{port}/api", trust_env=False, verify=False, timeout=60
    ) as http:
        if models:
            for method, path, body in (
                ("POST", f"/model/import/JSON/SAMPLE_DATA/{MODEL}/{VERSION}", documents()[0]),
                ("PUT", f"/model/{MODEL}/{VERSION}/lock", b""),
                ("POST", f"/model/{MODEL}/{VERSION}/workflow/import", workflow()),
            ):
                (await http.request(method, path, content=body)).raise_for_status()
        many = b"[" + b",".join([documents()[0]] * ENTITIES) + b"]"
        path = f"/entity/JSON/{MODEL}/{VERSION}?transactionWindow=1000"
        created = await http.post(path, content=many, headers={"Content-Type": "application/json"})
        return Target(port, created.raise_for_status().json()[0]["entityIds"])


async def until_ready(url: str, text: str = "") -> None:
    """Returns when the address answers with success, and with this text in its answer."""
    async with asyncio.timeout(READY_WITHIN_S), httpx.AsyncClient(trust_env=False, verify=False) as http:
        while True:
            with suppress(httpx.TransportError):  # nobody listens yet
                answer = await http.get(url)
                if answer.status_code < 500 and text in answer.text:
                    return
            await asyncio.sleep(0.05)


async def main(options: Options, console: Console) -> int:
    """Measure and report; the exit code is 1 when a request failed."""
    results: dict[Row, list[Outcome]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="statewright-bench-modes-")))
        database = await stack.enter_async_context(server.run_embedded_server(files / "data"))
        start, (http, grpc, admin, held) = Starter(stack, files), free_ports(4)
        settings = service_settings(database, http=http, grpc=grpc, admin=admin)
        settings["STATEWRIGHT_POSTGRES_MAX_CONNS"] = str(CONNECTIONS)
        settings["STATEWRIGHT_POSTGRES_MIN_CONNS"] = "1"
        await start("service", str(Path(sys.executable).with_name("statewright")), "serve", variables=settings)
        await until_ready(f"http://{HOST}:{admin}/readyz", "")
        await start("node", sys.executable, "-m", "benchmarks.pausing", str(grpc))
        await until_ready(f"http://{HOST}:{admin}/metrics", "statewright_compute_members 1.0")
        uvicorn = ("-m", "uvicorn", "benchmarks.held:app", "--port", str(held), "--no-access-log")
        await start("held", sys.executable, *uvicorn, variables={"HELD_DATABASE": database})
        await until_ready(f"http://{HOST}:{held}/")
        ours, floor = await prepared(http, models=True), await prepared(held, models=False)
        disturbance = Disturbance()
        for _ in range(options.rounds):
            for pause in PAUSES_MS:
                for clients in options.clients:
                    for contender in (FLOOR, *MODES):
                        row = Row(contender, pause, clients)
                        warm_up = max(options.seconds * 0.2, 4 * pause / 1000)
                        job = Job(operation="transition", clients=clients, seconds=options.seconds, warm_up=warm_up)
                        results[row].append(await (floor if contender == FLOOR else ours).work(row, job))
        others = disturbance.share()
    show(console, results, options)
    report.show_machine(console, others)
    failed = [f"{row}: {each.first_failure}" for row, each in each_of(results) if each.failed]
    for line in failed:
        console.print(f"[bold red]INVALID[/] {line}")
    return 1 if failed else 0


def each_of(results: dict[Row, list[Outcome]]) -> Iterator[tuple[Row, Outcome]]:
    return ((row, outcome) for row, outcomes in results.items() for outcome in outcomes)


def show(console: Console, results: dict[Row, list[Outcome]], options: Options) -> None:
    """Rates of all rows, and what they are against the held connection of the same round."""
    table = Table(title=f"One processor per transition, {CONNECTIONS} connections: medians of the rounds")
    for column in ("processor", "clients", "mode", "ops/s", "p50 ms", "p99 ms", "× held connection"):
        table.add_column(column, justify="left" if column == "mode" else "right")
    for pause in PAUSES_MS:
        for clients in options.clients:
            base = rate(results[Row(FLOOR, pause, clients)])
            for contender in (FLOOR, *MODES):
                outcomes = results[Row(contender, pause, clients)]
                p50, p99 = (statistics.median(getattr(each, name) or 0 for each in outcomes) for name in ("p50", "p99"))
                found = rate(outcomes)
                figures = (
                    f"{found:,.0f}",
                    f"{p50:.1f}",
                    f"{p99:.1f}",
                    "" if contender == FLOOR else f"{found / base:.2f}",
                )
                table.add_row(f"{pause} ms", str(clients), contender, *figures)
            table.add_section()
    console.print(table)
    cap = CONNECTIONS / (max(PAUSES_MS) / 1000)
    console.print(f"Held connections cap at {CONNECTIONS} / {max(PAUSES_MS)} ms = {cap:,.0f} ops/s.")
    most = max(options.clients)
    for mode in MODES:
        found = rate(results[Row(mode, max(PAUSES_MS), most)])
        verdict = "[green]above" if found > cap else "[bold red]not above"
        console.print(f"{mode}: {found:,.0f} ops/s at {most} clients, {verdict}[/] the cap")


def rate(outcomes: list[Outcome]) -> float:
    """The median."""
    return statistics.median(outcome.rate for outcome in outcomes)


def options(arguments: list[str]) -> Options:
    """The command line, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.modes", description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind (%(default)s)")
    parser.add_argument("--clients", default="1,16,64", help="numbers of clients (%(default)s)")
    parsed = parser.parse_args(arguments)
    clients = tuple(int(number) for number in parsed.clients.split(","))
    return Options(seconds=parsed.seconds, rounds=parsed.rounds, clients=clients)


if __name__ == "__main__":
    logging.getLogger("httpx").setLevel(logging.WARNING)  # which would tell of every request
    console = Console()
    sys.exit(uvloop.run(main(options(sys.argv[1:]), console if console.is_terminal else Console(width=120))))

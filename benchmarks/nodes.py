"""One node against several on this machine, on the same PostgreSQL: ``python -m benchmarks.nodes``.

Services run side by side, each with a database and a calculation node of its own: one of one process, the others of so
many workers behind one port as ``--nodes`` says. Rounds measure them right after each other, in random order, so that
drift cancels out. With several workers the calculation node is connected to one of them, so most callouts are
forwarded: *dispatch* shows what that costs; *job* what it is to wake polls of other workers. Processor time counts
supervisor and workers, without PostgreSQL and load.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import psutil
import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.jobs import Job, Operation
from benchmarks.processes import (
    HOST,
    Disturbance,
    LoadProcess,
    ProcessorTime,
    Starter,
    _ask,
    _define,
    _members,
    _status,
    _until,
    free_ports,
    service_settings,
)
from benchmarks.report import show_machine
from statewright.storage.embedded.server import run_embedded_server

OPERATIONS: tuple[Operation, ...] = ("create", "get", "transition", "dispatch", "job")
ENTITIES = 2_000


class Figure(Struct, frozen=True):
    """Requests a second, the 99th percentile in milliseconds, processor time in microseconds a request."""

    rate: float
    p99: float
    cpu_us: float


class Contender(Struct, frozen=True):
    """A running service and its load."""

    load: LoadProcess
    cpu: ProcessorTime


@asynccontextmanager
async def contender(start: Starter, server: str, nodes: int) -> AsyncIterator[Contender]:
    """A service of so many nodes."""
    name = f"nodes{nodes}"
    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    http, grpc, admin = free_ports(3)
    command = str(Path(sys.executable).with_name("statewright")), "serve", "--workers", str(nodes)
    settings = service_settings(server.replace("/postgres?", f"/{name}?"), http=http, grpc=grpc, admin=admin)
    service = await start(name, *command, variables=settings | {"STATEWRIGHT_POSTGRES_MAX_CONNS": "20"})
    await _until(lambda: _status(admin, "/readyz") == 200, service, name)
    await asyncio.to_thread(_define, http)
    member = await start(f"member-{name}", sys.executable, "-m", "benchmarks.member", str(grpc))
    await _until(lambda: _connected(admin), member, "the calculation node")
    load = await start(f"load-{name}", sys.executable, "-m", "benchmarks.http_load", HOST, str(http), talks=True)
    process = LoadProcess(load)
    await process.do(Job(operation="create", clients=32, limit=ENTITIES))
    yield Contender(process, ProcessorTime(psutil.Process(service.pid)))


def _connected(admin: int) -> bool:
    """Whether the calculation node is, to any worker."""
    lines = _ask(admin, "GET", "/metrics")[1].decode().splitlines()
    of_workers = [line for line in lines if line.startswith("statewright_compute_members{")]
    return _members(admin) == 1 or any(float(line.split()[1]) == 1 for line in of_workers)


async def measured(contender: Contender, operation: Operation, options: argparse.Namespace) -> Figure:
    """One measurement. Raises ``RuntimeError`` when a request failed."""
    before = contender.cpu()
    job = Job(operation=operation, clients=options.clients, seconds=options.seconds, warm_up=options.seconds / 5)
    outcome = await contender.load.do(job)
    if outcome.failed:
        raise RuntimeError(f"{operation}: {outcome.failed} failed, first {outcome.first_failure}")
    cpu_us = (contender.cpu() - before) * 1e6 / max(outcome.succeeded, 1)
    return Figure(outcome.rate, outcome.p99 or 0.0, cpu_us)


def describe(one: list[Figure], many: list[Figure]) -> tuple[str, ...]:
    """Medians of the rounds, and of their ratios to those of one process."""
    pairs = list(zip(one, many, strict=True))
    return (
        f"{statistics.median(figure.rate for figure in many):,.0f}",
        f"{statistics.median(b.rate / a.rate for a, b in pairs):.2f}",
        f"{statistics.median(figure.p99 for figure in many):.1f}",
        f"{statistics.median(figure.cpu_us for figure in many):.0f}",
        f"{statistics.median(b.cpu_us / a.cpu_us for a, b in pairs):.2f}",
    )


async def main(options: argparse.Namespace) -> None:
    """Measure and report."""
    figures: dict[tuple[Operation, int], list[Figure]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="statewright-nodes-")))
        server = await stack.enter_async_context(run_embedded_server(files / "data"))
        start = Starter(stack, files)
        counts = (1, *options.nodes)
        contenders = {n: await stack.enter_async_context(contender(start, server, n)) for n in counts}
        disturbance = Disturbance()
        for _ in range(options.rounds):
            for operation in random.sample(OPERATIONS, len(OPERATIONS)):
                for nodes in random.sample(counts, len(counts)):
                    figures[operation, nodes].append(await measured(contenders[nodes], operation, options))
        share = disturbance.share()
    console = Console()
    table = Table(title=f"{options.clients} clients, {psutil.cpu_count()} cores, {options.rounds} rounds")
    for column in ("operation", "nodes", "/s", "ratio", "p99 ms", "CPU µs", "ratio"):
        table.add_column(column, justify="right")
    for operation in OPERATIONS:
        for nodes in counts:
            table.add_row(operation, str(nodes), *describe(figures[operation, 1], figures[operation, nodes]))
    console.print(table)
    show_machine(console, share)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nodes", description="One node against several.")
    parser.add_argument("--nodes", type=int, nargs="+", default=(2, 4), help="workers (%(default)s)")
    parser.add_argument("--clients", type=int, default=64, help="clients (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    uvloop.run(main(parsed()))

"""Measure the service and its floors side by side, and say which targets are met: ``python -m benchmarks``.

Method: everything runs on this machine in the same minutes. A round measures each operation at each number of clients;
the contenders of one comparison run right after each other, in random order. Reported are medians of the rounds and
ratios, since absolute numbers mean little on a shared machine. A missed target is no failure of the run: the exit code
is 1 only when requests failed or rows are missing.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import cast

import asyncpg
import uvloop
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import contest, report
from benchmarks.contest import Contender, Heat, Results, Sample, heats, shuffled
from benchmarks.jobs import Job, Operation, Outcome
from benchmarks.processes import FLOOR_TENANT, NAIVE_TENANT, SERVICE_TENANT, Disturbance, LoadName, Stage
from benchmarks.workload import PROCESSES

PRELOADED: dict[LoadName, int] = {"statewright": 20_000, "asyncpg": 20_000, "naive": 5_000}
"""Entities before the clock starts, which fit into the memory of the database."""

WARM_UP_SHARE = 0.2


class Options(Struct, frozen=True, kw_only=True):
    """The command line."""

    seconds: float
    rounds: int
    clients: tuple[int, ...]
    only: tuple[Operation, ...]


class Run:
    """A run under way."""

    def __init__(self, options: Options, stage: Stage) -> None:
        self._options = options
        self._stage = stage
        self.results = Results()
        self.done: Counter[tuple[LoadName, Operation]] = Counter()
        self.failures: list[str] = []
        self.disturbance = 0.0

    async def preload(self) -> None:
        """Fill the tables, then leave them as a database at work has them."""
        for name, count in PRELOADED.items():
            await self._do(name, Job(operation="create", clients=64, limit=count))
        connection = await asyncpg.connect(self._stage.database)
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
        await connection.close()

    async def measure(self, progress: Progress) -> None:
        """All rounds."""
        disturbance = Disturbance()
        plan = heats(self._options.only, self._options.clients)
        task = progress.add_task("", total=self._options.rounds * sum(len(heat.contenders) for heat in plan))
        for _ in range(self._options.rounds):
            for heat in shuffled(plan):
                for contender in heat.contenders:
                    progress.update(task, description=f"{heat.operation}, {heat.clients} clients: {contender}")
                    self.results.add(heat, contender, await self._sample(heat, contender))
                    progress.advance(task)
        self.disturbance = disturbance.share()

    async def _sample(self, heat: Heat, contender: Contender) -> Sample:
        seconds = self._options.seconds
        job = Job(operation=heat.operation, clients=heat.clients, seconds=seconds, warm_up=seconds * WARM_UP_SHARE)
        if contender == "unkeyed":
            job = replace(job, operation="create")
        name = load_of(contender)
        server, database = self._stage.server_cpu.get(name, float), self._stage.database_cpu
        before = server(), database()
        outcome = await self._do(name, job)
        is_apart = name in self._stage.server_cpu
        each = 1e6 / max(outcome.succeeded, 1)
        return Sample(
            rate=outcome.rate,
            p50=outcome.p50,
            p99=outcome.p99,
            server_us=(server() - before[0]) * each if is_apart else outcome.cpu * each,
            database_us=(database() - before[1]) * each,
            client_us=outcome.cpu * each if is_apart else None,
        )

    async def _do(self, name: LoadName, job: Job) -> Outcome:
        outcome = await self._stage.loads[name].do(job)
        self.done[name, job.operation] += outcome.succeeded
        if outcome.failed:
            self.failures.append(f"{name} {job.operation}: {outcome.failed} failed, first {outcome.first_failure}")
        return outcome

    async def wrong_rows(self) -> list[str]:
        """What the tables say against what was answered with success."""
        tenants: dict[LoadName, str] = {"statewright": SERVICE_TENANT, "asyncpg": FLOOR_TENANT, "naive": NAIVE_TENANT}
        connection = await asyncpg.connect(self._stage.database)
        described = len(PROCESSES)  # definitions of processes are entities, too
        wrong = []
        for name, tenant in tenants.items():
            created = self.done[name, "create"] + self.done[name, "keyed"]
            moved = self.done[name, "transition"] + self.done[name, "dispatch"]
            created += described if name == "statewright" else 0
            expected = {"entity": created, "entity_history": moved, "entity_audit": created + moved}
            for table, count in expected.items():
                found = await connection.fetchval(f"SELECT count(*) FROM {table} WHERE tenant = $1", tenant)
                if found != count:
                    wrong.append(f"{name}: {table} has {found:,} rows, {count:,} were acknowledged")
        await connection.close()
        return wrong


def load_of(contender: Contender) -> LoadName:
    """The process that does a contender's work."""
    if contender == "unkeyed":
        return "statewright"
    return "asyncpg" if contender == "asyncpg again" else contender


async def main(options: Options, console: Console) -> int:
    """Measure and report; the exit code."""
    logs = Path(tempfile.mkdtemp(prefix="statewright-bench-logs-"))
    console.print(f"Starting PostgreSQL, the service, a calculation node and the floors; logs until the end: {logs}")
    async with Stage.set(log_directory=logs) as stage:
        run = Run(options, stage)
        await run.preload()
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=console, transient=True) as progress:
            await run.measure(progress)
        wrong = run.failures + await run.wrong_rows()
    report.show(console, run.results, options.only, options.clients)
    report.show_machine(console, run.disturbance)
    for line in wrong:
        console.print(f"[bold red]INVALID[/] {line}")
    if wrong:
        return 1
    console.print(f"{run.done.total():,} requests, none failed; every row they wrote was counted afterwards.")
    shutil.rmtree(logs)
    return 0


def _console() -> Console:
    """As wide as the tables need where nobody looks at a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=120)


def options(arguments: list[str]) -> Options:
    """The command line, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the service against its floors.")
    parser.add_argument("--seconds", type=float, default=0.7, help="length of one measurement (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind (%(default)s)")
    parser.add_argument("--clients", default="1,16,64", help="numbers of clients (%(default)s)")
    parser.add_argument("--only", default=",".join(contest.OPERATIONS), help="operations (%(default)s)")
    parsed = parser.parse_args(arguments)
    only = parsed.only.split(",")
    if not set(only) <= set(contest.OPERATIONS):
        parser.error(f"--only: choose from {', '.join(contest.OPERATIONS)}")
    return Options(
        seconds=parsed.seconds,
        rounds=parsed.rounds,
        clients=tuple(int(number) for number in parsed.clients.split(",")),
        only=cast("tuple[Operation, ...]", tuple(only)),
    )


if __name__ == "__main__":
    sys.exit(uvloop.run(main(options(sys.argv[1:]), _console())))

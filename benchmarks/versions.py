"""Two installations in turns on one machine: ``python -m benchmarks.versions /path/of/another/bin/statewright``.

Both services run all the time, each with a database of its own, and take turns in every round, so that the drift of the
machine meets both alike. Two processes of one program differ by up to a fifth for as long as they live, so both are
started several times. Rates are what counts; processor time is split into that of the event loop's thread, that of the server's own
threads, because only the first is what one process cannot have more of on a larger machine, and that of PostgreSQL.
"""

import argparse
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import cast, get_args

import psutil
import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.jobs import Job, Operation
from benchmarks.processes import Disturbance, Stage
from benchmarks.report import show_machine

PRELOADED = 5_000


class Turn(Struct, frozen=True):
    """What one turn of one installation gave. Processor times are microseconds of an operation."""

    rate: float
    loop_us: float
    threads_us: float
    database_us: float
    p99: float

    @property
    def sum_us(self) -> float:
        """All processor time of an operation but for that of the load."""
        return self.loop_us + self.threads_us + self.database_us


class ThreadTimes(Struct, frozen=True):
    """Seconds that the threads of a service have used."""

    loop: float
    others: float

    @classmethod
    def read(cls, pid: int) -> "ThreadTimes":
        """Of the first thread, which runs the event loop, and of all others together."""
        used = {thread.id: thread.user_time + thread.system_time for thread in psutil.Process(pid).threads()}
        return cls(used[pid], sum(used.values()) - used[pid])


async def take_turn(stage: Stage, operation: Operation, *, clients: int, seconds: float) -> Turn:
    """Load one installation with one operation."""
    before = ThreadTimes.read(stage.service_pid)
    database_before = stage.database_cpu()
    job = Job(operation=operation, clients=clients, seconds=seconds, warm_up=seconds / 5)
    outcome = await stage.loads["statewright"].do(job)
    after, database_after = ThreadTimes.read(stage.service_pid), stage.database_cpu()
    if outcome.failed:
        raise RuntimeError(f"{outcome.failed} requests failed: {outcome.first_failure}")
    each = 1e6 / max(outcome.succeeded, 1)
    return Turn(
        rate=outcome.rate,
        loop_us=(after.loop - before.loop) * each,
        threads_us=(after.others - before.others) * each,
        database_us=(database_after - database_before) * each,
        p99=outcome.p99 or 0.0,
    )


async def compare(options: argparse.Namespace, console: Console) -> None:
    """Run all rounds and print the table."""
    disturbance = Disturbance()
    turns: dict[tuple[Operation, str], list[Turn]] = {}
    commands: dict[str, tuple[str, ...]] = {"other": (options.other, "serve"), "this": ()}
    for start in range(options.starts):
        async with AsyncExitStack() as stack:
            stages = dict[str, Stage]()
            for name in sorted(commands, reverse=start % 2 == 1):
                logs = Path(tempfile.mkdtemp(prefix=f"statewright-bench-{name}-"))
                stages[name] = await stack.enter_async_context(Stage.set(log_directory=logs, command=commands[name]))
                await stages[name].loads["statewright"].do(Job(operation="create", clients=64, limit=PRELOADED))
            for number in range(options.rounds):
                for operation in options.only:
                    for name in sorted(stages, reverse=number % 2 == 1):
                        turn = await take_turn(
                            stages[name], operation, clients=options.clients, seconds=options.seconds
                        )
                        turns.setdefault((operation, name), []).append(turn)
    show(console, turns, options.only)
    for name, program in (("other", options.other), ("this", sys.executable)):
        console.print(f"{name}: ", end="")
        show_machine(console, interpreter=str(Path(program).parent / "python"))
    show_machine(console, disturbance.share())


def show(console: Console, turns: dict[tuple[Operation, str], list[Turn]], only: list[Operation]) -> None:
    """Medians, and the median of the ratios of single rounds with the lowest and the highest."""
    table = Table(
        "operation",
        "installation",
        "ops/s",
        "p99 ms",
        "loop µs",
        "other threads µs",
        "PostgreSQL µs",
        "sum µs",
        "rate / other",
        "sum / other",
    )
    for operation in only:
        pairs = list(zip(turns[operation, "this"], turns[operation, "other"], strict=True))
        ratios = sorted(this.rate / other.rate for this, other in pairs)
        costs = sorted(this.sum_us / other.sum_us for this, other in pairs)
        for name in ("other", "this"):
            figures = turns[operation, name]
            table.add_row(
                operation,
                name,
                f"{median(turn.rate for turn in figures):,.0f}",
                f"{median(turn.p99 for turn in figures):.1f}",
                f"{median(turn.loop_us for turn in figures):.0f}",
                f"{median(turn.threads_us for turn in figures):.0f}",
                f"{median(turn.database_us for turn in figures):.0f}",
                f"{median(turn.sum_us for turn in figures):.0f}",
                *(
                    f"{median(found):.2f} ({found[0]:.2f}–{found[-1]:.2f})" if name == "this" else ""
                    for found in (ratios, costs)
                ),
            )
    console.print(table)


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", help="the program of another installation")
    parser.add_argument("--starts", type=int, default=4, help="how often both are started")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each operation after each start")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument(
        "--only", type=lambda text: [cast("Operation", part) for part in text.split(",")], default=get_args(Operation)
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    uvloop.run(compare(parse_options(sys.argv[1:]), Console(width=140)))

"""Where the service spends its time under one kind of load: ``python -m benchmarks.profiling create --clients 64``.

Needs ``py-spy`` on the path (``pip install py-spy``), which looks at the process from outside and so distorts little.
Times are microseconds of one operation: the processor time the service used, shared out by samples of its event loop.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.jobs import Job, Operation
from benchmarks.processes import Stage

PRELOADED = 10_000
RATE = 250
"""Samples per second."""

ROWS = 50

EVENT_LOOP = "run (uvloop/__init__.py"


async def main(arguments: argparse.Namespace, sampler: str) -> None:
    """Load the service, sample it meanwhile, and print where it was."""
    directory = Path(tempfile.mkdtemp(prefix="statewright-profile-"))
    output = directory / "stacks"
    seconds = float(arguments.seconds)
    sampling = ("--rate", str(RATE), "--format", "raw", "--duration", str(round(seconds)))
    async with Stage.set(log_directory=directory) as stage:
        load = stage.loads["statewright"]
        await load.do(Job(operation="create", clients=64, limit=PRELOADED))
        job = Job(operation=arguments.operation, clients=arguments.clients, seconds=seconds)
        before = stage.server_cpu["statewright"]()
        plain = await load.do(job)  # what it costs without being looked at
        cpu = (stage.server_cpu["statewright"]() - before) / plain.succeeded * 1e6
        working = asyncio.create_task(load.do(job))
        process = await asyncio.create_subprocess_exec(
            sampler, "record", "--nonblocking", "--pid", str(stage.service_pid), *sampling, "--output", str(output)
        )
        await process.wait()
        outcome = await working
    console = Console(width=140)
    console.print(f"{plain.rate:,.0f}/s with {cpu:.0f} µs each; {outcome.rate:,.0f}/s while sampled; stacks: {output}")
    show(console, list(_python_stacks(output.read_text())), cpu)


def show(console: Console, stacks: list[tuple[list[str], int]], cpu: float) -> None:
    """Lines and functions by their own time, functions by their time with all they call."""
    own, lines, total = Counter[str](), Counter[str](), Counter[str]()
    for frames, count in stacks:
        lines[frames[-1]] += count
        own[_function(frames[-1])] += count
        for function in set(map(_function, frames)):
            total[function] += count
    samples = sum(count for _, count in stacks)
    for title, counts in (("line, own", lines), ("function, own", own), ("function, with all it calls", total)):
        table = Table("µs", "share", f"{title} ({samples:,} samples)", title_justify="left")
        for frame, count in counts.most_common(ROWS):
            table.add_row(f"{cpu * count / samples:.1f}", f"{count / samples:.1%}", frame)
        console.print(table)


def _python_stacks(text: str) -> Iterator[tuple[list[str], int]]:
    """The Python frames of the samples in which the event loop was at work; time in C counts for its caller."""
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if any(frame.startswith(EVENT_LOOP) for frame in frames):
            at = next(n for n, frame in enumerate(frames) if frame.startswith(EVENT_LOOP))
            yield frames[at:], int(count)


def _function(frame: str) -> str:
    """A frame without its line."""
    return f"{frame.rpartition(':')[0]})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling")
    parser.add_argument("operation", choices=get_args(Operation))
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    return parser.parse_args()


if __name__ == "__main__":
    sampler = shutil.which("py-spy")
    if sampler is None:
        sys.exit("py-spy is not on the path: pip install py-spy")
    uvloop.run(main(_arguments(), sampler))

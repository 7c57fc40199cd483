"""Have a service do traffic of all kinds for a while, and print its memory every minute: ``python -m benchmarks.soak``.

The traffic is that of ``benchmarks.mixture``. After the first ten minutes, in which caches fill, memory should be level:
the exit code is 1 when it then leaves a band of 3 % around its median, or when answers were not as they should be.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Final

import psutil
import uvloop

from benchmarks.jobs import Job
from benchmarks.mixture import Mixture
from benchmarks.processes import HOST, Disturbance, Stage

MINUTE_S: Final = 60.0
MIB: Final = 1024 * 1024
FILLING_MINUTES: Final = 10
"""In which caches fill."""
MAX_DEVIATION: Final = 0.03
"""From the median, of what is measured after that."""


async def soak(minutes: int, clients: int) -> bool:
    """Whether memory stayed level, and all answers were as they should be."""
    disturbance, levels = Disturbance(), list[float]()
    with tempfile.TemporaryDirectory() as logs:
        async with Stage.set(log_directory=Path(logs)) as stage:
            service = psutil.Process(stage.service_pid)
            await stage.loads["statewright"].do(Job(operation="create", clients=64, limit=5_000))
            mixture = Mixture(f"http://{HOST}:{stage.service_port}")
            await mixture.prepare()
            report(0, service, mixture)
            began = monotonic()
            for minute in range(1, minutes + 1):
                await mixture.run(began + minute * MINUTE_S - monotonic(), clients)
                levels.append(report(minute, service, mixture))
            await mixture.close()
            sys.stdout.write(f"{json.dumps(dict(mixture.done))}\n")
            for what, times in mixture.failed.most_common(20):
                sys.stdout.write(f"not as it should be, {times} times: {what}\n")
    sys.stdout.write(f"other programs took {disturbance.share():.0%} of the machine\n")
    return is_level(levels) and not mixture.failed


def is_level(levels: list[float]) -> bool:
    """Whether memory is level after the minutes in which caches fill. Says so."""
    late = levels[FILLING_MINUTES:]
    if not late:
        sys.stdout.write(f"too short to tell: caches fill for {FILLING_MINUTES} minutes\n")
        return True
    middle = median(late)
    below, above = min(late) / middle - 1, max(late) / middle - 1
    sys.stdout.write(f"median {middle:.1f} MiB after {FILLING_MINUTES} minutes, {below:+.1%} to {above:+.1%}\n")
    return max(-below, above) <= MAX_DEVIATION


def report(minute: int, service: psutil.Process, mixture: Mixture) -> float:
    """A line about the memory of the service, without its children; how much it is."""
    memory = service.memory_info().rss / MIB
    children = sum(child.memory_info().rss for child in service.children(recursive=True)) / MIB
    done, failed = mixture.done.total(), mixture.failed.total()
    sys.stdout.write(
        f"{minute:3} min  {memory:7.1f} MiB (and {children:.0f} in other processes)  {done:,} acts, {failed:,} failed\n"
    )
    sys.stdout.flush()
    return memory


def main() -> int:
    """Read the options and run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--clients", type=int, default=16)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return 0 if runner.run(soak(options.minutes, options.clients)) else 1


if __name__ == "__main__":
    sys.exit(main())

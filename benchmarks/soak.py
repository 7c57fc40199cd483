"""Run the service under full load for a while, and print its memory every minute: ``python -m benchmarks.soak``.

The load is that of ``python -m benchmarks``, 64 clients that create, read, transition and dispatch in turns. Memory
that grows without end shows in the last minutes: they should be level. The exit code is 1 when requests failed.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from time import monotonic

import psutil
import uvloop

from benchmarks.jobs import Job, Operation
from benchmarks.processes import Disturbance, Stage

OPERATIONS: tuple[Operation, ...] = ("create", "transition", "dispatch", "get")
SLICE_S = 5.0
MIB = 1024 * 1024


async def soak(minutes: float) -> int:
    """How many requests have failed."""
    disturbance, failed, done = Disturbance(), 0, 0
    with tempfile.TemporaryDirectory() as logs:
        async with Stage.set(log_directory=Path(logs)) as stage:
            service, load = psutil.Process(stage.service_pid), stage.loads["statewright"]
            await load.do(Job(operation="create", clients=64, limit=5_000))
            begun = last = monotonic()
            report(0, service, done, failed)
            while monotonic() - begun < minutes * 60:
                for operation in OPERATIONS:
                    outcome = await load.do(Job(operation=operation, clients=64, seconds=SLICE_S))
                    done, failed = done + outcome.succeeded, failed + outcome.failed
                if monotonic() - last >= 60:
                    last = monotonic()
                    report((last - begun) / 60, service, done, failed)
            report((monotonic() - begun) / 60, service, done, failed)
    sys.stdout.write(f"other programs took {disturbance.share():.0%} of the machine\n")
    return failed


def report(minute: float, service: psutil.Process, done: int, failed: int) -> None:
    """One line."""
    memory = service.memory_info().rss / MIB
    sys.stdout.write(f"{minute:5.1f} min  {memory:7.1f} MiB  {done:,} requests, {failed:,} failed\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return 1 if runner.run(soak(options.minutes)) else 0


if __name__ == "__main__":
    sys.exit(main())

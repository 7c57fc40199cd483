"""What a load process is told on its standard input and says on its standard output, a line of JSON each."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec
import uvloop
from msgspec import Struct

Operation = Literal[
    "create",
    "keyed",
    "get",
    "search",
    "transition",
    "dispatch",
    "same-tx",
    "new-tx",
    "commit-before",
    "job",
    "start",
    "chain",
    "flow",
    "playbook",
]
"""``keyed`` is a create with an ``Idempotency-Key``, ``search`` one by two conditions that no index serves, ``dispatch`` a
transition with one synchronous processor, and the three after it with one of another execution mode. ``job`` is a third
of the life of a process with one service task: each client starts an instance, polls a job and completes it. ``start``
is the start alone, of instances that nobody goes on with; ``chain``, ``flow`` and ``playbook`` are a seventh of the life
of a process with three tasks, in one of the three languages: one start, and for each task a poll and a completion.
"""


class Job(Struct, frozen=True, kw_only=True):
    """A closed loop: each client sends its next request as soon as it has the answer to the one before.

    It runs for ``warm_up`` and then ``seconds``, or until ``limit`` requests are done. What a job with a limit creates
    is what later jobs read and move.
    """

    operation: Operation
    clients: int
    seconds: float = 0.0
    warm_up: float = 0.0
    limit: int | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of a job.

    ``rate`` and the latencies (milliseconds) leave the warm-up out, ``succeeded`` and ``cpu`` do not.
    """

    rate: float
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    succeeded: int
    failed: int
    first_failure: str | None = None
    cpu: float
    """Seconds of processor time the load process used itself."""


def serve(work: Callable[[Job], Awaitable[Outcome]]) -> None:
    """The main loop of a load process: one job after the other until the input ends."""
    decode, encode = msgspec.json.Decoder(Job).decode, msgspec.json.Encoder().encode
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed, by child processes too, is log
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for line in sys.stdin:
            print(encode(runner.run(_one(work, decode(line)))).decode(), file=answers, flush=True)


async def _one(work: Callable[[Job], Awaitable[Outcome]], job: Job) -> Outcome:
    return await work(job)


def percentiles(latencies_ns: Sequence[int]) -> tuple[float, float, float]:
    """The 50th, 95th and 99th in milliseconds."""
    ordered = sorted(latencies_ns)
    if not ordered:
        return 0.0, 0.0, 0.0
    p50, p95, p99 = (ordered[min(int(len(ordered) * share), len(ordered) - 1)] / 1e6 for share in (0.50, 0.95, 0.99))
    return p50, p95, p99

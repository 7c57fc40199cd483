"""What is compared with what, the targets, and how rounds become numbers."""

import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from benchmarks.jobs import Operation

Contender = Literal["statewright", "callouts", "asyncpg", "asyncpg again", "naive", "echo", "unkeyed"]
"""``unkeyed`` is the service again, doing the same without idempotency keys. ``callouts`` is the service's dispatcher and member stream alone, without HTTP, workflow and database.

``asyncpg again`` is the same code once more, in the same round: how far two equal things differ is the noise.
"""

NAMES: dict[Contender, str] = {
    "statewright": "service",
    "callouts": "callouts alone",
    "asyncpg": "bare asyncpg",
    "asyncpg again": "bare asyncpg again",
    "naive": "Litestar + pool",
    "echo": "bare gRPC echo",
    "unkeyed": "without keys",
}
OPERATIONS: tuple[Operation, ...] = ("create", "keyed", "get", "transition", "dispatch")
TARGET_CLIENTS = 64


class Comparison(Struct, frozen=True):
    """An operation of the service against something simpler; ``target`` is the ratio to reach at ``TARGET_CLIENTS``."""

    operation: Operation
    floor: Contender
    target: float | None = None
    ours: Contender = "statewright"
    at_target_only: bool = False


COMPARISONS = (
    Comparison("create", "asyncpg", 1.0),
    Comparison("create", "naive", at_target_only=True),
    Comparison("keyed", "unkeyed", 0.8, at_target_only=True),
    Comparison("get", "asyncpg"),
    Comparison("get", "naive", 2.0),
    Comparison("transition", "asyncpg", 1.0),
    Comparison("transition", "naive", at_target_only=True),
    Comparison("dispatch", "echo", 0.35),
    Comparison("dispatch", "echo", ours="callouts", at_target_only=True),
)


class Heat(Struct, frozen=True):
    """An operation at a number of clients, and who takes part. Its members run one right after the other."""

    operation: Operation
    clients: int
    contenders: tuple[Contender, ...]


class Sample(Struct, frozen=True, kw_only=True):
    """One contender's round. Latencies in milliseconds, processor time in microseconds per operation.

    ``server_us`` is the server's, which for bare asyncpg is the program that uses it. ``client_us`` is what it took to
    send the requests over HTTP.
    """

    rate: float
    p50: float | None = None
    p99: float | None = None
    server_us: float | None = None
    database_us: float | None = None
    client_us: float | None = None

    @property
    def total_us(self) -> float | None:
        """Server and database together."""
        if self.server_us is None or self.database_us is None:
            return None
        return self.server_us + self.database_us


def heats(operations: Sequence[Operation], clients: Sequence[int]) -> list[Heat]:
    """Everything to be measured in a round, in a fixed order."""
    return [
        Heat(operation, number, tuple(_contenders(operation, number))) for operation in operations for number in clients
    ]


def _contenders(operation: Operation, clients: int) -> Iterator[Contender]:
    held = [c for c in COMPARISONS if c.operation == operation and (clients == TARGET_CLIENTS or not c.at_target_only)]
    compared: Iterator[Contender] = (who for comparison in held for who in (comparison.ours, comparison.floor))
    members: tuple[Contender, ...] = ("statewright", *compared)  # itself also where it has no floor
    yield from dict.fromkeys(members)
    if operation == "transition" and clients == TARGET_CLIENTS:
        yield "asyncpg again"


def shuffled(heats: Sequence[Heat]) -> list[Heat]:
    """A round's order: heats at random, and so the contenders in each."""
    mixed = [
        Heat(heat.operation, heat.clients, tuple(random.sample(heat.contenders, len(heat.contenders))))
        for heat in heats
    ]
    return random.sample(mixed, len(mixed))


class Ratio(Struct, frozen=True):
    """The median of the ratios of single rounds, and the lowest and highest of them."""

    median: float
    low: float
    high: float


class Results:
    """The samples of all rounds."""

    def __init__(self) -> None:
        self._samples: dict[tuple[Operation, int, Contender], list[Sample]] = defaultdict(list)

    def add(self, heat: Heat, contender: Contender, sample: Sample) -> None:
        self._samples[heat.operation, heat.clients, contender].append(sample)

    def has(self, operation: Operation, clients: int, contender: Contender) -> bool:
        return bool(self._samples.get((operation, clients, contender)))

    def median(self, operation: Operation, clients: int, contender: Contender) -> Sample:
        """A sample whose every number is the median of the rounds'."""
        samples = self._samples[operation, clients, contender]

        def middle(figures: Iterable[float | None]) -> float | None:
            known = [figure for figure in figures if figure is not None]
            return statistics.median(known) if known else None

        return Sample(
            rate=statistics.median(sample.rate for sample in samples),
            p50=middle(sample.p50 for sample in samples),
            p99=middle(sample.p99 for sample in samples),
            server_us=middle(sample.server_us for sample in samples),
            database_us=middle(sample.database_us for sample in samples),
            client_us=middle(sample.client_us for sample in samples),
        )

    def ratio(self, operation: Operation, clients: int, contender: Contender, floor: Contender) -> Ratio:
        """One contender's rate by another's: neighbours of the same round are divided, which takes slow drift out."""
        pairs = zip(self._samples[operation, clients, contender], self._samples[operation, clients, floor], strict=True)
        ratios = [above.rate / below.rate for above, below in pairs]
        return Ratio(statistics.median(ratios), min(ratios), max(ratios))

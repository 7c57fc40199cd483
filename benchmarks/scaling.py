"""What more cores and workers would give, simulated from measured costs: ``python -m benchmarks.scaling``.

A closed system: each client sends its next request as soon as it has the answer. A request takes its worker's event
loop, then other threads, then the database, then the loop again; each of these needs a core while it works, and a core
is given to whoever has waited longest. A worker has one loop, which does one thing after the other, and 64 clients, so
that its batches of commits are as large as where the costs were measured.

The costs are those of one process at 64 clients (``benchmarks.versions``). What is left out: memory bandwidth and caches
that cores share, locks of the database between backends, the disk, and the network. So this says where the processors
would be the limit, not what a machine does. Compare the first line, of two cores of which the load takes its part, with
what was measured there.
"""

import argparse
import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from rich.console import Console
from rich.table import Table


class Costs(Struct, frozen=True, kw_only=True):
    """Processor time of one request in microseconds."""

    loop: float
    threads: float
    database: float


MEASURED: Final = {
    "create": Costs(loop=125, threads=33, database=41),
    "get": Costs(loop=32, threads=13, database=6),
    "transition": Costs(loop=140, threads=35, database=68),
}

SECONDS: Final = 2.0


class Cores:
    """Cores that are shared by all."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self._free = count
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def work(self, us: float, then: Callable[[], None]) -> None:
        """Take a core for so long, a little more or less, as soon as there is one."""
        self._waiting.append((us * random.uniform(0.5, 1.5), then))
        self._start()

    def run(self, until_us: float) -> None:
        """Go on until that time."""
        while self._events and self.now < until_us:
            self.now, _, end = heapq.heappop(self._events)
            end()

    def _start(self) -> None:
        while self._free and self._waiting:
            us, then = self._waiting.popleft()
            self._free -= 1
            self._number += 1
            heapq.heappush(self._events, (self.now + us, self._number, lambda then=then: self._end(then)))  # type: ignore[misc]

    def _end(self, then: Callable[[], None]) -> None:
        self._free += 1
        then()
        self._start()


class Worker:
    """One process: a loop that does one thing after the other."""

    def __init__(self, cores: Cores, costs: Costs, load_us: float) -> None:
        self.answered = 0
        self._cores, self._costs, self._load_us = cores, costs, load_us
        self._turns: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def ask(self) -> None:
        """A client's request."""
        self._take_turn(lambda: self._cores.work(self._costs.threads, self._commit))

    def _take_turn(self, then: Callable[[], None]) -> None:
        self._turns.append(then)
        self._next_turn()

    def _next_turn(self) -> None:
        if self._turns and not self._is_busy:
            self._is_busy = True
            then = self._turns.popleft()
            self._cores.work(self._costs.loop / 2, lambda: self._end_turn(then))

    def _end_turn(self, then: Callable[[], None]) -> None:
        self._is_busy = False
        then()
        self._next_turn()

    def _commit(self) -> None:
        self._cores.work(self._costs.database, lambda: self._take_turn(self._answer))

    def _answer(self) -> None:
        self.answered += 1
        if self._load_us:
            self._cores.work(self._load_us, self.ask)
        else:
            self.ask()


def simulate(costs: Costs, *, cores: int, workers: int, clients: int, load_us: float) -> float:
    """Requests a second."""
    shared = Cores(cores)
    serving = [Worker(shared, costs, load_us) for _ in range(workers)]
    for number in range(clients):
        serving[number % workers].ask()
    shared.run(SECONDS * 1e6 / 4)
    before, began = sum(worker.answered for worker in serving), shared.now
    shared.run(SECONDS * 1e6)
    return (sum(worker.answered for worker in serving) - before) / (shared.now - began) * 1e6


def main(options: argparse.Namespace) -> None:
    """Simulate and print."""
    table = Table("cores", "workers", *MEASURED, title="requests a second, as far as processors are the limit")
    for cores, workers, load_us in (
        (2, 1, options.load_us),
        *[(options.cores, n, 0.0) for n in options.workers],
    ):
        rates = [
            simulate(costs, cores=cores, workers=workers, clients=64 * workers, load_us=load_us)
            for costs in MEASURED.values()
        ]
        table.add_row(str(cores), str(workers), *[f"{rate:,.0f}" for rate in rates])
    Console().print(table)


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description="More cores, simulated.")
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="+", default=(1, 2, 4, 8, 12))
    parser.add_argument("--load-us", type=float, default=60.0, help="what the load takes of a request on two cores")
    return parser.parse_args()


if __name__ == "__main__":
    main(parse_options())

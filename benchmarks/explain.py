"""Explanations beside a million entities: ``python -m benchmarks.explain``.

The installation is that of ``benchmarks.console``: fifty models, entities in every state, some with incidents. One
client asks for the explanations of entities drawn from all of them, one at a time, so that what the database keeps in
memory is what it would keep of a table of that size; then as many clients as there are processors. The budget is that
of docs/reference/operations.md#explain: p99 of a single client below 20 ms.
"""

import argparse
import asyncio
import http.client
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import asyncpg
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.console import Installation, open_installation
from benchmarks.console_data import STATES
from benchmarks.processes import HOST, Disturbance, ProcessorTime
from benchmarks.report import show_machine

BUDGET_MS: Final = 20.0
SEED: Final = 7


class Reader:
    """One client on one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=60)

    def explain(self, entity: str) -> float:
        """Milliseconds to the end of the answer, which must be an explanation of the entity."""
        began = time.perf_counter()
        self._connection.request("GET", f"/ops/v1/entities/{entity}/explain")
        answer = self._connection.getresponse()
        body = answer.read()
        elapsed = (time.perf_counter() - began) * 1000
        if answer.status != 200 or entity.encode() not in body or b'"verdict"' not in body:
            raise RuntimeError(f"{answer.status} {body[:500]!r}")
        return elapsed


async def draw_entities(connection: asyncpg.Connection, count: int) -> list[str]:
    """Ids of entities of all models, states and ages, in no order."""
    share = 100 * min(1.0, 4 * count / await connection.fetchval("SELECT count(*) FROM entity"))
    rows = await connection.fetch(f"SELECT id, state FROM entity TABLESAMPLE BERNOULLI ({share:f}) REPEATABLE ({SEED})")
    missing = {*STATES} - {row["state"] for row in rows}
    if missing:
        raise RuntimeError(f"no entity in {sorted(missing)} was drawn")
    ids = [str(row["id"]) for row in rows]
    random.Random(SEED).shuffle(ids)
    return ids[:count]


async def measure(installation: Installation, ids: Sequence[str], clients: int) -> tuple[list[float], float]:
    """Times of all explanations, and the milliseconds of processor time that service and database took for each."""
    readers = [Reader(installation.port) for _ in range(clients)]

    def work(number: int) -> list[float]:
        return [readers[number].explain(entity) for entity in ids[number::clients]]

    before = _sum(installation.cpu)
    times = await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(clients)))
    used = _sum(installation.cpu) - before
    return sorted(time for of in times for time in of), used * 1000 / len(ids)


def _sum(cpu: Sequence[ProcessorTime]) -> float:
    return sum(each() for each in cpu)


async def run(options: argparse.Namespace, logs: Path, console: Console) -> bool:
    """Whether the budget is kept."""
    async with open_installation(models=50, entities=options.entities, logs=logs) as installation:
        ids = await draw_entities(installation.connection, 2 * options.count)
        await measure(installation, ids[:200], 1)
        disturbance = Disturbance()
        table = Table("clients", "explanations", "p50 ms", "p99 ms", "longest ms", "CPU ms each", "")
        is_met = True
        for clients, part in ((1, ids[: options.count]), (psutil.cpu_count() or 1, ids[options.count :])):
            times, used = await measure(installation, part, clients)
            p50, p99 = (times[int(len(times) * share)] for share in (0.5, 0.99))
            verdict = ""
            if clients == 1:
                is_met = p99 < BUDGET_MS
                verdict = "met" if is_met else "[bold red]MISSED"
            figures = (f"{figure:.1f}" for figure in (p50, p99, times[-1], used))
            table.add_row(str(clients), f"{len(times):,}", *figures, verdict)
    console.print(table)
    show_machine(console, disturbance.share())
    return is_met


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explain", description="Measure explanations.")
    parser.add_argument("--entities", type=int, default=1_000_000, help="of all models (%(default)s)")
    parser.add_argument("--count", type=int, default=2_000, help="explanations that are asked for (%(default)s)")
    with tempfile.TemporaryDirectory(prefix="statewright-bench-logs-") as logs:
        is_met = uvloop.run(run(parser.parse_args(), Path(logs), Console(width=120)))
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()

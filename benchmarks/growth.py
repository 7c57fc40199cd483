"""What a model costs as it grows: ``python -m benchmarks.growth`` (``--sizes``).

One installation with the embedded server. Between the measurements rows are written straight into its table, until the
model has so many entities. Each operation is asked by one client over HTTP, one after the other: the median and the
95th percentile are its whole time. Entities are read and moved at random, so most are not in any cache.
"""

import argparse
import asyncio
import http.client
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import asyncpg
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.console_data import BATCH, FILL, MAIN, STATES, define_models
from benchmarks.processes import HOST, SERVICE_TENANT, Disturbance, Stage
from benchmarks.report import show_machine

SIZES: Final = (10_000, 1_000_000, 10_000_000)
TIMES: Final = 200
"""Requests of each operation."""

KEY: Final = "reference"
"""A member that only the entities have which are looked for by it; it is a unique key."""

LAST_PAGE: Final = 214_748
"""Pages of 20 are not numbered further."""


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=900)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The decoded answer, or the lines of one. Raises ``RuntimeError`` when it is none of success."""
        content = None if body is None else json.dumps(body)
        headers = {"Authorization": "Bearer bench", "Content-Type": "application/json"}
        self._connection.request(method, "/api" + path, content, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer.status} {data.decode(errors='replace')[:500]}")
        return data if "ndjson" in (answer.getheader("Content-Type") or "") else json.loads(data or b"null")

    def close(self) -> None:
        """The next request makes another connection: the service closes those that are idle."""
        self._connection.close()

    def set_key(self) -> None:
        """While there are no entities."""
        self.ask("PUT", f"/model/{MAIN}/1/unlock")
        self.ask("POST", f"/model/import/JSON/SAMPLE_DATA/{MAIN}/1", {KEY: "R-1"})
        self.ask("PUT", f"/model/{MAIN}/1/unique-keys", {"uniqueKeys": [{"id": KEY, "fields": [f"$.{KEY}"]}]})
        self.ask("PUT", f"/model/{MAIN}/1/lock")

    def build_index(self, path: str) -> None:
        """Returns when the index is there."""
        self.ask("POST", f"/model/{MAIN}/1/index", {"path": path})
        while any(index["status"] != "READY" for index in self.ask("GET", f"/model/{MAIN}/1/index")):
            time.sleep(0.1)


async def grow(connection: asyncpg.Connection, model: str, begun: int, size: int) -> float:
    """Write entities until there are so many; rows a second."""
    began = time.perf_counter()
    now = await connection.fetchval("SELECT now_us()")
    for first in range(begun + 1, size + 1, BATCH):
        last = min(first + BATCH - 1, size)
        await connection.execute(FILL, SERVICE_TENANT, model, list(STATES), first, last, now, timeout=600)
    took = time.perf_counter() - began
    await connection.execute("ANALYZE entity", timeout=600)
    await connection.execute("CHECKPOINT", timeout=600)
    return (size - begun) / took


def measure(act: Callable[[int], object], times: int = TIMES) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds."""
    for number in range(5):
        act(number)
    spans = []
    for number in range(times):
        began = time.perf_counter()
        act(number)
        spans.append((time.perf_counter() - began) * 1e3)
    return statistics.median(spans), statistics.quantiles(spans, n=20)[-1]


def ask_all(client: Client, ids: list[str], open_ids: list[str], size: int) -> dict[str, tuple[float, float]]:
    """Every operation at this size."""
    document = {**client.ask("GET", f"/entity/{ids[0]}")["data"], "number": -1}
    moved = iter(open_ids)

    def search(path: str, value: object) -> object:
        equal = {"type": "simple", "jsonPath": path, "operatorType": "EQUALS", "value": value}
        return client.ask("POST", f"/search/direct/{MAIN}/1", equal)

    keyed = [f"R-{size}-{number}" for number in range(TIMES)]
    for reference in keyed:
        client.ask("POST", f"/entity/JSON/{MAIN}/1", {**document, KEY: reference})
    if search(f"$.{KEY}", keyed[0]) == b"":
        raise RuntimeError("an entity is not found by its unique key")

    return {
        "get": measure(lambda _: client.ask("GET", f"/entity/{random.choice(ids)}")),
        "create": measure(lambda _: client.ask("POST", f"/entity/JSON/{MAIN}/1", document)),
        "transition": measure(lambda _: client.ask("PUT", f"/entity/JSON/{next(moved)}/RELEASE", document)),
        "equality, indexed": measure(lambda _: search("$.number", random.randint(1, size))),
        "equality, unique key": measure(lambda _: search(f"$.{KEY}", random.choice(keyed))),
        "first page of 20": measure(lambda _: client.ask("GET", f"/entity/{MAIN}/1?pageSize=20&pageNumber=0")),
        "count by state": measure(lambda _: client.ask("GET", f"/entity/stats/states/{MAIN}/1")),
        "count": measure(lambda _: client.ask("GET", f"/entity/stats/{MAIN}/1")),
        "page of 20 behind an id": measure(
            lambda _: client.ask("GET", f"/entity/{MAIN}/1?pageSize=20&afterId={random.choice(ids)}")
        ),
        "page at the end, by offset": measure(
            lambda _: client.ask("GET", f"/entity/{MAIN}/1?pageSize=20&pageNumber={min(size // 20 - 2, LAST_PAGE)}"), 5
        ),
    }


async def main(options: argparse.Namespace) -> None:
    """Measure and report."""
    figures: dict[int, dict[str, tuple[float, float]]] = {}
    console, disturbance = Console(width=140), Disturbance()
    async with Stage.set(log_directory=Path(tempfile.mkdtemp(prefix="statewright-growth-"))) as stage:
        client = Client(stage.service_port)
        await asyncio.to_thread(define_models, client.ask, 1)
        await asyncio.to_thread(client.set_key)
        await asyncio.to_thread(client.build_index, "$.number")
        connection = await asyncpg.connect(stage.database)
        model = await connection.fetchval("SELECT id FROM model WHERE name = $1", MAIN)
        size = 0
        client.close()
        for wanted in options.sizes:
            rate = await grow(connection, model, size, wanted)
            size = wanted
            sampled = await connection.fetch(
                "SELECT id::text, state FROM entity WHERE model = $1 AND random() < $2",
                model,
                min(1.0, 20_000 / size),
            )
            await asyncio.sleep(10)  # the merge of counts, and what autovacuum has begun
            ids = [row["id"] for row in sampled]
            movable = [row["id"] for row in sampled if row["state"] == "HELD"]
            random.shuffle(movable)
            figures[size] = await asyncio.to_thread(ask_all, client, ids, movable, size)
            client.close()
            bytes_ = await connection.fetchval("SELECT pg_database_size(current_database())")
            console.print(f"{size:,} entities: filled by {rate:,.0f} rows/s, database {bytes_ / 1e9:.1f} GB")
            console.print(figures[size])
        await connection.close()
    table = Table("ms: median (95 %)", *[f"{size:,}" for size in figures], title="one client, one after the other")
    for name in next(iter(figures.values())):
        table.add_row(name, *[f"{each[name][0]:.1f} ({each[name][1]:.1f})" for each in figures.values()])
    console.print(table)
    show_machine(console, disturbance.share())


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description="Operations as a model grows.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="entities (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    uvloop.run(main(parse_options()))

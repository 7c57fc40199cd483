"""Measure searches against the same queries written by hand: ``python -m benchmarks.search``.

The contenders share one database server and take turns in random order. *by hand* is the SQL somebody who knows the
data would write, on a connection of bare asyncpg that only fetches the rows. *search* is what the service does for it,
from the condition to the entities, without HTTP; *service* is the request over HTTP, answer read to the end. Ours and
the hand-written statement have an index each where a case says *indexed*. Reported are medians, since absolute numbers
mean little on a shared machine; *noise* is the statement by hand against itself.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import asyncpg
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.processes import SERVICE_TENANT, Starter, free_ports, service_settings
from benchmarks.search_cases import FILL, HISTORY, MODEL, OWN_INDEXES, SAMPLE, cases
from benchmarks.search_contenders import Client, connected, library, measure
from benchmarks.search_jobs import measure_jobs
from statewright.app.service import tune_garbage_collection
from statewright.storage.connections import parse_database_url
from statewright.storage.embedded import server
from statewright.storage.pool import Pool
from statewright.storage.search.indexes import REFRESH_S
from statewright.storage.search.query import configure_lookup_sessions, configure_search_sessions


async def run(entities: int, rounds: int, logs: Path) -> None:
    console = Console(width=220)
    async with AsyncExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="statewright-search-")))
        database = await stack.enter_async_context(server.run_embedded_server(files / "data"))
        http, grpc, admin = free_ports(3)
        variables = service_settings(database, http=http, grpc=grpc, admin=admin)
        await Starter(stack, logs)(
            "service", str(Path(sys.executable).with_name("statewright")), "serve", variables=variables
        )
        client = await connected(http)
        await client.ask("POST", "/model/import/JSON/SAMPLE_DATA/order/1", SAMPLE)
        await client.ask("PUT", "/model/order/1/lock")
        await prepare(database, entities, console)
        for path in ("$.sku", "$.number"):
            await declare(client, path, console)
        pool = await stack.enter_async_context(Pool(configure_search_sessions(parse_database_url(database)), size=2))
        lookups = await stack.enter_async_context(
            Pool(configure_lookup_sessions(parse_database_url(database), timeout=timedelta(minutes=1)), size=2)
        )
        alone, hand = await library(pool, lookups), await asyncpg.connect(database, server_settings={"jit": "off"})
        tune_garbage_collection()
        await asyncio.sleep(REFRESH_S)  # until then the service does not know what it may look up
        columns = "case", "by hand p50 ms", "p99", "search p50 ms", "p99", "service p50 ms", "p99"
        compared = "search / by hand", "service / by hand", "noise", "undisturbed: search", "service"
        table = Table(*columns, *compared, title="Direct search")
        for case in cases(entities):
            found = await measure(case, client, alone, hand, rounds)
            by_hand = found["by hand"]
            figures = [figure for name in ("by hand", "search", "service") for figure in found[name].figures]
            ratios = [found[name].median / by_hand.median for name in ("search", "service", "again")]
            ratios += [found[name].undisturbed / by_hand.undisturbed for name in ("search", "service")]
            table.add_row(case.name, *(f"{figure:,.2f}" for figure in (*figures, *ratios)))
        console.print(table)
        await measure_jobs(client, hand, entities, console)
        await hand.close()


async def prepare(database: str, entities: int, console: Console) -> None:
    connection = await asyncpg.connect(database, timeout=60)
    began = time.monotonic()
    for first in range(1, entities + 1, 100_000):
        await connection.execute(FILL, SERVICE_TENANT, MODEL, first, min(first + 99_999, entities), timeout=600)
    await connection.execute(HISTORY, SERVICE_TENANT, timeout=600)
    for statement in OWN_INDEXES:
        await connection.execute(statement.format(t=SERVICE_TENANT, m=MODEL), timeout=600)
    await connection.execute("VACUUM ANALYZE", timeout=600)
    await connection.execute("CHECKPOINT", timeout=600)
    await connection.close()
    console.print(f"{entities:,} entities and {entities // 5:,} past versions in {time.monotonic() - began:.0f} s")


async def declare(client: Client, path: str, console: Console) -> None:
    began = time.monotonic()
    await client.ask("POST", "/model/order/1/index", {"path": path})
    while True:
        found = json.loads(await client.ask("GET", "/model/order/1/index"))
        states = {index["path"]: index for index in found}
        if states[path]["status"] == "READY":
            break
        if states[path]["status"] == "FAILED":
            raise RuntimeError(str(states[path]))
        await asyncio.sleep(0.2)
    console.print(f"index on {path} built in {time.monotonic() - began:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description="Measure searches.")
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="statewright-bench-logs-") as logs:
        uvloop.run(run(options.entities, options.rounds, Path(logs)))


if __name__ == "__main__":
    main()

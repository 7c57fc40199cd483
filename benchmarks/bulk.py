"""Creating ten thousand entities by one request, beside the same rows by bare COPY: ``python -m benchmarks.bulk``.

The floor copies what the request has written, entities and audit rows, in as many transactions, over bare asyncpg and from
tuples that are ready: no HTTP, no JSON, no validation, no workflow. Both take turns on the same tables; target 0.3.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import asyncpg
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.processes import Starter, _ask, _define, _status, _until, free_ports, service_settings
from benchmarks.workload import MODEL, VERSION, documents
from statewright.ids import IdSource
from statewright.storage.columns import ENTITY_COLUMNS
from statewright.storage.commit.statement import AUDIT_COLUMNS
from statewright.storage.embedded import server

TARGET = 0.3


async def main(count: int, rounds: int, windows: tuple[int, ...]) -> None:
    async with AsyncExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="statewright-bulk-")))
        database = await stack.enter_async_context(server.run_embedded_server(files / "data"))
        http, grpc, admin = free_ports(3)
        start = Starter(stack, files)
        variables = service_settings(database, http=http, grpc=grpc, admin=admin)
        service = await start(
            "service", str(Path(sys.executable).with_name("statewright")), "serve", variables=variables
        )
        await _until(lambda: _status(admin, "/readyz") == 200, service, "the service")
        await asyncio.to_thread(_define, http)
        samples = documents()
        body = b"[" + b",".join(samples[n % len(samples)] for n in range(count)) + b"]"
        connection = await asyncpg.connect(database)
        stack.push_async_callback(connection.close)
        rates: dict[int, list[tuple[float, float]]] = {window: [] for window in windows}
        for number in range(rounds + 1):
            for window in windows:
                ours = await created(http, body, count, window)
                floor = await copied(connection, count, window)
                if number:  # the first round warms up
                    rates[window].append((ours, floor))
        table = Table("transactionWindow", "rows/s", "bare COPY", "ratio (lowest to highest)", "target")
        for window, pairs in rates.items():
            ratios = [ours / floor for ours, floor in pairs]
            shown = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            rate, bare = median(ours for ours, _ in pairs), median(floor for _, floor in pairs)
            table.add_row(str(window), f"{rate:,.0f}", f"{bare:,.0f}", shown, f"{TARGET}")
        Console().print(table)


async def created(port: int, body: bytes, count: int, window: int) -> float:
    path = f"/api/entity/JSON/{MODEL}/{VERSION}?transactionWindow={window}"
    began = time.perf_counter()
    status, answer = await asyncio.to_thread(_ask, port, "POST", path, body)
    elapsed = time.perf_counter() - began
    assert status == 200, answer
    assert answer.count(b'"transactionId"') == -(-count // window), answer[-300:]
    return count / elapsed


async def copied(connection: "asyncpg.Connection[asyncpg.Record]", count: int, window: int) -> float:
    """What was created last, once more under other ids."""
    entities = await connection.fetch(
        f"SELECT {ENTITY_COLUMNS.entity} FROM entity ORDER BY valid_from DESC LIMIT $1", count
    )
    audit = await connection.fetch(
        f"SELECT {', '.join(AUDIT_COLUMNS)} FROM entity_audit ORDER BY at DESC LIMIT $1", count
    )
    source = IdSource()  # ids of the same kind: where they fall in an index matters
    ids = [source() for _ in range(count)]
    rows = [("floor", id_, *tuple(row)[2:]) for id_, row in zip(ids, entities, strict=True)]
    trail = [("floor", id_, *tuple(row)[2:]) for id_, row in zip(ids, audit, strict=True)]
    began = time.perf_counter()
    for start in range(0, count, window):
        async with connection.transaction():
            part = slice(start, start + window)
            await connection.copy_records_to_table("entity", columns=ENTITY_COLUMNS.entity, records=rows[part])
            await connection.copy_records_to_table("entity_audit", columns=[*AUDIT_COLUMNS], records=trail[part])
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--windows", type=lambda text: tuple(map(int, text.split(","))), default=(100, 1000))
    options = parser.parse_args()
    uvloop.run(main(options.count, options.rounds, options.windows))

"""The part of ``benchmarks.search`` about asynchronous searches, and pages of their results."""

import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import asyncpg
from rich.console import Console
from rich.table import Table

from benchmarks.search_cases import OF_MODEL, group, simple
from benchmarks.search_contenders import Client, timed

JOBS: Final[Mapping[str, tuple[Callable[[int], Any], str, str, str]]] = {
    "by id": (lambda hits: simple("$.number", "LESS_OR_EQUAL", hits), "", "id", ""),
    "sorted by two fields": (
        lambda hits: simple("$.number", "LESS_OR_EQUAL", hits),
        "?sort=city&sort=price:desc",
        "document ->> 'city', (document ->> 'price')::numeric DESC, id",
        "",
    ),
    "judged row by row": (
        lambda hits: group("AND", simple("$.number", "LESS_OR_EQUAL", hits), simple("$.sku", "MATCHES_PATTERN", "S.*")),
        "",
        "id",
        " AND document ->> 'sku' ~ '^S.*$'",
    ),
}
"""Per job its condition, the rest of its path, and order and further condition of the statement by hand."""

JOB_ROUNDS, PAGES = 7, 30

HAND_HITS = "CREATE TEMPORARY TABLE hand_hits (n bigint, id uuid, valid_from bigint)"


async def measure_jobs(client: Client, hand: asyncpg.Connection, entities: int, console: Console) -> None:
    """From submission to the end of a job, against an INSERT … SELECT of ids by hand; then pages of its result."""
    hits = min(100_000, entities // 2)
    columns = "job ms", "longest", "by hand ms", "ratio", "page of 1000 p50 ms", "p99"
    table = Table("asynchronous search", *columns, title=f"In the background: {hits:,} hits")
    await hand.execute(HAND_HITS)
    for name, (condition, query, order, further) in JOBS.items():
        statement = f"""
            INSERT INTO hand_hits SELECT row_number() OVER (ORDER BY {order}), id, valid_from FROM entity
             WHERE {OF_MODEL} AND (document ->> 'number')::numeric <= $1{further}
        """
        jobs, inserts, job = list[float](), list[float](), ""
        for _ in range(JOB_ROUNDS):
            began = time.perf_counter()
            await hand.execute(statement, hits, timeout=600)
            inserts.append((time.perf_counter() - began) * 1000)
            await hand.execute("TRUNCATE hand_hits")
            job = json.loads(await client.ask("POST", f"/search/async/order/1{query}", condition(hits)))
            jobs.append(await finished(client, job, hits))
        dice = random.Random(1)
        pages = sorted(
            [(await timed(partial(page, client, job, dice.randrange(hits // 1000))))[0] for _ in range(PAGES)]
        )
        middle, by_hand = statistics.median(jobs), statistics.median(inserts)
        figures = middle, max(jobs), by_hand, middle / by_hand, statistics.median(pages), pages[int(PAGES * 0.99)]
        table.add_row(name, *(f"{figure:,.1f}" for figure in figures))
    console.print(table)


async def finished(client: Client, job: str, hits: int) -> float:
    """Milliseconds that the job took, once it has ended well."""
    while True:
        status = json.loads(await client.ask("GET", f"/search/async/{job}/status"))
        if status["searchJobStatus"] != "RUNNING":
            break
        await asyncio.sleep(0.02)
    if status["entitiesCount"] != hits:
        raise RuntimeError(str(status))
    return float(status["calculationTimeMillis"])


async def page(client: Client, job: str, number: int) -> int:
    return len(await client.ask("GET", f"/search/async/{job}?pageNumber={number}"))

"""Reads of the past at a million entities with ten versions each: ``python -m benchmarks.history``.

The rows are made by SQL. Three reads at random instants are asked in turns with SQL written by hand over bare asyncpg on
the same tables: a page of a list, one entity, grouped statistics over the whole model. What the service adds is the fence
(an answer, once given, never changes), the look at what retention has removed, and a result for every entity that is exact.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import asyncpg
import uvloop
from rich.console import Console
from rich.table import Table

from statewright.conditions import EVERYTHING
from statewright.entity import OffsetPage
from statewright.ids import EntityId, ModelId, TenantId
from statewright.storage import entities, migrate
from statewright.storage.connections import parse_database_url
from statewright.storage.embedded import server
from statewright.storage.pool import Pool
from statewright.storage.search.grouping import Grouping, Measure, fetch_groups
from statewright.storage.search.query import SearchDatabase, configure_past_sessions
from statewright.storage.search.statements import EntityQuery

TENANT, MODEL = TenantId("acme"), ModelId("00000000-0000-1000-8000-000000000000")
SPAN = 1_000_000_000
"""Microseconds between two versions of an entity; the history begins with this machine's epoch."""

FILL = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from, transition,
                        workflow, workflow_revision, attributed_id, attributed_kind, executor_id, executor_kind, document)
    SELECT 'acme', gen_random_uuid(), '00000000-0000-1000-8000-000000000000', 'OPEN', gen_random_uuid(), gen_random_uuid(),
           n, n + {versions}::bigint * {span}, 'loopback', '', 0, 'a', 'user', 'a', 'user',
           jsonb_build_object('n', n % 1000, 'kind', 'kind ' || n % 20, 'text', repeat('x', 60))
      FROM generate_series(1::bigint, {entities}) AS n
"""
VERSIONS = """
    INSERT INTO entity_history
    SELECT tenant, id, model, state, transaction_id, entry_transaction_id, created_at, created_at + {version}::bigint * {span},
           created_at + ({version}::bigint + 1) * {span}, transition, workflow, workflow_revision, attributed_id, attributed_kind,
           executor_id, executor_kind, document
      FROM entity
"""
INDEXES = ("entity_history_pkey", "entity_history_model", "entity_history_deleted")

VALID = """
    SELECT {columns} FROM entity WHERE tenant = $1 AND model = $2 AND valid_from <= $3
     UNION ALL
    SELECT {columns} FROM entity_history
     WHERE tenant = $1 AND model = $2 AND valid_from <= $3 AND valid_to > $3 AND document IS NOT NULL
"""
BY_HAND = {
    "page of 20": f"SELECT * FROM ({VALID.format(columns='id, state, document')}) AS v ORDER BY id LIMIT 20",
    "one entity": """
        SELECT id, state, document FROM entity WHERE tenant = $1 AND id = $2 AND valid_from <= $3
         UNION ALL
        SELECT id, state, document FROM entity_history
         WHERE tenant = $1 AND id = $2 AND valid_from <= $3 AND valid_to > $3
    """,
    "grouped statistics": f"""
        SELECT document->>'kind', count(*), avg((document->>'n')::numeric)
          FROM ({VALID.format(columns="document")}) AS v GROUP BY 1 ORDER BY 2 DESC
    """,
}


async def fill(connection: "asyncpg.Connection[asyncpg.Record]", console: Console, count: int, versions: int) -> None:
    """All rows; without indexes and log first, since that is not what is measured."""
    began = time.perf_counter()
    definitions = await connection.fetch(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'entity_history'"
    )
    await connection.execute("ALTER TABLE entity SET UNLOGGED; ALTER TABLE entity_history SET UNLOGGED")
    await connection.execute("ALTER TABLE entity_history DROP CONSTRAINT entity_history_pkey")
    for name in INDEXES[1:]:
        await connection.execute(f"DROP INDEX {name}")
    await connection.execute(FILL.format(entities=count, versions=versions, span=SPAN), timeout=None)
    for version in range(versions):
        await connection.execute(VERSIONS.format(version=version, span=SPAN), timeout=None)
    for name, definition in definitions:
        await connection.execute(definition, timeout=None)
        if name == "entity_history_pkey":
            await connection.execute("ALTER TABLE entity_history ADD PRIMARY KEY USING INDEX entity_history_pkey")
    await connection.execute("VACUUM ANALYZE entity", timeout=None)
    await connection.execute("VACUUM ANALYZE entity_history", timeout=None)
    size = await connection.fetchval("SELECT pg_size_pretty(pg_total_relation_size('entity_history'))")
    console.print(
        f"{count:,} entities, {count * versions:,} superseded versions ({size}), made in {time.perf_counter() - began:.0f} s"
    )


async def main(count: int, versions: int, rounds: int) -> None:
    console = Console()
    async with AsyncExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="statewright-history-")))
        database = await stack.enter_async_context(server.run_embedded_server(files / "data", durable=False))
        connection = await asyncpg.connect(database, server_settings={"jit": "off", "maintenance_work_mem": "512MB"})
        stack.push_async_callback(connection.close)
        await migrate.apply_pending(connection)
        await fill(connection, console, count, versions)
        ids = [
            EntityId(str(row[0]))
            for row in await connection.fetch("SELECT id FROM entity TABLESAMPLE SYSTEM (1) LIMIT 1000")
        ]
        pool = await stack.enter_async_context(Pool(parse_database_url(database), size=4))
        past = await stack.enter_async_context(
            Pool(configure_past_sessions(parse_database_url(database), timeout=timedelta(minutes=5)), size=2)
        )
        search = SearchDatabase(pool, timeout=timedelta(minutes=5), past=past)
        dice = random.Random(7)
        how = Grouping(keys=(("kind",),), measures=(Measure("avg", ("n",)),), limit=100)

        async def page(instant: int) -> None:
            portions = entities.fetch_entities(pool, TENANT, MODEL, OffsetPage(size=20), instant=instant)
            assert sum([len(portion) async for portion in portions]) == 20

        async def one(instant: int) -> None:
            assert await entities.fetch_entity_at(pool, TENANT, dice.choice(ids), instant) is not None

        async def groups(instant: int) -> None:
            query = EntityQuery(tenant=TENANT, model=MODEL, search=EVERYTHING, instant=instant)
            assert sum(group.count for group in (await fetch_groups(search, query, how)).first) == count

        ours: dict[str, tuple[Callable[[int], Awaitable[None]], int]] = {
            "page of 20": (page, 5 * rounds),
            "one entity": (one, 50 * rounds),
            "grouped statistics": (groups, rounds),
        }
        table = Table("read", "p50 ms", "p99 ms", "by hand p50 ms", "p99 ms", "ratio of p50")
        for name, (read, times) in ours.items():
            taken: tuple[list[float], list[float]] = [], []
            for _ in range(times):
                instant = dice.randrange(count, (versions + 1) * SPAN)
                key = dice.choice(ids) if name == "one entity" else MODEL
                for which in dice.sample((0, 1), 2):  # who comes first finds the pages cold
                    by_hand = connection.fetch(BY_HAND[name], TENANT, key, instant, timeout=None) if which else None
                    taken[which].append(await timed(by_hand or read(instant)))
            figures = [figure for times_ in taken for figure in (at(times_, 0.5), at(times_, 0.99))]
            table.add_row(name, *(f"{figure:,.2f}" for figure in figures), f"{figures[2] / figures[0]:.2f}")
        console.print(table)
        console.print("ratio: time by hand / ours; above 1 ours is quicker")


async def timed(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


def at(times: list[float], share: float) -> float:
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--versions", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    uvloop.run(main(options.entities, options.versions, options.rounds))

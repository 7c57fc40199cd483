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
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import asyncpg
import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.processes import HOST, SERVICE_TENANT, Starter, free_ports, service_settings
from statewright.app.garbage import tune_garbage_collection
from statewright.conditions import SearchCompiler, TemplateCache, parse_sort, read_search_condition
from statewright.ids import TenantId, model_id
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.codec import decode
from statewright.schema import flatten_fields, schema_from_stored
from statewright.schema.flatten import DeclaredField
from statewright.storage.connections import parse_database_url
from statewright.storage.embedded import server
from statewright.storage.models import fetch_model_definitions
from statewright.storage.pool import Pool
from statewright.storage.search.index_catalog import REFRESH_S, IndexCatalog
from statewright.storage.search.query import SearchDatabase, configure_lookup_sessions, configure_search_sessions
from statewright.storage.search.statements import EntityQuery

MODEL = model_id("order", 1)

SAMPLE = {
    "sku": "S1",
    "plain": "S1",
    "number": 1,
    "price": 1.5,
    "city": "Oslo",
    "placed": "2031-05-06T10:00:00Z",
    "buyer": {"name": "b1"},
    "lines": [{"sku": "L1", "quantity": 1}],
    "text": "x",
}

FILL = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT $1, gen_random_uuid(), $2, 'CREATED', gen_random_uuid(), gen_random_uuid(), n, n, 'loopback', '', 0, 'u',
           'user', 'u', 'user',
           jsonb_build_object('sku', 'S' || n / 10, 'plain', 'S' || n / 10, 'number', n, 'price', (n % 10000) / 10.0,
                              'city', (ARRAY['Oslo', 'Rome', 'Wien', 'Bonn'])[1 + n % 4],
                              'placed', to_char(timestamp '2020-01-01' + n * interval '5 min',
                                                'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                              'buyer', jsonb_build_object('name', 'b' || n % 5000),
                              'lines', jsonb_build_array(
                                           jsonb_build_object('sku', 'L' || n % 50000, 'quantity', n % 7)),
                              'text', repeat('lorem ipsum ', 10))
      FROM generate_series($3::int, $4::int) AS n
"""

HISTORY = """
    INSERT INTO entity_history (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                                valid_to, transition, workflow, workflow_revision, attributed_id, attributed_kind,
                                executor_id, executor_kind, document)
    SELECT tenant, id, model, state, transaction_id, entry_transaction_id, 0, 0, valid_from, transition, workflow, 0,
           'u', 'user', 'u', 'user', document
      FROM entity
     WHERE tenant = $1 AND valid_from % 5 = 0
"""

OWN_INDEXES = [
    "CREATE INDEX hand_sku ON entity ((document ->> 'sku')) WHERE tenant = '{t}' AND model = '{m}'",
    "CREATE INDEX hand_number ON entity (((document ->> 'number')::numeric)) WHERE tenant = '{t}' AND model = '{m}'",
]

ROWS = "SELECT id, state, created_at, valid_from, transaction_id, transition, document FROM entity"
OF_MODEL = f"tenant = '{SERVICE_TENANT}' AND model = '{MODEL}'"


class Case(Struct, frozen=True, kw_only=True):
    """The same question twice. ``draw`` gives a random argument, which both are asked with."""

    name: str
    draw: Callable[[random.Random], Any]
    condition: Callable[[Any], Any]
    by_hand: str
    arguments: Callable[[Any], Sequence[Any]]
    query: str = "limit=10000"


def simple(path: str, operator: str, value: Any = None) -> dict[str, Any]:
    return {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}


def group(operator: str, *conditions: Any) -> dict[str, Any]:
    return {"type": "group", "operator": operator, "conditions": list(conditions)}


def cases(entities: int) -> list[Case]:
    """What is measured."""
    skus, wide = entities // 10, entities - 2000

    def text(dice: random.Random) -> str:
        return f"S{dice.randrange(skus)}"

    return [
        Case(
            name="equality, indexed (10 rows)",
            draw=text,
            condition=lambda sku: simple("$.sku", "EQUALS", sku),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document ->> 'sku' = $1 ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="prefix, indexed (10-110 rows)",
            draw=lambda dice: f"S{dice.randrange(skus // 10, skus) // 10}",
            condition=lambda sku: simple("$.sku", "STARTS_WITH", sku),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document ->> 'sku' LIKE $1 || '%' ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="range, sort, limit 1000, indexed (1000 rows)",
            draw=lambda dice: dice.randrange(wide),
            condition=lambda low: simple("$.number", "BETWEEN_INCLUSIVE", [low, low + 999]),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND (document ->> 'number')::numeric BETWEEN $1 AND $2"
            " ORDER BY (document ->> 'number')::numeric LIMIT 1000",
            arguments=lambda low: [low, low + 999],
            query="limit=1000&sort=number",
        ),
        Case(
            name="nested group, indexed (5 rows)",
            draw=text,
            condition=lambda sku: group(
                "AND",
                simple("$.sku", "EQUALS", sku),
                group("OR", simple("$.city", "EQUALS", "Oslo"), simple("$.price", "GREATER_THAN", 900)),
            ),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document ->> 'sku' = $1"
            " AND (document ->> 'city' = 'Oslo' OR (document ->> 'price')::numeric > 900) ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="equality, not indexed (10 rows)",
            draw=text,
            condition=lambda sku: simple("$.plain", "EQUALS", sku),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document ->> 'plain' = $1 ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="any element, not indexed (20 rows)",
            draw=lambda dice: f"L{dice.randrange(50_000)}",
            condition=lambda sku: simple("$.lines[*].sku", "EQUALS", sku),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document @> jsonb_build_object('lines',"
            " jsonb_build_array(jsonb_build_object('sku', $1::text))) ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="pattern, judged row by row (20 rows)",
            draw=lambda dice: f"b{dice.randrange(5000)}",
            condition=lambda name: group(
                "AND", simple("$.buyer.name", "MATCHES_PATTERN", f"{name}$"), simple("$.number", "LESS_THAN", 100_000)
            ),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document #>> '{{buyer,name}}' ~ $1"
            " AND (document ->> 'number')::numeric < 100000 ORDER BY id",
            arguments=lambda name: [f"^{name}$"],
        ),
        point_in_time("a moment ago", entities - entities // 1000, text),
        point_in_time("half of all writes ago", entities // 2, text),
    ]


def point_in_time(ago: str, instant: int, draw: Callable[[random.Random], str]) -> Case:
    """Current versions have an index, past ones have none; each entity was written in the microsecond of its number,
    and one in five had been something else until then.
    """
    return Case(
        name=f"point in time, {ago} (2-10 rows)",
        draw=draw,
        condition=lambda sku: simple("$.sku", "EQUALS", sku),
        by_hand=f"{ROWS} WHERE {OF_MODEL} AND valid_from <= $2 AND document ->> 'sku' = $1"
        f" UNION ALL {ROWS.replace('entity', 'entity_history')} WHERE {OF_MODEL} AND valid_from <= $2"
        " AND valid_to > $2 AND document IS NOT NULL AND document ->> 'sku' = $1",
        arguments=lambda sku: [sku, instant],
        query=f"limit=10000&pointInTime={to_rfc3339(instant)}",
    )


class Client:
    """One connection to the service, opened anew when the service has closed it for being idle."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def connect(self) -> None:
        """Open it; asyncio's usual buffer is too small for answers of a thousand entities."""
        self._reader, self._writer = await asyncio.open_connection(HOST, self._port, limit=2**26)

    async def ask(self, method: str, path: str, body: Any = None) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} /api{path} HTTP/1.1", "Host: bench", "Authorization: Bearer x"]
        head = "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""])
        self._writer.write(head.encode() + content)
        try:
            headers = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        except (asyncio.IncompleteReadError, ConnectionError):
            await self.connect()
            return await self.ask(method, path, body)
        length = next(int(line.split(":")[1]) for line in headers.splitlines() if line.startswith("content-length"))
        answer = await self._reader.readexactly(length)
        if " 200 " not in headers.splitlines()[0]:
            raise RuntimeError(f"{method} {path}: {answer.decode(errors='replace')}")
        return answer


class Options(Struct, frozen=True):
    """What the query of a request asks for, besides the condition."""

    limit: int
    sort: tuple[str, ...]
    instant: int | None

    @classmethod
    def of(cls, query: str) -> "Options":
        given = parse_qs(query)
        return cls(
            int(given["limit"][0]),
            tuple(given.get("sort", ())),
            from_rfc3339(given["pointInTime"][0]) if "pointInTime" in given else None,
        )


class Library:
    """Searching without the service around it."""

    def __init__(self, pool: Pool, lookups: Pool, declared: Mapping[str, DeclaredField]) -> None:
        self._database = SearchDatabase(pool, timeout=timedelta(seconds=60), catalog=IndexCatalog(lookups, pool))
        self._compiler = SearchCompiler(declared, TemplateCache())

    async def find(self, condition: Any, options: "Options") -> int:
        """How many entities are found."""
        asked = read_search_condition(condition)
        asked.check_form()
        entities = await self._database.find_views(
            EntityQuery(
                tenant=TenantId(SERVICE_TENANT),
                model=MODEL,
                search=self._compiler.compile(asked, parse_sort(options.sort, max_keys=16)),
                instant=options.instant,
            ),
            limit=options.limit,
        )
        return len(entities)


async def library(pool: Pool, lookups: Pool) -> Library:
    """With what the model declares."""
    found = await fetch_model_definitions(pool, TenantId(SERVICE_TENANT), MODEL)
    assert found is not None
    return Library(pool, lookups, flatten_fields(schema_from_stored(decode(found.model.schema))))


CASE_S, FEWEST_ROUNDS = 25.0, 8
"""A case that takes longer has fewer rounds, but not fewer than these."""


class Timing(Struct, frozen=True, kw_only=True):
    """Milliseconds of one contender, per round."""

    rounds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def figures(self) -> tuple[float, float]:
        """Median and 99th percentile."""
        return self.median, sorted(self.rounds)[int(len(self.rounds) * 0.99)]

    @property
    def undisturbed(self) -> float:
        """The 10th percentile: what it takes when others leave the machine alone for a moment."""
        return sorted(self.rounds)[len(self.rounds) // 10]


CONTENDERS = ("service", "search", "search again", "by hand", "again")


async def timed(work: Callable[[], Awaitable[int]]) -> tuple[float, int]:
    began = time.perf_counter()
    rows = await work()
    return (time.perf_counter() - began) * 1000, rows


async def measure(
    case: Case, client: Client, alone: Library, hand: asyncpg.Connection, rounds: int
) -> dict[str, Timing]:
    """Rounds of all; their answers must agree in number.

    The statement by hand runs twice, to be compared with itself; so does the search, or its code and data would be found less
    often in the caches of the processor.
    """
    dice, options = random.Random(case.name), Options.of(case.query)
    timings: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    began = time.monotonic()
    for turn in range(-3, rounds):  # the first few warm up
        if turn >= FEWEST_ROUNDS and time.monotonic() - began > CASE_S:
            break
        drawn = case.draw(dice)

        async def service(drawn: Any = drawn) -> int:
            path = f"/search/direct/order/1?{case.query}"
            return (await client.ask("POST", path, case.condition(drawn))).count(b"\n")

        async def by_hand(drawn: Any = drawn) -> int:
            return len(await hand.fetch(case.by_hand, *case.arguments(drawn)))

        async def search(drawn: Any = drawn) -> int:
            return await alone.find(case.condition(drawn), options)

        contenders = list(zip(CONTENDERS, (service, search, search, by_hand, by_hand), strict=True))
        dice.shuffle(contenders)
        counts = {}
        for name, work in contenders:
            took, counts[name] = await timed(work)
            if turn >= 0:
                timings[name].append(took)
        if len({*counts.values()}) > 1:
            raise RuntimeError(f"{case.name}: {counts} rows for {drawn}")
    return {name: Timing(rounds=values) for name, values in timings.items()}


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


JOBS = {
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


async def connected(port: int) -> Client:
    """A connection once the service is ready."""
    client, deadline = Client(port), time.monotonic() + 60
    while True:
        try:
            await client.connect()
        except OSError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            return client


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description="Measure searches.")
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="statewright-bench-logs-") as logs:
        uvloop.run(run(options.entities, options.rounds, Path(logs)))


if __name__ == "__main__":
    main()

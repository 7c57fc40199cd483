"""Who answers the questions of ``benchmarks.search``: the service over HTTP, its search alone, and SQL by hand."""

import asyncio
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import asyncpg
from msgspec import Struct

from benchmarks.processes import HOST, SERVICE_TENANT
from benchmarks.search_cases import MODEL, Case
from statewright.conditions import SearchCompiler, TemplateCache, parse_sort, read_search_condition
from statewright.ids import TenantId
from statewright.instants import from_rfc3339
from statewright.jsonval.codec import decode
from statewright.schema import flatten_fields, schema_from_stored
from statewright.schema.node import DeclaredField
from statewright.storage.models import fetch_model_definitions
from statewright.storage.pool import Pool
from statewright.storage.search.indexes import IndexCatalog
from statewright.storage.search.query import SearchDatabase
from statewright.storage.search.statements import EntityQuery

CASE_S, FEWEST_ROUNDS = 25.0, 8
"""A case that takes longer has fewer rounds, but not fewer than these."""

CONTENDERS = ("service", "search", "search again", "by hand", "again")


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
        answer = await self._read_body(headers)
        if " 200 " not in headers.splitlines()[0]:
            raise RuntimeError(f"{method} {path}: {answer.decode(errors='replace')}")
        return answer

    async def _read_body(self, headers: str) -> bytes:
        """The body: of a known length, or in chunks where the service streams it."""
        for line in headers.splitlines():
            if line.startswith("content-length"):
                return await self._reader.readexactly(int(line.split(":")[1]))
        pieces = list[bytes]()
        while size := int(await self._reader.readline(), 16):
            pieces.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return b"".join(pieces)


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

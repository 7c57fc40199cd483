"""A search by a declared index keeps its plan, and finds the same as without (storage/search/indexes.py)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import pairwise

import asyncpg
import pytest
from msgspec import Struct

from statewright.conditions import (
    CompiledSearch,
    SearchCompiler,
    TemplateCache,
    compile_search,
    parse,
    read_search_condition,
)
from statewright.conditions.paths import Path
from statewright.conditions.sql_terms import HEAD_CHARS
from statewright.failures import SearchResultLimit
from statewright.ids import ModelId, TenantId, model_id
from statewright.jsonval.values import DataType, JsonValue
from statewright.operations.listings import DeclaredIndex, IndexKind
from statewright.schema.node import DeclaredField
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from statewright.storage.search.indexes import MAX_ROWS, IndexCatalog, IndexSpec, SearchIndexes
from statewright.storage.search.query import SearchDatabase, configure_lookup_sessions, configure_search_sessions
from statewright.storage.search.statements import BACK_OFF_SEARCHES, EntityQuery
from tests.builders import Json
from tests.database import connected
from tests.integration.search.finding import all_of, any_of, simple
from tests.integration.search.random_cases import NUMBERS, WORDS

ACME, OTHER = TenantId("it's acme"), TenantId("other")
MODEL: ModelId = model_id("parcel", 1)
MANY = MAX_ROWS + 1
LIMIT = 10_000
PATIENCE = timedelta(minutes=1)

DECLARED = {
    "$.it's": DeclaredField(types=frozenset((DataType.STRING,))),
    "$.o.n": DeclaredField(types=frozenset((DataType.UNBOUND_DECIMAL,))),
    "$.city": DeclaredField(types=frozenset((DataType.STRING,))),
}

FILL = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT $1, gen_random_uuid(), $2, 'NEW', gen_random_uuid(), gen_random_uuid(), 1, n, '', '', 0, '', 'user', '',
           'user',
           jsonb_build_object('it''s', ($3::text[])[1 + n % cardinality($3::text[])],
                              'o', jsonb_build_object('n', ($4::numeric[])[1 + n % cardinality($4::numeric[])]),
                              'city', 'Oslo')
      FROM generate_series(1, $5::int) AS n
"""


class Crowd(Struct, frozen=True, kw_only=True):
    """:data:`MANY` parcels of each of two tenants, and the searches of a process that looks for what is declared."""

    search: SearchDatabase
    unplanned: SearchDatabase
    lookups: IndexCatalog
    indexes: SearchIndexes
    tables: asyncpg.Connection

    async def declare(self, name: str, kind: IndexKind) -> DeclaredIndex:
        path = Path(tuple(name.split(".")))
        wanted = IndexSpec(tenant=ACME, model=MODEL, path=path, path_text=f"$.{name}", kind=kind)
        await self.indexes.declare(wanted)
        await self.indexes.build(wanted)
        await self.tables.execute("UPDATE search_index SET status = 'READY' WHERE id = $1", wanted.id)
        found = await self.indexes.find(ACME, MODEL, wanted.id)
        assert found is not None
        return found

    async def drop(self, index: DeclaredIndex) -> None:
        await self.indexes.request_drop(ACME, MODEL, index.id)
        await self.indexes.drop(index)

    async def found(self, condition: Json, *, tenant: TenantId = ACME) -> list[str]:
        """What is found, which must be what is found without all this."""
        query = EntityQuery(tenant=tenant, model=MODEL, search=compiled(condition))
        ids = [entity.id for entity in await self.search.find_views(query, limit=LIMIT)]
        assert ids == [entity.id for entity in await self.unplanned.find_views(query, limit=LIMIT)]
        return ids

    async def by_template(self, condition: Json, *, tenant: TenantId = ACME, limit: int = LIMIT) -> list[str]:
        """The same as a template with operands, which is how searches arrive here."""
        query = EntityQuery(tenant=tenant, model=MODEL, search=filled(condition))
        ids = [entity.id for entity in await self.search.find_views(query, limit=limit)]
        plain = EntityQuery(tenant=tenant, model=MODEL, search=compiled(condition))
        assert ids == [entity.id for entity in await self.unplanned.find_views(plain, limit=limit)]
        return ids

    async def kept_plans(self) -> int:
        """How many executions went by a kept plan."""
        async with self.lookups.pool.connection() as connection:
            found: int = await connection.fetchval(KEPT)
        return found


OURS = "statement LIKE 'SELECT id,%search_constant%'"
KEPT = f"SELECT coalesce(sum(generic_plans), 0)::int FROM pg_prepared_statements WHERE {OURS}"


COMPILER = SearchCompiler(DECLARED, TemplateCache())


def compiled(condition: Json) -> CompiledSearch:
    return compile_search(parse(condition), DECLARED)


def filled(condition: Json) -> CompiledSearch:
    search = COMPILER.compile(read_search_condition(condition))
    assert search.shape is not None
    return search


@pytest.fixture
async def crowd(database: str) -> AsyncIterator[Crowd]:
    async with AsyncExitStack() as stack:
        tables = await stack.enter_async_context(connected(database))
        for tenant in (ACME, OTHER):
            await tables.execute(FILL, tenant, MODEL, [*WORDS], [*NUMBERS], MANY)
        pool = await stack.enter_async_context(Pool(configure_search_sessions(parse_database_url(database)), size=2))
        keeping = await stack.enter_async_context(
            Pool(configure_lookup_sessions(parse_database_url(database), timeout=PATIENCE), size=1)
        )
        lookups = IndexCatalog(keeping, pool, refresh_s=0)
        yield Crowd(
            search=SearchDatabase(pool, timeout=PATIENCE, catalog=lookups),
            unplanned=SearchDatabase(pool, timeout=PATIENCE),
            lookups=lookups,
            indexes=SearchIndexes(pool, parse_database_url(database)),
            tables=tables,
        )


async def test_an_equality_on_an_indexed_field_keeps_its_plan_and_finds_the_same(crowd: Crowd) -> None:
    await crowd.declare("it's", "TEXT")
    await crowd.declare("o.n", "NUMBER")
    hits = 0
    for path, values in (("$.it's", WORDS), ("$.o.n", NUMBERS)):
        for value in values:
            operand: JsonValue = value
            hits += len(await crowd.found(simple(path, "EQUALS", operand)))
    assert hits > MANY
    assert await crowd.kept_plans() > len(WORDS) * 0.8 + len(NUMBERS) * 0.8


async def test_what_else_is_asked_is_part_of_the_plan_or_judged(crowd: Crowd) -> None:
    await crowd.declare("it's", "TEXT")
    word = simple("$.it's", "EQUALS", "abc")
    assert await crowd.found(all_of(word, simple("$.o.n", "GREATER_THAN", 3)))
    assert await crowd.found(all_of(word, simple("$.city", "MATCHES_PATTERN", "O.*")))
    assert await crowd.kept_plans() == 2
    for elsewhere in (any_of(word, simple("$.o.n", "EQUALS", 3)), simple("$.it's", "STARTS_WITH", "ab")):
        assert await crowd.found(elsewhere)
    assert await crowd.kept_plans() == 2, "an index for one value does not answer these alone"


async def test_a_kept_plan_uses_the_index(crowd: Crowd) -> None:
    index = await crowd.declare("it's", "TEXT")
    await crowd.found(simple("$.it's", "EQUALS", "abc"))
    async with crowd.lookups.pool.connection() as connection:
        [row] = await connection.fetch(f"SELECT name FROM pg_prepared_statements WHERE {OURS}")
        lines = await connection.fetch(f"EXPLAIN EXECUTE {row['name']} ('abc', 10, 1000)")
    plan = "\n".join(line[0] for line in lines)
    assert index.id in plan
    assert "$1" in plan, "it is the plan for any value"


async def test_by_template_an_equality_keeps_its_plan_too(crowd: Crowd) -> None:
    await crowd.declare("it's", "TEXT")
    word = simple("$.it's", "EQUALS", "abc")
    assert await crowd.by_template(word)
    assert await crowd.by_template(all_of(word, simple("$.o.n", "GREATER_THAN", 3)))
    assert await crowd.kept_plans() == 2
    assert await crowd.by_template(word, tenant=OTHER), "others have no such index"
    assert await crowd.kept_plans() == 2


async def test_ranges_and_prefixes_that_an_index_answers_alone_keep_their_plans(crowd: Crowd) -> None:
    await crowd.declare("it's", "TEXT")
    await crowd.declare("o.n", "NUMBER")
    hits, asked = 0, 0
    ordinary = [word for word in WORDS if 0 < len(word) < HEAD_CHARS and "\ue000" not in word]
    for low, high in pairwise(ordinary):
        for leaf in (("STARTS_WITH", low[:2]), ("BETWEEN_INCLUSIVE", [low, high]), ("LESS_THAN", high)):
            hits += len(await crowd.by_template(simple("$.it's", *leaf), limit=MAX_ROWS + 1))
            asked += 1
    for number in (-1, 0, 3, 17, 1000):
        hits += len(await crowd.by_template(simple("$.o.n", "BETWEEN", [number, number + 20])))
        above, below = simple("$.o.n", "GREATER_OR_EQUAL", number), simple("$.o.n", "LESS_THAN", number + 5)
        hits += len(await crowd.by_template(all_of(above, below)))
        asked += 2
    assert hits > MANY
    assert await crowd.kept_plans() >= asked - 5


async def test_what_an_index_does_not_answer_alone_is_planned_each_time(crowd: Crowd) -> None:
    await crowd.declare("it's", "TEXT")
    prefix = simple("$.it's", "STARTS_WITH", "a")
    for condition in (
        all_of(prefix, simple("$.city", "EQUALS", "Oslo")),
        any_of(prefix, simple("$.it's", "STARTS_WITH", "b")),
        simple("$.it's", "CONTAINS", "b"),
        simple("$.it's", "NOT_STARTS_WITH", "a"),
        simple("$.it's", "NOT_EQUAL", "a"),
        simple("$.city", "STARTS_WITH", "O"),
    ):
        assert await crowd.by_template(condition)
    assert await crowd.kept_plans() == 0


async def test_a_range_with_many_matches_is_planned_anew_and_so_are_the_next_ones(crowd: Crowd) -> None:
    await crowd.declare("it's", "TEXT")
    everything, few = simple("$.it's", "LESS_THAN", "\U0010fffe"), simple("$.it's", "LESS_THAN", "a")
    await crowd.tables.execute(FILL, ACME, MODEL, ["abc"], [3], 10)
    assert len(await crowd.by_template(everything)) > MAX_ROWS
    kept = await crowd.kept_plans()
    assert kept == 1
    for _ in range(BACK_OFF_SEARCHES):
        await crowd.by_template(few)
    assert await crowd.kept_plans() == kept
    await crowd.by_template(few)
    assert await crowd.kept_plans() == kept + 1


async def test_a_range_with_more_matches_than_its_limit_says_so(crowd: Crowd) -> None:
    await crowd.declare("it's", "TEXT")
    for limit in (5, MAX_ROWS, MAX_ROWS + 1):
        await crowd.tables.execute(FILL, ACME, MODEL, ["abc"], [3], 10)
        with pytest.raises(SearchResultLimit):
            await crowd.by_template(simple("$.it's", "LESS_THAN", "\U0010fffe"), limit=limit)


async def test_the_kept_plan_of_a_range_walks_the_index_and_stops(crowd: Crowd) -> None:
    index = await crowd.declare("it's", "TEXT")
    await crowd.by_template(simple("$.it's", "STARTS_WITH", "ab"))
    async with crowd.lookups.pool.connection() as connection:
        [row] = await connection.fetch(f"SELECT name FROM pg_prepared_statements WHERE {OURS}")
        lines = await connection.fetch(f"EXPLAIN EXECUTE {row['name']} ('a', 'b', 10, 1000)")
    plan = "\n".join(line[0] for line in lines)
    assert f"Index Scan using {index.id}" in plan
    assert "Limit" in plan
    assert "Sort" not in plan
    assert "$1" in plan, "it is the plan for any prefix"


async def test_a_field_with_a_frequent_value_is_planned_for_each_value(crowd: Crowd) -> None:
    await crowd.declare("city", "TEXT")
    assert len(await crowd.found(simple("$.city", "EQUALS", "Oslo"))) == MANY
    assert await crowd.kept_plans() == 0


async def test_no_text_of_a_user_stands_in_the_statement(crowd: Crowd) -> None:
    await crowd.declare("it's", "TEXT")
    query = EntityQuery(tenant=ACME, model=MODEL, search=compiled(simple("$.it's", "EQUALS", "abc")))
    explained = await crowd.search.explain(query, limit=10)
    assert "search_constant_" in explained.statement.text
    assert explained.statement.args[:2] == ("abc", 11)
    assert not any(text in explained.statement.text for text in ("it's", "acme", "abc", MODEL))


async def test_another_tenant_finds_its_own_without_the_index(crowd: Crowd) -> None:
    await crowd.declare("it's", "TEXT")
    assert await crowd.found(simple("$.it's", "EQUALS", "abc"), tenant=OTHER)
    assert await crowd.kept_plans() == 0


async def test_a_dropped_index_is_missed_by_nobody_and_leaves_no_constants(crowd: Crowd) -> None:
    words = await crowd.declare("it's", "TEXT")
    numbers = await crowd.declare("o.n", "NUMBER")
    hurried = IndexCatalog(crowd.lookups.pool, crowd.unplanned.pool, refresh_s=3600)
    search = SearchDatabase(crowd.unplanned.pool, timeout=PATIENCE, catalog=hurried)
    query = EntityQuery(tenant=ACME, model=MODEL, search=compiled(simple("$.it's", "EQUALS", "abc")))
    before = [*await search.find_views(query, limit=LIMIT)]
    other = IndexCatalog(crowd.lookups.pool, crowd.unplanned.pool, refresh_s=3600)
    again = SearchDatabase(crowd.unplanned.pool, timeout=PATIENCE, catalog=other)
    await again.find_views(query, limit=LIMIT)
    await crowd.drop(words)
    assert [*await search.find_views(query, limit=LIMIT)] == before, "the function that the statement calls is gone"
    by_template = EntityQuery(tenant=ACME, model=MODEL, search=filled(simple("$.it's", "EQUALS", "abc")))
    assert [*await again.find_views(by_template, limit=LIMIT)] == before
    assert await crowd.found(simple("$.o.n", "EQUALS", 3)), "what others need is still there"
    await crowd.drop(numbers)
    assert await crowd.tables.fetchval("SELECT count(*) FROM pg_proc WHERE proname LIKE 'search\\_constant%'") == 0

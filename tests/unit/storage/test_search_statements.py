"""Statements of searches, and which of them are remembered (storage/search/statements.py)."""

import pytest
from msgspec.structs import replace

from statewright.conditions import SearchCompiler, TemplateCache, parse_sort, read_search_condition
from statewright.conditions.paths import Path
from statewright.ids import EntityId, TenantId, model_id
from statewright.jsonval.values import JsonValue
from statewright.storage.search import statements
from statewright.storage.search.indexes import MAX_ROWS, Constants, Lookup
from statewright.storage.search.statements import (
    BACK_OFF_SEARCHES,
    INLINE_BYTES,
    EntityQuery,
    Projection,
    StatementCache,
)
from tests.unit.conditions.builders import fields, group, lifecycle, simple

IDS = Projection("id", has_documents=False)
VERSIONS = Projection("id, document")

COMPILER = SearchCompiler(fields(s="STRING", n="INTEGER"), TemplateCache())
MODEL = model_id("parcel", 1)
LOOKUP = Lookup(
    constants=Constants(tenant="tenant()", model="model()", names={"s": "name()"}),
    fields=frozenset({(Path(("s",)), "TEXT")}),
)


def query(condition: JsonValue, *sort: str, **others: object) -> EntityQuery:
    search = COMPILER.compile(read_search_condition(condition), parse_sort(sort, max_keys=16))
    return replace(EntityQuery(tenant=TenantId("acme"), model=MODEL, search=search), **others)


def test_searches_of_one_shape_share_a_statement_and_have_arguments_of_their_own() -> None:
    cache = StatementCache()
    first, second = query(simple("$.s", "EQUALS", "a")), query(simple("$.s", "EQUALS", "b"))
    statement = cache.find(first, IDS, None)
    assert cache.find(second, IDS, None) is statement
    assert statement.build_args(first, 11) == ["acme", MODEL, "s", "a", 11]
    assert statement.build_args(second, 5) == ["acme", MODEL, "s", "b", 5]


def test_columns_order_and_indexes_tell_statements_apart() -> None:
    cache = StatementCache()
    plain, sorted_ = query(simple("$.s", "EQUALS", "a")), query(simple("$.s", "EQUALS", "a"), "n:desc")
    found = [
        cache.find(plain, VERSIONS, None),
        cache.find(plain, Projection("id, state, document"), None),
        cache.find(sorted_, VERSIONS, None),
        cache.find(plain, VERSIONS, LOOKUP),
    ]
    assert len({statement.text for statement in found}) == len(found)
    assert [statement.keeps_plan for statement in found] == [False, False, False, True]
    assert found[3].build_args(plain, 11) == ["a", 11, INLINE_BYTES // 11], (
        "tenant, model and member are named by functions"
    )
    assert "ORDER BY" in found[2].text
    assert found[2].build_args(sorted_, 11)[-3:] == [11, INLINE_BYTES // 11, "n"]


def test_what_does_not_come_again_is_not_remembered() -> None:
    cache = StatementCache()
    condition = simple("$.s", "EQUALS", "a")
    hidden = EntityId("5e0c7f6e-0a1b-11f0-9a7e-3b1f0c9d2e44")
    past, joined = query(condition, instant=17), query(condition, without=(hidden,))
    for one in (past, joined, query(lifecycle("state", "EQUALS", "NEW"))):
        statement = cache.find(one, IDS, None)
        assert not statement.recurs
        assert cache.find(one, IDS, None) is not statement
    assert cache.find(past, IDS, None).build_args(past, 11) == ["acme", MODEL, "s", "a", 17, 11]
    assert cache.find(joined, IDS, None).build_args(joined, 11) == ["acme", MODEL, "s", "a", (hidden,), 11]


def test_candidates_are_neither_cut_nor_sorted() -> None:
    judged = query(simple("$.s", "MATCHES_PATTERN", "a.*"), "n")
    statement = StatementCache().find(judged, IDS, None)
    assert not statement.is_exact
    assert "LIMIT" not in statement.text
    assert "ORDER BY" not in statement.text
    assert 11 not in statement.build_args(judged, 11)
    assert statement.condition.describe_residual() == ("$.s: MATCHES_PATTERN",)


def test_the_kept_plan_of_a_run_is_left_alone_after_it_was_not_enough() -> None:
    statement = StatementCache().find(query(simple("$.s", "STARTS_WITH", "a")), IDS, LOOKUP)
    assert statement.keeps_plan
    assert [statement.take_kept_limit(limit) for limit in (5, MAX_ROWS, MAX_ROWS + 1)] == [5, MAX_ROWS, MAX_ROWS]
    statement.pause_kept_plan()
    assert [statement.take_kept_limit(10_000) for _ in range(BACK_OFF_SEARCHES + 1)] == [0] * BACK_OFF_SEARCHES + [
        MAX_ROWS
    ]
    alone = query(group("AND", simple("$.s", "STARTS_WITH", "a"), simple("$.n", "EQUALS", 1)))
    assert not StatementCache().find(alone, IDS, LOOKUP).keeps_plan


def test_a_run_that_is_not_remembered_keeps_no_plan_and_a_value_does() -> None:
    hidden = (EntityId("5e0c7f6e-0a1b-11f0-9a7e-3b1f0c9d2e44"),)
    run = query(simple("$.s", "STARTS_WITH", "a"), without=hidden)
    value = query(simple("$.s", "EQUALS", "a"), without=hidden)
    assert not StatementCache().find(run, IDS, LOOKUP).keeps_plan
    assert StatementCache().find(value, IDS, LOOKUP).keeps_plan


def test_memory_is_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "MAX_CACHED_CHARS", 1000)
    cache, one = StatementCache(), query(simple("$.s", "EQUALS", "a"))
    first = cache.find(one, IDS, None)
    for number in range(10):
        cache.find(one, Projection(f"id AS column_{number}"), None)
    assert cache.find(one, IDS, None) is not first

"""Reads of the past are answered from indexes, however much history there is (issue 4; docs/benchmarks.md
docs/reference/entities.md#documents).

The tables are small; what counts is that statistics are fresh and that nothing but the history of one model is in them.
On larger tables a scan costs more and an index as much as here, so a planner that prefers the index here does so there.
``benchmarks/history.py`` measures a million entities with ten versions each.
"""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from statewright.conditions import EVERYTHING
from statewright.ids import ModelId, TenantId
from statewright.storage import entities
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import connect
from statewright.storage.search.grouping import GROUP_COLUMNS
from statewright.storage.search.query import configure_past_sessions
from statewright.storage.search.statements import EntityQuery, select_versions
from tests.database import Template, connected, filled_clone
from tests.integration.storage.test_statements import NIL, SOMEBODY, plan_of

PAST_SIZE = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT 'acme', gen_random_uuid(), '00000000-0000-1000-8000-000000000000', 'S', gen_random_uuid(),
           gen_random_uuid(), n, 1000000 + n, '', '', 0, 'a', 'user', 'a', 'user', '{"n": 1}'
      FROM generate_series(1, 4000) AS n;
    INSERT INTO entity_history
    SELECT tenant, id, model, state, transaction_id, entry_transaction_id, created_at, created_at + (v - 1) * 100000,
           created_at + v * 100000, transition, workflow, workflow_revision, attributed_id, attributed_kind,
           executor_id, executor_kind, document
      FROM entity CROSS JOIN generate_series(1, 10) AS v;
    INSERT INTO entity_history
    SELECT tenant, gen_random_uuid(), model, state, transaction_id, entry_transaction_id, created_at, 500000,
           9223372036854775807, transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
           executor_kind, NULL
      FROM entity LIMIT 400;
    ANALYZE;
"""
"""Entities with ten superseded versions each, some deleted, nothing of anybody else: the most tempting case for a scan
of the whole history, with statistics that know all of it."""


@pytest.fixture(scope="module")
def tables(database_template: Template) -> Iterator[str]:
    with filled_clone(database_template, PAST_SIZE) as database:
        yield database


@pytest.mark.parametrize("instant", [50_000, 500_000, 999_000])
@pytest.mark.parametrize("page", [0, 100])
async def test_a_page_of_the_past_is_found_by_ids_and_its_versions_are_looked_up(tables: str, instant: int, page: int):
    """Also with the generic plan that a session has after a few calls, which knows neither instant nor page."""
    async with connected(tables) as connection:
        arguments = ("acme", SOMEBODY, 20, 20 * page, instant, NIL)
        plans = [await plan_of(connection, entities.PAGE_AT, *arguments)]
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        plans.append(await plan_of(connection, entities.PAGE_AT, *arguments))
        rows = await connection.fetch(entities.PAGE_AT, *arguments)
    for plan in plans:
        assert "Seq Scan on entity_history" not in plan, plan
        assert "entity_history_deleted" in plan, plan
    if page == 0:  # further down, sorting all ids of a table so small is as good as walking them
        assert "Seq Scan" not in plans[0], plans[0]
    assert len(rows) == 20


@pytest.mark.parametrize("instant", [50_000, 500_000, 999_000])
async def test_an_entity_at_an_instant_is_one_superseded_version_however_many_there_are(tables: str, instant: int):
    async with connected(tables) as connection:
        found = await connection.fetch("SELECT id FROM entity WHERE tenant = 'acme' ORDER BY id LIMIT 20")
        for statement, arguments in (
            (entities.AT_INSTANT, ("acme", found[7]["id"], instant)),
            (entities.PAGE_AT, ("acme", SOMEBODY, 20, 0, instant, NIL)),
        ):
            plan = await connection.fetch(f"EXPLAIN (ANALYZE, COSTS off, TIMING off) {statement}", *arguments)
            nodes = "\n".join(row[0] for row in plan).split("->")
            looks = [node for node in nodes if "entity_history_pkey" in node]
            assert looks, nodes
            for look in looks:
                rows = float(re.findall(r"actual rows=([0-9.]+)", look)[0])
                assert rows <= 1, look  # none of an entity that is gone
                assert "Rows Removed by Filter" not in look, look


@pytest.mark.parametrize("instant", [50_000, 500_000, 999_000])
async def test_the_whole_past_of_a_model_is_read_by_index(tables: str, instant: int):
    """Searches and grouped statistics at an instant; on their own sessions, which plan with the arguments in view."""
    query = EntityQuery(tenant=TenantId("acme"), model=ModelId(SOMEBODY), search=EVERYTHING, instant=instant)
    statement = select_versions(query, GROUP_COLUMNS)
    connection = await connect(configure_past_sessions(parse_database_url(tables), timeout=timedelta(seconds=60)))
    try:
        plan = await plan_of(connection, statement.text, *statement.args)
    finally:
        await connection.close()
    assert "Seq Scan" not in plan, plan
    if instant == 999_000:  # of what was superseded after an early instant there is so much that any index will do
        assert "entity_history_model" in plan, plan

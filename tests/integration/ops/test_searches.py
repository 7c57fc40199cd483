"""Searching page by page, counting, estimating (docs/reference/operations.md#searching-page-by-page)."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta

import pytest

from statewright.ids import TenantId
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from statewright.storage.search.grouping import estimate_counts
from statewright.storage.search.query import SearchDatabase
from tests.builders import Json, when
from tests.database import connected
from tests.integration.ops.builders import ops_api, walk
from tests.service import PATIENCE_S, Api, RunningService, done, refused

EVERYTHING = {"type": "group", "operator": "AND", "conditions": []}
PRIZE = "/models/prize/1/entities"

FIELDS: Sequence[dict[str, Json]] = (
    {"category": "physics", "year": 2024, "given": True},
    {"category": "physics", "year": 1903},
    {"category": "chemistry", "year": 1911, "given": False},
    {"category": "chemistry", "year": 2020.5},
    {"category": "Medicine"},
    {"category": "physics", "year": 1903},
    {"year": 1905},
)
"""With equal values, and some that are missing."""


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


@pytest.fixture
def prizes(api: Api) -> list[str]:
    api.a_model(sample={"category": "physics", "year": 2020.5, "given": True})
    return [api.create(fields).id for fields in FIELDS]


def page_through(ops: Api, condition: Json, query: str = "", *, limit: int = 2) -> list[Json]:
    """All envelopes of a search, page by page."""
    items, cursor = [], ""
    while True:
        page = done(ops.post(f"{PRIZE}/search?limit={limit}{query}{cursor}", condition))
        items += page["items"]
        if "nextCursor" not in page:
            return items
        assert len(page["items"]) == limit
        cursor = f"&cursor={page['nextCursor']}"


def list_ids(envelopes: Sequence[Json]) -> list[str]:
    return [each["meta"]["id"] for each in envelopes]


@pytest.mark.parametrize(
    "sort",
    [
        "",
        "&sort=year",
        "&sort=year:desc",
        "&sort=category&sort=year:desc",
        "&sort=category:desc&sort=@state&sort=given",
        "&sort=given:desc",
        "&sort=@lastUpdateTime:desc",
        "&sort=@id:desc",
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_pages_have_the_order_of_a_direct_search(api: Api, ops: Api, prizes: list[str], sort: str, limit: int) -> None:
    lines = api.post(f"/search/direct/prize/1?limit=1000{sort}", EVERYTHING).text.splitlines()
    assert len(lines) == len(prizes)
    paged = page_through(ops, EVERYTHING, sort, limit=limit)
    assert [json.loads(line) for line in lines] == paged


@pytest.mark.parametrize(
    "condition",
    [when("$.year", "LESS_THAN", 1911), when("$.category", "MATCHES_PATTERN", "ph.*")],
    ids=["by the database", "row by row"],
)
def test_only_what_matches_is_on_the_pages(ops: Api, prizes: list[str], condition: Json) -> None:
    found = page_through(ops, condition, "&sort=year", limit=1)
    by_year = sorted(((fields.get("year", 9999), id_) for fields, id_ in zip(FIELDS, prizes, strict=True)))
    wanted = ("ph", 3) if condition["operatorType"] == "MATCHES_PATTERN" else ("", 3)
    expected = [
        id_
        for year, id_ in by_year
        if (fields := FIELDS[prizes.index(id_)])
        and (fields.get("category", "").startswith("ph") if wanted[0] else year < 1911)
    ]
    assert list_ids(found) == expected
    assert len(found) == wanted[1]
    assert done(ops.post(f"{PRIZE}/count", condition)) == {"total": 3}


def test_a_page_begins_behind_a_version_whatever_became_of_it(api: Api, ops: Api, prizes: list[str]) -> None:
    first = done(ops.post(f"{PRIZE}/search?sort=year&limit=2", EVERYTHING))
    assert list_ids(first["items"]) == sorted([prizes[1], prizes[5]])
    for id_ in list_ids(first["items"]):
        done(api.delete(f"/entity/{id_}"))
    rest = done(ops.post(f"{PRIZE}/search?sort=year&cursor={first['nextCursor']}", EVERYTHING))
    assert list_ids(rest["items"])[:3] == [prizes[6], prizes[2], prizes[3]]
    assert "nextCursor" not in rest


def test_the_past_is_searched_page_by_page(api: Api, ops: Api, prizes: list[str]) -> None:
    then = api.read(prizes[-1])["meta"]["creationDate"]
    api.update(prizes[1], {"category": "physics", "year": 3000})
    done(api.delete(f"/entity/{prizes[0]}"))
    found = page_through(ops, EVERYTHING, f"&sort=year:desc&pointInTime={then}")
    assert len(found) == len(prizes)
    assert list_ids(found)[0] == prizes[0]


def test_cursors_go_with_condition_sort_and_tenant(
    ops: Api, prizes: list[str], service: RunningService, tenant: str
) -> None:
    cursor = done(ops.post(f"{PRIZE}/search?limit=1", EVERYTHING))["nextCursor"]
    for query, condition in (("&sort=year", EVERYTHING), ("", when("$.year", "LESS_THAN", 1911))):
        problem = refused(ops.post(f"{PRIZE}/search?cursor={cursor}{query}", condition), 400, "BAD_REQUEST")
        assert problem["properties"]["parameter"] == "cursor"
    other = ops_api(service, f"{tenant}-x")
    refused(other.post(f"{PRIZE}/search?limit=1", EVERYTHING), 404, "MODEL_NOT_FOUND")


@pytest.mark.parametrize("what", ["search", "count"])
def test_conditions_are_checked_as_in_direct_searches(ops: Api, prizes: list[str], what: str) -> None:
    refused(ops.post(f"{PRIZE}/{what}", {"type": "nonsense"}), 400, "BAD_REQUEST")
    refused(ops.post(f"{PRIZE}/{what}", when("$.nowhere", "EQUALS", 1)), 400, "INVALID_FIELD_PATH")
    refused(ops.post(f"/models/nothing/1/entities/{what}", EVERYTHING), 404, "MODEL_NOT_FOUND")


FILL = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT tenant, gen_random_uuid(), model, state, transaction_id, entry_transaction_id, created_at, valid_from,
           transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
           executor_kind, document
      FROM entity, generate_series(1, $2) WHERE tenant = $1
"""


def multiply(service: RunningService, tenant: str, copies: int) -> None:
    """Many more of the entities that there are."""

    async def run() -> None:
        async with service.parts.runtime.core.pool.connection() as connection:
            await connection.execute(FILL, tenant, copies)
            await connection.execute("ANALYZE entity")

    asyncio.run_coroutine_threadsafe(run(), service.loop).result(PATIENCE_S)


def test_counts_are_bounded_and_estimates_near(api: Api, ops: Api, service: RunningService, tenant: str) -> None:
    api.a_model()
    api.a_model(model="other/2")
    api.create()
    assert done(ops.post(f"{PRIZE}/count", EVERYTHING)) == {"total": 1}
    multiply(service, tenant, 10_100)
    assert done(ops.post(f"{PRIZE}/count", EVERYTHING)) == {"total": 10_000, "totalIsLowerBound": True}
    assert done(ops.post(f"{PRIZE}/count", when("$.year", "MATCHES_PATTERN", "x"))) == {"total": 0}
    estimates = {(each["name"], each["version"]): each["estimatedEntities"] for each in walk(ops, "/models", limit=1)}
    assert estimates.keys() == {("other", 2), ("prize", 1)}
    assert 5_000 < estimates["prize", 1] < 20_000
    assert estimates["other", 2] < 1_000


def test_counting_ends_in_time(api: Api, ops: Api, service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    api.a_model()
    monkeypatch.setattr("statewright.services.ops.listings.COUNT_WITHIN_S", 0.0)
    refused(ops.post(f"{PRIZE}/count", EVERYTHING), 503, "SEARCH_SHARD_TIMEOUT")


UNDER_WAY = """
    SELECT query FROM pg_stat_activity
     WHERE datname = current_database() AND state = 'active' AND query LIKE 'EXPLAIN %'
"""


async def test_estimates_of_no_models_leave_no_statement_under_way(database: str) -> None:
    """The server would end what is asked next on that connection, by the time of this statement."""
    async with Pool(parse_database_url(database), size=1) as pool, connected(database) as other:
        search = SearchDatabase(pool, timeout=timedelta(seconds=PATIENCE_S))
        assert await estimate_counts(search, TenantId("acme"), limit=10) == []
        assert await other.fetch(UNDER_WAY) == []

"""What a direct search may take, and what nobody else notices of it (decision S14)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.builders import Json
from tests.database import Template, connected
from tests.integration.search.finding import EVERYTHING, a_parcel_model, asked, found, parcels, simple
from tests.service import PATIENCE_S, Api, RunningService, done, hosted, refused

BUDGET = 3

PAST = "2999-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def strict_service(database_template: Template) -> Iterator[RunningService]:
    """A service with little patience for searches."""
    patience = timedelta(seconds=0.3)
    with hosted(database_template.clone(), search_timeout=patience, search_scan_budget=BUDGET) as running:
        yield running


@pytest.fixture
def strict_api(strict_service: RunningService, tenant: str) -> Api:
    api = strict_service.api(tenant)
    a_parcel_model(api)
    return api


@asynccontextmanager
async def blocked(service: RunningService, table: str) -> AsyncIterator[None]:
    """Nobody can read the table inside the block."""
    async with connected(service.database) as connection, connection.transaction():
        await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


async def test_a_search_that_takes_too_long_ends_with_a_503(strict_service: RunningService, strict_api: Api) -> None:
    parcels(strict_api, {})
    for condition in (EVERYTHING, simple("$.name", "MATCHES_PATTERN", ".*")):
        async with blocked(strict_service, "entity"):
            problem = refused(await asyncio.to_thread(asked, strict_api, condition), 503, "SEARCH_SHARD_TIMEOUT")
        assert problem["properties"]["retryable"] is True
        assert found(strict_api, condition) == ["a"], "its connection is replaced"


async def test_searches_that_hang_keep_nobody_else_waiting(strict_service: RunningService, strict_api: Api) -> None:
    [saved] = parcels(strict_api, {})
    async with blocked(strict_service, "entity_history"):
        with ThreadPoolExecutor(20) as threads:
            loop = asyncio.get_running_loop()
            hanging = [
                loop.run_in_executor(threads, lambda: asked(strict_api, EVERYTHING, pointInTime=PAST))
                for _ in range(20)
            ]
            assert (await asyncio.to_thread(strict_api.read, saved.id))["meta"]["id"] == saved.id
            assert {response.status_code for response in await asyncio.gather(*hanging)} == {503}


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def test_a_tenant_whose_requests_hang_leaves_others_a_connection(
    database_template: Template, tenant: str
) -> None:
    with hosted(database_template.clone()) as service, ThreadPoolExecutor(20) as threads:
        busy, other = service.api(tenant), service.api(f"{tenant}-2")
        a_parcel_model(other)
        parcels(other, {})
        async with connected(service.database) as observer, blocked(service, "entity_count"):
            loop = asyncio.get_running_loop()
            hanging = [loop.run_in_executor(threads, busy.get, "/entity/stats") for _ in range(20)]
            async with asyncio.timeout(PATIENCE_S):
                while await observer.fetchval(WAITING) < 5:
                    pass
            assert await asyncio.to_thread(found, other, EVERYTHING) == ["a"]
        await asyncio.gather(*hanging)


def test_judging_more_entities_than_the_budget_allows_is_refused(strict_api: Api) -> None:
    parcels(strict_api, *[{"name": f"p{n}"} for n in range(BUDGET)])
    pattern = simple("$.name", "MATCHES_PATTERN", "[p].*")
    assert len(found(strict_api, pattern)) == BUDGET
    parcels(strict_api, {"name": "q"})
    refused(asked(strict_api, pattern), 400, "SCAN_BUDGET_EXHAUSTED")
    assert len(found(strict_api, EVERYTHING)) == BUDGET + 1, "what SQL decides alone is not judged"
    assert len(found(strict_api, simple("$.name", "MATCHES_PATTERN", "p.*"))) == BUDGET, "a literal beginning narrows"


def test_a_condition_that_is_long_to_judge_is_judged_by_a_process_that_can_be_killed(
    database_template: Template,
) -> None:
    items: Json = [f"x{n}" for n in range(20_000)]
    for timeout_ms, killed in ((30_000, False), (1, True)):
        settings = {"computation_timeout": timedelta(milliseconds=timeout_ms)}
        with hosted(database_template.clone(), **settings) as service:
            api = service.api("long")
            api.a_model(sample={"items": ["x"]})
            api.create({"items": items})
            patterns = [f"x{n}y?" for n in (*range(-20, 0), 19_999)]
            conditions = [simple("$.items[*]", "MATCHES_PATTERN", pattern) for pattern in patterns]
            found = api.post("/search/direct/prize/1", {"type": "group", "operator": "OR", "conditions": conditions})
            outcomes = service.parts.runtime.core.computations.metrics.outcomes
            assert outcomes["timeout" if killed else "done"] == 1, (found.text[:500], outcomes)
            if killed:
                refused(found, 400, "COMPUTATION_TOO_LONG")
            else:
                assert done(found)

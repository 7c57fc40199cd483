"""How many instances are where (docs/reference/operations.md#counts-of-instances)."""

from dataclasses import replace

import pytest

from statewright.storage.ops import listings
from statewright.storage.ops.listings import INSTANCES, STEPS, UNDER_WAY
from tests.database import connected
from tests.integration.ops.builders import ops_api
from tests.integration.steps_http.conftest import definition, started, step, uploaded
from tests.service import Api, RunningService, done, refused


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


@pytest.fixture
def v1(api: Api, service: RunningService) -> Api:
    v1 = replace(api, url=service.root)
    for name, count in (("errand", 2), ("parcel", 1)):
        uploaded(v1, definition(name, step("work", "SERVICE_TASK", "end", jobType="mail")))
        for _ in range(count):
            started(v1, name)
    return v1


def test_instances_are_counted_by_definition_and_status(
    ops: Api, v1: Api, service: RunningService, tenant: str
) -> None:
    errands = {"language": "steps", "definitionId": "errand", "status": "ACTIVE", "count": 2}
    parcels = {"language": "steps", "definitionId": "parcel", "status": "ACTIVE", "count": 1}
    assert done(ops.get("/instance-counts")) == {"items": [errands, parcels], "isLowerBound": False}
    assert done(ops.get("/instance-counts?definitionId=parcel&language=steps"))["items"] == [parcels]
    assert done(ops_api(service, f"{tenant}-x").get("/instance-counts"))["items"] == []


def test_executions_under_way_are_counted_by_step(ops: Api, v1: Api, service: RunningService, tenant: str) -> None:
    path = "/instance-counts/steps?language=steps&definitionId=errand"
    assert done(ops.get(path)) == {"items": [{"stepId": "work", "count": 2}], "isLowerBound": False}
    assert done(ops_api(service, f"{tenant}-x").get(path))["items"] == []
    problem = refused(ops.get("/instance-counts/steps?language=steps"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "definitionId"


def test_counts_are_bounded(ops: Api, v1: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "MAX_INSTANCES", 1)
    monkeypatch.setattr(listings, "MAX_UNDER_WAY", 1)
    for path in ("", "/steps?language=steps&definitionId=errand"):
        assert done(ops.get(f"/instance-counts{path}"))["isLowerBound"] is True


FILL = """
    INSERT INTO process_instance (tenant, id, language, definition_id, status)
    SELECT CASE WHEN n % 20 = 0 THEN $1 ELSE $1 || n % 20 END, gen_random_uuid(), 'steps', 'errand' || n % 7,
           CASE WHEN n % 3 = 0 THEN 'ACTIVE' ELSE 'COMPLETED' END
      FROM generate_series(1, 20000) AS n
"""
EXECUTIONS = """
    INSERT INTO process_execution (tenant, instance, id, language, node_id, node_type, attempt, status, started_at)
    SELECT tenant, id, gen_random_uuid(), language, 'work', 'SERVICE_TASK', 1, 'RUNNING', 1
      FROM process_instance WHERE tenant LIKE $1 || '%'
"""


async def test_instances_are_counted_by_indexes(service: RunningService, tenant: str) -> None:
    by_definition = "process_instance_definition"
    cases: list[tuple[str, tuple[str | None, ...], tuple[str, ...]]] = [
        (INSTANCES, (None, None), ("process_instance_",)),
        (INSTANCES, ("steps", None), ("process_instance_",)),
        (INSTANCES, ("steps", "errand1"), (by_definition,)),
        (UNDER_WAY, ("steps", "errand1"), (by_definition,)),
        (STEPS, ("steps", "errand1"), (by_definition, "process_execution_pkey")),
    ]
    async with connected(service.database) as database:
        transaction = database.transaction()
        await transaction.start()
        try:
            await database.execute(FILL, tenant)
            await database.execute(EXECUTIONS, tenant)
            await database.execute("ANALYZE process_instance, process_execution")
            for statement, chosen, indexes in cases:
                rows = await database.fetch(f"EXPLAIN (COSTS OFF) {statement}", tenant, *chosen, 100)
                plan = "\n".join(row[0] for row in rows)
                assert "Seq Scan" not in plan, plan
                assert all(index in plan for index in indexes), plan
        finally:
            await transaction.rollback()

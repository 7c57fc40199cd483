"""How many instances are where (docs/reference/operations.md#counts-of-instances)."""

from dataclasses import replace

import pytest

from statewright.storage.ops import instance_counts
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
    monkeypatch.setattr(instance_counts, "MAX_INSTANCES", 1)
    monkeypatch.setattr(instance_counts, "MAX_UNDER_WAY", 1)
    for path in ("", "/steps?language=steps&definitionId=errand"):
        assert done(ops.get(f"/instance-counts{path}"))["isLowerBound"] is True

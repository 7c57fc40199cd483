"""Incidents that commit with their cause, and how many of them are kept (docs/reference/operations.md#incidents)."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import asyncpg
import pytest

from statewright.net import ulid_to_uuid
from statewright.services.ops.incidents import IncidentSweeper
from tests.builders import SAMPLE, a_processor, a_workflow, manual
from tests.integration.node import a_node
from tests.integration.ops.builders import ops_api
from tests.service import PATIENCE_S, Api, RunningService, done, eventually, refused

T = TypeVar("T")


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR", user="olga")


def query(service: RunningService, ask: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    async def run() -> T:
        async with service.parts.runtime.core.pool.connection() as connection:
            return await ask(connection)

    return asyncio.run_coroutine_threadsafe(run(), service.loop).result(PATIENCE_S)


SHARES = """
    SELECT incident.xmin = entity.xmin
      FROM incident JOIN entity ON entity.tenant = incident.tenant AND entity.id::text = incident.subject_id
     WHERE incident.tenant = $1 AND incident.subject_id = $2
"""

WRITERS = """
    SELECT incident.occurrences, incident.xmin = trail.xmin
      FROM incident
      JOIN entity_audit AS trail ON trail.tenant = incident.tenant AND trail.entity::text = incident.subject_id
     WHERE incident.tenant = $1 AND trail.events LIKE '%Processor failed%'
"""


@pytest.mark.parametrize("headers", [{}, {"Idempotency_Key": "once"}], ids=["unkeyed", "keyed"])
def test_the_incident_of_a_failure_behind_a_segment_commits_with_its_event(
    service: RunningService, tenant: str, api: Api, ops: Api, headers: dict[str, str]
) -> None:
    go = manual("GO", to="DONE", processors=[a_processor(mode="COMMIT_BEFORE_DISPATCH")])
    entity = api.create(model=api.a_model(a_workflow(NEW=[go], DONE=[]))).id
    with a_node(service, tenant, "node") as node, ThreadPoolExecutor() as clients:
        firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE, **headers)
        node.fail_next("the bank is down")
        refused(firing.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    written = query(service, lambda connection: connection.fetch(WRITERS, tenant))
    assert [tuple(row) for row in written] == [(1, True)]
    [incident] = done(ops.get("/incidents"))["items"]
    assert (incident["kind"], incident["component"], incident["subject"]["id"]) == ("RUN_FAILED", "enrich", entity)
    asyncio.run_coroutine_threadsafe(
        service.parts.runtime.operations.concerns.incident_sweeper.reports.write_once(), service.loop
    ).result(PATIENCE_S)
    assert done(ops.get("/incidents"))["items"][0]["occurrences"] == 1


def test_beyond_the_limit_of_a_tenant_incidents_do_not_commit_with_their_cause(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    """They are written behind, where the limit is held against each of them."""
    runtime, v1 = service.parts.runtime, replace(api, url=f"{service.root}/v1")

    def fail_a_job(job_type: str) -> str:
        step = {"id": "a", "name": "a", "type": "SERVICE_TASK", "jobType": job_type, "nextStep": "z"}
        definition = {"id": job_type, "name": "d", "steps": [step, {"id": "z", "name": "z", "type": "END"}]}
        assert v1.post("/definitions", definition).is_success
        instance = v1.post("/instances", {"definitionId": job_type}).json()["id"]
        [job] = v1.post("/jobs/poll", {"workerId": "w", "jobTypes": [job_type]}).json()["jobs"]
        assert v1.post(f"/jobs/{job['id']}/fail", {"workerId": "w", "errorMessage": "full"}).status_code == 204
        return str(instance)

    def sweep(max_open: int) -> None:
        sweeper = IncidentSweeper(
            runtime.core.pool,
            runtime.operations.concerns.incident_sweeper.reports,
            interval=timedelta(1),
            retention=timedelta(1),
            max_open=max_open,
        )
        asyncio.run_coroutine_threadsafe(sweeper.run_once(), service.loop).result(PATIENCE_S)

    def commits_with_cause(instance: str) -> bool | None:
        id_ = str(ulid_to_uuid(instance))
        return query(service, lambda connection: connection.fetchval(SHARES, tenant, id_))

    assert commits_with_cause(fail_a_job("mail")) is True
    counted = runtime.operations.concerns.incident_sweeper.reports.totals["JOB_FAILED"]
    sweep(max_open=1)
    try:
        assert tenant in runtime.operations.concerns.incident_sweeper.reports.crowded
        instance = fail_a_job("post")
        assert v1.get(f"/instances/{instance}").json()["status"] == "FAILED"
        eventually(lambda: commits_with_cause(instance) is False)
        assert runtime.operations.concerns.incident_sweeper.reports.totals["JOB_FAILED"] == counted + 1
    finally:
        sweep(max_open=100_000)
    assert tenant not in runtime.operations.concerns.incident_sweeper.reports.crowded
    assert commits_with_cause(fail_a_job("mail")) is True

"""Lists of messages and search jobs (docs/reference/operations.md#messages-and-search-jobs)."""

import asyncio

import pytest

from statewright.storage.ops.listings import MESSAGES, MESSAGES_BEHIND, SEARCH_JOBS
from tests.builders import when
from tests.integration.ops.builders import ops_api, walk
from tests.service import PATIENCE_S, Api, RunningService, done, eventually, refused


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def test_messages_are_listed_newest_first(api: Api, ops: Api, service: RunningService, tenant: str) -> None:
    sent = [
        done(api.post(f"/message/new/subject-{n}", {"payload": {"n": n}}, Content_Type="application/json"))[0]
        for n in range(3)
    ]
    listed = walk(ops, "/messages", limit=1)
    assert [message["id"] for message in listed] == [each["entityIds"][0] for each in reversed(sent)]
    assert listed[0]["header"]["subject"] == "subject-2"
    assert listed[0]["createdAt"] > listed[1]["createdAt"]
    assert done(ops_api(service, f"{tenant}-x").get("/messages")) == {"items": []}


def test_search_jobs_are_listed_newest_first(api: Api, ops: Api, service: RunningService, tenant: str) -> None:
    api.a_model()
    api.create()
    condition = when("$.year", "EQUALS", 2024)
    jobs = [done(api.post("/search/async/prize/1", condition)) for _ in range(3)]
    eventually(lambda: len(done(ops.get("/search-jobs?status=SUCCESSFUL"))["items"]) == len(jobs))
    listed = walk(ops, "/search-jobs", limit=1)
    assert [job["id"] for job in listed] == jobs[::-1]
    assert (listed[0]["model"], listed[0]["hits"]) == ({"name": "prize", "version": 1}, 1)
    assert listed[0]["condition"]["operatorType"] == "EQUALS"
    assert listed[0]["createdAt"] <= listed[0]["finishedAt"] < listed[0]["expiresAt"]
    assert done(ops.get("/search-jobs?status=RUNNING&status=FAILED"))["items"] == []
    assert len(done(ops.get("/search-jobs?model=prize"))["items"]) == len(jobs)
    assert done(ops.get("/search-jobs?model=other"))["items"] == []
    assert done(ops_api(service, f"{tenant}-x").get("/search-jobs")) == {"items": []}
    assert refused(ops.get("/search-jobs?status=x"), 400, "BAD_REQUEST")["properties"]["parameter"] == "status"


@pytest.mark.parametrize(
    ("statement", "arguments", "index"),
    [
        (MESSAGES, (51,), "message_time"),
        (MESSAGES_BEHIND, (51, "9f8d6a10-e6c2-11f1-b054-d3ab3a78ba1c"), "message_time"),
        (SEARCH_JOBS, (2**62, "9f8d6a10-e6c2-11f1-b054-d3ab3a78ba1c", None, None, 1, 51), "search_job_created"),
    ],
    ids=["messages", "further messages", "search jobs"],
)
def test_a_page_is_a_range_of_an_index(
    service: RunningService, tenant: str, statement: str, arguments: tuple[object, ...], index: str
) -> None:
    async def explain() -> str:
        async with service.parts.runtime.core.pool.connection() as connection, connection.transaction(readonly=True):
            await connection.execute("SET LOCAL enable_seqscan = off")  # the tables have few rows here
            await connection.execute("SET LOCAL enable_sort = off")
            rows = await connection.fetch(f"EXPLAIN {statement}", tenant, *arguments)
        return "\n".join(row[0] for row in rows)

    plan = asyncio.run_coroutine_threadsafe(explain(), service.loop).result(PATIENCE_S)
    assert f"using {index}" in plan, plan
    assert "Sort" not in plan, plan

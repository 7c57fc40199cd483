"""Workers and queues (docs/reference/operations.md#members, docs/reference/operations.md#queues)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from statewright.ids import TenantId
from statewright.storage.ops.queues import count_work
from tests.builders import SAMPLE, a_processor, a_workflow, manual
from tests.integration.node import a_node
from tests.integration.ops.builders import ops_api, walk
from tests.integration.steps_http.conftest import definition, polled, started, step, uploaded
from tests.service import PATIENCE_S, Api, RunningService, done, eventually, refused


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


@pytest.fixture
def v1(api: Api, service: RunningService) -> Api:
    return replace(api, url=service.root)


def start_jobs(v1: Api, count: int, job_type: str = "mail", definition_id: str = "errand") -> None:
    uploaded(v1, definition(definition_id, step("work", "SERVICE_TASK", "end", jobType=job_type)))
    for _ in range(count):
        started(v1, definition_id)


def test_jobs_without_a_worker_are_waiting(ops: Api, v1: Api) -> None:
    start_jobs(v1, 3)
    [queue] = done(ops.get("/queues?withoutWorker=true"))["items"]
    assert queue.pop("oldestAgeSeconds") >= 0
    expected = {"depth": 3, "inFlight": 0, "delayed": 0, "held": 0, "workers": 0, "wanted": 3, "suspended": False}
    expected["ratePerMinute"] = 0
    assert queue.pop("since") is None or queue["depth"]
    assert queue == {"kind": "JOB_TYPE", "name": "mail", **expected}
    assert done(ops.get("/queues/JOB_TYPE/mail"))["depth"] == 3


def test_leased_jobs_are_wanted_and_their_worker_is_listed(ops: Api, v1: Api) -> None:
    start_jobs(v1, 2)
    assert len(polled(v1, "mail", worker="w-7", maxJobs=10)) == 2
    queue = done(ops.get("/queues/JOB_TYPE/mail"))
    assert (queue["depth"], queue["inFlight"], queue["wanted"], queue["workers"]) == (0, 2, 2, 1)
    assert queue["oldestAgeSeconds"] is None
    [worker] = done(ops.get("/members"))["items"]
    assert (worker["id"], worker["kind"], worker["jobTypes"], worker["inFlight"]) == ("w-7", "POLL", ["mail"], 2)
    assert done(ops.get("/queues?withoutWorker=true"))["items"] == []


def test_a_queue_tells_how_much_was_handed_out_in_the_last_minute(
    api: Api, ops: Api, v1: Api, service: RunningService, tenant: str
) -> None:
    """Jobs that were claimed, each time they were, and callouts that were given to members."""
    start_jobs(v1, 3)
    [again, _] = polled(v1, "mail", maxJobs=2)
    assert v1.post(f"/v1/jobs/{again['id']}/release", {"workerId": "w-1"}).is_success
    polled(v1, "mail", maxJobs=1)
    go = manual("GO", to="HERE", processors=[a_processor(tags="print,Copy")])
    entity = api.create(model=api.a_model(a_workflow(HERE=[go]))).id
    with a_node(service, tenant, "print", "copy") as node, ThreadPoolExecutor() as clients:
        firing = clients.submit(api.update, entity, SAMPLE, fire="GO")
        node.answer_next()
        firing.result(PATIENCE_S)
    presence = service.parts.runtime.operations.presence
    asyncio.run_coroutine_threadsafe(presence.run_once(), service.loop).result(PATIENCE_S)
    eventually(lambda: done(ops.get("/queues/JOB_TYPE/mail"))["ratePerMinute"] == 3)
    eventually(lambda: done(ops.get("/queues/TAG/copy,print"))["ratePerMinute"] == 1)
    assert done(ops_api(service, f"{tenant}-x").get("/queues/JOB_TYPE/mail"))["ratePerMinute"] == 0


def test_jobs_that_rest_are_delayed_and_do_not_wait(ops: Api, v1: Api) -> None:
    uploaded(v1, definition("errand", step("work", "SERVICE_TASK", "end", jobType="mail", retryCount=1)))
    for _ in range(2):
        started(v1, "errand")
    [job] = polled(v1, "mail", maxJobs=1)
    failure = {"workerId": "w-1", "retryable": True, "retryAfterSeconds": 3600}
    assert v1.post(f"/v1/jobs/{job['id']}/fail", failure).status_code == 204
    queue = done(ops.get("/queues/JOB_TYPE/mail"))
    assert (queue["depth"], queue["inFlight"], queue["delayed"], queue["wanted"]) == (1, 0, 1, 1)


def test_an_unknown_queue_is_empty(ops: Api) -> None:
    queue = done(ops.get("/queues/JOB_TYPE/nothing%20here"))
    assert (queue["name"], queue["depth"], queue["wanted"], queue["workers"]) == ("nothing here", 0, 0, 0)


def test_queues_of_other_tenants_are_not_told(ops: Api, v1: Api, service: RunningService, tenant: str) -> None:
    start_jobs(v1, 1)
    other = ops_api(service, f"{tenant}-x")
    assert done(other.get("/queues")) == {"items": []}
    assert done(other.get("/queues/JOB_TYPE/mail"))["depth"] == 0


def test_pages_of_queues_follow_each_other(ops: Api, v1: Api) -> None:
    for number in range(3):
        start_jobs(v1, 1, f"type-{number}", f"errand-{number}")
    assert [queue["name"] for queue in walk(ops, "/queues", limit=1)] == ["type-0", "type-1", "type-2"]
    assert done(ops.get("/queues?count=true&limit=1"))["total"] == 3


def test_members_are_listed_with_their_tags_and_calls(api: Api, ops: Api, service: RunningService, tenant: str) -> None:
    processor = a_processor(tags="mail", mode="ASYNC_NEW_TX", responseTimeoutMs=50)
    api.a_model(a_workflow(HERE=[manual("GO", to="HERE", processors=[processor])]))
    entity = api.create().id
    with a_node(service, tenant, "Mail", "print") as node:
        [member] = done(ops.get("/members"))["items"]
        assert (member["kind"], member["tags"], member["inFlight"]) == ("STREAM", ["mail", "print"], 0)
        assert member["node"] == service.parts.node.id
        api.update(entity, SAMPLE, fire="GO")  # nobody answers
        node.next()
        [member] = done(ops.get("/members"))["items"]
        assert (member["succeeded"], member["failed"], member["timedOut"]) == (0, 0, 1)
    eventually(lambda: done(ops.get("/members")) == {"items": []})


def test_filters_select_members(ops: Api, service: RunningService, tenant: str) -> None:
    with a_node(service, tenant, "mail"), a_node(service, tenant, "print"):

        def count(query: str) -> int:
            return len(done(ops.get(f"/members?{query}"))["items"])

        assert (count("tag=MAIL"), count("tag=mail&tag=print"), count("tag=none")) == (1, 2, 0)
        assert (count("kind=STREAM"), count("kind=POLL"), count("node=elsewhere")) == (2, 0, 0)
        assert refused(ops.get("/members?kind=x"), 400, "BAD_REQUEST")["properties"]["parameter"] == "kind"


def test_a_member_with_the_tag_takes_jobs_of_the_type(ops: Api, service: RunningService, tenant: str) -> None:
    with a_node(service, tenant, "mail"):
        assert done(ops.get("/queues/JOB_TYPE/Mail"))["workers"] == 1


def test_a_tenant_with_very_many_jobs_hides_nothing_of_others(v1: Api, service: RunningService, tenant: str) -> None:
    start_jobs(v1, 3)
    others = [f"{tenant[:-1]}{last}" for last in "!~"]  # one before it and one behind it
    for name in others:
        start_jobs(replace(service.api(name), url=service.root), 2)
    counting = count_work(service.parts.runtime.core.pool, max_jobs=2)
    census = asyncio.run_coroutine_threadsafe(counting, service.loop).result(PATIENCE_S)
    depths = {queue.tenant: queue.depth for queue in census.jobs}
    assert [depths[TenantId(name)] for name in (tenant, *others)] == [3, 2, 2]
    assert census.crowded.intersection({TenantId(name) for name in (tenant, *others)}) == {TenantId(tenant)}


def test_requests_that_meet_are_counted_by_one_statement(service: RunningService, tenant: str) -> None:
    counts = service.parts.runtime.operations.work

    async def ask() -> list[object]:
        return list(await asyncio.gather(*[counts.fetch(TenantId(tenant)) for _ in range(20)]))

    first, *others = asyncio.run_coroutine_threadsafe(ask(), service.loop).result()
    assert all(other is first for other in others)

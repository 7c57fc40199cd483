"""Flows over much: results that meet, thousands of elements, large values (docs/reference/flows.md#instances)."""

import asyncio
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import httpx
import pytest

from statewright.api.http.processes.bodies import BARE_ERRORS
from statewright.entity import system_principal
from statewright.failures import OutcomeUnknown
from statewright.flows.process_language import FLOWS
from statewright.ids import EntityId, TenantId
from statewright.instants import from_rfc3339
from statewright.jsonval.codec import encode
from statewright.net import ulid_to_uuid
from statewright.processes.loop_results import PART_RESULTS
from statewright.services.core import Caller
from statewright.services.processes import writing
from statewright.services.processes.background import purge
from tests.builders import Json
from tests.integration.flows.conftest import Flows, an_error, done
from tests.service import Api, RunningService, eventually

MEBIBYTE = 1024 * 1024
ELEMENTS = int(os.environ.get("STATEWRIGHT_TEST_ELEMENTS", "1500"))
"""10,000 take half a minute."""


@contextmanager
def kept_waiting(service: RunningService, tenant: str, instance: Json) -> Iterator[Callable[[], int]]:
    """Inside the block nobody gets a turn at the instance; gives how many results wait for it."""
    hosts = service.parts.runtime.processes.hosts
    batches: Json = hosts.get_hosted("flows").complete_job
    let_go = asyncio.Event()
    is_held = threading.Event()

    async def hold() -> None:
        async with hosts.locks.hold(TenantId(tenant), EntityId(str(ulid_to_uuid(instance["id"])))):
            is_held.set()
            await let_go.wait()

    holding = asyncio.run_coroutine_threadsafe(hold(), service.loop)
    is_held.wait()
    try:
        yield lambda: sum(len(batch.results) for batch in list(batches.__self__._open.values()))
    finally:
        service.loop.call_soon_threadsafe(let_go.set)
        holding.result()


def test_results_that_meet_are_one_version_and_counted_once_each(
    flows: Flows, service: RunningService, tenant: str, api: Api
):
    instance = flows.run("* A → B", list(range(16)))
    jobs = flows.poll("A")
    with ThreadPoolExecutor(17) as pool:
        with kept_waiting(service, tenant, instance) as count_waiting:
            reports = [pool.submit(flows.complete, job, {"n": job["variables"]["input"]}) for job in jobs]
            eventually(lambda: count_waiting() == 16)
            reports.append(pool.submit(flows.complete, jobs[0], {"n": "again"}))
        for report in reports:
            report.result()
    job = flows.job("B")
    assert job["variables"]["input"] == [{"n": n} for n in range(16)]
    flows.complete(job, {"done": True})
    versions = done(api.get(f"/entity/{ulid_to_uuid(instance['id'])}/changes"))
    assert len(versions) == 3
    ends = [line["status"] for line in flows.history(instance) if line["name"] == "A.1"]
    assert ends == ["COMPLETED"] * 17


def test_an_iteration_over_thousands_of_elements_ends(flows: Flows):
    instance = flows.run("* A → B", list(range(ELEMENTS)), concurrency=500)
    with ThreadPoolExecutor(64) as pool:
        while jobs := flows.poll("A", most=1000):
            list(pool.map(lambda job: flows.complete(job, {"n": job["variables"]["input"]}), jobs))
    job = flows.job("B")
    assert job["variables"]["input"] == [{"n": n} for n in range(ELEMENTS)]
    flows.complete(job, {"done": True})
    assert flows.read(instance)["result"] == {"done": True}
    page = done(flows.api.get(f"/v1/flows/instances/{instance['id']}/history?page=1&pageSize=1000"))
    assert (page["total"], len(page["items"])) == (ELEMENTS + 4, min(1000, ELEMENTS - 996))


def forget_instances(service: RunningService) -> None:
    """As after a restart: instances are read from the database again."""
    host = service.parts.runtime.processes.hosts.get(FLOWS)
    for key in list(host.instances.keys()):
        host.instances.discard(key)


def test_results_of_a_long_iteration_are_stored_apart_and_found_again(
    flows: Flows, service: RunningService, api: Api, tenant: str
):
    instance = flows.run("<[7]> → make → * A → B", concurrency=None)
    flows.complete(flows.job("make"), [{"n": n} for n in range(600)])
    jobs = {job["variables"]["element"]: job for job in flows.poll("A", most=1000)}
    for element in (*range(3, 303), 0):
        flows.complete(jobs.pop(element), {"n": element})
    entity = ulid_to_uuid(instance["id"])
    document = done(api.get(f"/entity/{entity}"))
    [items, results] = document["data"]["parts"]
    assert (len(items["names"]), len(results["names"])) == (1, 1)
    assert len(document["data"]["marking"]["loops"][0]["results"]) == 301 - PART_RESULTS
    forget_instances(service)
    flows.fail(jobs.pop(1), "no")
    for element in list(jobs):
        flows.complete(jobs.pop(element), {"n": element})
    flows.do(instance, "change", node=3, element=1, input={"n": "one"})
    forget_instances(service)
    flows.do(instance, "restart")
    [again] = flows.poll("A")
    assert again["variables"]["input"] == {"n": "one"}
    flows.complete(again, {"n": 1})
    job = flows.job("B")
    assert job["variables"]["input"] == [{"n": n} for n in range(600)]
    flows.complete(job)
    assert "parts" not in done(api.get(f"/entity/{entity}"))["data"]
    then = done(api.get(f"/entity/{entity}?transactionId={document['meta']['transactionId']}"))
    assert then["data"] == document["data"]
    assert count_parts(service, tenant) > 1
    remove_instances(service, tenant)
    assert count_parts(service, tenant) == 0


def count_parts(service: RunningService, tenant: str) -> int:
    async def count() -> int:
        async with service.parts.runtime.core.pool.connection() as connection:
            return int(await connection.fetchval("SELECT count(*) FROM process_part WHERE tenant = $1", tenant))

    return asyncio.run_coroutine_threadsafe(count(), service.loop).result()


def remove_instances(service: RunningService, tenant: str) -> None:
    """All instances of a tenant that have ended."""
    host = service.parts.runtime.processes.hosts.get(FLOWS)
    removing = purge(host, Caller(system_principal(TenantId(tenant))), older_than=timedelta(0))
    assert asyncio.run_coroutine_threadsafe(removing, service.loop).result().is_complete


def test_values_of_nearly_ten_mebibytes_travel_along_edges(flows: Flows, service: RunningService, api: Api):
    large = {"text": "x" * (10 * MEBIBYTE - 200)}
    instance = flows.run("A → B", large)
    document = api.get(f"/entity/{ulid_to_uuid(instance['id'])}").content
    assert len(document) < 11 * MEBIBYTE  # although it is the input of the instance and that of the task
    forget_instances(service)
    job = flows.job("A")
    assert job["variables"]["input"] == large
    flows.complete(job, {"a": 1})
    flows.complete(flows.job("B"), {"b": 1})
    assert flows.read(instance)["result"] == {"b": 1}
    assert any(line.get("valuesOmitted") for line in flows.history(instance))


def test_a_large_result_is_applied_by_itself(flows: Flows, service: RunningService, tenant: str, api: Api):
    instance = flows.run("* A → B", list(range(5)))
    values: list[Json] = [{"n": 0}, {"n": 1}, {"n": 2, "large": list(range(20_000))}, {"n": 3}, {"n": 4}]
    with ThreadPoolExecutor(5) as pool, kept_waiting(service, tenant, instance) as count_waiting:
        reports = []
        for job, value, waiting in zip(flows.poll("A"), values, (1, 2, 1, 1, 2), strict=True):
            reports.append(pool.submit(flows.complete, job, value))
            eventually(lambda waiting=waiting: count_waiting() == waiting)
    assert [report.result() for report in reports] == [None] * 5
    assert flows.job("B")["variables"]["input"] == values
    versions = done(api.get(f"/entity/{ulid_to_uuid(instance['id'])}/changes"))
    assert len(versions) == 4, "it begins, and there are three batches"


def test_outputs_of_nine_mebibytes_are_taken_on_a_busy_machine(flows: Flows):
    """Where it takes too long the answer says what to do, and who does that comes to an end."""
    instance = flows.run("* A → B", [0, 1])
    bodies = {
        job["id"]: encode({"workerId": "w-1", "variables": {"large": list(range(1_000_000, 2_150_000))}})
        for job in flows.poll("A")
    }
    assert {len(body) // MEBIBYTE for body in bodies.values()} == {8}

    def complete(job: str) -> int:
        for tries in range(1, 11):
            headers = {"Authorization": f"Bearer {flows.api.token}"}
            path = f"{flows.api.url}/v1/jobs/{job}/complete"
            told = httpx.post(path, content=bodies[job], headers=headers, timeout=60)
            if told.status_code == 204:
                return tries
            assert (told.status_code, "again" in told.json()["reason"]) in ((503, True), (504, True)), told.text
        return 0

    loop = [sys.executable, "-c", "while True: pass"]
    alone = 0 if "PYTEST_XDIST_WORKER" in os.environ else max(1, (os.cpu_count() or 1) // 2)
    busy = [subprocess.Popen(loop) for _ in range(alone)]  # beside other tests the machine is busy as it is
    try:
        with ThreadPoolExecutor(2) as pool:
            assert all(pool.map(complete, bodies))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    [job] = flows.poll("B")
    assert [len(output["large"]) for output in job["variables"]["input"]] == [1_150_000] * 2
    assert [line["status"] for line in flows.history(instance) if line["name"] == "A.1"].count("COMPLETED") == 3


def test_a_result_of_which_it_is_not_known_whether_it_counts_can_be_sent_again(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
):
    instance = flows.run("A")
    job = flows.job("A")

    async def lose_the_answer(*_: object) -> None:
        raise OutcomeUnknown("7c9e6679")

    body = {"workerId": "w-1", "variables": {"n": 1}}
    with monkeypatch.context() as patch:
        patch.setattr("statewright.services.processes.jobs.apply_or_keep", lose_the_answer)
        told = flows.api.post(f"/v1/jobs/{job['id']}/complete", body)
    assert "send the result again, it counts once" in an_error(told, 503, "unavailable")["reason"]
    assert told.headers["Retry-After"]
    flows.complete(job, {"n": 1})
    assert flows.read(instance)["result"] == {"n": 1}
    assert BARE_ERRORS.timeout is not None
    late = BARE_ERRORS.timeout()
    assert (late.status, "results of jobs can be sent again" in str(late.body)) == (504, True)


def test_lists_abridge_what_comes_after_much(flows: Flows):
    flow = flows.upload("A")
    small = flows.start(flow, {"n": 1})
    text = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=4 * MEBIBYTE))
    large = flows.start(flow, {"text": text}, businessKey="large")
    listed = done(flows.api.get("/v1/flows/instances"))
    assert [one["id"] for one in listed["items"]] == [large["id"], small["id"]]
    assert [one.get("abridged", False) for one in listed["items"]] == [False, True]
    abridged = listed["items"][1]
    assert (abridged["status"], abridged["definitionId"]) == ("RUNNING", flow)
    assert read_milliseconds(abridged["startedAt"]) == read_milliseconds(small["startedAt"])


def read_milliseconds(text: str) -> int:
    instant = from_rfc3339(text)
    assert instant is not None
    return instant // 1_000


def test_a_result_that_is_too_much_for_the_instance_fails_its_task(flows: Flows, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writing, "MAX_INSTANCE_CHARS", 4096)
    instance = flows.run("A | B → C")
    first, second = flows.poll("A", "B")
    flows.complete(first, {"text": "x" * 5000})
    flows.complete(second, {"b": 1})
    failed = flows.read(instance)
    assert failed["failedNodes"][0]["reason"].startswith("RESULT_TOO_LARGE: ")
    flow = flows.upload("A")
    refused = flows.api.post("/v1/flows/instances", {"definitionId": flow, "input": {"text": "x" * 5000}})
    assert "RESULT_TOO_LARGE" in an_error(refused, 400, "bad-request")["reason"]


@pytest.mark.parametrize("given", ['"text"', "1", "true", '{"a": "\\u0000"}', '{"a": NaN}'])
def test_what_is_no_input_or_output_is_refused(flows: Flows, given: str):
    flow = flows.upload("A")
    body = f'{{"definitionId": "{flow}", "input": {given}}}'
    an_error(flows.api.post("/v1/flows/instances", body), 400, "bad-request")
    instance = flows.start(flow)
    job = flows.job("A")
    refused = flows.api.post(f"/v1/jobs/{job['id']}/complete", f'{{"workerId": "w-1", "variables": {given}}}')
    an_error(refused, 400, "bad-request")
    flows.complete(job, {"a": 1})
    assert flows.read(instance)["status"] == "COMPLETED"

"""One operation on many entities (docs/reference/operations.md#bulk-jobs)."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID, uuid4

import httpx
import pytest

from statewright.cli.main import program
from statewright.entity import Principal
from statewright.ids import TenantId
from statewright.loop.background import cancel_all
from statewright.sdk import Client
from statewright.sdk.errors import Refused
from statewright.services.ops.bulk_jobs import prepare_search
from statewright.services.ops.bulk_runs import BulkRunner
from statewright.steps.instance import INSTANCE
from statewright.storage.ops.bulk_claims import BulkClaim, BulkJobs, decode_plan
from statewright.storage.ops.bulk_items import FreezeLost, freeze_entities
from statewright.storage.ops.incidents import write_incidents
from tests.builders import SAMPLE, Json, a_workflow, automated, manual, when
from tests.commands import CommandRunner
from tests.database import connected
from tests.integration.ops.builders import an_incident, ops_api, walk
from tests.integration.steps_http.conftest import definition, polled, started, step, uploaded
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, eventually, refused

T = TypeVar("T")

ALL = {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "NEW"}


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR", user="olga")


WORKFLOW = a_workflow(NEW=[manual("GO", to="DONE"), manual("STOP", to="DONE")], DONE=[])
MODEL = {"name": "prize", "version": 1}
INSTANCES = INSTANCE.key
LIVING = {"type": "lifecycle", "field": "state", "operatorType": "EQUALS", "value": "ACTIVE"}


def made(response: httpx.Response) -> Json:
    assert response.status_code == 201, response.text
    return response.json()


def a_set(api: Api, count: int, workflow: Json = WORKFLOW) -> list[str]:
    """Entities of a model in the state NEW."""
    api.a_model(workflow)
    documents = [SAMPLE] * count
    return sorted(id_ for each in done(api.post("/entity/JSON/prize/1", documents)) for id_ in each["entityIds"])


def run_on_database(service: RunningService, statement: str, *args: object) -> None:
    pool = service.parts.runtime.core.pool

    async def execute() -> None:
        async with pool.connection() as connection:
            await connection.execute(statement, *args)

    asyncio.run_coroutine_threadsafe(execute(), service.loop).result(PATIENCE_S)


def read_value(service: RunningService, statement: str, *args: object) -> object:
    pool = service.parts.runtime.core.pool

    async def fetch() -> object:
        async with pool.connection() as connection:
            return await connection.fetchval(statement, *args)

    return asyncio.run_coroutine_threadsafe(fetch(), service.loop).result(PATIENCE_S)


LEASE = "SELECT lease_until FROM bulk_job WHERE tenant = $1"


def begin(ops: Api, **order: Json) -> Json:
    body = {"operation": "TRANSITION", "arguments": {"transition": "GO"}, "ratePerSecond": 1000} | order
    return made(ops.post("/bulk-jobs", body))


def wait(ops: Api, job: Json, *statuses: str) -> Json:
    found: Json = {}

    def look() -> bool:
        found.update(done(ops.get(f"/bulk-jobs/{job['id']}")))
        return found["status"] in (statuses or ("COMPLETED",))

    eventually(look)
    return found


def get_totals(job: Json) -> Json:
    counts = {name: count for name, count in job["totals"].items() if name != "total"}
    assert sum(counts.values()) == job["totals"]["total"]
    return {name: count for name, count in counts.items() if count}


def test_a_transition_is_taken_by_all_that_matched_and_by_none_that_came_later(api: Api, ops: Api) -> None:
    ids = a_set(api, 5)
    job = wait(ops, begin(ops, model=MODEL, condition=ALL, dryRun=True), "READY")
    assert get_totals(job) == {"pending": 5}
    late = api.create()
    refused(ops.post(f"/bulk-jobs/{job['id']}/start", {"expectedCount": 4}), 409, "BULK_COUNT_CHANGED")
    assert done(ops.get(f"/bulk-jobs/{job['id']}"))["dryRun"]
    assert not done(ops.post(f"/bulk-jobs/{job['id']}/start", {"expectedCount": 5}))["dryRun"]
    ended = wait(ops, job)
    assert get_totals(ended) == {"succeeded": 5}
    assert not ended["dryRun"]
    assert {api.state(id_) for id_ in ids} == {"DONE"}
    assert api.state(late.id) == "NEW"
    items = walk(ops, f"/bulk-jobs/{job['id']}/items", limit=2)
    assert sorted(item["id"] for item in items) == ids
    assert {item["status"] for item in items} == {"SUCCEEDED"}
    assert all(item["transactionId"] for item in items)


def test_what_is_not_eligible_is_skipped_and_a_dry_run_says_so_before(api: Api, ops: Api) -> None:
    ids = a_set(api, 4, a_workflow(NEW=[manual("GO", to="DONE"), manual("STOP", to="OFF")], DONE=[], OFF=[]))
    api.update(ids[0], fire="STOP")
    done(api.delete(f"/entity/{ids[1]}"))
    made(ops.post("/suspensions", {"scope": "ENTITY", "id": ids[2], "reason": "audit"}))
    gone = str(uuid4())
    job = wait(ops, begin(ops, ids=[*ids, gone, ids[0]], dryRun=True), "READY")
    codes = {ids[0]: "NO_SUCH_TRANSITION", ids[1]: "GONE", ids[2]: "SUSPENDED", gone: "GONE"}
    judged = walk(ops, f"/bulk-jobs/{job['id']}/items", limit=10)
    assert {each["id"]: each.get("code") for each in judged} == {**codes, ids[3]: None}
    assert {each["status"] for each in judged} == {"SKIPPED", "ELIGIBLE"}
    assert get_totals(job) == {"pending": 1, "skipped": 4}
    assert api.state(ids[3]) == "NEW"
    done(ops.post(f"/bulk-jobs/{job['id']}/start"))
    assert get_totals(wait(ops, job)) == {"succeeded": 1, "skipped": 4}
    skipped = done(ops.get(f"/bulk-jobs/{job['id']}/items?status=SKIPPED"))["items"]
    assert {each["id"]: each["code"] for each in skipped} == codes


def test_a_dry_run_of_hundreds_counts_what_the_run_then_does(api: Api, ops: Api) -> None:
    held = a_workflow("held", criterion=when("$.year", "EQUALS", 1), NEW=[manual("GO", to="DONE")], DONE=[])
    open_ = a_workflow(
        "open",
        NEW=[
            automated("PASS", to="OFF", criterion=when("$.year", "EQUALS", 2)),
            manual("GO", to="DONE", criterion=when("$.motivation", "NOT_EQUAL", "blank")),
        ],
        OFF=[],
        DONE=[],
    )
    api.a_model(held, open_)
    wanted = {"SUSPENDED": 60, "NO_SUCH_TRANSITION": 60, "CRITERION": 60, None: 60}
    changes: tuple[Json, ...] = ({"year": 1}, {"year": 2}, {"motivation": "blank"}, {})
    documents = [
        {**SAMPLE, **change} for change, count in zip(changes, wanted.values(), strict=True) for _ in range(count)
    ]
    ids = [id_ for each in done(api.post("/entity/JSON/prize/1", documents)) for id_ in each["entityIds"]]
    made(ops.post("/suspensions", {"scope": "WORKFLOW", "model": MODEL, "workflow": "held", "reason": "audit"}))
    order = {"ids": [*ids, *(str(uuid4()) for _ in range(60))], "concurrency": 32, "dryRun": True}
    job = wait(ops, begin(ops, **order), "READY")
    assert get_totals(job) == {"pending": 60, "skipped": 240}
    assert count_codes(ops, job) == wanted | {"GONE": 60}
    done(ops.post(f"/bulk-jobs/{job['id']}/start"))
    assert get_totals(wait(ops, job)) == {"succeeded": 60, "skipped": 240}
    assert count_codes(ops, job) == wanted | {"GONE": 60}


def count_codes(ops: Api, job: Json) -> dict[str | None, int]:
    return Counter(item.get("code") for item in walk(ops, f"/bulk-jobs/{job['id']}/items", limit=1000))


@pytest.mark.parametrize("acts", [("start", "pause"), ("cancel",)])
def test_what_a_dry_run_has_found_is_told_until_it_is_started_or_cancelled(
    api: Api, ops: Api, acts: tuple[str, ...]
) -> None:
    """From then on the items are what the totals say they are."""
    ids = a_set(api, 4)
    done(api.delete(f"/entity/{ids[0]}"))
    job = wait(ops, begin(ops, ids=ids, dryRun=True, ratePerSecond=1, concurrency=1), "READY")
    path = f"/bulk-jobs/{job['id']}"
    for act in acts:
        job = done(ops.post(f"{path}/{act}"))
    statuses = [item["status"].lower() for item in walk(ops, f"{path}/items", limit=9)]
    assert Counter(statuses) == get_totals(job)
    for status in ("ELIGIBLE", "SKIPPED", "PENDING", "CANCELLED"):
        found = done(ops.get(f"{path}/items?status={status}"))["items"]
        assert len(found) == statuses.count(status.lower())


def test_entities_in_a_state_that_no_workflow_has_are_skipped_by_trial_and_run(api: Api, ops: Api) -> None:
    ids = a_set(api, 2)
    renamed = a_workflow(FRESH=[manual("GO", to="DONE")], DONE=[])
    done(api.post("/model/prize/1/workflow/import", {"importMode": "REPLACE", "workflows": [renamed]}))
    for is_dry in (True, False):
        job = wait(ops, begin(ops, ids=ids, dryRun=is_dry), "READY" if is_dry else "COMPLETED")
        assert get_totals(job) == {"skipped": 2}
        items = walk(ops, f"/bulk-jobs/{job['id']}/items", limit=10)
        assert {each["code"] for each in items} == {"NO_SUCH_TRANSITION"}


def test_a_criterion_that_does_not_hold_skips(api: Api, ops: Api) -> None:
    never = {"type": "simple", "jsonPath": "$.motivation", "operatorType": "EQUALS", "value": "never"}
    a_set(api, 2, a_workflow(NEW=[manual("GO", to="DONE", criterion=never)], DONE=[]))
    job = wait(ops, begin(ops, model=MODEL, condition=ALL, dryRun=True), "READY")
    assert get_totals(job) == {"skipped": 2}
    done(ops.post(f"/bulk-jobs/{job['id']}/start"))
    assert get_totals(wait(ops, job)) == {"skipped": 2}
    assert {item["code"] for item in walk(ops, f"/bulk-jobs/{job['id']}/items", limit=5)} == {"CRITERION"}


@pytest.mark.parametrize(
    ("operation", "arguments"), [("TRANSITION", {"transition": "advance"}), ("LOOPBACK", {}), ("DELETE", {})]
)
def test_what_its_creator_may_not_do_is_not_allowed(
    service: RunningService, api: Api, ops: Api, operation: str, arguments: Json
) -> None:
    """Entities of built-in models are moved and removed by their owner, but for what is open to clients."""
    v1 = replace(api, url=service.root)
    uploaded(v1, definition("errand", step("mail", "SERVICE_TASK", "end", jobType="mail")))
    started(v1, "errand")
    [instance] = done(api.get(f"/entity/{INSTANCES.name}/{INSTANCES.version}"))
    order = {"operation": operation, "arguments": arguments, "ids": [instance["meta"]["id"]]}
    for is_dry in (True, False):
        job = wait(ops, begin(ops, **order, dryRun=is_dry), "READY" if is_dry else "COMPLETED")
        assert list_codes(ops, job) == ["NOT_ALLOWED"]
        assert get_totals(job) == {"skipped": 1}


def test_what_does_not_match_any_more_is_skipped_where_it_is_judged_again(api: Api, ops: Api) -> None:
    ids = a_set(api, 3)
    order = {"operation": "DELETE", "arguments": {}, "model": MODEL, "condition": ALL, "recheck": True}
    job = wait(ops, begin(ops, **order, dryRun=True), "READY")
    api.update(ids[1], fire="GO")
    done(ops.post(f"/bulk-jobs/{job['id']}/start"))
    assert get_totals(wait(ops, job)) == {"succeeded": 2, "skipped": 1}
    assert api.state(ids[1]) == "DONE"
    assert api.get(f"/entity/{ids[0]}").status_code == 404


def test_the_entities_of_a_model_that_is_gone_are_gone(api: Api, ops: Api) -> None:
    ids = a_set(api, 2)
    job = wait(ops, begin(ops, model=MODEL, condition=ALL, recheck=True, dryRun=True), "READY")
    for id_ in ids:
        done(api.delete(f"/entity/{id_}"))
    done(api.put("/model/prize/1/unlock"))
    done(api.delete("/model/prize/1"))
    done(ops.post(f"/bulk-jobs/{job['id']}/start"))
    assert get_totals(wait(ops, job)) == {"skipped": 2}
    assert list_codes(ops, job) == ["GONE", "GONE"]


def test_a_patch_reaches_all_and_a_loopback_too(api: Api, ops: Api) -> None:
    ids = a_set(api, 2)
    patch = {"mergePatch": {"motivation": "month end"}}
    wait(ops, begin(ops, operation="PATCH", arguments=patch, ids=ids))
    assert {api.read(id_)["data"]["motivation"] for id_ in ids} == {"month end"}
    assert get_totals(wait(ops, begin(ops, operation="LOOPBACK", arguments={}, ids=ids))) == {"succeeded": 2}


def test_totals_add_up_while_a_job_is_paused_paced_and_cancelled(api: Api, ops: Api) -> None:
    ids = a_set(api, 40)
    job = begin(ops, ids=ids, ratePerSecond=10, concurrency=2)
    path = f"/bulk-jobs/{job['id']}"
    eventually(lambda: get_totals(done(ops.get(path))).get("succeeded", 0) >= 2)
    paused = done(ops.post(f"{path}/pause"))
    assert paused["status"] == "PAUSED"
    assert "running" not in get_totals(paused)
    taken = get_totals(paused)["succeeded"]
    time.sleep(0.5)
    assert get_totals(done(ops.get(path)))["succeeded"] == taken
    assert done(ops.post(f"{path}/pause"))["status"] == "PAUSED"
    refused(ops.post(f"{path}/start"), 409, "BULK_STATE")
    done(ops.request("PATCH", path, {"ratePerSecond": 20}))
    done(ops.post(f"{path}/resume"))
    eventually(lambda: get_totals(done(ops.get(path)))["succeeded"] > taken)
    cancelled = done(ops.post(f"{path}/cancel"))
    totals = get_totals(cancelled)
    assert cancelled["status"] == "CANCELLED"
    assert totals["succeeded"] + totals["cancelled"] == 40
    assert [api.state(id_) for id_ in ids].count("DONE") == totals["succeeded"]
    refused(ops.post(f"{path}/resume"), 409, "BULK_STATE")
    statuses = [item["status"] for item in walk(ops, f"{path}/items", limit=50)]
    assert statuses.count("CANCELLED") == totals["cancelled"]
    acts = [act["action"] for act in walk(ops, "/audit", limit=50) if act["target"]["id"] == job["id"]]
    assert acts == ["bulk.cancel", "bulk.resume", "bulk.pace", "bulk.pause", "bulk.create"]


def test_the_rate_is_kept(api: Api, ops: Api) -> None:
    job = wait(ops, begin(ops, ids=a_set(api, 60), ratePerSecond=50))
    taken_s = (datetime.fromisoformat(job["finishedAt"]) - datetime.fromisoformat(job["startedAt"])).total_seconds()
    assert taken_s >= 59 / 50 * 0.9


def test_failures_stop_a_job_and_can_be_tried_again(api: Api, ops: Api) -> None:
    ids = a_set(api, 6)
    arguments = {"jsonPatch": [{"op": "remove", "path": "/nowhere"}]}
    order = {"operation": "PATCH", "arguments": arguments, "ids": ids, "stopAfterFailures": 2, "concurrency": 1}
    job = wait(ops, begin(ops, **order), "STOPPED")
    assert get_totals(job)["failed"] >= 2
    assert {each["code"] for each in job["lastErrors"]} == {"BAD_REQUEST"}
    again = made(ops.post(f"/bulk-jobs/{job['id']}/retry-failed"))
    assert again["totals"]["total"] == job["totals"]["failed"]
    failed = [each["id"] for each in walk(ops, f"/bulk-jobs/{job['id']}/items", limit=9) if each["status"] == "FAILED"]
    assert [each["id"] for each in walk(ops, f"/bulk-jobs/{again['id']}/items", limit=9)] == failed
    done(ops.post(f"/bulk-jobs/{job['id']}/resume"))
    wait(ops, job, "STOPPED")


def test_after_a_day_of_running_a_job_pauses_until_somebody_takes_it_on(
    service: RunningService, api: Api, ops: Api, tenant: str
) -> None:
    job = begin(ops, ids=a_set(api, 30), ratePerSecond=4)
    run_on_database(service, "UPDATE bulk_job SET ran_us = 86400000000 WHERE tenant = $1", tenant)
    wait(ops, job, "PAUSED")
    assert done(ops.post(f"/bulk-jobs/{job['id']}/resume"))["status"] == "RUNNING"
    done(ops.post(f"/bulk-jobs/{job['id']}/cancel"))


def test_a_job_that_goes_on_before_its_last_items_have_ended_forgets_none(
    service: RunningService, api: Api, ops: Api, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paused and resumed while an item waits for a row that somebody else holds."""
    monkeypatch.setattr("statewright.services.ops.bulk_runs.BEAT_S", 0.05)
    ids = a_set(api, 3)
    held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        async def lock() -> None:
            async with connected(service.database) as connection, connection.transaction():
                await connection.execute("SELECT FROM entity WHERE id = $1 FOR UPDATE", UUID(ids[0]))
                held.set()
                await asyncio.to_thread(may_end.wait, PATIENCE_S)

        asyncio.run(lock())

    def hear() -> None:
        """The node that works on the job has heard of its status."""
        before = read_value(service, LEASE, tenant)
        eventually(lambda: read_value(service, LEASE, tenant) != before)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(PATIENCE_S)
    job = begin(ops, ids=ids, concurrency=1)
    eventually(lambda: read_value(service, "SELECT running FROM bulk_job WHERE tenant = $1", tenant))
    run_on_database(service, "UPDATE bulk_job SET status = 'PAUSED' WHERE tenant = $1", tenant)
    hear()
    assert done(ops.post(f"/bulk-jobs/{job['id']}/resume"))["status"] == "RUNNING"
    hear()
    may_end.set()
    holder.join(PATIENCE_S)
    assert get_totals(wait(ops, job)) == {"succeeded": 3}


def test_a_job_goes_on_as_who_resumed_it_though_its_node_has_not_heard_of_the_pause(
    service: RunningService, api: Api, ops: Api, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were resumed right behind it; the node that works on the job looks twice a second."""
    monkeypatch.setattr("statewright.services.ops.bulk_jobs.HEARD_S", PATIENCE_S)
    oscar = ops_api(service, tenant, "ROLE_OPERATOR", user="oscar")
    job = begin(ops, ids=a_set(api, 40), ratePerSecond=20, concurrency=1)
    path = f"/bulk-jobs/{job['id']}"
    eventually(lambda: get_totals(done(ops.get(path))).get("succeeded", 0) >= 2)
    run_on_database(service, "UPDATE bulk_job SET status = 'PAUSED' WHERE tenant = $1", tenant)
    resumed = done(oscar.post(f"{path}/resume"))
    assert resumed["status"] == "RUNNING"
    assert get_totals(wait(ops, job)) == {"succeeded": 40}
    items = [item["id"] for item in walk(ops, f"{path}/items", limit=50)]
    authors = [done(api.get(f"/entity/{id_}/changes"))[0]["user"] for id_ in items]
    assert authors == ["olga"] * authors.count("olga") + ["oscar"] * authors.count("oscar")
    assert authors.count("oscar") >= get_totals(resumed)["pending"]


def test_a_job_that_another_has_resumed_is_taken_anew(
    service: RunningService, api: Api, ops: Api, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the node heard: even of a resumption that did not wait for it."""
    monkeypatch.setattr("statewright.services.ops.bulk_jobs.HEARD_S", 0.0)
    oscar = ops_api(service, tenant, "ROLE_OPERATOR", user="oscar")
    ids = a_set(api, 40)
    job = begin(ops, ids=ids, ratePerSecond=20, concurrency=1)
    eventually(lambda: get_totals(done(ops.get(f"/bulk-jobs/{job['id']}"))).get("succeeded", 0) >= 2)
    run_on_database(service, "UPDATE bulk_job SET status = 'PAUSED' WHERE tenant = $1", tenant)
    assert done(oscar.post(f"/bulk-jobs/{job['id']}/resume"))["status"] == "RUNNING"
    assert get_totals(wait(ops, job)) == {"succeeded": 40}
    last = walk(ops, f"/bulk-jobs/{job['id']}/items", limit=50)[-1]["id"]
    assert done(api.get(f"/entity/{last}/changes"))[0]["user"] == "oscar"


def test_a_job_goes_on_when_another_has_taken_it_and_no_item_is_done_twice(
    service: RunningService, api: Api, ops: Api, tenant: str
) -> None:
    """As if the node had been taken for dead: its commits are refused, and its lease is another's."""
    ids = a_set(api, 60, a_workflow(NEW=[manual("GO", to="NEW")]))
    job = begin(ops, ids=ids, ratePerSecond=100, concurrency=8)
    for _ in range(3):
        time.sleep(0.15)
        run_on_database(service, "UPDATE bulk_job SET worker = 'other', lease_until = 0 WHERE tenant = $1", tenant)
    assert get_totals(wait(ops, job)) == {"succeeded": 60}
    assert {len(done(api.get(f"/entity/{id_}/changes"))) for id_ in ids} == {2}


@pytest.mark.parametrize(
    ("order", "parameter"),
    [
        ({"operation": "MIGRATE"}, "/operation"),
        ({"arguments": {}, "ids": [str(uuid4())]}, "/arguments/transition"),
        ({"model": MODEL, "ids": [str(uuid4())], "condition": ALL}, "/ids"),
        ({"ids": ["x"]}, "/ids/0"),
        ({"ids": [str(uuid4())], "recheck": True}, "/recheck"),
        ({"ratePerSecond": 0}, "/ratePerSecond"),
        ({"concurrency": 33}, "/concurrency"),
        ({"colour": 1}, "/colour"),
        ({"model": MODEL}, "/condition"),
        ({"ids": [str(uuid4())], "arguments": {"transition": "GO", "force": True}}, "/arguments/force"),
        ({"incidents": {}}, "/incidents"),
        ({"operation": "RETRY_INCIDENTS", "arguments": {}}, "/incidents"),
        ({"operation": "RETRY_INCIDENTS", "arguments": {}, "model": MODEL, "condition": ALL}, "/model"),
        ({"operation": "RETRY_INCIDENTS", "arguments": {}, "incidents": {"colour": ["red"]}}, "/incidents/colour"),
        ({"operation": "RETRY_INCIDENTS", "arguments": {}, "incidents": {"lastTo": "soon"}}, "/incidents/lastTo"),
        ({"operation": "RESOLVE_INCIDENTS", "arguments": {}, "incidents": {}}, "/reason"),
        ({"operation": "SUSPEND", "arguments": {}, "ids": [str(uuid4())]}, "/reason"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(ops: Api, order: Json, parameter: str) -> None:
    body = {"operation": "TRANSITION", "arguments": {"transition": "GO"}} | order
    assert refused(ops.post("/bulk-jobs", body), 400, "BAD_REQUEST")["properties"]["parameter"] == parameter


def test_jobs_are_for_operators_of_their_tenant(service: RunningService, api: Api, ops: Api, tenant: str) -> None:
    job = begin(ops, ids=a_set(api, 1), dryRun=True)
    stranger = ops_api(service, f"{tenant}-other", "ROLE_ADMIN")
    for path in (f"/bulk-jobs/{job['id']}", f"/bulk-jobs/{job['id']}/items"):
        refused(stranger.get(path), 404, "BULK_JOB_NOT_FOUND")
        refused(ops_api(service, tenant).get(path), 403, "FORBIDDEN")
    for act in ("start", "pause", "resume", "cancel", "retry-failed"):
        refused(stranger.post(f"/bulk-jobs/{job['id']}/{act}"), 404, "BULK_JOB_NOT_FOUND")
    assert done(stranger.get("/bulk-jobs"))["items"] == []


def test_a_tenant_has_ten_unfinished_jobs_at_most(api: Api, ops: Api) -> None:
    [id_] = a_set(api, 1)
    jobs = [begin(ops, ids=[id_], dryRun=True) for _ in range(10)]
    order = {"operation": "TRANSITION", "arguments": {"transition": "GO"}, "ids": [id_]}
    assert refused(ops.post("/bulk-jobs", order), 409, "LIMIT_REACHED")["properties"]["limit"] == 10
    assert [each["id"] for each in walk(ops, "/bulk-jobs", limit=3)] == [each["id"] for each in reversed(jobs)]
    done(ops.post(f"/bulk-jobs/{jobs[0]['id']}/cancel"))
    begin(ops, ids=[id_])


def test_a_node_that_has_lost_a_job_does_not_freeze_it_again(
    service: RunningService, api: Api, ops: Api, tenant: str
) -> None:
    """Its set is the same, but its order need not be, and results are known by their place."""
    a_set(api, 3)
    job = wait(ops, begin(ops, model=MODEL, condition=ALL, dryRun=True), "READY")
    before = walk(ops, f"/bulk-jobs/{job['id']}/items", limit=5)
    pool, core = service.parts.runtime.core.pool, service.parts.runtime.core

    async def freeze() -> None:
        async with pool.connection() as connection:
            plan = decode_plan(await connection.fetchval("SELECT plan FROM bulk_job WHERE id = $1", job["id"]))
        principal = Principal(id="olga", name="olga", kind="user", tenant=TenantId(tenant))
        claim = BulkClaim(
            tenant=TenantId(tenant),
            id=job["id"],
            status="FREEZING",
            plan=plan,
            principal=principal,
            rate=1,
            concurrency=1,
            total=None,
            instant=None,
            worker="former",
            reason=None,
        )
        async with pool.connection() as connection:
            await connection.execute("UPDATE bulk_job SET worker = 'former' WHERE id = $1", job["id"])
        await freeze_entities(pool, pool, claim, await prepare_search(core, principal, plan))

    with pytest.raises(FreezeLost):
        asyncio.run_coroutine_threadsafe(freeze(), service.loop).result(PATIENCE_S)
    assert walk(ops, f"/bulk-jobs/{job['id']}/items", limit=5) == before


def list_items(ops: Api, job: Json) -> list[Json]:
    return walk(ops, f"/bulk-jobs/{job['id']}/items", limit=50)


def list_codes(ops: Api, job: Json) -> list[str]:
    return sorted(item.get("code") or item["status"] for item in list_items(ops, job))


def test_entities_are_suspended_and_go_on(api: Api, ops: Api) -> None:
    ids = a_set(api, 3)
    made(ops.post("/suspensions", {"scope": "ENTITY", "id": ids[0], "reason": "before"}))
    order = {"operation": "SUSPEND", "arguments": {}, "reason": "audit", "ids": [*ids, str(uuid4())]}
    trial = wait(ops, begin(ops, **order, dryRun=True), "READY")
    job = wait(ops, begin(ops, **order))
    assert list_codes(ops, job) == ["GONE", "SUCCEEDED", "SUCCEEDED", "SUSPENDED"]
    assert get_totals(job)["skipped"] == get_totals(trial)["skipped"] == 2
    for id_ in ids:
        refused(api.put(f"/entity/JSON/{id_}/GO", SAMPLE), 409, "SUSPENDED")
    done(ops.post(f"/bulk-jobs/{trial['id']}/cancel"))
    over = wait(ops, begin(ops, operation="RESUME", arguments={}, model=MODEL, condition=ALL))
    assert get_totals(over) == {"succeeded": 3}
    assert {api.update(id_, fire="GO") and api.state(id_) for id_ in ids} == {"DONE"}
    again = wait(ops, begin(ops, operation="RESUME", arguments={}, ids=ids))
    assert list_codes(ops, again) == ["NOT_SUSPENDED"] * 3


HANGING = """
    INSERT INTO cluster_node (id, name, address, machine, program, draining, revision, lease_until)
    VALUES ('hanging', 'hanging', '127.0.0.1:1', 'another', 'x', true, 0, now_us() + 3600000000)
"""
GONE = "DELETE FROM cluster_node WHERE id = 'hanging'"


@pytest.mark.parametrize("ends", ["the node", "the wait"])
def test_a_job_that_resumes_waits_for_a_node_that_hangs_until_it_is_gone_or_for_so_long(
    service: RunningService, api: Api, ops: Api, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """The node has a lease and does not say that it knows of what goes on; that goes on here nonetheless."""
    within_s = 600.0 if ends == "the node" else 0.5
    ids = a_set(api, 2)
    wait(ops, begin(ops, operation="SUSPEND", arguments={}, reason="audit", ids=ids))
    monkeypatch.setattr("statewright.services.ops.waiting.CONFIRM_WITHIN_S", within_s)
    run_on_database(service, HANGING)
    begun = time.monotonic()
    try:
        job = begin(ops, operation="RESUME", arguments={}, ids=ids)
        eventually(lambda: get_totals(done(ops.get(f"/bulk-jobs/{job['id']}"))) == {"succeeded": 2})
        assert {api.update(id_, fire="GO") and api.state(id_) for id_ in ids} == {"DONE"}
        if ends == "the node":
            assert done(ops.get(f"/bulk-jobs/{job['id']}"))["status"] == "RUNNING"
            run_on_database(service, GONE)
        assert get_totals(wait(ops, job)) == {"succeeded": 2}
    finally:
        run_on_database(service, GONE)
    assert ends == "the node" or time.monotonic() - begun > within_s


def test_instances_are_cancelled_and_those_that_failed_begin_again(service: RunningService, api: Api, ops: Api) -> None:
    v1 = replace(api, url=service.root)
    uploaded(v1, definition("errand", step("mail", "SERVICE_TASK", "end", jobType="mail")))
    ids = [started(v1, "errand")["id"] for _ in range(3)]
    [job] = polled(v1, "mail", maxJobs=1)
    failed = job["instanceId"]
    assert v1.post(
        f"/v1/jobs/{job['id']}/fail", {"workerId": "w-1", "errorMessage": "no", "retryable": False}
    ).is_success
    entity = a_set(api, 1)[0]
    again = {"operation": "RETRY_INSTANCES", "arguments": {}, "ids": [*ids, entity]}
    trial = wait(ops, begin(ops, **again, dryRun=True), "READY")
    assert list_codes(ops, trial) == ["ELIGIBLE", "GONE", "NO_SUCH_TRANSITION", "NO_SUCH_TRANSITION"]
    done(ops.post(f"/bulk-jobs/{trial['id']}/start"))
    assert get_totals(wait(ops, trial)) == {"succeeded": 1, "skipped": 3}
    assert done(v1.get(f"/v1/instances/{failed}"))["status"] == "ACTIVE"
    chosen = {"model": {"name": INSTANCES.name, "version": INSTANCES.version}, "condition": LIVING}
    refused(ops.post("/bulk-jobs", {"operation": "LOOPBACK", **chosen}), 403, "FORBIDDEN")
    held = wait(ops, begin(ops, operation="SUSPEND", arguments={}, reason="audit", ids=[failed]))
    assert get_totals(held) == {"succeeded": 1}
    assert [each["scope"] for each in done(ops.get("/suspensions?active=true"))["items"]] == ["INSTANCE"]
    assert get_totals(wait(ops, begin(ops, operation="RESUME", arguments={}, ids=[failed]))) == {"succeeded": 1}
    gone = wait(ops, begin(ops, operation="CANCEL_INSTANCES", arguments={}, **chosen))
    assert get_totals(gone) == {"succeeded": 3}
    assert {done(v1.get(f"/v1/instances/{id_}"))["status"] for id_ in ids} == {"CANCELLED"}
    assert all(item["transactionId"] for item in walk(ops, f"/bulk-jobs/{gone['id']}/items", limit=50))


def test_the_incidents_of_a_cause_are_retried_and_others_resolved(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    flow = a_workflow(NEW=[automated("GO", to="NEW", criterion=when("$.year", "EQUALS", 7))], OTHER=[])
    ids = a_set(api, 3, flow)
    for id_ in ids:
        refused(api.put(f"/entity/JSON/{id_}", {**SAMPLE, "year": 7}), 400, "WORKFLOW_FAILED")
    eventually(lambda: len(done(ops.get("/incidents"))["items"]) == 3)
    [group] = done(ops.get("/incident-groups"))["items"]
    cause = group["fingerprint"]
    with Client(service.root, token=a_token(tenant, "olga", user_roles=["ROLE_OPERATOR"])) as client:
        failed = client.incidents.retry_group(cause)
        assert failed.operation == "RETRY_INCIDENTS"
        assert get_totals(wait(ops, {"id": failed.id})) == {"failed": 3}
        # Failures are written behind; one that comes after the success waits for a sweep to be closed.
        eventually(lambda: [each["occurrences"] for each in done(ops.get("/incidents"))["items"]] == [2, 2, 2])
        api.import_workflows(a_workflow(NEW=[]))
        assert get_totals(wait(ops, made(ops.post(f"/bulk-jobs/{failed.id}/retry-failed")))) == {"succeeded": 3}
        assert done(ops.get("/incidents"))["items"] == []
        assert [done(api.get(f"/entity/{id_}"))["data"]["year"] for id_ in ids] == [7, 7, 7]
        with pytest.raises(Refused, match="INCIDENT_NOT_FOUND"):
            client.incidents.resolve_group(cause, "over")
    acts = done(ops.get("/audit?action=incident.retry"))["items"]
    assert len(acts) == 3
    refused(ops_api(service, tenant).post(f"/incident-groups/{cause}/retry"), 403, "FORBIDDEN")


def test_incidents_that_filters_choose_are_resolved_and_no_others(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    rows = [an_incident(tenant, str(number), component="a" if number < 3 else "b") for number in range(4)]
    pool = service.parts.runtime.core.pool
    asyncio.run_coroutine_threadsafe(write_incidents(pool, rows), service.loop).result(PATIENCE_S)
    order = {"operation": "RESOLVE_INCIDENTS", "arguments": {}, "reason": "known"}
    wanted = {"kind": ["RUN_FAILED"], "component": ["a"], "firstFrom": "2020-01-01T00:00:00Z"}
    job = wait(ops, begin(ops, **order, incidents=wanted))
    assert get_totals(job) == {"succeeded": 3}
    [left] = done(ops.get("/incidents"))["items"]
    assert left["component"] == "b"
    over = wait(ops, begin(ops, **order, ids=[row.id for row in rows]))
    assert list_codes(ops, over) == ["CLOSED", "CLOSED", "CLOSED", "SUCCEEDED"]
    found = done(ops.get("/incidents?status=RESOLVED"))["items"]
    assert {(each["resolution"]["by"]["id"], each["resolution"]["reason"]) for each in found} == {("olga", "known")}


def test_a_node_that_stops_gives_its_jobs_back_and_another_goes_on_at_once(
    service: RunningService, api: Api, ops: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No item is lost with what was under way, and none is done twice."""
    operations, pool = service.parts.runtime.operations, service.parts.runtime.core.pool

    claim = BulkJobs.claim

    class OwnJobs(BulkJobs):
        async def claim(self, worker: str, *, lease: timedelta, most: int) -> list[BulkClaim]:
            return await claim(self, worker, lease=lease, most=most)

    async def claim_nothing(*_: object, **__: object) -> list[BulkClaim]:
        return []

    async def work_for_a_while() -> None:
        stopping = asyncio.create_task(BulkRunner(OwnJobs(pool, pool)).run(operations))
        await asyncio.sleep(0.5)
        await cancel_all([stopping])

    async def read_worker(job: str) -> str | None:
        async with pool.connection() as connection:
            return await connection.fetchval("SELECT worker FROM bulk_job WHERE id = $1", job)

    def run(work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, service.loop).result(PATIENCE_S)

    ids = a_set(api, 60, a_workflow(NEW=[manual("GO", to="NEW")]))
    with monkeypatch.context() as patch:
        patch.setattr(BulkJobs, "claim", claim_nothing)
        job = begin(ops, ids=ids, ratePerSecond=100, concurrency=8)
        run(work_for_a_while())
        found = done(ops.get(f"/bulk-jobs/{job['id']}"))
        assert (found["status"], found["totals"]["running"], run(read_worker(job["id"]))) == ("RUNNING", 0, None)
        assert 0 < found["totals"]["succeeded"] < 60
    stopped = time.monotonic()
    operations.bulk.wake()
    assert get_totals(wait(ops, job)) == {"succeeded": 60}
    assert time.monotonic() - stopped < 10
    assert {len(done(api.get(f"/entity/{id_}/changes"))) for id_ in ids} == {2}


def test_the_command_that_watches_draws_a_bar_while_the_job_runs(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    job = begin(ops, ids=a_set(api, 3), ratePerSecond=2)
    there = {
        "STATEWRIGHT_URL": service.root,
        "STATEWRIGHT_TOKEN": a_token(tenant, "olga", user_roles=["ROLE_OPERATOR"]),
    }
    told = CommandRunner().invoke(program, ["ops", "bulk", "watch", job["id"]], env=there)
    assert told.exit_code == 0, told.output
    assert "RUNNING [" in told.stderr
    assert "COMPLETED" in told.stdout
    assert f"[{'#' * 40}] 3 of 3: 3 succeeded" in told.stdout
    arguments = {"jsonPatch": [{"op": "remove", "path": "/nowhere"}]}
    failing = begin(ops, operation="PATCH", arguments=arguments, ids=[item["id"] for item in list_items(ops, job)])
    told = CommandRunner().invoke(program, ["ops", "bulk", "watch", failing["id"], "--json"], env=there)
    assert (told.exit_code, json.loads(told.stdout)["totals"]["failed"]) == (1, 3)

"""Suspending and resuming (docs/reference/operations.md#suspensions)."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from statewright.cli.main import program
from statewright.net import ulid_to_uuid
from statewright.services.ops import waiting
from statewright.storage.connections import parse_database_url
from statewright.storage.ops.suspensions import mark_effective
from statewright.storage.pool import Pool
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.commands import CommandRunner
from tests.database import Template, connected
from tests.integration.node import Node, a_node
from tests.integration.ops.builders import ops_api, walk
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, eventually, hosted, refused

FLOW = a_workflow(NEW=[manual("GO", to="DONE"), manual("STOP", to="STOPPED")], DONE=[], STOPPED=[])
PRIZE: Json = {"name": "prize", "version": 1}


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_ADMIN", user="olga")


@pytest.fixture
def node(service: RunningService, tenant: str) -> Iterator[Node]:
    with a_node(service, tenant, "node") as node:
        yield node


def suspend(ops: Api, scope: str, **target: Json) -> str:
    response = ops.post("/suspensions", {"scope": scope, "reason": "bank is down", **target})
    assert response.status_code == 201, response.text
    assert response.json()["effective"] is True
    return str(response.json()["id"])


def resume(ops: Api, id_: str, **members: Json) -> Json:
    return done(ops.post(f"/suspensions/{id_}/resume", members))


def an_entity(api: Api, *flows: Json) -> str:
    return api.create(model=api.a_model(*flows or (FLOW,))).id


def test_a_suspended_entity_is_read_and_not_moved(api: Api, ops: Api) -> None:
    entity, other = an_entity(api), api.create().id
    before = api.read(entity)
    id_ = suspend(ops, "ENTITY", id=entity)
    problem = refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "SUSPENDED")
    assert problem["properties"]["scope"] == "ENTITY"
    assert problem["properties"]["suspensionId"] == id_
    assert problem["properties"]["reason"] == "bank is down"
    refused(api.put(f"/entity/JSON/{entity}", SAMPLE), 409, "SUSPENDED")
    assert api.read(entity) == before
    assert len(api.get(f"/entity/{entity}/changes").json()) == 1
    assert api.put(f"/entity/JSON/{other}/GO", SAMPLE).status_code == 200
    resume(ops, id_)
    assert api.put(f"/entity/JSON/{entity}/GO", SAMPLE).status_code == 200


def test_a_suspended_entity_can_be_deleted(api: Api, ops: Api) -> None:
    entity = an_entity(api)
    suspend(ops, "ENTITY", id=entity)
    assert api.delete(f"/entity/{entity}").status_code == 200


def test_a_run_that_began_before_fails_when_it_commits(api: Api, ops: Api, node: Node) -> None:
    entity = an_entity(api, a_workflow(NEW=[manual("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    with ThreadPoolExecutor() as clients:
        firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
        request = node.next()
        suspend(ops, "ENTITY", id=entity)
        node.answer(request)
        refused(firing.result(PATIENCE_S), 409, "SUSPENDED")
    assert api.state(entity) == "NEW"


def test_what_is_half_done_comes_to_its_end(api: Api, ops: Api, node: Node) -> None:
    processor = a_processor(mode="COMMIT_BEFORE_DISPATCH")
    entity = an_entity(api, a_workflow(NEW=[manual("GO", to="DONE", processors=[processor])], DONE=[]))
    with ThreadPoolExecutor() as clients:
        firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
        request = node.next()
        suspend(ops, "ENTITY", id=entity)
        suspend(ops, "MODEL", model=PRIZE)
        node.answer(request)
        assert firing.result(PATIENCE_S).status_code == 200
    assert api.state(entity) == "DONE"


def test_no_version_is_later_than_the_suspension(api: Api, ops: Api) -> None:
    """Writers who race with it: whatever is answered after it is a refusal, and the entity stays as it is."""
    entity = an_entity(api)
    begun, ended = threading.Event(), threading.Event()

    def write() -> None:
        while not ended.is_set():
            if api.put(f"/entity/JSON/{entity}", SAMPLE).status_code == 200:
                begun.set()

    with ThreadPoolExecutor() as clients:
        writers = [clients.submit(write) for _ in range(4)]
        assert begun.wait(PATIENCE_S)
        suspend(ops, "ENTITY", id=entity)
        versions = len(api.get(f"/entity/{entity}/changes").json())
        for _ in range(20):
            refused(api.put(f"/entity/JSON/{entity}", SAMPLE), 409, "SUSPENDED")
        assert len(api.get(f"/entity/{entity}/changes").json()) == versions
        ended.set()
        for writer in writers:
            writer.result(PATIENCE_S)


@pytest.mark.parametrize(
    ("scope", "target"),
    [("MODEL", {"model": PRIZE}), ("WORKFLOW", {"model": PRIZE, "workflow": "lifecycle"}), ("TENANT", {})],
)
def test_wider_scopes_stop_all_writes_of_what_they_cover(api: Api, ops: Api, scope: str, target: Json) -> None:
    entity = an_entity(api)
    id_ = suspend(ops, scope, **target)
    refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "SUSPENDED")
    refused(api.put(f"/entity/JSON/{entity}", SAMPLE), 409, "SUSPENDED")
    refused(api.post("/entity/JSON/prize/1", SAMPLE), 409, "SUSPENDED")
    refused(api.post("/entity/JSON", [{"model": PRIZE, "payload": "{}"}]), 409, "SUSPENDED")
    assert api.read(entity)["meta"]["state"] == "NEW"
    resume(ops, id_)
    assert api.put(f"/entity/JSON/{entity}/GO", SAMPLE).status_code == 200


def test_a_suspended_transition_is_refused_by_name_and_others_go_on(api: Api, ops: Api) -> None:
    entity = an_entity(api)
    suspend(ops, "TRANSITION", model=PRIZE, transition="GO")
    refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "SUSPENDED")
    assert api.put(f"/entity/JSON/{entity}/STOP", SAMPLE).status_code == 200


def test_a_cascade_settles_before_a_suspended_transition(api: Api, ops: Api) -> None:
    flow = a_workflow(NEW=[automated("PAY", to="PAID"), automated("DROP", to="DROPPED")], PAID=[], DROPPED=[])
    api.a_model(flow)
    suspend(ops, "TRANSITION", model=PRIZE, workflow="lifecycle", transition="PAY")
    entity = api.create().id
    assert api.state(entity) == "NEW"
    items = done(api.get(f"/audit/entity/{entity}?eventType=StateMachine"))["items"]
    events = [event for event in items if event["eventType"] == "TRANSITION_NOT_MATCH_CRITERION"]
    assert [event["data"]["reason"] for event in events] == ["suspended"]


@pytest.mark.parametrize("mode", ["SYNC", "ASYNC_NEW_TX", "COMMIT_BEFORE_DISPATCH"])
def test_no_member_is_asked_whose_tag_is_suspended(api: Api, ops: Api, node: Node, mode: str) -> None:
    go = manual("GO", to="DONE", processors=[a_processor(mode=mode)])
    entity = an_entity(api, a_workflow(NEW=[go], DONE=[]))
    id_ = suspend(ops, "TAG", name="NODE")
    refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "SUSPENDED")
    assert node.is_idle
    assert len(api.get(f"/entity/{entity}/changes").json()) == 1
    resume(ops, id_)
    with ThreadPoolExecutor() as clients:
        firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
        node.answer_next()
        assert firing.result(PATIENCE_S).status_code == 200


def test_timers_can_be_moved_by_the_pause(api: Api, ops: Api) -> None:
    expire = automated("EXPIRE", to="GONE", schedule={"delayMs": 3_600_000})
    entity = an_entity(api, a_workflow(NEW=[expire], GONE=[]))

    def due() -> datetime:
        [timer] = done(ops.get(f"/entities/{entity}/explain"))["timers"]
        return datetime.fromisoformat(timer["dueAt"])

    armed = due()
    id_ = suspend(ops, "ENTITY", id=entity)
    ended = resume(ops, id_, timers="SHIFT")
    length = datetime.fromisoformat(ended["endedAt"]) - datetime.fromisoformat(ended["since"])
    assert abs(due() - armed - length) < timedelta(seconds=1)


@pytest.mark.parametrize("timers", ["FIRE", "SHIFT"])
def test_a_timer_at_the_end_of_time_keeps_no_suspension_from_ending(api: Api, ops: Api, timers: str) -> None:
    last = 2**63 - 1
    soon = automated("SOON", to="GONE", schedule={"delayMs": 1, "timeoutMs": last})
    never = automated("NEVER", to="GONE", schedule={"delayMs": last})
    api.a_model(a_workflow(NEW=[soon, never], GONE=[]))
    first = suspend(ops, "TRANSITION", model=PRIZE, transition="SOON")
    entity = api.create().id
    resume(ops, suspend(ops, "MODEL", model=PRIZE), timers=timers)
    due = [timer["dueAt"] for timer in done(ops.get(f"/entities/{entity}/explain"))["timers"]]
    assert max(due) == "9999-12-31T23:59:59.999999Z"
    resume(ops, first, timers=timers)
    eventually(lambda: api.state(entity) == "GONE")


def wait_for_timers(api: Api) -> None:
    """Returns when a timer that was armed now has fired, and so all that were due before."""
    control = api.create(model="control/1").id
    eventually(lambda: api.state(control) == "GONE")


@pytest.mark.parametrize(("timers", "tolerated"), [("FIRE", {"timeoutMs": 100}), ("SHIFT", {})])
def test_a_timer_waits_for_the_end_and_fires_once(api: Api, ops: Api, timers: str, tolerated: Json) -> None:
    """The pause is no lateness, of which it tolerates 100 ms."""
    expire = automated("EXPIRE", to="GONE", schedule={"delayMs": 1000, **tolerated})
    flow = a_workflow(NEW=[expire], GONE=[])
    api.a_model(a_workflow(NEW=[expire | {"schedule": {"delayMs": 1500}}], GONE=[]), model="control/1")
    entity = an_entity(api, flow)
    id_ = suspend(ops, "MODEL", model=PRIZE)
    other = suspend(ops, "TRANSITION", model=PRIZE, transition="EXPIRE")
    wait_for_timers(api)
    assert api.state(entity) == "NEW"
    resume(ops, id_, timers=timers)
    wait_for_timers(api)
    assert api.state(entity) == "NEW"
    resume(ops, other, timers=timers)
    eventually(lambda: api.state(entity) == "GONE")
    assert len(api.get(f"/entity/{entity}/changes").json()) == 2


def test_until_ends_it_by_itself(api: Api, ops: Api) -> None:
    entity = an_entity(api)
    id_ = suspend(ops, "ENTITY", id=entity, until="2020-01-01T00:00:00Z")
    eventually(lambda: done(ops.get(f"/suspensions/{id_}"))["active"] is False)
    assert done(ops.get(f"/suspensions/{id_}"))["endedBy"] == {"id": "system", "kind": "system"}
    eventually(lambda: api.put(f"/entity/JSON/{entity}/GO", SAMPLE).status_code == 200)


def test_the_same_target_is_suspended_once(api: Api, ops: Api) -> None:
    id_ = suspend(ops, "TAG", name="node")
    again = {"scope": "TAG", "name": " NODE", "reason": "x"}
    problem = refused(ops.post("/suspensions", again), 409, "ALREADY_EXISTS")
    assert problem["properties"]["existingId"] == id_
    resume(ops, id_)
    refused(ops.post(f"/suspensions/{id_}/resume", {}), 404, "SUSPENSION_NOT_FOUND")
    suspend(ops, "TAG", name="node")


def test_suspensions_are_listed_and_on_record(api: Api, ops: Api) -> None:
    entity = an_entity(api)
    ids = [suspend(ops, "ENTITY", id=entity), suspend(ops, "JOB_TYPE", name="mail"), suspend(ops, "MODEL", model=PRIZE)]
    resume(ops, ids[1], reason="it is up again")
    assert [each["id"] for each in walk(ops, "/suspensions", limit=1)] == ids[::-1]
    assert [each["id"] for each in done(ops.get("/suspensions?active=true"))["items"]] == [ids[2], ids[0]]
    assert done(ops.get("/suspensions?active=true&count=true&limit=1"))["total"] == 2
    assert [each["id"] for each in done(ops.get(f"/suspensions?entityId={entity}"))["items"]] == [ids[0]]
    assert [each["id"] for each in done(ops.get("/suspensions?model=prize&scope=MODEL"))["items"]] == [ids[2]]
    newest, *_, oldest = done(ops.get("/audit?targetKind=SUSPENSION"))["items"]
    assert (newest["action"], newest["reason"], newest["details"]["timers"]) == ("resume", "it is up again", "FIRE")
    assert (oldest["action"], oldest["actor"]["id"], oldest["target"]["id"]) == ("suspend", "olga", ids[0])


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({}, "/scope"),
        ({"scope": "GALAXY", "reason": "x"}, "/scope"),
        ({"scope": "TAG", "reason": "x"}, "/name"),
        ({"scope": "TAG", "name": "a,b", "reason": "x"}, "/name"),
        ({"scope": "TAG", "name": " ", "reason": "x"}, "/name"),
        ({"scope": "TAG", "name": "a", "reason": ""}, "/reason"),
        ({"scope": "TAG", "name": "a", "reason": "x", "color": 1}, "/color"),
        ({"scope": "TAG", "name": "a", "id": "b", "reason": "x"}, "/id"),
        ({"scope": "MODEL", "model": {"name": "a"}, "reason": "x"}, "/model/version"),
        ({"scope": "MODEL", "model": {"name": "a", "version": "1"}, "reason": "x"}, "/model/version"),
        ({"scope": "TAG", "name": "a", "reason": "x", "until": "soon"}, "/until"),
        ({"scope": "ENTITY", "id": "nonsense", "reason": "x"}, "id"),
        ({"scope": "INSTANCE", "reason": "x"}, "/id"),
        ({"scope": "DEFINITION", "reason": "x"}, "/definitionId"),
        ({"scope": "DEFINITION", "definitionId": "d", "name": "d", "reason": "x"}, "/name"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_with_its_place(ops: Api, body: Json, parameter: str) -> None:
    assert refused(ops.post("/suspensions", body), 400, "BAD_REQUEST")["properties"]["parameter"] == parameter


def test_tenants_do_not_see_each_others_suspensions(service: RunningService, api: Api, ops: Api) -> None:
    entity = an_entity(api)
    stranger = ops_api(service, f"{ops.url[-4:]}-other", "ROLE_ADMIN")
    body = {"scope": "ENTITY", "id": entity, "reason": "x"}
    refused(stranger.post("/suspensions", body), 404, "ENTITY_NOT_FOUND")
    id_ = suspend(ops, "ENTITY", id=entity)
    refused(stranger.get(f"/suspensions/{id_}"), 404, "SUSPENSION_NOT_FOUND")
    refused(stranger.post(f"/suspensions/{id_}/resume", {}), 404, "SUSPENSION_NOT_FOUND")


def test_only_an_administrator_suspends_a_tenant(service: RunningService, tenant: str) -> None:
    operator = ops_api(service, tenant, "ROLE_OPERATOR")
    refused(operator.post("/suspensions", {"scope": "TENANT", "reason": "x"}), 403, "FORBIDDEN")


def test_a_suspension_holds_on_every_node_when_it_is_answered(database_template: Template) -> None:
    with hosted(database_template.clone()) as here, hosted(nullcontext(here.database)) as there:
        api, ops = there.api("t"), ops_api(here, "t", "ROLE_ADMIN")
        entity = an_entity(api)
        for scope, target in (("TRANSITION", {"model": PRIZE, "transition": "GO"}), ("MODEL", {"model": PRIZE})):
            for _ in range(5):
                id_ = suspend(ops, scope, **target)
                refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "SUSPENDED")
                assert resume(ops, id_)["effective"] is True
        suspend(ops, "MODEL", model=PRIZE)
        with hosted(nullcontext(here.database)) as late:
            refused(late.api("t").put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "SUSPENDED")


def test_a_frozen_node_is_named_until_it_knows_of_the_suspension(
    database_template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stand_still() -> None:
        return None

    monkeypatch.setattr(waiting, "CONFIRM_WITHIN_S", 0.3)
    with hosted(database_template.clone()) as here, hosted(nullcontext(here.database)) as there:
        ops = ops_api(here, "t", "ROLE_ADMIN")
        an_entity(there.api("t"))
        follower = there.parts.runtime.operations.concerns.suspensions
        with monkeypatch.context() as frozen:
            for name in ("refresh", "_confirm"):
                frozen.setattr(follower, name, stand_still)
            made = ops.post("/suspensions", {"scope": "MODEL", "model": PRIZE, "reason": "bank is down"})
            assert made.status_code == 201, made.text
            assert made.json()["effective"] is False
            assert len(made.json()["pendingNodes"]) == 1
        there.loop.call_soon_threadsafe(follower.announce_change)
        path = f"/suspensions/{made.json()['id']}"
        eventually(lambda: done(ops.get(path))["effective"])
        assert done(ops.get(path))["pendingNodes"] == []


def test_a_bulk_job_that_resumes_ends_when_all_nodes_know_of_it(
    database_template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stand_still() -> None:
        return None

    def find_status(job: Json) -> str:
        return str(done(ops.get(f"/bulk-jobs/{job['id']}"))["status"])

    def begin(operation: str, entity: str) -> Json:
        job = ops.post("/bulk-jobs", {"operation": operation, "arguments": {}, "ids": [entity]})
        assert job.status_code == 201, job.text
        return job.json()

    monkeypatch.setattr(waiting, "CONFIRM_WITHIN_S", PATIENCE_S)
    with hosted(database_template.clone()) as here, hosted(nullcontext(here.database)) as there:
        api, ops = there.api("t"), ops_api(here, "t", "ROLE_ADMIN")
        entity, other = an_entity(api), api.create().id
        suspend(ops, "ENTITY", id=entity)
        refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "SUSPENDED")
        follower = there.parts.runtime.operations.concerns.suspensions
        with monkeypatch.context() as frozen:
            for name in ("refresh", "_confirm"):
                frozen.setattr(follower, name, stand_still)
            resuming = begin("RESUME", entity)
            eventually(lambda: done(ops.get(f"/bulk-jobs/{resuming['id']}"))["totals"]["succeeded"] == 1)
            later = begin("LOOPBACK", other)
            eventually(lambda: find_status(later) == "COMPLETED")
            assert find_status(resuming) == "RUNNING"
        there.loop.call_soon_threadsafe(follower.announce_change)
        eventually(lambda: find_status(resuming) == "COMPLETED")
        assert api.put(f"/entity/JSON/{entity}/GO", SAMPLE).status_code == 200


def test_jobs_of_a_suspended_type_are_not_handed_out(api: Api, ops: Api, service: RunningService) -> None:
    v1 = replace(api, url=f"{service.root}/v1")
    step = {"id": "a", "name": "a", "type": "SERVICE_TASK", "jobType": "mail", "nextStep": "z"}
    definition = {"id": "d", "name": "d", "steps": [step, {"id": "z", "name": "z", "type": "END"}]}
    assert v1.post("/definitions", definition).is_success
    assert v1.post("/instances", {"definitionId": "d"}).is_success
    poll = {"workerId": "w", "jobTypes": ["mail"]}
    id_ = suspend(ops, "JOB_TYPE", name="mail")
    assert v1.post("/jobs/poll", poll).json() == {"jobs": []}
    resume(ops, id_)
    [job] = v1.post("/jobs/poll", poll).json()["jobs"]
    suspend(ops, "JOB_TYPE", name="mail")
    assert v1.post(f"/jobs/{job['id']}/complete", {"workerId": "w"}).status_code == 204


def test_a_tenant_may_have_so_many(service: RunningService, tenant: str, ops: Api) -> None:
    fill = """
        INSERT INTO suspension (tenant, id, scope, target, details, reason, by_id, by_kind, revision)
        SELECT $1, gen_random_uuid(), 'TAG', 'tag-' || n, json_build_object('name', 'tag-' || n), 'x', 'a', 'user', 0
          FROM generate_series(1, 1000) AS n
    """

    async def run() -> None:
        async with service.parts.runtime.core.pool.connection() as connection:
            await connection.execute(fill, tenant)

    asyncio.run_coroutine_threadsafe(run(), service.loop).result(PATIENCE_S)
    problem = refused(
        ops.post("/suspensions", {"scope": "TAG", "name": "one more", "reason": "x"}), 409, "LIMIT_REACHED"
    )
    assert problem["properties"]["limit"] == 1000


def test_processes_of_a_suspended_tenant_wait(api: Api, ops: Api, service: RunningService) -> None:
    v1 = replace(api, url=f"{service.root}/v1")
    steps = [
        {"id": "a", "name": "a", "type": "SERVICE_TASK", "jobType": "mail", "nextStep": "b"},
        {"id": "b", "name": "b", "type": "WAIT", "nextStep": "z"},
        {"id": "z", "name": "z", "type": "END"},
    ]
    assert v1.post("/definitions", {"id": "d", "name": "d", "steps": steps}).is_success
    instance = v1.post("/instances", {"definitionId": "d"}).json()["id"]
    [job] = v1.post("/jobs/poll", {"workerId": "w", "jobTypes": ["mail"]}).json()["jobs"]
    id_ = suspend(ops, "TENANT")
    refused_start = v1.post("/instances", {"definitionId": "d"})
    assert refused_start.status_code == 409
    assert "SUSPENDED" in refused_start.text
    assert v1.post(f"/jobs/{job['id']}/complete", {"workerId": "w"}).status_code == 204
    signal = f"/instances/{instance}/signals/b"
    assert v1.post(signal, {}).status_code == 409
    resume(ops, id_)
    eventually(lambda: v1.post(signal, {}).is_success)
    assert v1.get(f"/instances/{instance}").json()["status"] == "COMPLETED"


def test_a_repeated_suspension_has_one_effect_and_says_that_it_holds(api: Api, ops: Api) -> None:
    """The record commits with the suspension, when nobody acts by it yet; what is answered is how it came out."""
    entity = an_entity(api)
    keyed = {"Idempotency-Key": "suspend-once"}
    body = {"scope": "MODEL", "model": PRIZE, "reason": "bank is down"}
    first, again = ops.post("/suspensions", body, **keyed), ops.post("/suspensions", body, **keyed)
    assert (first.status_code, first.json()["effective"]) == (201, True)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "SUSPENDED")
    path, keyed = f"/suspensions/{first.json()['id']}/resume", {"Idempotency-Key": "resume-once"}
    ended, again = ops.post(path, {}, **keyed), ops.post(path, {}, **keyed)
    assert done(ended)["effective"] is True
    assert done(again) == ended.json()
    assert api.put(f"/entity/JSON/{entity}/GO", SAMPLE).status_code == 200


def test_a_refused_suspension_leaves_its_key_free(ops: Api) -> None:
    keyed = {"Idempotency-Key": "free"}
    missing = {"scope": "ENTITY", "id": "5a6c0000-0000-4000-8000-000000000000", "reason": "x"}
    refused(ops.post("/suspensions", missing, **keyed), 404, "ENTITY_NOT_FOUND")
    assert ops.post("/suspensions", {"scope": "TAG", "name": "a", "reason": "x"}, **keyed).status_code == 201


MAILING: Json = {
    "id": "d",
    "name": "d",
    "steps": [
        {"id": "a", "name": "a", "type": "SERVICE_TASK", "jobType": "mail", "nextStep": "b"},
        {"id": "b", "name": "b", "type": "WAIT", "nextStep": "c"},
        {"id": "c", "name": "c", "type": "SERVICE_TASK", "jobType": "mail", "nextStep": "z"},
        {"id": "z", "name": "z", "type": "END"},
    ],
}
POLL: Json = {"workerId": "w", "jobTypes": ["mail"]}


@pytest.fixture
def v1(api: Api, service: RunningService) -> Api:
    v1 = replace(api, url=f"{service.root}/v1")
    assert v1.post("/definitions", MAILING).is_success
    return v1


def start(v1: Api, **members: Json) -> str:
    response = v1.post("/instances", {"definitionId": "d", **members})
    assert response.is_success, response.text
    return str(response.json()["id"])


def poll(v1: Api) -> list[Json]:
    found: list[Json] = v1.post("/jobs/poll", POLL).json()["jobs"]
    return found


def test_a_suspended_instance_stands_still_and_others_go_on(v1: Api, ops: Api) -> None:
    held, other = start(v1), start(v1)
    id_ = suspend(ops, "INSTANCE", id=held)
    assert done(ops.get(f"/suspensions/{id_}"))["instanceId"] == held
    assert [job["instanceId"] for job in poll(v1)] == [other]
    explained = done(ops.get(f"/instances/{held}/explain"))
    assert (explained["verdict"], [each["id"] for each in explained["suspensions"]]) == ("SUSPENDED", [id_])
    assert v1.post(f"/instances/{held}/signals/b", {}).status_code == 409
    resume(ops, id_)
    assert [job["instanceId"] for job in poll(v1)] == [held]


def test_a_job_that_was_handed_out_counts_afterwards_and_is_under_way_no_more(v1: Api, ops: Api) -> None:
    instance = start(v1)
    [job] = poll(v1)
    id_ = suspend(ops, "INSTANCE", id=instance)
    assert done(ops.get(f"/suspensions/{id_}"))["underWay"] == 1
    assert v1.post(f"/jobs/{job['id']}/renew", {"workerId": "w", "leaseSeconds": 30}).is_success
    assert v1.post(f"/jobs/{job['id']}/complete", {"workerId": "w"}).status_code == 204
    assert done(ops.get(f"/suspensions/{id_}"))["underWay"] == 0
    refused_signal = v1.post(f"/instances/{instance}/signals/b", {})
    assert (refused_signal.status_code, "SUSPENDED" in refused_signal.text) == (409, True)
    resume(ops, id_)
    eventually(lambda: v1.post(f"/instances/{instance}/signals/b", {}).is_success)
    [job] = poll(v1)
    assert v1.post(f"/jobs/{job['id']}/complete", {"workerId": "w"}).status_code == 204
    assert v1.get(f"/instances/{instance}").json()["status"] == "COMPLETED"


def test_a_suspended_instance_can_be_cancelled(v1: Api, ops: Api) -> None:
    instance = start(v1)
    suspend(ops, "INSTANCE", id=instance)
    assert v1.post(f"/instances/{instance}/cancel", {}).is_success
    assert v1.get(f"/instances/{instance}").json()["status"] == "CANCELLED"


def test_an_instance_is_held_as_long_as_one_of_its_suspensions(v1: Api, ops: Api) -> None:
    instance = start(v1)
    as_instance = suspend(ops, "INSTANCE", id=instance)
    uuid = str(ulid_to_uuid(instance))
    assert [each["id"] for each in done(ops.get(f"/suspensions?entityId={uuid}"))["items"]] == [as_instance]
    as_entity = suspend(ops, "ENTITY", id=uuid)
    resume(ops, as_instance)
    assert poll(v1) == []
    resume(ops, as_entity)
    assert len(poll(v1)) == 1


def test_an_instance_that_is_none_is_not_found(api: Api, ops: Api) -> None:
    entity = an_entity(api)
    for name in (entity, "01M8000000000000000000000A", "nonsense"):
        refused(ops.post("/suspensions", {"scope": "INSTANCE", "id": name, "reason": "x"}), 404, "STEP_NOT_FOUND")


def test_instances_of_a_suspended_definition_neither_start_nor_move(v1: Api, ops: Api) -> None:
    assert v1.post("/definitions", {**MAILING, "id": "other"}).is_success
    held = start(v1)
    id_ = suspend(ops, "DEFINITION", definitionId="d")
    assert poll(v1) == []
    refused_start = v1.post("/instances", {"definitionId": "d"})
    assert (refused_start.status_code, "SUSPENDED" in refused_start.text) == (409, True)
    assert done(ops.get(f"/instances/{held}/explain"))["verdict"] == "SUSPENDED"
    other = start(v1, definitionId="other")
    assert [job["instanceId"] for job in poll(v1)] == [other]
    resume(ops, id_)
    assert [job["instanceId"] for job in poll(v1)] == [held]


def test_a_poll_that_waits_is_given_what_is_resumed(v1: Api, ops: Api) -> None:
    """It does not wait for the next look of its own, which is seconds away."""
    instance = start(v1)
    id_ = suspend(ops, "INSTANCE", id=instance)
    with ThreadPoolExecutor() as clients:
        waiting = clients.submit(v1.post, "/jobs/poll", {**POLL, "waitSeconds": 30})
        assert poll(v1) == []
        resume(ops, id_)
        assert [job["instanceId"] for job in waiting.result(PATIENCE_S).json()["jobs"]] == [instance]


@pytest.mark.parametrize("timers", ["FIRE", "SHIFT"])
def test_timers_of_a_suspended_instance_wait(v1: Api, ops: Api, timers: str) -> None:
    """One that came due meanwhile fires after the end, and once."""
    waiting = {"id": "b", "name": "b", "type": "WAIT", "nextStep": "z"}
    late = {"type": "TIMER", "duration": "PT0.2S", "interrupting": True, "targetStepId": "late"}
    steps = [
        {**waiting, "boundaryEvents": [late]},
        {"id": "late", "name": "late", "type": "WAIT", "nextStep": "z"},
        {"id": "z", "name": "z", "type": "END"},
    ]
    assert v1.post("/definitions", {"id": "timed", "name": "t", "steps": steps}).is_success
    assert v1.post("/definitions", {"id": "control", "name": "t", "steps": steps}).is_success
    held = start(v1, definitionId="timed")
    id_ = suspend(ops, "DEFINITION", definitionId="timed")

    def stands_at(instance: str) -> list[str]:
        return [token["stepId"] for token in done(ops.get(f"/instances/{instance}/explain"))["tokens"]]

    control = start(v1, definitionId="control")
    eventually(lambda: stands_at(control) == ["late"])
    assert stands_at(held) == ["b"]
    resume(ops, id_, timers=timers)
    eventually(lambda: stands_at(held) == ["late"])


def test_runs_that_began_before_are_counted_down(api: Api, ops: Api, node: Node) -> None:
    go = manual("GO", to="DONE", processors=[a_processor()])
    entity, other = an_entity(api, a_workflow(NEW=[go], DONE=[])), api.create().id
    with ThreadPoolExecutor() as clients:
        firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
        request = node.next()
        id_ = suspend(ops, "MODEL", model=PRIZE)
        elsewhere = suspend(ops, "MODEL", model={"name": "other", "version": 1})
        refused(api.put(f"/entity/JSON/{other}/GO", SAMPLE), 409, "SUSPENDED")
        assert done(ops.get(f"/suspensions/{id_}"))["underWay"] == 1
        assert done(ops.get(f"/suspensions/{elsewhere}"))["underWay"] == 0
        node.answer(request)
        assert firing.result(PATIENCE_S).status_code == 200
    eventually(lambda: done(ops.get(f"/suspensions/{id_}"))["underWay"] == 0)


def test_a_suspension_says_since_when_it_holds_everywhere(api: Api, ops: Api) -> None:
    entity = an_entity(api)
    for scope, target in (("ENTITY", {"id": entity}), ("MODEL", {"model": PRIZE})):
        shown = ops.post("/suspensions", {"scope": scope, "reason": "x", **target}).json()
        since, effective = (datetime.fromisoformat(shown[name]) for name in ("since", "effectiveAt"))
        assert since <= effective <= since + timedelta(seconds=PATIENCE_S)
        assert done(ops.get(f"/suspensions/{shown['id']}"))["effectiveAt"] == shown["effectiveAt"]


def test_the_command_suspends_an_instance_and_resumes_it(service: RunningService, tenant: str, v1: Api) -> None:
    instance = start(v1)
    there = ["--url", service.root, "--token", a_token(tenant, "olga", user_roles=["ROLE_OPERATOR"])]

    def call(*words: str) -> str:
        result = CommandRunner().invoke(program, ["ops", *words, *there])
        assert result.exit_code == 0, result.output
        return result.output

    told = call("suspend", "instance", "--instance", instance, "--reason", "bank is down")
    assert f"INSTANCE {instance}: suspended" in told
    assert poll(v1) == []
    assert instance in call("suspensions")
    assert "resumed" in call("resume", told.split()[0])
    assert len(poll(v1)) == 1


SUSPEND = """
    INSERT INTO suspension (tenant, id, scope, target, details, reason, by_id, by_kind, revision)
    VALUES ('acme', $1, 'MODEL', $2::bigint::text, '{}', 'bank is down', 'olga', 'user', $2)
"""


async def test_nodes_that_mark_what_holds_lock_it_in_one_order(database: str) -> None:
    first, last = UUID(int=1), UUID(int=2)
    async with Pool(parse_database_url(database)) as pool, connected(database) as other:
        await other.execute(SUSPEND, last, 1)  # before the other in every index but that of the ids
        await other.execute(SUSPEND, first, 2)
        async with other.transaction():
            await other.execute("SELECT FROM suspension WHERE id = $1 FOR UPDATE", last)
            marking = asyncio.create_task(mark_effective(pool))
            async with asyncio.timeout(PATIENCE_S), pool.connection() as asking:
                while not await asking.fetchval(BLOCKED):
                    pass
                assert not await asking.fetch("SELECT id FROM suspension WHERE id = $1 FOR UPDATE SKIP LOCKED", first)
        assert (await marking).keys() == {str(first), str(last)}
    async with connected(database) as other:
        assert await other.fetchval("SELECT count(*) FROM suspension WHERE effective_at IS NULL") == 0


BLOCKED = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')
"""

"""Failed work that stays visible (docs/reference/operations.md#incidents)."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest

from statewright.cli.main import program
from statewright.entity import Principal
from statewright.failures import FailedRun, WorkflowFailed
from statewright.ids import NodeId, TenantId
from statewright.operations.incidents import IncidentRow
from statewright.services.incident_reports import IncidentReports
from statewright.storage.ops.incidents import claim_incident, write_incidents
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, judged_by, manual, when
from tests.commands import CommandRunner
from tests.integration.node import Node, a_node
from tests.integration.ops.builders import an_incident, ops_api, sweep
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, eventually, refused


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR", user="olga")


@pytest.fixture
def node(service: RunningService, tenant: str) -> Iterator[Node]:
    with a_node(service, tenant, "node") as node:
        yield node


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def going(mode: str = "SYNC", **config: Json) -> Json:
    go = manual("GO", to="DONE", processors=[a_processor(mode=mode, **config)])
    return a_workflow(NEW=[go, manual("STOP", to="STOPPED")], DONE=[], STOPPED=[])


def listed(ops: Api, query: str = "") -> list[Json]:
    """The open incidents, once there are any."""
    found: list[Json] = []

    def look() -> bool:
        found[:] = done(ops.get(f"/incidents{query}"))["items"]
        return bool(found)

    eventually(look)
    return found


def fail_to_go(api: Api, node: Node, clients: ThreadPoolExecutor, entity: str, **document: Json) -> Json:
    firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE | document)
    node.fail_next("the bank is down")
    return refused(firing.result(PATIENCE_S), 400, "WORKFLOW_FAILED")


def test_a_run_that_fails_leaves_an_incident_with_what_was_asked_for(
    api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    saved = api.create(model=api.a_model(going()))
    problem = fail_to_go(api, node, clients, saved.id, motivation="submitted")
    [incident] = listed(ops)
    assert (incident["kind"], incident["severity"], incident["status"]) == ("RUN_FAILED", "ERROR", "OPEN")
    assert incident["subject"] == {
        "kind": "ENTITY",
        "id": saved.id,
        "model": "prize/1",
        "state": "NEW",
        "transactionId": saved.transaction,
    }
    assert (incident["workflow"], incident["transition"], incident["component"]) == ("lifecycle", "GO", "enrich")
    assert incident["code"] == "WORKFLOW_FAILED"
    assert problem["detail"].endswith(incident["message"])
    assert incident["principal"] == {"id": "alice", "kind": "user"}
    assert "payload" not in incident
    shown = done(ops.get(f"/incidents/{incident['id']}"))
    assert shown["payload"] == {"document": SAMPLE | {"motivation": "submitted"}, "transition": "GO", "ifMatch": None}
    assert api.state(saved.id) == "NEW"
    assert len(api.get(f"/entity/{saved.id}/changes").json()) == 1


def test_only_operators_see_what_was_asked_for(
    service: RunningService, tenant: str, api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    fail_to_go(api, node, clients, api.create(model=api.a_model(going())).id)
    [incident] = listed(ops)
    reader = ops_api(service, tenant)
    assert "payload" not in done(reader.get(f"/incidents/{incident['id']}"))
    refused(reader.post(f"/incidents/{incident['id']}/retry"), 403, "FORBIDDEN")
    stranger = ops_api(service, f"{tenant}-other", "ROLE_ADMIN")
    refused(stranger.get(f"/incidents/{incident['id']}"), 404, "INCIDENT_NOT_FOUND")


def test_equal_failures_are_counted_and_grouped(api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor) -> None:
    model = api.a_model(going())
    for entity in [api.create(model=model).id for _ in range(3)]:
        for _ in range(4):
            fail_to_go(api, node, clients, entity)
    eventually(lambda: sum(each["occurrences"] for each in listed(ops)) == 12)
    assert len({each["fingerprint"] for each in listed(ops)}) == 1
    assert sorted(each["occurrences"] for each in listed(ops)) == [4, 4, 4]
    [group] = done(ops.get("/incident-groups"))["items"]
    assert (group["open"], group["occurrences"], len(group["sampleIds"])) == (3, 12, 3)
    assert done(ops.get("/incident-groups?count=true"))["total"] == 1


def test_a_failed_creation_is_a_subject_of_its_own_and_can_be_retried(
    api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    creating = clients.submit(api.post, f"/entity/JSON/{model}", SAMPLE)
    node.fail_next("no")
    refused(creating.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    [incident] = listed(ops)
    assert incident["subject"]["kind"] == "NEW_ENTITY"
    retrying = clients.submit(ops.post, f"/incidents/{incident['id']}/retry")
    node.answer_next()
    [entity] = done(retrying.result(PATIENCE_S))["result"]["entityIds"]
    assert api.read(entity)["data"] == SAMPLE


def test_a_retry_with_another_document_is_done_resolved_and_on_record(
    api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    entity = api.create(model=api.a_model(going())).id
    fail_to_go(api, node, clients, entity)
    [incident] = listed(ops)
    mended = SAMPLE | {"motivation": "mended"}
    retrying = clients.submit(ops.post, f"/incidents/{incident['id']}/retry", {"document": mended})
    node.answer_next()
    answer = done(retrying.result(PATIENCE_S))
    assert answer["result"]["entityIds"] == [entity]
    assert answer["incident"]["status"] == "RESOLVED"
    resolution = answer["incident"]["resolution"]
    assert (resolution["how"], resolution["by"]["id"]) == ("RETRIED", "olga")
    assert (api.state(entity), api.read(entity)["data"]) == ("DONE", mended)
    [act] = done(ops.get("/audit?action=incident.retry"))["items"]
    assert (act["actor"]["id"], act["target"]) == ("olga", {"kind": "INCIDENT", "id": incident["id"]})
    refused(ops.post(f"/incidents/{incident['id']}/retry"), 409, "INCIDENT_CLOSED")


def test_a_retry_that_fails_leaves_the_incident_open_and_counts(
    api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    fail_to_go(api, node, clients, api.create(model=api.a_model(going())).id)
    [incident] = listed(ops)
    retrying = clients.submit(ops.post, f"/incidents/{incident['id']}/retry")
    node.fail_next("the bank is down")
    refused(retrying.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    eventually(lambda: done(ops.get(f"/incidents/{incident['id']}"))["occurrences"] == 2)
    assert done(ops.get(f"/incidents/{incident['id']}"))["status"] == "OPEN"


def test_of_two_retries_at_once_one_runs(api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor) -> None:
    fail_to_go(api, node, clients, api.create(model=api.a_model(going())).id)
    [incident] = listed(ops)
    first = clients.submit(ops.post, f"/incidents/{incident['id']}/retry")
    request = node.next()
    assert refused(ops.post(f"/incidents/{incident['id']}/retry"), 409, "INCIDENT_CLOSED")["properties"] == {
        "errorCode": "INCIDENT_CLOSED",
        "status": "RETRYING",
    }
    node.answer(request)
    assert first.result(PATIENCE_S).status_code == 200
    assert node.is_idle


def die_with_a_retry(service: RunningService, tenant: str, incident: str) -> None:
    """A node that lives no more has claimed the incident, and nothing came of it."""
    pool = service.parts.runtime.core.pool
    claiming = claim_incident(pool, TenantId(tenant), incident, node=NodeId(uuid4().hex[:24]), for_us=900_000_000)
    assert asyncio.run_coroutine_threadsafe(claiming, service.loop).result(PATIENCE_S) is not None


def test_a_retry_that_has_ended_three_nodes_is_refused_unless_it_is_forced(
    service: RunningService, tenant: str, api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    entity = api.create(model=api.a_model(going())).id
    fail_to_go(api, node, clients, entity)
    [incident] = listed(ops)
    address = f"/incidents/{incident['id']}/retry"
    die_with_a_retry(service, tenant, incident["id"])
    die_with_a_retry(service, tenant, incident["id"])
    failing = clients.submit(ops.post, address)
    node.fail_next("the bank is down")
    refused(failing.result(PATIENCE_S), 400, "WORKFLOW_FAILED")  # in good order: it forgets the two before it
    for _ in range(3):
        die_with_a_retry(service, tenant, incident["id"])
    refused(ops.post(address), 409, "INCIDENT_NOT_RETRYABLE")
    assert node.is_idle
    assert done(ops.get(f"/incidents/{incident['id']}"))["status"] == "OPEN"
    forced = clients.submit(ops.post, address, {"force": True})
    node.answer_next()
    assert done(forced.result(PATIENCE_S))["incident"]["status"] == "RESOLVED"
    assert api.state(entity) == "DONE"


def test_a_repeated_retry_runs_once(api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor) -> None:
    entity = api.create(model=api.a_model(going())).id
    fail_to_go(api, node, clients, entity)
    [incident] = listed(ops)
    keyed = {"Idempotency-Key": "retry-once"}
    retrying = clients.submit(ops.post, f"/incidents/{incident['id']}/retry", {}, **keyed)
    node.answer_next()
    first, again = retrying.result(PATIENCE_S), ops.post(f"/incidents/{incident['id']}/retry", {}, **keyed)
    assert done(first)["result"]["entityIds"] == [entity]
    assert done(first)["incident"]["status"] == "RESOLVED"
    assert done(again)["result"] == first.json()["result"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert node.is_idle


def test_a_retry_that_fails_behind_a_segment_closes_the_incident_and_opens_another(
    api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    """What is durable of it must not be done again: the entity is there, and what failed is its transition."""
    go = automated("GO", to="DONE", processors=[a_processor(mode="COMMIT_BEFORE_DISPATCH")])
    hold = automated("CHECK", to="READY", processors=[a_processor()])
    model = api.a_model(a_workflow(NEW=[hold], READY=[go], DONE=[]))
    creating = clients.submit(api.post, f"/entity/JSON/{model}", SAMPLE)
    node.fail_next("no")
    refused(creating.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    [incident] = listed(ops)
    retrying = clients.submit(ops.post, f"/incidents/{incident['id']}/retry")
    node.answer_next()
    node.fail_next("the bank is down")
    refused(retrying.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    [resolved] = listed(ops, "?status=RESOLVED")
    assert (resolved["id"], resolved["resolution"]["how"]) == (incident["id"], "RETRIED")
    [other] = listed(ops)
    assert (other["subject"]["kind"], other["subject"]["state"]) == ("ENTITY", "READY")
    refused(ops.post(f"/incidents/{incident['id']}/retry"), 409, "INCIDENT_CLOSED")


def test_an_entity_that_was_written_since_is_not_overwritten(
    api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    entity = api.create(model=api.a_model(going())).id
    fail_to_go(api, node, clients, entity)
    [incident] = listed(ops)
    current = api.update(entity, SAMPLE | {"motivation": "of another"}).transaction
    problem = refused(ops.post(f"/incidents/{incident['id']}/retry"), 409, "INCIDENT_STALE")
    assert problem["properties"]["currentTransactionId"] == current
    retrying = clients.submit(ops.post, f"/incidents/{incident['id']}/retry", {"force": True})
    node.answer_next()
    assert retrying.result(PATIENCE_S).status_code == 200


def test_an_incident_closes_itself_when_its_cause_is_gone(
    service: RunningService, api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    model = api.a_model(going())
    repeated, moved, deleted, waiting = [api.create(model=model).id for _ in range(4)]
    for entity in (repeated, moved, deleted, waiting):
        fail_to_go(api, node, clients, entity)
    eventually(lambda: len(listed(ops)) == 4)
    again = clients.submit(api.put, f"/entity/JSON/{repeated}/GO", SAMPLE)
    node.answer_next()
    assert again.result(PATIENCE_S).status_code == 200
    api.update(moved, fire="STOP")
    api.delete(f"/entity/{deleted}")
    sweep(service)
    assert [each["subject"]["id"] for each in listed(ops)] == [waiting]
    closed = {each["subject"]["id"]: each["resolution"]["how"] for each in listed(ops, "?status=RESOLVED")}
    assert closed == {repeated: "SUCCEEDED", moved: "MOVED", deleted: "GONE"}


def test_somebody_can_close_it(api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor) -> None:
    fail_to_go(api, node, clients, api.create(model=api.a_model(going())).id)
    [incident] = listed(ops)
    refused(ops.post(f"/incidents/{incident['id']}/resolve", {}), 400, "BAD_REQUEST")
    resolved = done(ops.post(f"/incidents/{incident['id']}/resolve", {"reason": "known"}))
    assert (resolved["status"], resolved["resolution"]["reason"]) == ("RESOLVED", "known")
    refused(ops.post(f"/incidents/{incident['id']}/resolve", {"reason": "known"}), 409, "INCIDENT_CLOSED")


def test_a_processor_that_the_run_survives_is_a_warning(
    api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    entity = api.create(model=api.a_model(going("ASYNC_NEW_TX"))).id
    firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    node.fail_next("no")
    assert firing.result(PATIENCE_S).status_code == 200
    [incident] = listed(ops)
    assert incident["severity"] == "WARNING"
    refused(ops.post(f"/incidents/{incident['id']}/retry"), 409, "INCIDENT_NOT_RETRYABLE")


def test_attempts_are_listed(api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor) -> None:
    rule = {"statewright": {"retry": {"attempts": 2, "delay": "PT0S", "on": ["ERROR"]}}}
    go = manual("GO", to="DONE", processors=[a_processor() | {"annotations": rule}])
    entity = api.create(model=api.a_model(a_workflow(NEW=[go], DONE=[]))).id
    firing = clients.submit(api.put, f"/entity/JSON/{entity}/GO", SAMPLE)
    node.fail_next("first")
    node.fail_next("second")
    refused(firing.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    [incident] = listed(ops)
    assert [each["error"] for each in incident["attempts"]] == ["first", "second"]


def test_a_document_that_is_too_large_is_left_out(api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor) -> None:
    entity = api.create(model=api.a_model(going())).id
    fail_to_go(api, node, clients, entity, motivation="x" * 70_000)
    [incident] = listed(ops)
    assert incident["payloadOmitted"] is True
    assert done(ops.get(f"/incidents/{incident['id']}"))["payload"] is None
    refused(ops.post(f"/incidents/{incident['id']}/retry"), 409, "INCIDENT_NOT_RETRYABLE")


def test_refusals_are_none(api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor) -> None:
    guarded = manual("ASK", to="DONE", criterion=judged_by("fits"))
    never = manual("NEVER", to="DONE", criterion=when("$.year", "EQUALS", 1))
    go = manual("GO", to="DONE", processors=[a_processor()])
    entity = api.create(model=api.a_model(a_workflow(NEW=[go, never, guarded], DONE=[]))).id
    refused(api.put(f"/entity/JSON/{entity}/NOWHERE", SAMPLE), 404, "TRANSITION_NOT_FOUND")
    refused(api.put(f"/entity/JSON/{entity}/NEVER", SAMPLE), 400, "WORKFLOW_FAILED")
    asking = clients.submit(api.put, f"/entity/JSON/{entity}/ASK", SAMPLE)
    node.answer_next(matches=False)
    refused(asking.result(PATIENCE_S), 400, "WORKFLOW_FAILED")
    stale = api.put(f"/entity/JSON/{entity}", SAMPLE, If_Match="00000000-0000-1000-8000-000000000000")
    refused(stale, 412, "ENTITY_MODIFIED")
    fail_to_go(api, node, clients, entity)
    assert [each["transition"] for each in listed(ops)] == ["GO"]


def test_an_instance_that_fails_has_one_and_a_retry_goes_on(service: RunningService, api: Api, ops: Api) -> None:
    v1 = replace(api, url=f"{service.root}/v1")
    step = {"id": "a", "name": "a", "type": "SERVICE_TASK", "jobType": "mail", "nextStep": "z"}
    definition = {"id": "d", "name": "d", "steps": [step, {"id": "z", "name": "z", "type": "END"}]}
    assert v1.post("/definitions", definition).is_success
    assert v1.post("/instances", {"definitionId": "d"}).is_success
    poll = {"workerId": "w", "jobTypes": ["mail"]}
    [job] = v1.post("/jobs/poll", poll).json()["jobs"]
    assert v1.post(f"/jobs/{job['id']}/fail", {"workerId": "w", "errorMessage": "mailbox full"}).is_success
    [incident] = done(ops.get("/incidents"))["items"]  # at once: it has committed with the failure
    assert (incident["kind"], incident["step"], incident["message"]) == ("JOB_FAILED", "a", "mailbox full")
    assert incident["subject"]["kind"] == "INSTANCE"
    retried = done(ops.post(f"/incidents/{incident['id']}/retry", {"variables": {"to": "b"}}))
    assert (retried["result"]["status"], retried["incident"]["status"]) == ("ACTIVE", "RESOLVED")
    [job] = v1.post("/jobs/poll", poll).json()["jobs"]
    assert job["variables"] == {"to": "b"}


def test_an_instance_that_has_no_way_on_has_no_step_to_be_done_again(
    service: RunningService, api: Api, ops: Api
) -> None:
    v1 = replace(api, url=f"{service.root}/v1")
    step = {"id": "a", "name": "a", "type": "USER_TASK", "conditionalNextSteps": {"false": "z"}}
    definition = {"id": "d", "name": "d", "steps": [step, {"id": "z", "name": "z", "type": "END"}]}
    assert v1.post("/definitions", definition).is_success
    id_ = v1.post("/instances", {"definitionId": "d"}).json()["id"]
    assert v1.post(f"/instances/{id_}/user-tasks/a/complete").is_success
    [incident] = done(ops.get("/incidents"))["items"]
    problem = refused(ops.post(f"/incidents/{incident['id']}/retry", {}), 409, "INCIDENT_NOT_RETRYABLE")
    assert "nothing led on from it" in problem["detail"]


def test_a_locked_table_delays_no_request(
    service: RunningService, api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    entity = api.create(model=api.a_model(going())).id
    locked, release = threading.Event(), asyncio.Event()

    async def lock() -> None:
        async with service.parts.runtime.core.pool.connection() as connection, connection.transaction():
            await connection.execute("LOCK TABLE incident IN ACCESS EXCLUSIVE MODE")
            locked.set()
            await release.wait()

    holding = asyncio.run_coroutine_threadsafe(lock(), service.loop)
    try:
        assert locked.wait(PATIENCE_S)
        for _ in range(3):
            fail_to_go(api, node, clients, entity)
    finally:
        service.loop.call_soon_threadsafe(release.set)
        holding.result(PATIENCE_S)
    eventually(lambda: sum(each["occurrences"] for each in listed(ops)) == 3)


def test_an_explanation_tells_of_suspensions_first_and_then_of_failures(
    service: RunningService, tenant: str, api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    entity = api.create(model=api.a_model(going())).id
    admin = ops_api(service, tenant, "ROLE_ADMIN")

    def explain() -> Json:
        return done(ops.get(f"/entities/{entity}/explain"))

    plain = explain()
    assert (plain["verdict"], plain["suspensions"], plain["incidents"]) == ("WAITS_FOR_MANUAL", [], [])
    fail_to_go(api, node, clients, entity)
    [incident] = listed(ops)
    failed = explain()
    assert (failed["verdict"], [each["id"] for each in failed["incidents"]]) == ("FAILED", [incident["id"]])
    assert failed["transitions"] == plain["transitions"]
    body = {"scope": "ENTITY", "id": entity, "reason": "bank is down"}
    suspension = admin.post("/suspensions", body).json()
    held = explain()
    assert (held["verdict"], held["summary"]) == ("SUSPENDED", "Suspended: bank is down")
    assert [each["id"] for each in held["suspensions"]] == [suspension["id"]]
    assert all(each["blockedBy"] == ["SUSPENDED"] and each["wouldFire"] is False for each in held["transitions"])
    done(admin.post(f"/suspensions/{suspension['id']}/resume", {}))
    model = {"name": "prize", "version": 1}
    body = {"scope": "TRANSITION", "model": model, "transition": "GO", "reason": "x"}
    assert admin.post("/suspensions", body).status_code == 201
    verdicts = {each["name"]: each["blockedBy"] for each in explain()["transitions"]}
    assert verdicts == {"GO": ["SUSPENDED"], "STOP": []}
    assert explain()["verdict"] == "FAILED"


@pytest.mark.parametrize(("act", "body"), [("retry", {}), ("resolve", {"reason": "x"})])
def test_a_fingerprint_that_none_can_be_is_refused(ops: Api, act: str, body: Json) -> None:
    answer = ops.post(f"/incident-groups/a%00b/{act}", body)
    assert refused(answer, 400, "BAD_REQUEST")["properties"]["parameter"] == "fingerprint"


def test_a_group_is_retried_and_closed_from_the_command_line(
    service: RunningService, tenant: str, api: Api, ops: Api, node: Node, clients: ThreadPoolExecutor
) -> None:
    model = api.a_model(going())
    mended, moved, other = [api.create(model=model).id for _ in range(3)]
    for entity in (mended, moved, other):
        fail_to_go(api, node, clients, entity)
    eventually(lambda: len(listed(ops)) == 3)
    [group] = done(ops.get("/incident-groups"))["items"]
    api.update(moved, SAMPLE | {"motivation": "of another"})
    there = ["--url", service.root, "--token", a_token(tenant, "olga", user_roles=["ROLE_OPERATOR"])]

    def call(*words: str) -> tuple[int, str]:
        result = CommandRunner().invoke(program, ["ops", "incidents", *words, "--group", group["fingerprint"], *there])
        return result.exit_code, result.output

    retrying = clients.submit(call, "retry")
    node.answer_next()
    node.answer_next()
    code, told = retrying.result(PATIENCE_S)
    assert (code, told.count(": done"), ": STALE: " in told) == (1, 2, True)
    assert (api.state(mended), api.state(moved), api.state(other)) == ("DONE", "NEW", "DONE")
    assert call("resolve", "--reason", "known")[0] == 0
    assert done(ops.get("/incidents"))["items"] == []
    acts = done(ops.get("/audit?targetKind=INCIDENT"))["items"]
    assert {act["details"]["fingerprint"] for act in acts} == {group["fingerprint"]}


def test_10_000_failures_of_50_entities_are_50_incidents_and_none_is_lost(
    service: RunningService, tenant: str, api: Api, ops: Api
) -> None:
    runtime = service.parts.runtime
    reports = IncidentReports(runtime.core.pool, runtime.core.clock, is_on=True, max_payload=1000)
    olga = Principal(id="olga", name="Olga", kind="user", tenant=TenantId(tenant))
    model = api.a_model(going())
    entities = [api.create(model=model).id for _ in range(50)]  # incidents of entities that are none close themselves

    async def fail() -> None:
        for number in range(10_000):
            run = FailedRun(
                entity_id=entities[number % 50],
                model="prize",
                version=1,
                workflow="w",
                state="NEW",
                transition="GO",
                component="charge",
                base_transaction=str(uuid4()),
                document="{}",
                requested="GO",
            )
            reports.report_run(olga, WorkflowFailed(f"attempt {number} failed").amend(failed_run=run))
            if number % 1000 == 999:
                await reports.write_once()

    asyncio.run_coroutine_threadsafe(fail(), service.loop).result(PATIENCE_S)
    sweep(service)
    [group] = done(ops.get("/incident-groups"))["items"]
    assert (group["open"], group["occurrences"] + reports.dropped) == (50, 10_000)


def test_beyond_the_limit_of_a_tenant_repetitions_count_and_nothing_else_is_kept(
    service: RunningService, tenant: str, ops: Api
) -> None:
    def a_row(subject: str, fingerprint: str) -> IncidentRow:
        return an_incident(tenant, subject, fingerprint=fingerprint)

    def write(*rows: IncidentRow) -> int:
        writing = write_incidents(service.parts.runtime.core.pool, rows, max_open=2)
        return asyncio.run_coroutine_threadsafe(writing, service.loop).result(PATIENCE_S)

    assert write(a_row("a", "f"), a_row("b", "g")) == 2
    assert write(a_row("a", "f"), a_row("c", "h")) == 1
    assert sorted(each["occurrences"] for each in listed(ops)) == [1, 2]

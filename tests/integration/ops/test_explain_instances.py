"""What an instance of a process waits for (docs/reference/operations.md#instances)."""

from dataclasses import replace

import pytest

from tests.builders import Json
from tests.integration.ops.builders import ops_api
from tests.service import Api, RunningService, done, refused


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR")


@pytest.fixture
def v1(service: RunningService, api: Api) -> Api:
    return replace(api, url=f"{service.root}/v1")


def a_step(type_: str, **members: Json) -> Json:
    return {"id": "a", "name": "a", "type": type_, "nextStep": "z", **members}


def started(v1: Api, *steps: Json, **metadata: Json) -> str:
    end = {"id": "z", "name": "z", "type": "END"}
    definition = {"id": "d", "name": "d", "steps": [*steps, end], "metadata": metadata}
    assert v1.post("/definitions", definition).is_success
    response = v1.post("/instances", {"definitionId": "d"})
    assert response.is_success, response.text
    return str(response.json()["id"])


def explain(ops: Api, instance: str) -> Json:
    return done(ops.get(f"/instances/{instance}/explain"))


def test_a_job_is_followed_from_the_queue_to_its_end(v1: Api, ops: Api) -> None:
    backoff = {"mail": {"delay": "PT1H"}}
    instance = started(v1, a_step("SERVICE_TASK", jobType="mail", retryCount=2), retryBackoff=backoff)
    waiting = explain(ops, instance)
    assert (waiting["verdict"], waiting["status"], waiting["language"]) == ("WAITS_FOR_WORKER", "ACTIVE", "steps")
    [token] = waiting["tokens"]
    assert (token["stepId"], token["waitsFor"], token["phase"], token["workers"]) == ("a", "JOB", "QUEUED", 0)
    [job] = v1.post("/jobs/poll", {"workerId": "w", "jobTypes": ["mail"]}).json()["jobs"]
    [token] = explain(ops, instance)["tokens"]
    assert (token["jobId"], token["phase"], token["worker"]) == (job["id"], "LEASED", "w")
    assert explain(ops, instance)["verdict"] == "WAITS_FOR_JOB"
    v1.post(f"/jobs/{job['id']}/fail", {"workerId": "w", "errorMessage": "no", "retryable": True})
    [token] = explain(ops, instance)["tokens"]
    assert (token["phase"], token["retriesRemaining"]) == ("DELAYED", 1)
    assert "availableAt" in token
    v1.post(f"/jobs/{job['id']}/complete", {"workerId": "w"})
    assert (explain(ops, instance)["verdict"], explain(ops, instance)["tokens"]) == ("COMPLETED", [])


@pytest.mark.parametrize(
    ("type_", "verdict", "waits_for"),
    [("USER_TASK", "WAITS_FOR_TASK", "USER_TASK"), ("WAIT", "WAITS_FOR_SIGNAL", "SIGNAL")],
)
def test_people_and_signals_are_waited_for(v1: Api, ops: Api, type_: str, verdict: str, waits_for: str) -> None:
    found = explain(ops, started(v1, a_step(type_)))
    assert (found["verdict"], [each["waitsFor"] for each in found["tokens"]]) == (verdict, [waits_for])


def test_a_failed_instance_says_where_and_why(v1: Api, ops: Api) -> None:
    instance = started(v1, a_step("SERVICE_TASK", jobType="mail"))
    [job] = v1.post("/jobs/poll", {"workerId": "w", "jobTypes": ["mail"]}).json()["jobs"]
    v1.post(f"/jobs/{job['id']}/fail", {"workerId": "w", "errorMessage": "mailbox full"})
    found = explain(ops, instance)
    assert (found["verdict"], found["failure"]) == ("FAILED", {"stepId": "a", "reason": "mailbox full"})
    assert [each["kind"] for each in found["incidents"]] == ["JOB_FAILED"]


def test_a_suspended_type_of_jobs_comes_first(v1: Api, ops: Api) -> None:
    instance = started(v1, a_step("SERVICE_TASK", jobType="mail"))
    assert ops.post("/suspensions", {"scope": "JOB_TYPE", "name": "mail", "reason": "new printers"}).is_success
    found = explain(ops, instance)
    assert (found["verdict"], found["summary"]) == ("SUSPENDED", "Suspended: new printers")


@pytest.mark.parametrize("name", ["01M8JZ4QY2S7V3K9F0T5B6C7D8", "00000000-0000-0000-0000-000000000001", "nonsense"])
def test_an_unknown_instance_is_not_found(ops: Api, name: str) -> None:
    assert ops.get(f"/instances/{name}/explain").status_code == 404


def test_instances_of_others_are_unknown(service: RunningService, v1: Api, tenant: str) -> None:
    instance = started(v1, a_step("WAIT"))
    refused(ops_api(service, f"{tenant}-other").get(f"/instances/{instance}/explain"), 404, "STEP_NOT_FOUND")


def test_a_join_names_the_branch_that_is_missing(v1: Api, ops: Api) -> None:
    branches = ["a", "b", "c"]
    steps: list[Json] = [
        {"id": "f", "name": "f", "type": "PARALLEL_GATEWAY", "parallelNextSteps": branches, "joinStep": "j"}
    ]
    steps += [{"id": each, "name": each, "type": "WAIT", "nextStep": "j"} for each in branches]
    steps += [
        {"id": "j", "name": "j", "type": "JOIN_GATEWAY", "nextStep": "z"},
        {"id": "z", "name": "z", "type": "END"},
    ]
    assert v1.post("/definitions", {"id": "joined", "name": "d", "steps": steps}).is_success
    instance = v1.post("/instances", {"definitionId": "joined"}).json()["id"]

    def joins() -> list[Json]:
        tokens = done(ops.get(f"/instances/{instance}/explain"))["tokens"]
        return [each for each in tokens if each["waitsFor"] == "JOIN"]

    assert joins() == []
    for step in ("a", "c"):
        assert v1.post(f"/instances/{instance}/signals/{step}", {}).is_success
    assert joins() == [{"stepId": "j", "waitsFor": "JOIN", "arrived": 2, "missing": [{"branch": 2, "at": ["b"]}]}]
    assert v1.post(f"/instances/{instance}/signals/b", {}).is_success
    assert joins() == []


def test_a_token_that_no_rule_admits_is_told_with_its_step(v1: Api, ops: Api) -> None:
    rules = "{on_deny: pending, rules: [{when: ctx.ready, then: {allow: true}}, {else: {then: {allow: false}}}]}"
    text = (
        f"metadata: {{name: gate}}\nworkflow: [{{step: s, spec: {{policy: {{admit: {rules}}}}}, tool: {{kind: noop}}}}]"
    )
    assert v1.post("/playbooks", text.encode()).is_success
    execution = str(v1.post("/executions", {"path": "gate"}).json()["id"])
    told = explain(ops, execution)
    assert (told["verdict"], told["summary"]) == (
        "WAITS_FOR_ADMISSION",
        "Waits to be admitted at s: no rule there holds yet.",
    )
    assert done(v1.get(f"/executions/{execution}/history"))["items"] == []
    v1.post(f"/executions/{execution}/patch", {"ctx": {"ready": True}})
    assert explain(ops, execution)["verdict"] == "COMPLETED"

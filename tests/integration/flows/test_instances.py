"""Instances of flows: jobs, failures, stops, time, and instances as entities (docs/reference/flows.md#instances)."""

import json

import pytest
from google.protobuf.struct_pb2 import Struct

from statewright.net import ulid_to_uuid
from statewright.sdk import Node
from tests.builders import Json
from tests.integration.flows.conftest import Flows, an_error, done
from tests.integration.steps_grpc.engine import engine_of
from tests.integration.transactions.conftest import Serving
from tests.integration.transactions.conftest import serving as serving
from tests.service import Api, RunningService, eventually


def entity_of(instance: Json) -> str:
    return str(ulid_to_uuid(instance["id"]))


def test_a_task_is_a_job_with_input_parameters_and_place(flows: Flows):
    instance = flows.run('@task price = money:price (- currency: EUR -)\nload → * price ({"net": true})', {"o": 1})
    flows.complete(flows.job("load"), [{"n": 1}, {"n": 2}])
    first, second = flows.poll("money:price")
    assert first["variables"] == {
        "instanceId": instance["id"],
        "node": 2,
        "name": "price",
        "base": "money:price",
        "parameters": {"currency": "EUR", "net": True},
        "input": {"n": 1},
        "element": 0,
    }
    flows.complete(second, {"$output": 7})
    flows.complete(first, {"p": 1})
    assert flows.read(instance)["result"] == [{"p": 1}, 7]
    lines = [(line["name"], line.get("element"), line["status"]) for line in flows.history(instance)]
    assert ("price.2", 1, "COMPLETED") in lines
    assert [line["output"] for line in flows.history(instance) if line["name"] == "load.1"] == [[{"n": 1}, {"n": 2}]]


def test_an_element_that_is_null_is_a_job_as_any_other(flows: Flows):
    instance = flows.run("<[1, null, {}]> → * A")
    jobs = flows.poll("A")
    assert [job["variables"]["input"] for job in jobs] == [1, None, {}]
    for job in jobs:
        flows.complete(job, {"$output": job["variables"]["input"]})
    assert flows.read(instance)["result"] == [1, {}, {}]


def test_steps_and_flows_are_one_queue(flows: Flows):
    step = {"id": "s", "name": "s", "type": "SERVICE_TASK", "jobType": "shared", "nextStep": "end"}
    document = {"id": "steps", "name": "steps", "steps": [step, {"id": "end", "name": "end", "type": "END"}]}
    done(flows.api.post("/v1/definitions", document), 201)
    started = done(flows.api.post("/v1/instances", {"definitionId": "steps", "variables": {"v": 1}}), 201)
    flow = flows.run("shared", {"v": 2})
    jobs = flows.poll("shared")
    assert [job["instanceId"] for job in jobs] == [started["id"], flow["id"]]
    for job in jobs:
        flows.complete(job, {"ok": True})
    assert done(flows.api.get(f"/v1/instances/{started['id']}"))["variables"] == {"v": 1, "ok": True}
    assert flows.read(flow)["result"] == {"ok": True}
    assert done(flows.api.get("/v1/instances"))["total"] == 1


def test_a_late_or_repeated_result_has_no_effect(flows: Flows):
    instance = flows.run("A → B")
    job = flows.job("A")
    flows.complete(job, {"a": 1})
    flows.complete(job, {"a": 2})
    flows.complete(flows.job("B"), {"b": 1})
    flows.complete(job, {"a": 3})
    assert flows.read(instance)["result"] == {"b": 1}
    assert [line["name"] for line in flows.history(instance)].count("B.2") == 1


def test_a_failed_task_is_tried_again_while_there_are_retries(flows: Flows, api: Api):
    instance = flows.run("A", retries=1)
    flows.fail(flows.job("A"), retryable=True)
    assert flows.read(instance)["status"] == "RUNNING"
    flows.fail(flows.job("A"), "twice", retryable=True)
    assert [one["meta"]["state"] for one in search(api, "$.failedNodes[*].name", "EQUALS", "A.1")] == ["FAILED"]
    failed = flows.read(instance)
    assert (failed["status"], failed["failureReason"]) == ("FAILED", "twice")
    assert failed["failedNodes"] == [{"node": 1, "name": "A.1", "reason": "twice"}]


def test_after_a_failure_what_runs_is_left_to_end_and_a_restart_does_only_the_rest(flows: Flows):
    instance = flows.run("<[1, 2, 3]> → * A → B", concurrency=2)
    first, second = flows.poll("A")
    flows.fail(first, "no")
    flows.complete(second, {"two": 2})
    assert flows.poll("A") == []
    failed = flows.read(instance)
    assert [(place["name"], place["element"]) for place in failed["failedNodes"]] == [("A.2", 0)]
    flows.do(instance, "restart")
    again = flows.poll("A")
    assert sorted(job["variables"]["input"] for job in again) == [1, 3]
    for job in again:
        flows.complete(job, {"n": job["variables"]["input"]})
    flows.complete(flows.job("B"), {"end": True})
    assert flows.read(instance)["status"] == "COMPLETED"
    b_input = next(line["input"] for line in flows.history(instance) if line["name"] == "B.3")
    assert b_input == [{"n": 1}, {"two": 2}, {"n": 3}]
    an_error(flows.api.post(f"/v1/flows/instances/{instance['id']}/restart"), 409, "conflict")


def test_a_terminated_instance_lets_its_tasks_end_and_goes_on_when_it_is_restarted(flows: Flows):
    instance = flows.run("A → B")
    job = flows.job("A")
    assert flows.do(instance, "terminate")["status"] == "TERMINATING"
    flows.complete(job, {"a": 1})
    assert flows.read(instance)["status"] == "TERMINATED"
    assert flows.poll("B") == []
    assert flows.do(instance, "restart")["status"] == "RUNNING"
    flows.complete(flows.job("B"), {"b": 1})
    assert flows.read(instance)["result"] == {"b": 1}
    an_error(flows.api.post(f"/v1/flows/instances/{instance['id']}/terminate"), 409, "conflict")


def test_terminating_twice_stops_at_once_and_later_answers_count_for_nothing(flows: Flows):
    instance = flows.run("A → B", {"in": 1})
    job = flows.job("A")
    flows.do(instance, "terminate")
    assert flows.do(instance, "terminate")["status"] == "TERMINATED"
    flows.complete(job, {"late": True})
    flows.do(instance, "restart")
    again = flows.job("A")
    assert again["variables"]["input"] == {"in": 1}
    flows.complete(again, {"a": 1})
    flows.complete(flows.job("B"), {"b": 1})
    assert flows.read(instance)["result"] == {"b": 1}


def test_a_cancelled_instance_has_no_jobs_and_frees_its_business_key(flows: Flows):
    flow = flows.upload("A | B")
    instance = flows.start(flow, businessKey="k")
    taken = flows.api.post("/v1/flows/instances", {"definitionId": flow, "businessKey": "k"})
    assert "business key already in use" in an_error(taken, 409, "conflict")["reason"]
    cancelled = flows.do(instance, "cancel", reason="wrong order")
    assert (cancelled["status"], cancelled["failureReason"]) == ("CANCELLED", "wrong order")
    assert flows.poll("A", "B") == []
    flows.start(flow, businessKey="k")
    an_error(flows.api.post(f"/v1/flows/instances/{instance['id']}/restart"), 409, "conflict")


def test_a_delay_is_a_timer_and_no_job(flows: Flows):
    instance = flows.run("<[1, 2]> → * wait:delay (- duration: 0 -) → A")
    assert flows.poll("wait:delay") == []
    eventually(lambda: flows.read(instance)["activeNodes"] == [3])
    flows.complete(flows.job("A"), {"a": 1})
    assert [line["input"] for line in flows.history(instance) if line["name"] == "A.3"] == [[1, 2]]
    assert flows.read(instance)["status"] == "COMPLETED"


@pytest.mark.parametrize("parameters", ["", "(- duration: soon -)", "(- duration: -1 -)", "([1])"])
def test_a_delay_without_a_duration_is_refused(flows: Flows, parameters: str):
    body = {"id": "x", "source": f"A →\n wait:delay {parameters}"}
    refused = an_error(flows.api.post("/v1/flows/definitions", body), 400, "bad-request")
    assert (refused["code"], refused["line"], refused["column"]) == ("PARAMETERS", 2, 2)


def test_members_do_the_tasks_whose_types_are_their_tags(flows: Flows, serving: Serving):
    node = Node(tags=["pushed"])

    @node.processor("pushed")
    def answer(task: dict[str, object]) -> dict[str, object]:
        return {"seen": task["input"], "with": task["parameters"]}

    serving(node)
    instance = flows.run('pushed ({"p": 1})', [1, 2])
    eventually(lambda: flows.read(instance)["status"] == "COMPLETED")
    assert flows.read(instance)["result"] == {"seen": [1, 2], "with": {"p": 1}}


def test_workers_of_workflow_v1_do_tasks(flows: Flows, service: RunningService):
    instance = flows.run('A ({"p": [1, 2]}) → B', [{"n": 1}])
    with engine_of(service, flows.api.token) as engine:
        [job] = engine("PollJobs", worker_id="w", job_types=["A"], max_jobs=5).jobs
        assert (job.job_type, job.variables["input"][0]["n"], list(job.variables["parameters"]["p"])) == (
            "A",
            1,
            [1, 2],
        )
        output = Struct()
        output.update({"$output": [7, 8]})
        engine("CompleteJob", job_id=job.id, worker_id="w", variables_to_set=output)
        [job] = engine("PollJobs", worker_id="w", job_types=["B"], max_jobs=5).jobs
        engine("FailJob", job_id=job.id, worker_id="w", retryable=False, error_message="no B")
    assert [line["output"] for line in flows.history(instance) if line["name"] == "A.1"] == [[7, 8]]
    assert flows.read(instance)["failureReason"] == "no B"


def test_instances_are_searched_by_input_and_result_and_read_as_they_were(
    flows: Flows, service: RunningService, api: Api
):
    instance = flows.run("A → B", {"customer": "C-7", "total": 12})
    other = flows.run("A", {"customer": "C-8"})
    before = done(api.get(f"/entity/{entity_of(instance)}"))["meta"]["transactionId"]
    for job in flows.poll("A"):
        flows.complete(job, {"total": 99})
    flows.complete(flows.job("B"), {"total": 120})
    found = search(api, "$.input.customer", "EQUALS", "C-7")
    assert [one["meta"]["id"] for one in found] == [entity_of(instance)]
    assert {one["meta"]["id"] for one in search(api, "$.result.total", "GREATER_THAN", 50)} == {
        entity_of(instance),
        entity_of(other),
    }
    then = done(api.get(f"/entity/{entity_of(instance)}?transactionId={before}"))
    assert (then["meta"]["state"], then["data"]["activeNodes"]) == ("RUNNING", [1])
    assert api.state(entity_of(instance)) == "COMPLETED"
    assert len(done(api.get(f"/entity/{entity_of(instance)}/changes"))) == 3
    trail = done(api.get(f"/audit/entity/{entity_of(instance)}?eventType=StateMachine&limit=99"))["items"]
    kinds = [event["data"]["kind"] for event in trail if event["eventType"] == "STATE_PROCESS_RESULT"]
    assert kinds == ["flow-completed", "flow-started"]


def search(api: Api, path: str, operator: str, value: Json) -> list[Json]:
    condition = {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}
    response = api.post("/search/direct/FlowInstance/1", condition)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines() if line]


def test_instances_are_stopped_by_their_transitions_and_nobody_else_writes_them(flows: Flows, api: Api):
    instance = flows.run("A")
    job = flows.job("A")
    assert api.put(f"/entity/JSON/{entity_of(instance)}", {"input": {}}).status_code == 403
    assert api.put(f"/entity/JSON/{entity_of(instance)}/complete", {}).status_code == 403
    api.update(entity_of(instance), {}, fire="terminate")
    assert api.state(entity_of(instance)) == "TERMINATING"
    api.update(entity_of(instance), {}, fire="terminate")
    assert api.state(entity_of(instance)) == "TERMINATED"
    api.update(entity_of(instance), {}, fire="restart")
    assert flows.job("A")["id"] != job["id"]
    api.update(entity_of(instance), {"reason": "enough"}, fire="cancel")
    assert flows.read(instance)["failureReason"] == "enough"
    assert api.put(f"/entity/JSON/{entity_of(instance)}/restart", {}).status_code == 404


def test_a_task_has_a_time_limit_and_rests_between_its_tries(flows: Flows):
    backoff = {"kind": "fixed", "delay": "PT1H"}
    instance = flows.run(
        "slow | flaky", tasks={"slow": {"timeLimit": "PT0.2S"}, "*": {"retries": 1, "backoff": backoff}}
    )
    job = flows.job("flaky")
    eventually(lambda: flows.read(instance)["status"] == "FAILED")
    assert [(place["name"], place["reason"]) for place in flows.read(instance)["failedNodes"]] == [
        ("slow.2", "TIMEOUT")
    ]
    assert flows.poll("slow") == []
    flows.do(instance, "restart")
    flows.complete(flows.job("slow"))
    flows.fail(job, retryable=True)
    assert flows.poll("flaky") == []
    assert flows.read(instance)["status"] == "RUNNING"


def test_a_policy_with_a_misspelt_member_is_refused(flows: Flows):
    for policy in ({"timelimit": "PT1S"}, {"backoff": {"kind": "linear"}}, {"timeLimit": 3}):
        body = {"id": "f", "source": "A", "settings": {"tasks": {"A": policy}}}
        an_error(flows.api.post("/v1/flows/definitions", body), 400, "bad-request")


def test_a_live_diagram_has_the_colours_of_what_happened(flows: Flows):
    instance = flows.run("A → ? `$.never` B → C")
    flows.complete(flows.job("A"), {"a": 1})
    drawn = flows.api.get(f"/v1/flows/instances/{instance['id']}/diagram?direction=TB")
    assert drawn.headers["content-type"].startswith("text/plain")
    lines = drawn.text.splitlines()
    assert lines[:2] == ["stateDiagram-v2", '  state "A" as A.1']
    ways = ["[*]-->A.1:::completed", "A.1-->B.2:::skipped", "B.2-->C.3:::running", "C.3-->[*]"]
    assert lines[4:8] == [f"  {way}" for way in ways]
    assert [line.split()[:2] for line in lines[8:]] == [
        ["classDef", name] for name in ("running", "completed", "skipped")
    ]


def test_what_is_counted_says_of_which_language_it_is(flows: Flows, service: RunningService):
    flows.do(flows.run("A"), "cancel")
    found = Api(service.admin).get("/metrics").text
    assert 'statewright_process_nodes_entered_total{language="flows",node_type="task"}' in found
    assert 'statewright_process_instances_ended_total{language="flows",outcome="cancelled"}' in found

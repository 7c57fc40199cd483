"""Instances over REST (docs/reference/steps.md#starting-and-reading-instances,
docs/reference/steps.md#user-tasks-and-signals, docs/reference/steps.md#retrying-a-failed-instance).
"""

import random
import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from typer.testing import Result

from statewright.cli.main import program
from tests.builders import Json
from tests.commands import CommandRunner
from tests.integration.steps_http.conftest import an_error, definition, done, polled, started, step, uploaded
from tests.service import Api, RunningService, a_token, eventually

ULID = "01JABC3V9E6K8M2Q4S6T8W0Y2Z"
WORK = definition("work", step("do", "SERVICE_TASK", "end", jobType="do"))
ASK = definition("ask", step("review", "USER_TASK", "end", jobType="review-form"))
PAUSE = definition("pause", step("paid", "WAIT", "end"))
DECIDE = definition("decide", step("route", "DECISION", conditionalNextSteps={"score > 1": "end"}))


def status(v1: Api, instance: str) -> str:
    return str(done(v1.get(f"/v1/instances/{instance}"))["status"])


def test_a_start_is_answered_as_the_instance_stands_after_all_steps_that_need_nobody(v1: Api) -> None:
    calc = step("calc", "TRANSFORMATION", "end", transformations={"sum": "${a + 1}"})
    uploaded(v1, definition("calc", calc))
    instance = started(v1, "calc", variables={"a": 1}, businessKey="K")
    members = "id definitionId definitionVersion status currentStepIds variables startedAt completedAt businessKey"
    assert set(instance) == set(members.split())
    assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", instance["id"])
    assert (instance["status"], instance["currentStepIds"]) == ("COMPLETED", [])
    assert instance["variables"] == {"a": 1, "sum": 2}
    assert done(v1.get(f"/v1/instances/{instance['id']}")) == instance


def test_an_instance_in_flight_has_no_members_it_does_not_need(v1: Api) -> None:
    uploaded(v1, WORK)
    instance = started(v1, "work")
    members = "id definitionId definitionVersion status currentStepIds variables startedAt"
    assert list(instance) == members.split()
    assert (instance["variables"], instance["currentStepIds"], instance["status"]) == ({}, ["do"], "ACTIVE")


def test_a_start_may_name_a_version_and_members_in_any_case(v1: Api) -> None:
    uploaded(v1, WORK, WORK | {"name": "Second"})
    assert started(v1, "work")["definitionVersion"] == 2
    assert started(v1, "work", definitionVersion=1)["definitionVersion"] == 1
    assert started(v1, "work", definitionVersion=-1)["definitionVersion"] == 2
    assert done(v1.post("/v1/instances", {"DEFINITIONID": "work", "unknown": 1}), 201)["definitionVersion"] == 2


@pytest.mark.parametrize("wanted", [{"definitionId": "none"}, {"definitionId": "work", "definitionVersion": 9}])
def test_an_unknown_definition_cannot_be_started(v1: Api, wanted: Json) -> None:
    uploaded(v1, WORK)
    name = wanted["definitionId"]
    reason = an_error(v1.post("/v1/instances", wanted), 404, "not-found")
    assert reason == f'start: load definition "{name}": definition not found'


def test_a_business_key_is_taken_while_its_instance_is_in_flight(v1: Api) -> None:
    uploaded(v1, WORK)
    first = started(v1, "work", businessKey="K")
    body = {"definitionId": "work", "businessKey": "K"}
    reason = an_error(v1.post("/v1/instances", body), 409, "conflict")
    assert reason == "business key already in use by an in-flight instance of this definition"
    done(v1.post(f"/v1/instances/{first['id']}/cancel"))
    done(v1.post("/v1/instances", body), 201)


def test_a_definition_that_fails_at_once_is_still_a_successful_start(v1: Api) -> None:
    uploaded(v1, DECIDE)
    instance = started(v1, "decide")
    assert instance["status"] == "FAILED"
    assert instance["failureReason"] == 'expression eval error: expression "score > 1": undefined variable "score"'
    assert instance["currentStepIds"] == ["route"]


@pytest.mark.parametrize("path", ["", "/history", "/diagram"])
@pytest.mark.parametrize("id_", [ULID, "x", "%00", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ"])
def test_an_unknown_instance_is_not_found(v1: Api, id_: str, path: str) -> None:
    reason = an_error(v1.get(f"/v1/instances/{id_}{path}"), 404, "not-found")
    assert "not found" in reason


def test_history_has_every_member_twice(v1: Api) -> None:
    uploaded(v1, WORK)
    instance = started(v1, "work", variables={"a": 1})["id"]
    [job] = polled(v1, "do")
    done(v1.post(f"/v1/jobs/{job['id']}/complete", {"variables": {"b": 2}}), 204)
    first, last = done(v1.get(f"/v1/instances/{instance}/history"))["items"]
    assert [first["stepId"], last["stepId"]] == ["do", "end"]
    assert (first["status"], first["attemptNumber"], first["stepType"]) == ("COMPLETED", 1, "SERVICE_TASK")
    assert (first["inputSnapshot"], first["outputSnapshot"]) == ({"a": 1}, {"b": 2})
    assert first["ID"] == first["id"] == job["stepExecutionId"]
    assert (first["StepID"], first["InstanceID"], first["FailureReason"]) == ("do", instance, None)
    assert (first["stepName"], first["definitionId"], first["definitionName"]) == ("do", "work", "The work")
    assert (first["StepName"], first["DefinitionID"], first["DefinitionName"]) == ("do", "work", "The work")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1e300", "1E+300"),
        ("-1.5e300", "-1.5E+300"),
        ("1" + "0" * 300, "1E+300"),
        ("1e6000", "1E+6000"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("100000000000000000000", "100000000000000000000"),
        ("1.0", "1"),
        ("0.1000", "0.1000"),
    ],
)
def test_a_number_has_the_same_form_wherever_it_is_read(v1: Api, written: str, read: str) -> None:
    """The database writes out what was written with an exponent, and typed clients cannot read 300 digits."""
    uploaded(v1, WORK, ASK)
    variables = f'"variables": {{"x": {written}, "in": [{{"y": {written}}}]}}'
    expected = f'"x":{read}'
    begun = v1.post("/v1/instances", f'{{"definitionId": "work", {variables}}}')
    asked = v1.post("/v1/instances", f'{{"definitionId": "ask", {variables}}}')
    poll = {"workerId": "w", "jobTypes": ["do"]}
    id_ = begun.json()["id"]
    answers = [
        *(begun, asked, v1.get(f"/v1/instances/{id_}"), v1.get("/v1/instances"), v1.get("/v1/user-tasks")),
        *(v1.get(f"/v1/instances/{id_}/history"), polling := v1.post("/v1/jobs/poll", poll)),
    ]
    [job] = polling.json()["jobs"]
    done(v1.post(f"/v1/jobs/{job['id']}/complete", f'{{"variables": {{"z": {written}}}}}'), 204)
    answers.append(v1.get(f"/v1/instances/{id_}"))
    for answer in answers:
        assert answer.status_code in (200, 201)
        assert expected in answer.text.replace(": ", ":"), answer.text[:1000]
        assert f'"y":{read}' in answer.text.replace(": ", ":")


def test_a_literal_of_a_definition_has_the_form_of_a_number_of_a_request(v1: Api) -> None:
    calc = step("calc", "TRANSFORMATION", "tell", transformations={"x": [1.0, 0.5]})
    tell = step("tell", "DECISION_TABLE", "end", decisionTable={"rules": [{"outputs": {"y": 2.0}}]})
    uploaded(v1, definition("literals", calc, tell))
    begun = v1.post("/v1/instances", {"definitionId": "literals"})
    for answer in (begun, v1.get(f"/v1/instances/{begun.json()['id']}")):
        assert '"variables":{"x":[1,0.5],"y":2}' in answer.text


def test_arithmetic_beyond_doubles_fails_the_instance_and_not_the_call(v1: Api) -> None:
    """An exception would leave the job to be delivered again and again."""
    calculate = step("calc", "TRANSFORMATION", "end", transformations={"y": "${x * 2}"})
    uploaded(v1, definition("far", step("do", "SERVICE_TASK", "calc", jobType="do"), calculate))
    instance = started(v1, "far")["id"]
    [job] = polled(v1, "do")
    done(v1.post(f"/v1/jobs/{job['id']}/complete", '{"variables": {"x": ' + "9" * 400 + "}}"), 204)
    after = done(v1.get(f"/v1/instances/{instance}"))
    assert after["status"] == "FAILED"
    assert "result +Inf is not a finite number" in after["failureReason"]
    assert polled(v1, "do") == []


def test_lists_are_filtered_and_the_newest_is_first(v1: Api) -> None:
    uploaded(v1, WORK, ASK)
    a, b = started(v1, "work", businessKey="A")["id"], started(v1, "work", businessKey="B")["id"]
    c = started(v1, "ask")["id"]

    def found(query: str) -> list[str]:
        return [item["id"] for item in done(v1.get(f"/v1/instances?{query}"))["items"]]

    assert found("") == [c, b, a]
    assert found("definitionId=work") == [b, a]
    assert found("status=WAITING") == [c]
    assert found("businessKey=A&definitionId=work") == [a]
    assert found("businessKey=A&definitionId=ask") == []
    assert found("status=SLEEPING") == []
    assert found("pageSize=1&page=1") == [b]
    page = done(v1.get("/v1/instances?pageSize=2"))
    assert (page["total"], page["page"], page["pageSize"], len(page["items"])) == (3, 0, 2, 2)


def test_a_page_of_large_instances_is_whole_and_comes_in_parts(v1: Api) -> None:
    """Six times what is read at once: random texts, which do not get smaller when they are stored."""
    uploaded(v1, WORK)
    dice = random.Random(1)
    texts = [dice.randbytes(500_000).hex() for _ in range(12)]
    ids = [started(v1, "work", variables={"text": text})["id"] for text in texts]
    small = started(v1, "work", variables={"text": "small"})["id"]
    response = v1.get("/v1/instances?pageSize=100")
    assert "content-length" not in response.headers, "nobody holds it as a whole"
    page = done(response)
    assert (page["total"], page["page"], page["pageSize"]) == (13, 0, 100)
    assert [item["id"] for item in page["items"]] == [small, *reversed(ids)]
    assert [item["variables"]["text"] for item in page["items"]] == ["small", *reversed(texts)]
    assert "content-length" in v1.get("/v1/instances?pageSize=1").headers


def test_a_history_of_large_values_is_whole_and_comes_in_parts(v1: Api) -> None:
    names = [f"s{number}" for number in range(12)]
    steps = [
        step(name, "TRANSFORMATION", then, transformations={"n": "${n + 1}"})
        for name, then in zip(names, [*names[1:], "end"], strict=True)
    ]
    uploaded(v1, definition("long", *steps))
    text = random.Random(1).randbytes(500_000).hex()
    instance = started(v1, "long", variables={"text": text, "n": 0})["id"]
    response = v1.get(f"/v1/instances/{instance}/history")
    assert "content-length" not in response.headers, "nobody holds it as a whole"
    lines = done(response)["items"]
    assert [line["stepId"] for line in lines] == [*names, "end"]
    assert [line["inputSnapshot"]["n"] for line in lines[:12]] == list(range(12))
    assert all(line["inputSnapshot"]["text"] == text for line in lines[:12])
    small = started(v1, "long", variables={"text": "", "n": 0})["id"]
    assert "content-length" in v1.get(f"/v1/instances/{small}/history").headers


@pytest.mark.parametrize(
    ("body", "reason"), [('{"reason": "by mistake"}', "by mistake"), ("", ""), ("{", ""), ("[]", "")]
)
def test_a_cancelled_instance_says_why(v1: Api, body: str, reason: str) -> None:
    uploaded(v1, WORK)
    instance = started(v1, "work")["id"]
    cancelled = done(v1.post(f"/v1/instances/{instance}/cancel", body))
    assert (cancelled["status"], cancelled["failureReason"]) == ("CANCELLED", reason)
    assert "completedAt" in cancelled
    assert polled(v1, "do") == []
    again = an_error(v1.post(f"/v1/instances/{instance}/cancel"), 409, "conflict")
    assert again == "instance is in a terminal state"
    missing = an_error(v1.post(f"/v1/instances/{ULID}/cancel"), 404, "not-found")
    assert missing == f'instance "{ULID}" not found'


def test_a_user_task_is_completed_by_the_id_of_its_step(v1: Api) -> None:
    uploaded(v1, ASK)
    instance = started(v1, "ask", variables={"amount": 7})
    assert (instance["status"], instance["currentStepIds"]) == ("WAITING", ["review"])
    path = f"/v1/instances/{instance['id']}/user-tasks/review/complete"
    done(v1.post(path, {"variables": {"decision": "yes"}, "completedBy": "ada"}), 204)
    after = done(v1.get(f"/v1/instances/{instance['id']}"))
    assert (after["status"], after["variables"]) == ("COMPLETED", {"amount": 7, "decision": "yes"})
    assert an_error(v1.post(path), 409, "conflict") == "instance is in a terminal state"


def test_a_user_task_takes_a_result_where_there_are_no_variables(v1: Api) -> None:
    uploaded(v1, ASK)
    instance = started(v1, "ask")["id"]
    done(v1.post(f"/v1/instances/{instance}/user-tasks/review/complete", {"result": {"decision": "no"}}), 204)
    assert done(v1.get(f"/v1/instances/{instance}"))["variables"] == {"decision": "no"}


def test_the_inbox_has_open_tasks_and_they_can_be_completed_by_their_own_ids(v1: Api) -> None:
    other = definition("other", step("check", "USER_TASK", "end"))
    uploaded(v1, ASK, other)
    first, second = started(v1, "ask", variables={"n": 1})["id"], started(v1, "other", businessKey="K")["id"]
    inbox = done(v1.get("/v1/user-tasks"))
    assert (inbox["total"], inbox["page"], inbox["pageSize"]) == (2, 0, 20)
    assert [(task["instanceId"], task["stepId"], task["definitionId"]) for task in inbox["items"]] == [
        (first, "review", "ask"),
        (second, "check", "other"),
    ]
    for query, found in (
        ("jobType=review-form", [first]),
        ("definitionId=other", [second]),
        ("olderThanSeconds=3600", []),
        ("pageSize=1&page=1", [second]),
    ):
        items = done(v1.get(f"/v1/user-tasks?{query}"))["items"]
        assert [task["instanceId"] for task in items] == found, query
    task = inbox["items"][0]["id"]
    done(v1.post(f"/v1/user-tasks/{task}/complete", {"completedBy": "ada", "result": {"x": 1}}), 204)
    assert status(v1, first) == "COMPLETED"
    assert done(v1.get("/v1/user-tasks"))["total"] == 1
    assert v1.post(f"/v1/user-tasks/{task}/complete").status_code in (404, 409)
    assert an_error(v1.post(f"/v1/user-tasks/{ULID}/complete"), 404, "not-found") == "user task not found"


def test_a_signal_resumes_a_wait_step_and_its_body_is_the_variables(v1: Api) -> None:
    uploaded(v1, PAUSE)
    instance = started(v1, "pause", variables={"order": {"id": 1}})["id"]
    done(v1.post(f"/v1/instances/{instance}/signals/paid", {"order": {"paid": True}}), 204)
    after = done(v1.get(f"/v1/instances/{instance}"))
    assert (after["status"], after["variables"]) == ("COMPLETED", {"order": {"paid": True}})


def test_a_signal_needs_no_body(v1: Api) -> None:
    uploaded(v1, PAUSE)
    instance = started(v1, "pause")["id"]
    done(v1.post(f"/v1/instances/{instance}/signals/paid"), 204)
    assert status(v1, instance) == "COMPLETED"


def test_of_two_signals_at_once_one_is_refused(v1: Api) -> None:
    uploaded(v1, PAUSE)
    instance, together = started(v1, "pause")["id"], Barrier(2)

    def signal(_n: int) -> int:
        together.wait()
        return v1.post(f"/v1/instances/{instance}/signals/paid").status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(signal, range(2))) == [204, 409]


@pytest.mark.parametrize(
    ("kind", "definition_", "step_id", "expected"),
    [
        ("task", None, "review", (404, "not-found", "workflow instance not found")),
        ("signal", None, "paid", (404, "not-found", "workflow instance not found")),
        ("task", ASK, "nowhere", (404, "not-found", "user task not found")),
        ("signal", PAUSE, "nowhere", (409, "conflict", "wait step is not currently parked on the instance")),
        ("task", ASK, "end", (400, "bad-request", "step type does not match the endpoint")),
        ("signal", PAUSE, "end", (400, "bad-request", "step type does not match the endpoint")),
    ],
)
def test_what_cannot_be_completed_or_signalled_says_why(
    v1: Api, kind: str, definition_: Json, step_id: str, expected: tuple[int, str, str]
) -> None:
    instance = ULID
    if definition_ is not None:
        uploaded(v1, definition_)
        instance = started(v1, definition_["id"])["id"]
    own = f"user-tasks/{step_id}/complete" if kind == "task" else f"signals/{step_id}"
    answer = v1.post(f"/v1/instances/{instance}/{own}")
    assert an_error(answer, expected[0], expected[1]) == expected[2]


def test_a_wait_that_is_not_reached_yet_keeps_no_signal(v1: Api) -> None:
    uploaded(v1, definition("later", step("do", "SERVICE_TASK", "paid", jobType="do"), step("paid", "WAIT", "end")))
    instance = started(v1, "later")["id"]
    reason = an_error(v1.post(f"/v1/instances/{instance}/signals/paid"), 409, "conflict")
    assert reason == "wait step is not currently parked on the instance"


def test_the_step_that_failed_an_instance_can_be_run_again(v1: Api) -> None:
    uploaded(v1, DECIDE)
    instance = started(v1, "decide", variables={"score": 0})["id"]
    retried = done(v1.post(f"/v1/instances/{instance}/steps/route/retry", {"variables": {"score": 5}}))
    assert (retried["status"], retried["variables"]) == ("COMPLETED", {"score": 5})
    assert "failureReason" not in retried
    path = f"/v1/instances/{instance}/steps"
    assert an_error(v1.post(f"{path}/route/retry"), 409, "conflict") == "instance is not in FAILED state"
    assert an_error(v1.post(f"{path}/x/retry"), 404, "not-found") == 'step "x" not found in definition'
    missing = an_error(v1.post(f"/v1/instances/{ULID}/steps/route/retry"), 404, "not-found")
    assert missing == "workflow instance not found"


def test_a_step_that_did_not_fail_is_not_run_again(v1: Api) -> None:
    uploaded(v1, DECIDE)
    instance = started(v1, "decide")["id"]
    reason = an_error(v1.post(f"/v1/instances/{instance}/steps/end/retry"), 409, "conflict")
    assert reason == 'latest attempt of step "end" is not FAILED'


def test_a_live_instance_is_drawn_with_where_it_is(v1: Api) -> None:
    uploaded(v1, WORK)
    drawn = v1.get(f"/v1/instances/{started(v1, 'work')['id']}/diagram")
    assert "    class s0 active" in drawn.text.splitlines()


def test_finished_instances_are_purged_by_administrators(service: RunningService, tenant: str, v1: Api) -> None:

    uploaded(v1, definition("short"), WORK)
    finished, active = started(v1, "short")["id"], started(v1, "work")["id"]
    admin = Api(service.root, a_token(tenant, user_roles=["ROLE_ADMIN"]))
    an_error(v1.post("/v1/instances/purge", {"olderThan": "PT0S"}), 403, "forbidden")
    for age in ("", "a week", "P1M", "P999999999999W"):
        an_error(admin.post("/v1/instances/purge", {"olderThan": age}), 400, "bad-request")
    assert done(admin.post("/v1/instances/purge", {"olderThan": "P30D"})) == {"purged": 0, "complete": True}
    assert done(admin.post("/v1/instances/purge", {"olderThan": "PT0S"})) == {"purged": 1, "complete": True}
    an_error(v1.get(f"/v1/instances/{finished}"), 404, "not-found")
    assert status(v1, active) == "ACTIVE"
    acts = done(admin.get("/ops/v1/audit?action=instances.purge"))["items"]
    assert [act["details"] for act in acts] == [
        {"language": "steps", "olderThanSeconds": seconds} for seconds in (0, 30 * 86_400)
    ]


def test_the_command_purges_finished_instances(service: RunningService, tenant: str, v1: Api) -> None:
    uploaded(v1, definition("short"), WORK)
    started(v1, "short")
    active = started(v1, "work")["id"]
    admin = a_token(tenant, user_roles=["ROLE_ADMIN"])

    def purged(age: str, token: str) -> Result:
        arguments = ["steps", "purge", "--older-than", age, "--url", service.root, "--token", token]
        return CommandRunner().invoke(program, arguments)

    eventually(lambda: purged("1s", admin).stdout == "1 instances removed\n")
    assert purged("1s", admin).stdout == "0 instances removed\n"
    assert status(v1, active) == "ACTIVE"
    for age, token, words in (("soon", admin, "--older-than"), ("1s", a_token(tenant), "admin role required")):
        refusal = purged(age, token)
        assert refusal.exit_code == 1
        assert words in refusal.stderr

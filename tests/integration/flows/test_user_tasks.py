"""User tasks of flows in the inbox of all languages (docs/reference/flows.md#user-tasks)."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from statewright import Client
from statewright.cli.main import program
from tests.builders import Json
from tests.commands import CommandRunner
from tests.integration.flows.conftest import Flows, an_error, done
from tests.integration.steps_http.conftest import definition, started, step, uploaded
from tests.service import Api, RunningService, a_token, eventually, hosted

APPROVE = """
load → ask ({"title": "Approve {input[id]}", "description": "For {input[who]}", "groups": ["ops", "{input[team]}"],
             "assignee": "ada", "form": {"approved": "boolean"}}) → ship
"""


def inbox(flows: Flows, query: str = "") -> list[Json]:
    return list(done(flows.api.get(f"/v1/user-tasks{query}"))["items"])


def answer(flows: Flows, task: Json, status: int = 204, **body: Json) -> Json:
    return done(flows.api.post(f"/v1/user-tasks/{task['id']}/complete", body), status)


def task_entity(service: RunningService, flows: Flows, task: Json) -> Json:
    """The entity that a user task is."""
    return done(entities(service, flows).get(f"/entity/{task['id']}"))


def entities(service: RunningService, flows: Flows) -> Api:
    return replace(flows.api, url=service.url)


def test_a_task_is_asked_of_a_person_and_the_answer_goes_on(flows: Flows, service: RunningService) -> None:
    flow = flows.upload(APPROVE)
    instance = flows.start(flow, {}, businessKey="O-7")
    flows.complete(flows.job("load"), {"id": 7, "who": "Bo", "team": "eu"})
    assert flows.poll("ask", "ship") == []
    [task] = inbox(flows)
    assert task | {"id": "", "stepExecutionId": "", "createdAt": ""} == {
        "id": "",
        "language": "flows",
        "instanceId": instance["id"],
        "stepId": "2",
        "stepExecutionId": "",
        "definitionId": flow,
        "definitionVersion": 1,
        "businessKey": "O-7",
        "status": "OPEN",
        "payload": {"id": 7, "who": "Bo", "team": "eu"},
        "createdAt": "",
        "title": "Approve 7",
        "description": "For Bo",
        "groups": ["ops", "eu"],
        "assignee": "ada",
        "form": {"approved": "boolean"},
    }
    told = done(flows.api.get(f"/ops/v1/instances/{instance['id']}/explain"))
    assert (told["verdict"], told["tokens"][0]["userTaskId"]) == ("WAITS_FOR_TASK", task["id"])
    answer(flows, task, result={"approved": True}, completedBy="ada")
    assert inbox(flows) == []
    assert flows.job("ship")["variables"]["input"] == {"approved": True}
    [line] = [line for line in flows.history(instance) if line["name"] == "ask.2"]
    assert (line["status"], line["output"]) == ("COMPLETED", {"approved": True})
    found = task_entity(service, flows, task)
    assert found["meta"]["state"] == "COMPLETED"
    assert (found["data"]["completedBy"], found["data"]["result"]) == ("ada", {"approved": True})
    events = done(entities(service, flows).get(f"/audit/entity/{UUID(found['meta']['id'])}"))["items"]
    assert events


def test_the_inbox_is_narrowed_by_language_person_and_group(flows: Flows) -> None:
    uploaded(flows.api, definition("of-steps", step("check", "USER_TASK", "end")))
    started(flows.api, "of-steps")
    flows.run('ask ({"title": "a", "assignee": "ada", "groups": ["ops"]})')
    flows.run('ask ({"title": "b", "groups": ["ops", "eu"]})')
    flows.run('ask ({"title": "c"})')
    for query, titles in (
        ("", ["", "a", "b", "c"]),
        ("?language=steps", [""]),
        ("?language=flows", ["a", "b", "c"]),
        ("?assignee=ada", ["a"]),
        ("?group=ops", ["a", "b"]),
        ("?group=ops&assignee=ada&language=flows", ["a"]),
        ("?group=ops&language=steps", []),
        ("?pageSize=1&page=2", ["b"]),
        ("?group=ops&pageSize=1&page=1", ["b"]),
    ):
        assert [task.get("title", "") for task in inbox(flows, query)] == titles, query
    assert done(flows.api.get("/v1/user-tasks?group=ops&pageSize=1"))["total"] == 2
    told = an_error(flows.api.get("/v1/user-tasks?language=flow"), 400, "bad-request")
    assert told["reason"] == "language must be one of steps, flows, playbooks"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"result": "yes"}, "result"),
        ({"variables": [1]}, "variables"),
        ({"result": {"a": "\0"}}, "NUL"),
        ({"result": {}, "completedBy": 7}, "completedBy"),
    ],
)
def test_an_answer_that_is_none_is_refused_and_the_task_stays_open(flows: Flows, body: Json, named: str) -> None:
    flows.run('ask ({"title": "a"})')
    [task] = inbox(flows)
    told = an_error(flows.api.post(f"/v1/user-tasks/{task['id']}/complete", body), 400, "bad-request")
    assert named.lower() in told["reason"].lower()
    assert inbox(flows) == [task]


def test_each_element_has_a_task_and_answers_may_be_arrays_or_nothing(flows: Flows) -> None:
    instance = flows.run('* ask ({"title": "Sign {input[n]}"})', [{"n": 1}, {"n": 2}, {"n": 3}])
    first, second, third = inbox(flows)
    assert [task["title"] for task in (first, second, third)] == ["Sign 1", "Sign 2", "Sign 3"]
    answer(flows, third, result=[7])
    answer(flows, first)
    assert [line["status"] for line in flows.history(instance) if "element" in line] == [
        "COMPLETED",
        "RUNNING",
        "COMPLETED",
    ]
    answer(flows, second, variables={"ok": 1})
    assert flows.read(instance)["result"] == [{}, {"ok": 1}, [7]]


def test_an_element_that_is_null_is_shown_as_such(flows: Flows) -> None:
    flows.run('<[null]> → * ask ({"title": "Look"})')
    assert [task["payload"] for task in inbox(flows)] == [{"input": None}]


def test_a_text_that_cannot_be_filled_in_fails_the_task(flows: Flows) -> None:
    instance = flows.run('ask ({"title": "Approve {input[id]}"})', {"no": 1})
    assert (instance["status"], instance["failedNodes"][0]["reason"]) == (
        "FAILED",
        "TEMPLATE: there is nothing for {input[id]}",
    )
    assert inbox(flows) == []


@pytest.mark.parametrize(
    ("parameters", "named"),
    [("{}", "title"), ('{"title": "a", "asignee": "b"}', "asignee"), ('{"title": "a", "groups": "b"}', "groups")],
)
def test_a_flow_whose_task_for_people_lacks_a_parameter_is_refused(flows: Flows, parameters: str, named: str) -> None:
    body = {"id": "x", "source": f"A →\n ask ({parameters})"}
    refused = an_error(flows.api.post("/v1/flows/definitions", body), 400, "bad-request")
    assert (refused["code"], refused["line"], refused["column"]) == ("PARAMETERS", 2, 2)
    assert named in refused["reason"]


@pytest.mark.parametrize("verbs", [("cancel",), ("terminate", "terminate")])
def test_a_task_ends_with_its_instance(flows: Flows, service: RunningService, verbs: tuple[str, ...]) -> None:
    instance = flows.run('ask ({"title": "a"})')
    [task] = inbox(flows)
    for verb in verbs:
        flows.do(instance, verb)
    assert inbox(flows) == []
    assert task_entity(service, flows, task)["meta"]["state"] == "CANCELLED"
    assert flows.api.post(f"/v1/user-tasks/{task['id']}/complete", {}).status_code in (404, 409)


def test_a_task_that_is_open_for_too_long_fails_and_is_asked_again_by_a_restart(
    flows: Flows, service: RunningService
) -> None:
    instance = flows.run('ask ({"title": "a"})', tasks={"ask": {"timeLimit": "PT0.2S"}})
    [task] = inbox(flows)
    eventually(lambda: flows.read(instance)["status"] == "FAILED")
    assert flows.read(instance)["failedNodes"][0]["reason"] == "TIMEOUT"
    assert (inbox(flows), task_entity(service, flows, task)["meta"]["state"]) == ([], "CANCELLED")
    flows.do(instance, "restart")
    [again] = inbox(flows)
    assert again["id"] != task["id"]


def test_of_two_people_who_answer_at_once_one_wins(flows: Flows) -> None:
    instances = [flows.run('ask ({"title": "a"})') for _ in range(5)]
    for task in inbox(flows):
        path, bodies = f"/v1/user-tasks/{task['id']}/complete", [{"result": {"by": who}} for who in range(4)]
        with ThreadPoolExecutor(4) as people:
            told = sorted(one.status_code for one in people.map(partial(flows.api.post, path), bodies))
        assert told == [204, 409, 409, 409]
    for instance in instances:
        lines = [line for line in flows.history(instance) if line["name"] == "ask.1"]
        assert [line["output"] for line in lines] == [flows.read(instance)["result"]]


def test_another_tenant_neither_sees_nor_answers_it(flows: Flows, other: Flows) -> None:
    flows.run('ask ({"title": "a"})')
    [task] = inbox(flows)
    assert inbox(other) == []
    an_error(other.api.post(f"/v1/user-tasks/{task['id']}/complete", {}), 404, "not-found")
    assert inbox(flows) == [task]


async def test_an_open_task_outlives_a_restart_and_is_removed_with_its_instance(database: str) -> None:
    with hosted(nullcontext(database)) as service:
        flows = Flows(Api(service.root, a_token("t")))
        instance = flows.run('ask ({"title": "a"}) → B', {"n": 1})
        [task] = inbox(flows)
    with hosted(nullcontext(database)) as service:
        flows = Flows(Api(service.root, a_token("t")))
        assert inbox(flows) == [task]
        answer(flows, task, result={"n": 2})
        flows.complete(flows.job("B"), {"n": 3})
        assert (flows.read(instance)["result"], task_entity(service, flows, task)["data"]["result"]) == (
            {"n": 3},
            {"n": 2},
        )
    with hosted(nullcontext(database), flows_retention=timedelta(microseconds=1)) as service:
        api = Api(service.url, a_token("t"))
        eventually(lambda: api.get(f"/entity/{task['id']}").status_code == 404)
        assert api.get(f"/entity/{instance['id']}").status_code == 404


def test_its_entity_is_completed_by_its_transition(flows: Flows, service: RunningService) -> None:
    instance = flows.run('ask ({"title": "a"}) → :end')
    [task] = inbox(flows)
    api, entity = entities(service, flows), task_entity(service, flows, task)["meta"]["id"]
    refused = api.put(f"/entity/JSON/{entity}/complete", {"result": 7})
    assert (refused.status_code, "result" in refused.text) == (400, True)
    done(api.put(f"/entity/JSON/{entity}/complete", {"result": [1]}))
    assert flows.read(instance)["result"] == [1]
    found = task_entity(service, flows, task)
    assert (found["meta"]["state"], found["data"]["title"]) == ("COMPLETED", "a")
    assert api.put(f"/entity/JSON/{entity}/complete", {}).status_code in (400, 404, 409)


def test_a_worker_has_no_say_in_it(flows: Flows) -> None:
    flows.run('ask ({"title": "a"})')
    [task] = inbox(flows)
    path, body = f"/v1/jobs/{task['id']}", {"workerId": "w-1", "errorMessage": "no", "variables": {}}
    for verb in ("complete", "fail"):
        assert flows.api.post(f"{path}/{verb}", body).status_code in (204, 404, 409)
    assert inbox(flows) == [task]


def test_the_client_and_commands_list_and_answer_tasks_of_all_languages(
    flows: Flows, service: RunningService, tenant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    uploaded(flows.api, definition("of-steps", step("check", "USER_TASK", "end")))
    of_steps = started(flows.api, "of-steps")
    of_flows = flows.run('* ask ({"title": "Sign", "groups": ["ops"]})', [1, 2])

    def run(*words: str) -> str:
        named = {"STATEWRIGHT_URL": service.root, "STATEWRIGHT_TOKEN": a_token(tenant)}
        result = CommandRunner().invoke(program, ["tasks", *words], env=named)
        assert result.exit_code == 0, result.output
        return result.output

    with Client(service.root, token=a_token(tenant)) as client:
        assert [task.step_id for task in client.steps.user_tasks()] == ["check"]
        assert [task.language for task in client.tasks.list()] == ["steps", "flows", "flows"]
        first, second = client.tasks.list(group="ops", size=1)
        assert (first.title, first.groups) == ("Sign", ("ops",))
        client.tasks.complete(first.id, [7], completed_by="ada")
        assert "Sign" in run("list", "--language", "flows")
        run("complete", second.id, '{"ok": true}', "--by", "ada")
        assert '"completedBy": "ada"' in run("show", second.id)
        assert "Sign" not in run("list")
        for task in client.tasks.list():
            client.tasks.complete(task.id, {"x": 1})
        assert client.flows.instance(of_flows["id"]).result == [[7], {"ok": True}]
        assert client.steps.instance(of_steps["id"]).variables == {"x": 1}

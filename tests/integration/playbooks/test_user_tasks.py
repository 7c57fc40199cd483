"""User tasks of playbooks in the inbox of all languages (docs/reference/playbooks.md#user-tasks)."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest

from statewright.playbooks.source import PlaybookSource, compile_source
from statewright.processes.language import source_to_text
from tests.builders import Json
from tests.integration.playbooks.conftest import HEADER
from tests.integration.playbooks.node import a_playbook_node
from tests.service import Api, RunningService, a_token, eventually, hosted

APPROVE = """
workload: {order: 7, team: eu}
workflow:
- step: approve
  tool:
    kind: ask
    title: "Approve {{ workload.order }}"
    groups: [ops, "{{ workload.team }}"]
    form: {approved: boolean}
  next:
    arcs:
    - {step: ship, when: "event.name == 'step.done' and results.approve.approved", args: {by: "{{ results.approve }}"}}
- step: ship
  tool: {kind: noop}
  set: {ctx.seen: "{{ args.by }}"}
"""
SIGN = """
workflow:
- step: sign
  loop: {in: "{{ workload.of }}", iterator: one, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: ask, title: "Sign {{ iter.one.name }}"}
"""


def done(response: Json, status: int = 200) -> Json:
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    return response.json() if response.content else None


@pytest.fixture
def v1(service: RunningService, tenant: str) -> Api:
    return Api(service.root, a_token(tenant))


def run(v1: Api, text: str, **members: Json) -> str:
    stored = done(v1.post("/v1/playbooks", (HEADER + text).encode(), **{"Content-Type": "application/yaml"}), 201)
    return str(done(v1.post("/v1/executions", {"path": stored["path"], **members}), 201)["id"])


def inbox(v1: Api, query: str = "") -> list[Json]:
    return list(done(v1.get(f"/v1/user-tasks{query}"))["items"])


def read(v1: Api, execution: str) -> Json:
    return done(v1.get(f"/v1/executions/{execution}"))


def test_a_step_is_done_by_a_person_and_arcs_look_at_the_answer(v1: Api, service: RunningService) -> None:
    execution = run(v1, APPROVE)
    [task] = inbox(v1, "?language=playbooks&group=eu")
    assert (task["title"], task["groups"], task["form"]) == ("Approve 7", ["ops", "eu"], {"approved": "boolean"})
    assert (task["language"], task["stepId"], task["instanceId"]) == ("playbooks", "approve", execution)
    done(v1.post(f"/v1/user-tasks/{task['id']}/complete", {"result": {"approved": True}, "completedBy": "ada"}), 204)
    found = read(v1, execution)
    assert (found["status"], found["ctx"]["seen"]) == ("success", {"approved": True})
    entity = done(replace(v1, url=service.url).get(f"/entity/{task['id']}"))
    assert (entity["meta"]["state"], entity["data"]["completedBy"]) == ("COMPLETED", "ada")
    assert v1.post(f"/v1/user-tasks/{task['id']}/complete", {}).status_code in (404, 409)


def test_each_element_is_a_task_and_one_that_cannot_be_asked_fails_alone(v1: Api) -> None:
    execution = run(v1, SIGN, workload={"of": [{"name": "a"}, {"name": ""}, {"name": "x" * 2_000}, {"name": "d"}]})
    first, second = inbox(v1)
    assert [first["title"], second["title"]] == ["Sign a", "Sign "]
    done(v1.post(f"/v1/user-tasks/{first['id']}/complete", {"result": [1]}), 204)
    assert [task["title"] for task in inbox(v1)] == ["Sign "]
    done(v1.post(f"/v1/user-tasks/{second['id']}/complete", {}), 204)
    failed = read(v1, execution)
    assert failed["status"] == "failed"
    assert "title" in str(failed)


def test_a_worker_has_no_say_in_it_and_a_cancelled_execution_takes_it_along(v1: Api) -> None:
    execution = run(v1, APPROVE)
    [task] = inbox(v1)
    for verb, body in (("complete", {"variables": {"status": "ok", "result": 1}}), ("fail", {"errorMessage": "no"})):
        path = f"/v1/jobs/{task['id']}/{verb}"
        assert v1.post(path, {"workerId": "w", **body}).status_code in (204, 400, 404, 409)
    assert inbox(v1) == [task]
    done(v1.post(f"/v1/executions/{execution}/cancel", {}))
    assert inbox(v1) == []


def test_the_time_limit_of_a_step_ends_it(v1: Api) -> None:
    limit = "  spec: {policy: {lifecycle: {timeout_s: 1}}}\n  tool:"
    execution = run(v1, APPROVE.replace("  tool:", limit, 1))
    assert len(inbox(v1)) == 1
    eventually(lambda: read(v1, execution)["status"] == "failed")
    assert inbox(v1) == []


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("{kind: ask}", "title is missing"),
        ("{kind: ask, title: a, asignee: b}", "asignee is not known; did you mean assignee?"),
        ("{kind: ask, title: a, groups: b}", "groups"),
        ("[{kind: ask, title: a}, {kind: noop}]", "must be the only task of its step"),
        (
            "{kind: ask, title: a, spec: {policy: {rules: [{else: {then: {do: retry}}}]}}}",
            "has no effect on what people",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_place(v1: Api, tool: str, told: str) -> None:
    text = f"{HEADER}\nworkflow:\n- step: only\n  tool: {tool}\n"
    refused = v1.post("/v1/playbooks", text.encode(), **{"Content-Type": "application/yaml"})
    assert refused.status_code == 400
    assert told in refused.text
    assert "/workflow/0/tool" in refused.text


async def test_a_playbook_that_was_stored_before_has_its_worker_do_it(database: str) -> None:
    old = PlaybookSource(text=f"{HEADER}\nworkflow:\n- step: only\n  tool: {{kind: ask}}\n")
    assert "asks_people" not in source_to_text(old)
    assert compile_source(old, 1).asking == frozenset()
    async with a_playbook_node(database) as node:
        await node.run("workflow:\n- step: only\n  tool: {kind: ask, title: a}\n")
        assert [task["title"] for task in await node.host.inbox()] == ["a"]
        assert await node.host.claim("playbook:ask") == ()


async def test_it_outlives_a_restart_and_is_removed_with_its_execution(database: str) -> None:
    token = a_token("t")
    with hosted(nullcontext(database)) as service:
        execution = run(Api(service.root, token), APPROVE)
        [task] = inbox(Api(service.root, token))
    with hosted(nullcontext(database)) as service:
        v1 = Api(service.root, token)
        assert inbox(v1) == [task]
        done(v1.post(f"/v1/user-tasks/{task['id']}/complete", {"result": {"approved": True}}), 204)
        assert read(v1, execution)["status"] == "success"
    with hosted(nullcontext(database), playbooks_retention=timedelta(microseconds=1)) as service:
        api = Api(service.url, token)
        eventually(lambda: api.get(f"/entity/{task['id']}").status_code == 404)

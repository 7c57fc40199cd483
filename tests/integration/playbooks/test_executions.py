"""Executions of playbooks over REST: started, watched, changed from outside, stopped and begun again."""

import json
from itertools import takewhile

import httpx
import pytest

from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.pipeline import ToolCall
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.services.processes import wakeups
from tests.builders import Json
from tests.integration.flows.conftest import done
from tests.integration.playbooks.conftest import HEADER, Playbooks, an_error, answer_null, run_pipeline
from tests.service import eventually

GATE = """
workflow:
- step: ask
  tool: {kind: noop}
  next: {arcs: [{step: act}]}
- step: act
  spec: {policy: {admit: {rules: [{when: "{{ ctx.approved }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: compute}
"""
UNKNOWN = "01JABC3V9E6K8M2Q4S6T8W0Y2Z"
TASK = "workflow: [{step: only, tool: {kind: compute}}]"


def kinds(events: list[Json]) -> list[str]:
    return [event["event_type"] for event in events]


def refuse(call: ToolCall, dispatch: Dispatch) -> Outcome:
    return fail("tool", "no")


# Definitions.


def test_the_same_playbook_again_is_the_same_version(playbooks: Playbooks):
    first = done(playbooks.api.post("/v1/playbooks", (HEADER + TASK).encode()), 201)
    again = done(playbooks.api.post("/v1/playbooks", (HEADER + TASK).encode()), 201)
    other = done(playbooks.api.post("/v1/playbooks", (HEADER + GATE).encode()), 201)
    assert [(one["version"], one["isNew"]) for one in (first, again, other)] == [(1, True), (1, False), (2, True)]
    listed = done(playbooks.api.get("/v1/playbooks"))["items"]
    assert [(one["path"], one["versions"]) for one in listed] == [("case", [1, 2])]
    assert done(playbooks.api.get("/v1/playbooks/case/versions/1"))["steps"] == ["only"]
    assert playbooks.api.get("/v1/playbooks/case/diagram?direction=TB").text.startswith("flowchart TB\n")


def test_a_path_may_have_slashes(playbooks: Playbooks):
    path = playbooks.upload(f"metadata: {{name: orders, path: shop/orders}}\n{TASK}")
    assert path == "shop/orders"
    assert done(playbooks.api.get(playbooks.path(path)))["path"] == path
    assert playbooks.start(path)["path"] == path


def test_everything_that_is_wrong_with_a_playbook_is_said(playbooks: Playbooks):
    text = "metadata: {name: x}\nworkflow: [{step: a, when: 1, next: {arcs: [{step: nowhere}]}}, {step: a}]\nvars: {}"
    answer = an_error(playbooks.api.post("/v1/playbooks/validate", text.encode()), 400, "bad-request")
    places = [line.split(":")[0] for line in answer["findings"]]
    assert {"/vars", "/workflow/0/when", "/workflow/0/next/arcs/0/step", "/workflow/1/step"} <= set(places)


@pytest.mark.parametrize(
    ("body", "word"),
    [(b"\xff", "UTF-8"), (b"[1]", "mapping"), (b"a: [", "line"), (b"x" * 1_100_000, "bytes"), (b"", "mapping")],
)
def test_what_is_no_playbook_is_refused(playbooks: Playbooks, body: bytes, word: str):
    assert word in an_error(playbooks.api.post("/v1/playbooks", body), 400, "bad-request")["reason"]


# Executions.


def test_an_approval_is_a_patch(playbooks: Playbooks):
    execution = playbooks.run(GATE, businessKey="O-1")
    assert (execution["status"], execution["pendingSteps"]) == ("waiting", ["act"])
    assert playbooks.poll() == []
    assert playbooks.do(execution, "evaluate")["status"] == "waiting"
    patched = playbooks.do(execution, "patch", ctx={"approved": True}, reason="they called")
    assert (patched["status"], patched["activeSteps"], patched["ctx"]) == ("running", ["act"], {"approved": True})
    assert playbooks.work() == 1
    ended = playbooks.read(execution)
    assert (ended["status"], ended["result"]["succeeded"]) == ("success", 1)
    assert kinds(playbooks.events(execution))[-3:] == ["workflow.finished", "playbook.finished", "playbook.processed"]
    assert "class s1,s0 completed" in playbooks.api.get(f"/v1/executions/{execution['id']}/diagram").text


def test_a_token_from_outside_is_another_run(playbooks: Playbooks):
    execution = playbooks.run("workflow: [{step: only, tool: {kind: compute, n: '{{ args.n | default(0) }}'}}]")
    playbooks.do(execution, "tokens", step="only", args={"n": 2})
    seen: list[object] = []

    def look(call: ToolCall, dispatch: Dispatch) -> Outcome:
        seen.append(dispatch.args.get("n"))
        return succeed(None)

    assert playbooks.work(look) == 2
    assert seen == [None, 2]


def test_a_failed_execution_is_begun_again_where_it_failed(playbooks: Playbooks):
    text = "workflow: [{step: a, tool: {kind: compute}, next: {arcs: [{step: b}]}}, {step: b, tool: {kind: compute}}]"
    execution = playbooks.run(text)
    [job] = playbooks.poll()
    playbooks.complete(job, run_pipeline(job["variables"], answer_null))
    assert playbooks.work(refuse) == 1
    failed = playbooks.read(execution)
    assert (failed["status"], failed["result"]["failures"][0]["step"]) == ("failed", "b")
    assert playbooks.do(execution, "restart")["status"] == "running"
    assert playbooks.work() == 1
    assert playbooks.read(execution)["status"] == "success"
    assert [run["step"] for run in done(playbooks.api.get(f"/v1/executions/{execution['id']}/history"))["items"]] == [
        "a",
        "b",
        "b",
    ]


def test_a_cancelled_execution_takes_nothing_more(playbooks: Playbooks):
    execution = playbooks.run(TASK)
    [job] = playbooks.poll()
    assert playbooks.do(execution, "cancel", reason="enough")["status"] == "cancelled"
    playbooks.complete(job, run_pipeline(job["variables"], answer_null))
    assert playbooks.read(execution)["state"] == "CANCELLED"
    for verb, body in (("cancel", {}), ("patch", {"ctx": {"a": 1}}), ("tokens", {"step": "only"}), ("restart", {})):
        an_error(playbooks.api.post(f"/v1/executions/{execution['id']}/{verb}", body), 409, "conflict")


@pytest.mark.parametrize(
    ("completion", "word"),
    [
        (None, "status"),
        ({"status": "fine"}, "status"),
        ({"status": "error"}, "error"),
        ({"status": "ok", "patches": [{"path": []}]}, "patches"),
        ({"status": "ok", "patches": [{"path": ["a", 1], "value": 1}]}, "patches"),
        ({"status": "ok", "log": [{"event": "token.created"}]}, "log"),
        ({"status": "ok", "log": {}}, "log"),
    ],
)
def test_what_is_no_completion_is_refused_and_the_job_stays(playbooks: Playbooks, completion: Json, word: str):
    execution = playbooks.run(TASK)
    [job] = playbooks.poll()
    body = {"workerId": playbooks.worker, "variables": completion}
    answer = an_error(playbooks.api.post(f"/v1/jobs/{job['id']}/complete", body), 400, "bad-request")
    assert word in answer["reason"]
    playbooks.complete(job, {"status": "ok", "result": 1})
    assert playbooks.read(execution)["results"] == {"only": 1}


@pytest.mark.parametrize(
    ("verb", "body", "word"),
    [
        ("patch", {"ctx": {}}, "ctx"),
        ("patch", {"ctx": {"a..b": 1}}, "a..b"),
        ("patch", {"ctx": 3}, "ctx"),
        ("tokens", {}, "step"),
        ("tokens", {"step": "nowhere"}, "nowhere"),
        ("cancel", {"reason": "x" * 5000}, "reason"),
    ],
)
def test_bad_requests_name_the_member(playbooks: Playbooks, verb: str, body: Json, word: str):
    execution = playbooks.run(GATE)
    answer = an_error(playbooks.api.post(f"/v1/executions/{execution['id']}/{verb}", body), 400, "bad-request")
    assert word in answer["reason"]


def test_another_tenant_sees_nothing(playbooks: Playbooks, other: Playbooks):
    """An execution of another tenant is as unknown as one that never was, and is called an execution everywhere."""
    execution = playbooks.run(GATE)
    for id_ in (UNKNOWN, execution["id"]):
        for path in ("", "/events", "/values/x", "/history", "/diagram"):
            answer = an_error(other.api.get(f"/v1/executions/{id_}{path}"), 404, "not-found")
            assert answer["reason"] == f'execution "{id_}" not found', path
        answer = an_error(other.api.post(f"/v1/executions/{id_}/patch", {"ctx": {"approved": True}}), 404, "not-found")
        assert answer["reason"] == f'execution "{id_}" not found'
    an_error(other.api.post("/v1/executions", {"path": "case"}), 404, "not-found")
    assert playbooks.read(execution)["status"] == "waiting"


# The event log as it grows.


def read_stream(playbooks: Playbooks, execution: Json, **headers: str) -> list[Json]:
    """All events until the end."""
    url = f"{playbooks.api.url}/v1/executions/{execution['id']}/events"
    named = {"Authorization": f"Bearer {playbooks.api.token}", "Accept": "text/event-stream", **headers}
    with httpx.stream("GET", url, headers=named, timeout=60) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["x-accel-buffering"] == "no"
        lines = takewhile(lambda line: line != "event: end", answer.iter_lines())
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_a_stream_has_every_event_until_the_end_and_goes_on_after_a_break(playbooks: Playbooks):
    execution = playbooks.run(TASK)
    playbooks.work()
    listed = playbooks.events(execution)
    assert read_stream(playbooks, execution) == listed
    assert read_stream(playbooks, execution, **{"Last-Event-ID": "5"}) == listed[5:]
    url = f"/v1/executions/{execution['id']}/events"
    answer = playbooks.api.get(url, Accept="text/event-stream", Last_Event_ID="x")
    an_error(answer, 400, "bad-request")
    an_error(playbooks.api.get(f"{url}?limit=1001"), 400, "bad-request")


def test_too_many_streams_are_refused(playbooks: Playbooks, monkeypatch: pytest.MonkeyPatch):
    execution = playbooks.run(GATE)
    monkeypatch.setattr(wakeups, "MAX_TENANT_FOLLOWERS", 0)
    url = f"/v1/executions/{execution['id']}/events"
    answer = playbooks.api.get(url, Accept="text/event-stream")
    assert an_error(answer, 429, "too-many-requests")
    assert answer.headers["retry-after"]  # TOO_MANY_REQUESTS: later it may be let in


# What the service does itself.


def test_a_playbook_awaits_another(playbooks: Playbooks):
    playbooks.upload(
        "metadata: {name: inner}\nworkload: {n: 1}\nworkflow: [{step: s, tool: {kind: compute, n: '{{ n }}'}}]"
    )
    execution = playbooks.run(
        "workflow: [{step: call, tool: {kind: playbook, path: inner, args: {n: 7}},"
        " set: {ctx.got: '{{ results.call }}'}}]"
    )
    eventually(lambda: playbooks.api.get("/v1/executions?path=inner").json()["total"] == 1)
    [inner] = done(playbooks.api.get("/v1/executions?path=inner"))["items"]
    assert (inner["parentExecutionId"], inner["workload"]) == (execution["id"], {"n": 7})
    assert playbooks.work(lambda call, dispatch: succeed(dispatch.workload["n"])) == 1
    eventually(lambda: playbooks.read(execution)["status"] == "success")
    assert playbooks.read(execution)["ctx"] == {"got": 7}


def test_elements_of_a_loop_are_other_playbooks(playbooks: Playbooks):
    playbooks.upload("metadata: {name: page}\nworkflow: [{step: s, tool: {kind: compute, n: '{{ workload.n }}'}}]")
    execution = playbooks.run(
        """
workflow:
- step: pages
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: [0, 1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool: {kind: playbook, path: "{{ 'page' if n != 2 else 'nowhere' }}", args: {n: "{{ n }}"}}
"""
    )
    jobs = list[Json]()
    eventually(lambda: jobs.extend(playbooks.poll()) or len(jobs) == 3)  # the third of them fails, so the fourth begins
    for job in jobs:
        number = job["variables"]["workload"]["n"]
        playbooks.complete(job, run_pipeline(job["variables"], lambda call, dispatch, n=number: succeed(f"page {n}")))
    eventually(lambda: playbooks.read(execution)["status"] == "partial")
    found = playbooks.read(execution)
    assert found["results"] == {"pages": ["page 0", "page 1", None, "page 3"]}
    assert done(playbooks.api.get("/v1/executions?path=page&state=COMPLETED"))["total"] == 3
    [failed] = [event for event in playbooks.events(execution) if event["event_type"] == "loop.iteration.failed"]
    assert (failed["iteration"], failed["payload"]["error"]["kind"]) == (2, "child")


def test_a_playbook_that_is_not_there_fails_the_step(playbooks: Playbooks):
    execution = playbooks.run("workflow: [{step: call, tool: {kind: playbook, path: nowhere}}]")
    eventually(lambda: playbooks.read(execution)["status"] == "failed")
    [failure] = playbooks.read(execution)["result"]["failures"]
    assert (failure["error"]["kind"], "nowhere" in failure["error"]["message"]) == ("child", True)


def test_a_wait_holds_no_worker_and_ends_by_itself(playbooks: Playbooks):
    execution = playbooks.run(
        "workflow: [{step: rest, tool: {kind: wait, seconds: 1}, next: {arcs: [{step: end}]}}, {step: end}]"
    )
    assert playbooks.read(execution)["activeSteps"] == ["rest"]
    eventually(lambda: playbooks.read(execution)["status"] == "success")
    at = [
        event["timestamp"]
        for event in playbooks.events(execution)
        if event["event_type"] in ("step.scheduled", "step.done")
    ]
    assert at[1] > at[0]


@pytest.mark.parametrize("door", ["", "/validate"])
def test_requests_are_refused_at_registration_unless_the_service_is_set_to_send_them(playbooks: Playbooks, door: str):
    text = HEADER + "workflow: [{step: get, tool: {kind: http, url: 'http://127.0.0.1:1/'}}]"
    answer = playbooks.api.post(f"/v1/playbooks{door}", text.encode(), Content_Type="application/yaml")
    refusal = an_error(answer, 400, "bad-request")
    assert refusal["findings"] == [
        "/workflow/0/tool/kind: must be another kind: http is disabled here (STATEWRIGHT_PLAYBOOKS_REQUESTS)"
    ]
    beside = text.replace("{kind: http,", "[{kind: python}, {kind: http,").replace("'}}]", "'}]}]")
    answer = playbooks.api.post(f"/v1/playbooks{door}", beside.encode(), Content_Type="application/yaml")
    assert answer.status_code in (200, 201), "workers send it"


# As entities.


def test_executions_are_searched_and_cancelled_as_entities(playbooks: Playbooks):
    execution = playbooks.run(GATE, ctx={"amount": 5})
    condition = {"type": "simple", "jsonPath": "$.ctx.amount", "operatorType": "GREATER_THAN", "value": 4}
    api = playbooks.api
    found = api.post("/api/search/direct/PlaybookExecution/1", condition)
    [entity] = [json.loads(line) for line in found.text.splitlines()]
    assert (entity["meta"]["state"], entity["data"]["id"]) == ("WAITING", execution["id"])
    done(api.put(f"/api/entity/JSON/{entity['meta']['id']}/cancel", {}))
    assert playbooks.read(execution)["status"] == "cancelled"


# Requests with a key.


def test_a_repeated_request_is_done_once(playbooks: Playbooks):
    def repeat(path: str, body: Json, key: str) -> Json:
        first, again = (playbooks.api.post(path, body, Idempotency_Key=key) for _ in range(2))
        assert (first.status_code, first.content) == (again.status_code, again.content), first.text
        assert again.headers["idempotency-replayed"] == "true"
        return first.json()

    repeat("/v1/playbooks", (HEADER + GATE).encode(), "upload")
    execution = repeat("/v1/executions", {"path": "case"}, "start")
    repeat(f"/v1/executions/{execution['id']}/tokens", {"step": "act"}, "token")
    patched = repeat(f"/v1/executions/{execution['id']}/patch", {"ctx": {"approved": True}}, "patch")
    assert (patched["status"], len(playbooks.poll())) == ("running", 2)
    assert done(playbooks.api.get("/v1/executions"))["total"] == 1
    repeat(f"/v1/executions/{execution['id']}/cancel", {}, "cancel")


def test_the_log_says_who_changed_an_execution_and_why(playbooks: Playbooks):
    execution = playbooks.run(GATE)
    playbooks.do(execution, "patch", ctx={"seen": 1}, reason="they called")
    playbooks.do(execution, "tokens", step="act")
    playbooks.do(execution, "evaluate")
    playbooks.do(execution, "cancel", reason="enough")
    asked = {
        event["event_type"]: event["payload"]["by"] for event in playbooks.events(execution) if "by" in event["payload"]
    }
    who = asked["ctx.patched"]["principal"]
    assert who
    assert asked == {
        "ctx.patched": {"principal": who, "reason": "they called"},
        "token.created": {"principal": who, "reason": None},
        "policy.admit.requested": {"principal": who, "reason": None},
        "execution.cancelled": {"principal": who, "reason": "enough"},
    }


def test_runs_of_a_task_are_told_apart(playbooks: Playbooks):
    """Attempts are of one run; a task that is jumped to is run again."""
    text = """
workflow:
- step: only
  tool:
  - {name: a, kind: compute, spec: {policy: {rules: [{when: _attempt == 1, then: {do: retry}}]}}}
  - name: b
    kind: compute
    spec: {policy: {rules: [{when: not iter.seen, then: {do: jump, to: a, set_iter: {seen: true}}}]}}
"""
    execution = playbooks.run(text)
    playbooks.work()
    events = playbooks.events(execution)
    begun = [event for event in events if event["event_type"] == "task.attempt.started"]
    run = begun[0]["step_run_id"]
    assert [(event["task_run_id"], event["attempt"]) for event in begun] == [
        (f"{run}/{label}/{number}", attempt)
        for label, number, attempt in [("a", 1, 1), ("a", 1, 2), ("b", 1, 1), ("a", 2, 1), ("a", 2, 2), ("b", 2, 1)]
    ]
    assert all("visit" not in event["payload"] for event in events)
    instant = playbooks.run("workflow: [{step: only, tool: {kind: noop}}]")
    [done_at_once] = [event for event in playbooks.events(instant) if event["event_type"] == "task.done"]
    assert done_at_once["task_run_id"] == f"{done_at_once['step_run_id']}/only_task/1"


def test_entries_name_what_they_are_part_of(playbooks: Playbooks):
    text = "workflow: [{step: only, loop: {in: [7], iterator: i}, tool: {kind: compute}}]"
    execution = playbooks.run(text)
    playbooks.work()
    found = {event["event_type"]: event for event in playbooks.events(execution)}
    run, element = found["step.scheduled"], found["loop.iteration.scheduled"]
    assert run["parent_id"] == found["token.created"]["entity_id"] == run["payload"]["token"]
    assert element["parent_id"] == run["entity_id"]
    assert found["loop.iteration.started"]["entity_id"] == element["entity_id"]
    for type_ in ("task.started", "task.attempt.done", "policy.task.evaluated"):
        assert found[type_]["parent_id"] == element["entity_id"]
        assert found[type_]["task_run_id"] == f"{element['entity_id']}/only_task/1"
    assert "task_run_id" not in found["loop.iteration.started"]
    assert found["task.attempt.done"]["duration_ms"] == 0


def test_a_start_request_with_members_that_are_not_known_is_refused_by_their_names(playbooks: Playbooks):
    path = playbooks.upload(HEADER + TASK)
    body = {"path": path, "workloads": {"n": 1}, "businesskey": "k", "colour": "red"}
    refused = playbooks.api.post("/v1/executions", body)
    assert refused.status_code == 400
    for told in ("workloads is not known; did you mean workload?", "did you mean businessKey?", "colour is not known"):
        assert told in refused.text
    assert done(playbooks.api.get("/v1/executions"))["items"] == []


def test_an_execution_that_takes_too_long_fails_and_runs_its_final_step(playbooks: Playbooks):
    path = playbooks.upload(
        HEADER
        + """
executor: {spec: {timeout_s: 0.2, final_step: report}}
workflow:
- {step: work, tool: {kind: compute}}
- {step: report, tool: {kind: noop}, set: {ctx.failed: "{{ args.failed }}"}}
"""
    )
    execution = playbooks.start(path)
    eventually(lambda: playbooks.read(execution)["status"] == "failed")
    ended = playbooks.read(execution)
    assert (ended["failureReason"], ended["ctx"]) == ("EXECUTION_TIMEOUT", {"failed": 1})

"""What runs report while they go on, over REST and by the service (docs/reference/executions.md#reports-of-runs)."""

from tests.builders import Json
from tests.integration.flows.conftest import done
from tests.integration.playbooks.conftest import Playbooks, an_error, answer_null, run_pipeline
from tests.integration.playbooks.node import a_playbook_node
from tests.service import eventually

GATE = """
- step: act
  spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: compute}
"""
BESIDE = f"""
workflow:
- step: begin
  next: {{spec: {{mode: inclusive}}, arcs: [{{step: work}}, {{step: act}}]}}
- step: work
  tool: {{kind: long}}
{GATE}
"""
OPENS = "{policy: {rules: [{else: {then: {do: continue, set_ctx: {open: true}}}}]}}"
BY_THE_SERVICE = f"""
workflow:
- step: begin
  next: {{spec: {{mode: inclusive}}, arcs: [{{step: work}}, {{step: act}}]}}
- step: work
  tool: [{{name: set, kind: noop, spec: {OPENS}}}, {{name: rest, kind: wait, seconds: 200}}]
{GATE}
"""


def report(playbooks: Playbooks, job: Json, progress: Json) -> Json:
    body = {"workerId": playbooks.worker, "progress": progress}
    return playbooks.api.post(f"/v1/jobs/{job['id']}/progress", body)


def test_a_run_that_goes_on_admits_a_token(playbooks: Playbooks):
    execution = playbooks.run(BESIDE)
    [job] = playbooks.poll("long")
    assert playbooks.poll() == []
    progress = {
        "patches": [{"path": ["open"], "value": True, "at": 1}],
        "log": [{"event": "task.started", "task": "work_task"}],
    }
    for _ in range(2):
        assert done(report(playbooks, job, progress)) == {"patches": 1, "log": 1}
    [other] = playbooks.poll()
    assert other["stepId"] == "act"
    playbooks.complete(other, run_pipeline(other["variables"], answer_null))
    playbooks.complete(job, {"status": "ok", "patches": progress["patches"], "log": progress["log"], "logged": 1})
    types = [event["event_type"] for event in playbooks.events(execution)]
    assert (types.count("ctx.patched"), types.count("task.started")) == (1, 2)
    assert types.index("ctx.patched") < types.index("step.done", types.index("ctx.patched"))
    assert playbooks.read(execution)["status"] == "success"


def test_a_report_is_refused_of_who_does_not_hold_the_job(playbooks: Playbooks, other: Playbooks):
    execution = playbooks.run(BESIDE)
    [job] = playbooks.poll("long")
    patch = {"patches": [{"path": ["a"], "value": 1}]}
    body = {"workerId": "somebody else", "progress": patch}
    an_error(playbooks.api.post(f"/v1/jobs/{job['id']}/progress", body), 409, "conflict")
    an_error(report(other, job, patch), 409, "conflict")
    an_error(report(playbooks, {"id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z"}, patch), 409, "conflict")
    an_error(report(playbooks, job, {"patches": [{"path": []}]}), 400, "bad-request")
    an_error(playbooks.api.post(f"/v1/jobs/{job['id']}/progress", {"progress": patch}), 400, "bad-request")
    playbooks.do(execution, "cancel")
    an_error(report(playbooks, job, patch), 409, "conflict")
    assert playbooks.read(execution)["ctx"] == {}


def test_a_run_of_the_service_reports_too(playbooks: Playbooks):
    execution = playbooks.run(BY_THE_SERVICE)
    eventually(lambda: playbooks.work() == 1)
    found = playbooks.read(execution)
    assert (found["activeSteps"], found["ctx"]) == (["work"], {"open": True})
    playbooks.do(execution, "cancel")


async def test_a_worker_that_takes_over_sees_what_the_first_one_saw(database: str):
    async with a_playbook_node(database) as node:
        execution = await node.run("workflow: [{step: only, tool: {kind: compute, n: '{{ ctx.n }}'}}]", ctx={"n": 1})
        first = await node.claim(worker="first")
        assert await node.report(first, {"patches": [{"path": ["n"], "value": 2}]}) == {"patches": 1, "log": 0}
        assert await node.host.sweep(seconds=31) == 1
        second = await node.claim(worker="second")
        assert second.variables["ctx"] == {"n": 1}
        await node.complete(second, {"status": "ok", "patches": [{"path": ["n"], "value": 2}]})
        assert (await node.read(execution)).marking.data["ctx"] == {"n": 2}
        assert len(await node.events(execution, "ctx.patched")) == 1

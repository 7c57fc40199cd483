"""Waits and other playbooks in the middle of pipelines, whoever does the rest of them
(docs/reference/executions.md#pauses).
"""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.pipeline import ToolCall
from statewright.playbooks.policies import Outcome, succeed
from statewright.playbooks.source import PlaybookSource
from statewright.services.playbooks.dialect import PLAYBOOK_DIALECT
from statewright.services.processes import dialects
from statewright.services.processes.successors import build_end_teller
from tests.builders import Json
from tests.integration.flows.conftest import done
from tests.integration.playbooks.conftest import Playbooks, run_pipeline
from tests.integration.playbooks.node import PlaybookNode
from tests.integration.steps.conftest import a_node
from tests.service import eventually

CHILD = "metadata: {name: child}\nworkflow: [{step: work, tool: {kind: inner, of: '{{ workload.of }}'}}]"
RETRY = "{policy: {rules: [{when: \"outcome.status == 'error'\", then: {do: retry, attempts: 2}}]}}"


def answer_with_fields(call: ToolCall, dispatch: Dispatch) -> Outcome:
    """What a task was asked for."""
    return succeed({"label": call.label, **call.fields})


def kinds(playbooks: Playbooks, execution: Json) -> list[str]:
    return [event["event_type"] for event in playbooks.events(execution) if event["event_type"].startswith("run.")]


def a_pipeline(*tasks: str) -> str:
    return f"workflow: [{{step: only, tool: [{', '.join(tasks)}]}}]"


def end_child(playbooks: Playbooks, completion: Callable[[Json], Json]) -> None:
    """Do the next job of an execution of the child."""
    found: list[Json] = []
    eventually(lambda: found.extend(playbooks.poll("inner", most=1)) or found)
    playbooks.complete(found[0], completion(found[0]["variables"]))


def succeed_with_fields(payload: Json) -> Json:
    return run_pipeline(payload, lambda call, _: succeed(call.fields["of"]))


def fail_child(payload: Json) -> Json:
    return {"status": "error", "error": {"kind": "broken"}}


def test_a_worker_gives_its_run_back_for_a_wait_and_another_goes_on_behind_it(playbooks: Playbooks):
    sets = "{policy: {rules: [{else: {then: {do: continue, set_ctx: {a: 1}, set_iter: {i: 2}}}}]}}"
    seen = "['{{ a.label }}', '{{ _prev }}', '{{ ctx.a }}', '{{ iter.i }}', '{{ ctx.other }}']"
    before, after = f"{{name: a, kind: compute, spec: {sets}}}", f"{{name: b, kind: compute, seen: {seen}}}"
    execution = playbooks.run(a_pipeline(before, "{name: rest, kind: wait, seconds: 2}", after))
    assert playbooks.work(answer_with_fields) == 1
    assert playbooks.poll() == []
    assert (playbooks.read(execution)["activeSteps"], kinds(playbooks, execution)) == (["only"], ["run.paused"])
    playbooks.do(execution, "patch", ctx={"other": 3})
    eventually(lambda: playbooks.work(answer_with_fields))
    found = playbooks.read(execution)
    assert (found["status"], found["ctx"]) == ("success", {"a": 1, "other": 3})
    assert found["results"]["only"]["seen"] == ["a", None, 1, 2, 3]
    assert kinds(playbooks, execution) == ["run.paused", "run.resumed"]
    told = [(one["event_type"], one["payload"]["task"]) for one in playbooks.events(execution) if "task_run_id" in one]
    assert told.count(("task.started", "rest")) == told.count(("task.done", "rest")) == 1
    started = [one for one in playbooks.events(execution) if one["event_type"] == "step.started"]
    assert len(started) == 1, "it has begun once"


def test_another_playbook_stands_among_the_tasks_of_a_worker(playbooks: Playbooks):
    playbooks.upload(CHILD)
    call = "{name: call, kind: playbook, path: child, args: {of: '{{ a.label }}'}}"
    execution = playbooks.run(
        a_pipeline("{name: a, kind: compute}", call, "{name: b, kind: compute, given: '{{ call }}'}")
    )
    assert playbooks.work(answer_with_fields) == 1
    end_child(playbooks, succeed_with_fields)
    eventually(lambda: playbooks.work(answer_with_fields))
    assert playbooks.read(execution)["results"]["only"]["given"] == "a"
    assert playbooks.read(execution)["status"] == "success"


def test_the_service_does_the_rest_of_a_pipeline_with_a_playbook(playbooks: Playbooks):
    playbooks.upload(CHILD)
    execution = playbooks.run(
        a_pipeline(
            "{kind: noop}", "{kind: wait, seconds: 1.2}", "{kind: playbook, path: child, args: {of: 7}}", "{kind: noop}"
        )
    )
    end_child(playbooks, succeed_with_fields)
    eventually(lambda: playbooks.read(execution)["status"] == "success")
    assert playbooks.read(execution)["results"]["only"] is None, "of the last task"
    assert kinds(playbooks, execution) == ["run.paused", "run.resumed"] * 2


def test_a_child_that_fails_is_tried_again_as_the_policy_says(playbooks: Playbooks):
    playbooks.upload(CHILD)
    call = f"{{name: call, kind: playbook, path: child, args: {{of: 1}}, spec: {RETRY}}}"
    execution = playbooks.run(f"workflow: [{{step: only, tool: {call}}}]")
    end_child(playbooks, fail_child)
    end_child(playbooks, succeed_with_fields)
    eventually(lambda: playbooks.read(execution)["status"] == "success")
    assert playbooks.read(execution)["results"] == {"only": 1}
    again = playbooks.start("case")
    end_child(playbooks, fail_child)
    end_child(playbooks, fail_child)
    eventually(lambda: playbooks.read(again)["status"] == "failed")
    [failure] = playbooks.read(again)["result"]["failures"]
    assert (failure["error"]["kind"], "child failed: BROKEN" in failure["error"]["message"]) == ("child", True)


def test_elements_of_a_parallel_loop_pause_each_for_itself_and_keep_what_they_set(playbooks: Playbooks):
    playbooks.upload(CHILD)
    sets = "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {last: 1}}}}]}}"
    tasks = ", ".join(
        (
            f"{{name: a, kind: compute, {sets}}}",
            "{name: call, kind: playbook, path: child, args: {of: '{{ x }}'}}",
            "{name: b, kind: compute, r: ['{{ call }}', '{{ ctx.last }}']}",
        )
    )
    execution = playbooks.run(
        f"workflow: [{{step: only, loop: {{in: [1, 2], iterator: x, spec: {{mode: parallel}}}}, tool: [{tasks}]}}]"
    )
    assert playbooks.work(answer_with_fields) == 2
    assert playbooks.read(execution)["ctx"] == {}
    end_child(playbooks, succeed_with_fields)
    end_child(playbooks, succeed_with_fields)
    eventually(lambda: playbooks.work(answer_with_fields) and playbooks.read(execution)["status"] == "success")
    found = playbooks.read(execution)
    assert [one["r"] for one in found["results"]["only"]] == [[1, 1], [2, 1]]
    assert found["ctx"] == {"last": 1}


def test_a_time_limit_ends_a_run_that_rests_and_what_it_waits_for(playbooks: Playbooks):
    playbooks.upload(CHILD)
    call = "{kind: playbook, path: child, args: {of: 1}}"
    limit = "spec: {policy: {lifecycle: {timeout_s: 1}}}"
    execution = playbooks.run(f"workflow: [{{step: only, {limit}, tool: [{{kind: noop}}, {call}]}}]")
    eventually(lambda: playbooks.read(execution)["status"] == "failed")
    eventually(lambda: done(playbooks.api.get("/v1/executions?path=child&state=CANCELLED"))["total"] == 1)


@pytest.mark.parametrize(
    ("pause", "told"),
    [
        ({}, "pause must have fields"),
        ({"fields": {}, "state": {"counter": 1}}, "no task that a run can pause for"),
        ({"fields": {}, "state": {"counter": 7}}, "no task that a run can pause for"),
        ({"fields": {}, "state": {"counter": -1}}, "no task that a run can pause for"),
        ({"fields": {"x": "x" * 1_100_000}, "state": {"counter": 0}}, "at most"),
    ],
)
def test_a_pause_that_is_none_is_refused(playbooks: Playbooks, pause: Json, told: str):
    playbooks.run(a_pipeline("{kind: wait, seconds: 5}", "{kind: compute}"))
    [job] = playbooks.poll()
    body = {"workerId": playbooks.worker, "variables": {"status": "paused", "pause": pause}}
    answer = playbooks.api.post(f"/v1/jobs/{job['id']}/complete", body)
    assert answer.status_code == 400
    assert told in answer.json()["reason"]


async def test_runs_that_rest_survive_the_death_of_a_node_and_are_cancelled_with_their_execution(database: str):
    tenant = f"tenant-{uuid4().hex[:8]}"
    text = a_pipeline(
        "{name: a, kind: compute}", "{name: call, kind: playbook, path: child}", "{name: b, kind: compute}"
    )
    async with a_node(database, tenant) as host:
        node = PlaybookNode(host)
        await dialects.upload_definition(
            PLAYBOOK_DIALECT, host.runtime.processes, host.caller, PlaybookSource(text=CHILD)
        )
        gone_on, cancelled = await node.run(text), await node.run(text)
        for job in await host.claim("playbook:compute"):
            await node.complete(job, run_pipeline(job.variables, answer_with_fields))
        assert await host.chain() == 2
    async with a_node(database, tenant) as host:
        node = PlaybookNode(host)
        await dialects.ask(PLAYBOOK_DIALECT, host.runtime.processes, host.caller, cancelled, "cancel", {})
        assert await host.chain() >= 1
        [job] = await host.claim("playbook:inner")
        await node.complete(job, {"status": "ok", "result": 5})
        teller = build_end_teller(host.runtime.processes, scan_interval=timedelta(seconds=1))
        host.clock.advance(timedelta(minutes=20))
        assert await teller.run_once() >= 1
        [job] = await host.claim("playbook:compute")
        await node.complete(job, run_pipeline(job.variables, answer_with_fields))
        assert (await node.read(gone_on)).outcome == "success"
        assert (await node.read(cancelled)).outcome == "cancelled"

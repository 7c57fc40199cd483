"""Pipelines of playbooks, run by a node (docs/reference/playbooks.md#pipelines)."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from msgspec import Struct

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject
from statewright.playbooks import compile_playbook
from statewright.playbooks.dispatch import Dispatch, Element, PausedRun, dispatch_to_document
from statewright.playbooks.policies import fail
from statewright.playbooks.run_record import MAX_LOG_ENTRIES
from statewright.playbooks.templates import EvaluationContext
from statewright.sdk.jobs import Job, JobLost, JobsRefused, JobsUnavailable, JobWorker, NonRetryable, Poll, TaskCall
from statewright.sdk.node import Node
from statewright.sdk.operations.calls import Call, HttpResponse
from statewright.sdk.pipelines import PipelineRunner
from statewright.sdk.rest_jobs import RestJobs

PATIENCE_S = 30.0


def a_payload(tool: str, **known: Any) -> JsonObject:
    header = "metadata: {name: x}\n"
    step = compile_playbook(f"{header}workflow: [{{step: s, tool: {tool}}}]").steps[0]
    dispatch = Dispatch(tasks=step.tasks, step="s", execution_id="E", step_run="R", **known)
    sent = decode(encode(dispatch_to_document(dispatch)))
    assert isinstance(sent, dict)
    return sent


class Ran(Struct):
    completion: dict[str, Any]
    reports: list[JsonObject]

    def list_events(self) -> list[str]:
        return [entry["event"] for entry in self.completion["log"]]


def take(report: JsonObject) -> JsonObject:
    """What a service answers that takes all."""
    seen = decode(encode(report))
    return {"patches": seen["from"] + len(seen["patches"]), "log": seen["logFrom"] + len(seen["log"])}  # type: ignore[index,call-overload,operator,arg-type]


async def run(
    node: Node, tool: str, *, answer: Callable[[JsonObject], "JsonObject | None"] = take, **known: Any
) -> Ran:
    runner = PipelineRunner({function.name: function for function in node.functions})
    reports: list[JsonObject] = []

    async def report(progress: JsonObject) -> "JsonObject | None":
        reports.append(progress)
        return answer(progress)

    with ThreadPoolExecutor(2) as threads:
        completion = await runner.run(a_payload(tool, **known), threads, report)
    return Ran(json.loads(encode(completion)), reports)


async def test_handlers_get_the_rendered_fields_and_their_results_go_on() -> None:
    node = Node()

    @node.task_kind("python")
    def double(fields: dict[str, Any]) -> int:
        return fields["input"]["n"] * 2

    ran = await run(node, "[{a: {kind: python, args: {n: '{{ args.n }}'}}}, {b: {kind: python, input: {n: '{{ a }}'}}}]", args={"n": 5})  # fmt: skip # noqa: E501
    assert (ran.completion["status"], ran.completion["result"]) == ("ok", 20)
    assert ran.completion["results"] == {"a": 10, "b": 20}


async def test_tasks_are_told_when_their_run_began() -> None:
    node = Node()
    node.task_kind("python")(lambda fields: fields)
    begun = EvaluationContext(at=1_764_000_000_500_000)
    task = "{kind: python, at: '{{ now() }}'}"
    ran = await run(node, f"[{{a: {task}}}, {{b: {task}}}]", context=begun)
    assert [result["at"] for result in ran.completion["results"].values()] == ["2025-11-24T16:00:00.5Z"] * 2


async def test_a_handler_may_ask_for_a_struct_and_for_the_call() -> None:
    class Query(Struct):
        query: str

    node, seen = Node(), list[TaskCall]()

    @node.task_kind("postgres")
    async def ask(fields: Query, call: TaskCall) -> dict[str, str]:
        seen.append(call)
        return {"asked": fields.query}

    element = Element(iterator="i", value=1, index=4)
    ran = await run(node, "{name: q, kind: postgres, query: 'select {{ i }}', spec: {level: 1}}", element=element)
    assert ran.completion["result"] == {"asked": "select 1"}
    assert (seen[0].label, seen[0].attempt, seen[0].element, seen[0].spec) == ("q", 1, 4, {"level": 1})
    assert seen[0].key == "E:R:q"


async def test_an_exception_is_an_outcome_that_rules_can_handle() -> None:
    node, calls = Node(), list[int]()

    @node.task_kind("python")
    def fail_once(fields: dict[str, Any], call: TaskCall) -> str:
        calls.append(call.attempt)
        if call.attempt == 1:
            raise ValueError("not yet")
        return "done"

    rules = "{policy: {rules: [{when: outcome.error.retryable, then: {do: retry}}]}}"
    ran = await run(node, f"{{name: t, kind: python, spec: {rules}}}")
    assert (calls, ran.completion["result"]) == ([1, 2], "done")
    assert ran.list_events() == [
        "step.started", "task.started", "task.attempt.started", "task.attempt.failed", "policy.task.evaluated",
        "task.attempt.started", "task.attempt.done", "policy.task.evaluated", "task.done",
    ]  # fmt: skip
    failed = ran.completion["log"][3]["outcome"]
    assert failed["error"] == {"kind": "tool", "message": "not yet", "code": "ValueError", "retryable": True}
    assert failed["meta"]["attempt"] == 1


async def test_a_pipeline_that_fails_is_completed_with_its_error() -> None:
    node = Node()

    @node.task_kind("python")
    def refuse() -> None:
        raise NonRetryable("never")

    ran = await run(node, "{name: t, kind: python}")
    assert ran.completion["status"] == "error"
    assert ran.completion["error"] == {"kind": "tool", "message": "never", "code": "NonRetryable", "retryable": False}


async def test_a_kind_without_a_handler_is_an_error_of_its_task() -> None:
    ran = await run(Node(), "{name: t, kind: rust}")
    assert ran.completion["error"]["kind"] == "no_handler"


async def test_a_result_that_is_no_json_is_an_error() -> None:
    node = Node()
    node.task_kind("python")(lambda: object())
    ran = await run(node, "{name: t, kind: python}")
    assert ran.completion["error"]["kind"] == "tool"


async def test_a_task_that_takes_too_long_is_an_error() -> None:
    node = Node()

    @node.task_kind("python")
    async def sleep() -> None:
        await asyncio.Event().wait()

    ran = await run(node, "{name: t, kind: python, spec: {timeout_s: 0.01}}")
    assert ran.completion["error"]["kind"] == "timeout"


async def test_patches_are_reported_as_they_are_made_and_completed_all() -> None:
    policy = "{policy: {rules: [{else: {then: {do: continue, set_ctx: {a: '{{ _task }}', b.c: 1}}}}]}}"
    ran = await run(Node(), f"[{', '.join(f'{{{name}: {{kind: noop, spec: {policy}}}}}' for name in 'xyz')}]")
    assert [report["from"] for report in ran.reports] == [0, 2], "the last go with the completion"
    patches = [(patch["path"], patch["value"]) for patch in ran.completion["patches"]]
    assert patches == [(["a"], "x"), (["b", "c"], 1), (["a"], "y"), (["b", "c"], 1), (["a"], "z"), (["b", "c"], 1)]
    assert [patch for report in ran.reports for patch in report["patches"]] == ran.completion["patches"][:4]  # type: ignore[attr-defined]
    logged = [entry for report in ran.reports for entry in report["log"]]  # type: ignore[attr-defined]
    assert (json.loads(encode(logged)), ran.completion["logged"]) == (ran.completion["log"][: len(logged)], len(logged))
    assert [patch["at"] for patch in ran.completion["patches"][:2]] == [5, 5], "behind what was logged before"


@pytest.mark.parametrize(("taken", "firsts"), [(None, [0, 0]), ({"patches": 0, "log": 0}, [0]), ({}, [0])])
async def test_what_was_not_taken_for_certain_is_reported_again_unless_the_service_takes_no_more(
    taken: "JsonObject | None", firsts: list[int]
) -> None:
    policy = "{policy: {rules: [{else: {then: {do: continue, set_ctx: {a: 1}}}}]}}"
    tool = f"[{', '.join(f'{{{name}: {{kind: noop, spec: {policy}}}}}' for name in 'xyz')}]"
    ran = await run(Node(), tool, answer=lambda report: taken)
    assert [report["from"] for report in ran.reports] == firsts
    assert (len(ran.completion["patches"]), ran.completion["logged"]) == (3, 0)


async def test_secrets_are_in_nothing_that_is_reported() -> None:
    node = Node()

    @node.task_kind("python")
    def leak(fields: dict[str, Any]) -> dict[str, str]:
        return {"said": f"the password is {fields['password']}"}

    policy = "{policy: {rules: [{else: {then: {do: continue, set_ctx: {s: '{{ outcome.result.said }}'}}}}]}}"
    tool = f"{{name: t, kind: python, password: '{{{{ keychain.db.password }}}}', spec: {policy}}}"
    ran = await run(node, tool, keychain={"db": {"password": "hunter2-hunter2"}})
    assert ran.completion["result"] == {"said": "the password is ***"}
    assert "hunter2" not in json.dumps(ran.completion)
    assert "hunter2" not in encode(list(ran.reports)).decode()


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ("seconds: 0.01", None),
        ("until: '2026-06-01T09:30:00Z'", None),
        ("seconds: 301", "among other tasks a wait has 300 s at most; make it a step of its own"),
        ("seconds: -1", "seconds must be a number from 0 to 316224000"),
        ("pause: 1", "a wait has either seconds or until"),
    ],
)
async def test_a_wait_stands_among_the_tasks_of_a_worker(fields: str, error: str | None) -> None:
    node = Node()

    @node.task_kind("python")
    def answer(_: dict[str, Any]) -> int:
        return 1

    ran = await run(node, f"[{{kind: python}}, {{kind: wait, {fields}}}, {{kind: python}}]")
    assert ran.completion["status"] == ("ok" if error is None else "error"), ran.completion
    if error is not None:
        assert (ran.completion["error"]["kind"], ran.completion["error"]["message"]) == ("wait", error)


PAUSES = (
    "[{name: a, kind: python}, {name: rest, kind: wait, seconds: 5}, {name: b, kind: python, of: '{{ a }} {{ rest }}'}]"
)


async def test_a_run_is_given_back_for_a_wait_and_goes_on_behind_it() -> None:
    node, asked = Node(), list[Any]()

    @node.task_kind("python")
    def answer(fields: dict[str, Any]) -> int:
        asked.append(fields)
        return 7

    paused = (await run(node, PAUSES, pauses=True)).completion
    assert (paused["status"], paused["pause"]["fields"], paused["pause"]["state"]["counter"]) == (
        "paused",
        {"seconds": 5},
        1,
    )
    kept = PausedRun(state=paused["pause"]["state"], visits=paused["pause"]["visits"])
    ran = await run(node, PAUSES, pauses=True, resume=kept)
    assert (ran.completion["status"], asked) == ("ok", [{}, {"of": "7 None"}])
    told = [(entry["event"], entry.get("task")) for entry in [*paused["log"], *ran.completion["log"]]]
    assert told.count(("step.started", None)) == told.count(("task.started", "rest")) == 1
    assert told.count(("task.done", "rest")) == told.count(("task.done", "a")) == 1
    failed = await run(
        node,
        PAUSES,
        pauses=True,
        resume=PausedRun(state=kept.state, outcome={"status": "error", "error": {"kind": "x"}}),
    )
    assert failed.completion["error"] == {"kind": "x"}


async def test_the_log_of_a_run_that_rests_again_and_again_is_cut_as_any_other() -> None:
    jump = "{policy: {rules: [{then: {do: jump, to: a}}]}}"
    tool = f"[{{name: a, kind: noop}}, {{name: rest, kind: wait, seconds: 5, spec: {jump}}}]"
    kept, entries = None, 0
    for _ in range(200):
        paused = (await run(Node(), tool, pauses=True, resume=kept)).completion
        entries += len(paused["log"])
        pause = paused["pause"]
        kept = PausedRun(state=pause["state"], visits=pause["visits"], entries=pause["entries"])
    assert entries == MAX_LOG_ENTRIES
    ended = await run(Node(), tool, pauses=True, resume=kept, max_task_executions=400)
    assert ended.completion["error"]["kind"] == "limit"


async def test_what_a_run_keeps_that_rests_has_no_secrets_and_a_limit() -> None:
    node = Node()

    @node.task_kind("python")
    def answer(fields: dict[str, Any]) -> Any:
        return fields.get("seen") or "x" * 1_200_000

    keychain = {"shop": {"token": "secret-token"}}
    call = "{name: call, kind: playbook, path: p, args: {t: '{{ keychain.shop.token }}'}}"
    told = await run(
        node, f"[{{kind: python, seen: '{{{{ keychain.shop.token }}}}'}}, {call}]", pauses=True, keychain=keychain
    )
    assert told.completion["status"] == "paused"
    assert "secret-token" not in json.dumps(told.completion)
    large = await run(node, f"[{{kind: python}}, {call}]", pauses=True, keychain=keychain)
    assert (large.completion["status"], large.completion["error"]["kind"]) == ("error", "limit")
    lacking = await run(node, "[{kind: python, seen: 1}, {kind: playbook, path: ''}]", pauses=True)
    assert lacking.completion["error"]["message"] == "path must be a text"


async def test_the_log_of_a_long_pipeline_is_cut_and_says_so() -> None:
    policy = "{policy: {rules: [{then: {do: jump, to: t}}]}}"
    ran = await run(Node(), f"{{name: t, kind: noop, spec: {policy}}}", max_task_executions=600)
    assert len(ran.completion["log"]) == MAX_LOG_ENTRIES
    assert ran.completion["logEntriesLeftOut"] == 5 * 600 + 1 - MAX_LOG_ENTRIES


async def test_a_payload_that_is_no_pipeline_fails_the_job() -> None:
    async def report(progress: JsonObject) -> None:
        raise AssertionError

    with ThreadPoolExecutor(1) as threads, pytest.raises(NonRetryable, match="no pipeline"):
        await PipelineRunner({}).run({"tasks": 1}, threads, report)


class Server(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        seen = {"path": self.path, "auth": self.headers["Authorization"], "type": self.headers["Content-Type"]}
        status = 503 if self.path.startswith("/broken") else 201
        answer = json.dumps({**seen, "body": json.loads(body)}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass


@pytest.fixture(scope="module")
def server() -> Any:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


async def test_http_is_done_by_the_node_itself(server: str) -> None:
    tool = f"{{name: t, kind: http, method: post, url: '{server}/orders', params: {{a: [1, 2], b: true}}, body: {{n: 1.50}}, auth: shop}}"  # noqa: E501
    ran = await run(Node(), tool, keychain={"shop": {"token": "secret-token"}})
    data = ran.completion["result"]["data"]
    assert (ran.completion["result"]["status_code"], data["path"]) == (201, "/orders?a=1&a=2&b=true")
    assert (data["auth"], data["type"], data["body"]) == ("Bearer ***", "application/json", {"n": 1.5})


async def test_a_status_that_is_none_of_success_is_an_error(server: str) -> None:
    ran = await run(Node(), f"{{name: t, kind: http, method: POST, url: '{server}/broken', body: {{}}}}")
    assert ran.completion["error"] == {
        "kind": "http", "message": "the server has answered 503", "code": "HTTP_503", "status": 503, "retryable": True,
    }  # fmt: skip


async def test_a_server_that_is_not_there_is_a_transport_error() -> None:
    ran = await run(Node(), "{name: t, kind: http, url: 'http://127.0.0.1:1/'}")
    assert (ran.completion["error"]["kind"], ran.completion["error"]["retryable"]) == ("transport", True)


class Engine:
    """An engine with one job, of a pipeline."""

    def __init__(self, job: Job, progress: bool | Exception) -> None:
        self.job: Job | None = job
        self.progress = progress
        self.lease_lost = False
        self.polls: list[Poll] = []
        self.reports: list[JsonObject] = []
        self.reported = asyncio.Event()
        self.completed = asyncio.get_running_loop().create_future()

    async def poll(self, poll: Poll) -> Sequence[Job]:
        self.polls.append(poll)
        if self.job is None:
            await asyncio.Event().wait()
        job, self.job = self.job, None
        return [job] if job is not None else []

    async def complete(self, job: Job, worker: str, variables: bytes) -> None:
        self.completed.set_result(json.loads(variables))

    async def fail(self, job: Job, worker: str, message: str, *, retryable: bool) -> None:
        self.completed.set_result(message)

    async def renew(self, job: Job, worker: str, lease: timedelta) -> bool:
        if self.lease_lost:
            raise JobLost("the run is over")
        return True

    async def report_progress(self, job: Job, worker: str, report: bytes) -> "JsonObject | None":
        self.reports.append(json.loads(report))
        self.reported.set()
        if isinstance(self.progress, Exception):
            raise self.progress
        if not self.progress:
            return None
        return take(self.reports[-1])

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("progress", "count"),
    [(True, 2), (False, 1), (JobsUnavailable("down"), 2), (JobsRefused("no"), 2)],
)
async def test_a_worker_polls_for_its_kinds_and_reports_what_the_engine_takes(
    progress: bool | Exception, count: int
) -> None:
    node = Node()
    node.task_kind("python")(lambda: "done")
    policy = "{policy: {rules: [{else: {then: {do: continue, set_ctx: {a: 1}}}}]}}"
    tool = f"[{', '.join(f'{{{name}: {{kind: python, spec: {policy}}}}}' for name in 'xyz')}]"
    engine = Engine(Job(id="J", type="playbook:python", instance_id="I", variables=a_payload(tool)), progress)
    runner = PipelineRunner({function.name: function for function in node.functions})
    worker, leave = JobWorker(engine, {}, pipelines=runner), asyncio.Event()
    serving = asyncio.create_task(worker.serve(leave, grace=PATIENCE_S))
    completed = await asyncio.wait_for(engine.completed, PATIENCE_S)
    leave.set()
    await serving
    assert engine.polls[0].types == ("playbook:python",)
    assert (completed["status"], completed["result"], len(engine.reports)) == ("ok", "done", count)


async def test_a_worker_stops_a_run_that_is_over() -> None:
    node, called = Node(), list[str]()
    node.task_kind("python")(lambda: called.append("once"))
    policy = "{policy: {rules: [{else: {then: {do: continue, set_ctx: {a: 1}}}}]}}"
    tool = f"[{{x: {{kind: python, spec: {policy}}}}}, {{y: {{kind: python}}}}]"
    job = Job(id="J", type="playbook:python", instance_id="I", variables=a_payload(tool))
    engine = Engine(job, JobLost("the run is over"))
    runner = PipelineRunner({function.name: function for function in node.functions})
    worker, leave = JobWorker(engine, {}, pipelines=runner), asyncio.Event()
    serving = asyncio.create_task(worker.serve(leave, grace=PATIENCE_S))
    await asyncio.wait_for(engine.reported.wait(), PATIENCE_S)
    leave.set()
    await serving
    assert (called, engine.completed.done()) == (["once"], False)


async def test_a_worker_cancels_a_run_whose_lease_is_lost_while_a_task_goes_on() -> None:
    node, cancelled = Node(), asyncio.Event()

    @node.task_kind("python")
    async def work_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    job = Job(id="J", type="playbook:python", instance_id="I", variables=a_payload("{kind: python}"))
    engine = Engine(job, True)
    engine.lease_lost = True
    runner = PipelineRunner({function.name: function for function in node.functions})
    worker, leave = JobWorker(engine, {}, pipelines=runner, lease=timedelta(seconds=0.3)), asyncio.Event()
    serving = asyncio.create_task(worker.serve(leave, grace=PATIENCE_S))
    await asyncio.wait_for(cancelled.wait(), PATIENCE_S)
    leave.set()
    await serving
    assert not engine.completed.done(), "nobody waits for it"


async def test_a_handler_may_return_an_outcome() -> None:
    node = Node()
    node.task_kind("python")(lambda: fail("tool", "no such city", code="NO_CITY", retryable=False))
    ran = await run(node, "{kind: python}")
    assert ran.completion["error"] == {
        "kind": "tool",
        "message": "no such city",
        "code": "NO_CITY",
        "retryable": False,
    }


class Answering:
    """A transport that answers every call in the same way."""

    def __init__(self, status: int, detail: str) -> None:
        self._response = HttpResponse(status, encode({"error": detail}))
        self.calls = 0

    async def send_async(self, call: Call) -> HttpResponse:
        self.calls += 1
        return self._response


async def test_a_job_that_is_over_does_not_end_the_renewal_of_others() -> None:
    """The engine answers 404 to both: that it has no such job, and that it has no such call."""
    job = Job(id="01JOB", type="playbook:python", instance_id="I")
    lease = timedelta(seconds=30)
    answering = Answering(404, 'job "01JOB" not found')
    jobs = RestJobs(answering)  # type: ignore[arg-type]  # the only call that it makes
    for _ in range(2):
        with pytest.raises(JobLost):
            await jobs.renew(job, "w", lease)
    assert answering.calls == 2
    with pytest.raises(JobLost):
        await RestJobs(Answering(409, "another worker has it")).renew(job, "w", lease)  # type: ignore[arg-type]
    lacking = Answering(404, "404 page not found")
    jobs = RestJobs(lacking)  # type: ignore[arg-type]
    assert [await jobs.renew(job, "w", lease) for _ in range(2)] == [False, False]
    assert lacking.calls == 1


def test_a_kind_has_one_handler() -> None:
    node = Node()
    register: Callable[[Any], Any] = node.task_kind("python")
    register(lambda: None)
    with pytest.raises(ValueError, match="already a task_kind named python"):
        node.task_kind("python")
    node.job("python")

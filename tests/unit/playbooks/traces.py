"""The worked executions of the table, and the log of an execution in its notation."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from msgspec import Struct

from statewright.jsonval.values import JsonObject
from statewright.playbooks import compile_playbook
from statewright.playbooks.compiling import CompiledPlaybook, compile_net
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.documents import read_document
from statewright.playbooks.events import LogEvent
from statewright.playbooks.pipeline import ToolCall
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.playbooks.running import LocalExecution

TRACES = Path(__file__).resolve().parents[2] / "conformance" / "playbooks" / "traces.yaml"


class Case(Struct, frozen=True, kw_only=True):
    number: int
    title: str
    playbook: str
    status: str
    trace: list[str]
    workload: dict[str, object] = {}
    patch: dict[str, object] = {}
    answers: dict[str, list[object]] = {}
    elements: dict[str, list[object]] = {}


def read_traces() -> list[Case]:
    return [Case(**case) for case in yaml.safe_load(TRACES.read_text())]


def compile_text(text: str, *, capacity: int = 100) -> CompiledPlaybook:
    """A playbook without the members that are the same everywhere."""
    document = read_document(text)
    document.setdefault("metadata", {"name": "case"})
    if capacity != 100:
        executor = _put(document, "executor")
        _put(_put(_put(executor, "spec"), "policy"), "limits")["max_in_flight"] = capacity
    return compile_net(compile_playbook(document))


def _put(document: JsonObject, name: str) -> JsonObject:
    member = document.setdefault(name, {})
    assert isinstance(member, dict)
    return member


def play_case(case: Case) -> LocalExecution:
    """Run a case to its end, one run at a time."""
    calls: Counter[str] = Counter()

    def answer(call: ToolCall, dispatch: Dispatch) -> Outcome:
        count = calls[call.label]
        calls[call.label] += 1
        if dispatch.element is not None and call.label in case.elements:
            return to_outcome(case.elements[call.label][dispatch.element.index])
        answers = case.answers.get(call.label, [None])
        return to_outcome(answers[min(count, len(answers) - 1)])

    execution = LocalExecution(compile_text(case.playbook, capacity=1), case.workload)  # type: ignore[arg-type]
    execution.run(answer)
    if case.patch and execution.status == "waiting":
        execution.patch(case.patch)  # type: ignore[arg-type]
        execution.run(answer)
    return execution


def to_outcome(answer: object) -> Outcome:
    """An answer of the table."""
    if isinstance(answer, str) and answer.startswith("!"):
        status = int(answer[1:] or 500)
        return fail("http", "refused", status=status, http={"status": status})
    return succeed(answer)  # type: ignore[arg-type]


def describe_log(log: Iterable[LogEvent]) -> list[str]:
    """The log in the notation of the table."""
    told: list[str] = []
    for event in log:
        told.extend(_describe(event, told))
    return told


def _describe(event: LogEvent, told: list[str]) -> Iterator[str]:
    payload, step = event.payload, event.step
    match event.type:
        case "step.scheduled":
            yield f"run {step}#{payload['run']}"
        case "loop.iteration.scheduled":
            yield f"[{event.iteration}]"
        case "task.done" | "task.failed":
            yield f"{payload['task']}:{'ok' if event.type == 'task.done' else 'err'}"
        case "policy.task.evaluated" if payload["action"] != "continue":
            target = payload.get("to")
            told[-1] += f"/{payload['action']}" + ("" if target is None else f":{target}")
        case "ctx.patched" if payload["origin"] is None:
            yield f"patch {json.dumps(payload['changes'])}"
        case "ctx.patched":
            changes = payload["changes"]
            assert isinstance(changes, dict)
            yield from (f"ctx.{key}={json.dumps(value)}" for key, value in changes.items())
        case "step.done" | "step.failed" | "loop.done":
            yield f"{step} {event.type.removeprefix('step.')}"
        case "workflow.waiting":
            yield "WAITING"
        case _:
            yield from _describe_token(event)


def _describe_token(event: LogEvent) -> Iterator[str]:
    payload, step = event.payload, event.step
    match event.type:
        case "token.created" if payload["cause"] != "join":
            yield from ["quiet"] if payload["final"] else []
            yield f"+{step}{_describe_args(payload)}"
        case "token.discarded" if payload["reason"] != "INCOMPLETE_JOIN":
            yield f"drop {step}"
        case "policy.admit.evaluated" if not payload["allow"]:
            yield f"deny {step}"
        case "join.fired" if not payload["leftOver"]:
            yield f"join {step}"
        case "join.absorbed":
            yield f"absorb {step}"
        case "join.incomplete":
            yield f"incomplete join {step}/{payload['action']}"
        case "next.evaluated":
            selected = payload["selected"]
            assert isinstance(selected, list)
            names = [str(arc["target"]) for arc in selected if isinstance(arc, dict)]
            yield f"next {step}→{','.join(names) or 'none'}"
        case "branch.failed" if payload["reason"] == "NO_NEXT":
            yield f"NO_NEXT {step}"
        case _:
            pass


def _describe_args(payload: JsonObject) -> str:
    args = payload["args"]
    assert isinstance(args, dict)
    if payload["final"]:
        args = {name: args[name] for name in ("succeeded", "failed")}
    return json.dumps(args) if args else ""

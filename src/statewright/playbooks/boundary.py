"""The boundary of a step: how a run ended, as arcs, the token and the event log see it
(docs/reference/executions.md#routing).
"""

from typing import Final

from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Problem, Visit
from statewright.playbooks.definition import Step
from statewright.playbooks.templates import name_event

DONE: Final = "step.done"
FAILED: Final = "step.failed"
LOOP_DONE: Final = "loop.done"


def build_event(step: Step, visit: Visit) -> JsonObject:
    """``event``: what the run of a step ended with."""
    name = FAILED if visit.outcome == "FAILED" else DONE if step.loop is None else LOOP_DONE
    return {
        "name": name,
        "step": step.name,
        "status": _get_status(name, visit.output),
        "timestamp": format_instant(visit.at),
        "payload": build_payload(step, visit),
    }


def revive_event(event: JsonObject) -> JsonObject:
    """The event with a name that equals its aliases; what is stored has lost them."""
    return {**event, "name": name_event(str(event.get("name", "")))}


def build_payload(step: Step, visit: Visit) -> JsonObject:
    """What the event carries: the result, the counts of a loop, the error."""
    counts = visit.output if step.loop is not None and isinstance(visit.output, dict) else None
    if visit.outcome != "FAILED":
        return {"result": visit.output} if counts is None else counts
    if counts is not None and "total" in counts:
        return {**counts, "error": _describe_loop(counts)}
    return {"error": describe_error(visit.output)}


def get_result(step: Step, output: JsonValue) -> JsonValue:
    """The result of a step that ended well: of a loop, those of its elements."""
    return output.get("results") if step.loop is not None and isinstance(output, dict) else output


def build_outcome(step: Step, visit: Visit) -> JsonObject:
    """``outcome``: the end of the run in the form that the outcomes of tasks have."""
    if visit.outcome == "FAILED":
        error = build_payload(step, visit)["error"]
        return {"status": "error", "result": None, "data": None, "error": error, "meta": {}}
    result = get_result(step, visit.output)
    return {"status": "ok", "result": result, "data": result, "meta": {}}


def describe_error(output: JsonValue) -> JsonObject:
    """The error of a run: what it reported, or the reason that the kernel gives, ``KIND: text``."""
    if isinstance(output, dict):
        if "kind" not in output and "total" in output:
            return _describe_loop(output)
        return output if "kind" in output else {"kind": "error", **output}
    kind, colon, message = str(output).partition(": ")
    if not kind.replace("_", "").isupper():
        return {"kind": "error", "message": str(output)}
    return {"kind": kind.lower(), "message": message if colon else kind}


def to_problem(kind: str, error: JsonObject) -> Problem:
    """A problem of the kernel for an error of the language."""
    return Problem(f"{kind}: {error.get('message', '')}", error)


def _get_status(name: str, output: JsonValue) -> str:
    if name == FAILED:
        return "error"
    return "partial" if name == LOOP_DONE and isinstance(output, dict) and output.get("failed") else "success"


def _describe_loop(counts: JsonObject) -> JsonObject:
    return {"kind": "loop", "message": f"{counts.get('failed')} of {counts.get('total')} elements failed"}

"""The arcs between steps, and what about them is doubtful. What an execution comes to.

The boundary of a step: how a run ended, as arcs, the token and the event log see it
(docs/reference/executions.md#routing).
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Problem, Tally, Visit, WorkId
from statewright.net.effects import TaskFailed
from statewright.net.nodes import order_backwards
from statewright.playbooks.definition import Playbook, Step
from statewright.playbooks.place import Place
from statewright.playbooks.tasks import is_for_members, list_worker_kinds
from statewright.playbooks.templates import name_event

_MAX_CAUSE_CHARS: Final = 1_000
"""Of the error of an element, where it stands in the message of its loop."""
_MAX_PASSES: Final = 20
"""Over all steps, until it is clear what can be reached: two and one for each level of loops within loops."""


def warn_of_routes(playbook: Playbook, workflow: Place) -> None:
    """Note what is no error, but seldom meant; ``workflow`` is the place of the steps."""
    targets = {step.name: list_targets(step) for step in playbook.steps}
    _warn_of_unreachable(playbook, workflow, targets)
    _warn_of_splits(playbook, workflow, targets)
    _warn_of_rounds(playbook, workflow, targets)
    sources = _count_sources(targets)
    repeated = _find_repeated(playbook, targets)
    bits = {name: 1 << number for number, name in enumerate(targets)}
    for index, step in enumerate(_order(playbook, workflow)):
        if step is None:
            continue
        place = Place(None, f"{workflow.path}/{index}", workflow.findings)
        is_repeated = sources[step.name] > 1 and repeated & bits[step.name]
        if is_repeated and step.join is None and step.admission is None:
            place.warn(f"is reached from {sources[step.name]} steps and runs for each token; spec.join would make one")
        if step.name == playbook.final and step.router is not None:
            place.get("next").warn("has no effect when the step runs as the final one")
        if list_worker_kinds(step.tasks) and any(map(is_for_members, step.tasks)):
            place.get("tool").warn(
                "has tasks of other kinds beside compute: who does those does all of it, whatever tags it offers"
            )
        if step.router is not None and any(task.kind != "noop" for task in step.tasks):
            for number, arc in enumerate(step.router.arcs):
                if arc.when is None:
                    place.get("next").get("arcs").get(str(number)).warn(
                        "has no when, so it is taken after a failure, too, which stays unhandled"
                    )


def list_targets(step: Step) -> tuple[str, ...]:
    """The steps that a step has arcs to, each once."""
    return () if step.router is None else tuple(dict.fromkeys(arc.target for arc in step.router.arcs))


def _order(playbook: Playbook, workflow: Place) -> list[Step | None]:
    """The steps by their places in the document."""
    items = workflow.value if isinstance(workflow.value, list) else []
    names = [item.get("step") if isinstance(item, dict) else None for item in items]
    return [playbook.by_name.get(name) if isinstance(name, str) else None for name in names]


def _count_sources(targets: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    counts = dict.fromkeys(targets, 0)
    for source in targets.values():
        for target in source:
            counts[target] += 1
    return counts


def _warn_of_unreachable(playbook: Playbook, workflow: Place, targets: Mapping[str, tuple[str, ...]]) -> None:
    pending = [playbook.entry, *([] if playbook.final is None else [playbook.final])]
    reached = set(pending)
    while pending:
        for target in targets[pending.pop()]:
            if target not in reached:
                reached.add(target)
                pending.append(target)
    for index, step in enumerate(_order(playbook, workflow)):
        if step is not None and step.name not in reached:
            Place(None, f"{workflow.path}/{index}", workflow.findings).warn("is reached by no arc")


def _warn_of_splits(playbook: Playbook, workflow: Place, targets: Mapping[str, tuple[str, ...]]) -> None:
    """Note the inclusive routers whose branches never meet."""
    splits = [
        (index, step) for index, step in enumerate(_order(playbook, workflow)) if step is not None and _splits(step)
    ]
    reached = _find_reached(targets) if splits else None
    if reached is None:
        return
    for index, step in splits:
        common = -1
        for target in targets[step.name]:
            common &= reached[target]
        if not common:
            Place(None, f"{workflow.path}/{index}/next", workflow.findings).warn(
                "is inclusive, and its branches never meet in a step"
            )


def _warn_of_rounds(playbook: Playbook, workflow: Place, targets: Mapping[str, tuple[str, ...]]) -> None:
    """Note each circle of steps that a token cannot leave, once, unless the execution has a time limit."""
    reached = _find_reached(targets) if playbook.timeout_ms is None else None
    if reached is None:
        return
    bits = {name: 1 << number for number, name in enumerate(targets)}
    ends = sum(bits[step.name] for step in playbook.steps if _can_end(step))
    told = 0
    for index, step in enumerate(_order(playbook, workflow)):
        if step is None or reached[step.name] & (ends | told):
            continue
        if any(reached[target] & bits[step.name] for target in targets[step.name]):
            told |= bits[step.name]
            Place(None, f"{workflow.path}/{index}/next", workflow.findings).warn(
                "leads round in a circle that nothing leaves, until a limit ends it: an arc in it needs a when"
            )


def _can_end(step: Step) -> bool:
    """Whether a token can come to its end at a step, or wait there for something else."""
    waits = step.admission is not None or step.join is not None
    return waits or step.router is None or all(arc.when is not None for arc in step.router.arcs)


def _find_repeated(playbook: Playbook, targets: Mapping[str, tuple[str, ...]]) -> int:
    """The steps that more than one branch of a split leads to before a join, as bits; all if that takes too long."""
    splits = [step.name for step in playbook.steps if _splits(step)]
    if not splits:
        return 0
    reached = _find_reached({step.name: targets[step.name] if step.join is None else () for step in playbook.steps})
    if reached is None:
        return -1
    repeated = 0
    for name in splits:
        seen = 0
        for target in targets[name]:
            repeated |= seen & reached[target]
            seen |= reached[target]
    return repeated


def _splits(step: Step) -> bool:
    return step.router is not None and step.router.mode == "inclusive" and len(list_targets(step)) > 1


def _find_reached(targets: Mapping[str, tuple[str, ...]]) -> dict[str, int] | None:
    """Of each step those that can be reached from it, itself included, as bits; ``None`` if that takes too long."""
    bits = {name: 1 << index for index, name in enumerate(targets)}
    reached, order = dict(bits), order_backwards(targets)
    for _ in range(_MAX_PASSES):
        has_changed = False
        for name in order:
            found = reached[name]
            for target in targets[name]:
                found |= reached[target]
            has_changed = has_changed or found != reached[name]
            reached[name] = found
        if not has_changed:
            return reached
    return None


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
        "timestamp": to_rfc3339(visit.at),
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


def write_reason(error: JsonObject) -> str:
    """An error of the language as the kernel tells it: ``KIND: message``."""
    return f"{str(error.get('kind', 'error')).upper()}: {error.get('message', '')}"


def to_problem(error: JsonObject) -> Problem:
    """A problem of the kernel for an error of the language."""
    return Problem(write_reason(error), error)


def fail_task(task: WorkId, error: JsonObject) -> TaskFailed:
    """What tells the kernel that a task failed by an error."""
    return TaskFailed(task, write_reason(error), error)


def _get_status(name: str, output: JsonValue) -> str:
    if name == FAILED:
        return "error"
    return "partial" if name == LOOP_DONE and isinstance(output, dict) and output.get("failed") else "success"


def _describe_loop(counts: JsonObject) -> JsonObject:
    told = f"{counts.get('failed')} of {counts.get('total')} elements failed"
    errors = counts.get("errors")
    for element, error in errors.items() if isinstance(errors, dict) else ():
        known = error if isinstance(error, dict) else {"message": error}
        cause = f"{known.get('kind', 'error')}: {known.get('message', '')}"
        told = f"{told}; the first, element {element}: {cause[:_MAX_CAUSE_CHARS]}"
        break
    return {"kind": "loop", "message": told}


Status: TypeAlias = Literal["running", "waiting", "success", "partial", "failed", "cancelled"]
"""What an execution comes to (docs/reference/executions.md#status)."""


def find_status(playbook: Playbook, tally: Tally, *, has_gaps: bool) -> Status:
    """The status of an execution that has ended by itself; ``has_gaps``: a loop went on without elements that failed.

    The first condition that applies decides.
    """
    final_failed = tally.final == "FAILED"
    if tally.verdict is not None or (final_failed and playbook.final_step_failure == "fail"):
        return "failed"
    if tally.failed:
        return "partial" if playbook.failure_mode == "best_effort" and tally.succeeded else "failed"
    return "partial" if final_failed or has_gaps else "success"

"""Where a token can go from a step, by the rules that hold at run time (spec/step-engine.md §5)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from statewright.steps.core.definition import TIMED_TYPES, Definition, Step


def successors(step: Step) -> tuple[str, ...]:
    """The steps a token at ``step`` may move to, each named as often as a way leads there."""
    timers = tuple(event.target_step_id for event in step.boundary_events) if step.type in TIMED_TYPES else ()
    return (*_routed(step), *timers)


def predecessors(definition: Definition) -> Mapping[str, frozenset[str]]:
    """By step, the steps from which a token may come."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for step in definition.steps:
        for target in successors(step):
            sources[target].add(step.id)
    return {target: frozenset(found) for target, found in sources.items()}


def leading_to(targets: Iterable[str], sources: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """All steps from which one of ``targets`` can be reached, these themselves included."""
    found: set[str] = set()
    ahead = list(targets)
    while ahead:
        step_id = ahead.pop()
        if step_id not in found:
            found.add(step_id)
            ahead.extend(sources.get(step_id, ()))
    return frozenset(found)


def _routed(step: Step) -> tuple[str, ...]:
    branches = tuple(step.conditional_next_steps.values())
    onward = (step.next_step,) if step.next_step else ()
    match step.type:
        case "DECISION":
            return branches
        case "SERVICE_TASK" | "USER_TASK" | "WAIT":
            return branches or onward
        case "PARALLEL_GATEWAY":
            return step.parallel_next_steps
        case "TRANSFORMATION" | "DECISION_TABLE" | "JOIN_GATEWAY":
            return onward
        case _:
            return ()

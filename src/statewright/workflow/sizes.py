"""How much the workflows of one model may define together
(docs/reference/workflows.md#settings-and-limits-of-workflows).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from statewright.failures import BadRequest
from statewright.jsonval.values import JsonValue
from statewright.workflow.definition import Workflow
from statewright.workflow.violations import Violation

MAX_ELEMENTS: Final = 50_000
"""Workflows, states, transitions and processors of one model together: reading and freeing them takes its time."""

_LEVELS: Final = ("workflows", "states", "transitions", "processors")


def refuse_many_elements(request: JsonValue) -> None:
    """Refuse a request before it is read. Raises ``BadRequest``; what is no definition is not looked at."""
    count, level = 0, [request]
    for name in _LEVELS:
        level = [inner for outer in level if isinstance(outer, dict) for inner in _list_inner(outer.get(name))]
        count += len(level)
    if count > MAX_ELEMENTS:
        raise BadRequest(_describe_excess(count))


def find_many_elements(workflows: Iterable[Workflow]) -> Iterator[Violation]:
    """The refusal of what a model would have, if it is too much."""
    count = sum(map(_count_elements, workflows))
    if count > MAX_ELEMENTS:
        yield Violation("INVALID_STRUCTURE", "/workflows", _describe_excess(count))


def _describe_excess(count: int) -> str:
    return f"the model would have {count} workflows, states, transitions and processors, and {MAX_ELEMENTS} is the most"


def _list_inner(value: JsonValue) -> Iterable[JsonValue]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _count_elements(workflow: Workflow) -> int:
    transitions = [transition for state in workflow.states.values() for transition in state.transitions]
    return 1 + len(workflow.states) + len(transitions) + sum(len(transition.processors) for transition in transitions)

"""What the step engine plugs into the kernel: one map of variables for all tokens (spec/step-engine.md §5, §9)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Completed, Node, NodeId, Problem
from statewright.steps.core.definition import Step, StepType
from statewright.steps.core.expressions import Budget, ExpressionError, NotBoolean, holds, weight
from statewright.steps.core.merging import merged_deep, merged_shallow
from statewright.steps.core.outputs import transformed
from statewright.steps.core.tables import decided
from statewright.steps.core.texts import quoted

Outcome: TypeAlias = Callable[[Step, JsonObject, JsonObject, int, Budget], Completed | Problem]
"""From the step, the variables, what came from outside, the instant, and what may be spent."""


class StepLanguage:
    """The language of one definition's steps, for one operation on an instance."""

    def __init__(self, steps: Mapping[NodeId, tuple[Step, StepType]]) -> None:
        self._steps = steps
        self._budget = Budget()
        self._weighed: tuple[JsonValue, int] = (None, 0)

    def consume(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> JsonValue:
        """Every step sees all variables."""
        return data

    def complete(self, data: JsonObject, node: Node, output: JsonValue, at: int) -> Completed | Problem:
        """Merge what the step came to: deep for workers and people, shallow for everything else (decision J1)."""
        step, step_type = self._steps[node.id]
        delta = output if isinstance(output, dict) else {}
        outcome = _OUTCOMES[step_type](step, data, delta, at, self._budget)
        if isinstance(outcome, Problem):
            return outcome
        try:
            self._budget.spend(self._weight(data) + self._weight(outcome.output))  # as the history keeps them
        except ExpressionError as error:
            return Problem(f"history of step {quoted(step.id)}: {error}")
        return outcome

    def holds(self, guard: str, data: JsonObject, payloads: Sequence[JsonValue], at: int) -> bool | Problem:
        """Whether the expression is true; anything but a boolean is a problem (§5.4)."""
        try:
            return holds(guard, data, at, self._budget)
        except NotBoolean as error:
            return Problem(str(error))
        except ExpressionError as error:
            return Problem(f"expression eval error: {error}")

    def patch(self, data: JsonObject, changes: JsonObject) -> JsonObject:
        """Changes from the outside are merged shallow (§14.3)."""
        return merged_shallow(data, changes)

    def _weight(self, value: JsonValue) -> int:
        if self._weighed[0] is not value:
            self._weighed = (value, weight(value))
        return self._weighed[1]


def _nothing(_: Step, variables: JsonObject, *__: object) -> Completed | Problem:
    return Completed(data=variables)


def _worker_result(_: Step, variables: JsonObject, delta: JsonObject, *__: object) -> Completed | Problem:
    return Completed(data=merged_deep(variables, delta), output=delta)


def _human_result(_: Step, variables: JsonObject, delta: JsonObject, *__: object) -> Completed | Problem:
    merged = merged_deep(variables, delta)
    return Completed(data=merged, output=merged)


def _signal(_: Step, variables: JsonObject, delta: JsonObject, *__: object) -> Completed | Problem:
    merged = merged_shallow(variables, delta)
    return Completed(data=merged, output=merged)


def _transformation(step: Step, variables: JsonObject, _: JsonObject, at: int, budget: Budget) -> Completed | Problem:
    result = transformed(dict(step.transformations), variables, at, budget)
    return result if isinstance(result, Problem) else Completed(data=result, output=result)


def _decision_table(step: Step, variables: JsonObject, _: JsonObject, at: int, budget: Budget) -> Completed | Problem:
    if step.decision_table is None:
        return Problem(f'step "{step.id}" has no decisionTable')
    result = decided(step.decision_table, step.hit_policy, variables, at, budget)
    if isinstance(result, Problem):
        return result
    merged = merged_shallow(variables, result)
    return Completed(data=merged, output=merged)


_OUTCOMES: Final[Mapping[StepType, Outcome]] = {
    "SERVICE_TASK": _worker_result,
    "USER_TASK": _human_result,
    "DECISION": _nothing,
    "DECISION_TABLE": _decision_table,
    "TRANSFORMATION": _transformation,
    "WAIT": _signal,
    "PARALLEL_GATEWAY": _nothing,
    "JOIN_GATEWAY": _nothing,
    "END": _nothing,
}

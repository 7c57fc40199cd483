"""What the step engine plugs into the kernel: one map of variables for all tokens
(docs/reference/steps.md#steps-at-run-time, docs/reference/steps.md#variables).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from statewright.expressions import Budget, ExpressionError, NotBoolean, count_elements, evaluate_bool
from statewright.jsonval.merging import merge_deep, merge_shallow
from statewright.jsonval.quoting import quote
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Completed, Language, Node, NodeId, Problem, Visit
from statewright.steps.definition import Step, StepType
from statewright.steps.outputs import apply_transformations
from statewright.steps.tables import evaluate_table

StepOutcome: TypeAlias = Callable[[Step, JsonObject, JsonObject, int, Budget], Completed | Problem]
"""From the step, the variables, what came from outside, the instant, and what may be spent."""


ELEMENTS_PER_STEP: Final = 20
"""Elements that every step counts as, in addition to what the history keeps of it."""


class StepLanguage(Language):
    """The language of one definition's steps, for one operation on an instance."""

    def __init__(self, steps: Mapping[NodeId, tuple[Step, StepType]], budget: Budget) -> None:
        self._steps = steps
        self._budget = budget
        self._last_count: tuple[JsonValue, int] = (None, 0)

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> JsonValue:
        """Every step sees all variables."""
        return data

    def complete(self, data: JsonObject, visit: Visit) -> Completed | Problem:
        """Merge what the step came to: deep for workers and people, shallow for everything else (decision J1)."""
        step, step_type = self._steps[visit.node.id]
        delta = visit.output if isinstance(visit.output, dict) else {}
        outcome = _OUTCOMES[step_type](step, data, delta, visit.at, self._budget)
        if isinstance(outcome, Problem):
            return outcome
        try:
            kept = self._count_elements(data) + self._count_elements(outcome.output)  # by the history
            self._budget.spend(ELEMENTS_PER_STEP + kept)
        except ExpressionError as error:
            return Problem(f"history of step {quote(step.id)}: {error}")
        return outcome

    def evaluate_guard(self, guard: str, data: JsonObject, visit: Visit) -> bool | Problem:
        """Whether the expression is true; anything but a boolean is a problem (docs/reference/steps.md#decision)."""
        try:
            return evaluate_bool(guard, data, visit.at, self._budget)
        except NotBoolean as error:
            return Problem(str(error))
        except ExpressionError as error:
            return Problem(f"expression eval error: {error}")

    def patch(self, data: JsonObject, changes: JsonObject) -> JsonObject:
        """Changes from the outside are merged shallow (docs/reference/steps.md#retrying-a-failed-instance)."""
        return merge_shallow(data, changes)

    def _count_elements(self, value: JsonValue) -> int:
        if self._last_count[0] is not value:
            self._last_count = (value, count_elements(value))
        return self._last_count[1]


def _keep_variables(_: Step, variables: JsonObject, *__: object) -> Completed | Problem:
    return Completed(data=variables)


def _merge_worker_result(_: Step, variables: JsonObject, delta: JsonObject, *__: object) -> Completed | Problem:
    return Completed(data=merge_deep(variables, delta), output=delta)


def _merge_human_result(_: Step, variables: JsonObject, delta: JsonObject, *__: object) -> Completed | Problem:
    merged = merge_deep(variables, delta)
    return Completed(data=merged, output=merged)


def _merge_signal(_: Step, variables: JsonObject, delta: JsonObject, *__: object) -> Completed | Problem:
    merged = merge_shallow(variables, delta)
    return Completed(data=merged, output=merged)


def _run_transformations(
    step: Step, variables: JsonObject, _: JsonObject, at: int, budget: Budget
) -> Completed | Problem:
    result = apply_transformations(dict(step.transformations), variables, at, budget)
    return result if isinstance(result, Problem) else Completed(data=result, output=result)


def _run_decision_table(
    step: Step, variables: JsonObject, _: JsonObject, at: int, budget: Budget
) -> Completed | Problem:
    if step.decision_table is None:
        return Problem(f'step "{step.id}" has no decisionTable')
    result = evaluate_table(step.decision_table, step.hit_policy, variables, at, budget)
    if isinstance(result, Problem):
        return result
    merged = merge_shallow(variables, result)
    return Completed(data=merged, output=merged)


_OUTCOMES: Final[Mapping[StepType, StepOutcome]] = {
    "SERVICE_TASK": _merge_worker_result,
    "USER_TASK": _merge_human_result,
    "DECISION": _keep_variables,
    "DECISION_TABLE": _run_decision_table,
    "TRANSFORMATION": _run_transformations,
    "WAIT": _merge_signal,
    "PARALLEL_GATEWAY": _keep_variables,
    "JOIN_GATEWAY": _keep_variables,
    "END": _keep_variables,
}

"""What a definition may do but hardly means: told at upload, never refused."""

from collections.abc import Iterator, Mapping
from typing import Final

from statewright.jsonval.values import JsonObject
from statewright.steps.core.definition import TIMED_TYPES, Definition, Step
from statewright.steps.core.expressions import ExpressionError, compile_expression
from statewright.steps.core.expressions.syntax import Binary, Constant, Syntax
from statewright.steps.core.graph import leading_to, predecessors
from statewright.steps.core.outputs import expression_in
from statewright.steps.core.tables import is_catch_all
from statewright.steps.core.texts import quoted

Warnings = Iterator[str]

_OPPOSITES: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_WALK_LIMIT: Final = 5_000_000
"""Most steps times joins for which the ways into the joins are looked at; beyond, an upload would take seconds."""


def warnings(definition: Definition) -> tuple[str, ...]:
    """What looks like a mistake, in the order of the steps."""
    sources = predecessors(definition)
    ends = leading_to((step.id for step in definition.steps if step.type == "END"), sources)
    joins = _ways_to_joins(definition, sources)
    named = {step.join_step for step in definition.steps if step.type == "PARALLEL_GATEWAY"}
    types = {step.id: step.type for step in definition.steps}
    found: list[str] = []
    for step in definition.steps:
        label = f"step {quoted(step.id)}"
        found += [f"{label}: {text}" for text in _of_gateways(step, types, joins, named)]
        found += [f"{label}: {text}" for text in _of_decisions(step)]
        found += [f"{label}: {text}" for text in _of_escalations(step, ends)]
        found += [f"{label}: {text}" for text in _of_expressions(step)]
        found += [f"{label}: {text}" for text in _of_chaining(step, definition)]
    return tuple(found)


def _ways_to_joins(definition: Definition, sources: Mapping[str, frozenset[str]]) -> Mapping[str, frozenset[str]]:
    joins = {step.join_step for step in definition.steps if step.type == "PARALLEL_GATEWAY"}
    if len(joins) * len(definition.steps) > _WALK_LIMIT:
        return {}
    return {join: leading_to([join], sources) for join in joins}


def _of_gateways(
    step: Step, types: Mapping[str, str], joins: Mapping[str, frozenset[str]], named: set[str]
) -> Warnings:
    if step.type == "JOIN_GATEWAY" and step.id not in named:
        yield "no PARALLEL_GATEWAY has this step as its joinStep; an instance that reaches it fails"
    if step.type != "PARALLEL_GATEWAY":
        return
    if types.get(step.join_step) != "JOIN_GATEWAY":
        yield f"joinStep {quoted(step.join_step)} is no JOIN_GATEWAY; the branches are never joined"
        return
    ways = joins.get(step.join_step)
    for branch in step.parallel_next_steps:
        if ways is not None and branch not in ways:
            yield f"branch {quoted(branch)} never reaches {quoted(step.join_step)}; the join waits for ever"


def _of_decisions(step: Step) -> Warnings:
    if step.type == "DECISION" and not _is_exhaustive(step):
        yield "no branch is certain to match; without a last branch on true an instance may fail here"
    rules = step.decision_table.rules if step.type == "DECISION_TABLE" and step.decision_table else ()
    if rules and not any(map(is_catch_all, rules)):
        yield "no rule is certain to match; without a rule with an empty when an instance may fail here"


def _of_escalations(step: Step, ends: frozenset[str]) -> Warnings:
    for index, event in enumerate(step.boundary_events):
        if step.type not in TIMED_TYPES:
            yield f"boundaryEvents[{index}] never fires on a {step.type}"
        elif event.target_step_id not in ends:
            yield f"boundaryEvents[{index}]: {quoted(event.target_step_id)} leads to no END"


def _of_chaining(step: Step, definition: Definition) -> Warnings:
    if definition.successor is not None and step.type == "END" and step.id != definition.main_end:
        started, main_end = quoted(definition.successor), quoted(definition.main_end or "")
        yield f"reaching it does not start {started}; only the first END, {main_end}, does"


def _of_expressions(step: Step) -> Warnings:
    """Syntax is not checked at upload (spec/step-engine.md §3.2), and a step with an error fails."""
    for expression in step.conditional_next_steps:
        yield from _defect("conditionalNextSteps", expression)
    for name, expression in _embedded(dict(step.transformations)):
        yield from _defect(f"transformations.{name}", expression)
    for index, rule in enumerate(step.decision_table.rules if step.decision_table else ()):
        for column, cell in rule.when.items():
            if cell.strip():
                yield from _defect(f"rules[{index}].when.{column}", cell)
        for name, expression in _embedded(rule.outputs):
            yield from _defect(f"rules[{index}].outputs.{name}", expression)


def _embedded(values: JsonObject) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        expression = expression_in(value)
        if expression is not None:
            yield name, expression


def _defect(where: str, expression: str) -> Warnings:
    try:
        compile_expression(expression)
    except ExpressionError as error:
        yield f"{where}: {error}"


def _is_exhaustive(step: Step) -> bool:
    branches = [syntax for syntax in map(_syntax, step.conditional_next_steps) if syntax is not None]
    if any(isinstance(branch, Constant) and branch.value is True for branch in branches):
        return True
    return any(_are_complementary(a, b) for n, a in enumerate(branches) for b in branches[n + 1 :])


def _syntax(expression: str) -> Syntax | None:
    try:
        return compile_expression(expression).syntax
    except ExpressionError:
        return None


def _are_complementary(first: Syntax, second: Syntax) -> bool:
    """Whether exactly one of two tests holds: ``x < 5`` and ``x >= 5``, or ``x == true`` and ``x == false``."""
    if not isinstance(first, Binary) or not isinstance(second, Binary) or first.left != second.left:
        return False
    if first.right == second.right:
        return _OPPOSITES.get(first.operator) == second.operator
    if first.operator != "==" or second.operator != "==":
        return False
    if not isinstance(first.right, Constant) or not isinstance(second.right, Constant):
        return False
    return {first.right.kind, second.right.kind} == {"bool"} and first.right.value is not second.right.value

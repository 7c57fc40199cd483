"""Decision tables: which rules match, and what their outputs come to (docs/reference/steps.md#decision-tables).

Values to be set: literals and ``${expressions}`` (docs/reference/steps.md#transformation).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.evaluation.values import are_alike, charge_conversion, compare_parts
from statewright.expressions import ExpressionBudget, ExpressionError, NotBoolean, evaluate, evaluate_bool
from statewright.instants import format_whole_second
from statewright.jsonval.scanning import is_in_range
from statewright.jsonval.values import JsonObject, JsonValue, is_number, json_type, quote, tidy_number
from statewright.net import Problem
from statewright.steps.definition import DEFAULT_HIT_POLICY, DecisionTable, Rule

_NOW: Final = "now()"
"""Alone, it gives the time to the second."""


def extract_expression(value: JsonValue) -> str | None:
    """The expression that ``value`` stands for, ``None`` when it is a literal."""
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return value[2:-1].strip()
    return None


def evaluate_value(value: JsonValue, variables: JsonObject, at: int, budget: ExpressionBudget) -> JsonValue:
    """What a literal or expression comes to. Raises :class:`ExpressionError`."""
    expression = extract_expression(value)
    if expression is None:
        return value
    return format_whole_second(at) if expression == _NOW else evaluate(expression, variables, at, budget)


def apply_transformations(
    transformations: JsonObject, variables: JsonObject, at: int, budget: ExpressionBudget
) -> "JsonObject | Problem":
    """The variables after all transformations, in order; each sees the results of those before it."""
    current = dict(variables)
    for name, value in transformations.items():
        try:
            current[name] = evaluate_value(value, current, at, budget)
        except ExpressionError as error:
            return Problem(f"transformation {quote(name)}: expression eval: {error}")
    return current


class RuleMatch(Struct, frozen=True):
    """A rule that matched, by its place in the table, and the values of its outputs."""

    index: int
    outputs: JsonObject


_EXACT: Final = Context(prec=20_000)
"""Enough digits for the sum of any two storable numbers."""

Number: TypeAlias = int | Decimal
Column: TypeAlias = Sequence[tuple[int, JsonValue]]
"""The values of one output, one per matched rule, with the rule's place; ``null`` where a rule lacks it."""
ColumnRule: TypeAlias = Callable[[str, Column, ExpressionBudget], "JsonValue | Problem"]
"""What becomes of a column, given its name and values, and what may be spent."""


class _EvaluationContext(Struct, frozen=True):
    """What cells and outputs are evaluated in."""

    variables: JsonObject
    at: int
    budget: ExpressionBudget


def evaluate_table(
    table: DecisionTable, hit_policy: str, variables: JsonObject, at: int, budget: ExpressionBudget | None = None
) -> "JsonObject | Problem":
    """The variables that the table sets. Rules and outputs all see the same variables."""
    context = _EvaluationContext(variables, at, budget or ExpressionBudget())
    policy = hit_policy or DEFAULT_HIT_POLICY
    matched = _find_matches(table.rules, context, only_first=policy == "F")
    if isinstance(matched, Problem):
        return matched
    if not matched:
        return Problem("no decision table rule matched (DecisionTableNoRuleMatched)")
    if policy == "U" and len(matched) > 1:
        places = _format_places(index for index, _ in matched)
        return Problem(f"hit policy U matched {len(matched)} rules {places} (DecisionTableUniqueViolation)")
    matches = _evaluate_outputs(matched, context)
    return matches if isinstance(matches, Problem) else _collapse_columns(policy, matches, context.budget)


def is_catch_all(rule: Rule) -> bool:
    """Whether the rule matches whatever the variables are."""
    return not any(_constrains(cell) for cell in rule.when.values())


def _find_matches(
    rules: tuple[Rule, ...], context: _EvaluationContext, *, only_first: bool
) -> list[tuple[int, Rule]] | Problem:
    found: list[tuple[int, Rule]] = []
    for index, rule in enumerate(rules):
        verdict = _check_rule(index, rule, context)
        if isinstance(verdict, Problem):
            return verdict
        if verdict:
            found.append((index, rule))
            if only_first:
                break
    return found


def _check_rule(index: int, rule: Rule, context: _EvaluationContext) -> bool | Problem:
    """Whether all cells hold; those after the first that does not are not looked at."""
    for column, cell in rule.when.items():
        try:
            if _constrains(cell) and not evaluate_bool(cell, context.variables, context.at, context.budget):
                return False
        except ExpressionError as error:
            finding = error.finding if isinstance(error, NotBoolean) else str(error)
            return Problem(f"rule {index} column {quote(column)}: {finding} (DecisionTableCellError)")
    return True


def _constrains(cell: str) -> bool:
    return bool(cell.strip())


def _evaluate_outputs(matched: list[tuple[int, Rule]], context: _EvaluationContext) -> list[RuleMatch] | Problem:
    matches: list[RuleMatch] = []
    for index, rule in matched:
        outputs: JsonObject = {}
        for name, value in rule.outputs.items():
            try:
                outputs[name] = evaluate_value(value, context.variables, context.at, context.budget)
            except ExpressionError as error:
                return Problem(f"rule {index} output {quote(name)}: expression eval: {error}")
        matches.append(RuleMatch(index, outputs))
    return matches


def _collapse_columns(policy: str, matches: list[RuleMatch], budget: ExpressionBudget) -> "JsonObject | Problem":
    if policy in ("U", "F"):
        return matches[0].outputs
    collapse = _POLICIES.get(policy)
    if collapse is None:
        return Problem(f"unsupported hitPolicy {quote(policy)}")
    result: JsonObject = {}
    for name in dict.fromkeys(name for match in matches for name in match.outputs):
        try:
            value = collapse(name, [(match.index, match.outputs.get(name)) for match in matches], budget)
        except ExpressionError as error:
            return Problem(f"hit policy {policy}: column {quote(name)}: {error}")
        if isinstance(value, Problem):
            return value
        result[name] = value
    return result


def _collapse_any(name: str, column: Column, budget: ExpressionBudget) -> "JsonValue | Problem":
    index, value = column[0]
    for other_index, other in column[1:]:
        if not _is_equal(value, other, budget):
            places = _format_places((index, other_index))
            return Problem(f"hit policy A: rules {places} disagree on column {quote(name)} (DecisionTableAnyConflict)")
    return value


def _collect(_: str, column: Column, __: ExpressionBudget) -> "JsonValue | Problem":
    return [value for _, value in column]


def _count(_: str, column: Column, __: ExpressionBudget) -> "JsonValue | Problem":
    return len(column)


def _build_aggregation(policy: str, aggregate: Callable[[Sequence[Number]], Number]) -> ColumnRule:
    def collapse(name: str, column: Column, _: ExpressionBudget) -> "JsonValue | Problem":
        numbers: list[Number] = []
        for index, value in column:
            if not is_number(value):
                return Problem(
                    f"hit policy {policy}: column {quote(name)} of rule {index} is {json_type(value)}, not a number "
                    "(DecisionTableAggregatorTypeError)"
                )
            numbers.append(value)
        result = aggregate(numbers)
        if not is_in_range(result):
            return Problem(
                f"hit policy {policy}: column {quote(name)} comes to a number out of range "
                "(DecisionTableAggregatorTypeError)"
            )
        return tidy_number(result)

    return collapse


def _sum(numbers: Sequence[Number]) -> Number:
    """Exact, whatever the number of digits; an integer when all terms are (decision S1)."""
    total: Number = 0
    for number in numbers:
        if isinstance(total, int) and isinstance(number, int):
            total += number
        else:
            total = _EXACT.add(total, number)
    return total


def _is_equal(left: JsonValue, right: JsonValue, budget: ExpressionBudget) -> bool:
    """JSON equality: 1 equals 1.0, and ``true`` does not equal 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if are_alike(left, right):
        return compare_parts(left, right, lambda one, other: _is_equal(one, other, budget))
    budget.spend(charge_conversion(left, right))
    return left == right


def _format_places(places: Iterable[int]) -> str:
    return f"[{' '.join(map(str, places))}]"


_POLICIES: Final[Mapping[str, ColumnRule]] = {
    "A": _collapse_any,
    "R": _collect,
    "C": _collect,
    "C+": _build_aggregation("C+", _sum),
    "C#": _count,
    "C>": _build_aggregation("C>", max),
    "C<": _build_aggregation("C<", min),
}
"""The policies that look at all matched rules, column by column."""

"""Decision tables: which rules match, and what their outputs come to (spec/step-engine.md §7)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Problem
from statewright.steps.core.definition import DEFAULT_HIT_POLICY, DecisionTable, Rule
from statewright.steps.core.expressions import Budget, ExpressionError, NotBoolean, holds
from statewright.steps.core.merging import tidy_number
from statewright.steps.core.outputs import value_of
from statewright.steps.core.texts import json_type, quoted


class Match(Struct, frozen=True):
    """A rule that matched, by its place in the table, and the values of its outputs."""

    index: int
    outputs: JsonObject


_EXACT: Final = Context(prec=20_000)
"""Enough digits for the sum of any two storable numbers."""

Number: TypeAlias = int | Decimal
Column: TypeAlias = Sequence[tuple[int, JsonValue]]
"""The values of one output, one per matched rule, with the rule's place; ``null`` where a rule lacks it."""
Collapse: TypeAlias = Callable[[str, Column], "JsonValue | Problem"]
"""What becomes of a column, given its name and values."""


class _Scene(Struct, frozen=True):
    """What cells and outputs are evaluated in."""

    variables: JsonObject
    at: int
    budget: Budget


def decided(
    table: DecisionTable, hit_policy: str, variables: JsonObject, at: int, budget: Budget | None = None
) -> "JsonObject | Problem":
    """The variables that the table sets. Rules and outputs all see the same variables."""
    scene = _Scene(variables, at, budget or Budget())
    policy = hit_policy or DEFAULT_HIT_POLICY
    matched = _matched(table.rules, scene, only_first=policy == "F")
    if isinstance(matched, Problem):
        return matched
    if not matched:
        return Problem("no decision table rule matched (DecisionTableNoRuleMatched)")
    if policy == "U" and len(matched) > 1:
        places = _listed(index for index, _ in matched)
        return Problem(f"hit policy U matched {len(matched)} rules {places} (DecisionTableUniqueViolation)")
    matches = _evaluated(matched, scene)
    return matches if isinstance(matches, Problem) else _collapsed(policy, matches)


def is_catch_all(rule: Rule) -> bool:
    """Whether the rule matches whatever the variables are."""
    return not any(_constrains(cell) for cell in rule.when.values())


def _matched(rules: tuple[Rule, ...], scene: _Scene, *, only_first: bool) -> list[tuple[int, Rule]] | Problem:
    found: list[tuple[int, Rule]] = []
    for index, rule in enumerate(rules):
        verdict = _matches(index, rule, scene)
        if isinstance(verdict, Problem):
            return verdict
        if verdict:
            found.append((index, rule))
            if only_first:
                break
    return found


def _matches(index: int, rule: Rule, scene: _Scene) -> bool | Problem:
    """Whether all cells hold; those after the first that does not are not looked at."""
    for column, cell in rule.when.items():
        try:
            if _constrains(cell) and not holds(cell, scene.variables, scene.at, scene.budget):
                return False
        except ExpressionError as error:
            finding = error.finding if isinstance(error, NotBoolean) else str(error)
            return Problem(f"rule {index} column {quoted(column)}: {finding} (DecisionTableCellError)")
    return True


def _constrains(cell: str) -> bool:
    return bool(cell.strip())


def _evaluated(matched: list[tuple[int, Rule]], scene: _Scene) -> list[Match] | Problem:
    matches: list[Match] = []
    for index, rule in matched:
        outputs: JsonObject = {}
        for name, value in rule.outputs.items():
            try:
                outputs[name] = value_of(value, scene.variables, scene.at, scene.budget)
            except ExpressionError as error:
                return Problem(f"rule {index} output {quoted(name)}: expression eval: {error}")
        matches.append(Match(index, outputs))
    return matches


def _collapsed(policy: str, matches: list[Match]) -> "JsonObject | Problem":
    if policy in ("U", "F"):
        return matches[0].outputs
    collapse = _POLICIES.get(policy)
    if collapse is None:
        return Problem(f"unsupported hitPolicy {quoted(policy)}")
    result: JsonObject = {}
    for name in dict.fromkeys(name for match in matches for name in match.outputs):
        value = collapse(name, [(match.index, match.outputs.get(name)) for match in matches])
        if isinstance(value, Problem):
            return value
        result[name] = value
    return result


def _any(name: str, column: Column) -> "JsonValue | Problem":
    index, value = column[0]
    for other_index, other in column[1:]:
        if not _same(value, other):
            places = _listed((index, other_index))
            return Problem(f"hit policy A: rules {places} disagree on column {quoted(name)} (DecisionTableAnyConflict)")
    return value


def _all_in_order(_: str, column: Column) -> "JsonValue | Problem":
    return [value for _, value in column]


def _count(_: str, column: Column) -> "JsonValue | Problem":
    return len(column)


def _aggregated(policy: str, aggregate: Callable[[Sequence[Number]], Number]) -> Collapse:
    def collapse(name: str, column: Column) -> "JsonValue | Problem":
        numbers: list[Number] = []
        for index, value in column:
            if isinstance(value, bool) or not isinstance(value, int | Decimal):
                return Problem(
                    f"hit policy {policy}: column {quoted(name)} of rule {index} is {json_type(value)}, not a number "
                    "(DecisionTableAggregatorTypeError)"
                )
            numbers.append(value)
        result = aggregate(numbers)
        return tidy_number(result) if isinstance(result, Decimal) else result

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


def _same(left: JsonValue, right: JsonValue) -> bool:
    """JSON equality: 1 equals 1.0, and ``true`` does not equal 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(value, right[name]) for name, value in left.items())
    return left == right


def _listed(places: Iterable[int]) -> str:
    return f"[{' '.join(map(str, places))}]"


_POLICIES: Final[Mapping[str, Collapse]] = {
    "A": _any,
    "R": _all_in_order,
    "C": _all_in_order,
    "C+": _aggregated("C+", _sum),
    "C#": _count,
    "C>": _aggregated("C>", max),
    "C<": _aggregated("C<", min),
}
"""The policies that look at all matched rules, column by column."""

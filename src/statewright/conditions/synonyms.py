"""Operator names that older clients write, in the words of today (docs/reference/search.md#paths-for-older-clients).

They are understood on the paths for those clients alone: everywhere else an operator that is none is refused, since a
condition that is understood differently from how it was meant finds the wrong entities.
"""

from typing import Final

from statewright.conditions.syntax import MAX_DEPTH, MalformedCondition
from statewright.jsonval.values import JsonObject, JsonValue

SYNONYMS: Final = {
    "NOT_EQUALS": "NOT_EQUAL",
    "GREATER_THAN_OR_EQUAL": "GREATER_OR_EQUAL",
    "LESS_THAN_OR_EQUAL": "LESS_OR_EQUAL",
}

LISTS: Final = {"IN": ("OR", "EQUALS"), "NOT_IN": ("AND", "NOT_EQUAL")}
"""Operators on a list: how the comparisons with its values are joined, and what each of them is."""

MAX_LISTED: Final = 1000
"""Values in one list."""

_OPERATOR_MEMBERS: Final = ("operatorType", "operator", "operation")


def replace_synonyms(condition: JsonValue, depth: int = 0) -> JsonValue:
    """The condition with the operators of today. Raises :class:`MalformedCondition` for a list that is none, is empty
    or is too long; what else may be wrong with the condition is for its parser to say.
    """
    if not isinstance(condition, dict) or depth > MAX_DEPTH:
        return condition
    children = condition.get("conditions")
    if isinstance(children, list):
        replaced: list[JsonValue] = [replace_synonyms(child, depth + 1) for child in children]
        return {**condition, "conditions": replaced}
    member = next((name for name in _OPERATOR_MEMBERS if isinstance(condition.get(name), str)), None)
    operator = condition[member] if member is not None else None
    if member is None or not isinstance(operator, str):
        return condition
    if operator in LISTS:
        return _spread_list(condition, member, operator)
    return condition | {member: SYNONYMS[operator]} if operator in SYNONYMS else condition


def _spread_list(condition: JsonObject, member: str, operator: str) -> JsonObject:
    values, (joined, compared) = condition.get("value"), LISTS[operator]
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_LISTED:
        raise MalformedCondition(f"{operator} takes a list of 1 to {MAX_LISTED} values")
    leaves: list[JsonValue] = [condition | {member: compared, "value": value} for value in values]
    return {"type": "group", "operator": joined, "conditions": leaves}

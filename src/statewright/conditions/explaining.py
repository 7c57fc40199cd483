"""Why a condition holds of an entity or does not: every leaf with the value it looked at
(docs/reference/operations.md#explain).

The leaves are judged by the plans and predicates that everything else uses; only what decides a group early is not
skipped here.
"""

from collections.abc import Mapping
from typing import Final, assert_never

import msgspec
from msgspec import UNSET

from statewright.conditions.evaluate import compile_plan
from statewright.conditions.paths import compile_collect, compile_lookup, has_wildcard, parse_path
from statewright.conditions.plan import EvaluationError, Visits
from statewright.conditions.planning import build_plan
from statewright.conditions.syntax import META_FIELDS, Array, Condition, Function, Group, Lifecycle, Simple
from statewright.entity import EntityMeta
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.schema.node import DeclaredField

MAX_LEAVES: Final = 500
"""Leaves that one explanation shows; of larger conditions the rest is judged and left out."""

MAX_VALUES: Final = 10
"""Values that are shown of a path with wildcards."""

MAX_VALUE_BYTES: Final = 1024
"""Of a value as JSON; longer ones are cut."""


class ConditionExplainer:
    """Explains conditions on one entity. ``declared`` are the fields of its model."""

    def __init__(self, declared: Mapping[str, DeclaredField], document: JsonValue, meta: EntityMeta) -> None:
        self._declared = declared
        self._document = document
        self._meta = meta
        self._leaves_left = MAX_LEAVES
        self._visits = Visits()
        """Shared by all leaves: a condition that looks at too much ends in errors, not in a long computation."""

    def explain(self, condition: Condition) -> JsonObject:
        """The condition with the ``result`` of each part: true, false, or null with an ``error``."""
        match condition:
            case Group():
                return self._explain_group(condition)
            case Simple():
                named: JsonObject = {"type": "simple", "path": condition.path, "operator": condition.operator}
                return named | {"operand": condition.value} | self._find_values(condition.path) | self._judge(condition)
            case Lifecycle():
                named = {"type": "lifecycle", "field": condition.field, "operator": condition.operator}
                return named | {"operand": condition.value} | self._find_meta(condition.field) | self._judge(condition)
            case Array():
                named = {"type": "array", "path": condition.path, "operand": list(condition.values)}
                return named | self._find_values(condition.path) | self._judge(condition)
            case Function():
                named = {"type": "function", "name": condition.name, "tags": list(condition.tags)}
                return named | self._judge(condition)
            case _:
                assert_never(condition)

    def _explain_group(self, group: Group) -> JsonObject:
        shown: list[JsonValue] = []
        results: list[JsonValue] = []
        for child in group.conditions:
            if self._leaves_left <= 0:
                results.append(self._judge(child)["result"])
                continue
            self._leaves_left -= not isinstance(child, Group)
            explained = self.explain(child)
            shown.append(explained)
            results.append(explained["result"])
        described: JsonObject = {"type": "group", "operator": group.operator, "conditions": shown}
        if len(shown) < len(group.conditions):
            described["leftOut"] = len(group.conditions) - len(shown)
        if group.operator not in {"AND", "OR"}:
            return described | {"result": None, "error": f'unknown group operator "{group.operator}"'}
        neutral = group.operator == "AND"
        return described | {"result": next((result for result in results if result is not neutral), neutral)}

    def _judge(self, condition: Condition) -> JsonObject:
        try:
            return {
                "result": compile_plan(build_plan(condition, self._declared))(self._document, self._meta, self._visits)
            }
        except EvaluationError as error:
            return {"result": None, "error": str(error)}

    def _find_values(self, text: str) -> JsonObject:
        path = parse_path(text)
        if path is None:
            return {"absent": True}
        if has_wildcard(path):
            try:
                found = compile_collect(path)(self._document, self._visits.spend)
            except EvaluationError:
                return {"cut": True}
            if found is None:
                return {"absent": True}
            cut = [_cut(value) for value in found[:MAX_VALUES]]
            is_cut = len(found) > MAX_VALUES or any(too_long for _, too_long in cut)
            shown: JsonObject = {"values": [value for value, _ in cut]}
            return shown | {"cut": True} if is_cut else shown
        value = compile_lookup(path)(self._document)
        return {"absent": True} if value is UNSET or isinstance(value, msgspec.UnsetType) else _show(value)

    def _find_meta(self, name: str) -> JsonObject:
        field = META_FIELDS.get(name)
        if field is None:
            return {"absent": True}
        value: int | str = getattr(self._meta, field.value)
        return {"value": to_rfc3339(value * 1000) if isinstance(value, int) else value}


def _show(value: JsonValue) -> JsonObject:
    shown, is_cut = _cut(value)
    return {"value": shown} | ({"cut": True} if is_cut else {})


def _cut(value: JsonValue) -> tuple[JsonValue, bool]:
    """The value, or the beginning of its text when it is too long, and whether it was."""
    if not isinstance(value, str | list | dict):
        return value, False
    text = value if isinstance(value, str) else encode(value).decode()
    size = len(text.encode(errors="replace"))
    if size <= MAX_VALUE_BYTES:
        return value, False
    return text.encode(errors="replace")[:MAX_VALUE_BYTES].decode(errors="ignore"), True

"""Conditions from and to JSON, with the leniencies of docs/reference/conditions.md#form."""

import re
from collections.abc import Callable
from typing import Final, assert_never

from statewright.conditions.syntax import (
    MAX_DEPTH,
    Array,
    Condition,
    Function,
    Group,
    Lifecycle,
    MalformedCondition,
    Simple,
)
from statewright.jsonval.members import MemberReader, WantedType
from statewright.jsonval.values import JsonObject, JsonValue

_TYPES: Final[dict[WantedType, str]] = {
    "string": "a string",
    "bool": "a boolean",
    "int": "a whole number",
    "array": "an array",
    "object": "a JSON object",
}


class ConditionMembers(MemberReader):
    """Typed access to the members: names in any case (the exact spelling wins), ``null`` equal to absent."""

    def __init__(self, raw: JsonValue, what: str) -> None:
        if not isinstance(raw, dict):
            raise MalformedCondition(f"{what} is not a JSON object")
        self.raw: JsonObject = raw
        self._what = what
        self._folded: JsonObject | None = None

    def get(self, name: str) -> JsonValue:
        if name in self.raw:
            return self.raw[name]
        if self._folded is None:  # most clients write the names as documented
            self._folded = {member.lower(): value for member, value in self.raw.items()}
        return self._folded.get(name.lower())

    def whole(self, name: str) -> int:
        """The whole number, 0 when absent."""
        value = self.get(name)
        if value is None:
            return 0
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self.build_type_error(name, value, "int")

    def inner(self, name: str) -> "ConditionMembers":
        """The object, an empty one when absent."""
        value = self.get(name)
        return ConditionMembers({} if value is None else value, f"{self._what}: member {name}")

    def build_type_error(self, name: str, value: JsonValue, wanted: WantedType) -> MalformedCondition:
        return MalformedCondition(f"{self._what}: member {name} is not {_TYPES[wanted]}")


DEFAULT_TIMEOUT_MS: Final = 30_000
"""How long a member may take when ``responseTimeoutMs`` is absent or not positive
(docs/reference/workflows.md#processor-config).
"""


def parse(value: JsonValue) -> Condition:
    """The condition that the JSON value describes.

    Raises :class:`MalformedCondition` for anything that is no condition: no object, no known ``type``, a member of the
    wrong JSON kind, nesting over 50. Unknown members are ignored; unknown operators and paths are no matter of parsing.
    """
    return _parse(value, 0)


def serialise(condition: Condition) -> JsonValue:
    """The canonical JSON of the condition: primary member names only
    (docs/reference/conditions.md#stored-conditions). Inverse of parsing.
    """
    match condition:
        case Simple(path=path, operator=operator, value=value):
            return {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}
        case Lifecycle(field=field, operator=operator, value=value):
            return {"type": "lifecycle", "field": field, "operatorType": operator, "value": value}
        case Group(operator=operator, conditions=conditions):
            return {"type": "group", "operator": operator, "conditions": [serialise(child) for child in conditions]}
        case Array(path=path, values=values):
            return {"type": "array", "jsonPath": path, "values": list(values)}
        case Function(raw=raw):
            return raw
        case _:
            assert_never(condition)


def _parse(value: JsonValue, depth: int) -> Condition:
    if depth > MAX_DEPTH:
        raise MalformedCondition(f"condition is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict) and (plain := _parse_plain(value, depth)) is not None:
        return plain
    body = ConditionMembers(value, "condition")
    kind = body.text("type")
    if kind == "group":
        return _parse_group(body, depth)
    read = _LEAVES.get(kind)
    if read is None:
        raise MalformedCondition(f'unknown condition type "{kind}"' if kind else "condition has no type")
    return read(body)


def _parse_plain(raw: JsonObject, depth: int) -> Condition | None:
    """A comparison or group whose members have their primary names, as nearly all have: what the long way makes of it.

    None for all else.
    """
    kind = raw.get("type")
    if kind == "simple" and "value" in raw:
        path, operator = raw.get("jsonPath"), raw.get("operatorType")
        if isinstance(path, str) and isinstance(operator, str) and operator:
            return Simple(path=path, operator=operator, value=raw["value"])
    elif kind == "group":
        operator, children = raw.get("operator"), raw.get("conditions")
        if operator in ("AND", "OR") and isinstance(operator, str) and isinstance(children, list):
            return Group(operator=operator, conditions=tuple([_parse(child, depth + 1) for child in children]))
    return None


def _parse_group(body: ConditionMembers, depth: int) -> Group:
    operator = body.text("operator")
    return Group(
        operator=operator.upper() if operator.upper() in ("AND", "OR") else operator,
        conditions=tuple(_parse(child, depth + 1) for child in body.array("conditions")),
    )


def _parse_simple(body: ConditionMembers) -> Simple:
    return Simple(path=body.text("jsonPath"), operator=_read_operator(body), value=body.get("value"))


def _parse_lifecycle(body: ConditionMembers) -> Lifecycle:
    return Lifecycle(field=body.text("field"), operator=_read_operator(body), value=body.get("value"))


def _parse_array(body: ConditionMembers) -> Array:
    # The published schema, and an editor in use, write the positions as `value`
    # (docs/reference/conditions.md#conditions, docs/reference/conditions.md#array).
    name = "values" if body.get("values") is not None else "value"
    return Array(path=body.text("jsonPath"), values=tuple(body.array(name)))


def _parse_function(body: ConditionMembers) -> Function:
    function = body.inner("function")
    config = function.inner("config")
    tags_text = config.text("calculationNodesTags")
    timeout_ms = config.whole("responseTimeoutMs")
    return Function(
        name=function.text("name"),
        tags=parse_tags(tags_text),
        tags_text=tags_text,
        attach_entity=config.flag("attachEntity") is not False,
        timeout_ms=timeout_ms if timeout_ms > 0 else DEFAULT_TIMEOUT_MS,
        context=config.text("context"),
        raw=body.raw,
    )


_LEAVES: Final[dict[str, Callable[[ConditionMembers], Condition]]] = {
    "simple": _parse_simple,
    "lifecycle": _parse_lifecycle,
    "array": _parse_array,
    "function": _parse_function,
}


def _read_operator(body: ConditionMembers) -> str:
    """The first non-empty of the three spellings, in this order of precedence."""
    texts = (body.text(name) for name in ("operatorType", "operator", "operation"))
    return next(filter(None, texts), "")


# Which calculation members a callout may go to, as authors write it.

_SEPARATOR: Final = re.compile("[,;]")


def parse_tags(text: str) -> tuple[str, ...]:
    """The tags asked for by a ``calculationNodesTags`` text, trimmed, lower-cased; none = any member (decision W5)."""
    trimmed = (tag.strip() for tag in _SEPARATOR.split(text))
    return tuple(tag.lower() for tag in trimmed if tag)

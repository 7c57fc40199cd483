"""Conditions from and to JSON, with the leniencies of docs/reference/conditions.md#form.

JSON Schemas of conditions (docs/reference/conditions.md#form), for editors and the OpenAPI document.

They describe what authors should write. What is read besides, such as member names in other cases, is left out.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, assert_never

from statewright.conditions.syntax import (
    MAX_DEPTH,
    META_FIELDS,
    OPERATORS,
    Array,
    Condition,
    Function,
    Group,
    Lifecycle,
    MalformedCondition,
    Simple,
)
from statewright.jsonval.values import JsonObject, JsonValue, MemberReader, WantedType, is_whole

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
        if is_whole(value):
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


Ref: TypeAlias = Callable[[str], JsonObject]
"""The reference to the schema of that name, wherever the schemas stand."""

_OPERATOR: Final[JsonObject] = {"type": "string", "enum": list(OPERATORS)}
_SPELLINGS: Final = ("operatorType", "operator", "operation")
"""The names that the operator may have, in this order of precedence."""

_FIELD: Final[JsonObject] = {
    "type": "string",
    "description": "the field; `city` and `$.city` mean the same, `[*]` is any element",
    "examples": ["$.year", "$.lines[*].sku"],
}
_ELEMENTS: Final[JsonObject] = {
    "type": "array",
    "description": "`null` skips an element; further elements do not matter",
}
_FUNCTION_CONFIG: Final[JsonObject] = {
    "type": ["object", "null"],
    "properties": {
        "calculationNodesTags": {
            "type": "string",
            "description": "tags, separated by `,` or `;`: the member needs all of them; none: any member",
        },
        "attachEntity": {
            "type": ["boolean", "null"],
            "default": True,
            "description": "send the document along",
        },
        "responseTimeoutMs": {
            "type": "integer",
            "format": "int64",
            "default": 30_000,
            "description": "how long the member may take; 0 and less mean the default",
        },
        "context": {"type": "string", "description": "handed to the member as `parameters`"},
    },
}


def describe_conditions(ref: Ref) -> Mapping[str, JsonObject]:
    """The schemas of conditions by name: ``Condition`` is what a search takes, ``Criterion`` what a workflow does."""
    return {
        "Condition": {
            "description": "a comparison, or several combined",
            "oneOf": [ref(f"{kind}Condition") for kind in ("Simple", "Lifecycle", "Group", "Array")],
        },
        "Criterion": {
            "description": "what must hold: a condition, or a function of a calculation member that decides",
            "oneOf": [ref(f"{kind}Condition") for kind in ("Simple", "Lifecycle", "Group", "Array", "Function")],
        },
        "SimpleCondition": _describe_leaf(
            "compares a field of the document", "simple", {"jsonPath": _FIELD}, "jsonPath"
        ),
        "LifecycleCondition": _describe_leaf(
            "compares metadata of the entity",
            "lifecycle",
            {"field": {"type": "string", "enum": list(META_FIELDS)}},
            "field",
        ),
        "GroupCondition": _describe_group(ref),
        "ArrayCondition": _describe(
            "compares the elements of an array by position",
            "array",
            {"jsonPath": {"type": "string", "description": "the array"}, "values": _ELEMENTS},
            "jsonPath",
        ),
        "FunctionCondition": _describe_function(ref),
        "FunctionConfig": _FUNCTION_CONFIG,
    }


def _describe_group(ref: Ref) -> JsonObject:
    conditions: JsonObject = {
        "type": "array",
        "items": ref("Condition"),
        "description": "nested 50 deep at most; an empty `AND` holds, an empty `OR` does not",
    }
    return _describe(
        "combines conditions, looked at from left to right until the result is certain",
        "group",
        {"operator": {"type": "string", "enum": ["AND", "OR"]}, "conditions": conditions},
        "operator",
        "conditions",
    )


def _describe_function(ref: Ref) -> JsonObject:
    name: JsonObject = {"type": "string", "description": "what the member knows it by"}
    return _describe(
        "asks a calculation member; only as the whole criterion of a workflow or transition",
        "function",
        {
            "function": {
                "type": "object",
                "properties": {"name": name, "config": ref("FunctionConfig")},
                "required": ["name"],
            }
        },
        "function",
    )


def _describe(description: str, kind: str, members: Mapping[str, JsonObject], *required: str) -> JsonObject:
    properties: dict[str, JsonValue] = {"type": {"const": kind}, **members}
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "required": ["type", *required],
    }


def _describe_leaf(description: str, kind: str, members: Mapping[str, JsonObject], place: str) -> JsonObject:
    operators: dict[str, JsonObject] = {
        "operatorType": {**_OPERATOR, "description": "may also be called `operator` or `operation`"},
        "operator": _OPERATOR,
        "operation": _OPERATOR,
    }
    value: JsonObject = {
        "description": "what to compare with: a scalar, two of them for a range, nothing for IS_NULL and NOT_NULL"
    }
    schema = _describe(description, kind, {**members, **operators, "value": value}, place)
    return {**schema, "anyOf": [{"required": [name]} for name in _SPELLINGS]}

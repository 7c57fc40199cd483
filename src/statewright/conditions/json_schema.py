"""JSON Schemas of conditions (docs/reference/conditions.md#form), for editors and the OpenAPI document.

They describe what authors should write. What is read besides, such as member names in other cases, is left out.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from statewright.conditions.vocabulary import META_FIELDS, OPERATORS
from statewright.jsonval.values import JsonObject, JsonValue

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

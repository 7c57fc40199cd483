"""Conditions (spec/search.md, docs/reference/conditions.md)."""

from typing import Final

from statewright.api.http.openapi.shapes import Document, array, ref
from statewright.conditions.metafields import META_FIELDS
from statewright.conditions.operators import OPERATORS

_PATH = {"type": "string", "description": "the field; `city` and `$.city` mean the same", "examples": ["$.year"]}
_META = {"type": "string", "enum": ["state", *(name for name in META_FIELDS if name != "state")]}
_OPERATOR = {"type": "string", "enum": list(OPERATORS)}


def _condition(kind: str, required: str, **members: object) -> Document:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **members},
        "required": ["type", *required.split()],
    }


CONDITIONS: Final[Document] = {
    "Condition": {
        "description": "a condition; see docs/reference/conditions.md",
        "oneOf": [ref(name) for name in ("SimpleCondition", "LifecycleCondition", "GroupCondition", "ArrayCondition")],
    },
    "SimpleCondition": _condition("simple", "jsonPath operatorType", jsonPath=_PATH, operatorType=_OPERATOR, value={}),
    "LifecycleCondition": _condition("lifecycle", "field operatorType", field=_META, operatorType=_OPERATOR, value={}),
    "GroupCondition": _condition(
        "group",
        "operator conditions",
        operator={"type": "string", "enum": ["AND", "OR"]},
        conditions=array(ref("Condition")),
    ),
    "ArrayCondition": _condition("array", "jsonPath values", jsonPath=_PATH, values={"type": "array"}),
}

"""Every record is what the OpenAPI document says of it (docs/reference/service.md#openapi)."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import UNSET, inspect

from statewright.api.http.openapi import build_openapi_document
from statewright.api.http.openapi.components import ENTITY_RECORDS
from statewright.api.http.openapi.flow_schemas import FLOW_RECORDS
from statewright.api.http.openapi.ops_schemas import NAMED_RECORDS
from statewright.api.http.openapi.playbook_schemas import PLAYBOOK_RECORDS
from statewright.api.http.openapi.step_schemas import STEP_RECORDS
from statewright.api.http.response import encode_json

COMPONENTS = build_openapi_document()["components"]
RECORDS = NAMED_RECORDS | ENTITY_RECORDS | FLOW_RECORDS | PLAYBOOK_RECORDS | STEP_RECORDS

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=3
)
MEMBERS = st.dictionaries(st.text(), JSON_VALUES, max_size=2)

BY_TYPE = {
    "object": MEMBERS,
    "array": st.lists(JSON_VALUES, max_size=2),
    "null": st.none(),
    "string": st.text(),
    "number": st.integers(-99, 99),
}

SAID_BESIDE = {"enum", "type", "anyOf", "pattern", "minLength"}
"""What a schema may say of values that their types do not."""

VALIDATORS = {
    name: Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": COMPONENTS}) for name in RECORDS
}


@pytest.mark.parametrize("name", RECORDS)
@settings(max_examples=15, derandomize=True, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_whatever_a_record_holds_its_schema_allows(name: str, data: st.DataObject) -> None:
    type_ = RECORDS[name]
    record = data.draw(build_strategy(inspect.type_info(type_)))
    sent = encode_json(record)
    assert [error.message for error in VALIDATORS[name].iter_errors(json.loads(sent))] == []
    assert encode_json(msgspec.json.decode(sent, type=type_)) == sent


def build_strategy(info: inspect.Type) -> st.SearchStrategy[Any]:
    """Values of a type; a text that is one of some words is drawn from them."""
    match info:
        case inspect.Metadata(type=inner, extra_json_schema=said):
            schema = said or {}
            return build_from_schema(schema) if schema.keys() & SAID_BESIDE else build_strategy(inner)
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.StructType(cls=kind, fields=fields):
            return st.builds(kind, **{field.name: build_member(field) for field in fields})
        case inspect.UnionType(types=types):
            return st.one_of(*map(build_strategy, types))
        case inspect.DictType(value_type=value):
            return st.dictionaries(st.text(), build_strategy(value), max_size=2)
        case inspect.CollectionType(item_type=item, min_length=least):
            return st.lists(build_strategy(item), min_size=least or 0, max_size=(least or 0) + 2).map(tuple)
        case inspect.StrType(min_length=least, max_length=most):
            return st.text(min_size=least or 0, max_size=min(most or 5, 5))
        case inspect.IntType(ge=least, le=most):
            return st.integers(least if least is not None else -(2**63), most if most is not None else 2**63 - 1)
        case inspect.FloatType(gt=above, le=most):
            return st.floats(above, most, exclude_min=above is not None, allow_nan=False, allow_infinity=False)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case _:
            assert isinstance(info, inspect.AnyType | inspect.RawType), info
            return JSON_VALUES


def build_from_schema(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema that stands beside its type."""
    if "anyOf" in schema:
        return st.one_of(*map(build_from_schema, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True)
    if "minLength" in schema:
        return st.text(min_size=schema["minLength"], max_size=schema["minLength"] + 5)
    if "properties" in schema:
        needed = {name: build_from_schema(schema["properties"][name]) for name in schema["required"]}
        return st.fixed_dictionaries(needed)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of([BY_TYPE[kind] for kind in kinds])


def build_member(field: inspect.Field) -> st.SearchStrategy[Any]:
    return build_strategy(field.type) | st.just(UNSET) if field.default is UNSET else build_strategy(field.type)

"""The stored form of a schema."""

import pytest
from hypothesis import given

from statewright.jsonval.codec import decode, encode
from statewright.schema import SchemaNode, UnreadableSchema, schema_from_stored, schema_to_stored
from tests.unit.schema.builders import schema_of
from tests.unit.schema.strategies import schemas


@given(schemas())
def test_a_schema_survives_storage(schema: SchemaNode):
    assert schema_from_stored(decode(encode(schema_to_stored(schema)))) == schema


def test_the_stored_form_is_a_table_of_nodes():
    assert schema_to_stored(schema_of('{"sku":"A","tags":["x",null],"box":[{},null]}')) == [
        ["OBJECT", [], {"sku": 1, "tags": 2, "box": 3}],
        ["LEAF", ["STRING"]],
        ["ARRAY", [], 4],
        ["ARRAY", [], 5],
        ["LEAF", ["STRING"]],
        ["OBJECT", ["NULL"], {}],
    ]


def test_the_deepest_schema_can_be_stored_and_read():
    schema = schema_of('{"a":' * 255 + "[1]" + "}" * 255)
    assert schema_from_stored(decode(encode(schema_to_stored(schema)))) == schema


@pytest.mark.parametrize(
    "table",
    [
        "null",
        "[]",
        "{}",
        '[["LEAF",["TEXT"]]]',
        '[["TREE",[]]]',
        '[["ARRAY",[],1]]',
        '[["ARRAY",[],0]]',
        '[["OBJECT",[],{"a":7}]]',
        '[["OBJECT",[],{"a":"x"}]]',
    ],
)
def test_anything_else_is_recognised_as_unreadable(table: str):
    with pytest.raises(UnreadableSchema, match=r"^stored schema: "):
        schema_from_stored(decode(table))

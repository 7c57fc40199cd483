"""Exports, byte for byte: examples A to G of docs/reference/models.md#export-formats."""

import json

import jsonschema
import pytest
from hypothesis import given

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import DataType, JsonObject
from statewright.schema import (
    EXPORTS,
    SchemaNode,
    UniqueKey,
    export_document,
    infer,
    normalise,
    to_json_schema,
    to_simple_view,
)
from statewright.schema.node import Kind, leaf
from tests.unit.schema.builders import schema_of
from tests.unit.schema.strategies import documents

A = ['{"sku":"A-1","price":12.5,"qty":3,"active":true,"note":null}']
B = ['{"customer":{"name":"Ada","address":{"city":"Berlin","zip":"10115"}},"empty":{}}']
C = ['{"tags":["a","b"],"scores":[1,2.5,5000000000],"mixed":[1,"x",true,null],"none":[],"matrix":[[1,2],[3]]}']
D = [
    (
        '{"orderNo":"X-7","lines":[{"sku":"A","qty":1,"opts":["red"],"parts":[{"id":1}],"dim":{"w":2,"h":3}},'
        '{"sku":"B","qty":2.5,"gift":true}]}'
    )
]
E = [
    '{"ref":"abc","when":"2024-05-01","year":"2024"}',
    '{"ref":42,"when":"2024-05-01T10:00:00Z","year":"n/a","extra":false}',
]
F = ['{"items":[{"v":{"a":"s"}},{"v":"abc"}]}']


@pytest.mark.parametrize(
    ("samples", "model"),
    [
        (A, '{"$":{".active":"BOOLEAN",".note":"NULL",".price":"DOUBLE",".qty":"INTEGER",".sku":"STRING"}}'),
        (
            B,
            (
                '{"$":{"#.customer":"OBJECT","#.empty":"OBJECT"},"$.customer":{"#.address":"OBJECT",".name":"STRING"},'
                '"$.customer.address":{".city":"STRING",".zip":"STRING"},"$.empty":{}}'
            ),
        ),
        (
            C,
            (
                '{"$":{".matrix[*]":"NULL",".mixed[*]":"[INTEGER, STRING, BOOLEAN]",".none[*]":"NULL",'
                '".scores[*]":"UNBOUND_DECIMAL",".tags[*]":"STRING"}}'
            ),
        ),
        (
            D,
            (
                '{"$":{"#.lines":"OBJECT",".orderNo":"STRING"},"$.lines[*]":{"#":"ARRAY_ELEMENT","#.dim":"OBJECT",'
                '"#.parts":"OBJECT",".gift":"BOOLEAN",".opts[*]":"STRING",".qty":"DOUBLE",".sku":"STRING"},'
                '"$.lines[*].dim":{".h":"INTEGER",".w":"INTEGER"},"$.lines[*].parts[*]":{"#":"ARRAY_ELEMENT",".id":"INTEGER"}}'
            ),
        ),
        (
            E,
            (
                '{"$":{".extra":"BOOLEAN",".ref":"[INTEGER, STRING]",".when":"[LOCAL_DATE, ZONED_DATE_TIME]",'
                '".year":"[STRING, YEAR]"}}'
            ),
        ),
        (
            F,
            '{"$":{"#.items":"OBJECT"},"$.items[*]":{"#":"ARRAY_ELEMENT","#.v":"OBJECT"},"$.items[*].v":{".a":"STRING"}}',
        ),
        (["[1]"], "{}"),
        (["7"], "{}"),
        (["null"], "{}"),
        (['{"m":[["x"],"y"]}'], '{"$":{".m[*]":"STRING"}}'),
    ],
    ids=[*"ABCDEF", "array root", "scalar root", "null root", "mixed inner array"],
)
def test_simple_view_is_a_flat_map_of_objects(samples: list[str], model: str):
    exported = export_document(to_simple_view(schema_of(*samples)), state="UNLOCKED")
    assert exported.decode() == f'{{"currentState":"UNLOCKED","model":{model}}}'


@pytest.mark.parametrize(
    ("samples", "model"),
    [
        (
            A,
            (
                '{"properties":{"active":{"type":"boolean"},"note":{"type":"null"},"price":{"type":"number"},'
                '"qty":{"type":"integer"},"sku":{"type":"string"}},"type":"object"}'
            ),
        ),
        (
            B,
            (
                '{"properties":{"customer":{"properties":{"address":{"properties":{"city":{"type":"string"},'
                '"zip":{"type":"string"}},"type":"object"},"name":{"type":"string"}},"type":"object"},'
                '"empty":{"properties":{},"type":"object"}},"type":"object"}'
            ),
        ),
        (
            C,
            (
                '{"properties":{"matrix":{"items":{"items":{"type":"integer"},"type":"array"},"type":"array"},'
                '"mixed":{"items":{"oneOf":[{"type":"integer"},{"type":"string"},{"type":"boolean"}]},"type":"array"},'
                '"none":{"items":{"type":"null"},"type":"array"},"scores":{"items":{"type":"number"},"type":"array"},'
                '"tags":{"items":{"type":"string"},"type":"array"}},"type":"object"}'
            ),
        ),
        (
            D,
            (
                '{"properties":{"lines":{"items":{"properties":{"dim":{"properties":{"h":{"type":"integer"},'
                '"w":{"type":"integer"}},"type":"object"},"gift":{"type":"boolean"},"opts":{"items":{"type":"string"},'
                '"type":"array"},"parts":{"items":{"properties":{"id":{"type":"integer"}},"type":"object"},"type":"array"},'
                '"qty":{"type":"number"},"sku":{"type":"string"}},"type":"object"},"type":"array"},'
                '"orderNo":{"type":"string"}},"type":"object"}'
            ),
        ),
        (
            E,
            (
                '{"properties":{"extra":{"type":"boolean"},"ref":{"oneOf":[{"type":"integer"},{"type":"string"}]},'
                '"when":{"oneOf":[{"format":"date","type":"string"},{"format":"date-time","type":"string"}]},'
                '"year":{"oneOf":[{"type":"string"},{"format":"year","type":"string"}]}},"type":"object"}'
            ),
        ),
        (
            F,
            (
                '{"properties":{"items":{"items":{"properties":{"v":{"properties":{"a":{"type":"string"}},"type":"object"}},'
                '"type":"object"},"type":"array"}},"type":"object"}'
            ),
        ),
        (["[1]"], '{"items":{"type":"integer"},"type":"array"}'),
        (["7"], '{"type":"integer"}'),
    ],
    ids=[*"ABCDEF", "array root", "scalar root"],
)
def test_json_schema_is_nested_and_minimal(samples: list[str], model: str):
    exported = export_document(to_json_schema(schema_of(*samples)), state="LOCKED")
    assert exported.decode() == f'{{"currentState":"LOCKED","model":{model}}}'


def test_unique_keys_follow_the_model_with_their_id_first():
    """Example G."""
    model = to_simple_view(schema_of('{"email":"x","org":"y"}'))
    keys = [UniqueKey("by-email", ("$.org", "$.email"))]
    assert export_document(model, state="LOCKED", unique_keys=keys).decode() == (
        '{"currentState":"LOCKED","model":{"$":{".email":"STRING",".org":"STRING"}},'
        '"uniqueKeys":[{"id":"by-email","fields":["$.org","$.email"]}]}'
    )


@pytest.mark.parametrize(
    ("types", "schema"),
    [
        ("INTEGER LONG BIG_INTEGER UNBOUND_INTEGER", '{"type":"integer"}'),
        ("DOUBLE BIG_DECIMAL UNBOUND_DECIMAL", '{"type":"number"}'),
        ("STRING CHARACTER", '{"type":"string"}'),
        ("BOOLEAN", '{"type":"boolean"}'),
        ("NULL", '{"type":"null"}'),
        ("LOCAL_DATE", '{"format":"date","type":"string"}'),
        ("LOCAL_DATE_TIME ZONED_DATE_TIME", '{"format":"date-time","type":"string"}'),
        ("LOCAL_TIME", '{"format":"time","type":"string"}'),
        ("YEAR", '{"format":"year","type":"string"}'),
        ("YEAR_MONTH", '{"format":"year-month","type":"string"}'),
        ("UUID_TYPE TIME_UUID_TYPE", '{"format":"uuid","type":"string"}'),
        ("BYTE_ARRAY", '{"format":"byte","type":"string"}'),
    ],
)
def test_every_type_has_a_json_schema(types: str, schema: str):
    for data_type in types.split():
        assert encode(to_json_schema(leaf(DataType(data_type)))) == schema.encode()


def test_a_leaf_without_types_is_shown_as_unknown():
    schema = SchemaNode(kind=Kind.OBJECT, children={"a": leaf()})
    assert to_json_schema(schema) == {"type": "object", "properties": {"a": {}}}
    assert to_simple_view(schema) == {"$": {".a": "NULL"}}


def test_names_are_ordered_by_utf8_bytes():
    exported = export_document(to_simple_view(schema_of('{"b":1,"B":1,"é":1,"a":{}}')), state="LOCKED")
    assert exported.decode() == (
        '{"currentState":"LOCKED","model":{"$":{"#.a":"OBJECT",".B":"INTEGER",".b":"INTEGER",".é":"INTEGER"},"$.a":{}}}'
    )


def test_characters_that_could_end_a_script_are_written_as_escapes():
    exported = export_document(to_simple_view(schema_of('{"<a>&\u2028\u2029":1}')), state="LOCKED")
    assert b'".\\u003ca\\u003e\\u0026\\u2028\\u2029":"INTEGER"' in exported


def test_names_with_dots_make_the_same_export_in_any_order():
    one, other = '{"a.b":{"x":1},"a":{"b":{"y":1}}}', '{"a":{"b":{"y":1}},"a.b":{"x":1}}'
    assert encode(to_simple_view(schema_of(one))) == encode(to_simple_view(schema_of(other)))


def test_the_deepest_schema_can_be_exported():
    schema = schema_of('{"a":' * 255 + "[1]" + "}" * 255)
    for export in EXPORTS.values():
        assert json.loads(export_document(export(schema), state="LOCKED"))["model"] == export(schema)


def test_there_are_two_converters():
    assert set(EXPORTS) == {"SIMPLE_VIEW", "JSON_SCHEMA"}


@given(documents())
def test_json_schema_is_one(document: JsonObject):
    schema = decode(encode(to_json_schema(normalise(infer(document)))))
    assert isinstance(schema, dict)
    jsonschema.Draft202012Validator.check_schema(schema)

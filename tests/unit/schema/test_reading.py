"""Exports read back into schemas (docs/reference/models.md#export-formats; ours)."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given

from statewright.failures import BadRequest
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.schema import SchemaNode, find_sample_limit, to_json_schema, to_simple_view, validate
from statewright.schema.export import IMPORTS, MalformedSchema, from_json_schema, from_simple_view
from tests.unit.schema.builders import complaints, schema_of
from tests.unit.schema.strategies import documents, relatives, schemas


def has_ambiguous_names(value: JsonValue) -> bool:
    """Whether the paths of a SIMPLE_VIEW may stand for more than one place; JSON Schemas have no paths."""
    if isinstance(value, list):
        return any(map(has_ambiguous_names, value))
    if isinstance(value, dict):
        return any(name in ("a.b", "", "[]") or has_ambiguous_names(member) for name, member in value.items())
    return False


@given(schemas())
def test_a_json_schema_read_back_is_exported_byte_for_byte(schema: SchemaNode) -> None:
    export = encode(to_json_schema(schema))
    assert encode(to_json_schema(from_json_schema(decode(export)))) == export


@given(documents())
def test_a_simple_view_read_back_is_exported_byte_for_byte(document: JsonObject) -> None:
    schema = schema_of(encode(document).decode())
    export = encode(to_simple_view(schema))
    try:
        read = from_simple_view(decode(export))
    except MalformedSchema:
        assert has_ambiguous_names(document)
        return
    assert encode(to_simple_view(read)) == export


@given(relatives())
def test_a_document_fits_what_was_read_from_a_json_schema_if_it_fitted_the_original(
    pair: tuple[JsonObject, JsonObject],
) -> None:
    sample, document = pair
    if not any(isinstance(member, list | dict) for member in sample.values()):  # nullable containers do not show
        schema = schema_of(encode(sample).decode())
        if not validate(schema, document) and "date-time" not in encode(to_json_schema(schema)).decode():
            assert not validate(from_json_schema(to_json_schema(schema)), document)


def test_numbers_get_the_widest_type_of_their_family() -> None:
    schema = from_json_schema(decode('{"type":"object","properties":{"n":{"type":"integer"},"x":{"type":"number"}}}'))
    assert to_simple_view(schema) == {"$": {".n": "UNBOUND_INTEGER", ".x": "UNBOUND_DECIMAL"}}


@pytest.mark.parametrize(
    ("alternatives", "types"),
    [
        ('{"type":"string","format":"date-time"}', "ZONED_DATE_TIME"),
        ('{"oneOf":[{"type":"string","format":"date-time"},{"type":"string","format":"date-time"}]}', None),
        ('{"oneOf":[{"type":"string","format":"date-time"},{"type":"string","format":"time"}]}', None),
        ('{"type":["string","null"]}', "STRING"),
        ('{"type":"string","format":"email"}', "STRING"),
        ('{"enum":["red","green",1]}', "[INTEGER, STRING]"),
        ('{"const":true}', "BOOLEAN"),
        ("{}", "NULL"),
    ],
)
def test_forms_of_a_scalar(alternatives: str, types: str | None) -> None:
    schema = from_json_schema(decode(f'{{"properties":{{"a":{alternatives}}}}}'))
    local = {"time": "[LOCAL_DATE_TIME, LOCAL_TIME]", "date-time": "[LOCAL_DATE_TIME, ZONED_DATE_TIME]"}
    expected = types or local["time" if '"time"' in alternatives else "date-time"]
    assert to_simple_view(schema) == {"$": {".a": expected}}


def test_an_object_that_may_be_null_stays_so() -> None:
    schema = from_json_schema(
        decode('{"properties":{"a":{"oneOf":[{"type":"object","properties":{}},{"type":"null"}]}}}')
    )
    assert complaints(schema, '{"a":null}') == ""
    assert complaints(schema, '{"a":{}}') == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "$ is no object"),
        ('{"properties":{"a":{"$ref":"#/x"}}}', '"$ref" at $.a'),
        ('{"properties":{"a":{"oneOf":[{"$ref":"#/x"}]}}}', '"$ref" at $.a'),
        ('{"properties":{"a":{"type":"float"}}}', "$.a: float"),
        ('{"properties":{"a":{"type":7}}}', '"type" at $.a'),
        ('{"properties":[]}', "at $"),
        ('{"oneOf":{}}', '"oneOf" at $'),
        ('{"items":7}', "$[*]"),
    ],
)
def test_what_is_no_json_schema_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(MalformedSchema) as refused:
        from_json_schema(decode(text))
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "object of paths"),
        ("{}", '"$" is not described'),
        ('{"$":{"#.a":"OBJECT"}}', '"$.a" is not described'),
        ('{"$":{},"$.a":{}}', '"$.a" is part of no object'),
        ('{"$":{".a":"FLOAT"}}', "$.a: FLOAT"),
        ('{"$":{"a":"STRING"}}', '"a" at $'),
        ('{"$":{".a":7}}', '".a" at $'),
        ('{"$":{".a":"STRING","#.a":"OBJECT"},"$.a":{}}', "described twice"),
        ('{"$":{"#.a":"OBJECT","#.a.b":"OBJECT"},"$.a":{"#.b":"OBJECT"},"$.a.b":{}}', '"$.a.b"'),
    ],
)
def test_what_is_no_simple_view_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(MalformedSchema) as refused:
        from_simple_view(decode(text))
    assert told in str(refused.value)


def test_a_view_nested_without_end_is_refused() -> None:
    paths = ["$" + ".a" * depth for depth in range(2000)]
    view: JsonObject = {path: {"#.a": "OBJECT"} for path in paths}
    with pytest.raises(MalformedSchema, match="deeper"):
        from_simple_view(view)


def test_both_formats_are_offered() -> None:
    assert list(IMPORTS) == ["JSON_SCHEMA", "SIMPLE_VIEW"]


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"properties": {f"k{n}": {"type": "string"}}} for n in range(50_000)]},
        {"enum": [{f"k{n}": n} for n in range(50_000)]},
    ],
)
def test_many_alternatives_are_read_in_time_proportional_to_them(schema: JsonValue):
    taken = time.process_time()
    assert len(from_json_schema(schema).children) == 50_000
    assert time.process_time() - taken < 5


@pytest.mark.parametrize(
    ("read", "description"),
    [
        (from_json_schema, {"properties": {f"k{n}": {} for n in range(300_000)}}),
        (from_json_schema, {"anyOf": [{"properties": {f"k{n}": {}}} for n in range(300_000)]}),
        (from_json_schema, {"anyOf": [{"enum": [{f"k{n}": 1}]} for n in range(300_000)]}),
        (from_simple_view, {"$": {f".k{n}": "INTEGER" for n in range(300_000)}}),
        (from_simple_view, {"$": {f".k{n}[*]": "INTEGER" for n in range(300_000)}}),
    ],
)
def test_a_description_of_too_many_places_is_left_where_the_limit_is_met(
    read: Callable[[JsonValue, int], object], description: JsonValue
):
    with pytest.raises(BadRequest, match="would have more than 20000 fields, and 10000 is the most"):
        read(description, find_sample_limit())


@pytest.mark.parametrize("text", ["X" * 1_000_000, f"[{', '.join(['STRING'] * 1_000_000)}]"])
def test_a_long_unknown_type_is_not_told_whole(text: str):
    with pytest.raises(MalformedSchema) as refused:
        from_simple_view({"$": {".a": text}})
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("kind", [None, 7, ["string"]])
def test_what_is_no_name_of_a_type_is_refused(kind: JsonValue):
    with pytest.raises(MalformedSchema, match='"type" at \\$ names what is no type'):
        from_json_schema({"type": ["string", kind]})


def test_types_beyond_those_there_are_are_refused():
    schema: JsonValue = {"type": ["string"] * 100_000, **{f"k{n}": 1 for n in range(100_000)}}
    with pytest.raises(MalformedSchema, match='"type" at \\$ names more than 7 types'):
        from_json_schema(schema)

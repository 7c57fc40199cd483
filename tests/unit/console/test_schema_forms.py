"""Forms are made of JSON schemas; what is typed becomes JSON with the digits that were typed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.console.forms.fields import Field, assign_errors, build_fields, read_answers

APPROVAL: Any = {
    "type": "object",
    "required": ["amount", "note", "ok"],
    "properties": {
        "amount": {"type": "number", "title": "Amount", "minimum": 1, "maximum": 10_000},
        "count": {"type": "integer"},
        "note": {"type": "string", "maxLength": 20, "description": "for the file"},
        "why": {"type": "string", "maxLength": 2000},
        "day": {"type": "string", "format": "date"},
        "kind": {"enum": ["NEW", 1, None]},
        "ok": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sums": {"type": "array", "items": {"type": "number"}},
        "any/thing": {},
        "buyer": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
TYPED = {"/amount": "1.10", "/note": "fine"}


def read(**changes: str) -> Any:
    typed = TYPED | {f"/{name}": value for name, value in changes.items()}
    answers = read_answers(build_fields(APPROVAL), typed)
    assert answers.text is not None, [field.error for field in answers.fields if field.error]
    return json.loads(answers.text, parse_float=str, parse_int=str)


def find_errors(**changes: str) -> dict[str, str]:
    typed = TYPED | {f"/{name}": value for name, value in changes.items()}
    answers = read_answers(build_fields(APPROVAL), typed)
    assert answers.text is None
    return {field.name: field.error for field in answers.fields if field.error}


def test_a_schema_gives_a_field_for_each_member() -> None:
    assert [(field.name, field.label, field.kind) for field in build_fields(APPROVAL)] == [
        ("/amount", "Amount", "number"),
        ("/count", "count", "integer"),
        ("/note", "note", "text"),
        ("/why", "why", "long"),
        ("/day", "day", "date"),
        ("/kind", "kind", "choice"),
        ("/ok", "ok", "checkbox"),
        ("/tags", "tags", "list"),
        ("/sums", "sums", "list"),
        ("/any~1thing", "any/thing", "json"),
        ("/buyer/name", "buyer › name", "text"),
    ]


@pytest.mark.parametrize("number", ["1.10", "0.10e1", "1234.50000000000000000000000000001", "1e3"])
def test_a_number_is_written_as_it_was_typed(number: str) -> None:
    assert read(amount=number)["amount"] == number


def test_all_kinds_of_fields_come_together_in_one_document() -> None:
    document = read(
        count="12", day="2031-05-06", kind='"NEW"', ok="on", tags="a\r\nb \n\n", sums="1.0\n2", **{"buyer/name": "Ada"}
    )
    assert document == {
        "amount": "1.10",
        "count": "12",
        "note": "fine",
        "day": "2031-05-06",
        "kind": "NEW",
        "ok": True,
        "tags": ["a", "b "],
        "sums": ["1.0", "2"],
        "buyer": {"name": "Ada"},
    }
    assert read(**{"any~1thing": '{"a": 1.50}'})["any/thing"] == {"a": "1.50"}


def test_what_is_left_empty_is_no_member_and_a_box_without_a_tick_is_false() -> None:
    assert read() == {"amount": "1.10", "note": "fine", "ok": False}


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({"amount": ""}, {"/amount": "is needed"}),
        ({"amount": "ten"}, {"/amount": "is a number such as 12.50"}),
        ({"amount": "0.99"}, {"/amount": "is at least 1"}),
        ({"amount": "10000.01"}, {"/amount": "is at most 10000"}),
        ({"amount": "NaN"}, {"/amount": "is a number such as 12.50"}),
        ({"count": "1.5"}, {"/count": "is a whole number, written in digits"}),
        ({"note": "x" * 21}, {"/note": "has at most 20 characters"}),
        ({"day": "tomorrow"}, {"/day": "is a date such as 2031-05-06"}),
        ({"kind": "OLD"}, {"/kind": "is none of the choices"}),
        ({"sums": "1\nx"}, {"/sums": "is a number such as 12.50"}),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_at_its_field(changes: Any, errors: dict[str, str]) -> None:
    assert find_errors(**changes) == errors


def test_json_that_is_none_is_refused_at_its_field() -> None:
    assert find_errors(**{"any~1thing": "{"})["/any~1thing"].startswith("is no JSON")


def test_what_was_typed_stays_in_the_fields() -> None:
    answers = read_answers(build_fields(APPROVAL), {"/amount": "ten", "/note": "kept"})
    assert {field.name: field.value for field in answers.fields if field.value and field.value != "false"} == {
        "/amount": "ten",
        "/note": "kept",
    }


@pytest.mark.parametrize("schema", [None, {}, {"type": "array"}, {"type": "object"}, {"oneOf": []}, {"$ref": "#"}])
def test_any_other_schema_is_answered_in_json(schema: Any) -> None:
    (field,) = build_fields(schema, {"a": 1})
    assert (field.kind, field.value) == ("json", '{"a":1}')
    assert read_answers([field], {"": "[1.10]"}).text == "[1.10]"


def test_fields_are_filled_from_the_document_or_the_default() -> None:
    schema: Any = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "string"}}}
    assert [field.value for field in build_fields(schema, {"b": "y"})] == ["x", "y"]


def test_errors_of_a_validation_stand_at_the_nearest_field() -> None:
    fields, rest = assign_errors(build_fields(APPROVAL), {"/tags/1": "too long", "/gone": "unknown"})
    assert {field.name: field.error for field in fields if field.error} == {"/tags": "too long"}
    assert rest == ("unknown",)


def test_ids_of_inputs_are_plain_and_differ() -> None:
    fields = [Field(name=name, label="", kind="text") for name in ("/a b", "/a_b", "/a/b", '/a"b')]
    ids = {field.input_id for field in fields}
    assert len(ids) == len(fields)
    assert all(each.replace("_", "").isalnum() for each in ids)


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)


@given(st.dictionaries(NAMES, st.decimals(allow_nan=False, allow_infinity=False, places=3), min_size=1, max_size=5))
def test_any_names_and_numbers_come_back_from_their_form(document: dict[str, Any]) -> None:
    schema: Any = {"type": "object", "properties": {name: {"type": "number"} for name in document}}
    fields = build_fields(schema, document)
    answers = read_answers(
        fields, {field.name: f"{document[name]:f}" for field, name in zip(fields, document, strict=True)}
    )
    assert answers.text is not None
    assert json.loads(answers.text, parse_float=str, parse_int=str) == {
        name: f"{number:f}" for name, number in document.items()
    }

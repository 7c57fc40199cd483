"""Importing what was exported (docs/reference/models.md#import, docs/reference/models.md#export-formats; these two
converters are ours), and documents that are none.
"""

import pytest

from tests.builders import SAMPLE
from tests.service import Api, RunningService, done, refused

RICH = {
    "orderNo": "X-7",
    "total": 12.5,
    "big": 170141183460469231731687303715884105728,
    "when": "2024-05-01T10:00:00Z",
    "lines": [{"sku": "A B", "qty": 1, "opts": ["red"], "parts": [{"id": 1}], "gift": True}],
    "mixed": [1, "x y", True],
    "none": None,
    "dim": {"w": 2, "deep": {"h": 3}},
}


def export(api: Api, converter: str, model: str = "prize/1") -> str:
    return api.get(f"/model/export/{converter}/{model}").text


def test_what_a_model_does_not_keep_of_a_schema_is_listed_on_request(api: Api) -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 1}}}
    plain = done(api.post("/model/import/JSON/JSON_SCHEMA/prize/1", schema))
    told = done(api.post("/model/import/JSON/JSON_SCHEMA/prize/1?warnings=true", schema))
    assert told == {"modelId": plain, "warnings": ["minimum at $.a", "required at $"]}
    sample = done(api.post("/model/import/JSON/SAMPLE_DATA/prize/1?warnings=true", {"a": 1}))
    assert sample == {"modelId": plain, "warnings": []}


@pytest.mark.parametrize("converter", ["JSON_SCHEMA", "SIMPLE_VIEW"])
def test_an_export_carried_to_another_tenant_is_exported_there_byte_for_byte(
    api: Api, service: RunningService, tenant: str, converter: str
) -> None:
    api.import_model(sample=RICH)
    done(api.put("/model/prize/1/unique-keys", {"uniqueKeys": [{"id": "k", "fields": ["$.orderNo", "$.dim.w"]}]}))
    exported = export(api, converter)
    other = service.api(f"{tenant}-copy")
    model_id = done(other.post(f"/model/import/JSON/{converter}/prize/1", exported))
    assert model_id == done(api.get("/model/"))[0]["id"]
    assert export(other, converter) == exported
    other.lock()
    other.create(RICH)
    refused(other.post("/entity/JSON/prize/1", RICH), 409, "UNIQUE_VIOLATION")


@pytest.mark.parametrize("converter", ["JSON_SCHEMA", "SIMPLE_VIEW"])
def test_the_model_of_an_export_may_stand_alone_and_merges_like_a_sample(api: Api, converter: str) -> None:
    api.import_model(sample=SAMPLE)
    model = done(api.get(f"/model/export/{converter}/prize/1"))["model"]
    api.import_model("copy/1", {"other": 1})
    done(api.post(f"/model/import/JSON/{converter}/copy/1", model))
    fields = done(api.get("/model/export/SIMPLE_VIEW/copy/1"))["model"]["$"]
    assert set(fields) == {".category", ".year", ".motivation", ".other"}


def test_a_json_schema_of_other_origin_is_understood_where_it_can_be(api: Api) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Prize",
        "type": "object",
        "required": ["year"],
        "properties": {
            "year": {"type": "integer", "minimum": 1901},
            "kind": {"enum": ["peace", "physics"]},
            "mail": {"type": ["string", "null"], "format": "email"},
            "shares": {"type": "array", "items": {"type": "number"}},
        },
        "additionalProperties": False,
    }
    done(api.post("/model/import/JSON/JSON_SCHEMA/prize/1", schema))
    assert done(api.get("/model/export/SIMPLE_VIEW/prize/1"))["model"] == {
        "$": {".kind": "STRING", ".mail": "STRING", ".shares[*]": "UNBOUND_DECIMAL", ".year": "UNBOUND_INTEGER"}
    }


@pytest.mark.parametrize(
    ("converter", "body", "told"),
    [
        ("JSON_SCHEMA", "[]", "$ is no object"),
        ("JSON_SCHEMA", '{"properties":{"a":{"$ref":"#/x"}}}', "$.a"),
        ("JSON_SCHEMA", "", "parse JSON"),
        ("JSON_SCHEMA", '{"name":"x","lines":[{"sku":1}]}', "the converter of a sample is SAMPLE_DATA"),
        ("JSON_SCHEMA", '{"items":[{"sku":1}]}', "the converter of a sample is SAMPLE_DATA"),
        ("JSON_SCHEMA", "{}", "the converter of a sample is SAMPLE_DATA"),
        ("SIMPLE_VIEW", "{}", '"$" is not described'),
        ("SIMPLE_VIEW", '{"$":{".a":"FLOAT"}}', "$.a"),
        ("SIMPLE_VIEW", '{"currentState":"LOCKED","model":7}', "SIMPLE_VIEW"),
        ("SIMPLE_VIEW", '{"currentState":"LOCKED","model":{"$":{}},"uniqueKeys":7}', "failed to parse"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place_and_saves_nothing(
    api: Api, converter: str, body: str, told: str
) -> None:
    assert told in refused(api.post(f"/model/import/JSON/{converter}/prize/1", body), 400, "BAD_REQUEST")["detail"]
    assert done(api.get("/model/")) == []


def test_unique_keys_that_do_not_fit_the_imported_schema_are_refused(api: Api) -> None:
    body = {"currentState": "LOCKED", "model": {"$": {}}, "uniqueKeys": [{"id": "k", "fields": ["$.a"]}]}
    refused(api.post("/model/import/JSON/SIMPLE_VIEW/prize/1", body), 422, "INVALID_UNIQUE_KEY_DEFINITION")
    assert done(api.get("/model/")) == []


def test_exports_are_json_and_locked_models_take_none(api: Api) -> None:
    assert "XML" in refused(api.post("/model/import/XML/SIMPLE_VIEW/prize/1", "<a/>"), 400, "BAD_REQUEST")["detail"]
    api.a_model()
    refused(api.post("/model/import/YAML/JSON_SCHEMA/prize/1", "{"), 409, "MODEL_ALREADY_LOCKED")


# Documents that are no objects (decision S6).


@pytest.mark.parametrize("sample", ["[1]", "7", "null", '"a b"', '{"year":1}'])
@pytest.mark.parametrize("level", [None, "STRUCTURAL"])
def test_a_document_that_is_no_object_is_refused_whatever_the_model(api: Api, sample: str, level: str | None) -> None:
    api.a_model(sample=sample)
    if level:
        done(api.post(f"/model/prize/1/changeLevel/{level}"))
    for document in ("7", '"a b"', "null", "true", " [1]"):
        assert "expected object" in refused(api.post("/entity/JSON/prize/1", document), 400, "BAD_REQUEST")["detail"]
    assert "item 0: " in refused(api.post("/entity/JSON/prize/1", "[7]"), 400, "BAD_REQUEST")["detail"]
    assert done(api.get("/entity/prize/1")) == []


def test_a_sample_with_more_than_ten_thousand_fields_is_refused(api: Api) -> None:
    most = {f"k{n}": 1 for n in range(10_000)}
    api.import_model(sample=most)
    problem = refused(api.post("/model/import/JSON/SAMPLE_DATA/prize/1", {"one": "more"}), 400, "BAD_REQUEST")
    assert "10001 fields" in problem["detail"]
    refused(api.post("/model/import/JSON/SAMPLE_DATA/other/1", most | {"one": "more"}), 400, "BAD_REQUEST")
    api.import_model(sample={"k1": "a text"})


def test_keywords_that_a_model_cannot_keep_are_told(api: Api) -> None:
    """Decision S15."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["year"],
        "properties": {"year": {"type": "integer", "minimum": 1901}, "é\n": {"type": "string", "pattern": "x"}},
    }
    answer = api.post("/model/import/JSON/JSON_SCHEMA/prize/1", schema)
    told = "minimum at $.year, pattern at $.\\xe9\\n, required at $"
    assert done(answer)
    assert answer.headers["warning"] == f'299 - "keywords of the JSON Schema that the model does not keep: {told}"'


@pytest.mark.parametrize("converter", ["JSON_SCHEMA", "SIMPLE_VIEW"])
def test_an_export_loses_nothing(api: Api, converter: str) -> None:
    api.import_model(sample=RICH)
    answer = api.post(f"/model/import/JSON/{converter}/copy/1", export(api, converter))
    assert done(answer)
    assert "warning" not in answer.headers

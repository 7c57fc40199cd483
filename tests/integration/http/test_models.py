"""Models over REST (docs/reference/models.md#requests-and-answers, docs/reference/models.md#operations,
docs/reference/models.md#export-formats).
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.builders import SAMPLE, Json
from tests.service import Api, done, refused

INVOICE_ID = "16ab11f6-0c9f-5428-a4d3-e26692ded6f1"
"""The check value of docs/reference/models.md#identity-and-attributes for ``invoice`` version 1."""

KEY = {"entityName": "invoice", "entityVersion": 1}


def a_locked_invoice(api: Api) -> None:
    api.a_model(model="invoice/1", sample={"qty": 1})


def an_action(message: str, *, success: bool = True) -> Json:
    return {
        "success": success,
        "message": message,
        "modelId": INVOICE_ID,
        "modelKey": {"name": "invoice", "version": 1},
    }


def test_a_tenant_nobody_has_seen_before_has_no_models(api: Api) -> None:
    assert api.get("/model/").text == "[]\n"


def test_an_import_answers_with_the_derived_id_as_a_json_string(api: Api) -> None:
    response = api.post("/model/import/JSON/SAMPLE_DATA/invoice/1", SAMPLE)
    assert (response.status_code, response.text) == (200, f'"{INVOICE_ID}"\n')
    assert response.headers["content-type"] == "application/json"


def test_the_list_shows_exactly_five_members_in_ascending_order(api: Api) -> None:
    api.import_model("invoice/1")
    [model] = api.get("/model/").json()
    assert list(model) == ["currentState", "id", "modelName", "modelUpdateDate", "modelVersion"]
    assert model | {"modelUpdateDate": ""} == {
        "id": INVOICE_ID,
        "modelName": "invoice",
        "modelVersion": 1,
        "currentState": "UNLOCKED",
        "modelUpdateDate": "",
    }


def test_models_are_listed_by_name_and_version(api: Api) -> None:
    for model in ("b/2", "a/10", "b/1", "a/9"):
        api.import_model(model)
    found = [(model["modelName"], model["modelVersion"]) for model in api.get("/model/").json()]
    assert found == [("a", 9), ("a", 10), ("b", 1), ("b", 2)]


def test_only_an_import_moves_the_update_date(api: Api) -> None:
    def updated() -> str:
        return str(api.get("/model/").json()[0]["modelUpdateDate"])

    api.import_model("invoice/1")
    imported = updated()
    api.lock("invoice/1")
    done(api.put("/model/invoice/1/unlock"))
    assert updated() == imported
    api.import_model("invoice/1")
    assert updated() > imported


def test_a_second_sample_is_merged_into_the_unlocked_model(api: Api) -> None:
    api.import_model("invoice/1", {"ref": "abc", "when": "2024-05-01", "year": "2024"})
    api.import_model("invoice/1", {"ref": 42, "when": "2024-05-01T10:00:00Z", "year": "n/a", "extra": False})
    assert api.get("/model/export/SIMPLE_VIEW/invoice/1").text == (
        '{"currentState":"UNLOCKED","model":{"$":{".extra":"BOOLEAN",".ref":"[INTEGER, STRING]",'
        '".when":"[LOCAL_DATE, ZONED_DATE_TIME]",".year":"[STRING, YEAR]"}}}'
    )


def test_both_exports_of_a_locked_model_match_the_specification_byte_by_byte(api: Api) -> None:
    sample = {"customer": {"name": "Ada", "address": {"city": "Berlin", "zip": "10115"}}, "empty": {}}
    api.a_model(model="invoice/1", sample=sample)
    assert api.get("/model/export/SIMPLE_VIEW/invoice/1").content == (
        b'{"currentState":"LOCKED","model":{"$":{"#.customer":"OBJECT","#.empty":"OBJECT"},"$.customer":'
        b'{"#.address":"OBJECT",".name":"STRING"},"$.customer.address":{".city":"STRING",".zip":"STRING"},"$.empty":{}}}'
    )
    assert api.get("/model/export/JSON_SCHEMA/invoice/1").content == (
        b'{"currentState":"LOCKED","model":{"properties":{"customer":{"properties":{"address":{"properties":'
        b'{"city":{"type":"string"},"zip":{"type":"string"}},"type":"object"},"name":{"type":"string"}},'
        b'"type":"object"},"empty":{"properties":{},"type":"object"}},"type":"object"}}'
    )


def test_an_xml_sample_makes_the_same_model_as_its_json(api: Api) -> None:
    xml = "<prize><category>physics</category><year>2024</year><share>1.5</share><share>2</share></prize>"
    done(api.post("/model/import/XML/SAMPLE_DATA/x/1", xml))
    api.import_model("j/1", {"category": "physics", "year": 2024, "share": [1.5, 2]})
    assert api.get("/model/export/SIMPLE_VIEW/x/1").text == api.get("/model/export/SIMPLE_VIEW/j/1").text


def test_the_life_of_a_model(api: Api) -> None:
    api.import_model("invoice/1")
    assert done(api.put("/model/invoice/1/lock")) == an_action("Model invoice:1 locked")
    assert done(api.put("/model/invoice/1/unlock")) == an_action("Model invoice:1 unlocked")
    assert done(api.delete("/model/invoice/1")) == an_action("model invoice:1 deleted")
    assert api.get("/model/").json() == []


def test_a_deleted_model_starts_fresh_but_finds_its_workflows_again(api: Api) -> None:
    api.import_model("invoice/1", {"old": 1})
    api.import_workflows({"version": "1.3", "name": "w", "initialState": "A", "states": {"A": {}}}, model="invoice/1")
    done(api.delete("/model/invoice/1"))
    refused(api.get("/model/invoice/1/workflow/export"), 404, "MODEL_NOT_FOUND")
    api.import_model("invoice/1", {"new": 1})
    assert done(api.get("/model/export/SIMPLE_VIEW/invoice/1"))["model"] == {"$": {".new": "INTEGER"}}
    assert done(api.get("/model/invoice/1/workflow/export"))["workflows"][0]["name"] == "w"


def test_validation_reports_and_changes_nothing(api: Api) -> None:
    a_locked_invoice(api)
    assert done(api.post("/model/validate/invoice/1", {"qty": 7})) == an_action("Validation passed")
    assert done(api.post("/model/validate/invoice/1", {"qty": "many"})) == an_action(
        "Validation failed: qty: value of type STRING is not compatible with [INTEGER]", success=False
    )
    assert done(api.get("/model/export/SIMPLE_VIEW/invoice/1"))["model"] == {"$": {".qty": "INTEGER"}}


def test_validation_finds_everything_that_is_wrong(api: Api) -> None:
    api.import_model("invoice/1", {"qty": 1, "lines": [{"sku": "A"}]})
    message = done(api.post("/model/validate/invoice/1", {"qty": 1.5, "lines": [{"sku": 1}], "new": 0}))["message"]
    prefix, _, errors = message.partition(": ")
    assert prefix == "Validation failed"
    assert sorted(errors.split("; ")) == [
        "lines[0].sku: value of type INTEGER is not compatible with [STRING]",
        "new: unexpected field not present in model",
        "qty: value of type DOUBLE is not compatible with [INTEGER]",
    ]


def test_a_refused_second_lock_is_described_as_printed_in_the_specification(api: Api) -> None:
    a_locked_invoice(api)
    response = api.put("/model/invoice/1/lock")
    assert response.status_code == 409
    assert json.loads(response.text) == {
        "type": "/api/help/errors.MODEL_ALREADY_LOCKED",
        "title": "Conflict",
        "status": 409,
        "detail": "MODEL_ALREADY_LOCKED: cannot process entityModel{entityName=invoice, entityVersion=1}. "
        "expectedState=UNLOCKED, actualState=LOCKED",
        "instance": "/api/model/invoice/1/lock",
        "properties": KEY | {"errorCode": "MODEL_ALREADY_LOCKED", "expectedState": "UNLOCKED", "actualState": "LOCKED"},
    }


def test_an_unlocked_model_cannot_be_unlocked(api: Api) -> None:
    api.import_model("invoice/1")
    problem = refused(api.put("/model/invoice/1/unlock"), 409, "MODEL_ALREADY_UNLOCKED")
    assert problem["detail"] == (
        "MODEL_ALREADY_UNLOCKED: cannot process entityModel{entityName=invoice, entityVersion=1}. "
        "expectedState=LOCKED, actualState=UNLOCKED"
    )
    assert problem["properties"] == KEY | {
        "errorCode": "MODEL_ALREADY_UNLOCKED",
        "expectedState": "LOCKED",
        "actualState": "UNLOCKED",
    }


def test_a_locked_model_refuses_samples(api: Api) -> None:
    a_locked_invoice(api)
    problem = refused(api.post("/model/import/JSON/SAMPLE_DATA/invoice/1", SAMPLE), 409, "MODEL_ALREADY_LOCKED")
    assert problem["detail"] == (
        "MODEL_ALREADY_LOCKED: cannot save entityModel{name=invoice, version=1} "
        "because this model has already been registered; "
        "it is locked: PUT /model/invoice/1/unlock, as long as it has no entities"
    )
    assert problem["properties"] == KEY | {"errorCode": "MODEL_ALREADY_LOCKED"}


def test_a_locked_model_cannot_be_deleted(api: Api) -> None:
    a_locked_invoice(api)
    problem = refused(api.delete("/model/invoice/1"), 409, "MODEL_ALREADY_LOCKED")
    assert problem["detail"].endswith(
        "cannot delete entityModel{entityName=invoice, entityVersion=1}. expectedState=UNLOCKED, actualState=LOCKED"
    )
    assert problem["properties"]["actualState"] == "LOCKED"


def test_live_entities_keep_their_model_locked_and_deleted_ones_do_not(api: Api) -> None:
    a_locked_invoice(api)
    first, second = (api.create({"qty": n}, model="invoice/1") for n in range(2))
    done(api.delete(f"/entity/{first.id}"))
    problem = refused(api.put("/model/invoice/1/unlock"), 409, "MODEL_HAS_ENTITIES")
    assert problem["detail"] == "MODEL_HAS_ENTITIES: cannot unlock: 1 entities exist"
    assert problem["properties"] == KEY | {"errorCode": "MODEL_HAS_ENTITIES", "entityCount": 1}
    done(api.delete(f"/entity/{second.id}"))
    done(api.put("/model/invoice/1/unlock"))
    done(api.delete("/model/invoice/1"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/model/export/SIMPLE_VIEW/invoice/1"),
        ("GET", "/model/export/NO_SUCH_CONVERTER/invoice/1"),
        ("POST", "/model/validate/invoice/1"),
        ("PUT", "/model/invoice/1/lock"),
        ("PUT", "/model/invoice/1/unlock"),
        ("DELETE", "/model/invoice/1"),
        ("GET", "/model/invoice/1/workflow/export"),
        ("POST", "/model/invoice/1/workflow/import"),
    ],
)
def test_every_operation_says_the_same_of_an_unknown_model(api: Api, method: str, path: str) -> None:
    problem = refused(api.request(method, path, "{}"), 404, "MODEL_NOT_FOUND")
    assert problem["detail"] == "MODEL_NOT_FOUND: cannot find model entityName=invoice, version=1"
    assert problem["properties"] == KEY | {"errorCode": "MODEL_NOT_FOUND"}


@pytest.mark.parametrize("converter", ["FULL", "json_schema", "sample_data"])
def test_other_converters_cannot_be_imported_and_that_is_checked_first(api: Api, converter: str) -> None:
    a_locked_invoice(api)
    problem = refused(api.post(f"/model/import/YAML/{converter}/invoice/1", "{"), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: unsupported import converter"


def test_a_locked_model_is_noticed_before_the_format_and_the_sample(api: Api) -> None:
    a_locked_invoice(api)
    refused(api.post("/model/import/YAML/SAMPLE_DATA/invoice/1", "{"), 409, "MODEL_ALREADY_LOCKED")


def test_the_format_is_checked_before_the_sample(api: Api) -> None:
    problem = refused(api.post("/model/import/json/SAMPLE_DATA/invoice/1", "{"), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: unsupported data format: json"


@pytest.mark.parametrize(
    ("media", "sample"),
    [
        ("JSON", ""),
        ("JSON", "{"),
        ("JSON", '{"n": 1e3000000000}'),
        ("JSON", '{"n": 1} 2'),
        ("JSON", '{"n": 1, "n": 2}'),
        ("XML", ""),
        ("XML", "<a><b></a>"),
    ],
)
def test_a_sample_that_cannot_be_parsed_creates_nothing(api: Api, media: str, sample: str) -> None:
    problem = refused(api.post(f"/model/import/{media}/SAMPLE_DATA/invoice/1", sample), 400, "BAD_REQUEST")
    assert problem["detail"].startswith(f"BAD_REQUEST: parse {media}: ")
    assert api.get("/model/").json() == []


def test_an_unknown_export_converter_is_named(api: Api) -> None:
    api.import_model("invoice/1")
    problem = refused(api.get("/model/export/SAMPLE_DATA/invoice/1"), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: unsupported export converter"


def test_a_document_to_validate_must_be_json(api: Api) -> None:
    api.import_model("invoice/1")
    problem = refused(api.post("/model/validate/invoice/1", "{"), 400, "BAD_REQUEST")
    assert problem["detail"].startswith("BAD_REQUEST: failed to parse request body")


@pytest.mark.parametrize("version", ["one", "1.5", "2147483648", "-2147483649", "%201"])
def test_a_version_that_is_no_int32_is_refused_before_anything_else(api: Api, version: str) -> None:
    problem = refused(api.post(f"/model/import/YAML/NO_CONVERTER/invoice/{version}", "{"), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: invalid value for parameter 'modelVersion'"
    assert problem["properties"] == {"errorCode": "BAD_REQUEST", "parameter": "modelVersion"}


@pytest.mark.parametrize(("written", "meant"), [("007", 7), ("+7", 7), ("-3", -3), ("0", 0), ("2147483647", 2**31 - 1)])
def test_a_version_may_be_any_int32_in_any_decimal_spelling(api: Api, written: str, meant: int) -> None:
    api.import_model(f"invoice/{written}")
    assert [model["modelVersion"] for model in api.get("/model/").json()] == [meant]
    done(api.put(f"/model/invoice/{meant}/lock"))


@pytest.mark.parametrize("sample", ["[1, 2]", "7", '"text"', "null", "true"])
def test_any_json_value_is_a_sample(api: Api, sample: str) -> None:
    done(api.post("/model/import/JSON/SAMPLE_DATA/invoice/1", sample))
    assert done(api.get("/model/export/SIMPLE_VIEW/invoice/1"))["model"] == {}


def test_samples_imported_at_once_are_all_learnt(api: Api) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: api.import_model("invoice/1", {f"field{n}": n}), range(24)))
    learnt = done(api.get("/model/export/SIMPLE_VIEW/invoice/1"))["model"]["$"]
    assert sorted(learnt) == sorted(f".field{n}" for n in range(24))


def test_a_negative_version_is_imported_with_a_warning(api: Api) -> None:
    response = api.post("/model/import/JSON/SAMPLE_DATA/prize/-1", {"year": 1})
    assert response.status_code == 200
    assert response.headers["warning"] == '299 - "the model has the negative version -1"'
    assert "warning" not in api.post("/model/import/JSON/SAMPLE_DATA/prize/0", {"year": 1}).headers

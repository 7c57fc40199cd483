"""Creating one entity over REST (docs/reference/entities.md#documents,
docs/reference/entities.md#transaction-results, docs/reference/entities.md#create-one).
"""

import re
import uuid

import pytest

from tests.builders import SAMPLE, a_workflow, automated, when
from tests.service import Api, done, refused

PATH = "/entity/JSON/prize/1"
UUID_V1 = r"[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
INSTANT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,5}[1-9])?Z"


def test_a_create_answers_with_an_array_of_one_transaction_result(api: Api) -> None:
    api.a_model()
    response = api.post(PATH, SAMPLE)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert re.fullmatch(rf'\[{{"entityIds":\["{UUID_V1}"\],"transactionId":"{UUID_V1}"}}\]\n', response.text), (
        response.text
    )


def test_the_envelope_is_exactly_as_specified(api: Api) -> None:
    api.a_model(model="stock-item/2", sample={"sku": "K-9", "qty": 12, "tags": ["cold"]})
    saved = api.create({"tags": ["cold"], "sku": "K-9", "qty": 12}, model="stock-item/2")
    response = api.get(f"/entity/{saved.id}")
    assert response.headers["content-type"] == "application/json"
    assert re.fullmatch(
        rf'{{"data":{{"qty":12,"sku":"K-9","tags":\["cold"\]}},"meta":{{"creationDate":"(?P<created>{INSTANT})",'
        rf'"id":"{saved.id}","lastUpdateTime":"(?P=created)","modelKey":{{"name":"stock-item","version":2}},'
        rf'"state":"CREATED","transactionId":"{saved.transaction}","transitionForLatestSave":"loopback"}},'
        r'"type":"ENTITY"}\n',
        response.text,
    ), response.text


def test_an_entity_is_readable_when_its_response_arrives(api: Api) -> None:
    api.a_model()
    assert [api.read(api.create().id)["data"] for _ in range(20)] == [SAMPLE] * 20


def test_keys_come_back_in_ascending_order_at_every_level(api: Api) -> None:
    api.a_model(sample={"b": {"z": 1, "a": 2}, "a": [{"y": 1, "x": 2}]})
    saved = api.create({"b": {"z": 1, "a": 2}, "a": [{"y": 1, "x": 2}]})
    assert '"data":{"a":[{"x":2,"y":1}],"b":{"a":2,"z":1}}' in api.get(f"/entity/{saved.id}").text


def test_explicit_nulls_are_kept_and_missing_members_stay_missing(api: Api) -> None:
    api.a_model()
    assert api.read(api.create({"year": None}).id)["data"] == {"year": None}


def test_text_of_any_script_survives(api: Api) -> None:
    text = 'é ø 漢 😀 \u2028 </script> & "\\ \x01 \ufffd'
    api.a_model(sample={"text": "a b"})
    assert api.read(api.create({"text": text}).id)["data"] == {"text": text}


def test_a_member_called_meta_is_the_clients_own(api: Api) -> None:
    api.a_model(sample={"_meta": {"id": "x y"}, "id": "x y"})
    saved = api.create({"_meta": {"id": "mine, not yours"}, "id": "mine too"})
    envelope = api.read(saved.id)
    assert envelope["data"] == {"_meta": {"id": "mine, not yours"}, "id": "mine too"}
    assert envelope["meta"]["id"] == saved.id


def test_a_create_that_moved_on_by_itself_still_says_loopback(api: Api) -> None:
    api.a_model(a_workflow(NEW=[automated("TAKE", to="TAKEN")], TAKEN=[]))
    meta = api.read(api.create().id)["meta"]
    assert (meta["state"], meta["transitionForLatestSave"]) == ("TAKEN", "loopback")


def test_the_workflow_is_selected_by_its_criterion(api: Api) -> None:
    api.a_model(
        a_workflow("old", criterion=when("$.year", "LESS_THAN", 1950), Old=[]),
        a_workflow("silent", active=False, Silent=[]),
        a_workflow("new", criterion=when("$.year", "GREATER_THAN", 2000), New=[]),
    )
    assert [api.state(api.create({"year": year}).id) for year in (1901, 2024, 1975)] == ["Old", "New", "CREATED"]


def test_an_unknown_model_is_named_in_the_text_alone(api: Api) -> None:
    problem = refused(api.post(PATH, SAMPLE), 404, "MODEL_NOT_FOUND")
    assert problem["detail"] == "MODEL_NOT_FOUND: model not found: prize/1"
    assert problem["properties"] == {"errorCode": "MODEL_NOT_FOUND"}


def test_an_unlocked_model_takes_no_entities(api: Api) -> None:
    api.import_model()
    problem = refused(api.post(PATH, SAMPLE), 409, "MODEL_NOT_LOCKED")
    assert problem == {
        "type": "/api/help/errors.MODEL_NOT_LOCKED",
        "title": "Conflict",
        "status": 409,
        "detail": "MODEL_NOT_LOCKED: model is not locked: prize/1; lock it by PUT /model/prize/1/lock",
        "instance": f"/api{PATH}",
        "properties": {"errorCode": "MODEL_NOT_LOCKED", "entityName": "prize", "entityVersion": 1},
    }


def test_a_wrong_leaf_type_is_described_by_its_properties(api: Api) -> None:
    api.a_model(model="invoice/1", sample={"lines": [{"qty": 1}]})
    problem = refused(api.post("/entity/JSON/invoice/1", {"lines": [{"qty": 1.5}]}), 400, "INCOMPATIBLE_TYPE")
    assert problem["detail"] == (
        "INCOMPATIBLE_TYPE: validation failed: lines[0].qty: value of type DOUBLE is not compatible with [INTEGER]"
    )
    assert problem["properties"] == {
        "actualType": "DOUBLE",
        "entityName": "invoice",
        "entityVersion": "1",
        "errorCode": "INCOMPATIBLE_TYPE",
        "expectedType": ["INTEGER"],
        "fieldPath": "lines[0].qty",
    }


def test_an_unknown_member_is_a_bad_request(api: Api) -> None:
    api.a_model()
    problem = refused(api.post(PATH, {**SAMPLE, "extra": 1}), 400, "BAD_REQUEST")
    assert problem["detail"] == "BAD_REQUEST: validation failed: extra: unexpected field not present in model"
    assert problem["properties"] == {"errorCode": "BAD_REQUEST"}


def test_a_wrong_type_outweighs_an_unknown_member(api: Api) -> None:
    api.a_model()
    problem = refused(api.post(PATH, {"extra": 1, "year": "soon"}), 400, "INCOMPATIBLE_TYPE")
    assert "extra: unexpected field not present in model" in problem["detail"]
    assert problem["properties"]["fieldPath"] == "year"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("", ""),
        ("   ", ""),
        ("{", ""),
        ("nonsense", ""),
        ('{"year": 1} x', ""),
        ('{"year": 1}{"year": 2}', ""),
        ('{"year": 1, "year": 2}', "year"),
        ('{"motivation": "\\u0000"}', "motivation"),
        ('{"motivation": "\\ud800"}', "motivation"),
        ('{"year": 1e6145}', "year"),
        ('{"year": 1e-999999999999}', "year"),
        ('{"year": NaN}', ""),
        (b'{"motivation": "\xff"}', ""),
        ("[" * 300 + "]" * 300, ""),
        ("[" * 100_000, ""),
        ('"text"', "object"),
        ("null", "object"),
        ("17", "object"),
    ],
)
def test_what_cannot_be_kept_as_it_is_gets_a_clear_refusal_and_leaves_nothing(
    api: Api, document: str, told: str
) -> None:
    api.a_model()
    problem = refused(api.post(PATH, document), 400, "BAD_REQUEST")
    assert told in problem["detail"]
    assert done(api.get("/entity/prize/1")) == []


# The order of docs/reference/entities.md#order-of-checks, each test one step: the earlier check must win over all
# later ones.


def test_parameters_bind_before_anything_is_looked_up(api: Api) -> None:
    problem = refused(api.post("/entity/YAML/prize/x?transactionWindow=0", "{"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "modelVersion"


@pytest.mark.parametrize("window", [0, -1, 1001])
def test_the_window_is_checked_before_the_model(api: Api, window: int) -> None:
    problem = refused(api.post(f"/entity/YAML/prize/1?transactionWindow={window}", "{"), 400, "BAD_REQUEST")
    assert "transactionWindow" in problem["detail"]


def test_the_size_is_checked_before_the_model(api: Api) -> None:
    refused(api.post("/entity/YAML/prize/1", b" " * (10 * 1024 * 1024 + 1)), 413, "BAD_REQUEST")


def test_the_model_is_checked_before_its_lock_and_the_lock_before_the_format(api: Api) -> None:
    refused(api.post("/entity/YAML/prize/1", "{"), 404, "MODEL_NOT_FOUND")
    api.import_model()
    refused(api.post("/entity/YAML/prize/1", "{"), 409, "MODEL_NOT_LOCKED")
    api.lock()
    assert "YAML" in refused(api.post("/entity/YAML/prize/1", "{"), 400, "BAD_REQUEST")["detail"]


@pytest.mark.parametrize("media", ["json", "xml", "Json", "YAML"])
def test_the_format_is_one_of_two_words_in_capitals(api: Api, media: str) -> None:
    api.a_model()
    refused(api.post(f"/entity/{media}/prize/1", SAMPLE), 400, "BAD_REQUEST")


def test_a_body_of_the_greatest_size_is_stored(api: Api) -> None:
    api.a_model(sample={"text": "a b"})
    body = b'{"text":"%b"}' % (b"x" * (10 * 1024 * 1024 - 11))
    assert len(body) == 10 * 1024 * 1024
    [result] = done(api.post(PATH, body))
    assert len(api.read(result["entityIds"][0])["data"]["text"]) == len(body) - 11


def test_the_content_type_is_not_looked_at(api: Api) -> None:
    api.a_model()
    done(api.post(PATH, SAMPLE, Content_Type="text/csv", Accept="image/png"))
    done(api.post(PATH, SAMPLE, Content_Type=";;;"))


def test_xml_is_stored_as_the_json_it_means(api: Api) -> None:
    api.a_model(sample={"id": 7, "line": ["x y"], "note": {"lang": "x y", "_text": "x y"}, "empty": {}, "gift": True})
    document = (
        '<?xml version="1.0"?><!-- a comment --><p:order id="7"><line>a b</line><p:line>c d</p:line>'
        '<note lang="en us">hi you</note><empty/><gift>true</gift></p:order>'
    )
    [result] = done(api.post("/entity/XML/prize/1", document))
    assert api.read(result["entityIds"][0])["data"] == {
        "id": 7,
        "line": ["a b", "c d"],
        "note": {"lang": "en us", "_text": "hi you"},
        "empty": {},
        "gift": True,
    }


def test_numbers_in_xml_keep_their_digits(api: Api) -> None:
    digits = "1234567890123456789012345678901234567890.5"
    api.a_model(sample={"n": 0.5, "m": 1})
    done(api.put("/model/prize/1/unlock"))
    done(api.post("/model/import/XML/SAMPLE_DATA/prize/1", f"<p><n>{digits}</n><m>1</m></p>"))
    api.lock()
    [result] = done(api.post("/entity/XML/prize/1", f"<p><n>{digits}</n></p>"))
    assert f'"n":{digits}' in api.get(f"/entity/{result['entityIds'][0]}").text


@pytest.mark.parametrize("document", ["", "<a>", "<a></b>", "<a/><b/>", "plain text"])
def test_xml_that_is_not_well_formed_is_refused(api: Api, document: str) -> None:
    api.a_model()
    refused(api.post("/entity/XML/prize/1", document), 400, "BAD_REQUEST")


def test_xml_that_explodes_is_refused_and_reads_no_files(api: Api) -> None:
    api.a_model(sample={"a": "x y"})
    bomb = '<!DOCTYPE l [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;">]><l><a>&b;</a></l>'
    file = '<!DOCTYPE l [<!ENTITY f SYSTEM "file:///etc/passwd">]><l><a>&f;</a></l>'
    for document in (bomb, file):
        refused(api.post("/entity/XML/prize/1", document), 400, "BAD_REQUEST")


def test_ids_grow_with_time_and_are_version_one(api: Api) -> None:
    api.a_model()
    ids = [uuid.UUID(api.create().id) for _ in range(5)]
    assert {id_.version for id_ in ids} == {1}
    assert sorted(ids, key=lambda id_: id_.time) == ids

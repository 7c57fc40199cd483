"""Partial updates (docs/reference/entities.md#partial-update)."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual, when
from tests.service import Api, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STEPS = a_workflow(
    New=[
        manual("APPROVE", to="Approved", criterion=when("$.year", "GREATER_THAN", 1900)),
        automated("OLD", to="Archived", criterion=when("$.year", "LESS_THAN", 1800)),
    ],
    Approved=[],
    Archived=[],
)


def patch(api: Api, entity: str, change: Json, *, fire: str = "", dialect: str = MERGE, match: str = "*") -> Any:
    path = f"/entity/JSON/{entity}{'/' if fire else ''}{fire}"
    body = change if isinstance(change, str | bytes) else json.dumps(change)
    return api.request("PATCH", path, body, Content_Type=dialect, If_Match=match)


@pytest.fixture
def entity(api: Api) -> str:
    """An entity in the state New of ``STEPS``."""
    api.a_model(STEPS, sample=SAMPLE | {"share": 0.5, "more": {"a": 1, "b": {"c": "x y"}}, "tags": ["x y"]})
    return api.create(SAMPLE | {"more": {"a": 1, "b": {"c": "one two"}}, "tags": ["one two"]}).id


# The merge.


def test_members_are_set_merged_removed_and_replaced(api: Api, entity: str) -> None:
    change = {"year": 1999, "category": None, "more": {"a": None, "b": {"c": "d e"}}, "tags": [], "nothing": None}
    result = done(patch(api, entity, change))
    assert sorted(result) == ["entityIds", "transactionId"]
    assert result["entityIds"] == [entity]
    assert api.read(entity)["data"] == {
        "year": 1999,
        "motivation": SAMPLE["motivation"],
        "more": {"b": {"c": "d e"}},
        "tags": [],
    }
    assert api.read(entity)["meta"]["transactionId"] == result["transactionId"]


def test_nulls_inside_a_new_object_vanish(api: Api, entity: str) -> None:
    done(patch(api, entity, {"more": None}))
    done(patch(api, entity, {"more": {"a": None, "b": {"c": None}}}))
    assert api.read(entity)["data"]["more"] == {"b": {}}


def test_numbers_stay_exact(api: Api, entity: str) -> None:
    done(patch(api, entity, '{"share":0.12345678901234}'))
    assert '"share":0.12345678901234' in api.get(f"/entity/{entity}").text


def test_an_empty_patch_writes_a_new_version_and_runs_the_workflow(api: Api, entity: str) -> None:
    before = api.read(entity)
    done(patch(api, entity, {}))
    after = api.read(entity)
    assert after["data"] == before["data"]
    assert after["meta"]["transactionId"] != before["meta"]["transactionId"]
    assert after["meta"]["transitionForLatestSave"] == "loopback"


@pytest.mark.parametrize("change", ["null", "7", '"text"', "[]", '[{"year":1}]'])
def test_a_patch_that_is_no_object_replaces_the_document_and_fails_validation(
    api: Api, entity: str, change: str
) -> None:
    assert "expected object" in refused(patch(api, entity, change), 400, "BAD_REQUEST")["detail"]


def test_a_transition_fires_on_the_merged_document(api: Api, entity: str) -> None:
    refused(patch(api, entity, {"year": 1850}, fire="APPROVE"), 400, "WORKFLOW_FAILED")
    done(patch(api, entity, {"category": "peace"}, fire="APPROVE"))
    meta = api.read(entity)["meta"]
    assert (meta["state"], meta["transitionForLatestSave"]) == ("Approved", "APPROVE")


def test_automated_transitions_see_the_merged_document(api: Api, entity: str) -> None:
    done(patch(api, entity, {"year": 1700}))
    assert api.state(entity) == "Archived"


def test_processors_see_the_merged_document_and_may_overwrite_it(api: Api, serving) -> None:
    node, seen = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document):
        seen.append(document)
        return document | {"motivation": "overwritten by it"}

    serving(node)
    api.a_model(a_workflow(New=[manual("GO", to="Done", processors=[a_processor()])], Done=[]))
    entity = api.create().id
    done(patch(api, entity, {"year": 1}, fire="GO"))
    assert seen == [SAMPLE | {"year": 1}]
    assert api.read(entity)["data"]["motivation"] == "overwritten by it"


# Validation is strict, whatever the change level.


@pytest.mark.parametrize("level", [None, "ARRAY_LENGTH", "TYPE", "STRUCTURAL"])
def test_a_patch_never_grows_the_model(api: Api, entity: str, level: str | None) -> None:
    if level:
        done(api.post(f"/model/prize/1/changeLevel/{level}"))
    before = api.get("/model/export/SIMPLE_VIEW/prize/1").text
    refused(patch(api, entity, {"someNewField": 1}), 400, "BAD_REQUEST")
    problem = refused(patch(api, entity, {"year": "many"}), 400, "INCOMPATIBLE_TYPE")
    assert problem["properties"]["fieldPath"] == "year"
    done(patch(api, entity, {"share": 3}))  # assignable, though a full update below TYPE would refuse it
    assert api.get("/model/export/SIMPLE_VIEW/prize/1").text == before


# The order of checks.


def test_checks_come_in_exactly_this_order(api: Api) -> None:
    def request(media: str = "JSON", body: str = "{}", **headers: str) -> Any:
        return api.request("PATCH", f"/entity/{media}/{UNKNOWN}", body, **headers)

    for media in ("XML", "json"):
        refused(request(media, "{", Content_Type=MERGE), 415, "UNSUPPORTED_MEDIA_TYPE")
    for content_type in ("application/json", "text/plain", "", "application/merge-patch+xml"):
        refused(request(body="{", Content_Type=content_type), 415, "UNSUPPORTED_MEDIA_TYPE")
    refused(request(body="{"), 415, "UNSUPPORTED_MEDIA_TYPE")
    for dialect in (MERGE, JSON_PATCH):
        problem = refused(request(body="{", Content_Type=dialect), 428, "PRECONDITION_REQUIRED")
        assert problem["title"] == "Precondition Required"
        assert "transactionId" in problem["detail"]
        assert "*" in problem["detail"]
        refused(request(body="{", Content_Type=dialect, If_Match="*"), 400, "BAD_REQUEST")
    refused(request(body=" " * (10 * 1024 * 1024 + 1), Content_Type=MERGE, If_Match="*"), 413, "BAD_REQUEST")
    refused(request(Content_Type=MERGE, If_Match="*"), 404, "ENTITY_NOT_FOUND")


def test_what_does_not_bind_comes_before_all_that(api: Api) -> None:
    problem = refused(api.request("PATCH", "/entity/XML/no-uuid", "{"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "entityId"
    problem = refused(
        api.request("PATCH", f"/entity/XML/{UNKNOWN}?waitForConsistencyAfter=maybe", "{"), 400, "BAD_REQUEST"
    )
    assert problem["properties"]["parameter"] == "waitForConsistencyAfter"


@pytest.mark.parametrize("dialect", [f"{MERGE}; charset=utf-8", "Application/Merge-Patch+JSON", f"{MERGE} ;q=1"])
def test_the_content_type_may_have_parameters(api: Api, entity: str, dialect: str) -> None:
    done(patch(api, entity, {}, dialect=dialect))


def test_an_invalid_merge_and_an_unknown_transition_are_told_even_if_the_version_is_stale_too(
    api: Api, entity: str
) -> None:
    refused(patch(api, entity, {"year": "x y"}, match=UNKNOWN), 400, "INCOMPATIBLE_TYPE")
    refused(patch(api, entity, {}, fire="NONE", match=UNKNOWN), 404, "TRANSITION_NOT_FOUND")
    problem = refused(patch(api, entity, {}, match=UNKNOWN), 412, "ENTITY_MODIFIED")
    assert problem["properties"] == {"errorCode": "ENTITY_MODIFIED", "entityId": entity}


def test_the_precondition_is_compared_literally(api: Api, entity: str) -> None:
    current = api.read(entity)["meta"]["transactionId"]
    refused(patch(api, entity, {}, match=f'"{current}"'), 412, "ENTITY_MODIFIED")
    refused(patch(api, entity, {}, match=f"{current}, {current}"), 412, "ENTITY_MODIFIED")
    current = done(patch(api, entity, {}, match=current))["transactionId"]
    done(patch(api, entity, {}, match=""))
    refused(patch(api, entity, {}, match=current), 412, "ENTITY_MODIFIED")


def test_patches_that_overlap_lose_nothing(api: Api) -> None:
    api.a_model(sample={"n": 1})
    entity = api.create({"n": 0}).id

    def increment(_: int) -> int:
        while True:
            read = api.read(entity)
            change = {"n": read["data"]["n"] + 1}
            response = patch(api, entity, change, match=read["meta"]["transactionId"])
            if response.status_code == 200:
                return 1
            assert response.status_code in (409, 412)

    with ThreadPoolExecutor(6) as clients:
        assert sum(clients.map(increment, range(30))) == 30
    assert api.read(entity)["data"] == {"n": 30}


# JSON Patch, which the public servers lack.


def test_a_json_patch_applies_its_operations_in_order(api: Api, entity: str) -> None:
    operations = [
        {"op": "test", "path": "/year", "value": 2024},
        {"op": "replace", "path": "/year", "value": 1999},
        {"op": "remove", "path": "/category"},
        {"op": "add", "path": "/tags/-", "value": "three four"},
        {"op": "move", "from": "/tags/0", "path": "/more/b/c"},
    ]
    done(patch(api, entity, operations, dialect=JSON_PATCH, fire="APPROVE"))
    assert api.read(entity)["data"] == {
        "year": 1999,
        "motivation": SAMPLE["motivation"],
        "more": {"a": 1, "b": {"c": "one two"}},
        "tags": ["three four"],
    }
    assert api.state(entity) == "Approved"


@pytest.mark.parametrize(
    ("operations", "told"),
    [
        ({"op": "add"}, "array of operations"),
        ([{"op": "test", "path": "/year", "value": 1}], "operation 0: "),
        ([{"op": "remove", "path": "/year"}, {"op": "remove", "path": "/year"}], "operation 1: "),
        ([{"op": "replace", "path": "", "value": []}], "expected object"),
    ],
)
def test_a_json_patch_that_cannot_be_applied_changes_nothing(
    api: Api, entity: str, operations: Json, told: str
) -> None:
    before = api.read(entity)
    assert told in refused(patch(api, entity, operations, dialect=JSON_PATCH), 400, "BAD_REQUEST")["detail"]
    assert api.read(entity) == before


def test_a_json_patch_is_validated_strictly_too(api: Api, entity: str) -> None:
    done(api.post("/model/prize/1/changeLevel/STRUCTURAL"))
    add = [{"op": "add", "path": "/other", "value": 1}]
    refused(patch(api, entity, add, dialect=JSON_PATCH), 400, "BAD_REQUEST")
    refused(patch(api, UNKNOWN, add, dialect=JSON_PATCH), 404, "ENTITY_NOT_FOUND")
    refused(patch(api, entity, [], dialect=JSON_PATCH, match=UNKNOWN), 412, "ENTITY_MODIFIED")

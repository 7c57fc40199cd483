"""Creating many entities at once (docs/reference/entities.md#create-an-array, docs/reference/entities.md#chunks)."""

import json

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, when
from tests.service import Api, done, refused

PATH = "/entity/JSON/prize/1"
BAD = {"year": "soon"}


def prizes(count: int) -> list[Json]:
    return [SAMPLE | {"year": 1901 + n} for n in range(count)]


def item(document: Json, name: str = "prize", version: Json = 1) -> Json:
    return {"model": {"name": name, "version": version}, "payload": json.dumps(document)}


def stored(api: Api, model: str = "prize/1") -> list[Json]:
    return [entity["data"] for entity in done(api.get(f"/entity/{model}?pageSize=1000"))]


# Array bodies.


def test_every_element_of_an_array_becomes_an_entity_in_one_transaction(api: Api) -> None:
    api.a_model()
    [result] = done(api.post(PATH, prizes(3)))
    assert sorted(result) == ["entityIds", "transactionId"]
    entities = [api.read(id_) for id_ in result["entityIds"]]
    assert [entity["data"] for entity in entities] == prizes(3)
    assert {entity["meta"]["transactionId"] for entity in entities} == {result["transactionId"]}
    assert {entity["meta"]["creationDate"] for entity in entities} == {entities[0]["meta"]["creationDate"]}
    assert {entity["meta"]["state"] for entity in entities} == {"CREATED"}


def test_an_empty_array_is_a_transaction_without_entities(api: Api) -> None:
    api.a_model()
    [result] = done(api.post(PATH, "[]"))
    assert result["entityIds"] == []
    assert len(result["transactionId"]) == 36


def test_items_are_cut_into_chunks_of_the_window(api: Api) -> None:
    api.a_model()
    results = done(api.post(f"{PATH}?transactionWindow=3", prizes(7)))
    assert [len(result["entityIds"]) for result in results] == [3, 3, 1]
    assert len({result["transactionId"] for result in results}) == 3
    ids = [id_ for result in results for id_ in result["entityIds"]]
    assert [api.read(id_)["data"] for id_ in ids] == prizes(7)


def test_white_space_before_the_bracket_makes_it_one_document(api: Api) -> None:
    api.a_model()
    assert "expected object, got array" in refused(api.post(PATH, " [{}]"), 400, "BAD_REQUEST")["detail"]


def test_an_array_that_is_no_json_is_refused_whatever_the_model(api: Api) -> None:
    refused(api.post(PATH, '[{"year":1}'), 400, "BAD_REQUEST")
    refused(api.post(PATH, "[{}] x"), 400, "BAD_REQUEST")


def test_other_formats_know_no_arrays(api: Api) -> None:
    api.a_model()
    refused(api.post("/entity/XML/prize/1", prizes(1)), 400, "BAD_REQUEST")


@pytest.mark.parametrize("window", ["0", "1001", "-1"])
def test_the_window_is_checked_first(api: Api, window: str) -> None:
    for path in (PATH, "/entity/JSON"):
        problem = refused(api.post(f"{path}?transactionWindow={window}", "nonsense"), 400, "BAD_REQUEST")
        assert "transactionWindow" in problem["detail"]


def test_a_thousand_items_fit_into_one_transaction(api: Api) -> None:
    api.a_model()
    [result] = done(api.post(f"{PATH}?transactionWindow=1000", prizes(1000)))
    assert len(set(result["entityIds"])) == 1000
    assert done(api.get("/entity/stats/prize/1"))["count"] == 1000


def test_the_workflow_runs_for_each_item(api: Api) -> None:
    api.a_model(
        a_workflow(NEW=[automated("OLD", to="Archived", criterion=when("$.year", "LESS_THAN", 1903))], Archived=[])
    )
    [result] = done(api.post(PATH, prizes(4)))
    assert [api.state(id_) for id_ in result["entityIds"]] == ["Archived", "Archived", "NEW", "NEW"]
    for id_ in result["entityIds"]:
        assert api.events(id_, result["transactionId"])[0]["eventType"] == "STATE_MACHINE_START"


# Collections.


def test_a_collection_mixes_models(api: Api) -> None:
    api.a_model()
    api.a_model(model="warehouse/2", sample={"city": "a b"})
    [result] = done(api.post("/entity/JSON", [item(SAMPLE), item({"city": "Riga"}, "warehouse", 2)]))
    keys = [api.read(id_)["meta"]["modelKey"] for id_ in result["entityIds"]]
    assert keys == [{"name": "prize", "version": 1}, {"name": "warehouse", "version": 2}]


def test_numbers_in_a_payload_keep_their_digits(api: Api) -> None:
    digits = "12345678901234567890123456789.0123456789012345678"
    api.a_model(sample=f'{{"n":{digits}}}')
    [result] = done(api.post("/entity/JSON", [item({}) | {"payload": f'{{"n":{digits}}}'}]))
    assert f'"n":{digits}' in api.get(f"/entity/{result['entityIds'][0]}").text


def test_the_format_of_a_collection_is_not_looked_at(api: Api) -> None:
    api.a_model()
    for media in ("XML", "whatever"):
        assert len(done(api.post(f"/entity/{media}", [item(SAMPLE)]))) == 1


def test_an_empty_collection_is_a_transaction_without_entities(api: Api) -> None:
    [result] = done(api.post("/entity/JSON", []))
    assert result["entityIds"] == []


def test_other_members_of_an_item_are_ignored(api: Api) -> None:
    api.a_model()
    done(api.post("/entity/JSON", [item(SAMPLE) | {"note": {"x": 1}, "id": 7}]))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        '"text"',
        "null",
        "[7]",
        "[null]",
        '[{"model":{"name":"prize","version":1},"payload":{"year":1}}]',
        '[{"model":{"name":"prize","version":1},"payload":7}]',
        '[{"model":{"name":"prize","version":"1"},"payload":"{}"}]',
        '[{"model":{"name":"prize","version":1.5},"payload":"{}"}]',
        '[{"model":{"name":7,"version":1},"payload":"{}"}]',
        '[{"model":"prize","payload":"{}"}]',
        '[{"model":{"name":"prize","version":1},"payload":"{}"}] x',
    ],
)
def test_a_malformed_collection_is_refused_as_a_whole(api: Api, body: str) -> None:
    api.a_model()
    refused(api.post("/entity/JSON", body), 400, "BAD_REQUEST")
    assert stored(api) == []


def test_a_missing_payload_is_an_empty_document_and_a_missing_model_an_unknown_one(api: Api) -> None:
    api.a_model()
    problem = refused(api.post("/entity/JSON", [{"model": {"name": "prize", "version": 1}}]), 400, "BAD_REQUEST")
    assert problem["detail"].startswith("BAD_REQUEST: item 0: ")
    problem = refused(api.post("/entity/JSON", [item(SAMPLE), {"payload": "{}"}]), 404, "MODEL_NOT_FOUND")
    assert problem["detail"] == "MODEL_NOT_FOUND: item 1: model not found"
    assert problem["properties"] == {"errorCode": "MODEL_NOT_FOUND"}
    assert stored(api) == []


def test_checks_of_an_item_come_in_their_order(api: Api) -> None:
    api.import_model()

    def refuse(payload: str, status: int, code: str) -> str:
        body = [item(SAMPLE), item({}) | {"payload": payload}]
        return str(refused(api.post("/entity/JSON", body), status, code)["detail"])

    assert refuse("{", 409, "MODEL_NOT_LOCKED").startswith("MODEL_NOT_LOCKED: item 0: model is not locked: prize/1;")
    done(api.put("/model/prize/1/unique-keys", {"uniqueKeys": [{"id": "k", "fields": ["$.category", "$.motivation"]}]}))
    api.lock()
    assert refuse("{", 400, "BAD_REQUEST").startswith("BAD_REQUEST: item 1: invalid JSON")
    assert refuse("[]", 400, "BAD_REQUEST").startswith("BAD_REQUEST: item 1: validation failed: expected object")
    assert refuse('{"year":"soon"}', 400, "INCOMPATIBLE_TYPE").startswith(
        "INCOMPATIBLE_TYPE: item 1: validation failed"
    )
    assert refuse('{"category":"a b"}', 422, "INVALID_UNIQUE_KEY") == (
        "INVALID_UNIQUE_KEY: item 1: composite unique key incomplete"
    )
    assert stored(api) == []


# Failures.


@pytest.mark.parametrize("window", [1000, 3])
def test_a_bad_item_of_the_first_chunk_fails_the_request(api: Api, window: int) -> None:
    api.a_model()
    problem = refused(
        api.post(f"{PATH}?transactionWindow={window}", [*prizes(2), BAD, *prizes(2)]), 400, "INCOMPATIBLE_TYPE"
    )
    assert problem["detail"].startswith("INCOMPATIBLE_TYPE: item 2: ")
    assert problem["properties"]["fieldPath"] == "year"
    assert stored(api) == []


def test_a_bad_item_of_a_later_chunk_is_reported_after_the_committed_ones_and_ends_the_request(api: Api) -> None:
    api.a_model()
    results = done(api.post(f"{PATH}?transactionWindow=2", [*prizes(5), BAD, *prizes(4)]))
    assert [len(result["entityIds"]) for result in results] == [2, 2, 0]
    assert sorted(results[-1]) == ["entityIds", "error"]
    error = results[-1]["error"]
    assert (error["code"], error["chunkIndex"]) == ("INCOMPATIBLE_TYPE", 2)
    assert error["message"].startswith("INCOMPATIBLE_TYPE: item 1: validation failed: ")
    assert sorted(document["year"] for document in stored(api)) == [1901, 1902, 1903, 1904]


def test_a_workflow_failure_rolls_its_whole_chunk_back(api: Api, serving) -> None:
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document):
        if document["year"] == 1904:
            raise ValueError("not that year")
        return document

    serving(node)
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    results = done(api.post(f"{PATH}?transactionWindow=2", prizes(6)))
    assert [len(result["entityIds"]) for result in results] == [2, 0]
    assert results[1]["error"]["code"] == "WORKFLOW_FAILED"
    assert "item 1: " in results[1]["error"]["message"]
    assert "not that year" in results[1]["error"]["message"]
    assert sorted(document["year"] for document in stored(api)) == [1901, 1902]


def test_a_later_chunk_without_a_member_is_reported_by_its_code(api: Api, serving) -> None:
    api.a_model(
        a_workflow(
            NEW=[
                automated(
                    "GO", to="DONE", criterion=when("$.year", "EQUALS", 1902), processors=[a_processor(tags="nobody")]
                )
            ],
            DONE=[],
        )
    )
    results = done(api.post(f"{PATH}?transactionWindow=1", prizes(3)))
    assert [result.get("error", {}).get("code") for result in results] == [None, "NO_COMPUTE_MEMBER_FOR_TAG"]


def test_a_segment_of_one_item_keeps_the_items_before_it_though_a_later_one_fails(api: Api, serving) -> None:
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document):
        if document["year"] == 1903:
            raise ValueError("boom")
        return document | {"motivation": "processed by now"}

    serving(node)
    processor = a_processor(mode="COMMIT_BEFORE_DISPATCH")
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[processor])], DONE=[]))
    problem = refused(api.post(PATH, prizes(4)), 400, "WORKFLOW_FAILED")
    assert "item 2: " in problem["detail"]
    states = {
        entity["data"]["year"]: (entity["meta"]["state"], entity["data"]["motivation"])
        for entity in done(api.get("/entity/prize/1"))
    }
    # The segment of item 2 made item 1 durable; item 3 was never begun.
    assert states == {
        1901: ("DONE", "processed by now"),
        1902: ("DONE", "processed by now"),
        1903: ("NEW", SAMPLE["motivation"]),
    }


def test_a_segmented_chunk_that_succeeds_is_told_under_its_first_transaction(api: Api, serving) -> None:
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: document | {"motivation": "processed by now"})
    serving(node)
    processor = a_processor(mode="COMMIT_BEFORE_DISPATCH")
    api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[processor])], DONE=[]))
    [result] = done(api.post(PATH, prizes(3)))
    for id_ in result["entityIds"]:
        assert (api.state(id_), api.read(id_)["data"]["motivation"]) == ("DONE", "processed by now")
        assert api.events(id_, result["transactionId"])[-1]["eventType"] == "STATE_MACHINE_FINISH"
        # The id that the client knows is good for If-Match.
        done(api.put(f"/entity/JSON/{id_}", SAMPLE, If_Match=result["transactionId"]))


def test_chunks_that_join_a_transaction_all_carry_its_id(api: Api, serving, callback) -> None:
    api.a_model()
    flow = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[])
    api.a_model(flow, model="task/1", sample={"n": 1})
    node, seen = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        seen.extend(done(callback(context).post(f"{PATH}?transactionWindow=2", prizes(5))))
        return document

    serving(node)
    task = api.create({"n": 1}, model="task/1")
    assert [len(result["entityIds"]) for result in seen] == [2, 2, 1]
    assert {result["transactionId"] for result in seen} == {task.transaction}
    assert len(stored(api)) == 5


@pytest.mark.parametrize("path", ["/entity/JSON/prize/1", "/entity/JSON"])
def test_more_than_ten_thousand_items_are_refused_before_anything_is_stored(api: Api, path: str) -> None:
    api.a_model()
    item = {"model": {"name": "prize", "version": 1}, "payload": "{}"} if path == "/entity/JSON" else {}
    problem = refused(api.post(path, [item] * 10_001), 400, "BAD_REQUEST")
    assert "10001 items, 10000 are allowed" in problem["detail"]
    assert done(api.get("/entity/prize/1")) == []


def test_more_than_ten_thousand_updates_are_refused(api: Api) -> None:
    api.a_model()
    item = {"id": api.create().id, "payload": "{}"}
    problem = refused(api.put("/entity/JSON", [item] * 10_001), 400, "BAD_REQUEST")
    assert "10001 items, 10000 are allowed" in problem["detail"]

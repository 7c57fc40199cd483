"""Updating many entities at once (docs/reference/entities.md#update-a-collection)."""

import json
import threading

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, manual, when
from tests.service import Api, Saved, done, names, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"
STEPS = a_workflow(New=[manual("APPROVE", to="Approved", criterion=when("$.year", "GREATER_THAN", 1900))], Approved=[])


def change(entity: str, document: Json = SAMPLE, **members: Json) -> Json:
    return {"id": entity, "payload": json.dumps(document), **members}


def put(api: Api, *items: Json, window: int = 100):
    return api.put(f"/entity/JSON?transactionWindow={window}", list(items))


@pytest.fixture
def entities(api: Api) -> list[Saved]:
    """Four entities in the state New of ``STEPS``."""
    api.a_model(STEPS)
    return [api.create() for _ in range(4)]


def test_loopbacks_and_transitions_mix_in_one_transaction(api: Api, entities: list[Saved]) -> None:
    first, second, *_ = entities
    [result] = done(put(api, change(first.id, {"year": 1}), change(second.id, {"year": 2000}, transition="APPROVE")))
    assert sorted(result) == ["entityIds", "transactionId"]
    assert result["entityIds"] == [first.id, second.id]
    assert [(api.state(e.id), api.read(e.id)["data"]["year"]) for e in (first, second)] == [
        ("New", 1),
        ("Approved", 2000),
    ]
    metas = [api.read(e.id)["meta"] for e in (first, second)]
    assert {meta["transactionId"] for meta in metas} == {result["transactionId"]}
    assert [meta["transitionForLatestSave"] for meta in metas] == ["loopback", "APPROVE"]
    assert len({meta["lastUpdateTime"] for meta in metas}) == 1


def test_items_are_cut_into_chunks_of_the_window(api: Api, entities: list[Saved]) -> None:
    results = done(put(api, *(change(entity.id) for entity in entities), window=3))
    assert [len(result["entityIds"]) for result in results] == [3, 1]


def test_a_later_item_sees_what_an_earlier_one_did(api: Api, entities: list[Saved]) -> None:
    first = entities[0].id
    api_items = (change(first, {"year": 2001}, transition="APPROVE"), change(first, {"year": 7}, transition=""))
    [result] = done(put(api, *api_items))
    assert result["entityIds"] == [first, first]
    assert (api.state(first), api.read(first)["data"]) == ("Approved", {"year": 7})
    assert len(done(api.get(f"/entity/{first}/changes"))) == 2


# A stale ifMatch.


def test_a_stale_item_is_left_out_and_the_others_commit(api: Api, entities: list[Saved]) -> None:
    stale, fresh = entities[0], entities[1]
    current = api.update(stale.id).transaction
    [result] = done(
        put(
            api,
            change(fresh.id, {"year": 1}, ifMatch=fresh.transaction),
            change(stale.id, {"year": 2}, ifMatch=stale.transaction),
            change(entities[2].id, {"year": 3}),
        )
    )
    assert result["entityIds"] == [fresh.id, entities[2].id]
    [failed] = result["failed"]
    assert failed["entityId"] == stale.id
    assert (failed["error"]["code"], failed["error"]["itemIndex"]) == ("ENTITY_MODIFIED", 1)
    assert failed["error"]["message"]
    meta = api.read(stale.id)["meta"]
    assert (meta["transactionId"], api.read(stale.id)["data"]) == (current, SAMPLE)


def test_a_stale_item_leaves_a_paired_trail_in_its_audit(api: Api, entities: list[Saved]) -> None:
    stale = entities[0]
    current = api.update(stale.id).transaction
    [result] = done(put(api, change(entities[1].id), change(stale.id, transition="APPROVE", ifMatch=stale.transaction)))
    start, aborted = api.events(stale.id, result["transactionId"])
    assert (start["eventType"], start["details"]) == ("STATE_MACHINE_START", "Manual transition started")
    assert aborted["eventType"] == "TRANSITION_ABORTED"
    assert aborted["details"] == 'Transition "APPROVE" aborted: entity has been modified since last read'
    assert aborted["data"] == {
        "reason": "ENTITY_MODIFIED",
        "transitionName": "APPROVE",
        "expectedTxId": stale.transaction,
        "actualTxId": current,
    }
    assert aborted["state"] == "New"
    assert names(api.events(entities[1].id, result["transactionId"]))[-1] == "STATE_MACHINE_FINISH"


def test_when_every_item_is_stale_there_is_still_a_transaction(api: Api, entities: list[Saved]) -> None:
    items = [change(entity.id, ifMatch=UNKNOWN) for entity in entities]
    results = done(put(api, *items, window=3))
    assert [result["entityIds"] for result in results] == [[], []]
    assert [[item["error"]["itemIndex"] for item in result["failed"]] for result in results] == [[0, 1, 2], [0]]
    for result in results:
        [aborted] = [
            event
            for event in api.events(result["failed"][0]["entityId"], result["transactionId"])
            if event["eventType"] == "TRANSITION_ABORTED"
        ]
        assert aborted["data"]["transitionName"] == "loopback"


def test_an_asterisk_is_no_wildcard_here(api: Api, entities: list[Saved]) -> None:
    [result] = done(put(api, change(entities[0].id, ifMatch="*")))
    assert [item["entityId"] for item in result["failed"]] == [entities[0].id]


def test_the_open_transaction_matches_what_it_wrote_itself(api: Api, entities: list[Saved]) -> None:
    first = entities[0]
    items = (
        change(first.id, {"year": 1}, ifMatch=first.transaction),
        change(first.id, {"year": 2}, ifMatch=first.transaction),
    )
    [result] = done(put(api, *items))
    assert result["entityIds"] == [first.id]
    assert api.read(first.id)["data"] == {"year": 1}
    assert [item["error"]["itemIndex"] for item in result["failed"]] == [1]


def test_a_stale_item_leaves_nothing_of_its_run(api: Api, serving, callback) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="Done", processors=[a_processor()])], Done=[]))
    api.a_model(model="note/1", sample={"text": "a b"})
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document, context):
        callback(context).create({"text": "from a run"}, model="note/1")
        return document

    serving(node)
    stale, fresh = api.create(), api.create()
    [result] = done(
        put(
            api,
            change(stale.id, transition="GO", ifMatch=UNKNOWN),
            change(fresh.id, transition="GO", ifMatch=fresh.transaction),
        )
    )
    assert result["entityIds"] == [fresh.id]
    assert [api.state(entity.id) for entity in (stale, fresh)] == ["New", "Done"]
    assert len(done(api.get("/entity/note/1"))) == 1


def test_a_stale_item_of_a_growing_model_teaches_nothing(api: Api) -> None:
    api.a_model()
    done(api.post("/model/prize/1/changeLevel/STRUCTURAL"))
    stale, fresh = api.create(), api.create()
    done(put(api, change(stale.id, {"a": 1}, ifMatch=UNKNOWN), change(fresh.id, {"b": 1}, ifMatch=fresh.transaction)))
    learnt = done(api.get("/model/export/SIMPLE_VIEW/prize/1"))["model"]["$"]
    assert ".b" in learnt
    assert ".a" not in learnt


def test_a_commit_that_comes_between_costs_a_retryable_conflict(api: Api, serving) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="Done", processors=[a_processor()])], Done=[]))
    started, go_on = threading.Event(), threading.Event()
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document):
        started.set()
        assert go_on.wait(20)
        return document

    serving(node)
    first, second = api.create(), api.create()
    answers = []
    items = (change(first.id, ifMatch=first.transaction), change(second.id, transition="GO"))
    request = threading.Thread(target=lambda: answers.append(put(api, *items)))
    request.start()
    assert started.wait(20)
    api.update(first.id)
    go_on.set()
    request.join(20)
    assert refused(answers[0], 409, "CONFLICT")["properties"]["retryable"]
    [result] = done(put(api, change(first.id, ifMatch=first.transaction), change(second.id)))
    assert [item["entityId"] for item in result["failed"]] == [first.id]


# Any other failure.


def test_any_other_failure_rolls_the_chunk_back(api: Api, entities: list[Saved]) -> None:
    first, second, third, _ = entities
    items = (change(first.id, {"year": 1}), change(second.id, {"year": 1}, transition="APPROVE"))
    problem = refused(put(api, *items), 400, "WORKFLOW_FAILED")
    assert "item 1: " in problem["detail"]
    assert api.read(first.id)["data"] == SAMPLE
    results = done(put(api, change(third.id, {"year": 5}), *items, window=1))
    assert [result["entityIds"] for result in results] == [[third.id], [first.id], []]
    assert (results[2]["error"]["code"], results[2]["error"]["chunkIndex"]) == ("WORKFLOW_FAILED", 2)


def test_checks_of_an_item_come_in_their_order(api: Api) -> None:
    api.import_model()
    done(api.put("/model/prize/1/unique-keys", {"uniqueKeys": [{"id": "k", "fields": ["$.category", "$.motivation"]}]}))
    api.lock()
    entity = api.create()

    def refuse(item: Json, status: int, code: str) -> str:
        return str(refused(put(api, change(entity.id), item), status, code)["detail"])

    assert "item 1: " in refuse(change("", {"year": "soon"}), 400, "BAD_REQUEST")
    assert "item 1: " in refuse(change("no-uuid"), 400, "BAD_REQUEST")
    assert "invalid JSON" in refuse(change(UNKNOWN) | {"payload": "{"}, 400, "BAD_REQUEST")
    assert "item 1: " in refuse(change(UNKNOWN, {"year": "soon"}), 404, "ENTITY_NOT_FOUND")
    # Here, and only here, the key comes before the schema.
    refuse(change(entity.id, {"category": "a b", "year": "soon"}), 422, "INVALID_UNIQUE_KEY")
    refuse(change(entity.id, {"year": "soon"}, transition="NONE", ifMatch=UNKNOWN), 400, "INCOMPATIBLE_TYPE")
    refuse(change(entity.id, transition="NONE", ifMatch=UNKNOWN), 404, "TRANSITION_NOT_FOUND")


def test_a_bad_payload_is_noticed_before_any_item_is_worked_on(api: Api, entities: list[Saved]) -> None:
    refused(put(api, change(entities[0].id), change(entities[1].id) | {"payload": "{"}), 400, "BAD_REQUEST")
    assert len(done(api.get(f"/entity/{entities[0].id}/changes"))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        "[7]",
        f'[{{"id":"{UNKNOWN}"}}]',
        f'[{{"id":"{UNKNOWN}","payload":{{}}}}]',
        f'[{{"id":"{UNKNOWN}","payload":null}}]',
        '[{"id":7,"payload":"{}"}]',
        f'[{{"id":"{UNKNOWN}","payload":"{{}}","transition":7}}]',
    ],
)
def test_a_malformed_collection_is_refused_as_a_whole(api: Api, body: str) -> None:
    refused(api.put("/entity/JSON", body), 400, "BAD_REQUEST")


def test_only_json_is_taken_and_that_is_checked_before_the_window(api: Api) -> None:
    for media in ("XML", "json"):
        assert media in refused(api.put(f"/entity/{media}?transactionWindow=0", "["), 400, "BAD_REQUEST")["detail"]
    assert (
        "transactionWindow" in refused(api.put("/entity/JSON?transactionWindow=0", "["), 400, "BAD_REQUEST")["detail"]
    )
    problem = refused(api.put("/entity/XML?transactionWindow=x", "["), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "transactionWindow"


# Segments.


def test_items_with_if_match_may_segment(api: Api, serving) -> None:
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: document | {"motivation": "processed by now"})
    serving(node)
    processor = a_processor(mode="COMMIT_BEFORE_DISPATCH")
    api.a_model(a_workflow(New=[manual("GO", to="Done", processors=[processor])], Done=[]))
    first, stale, last = api.create(), api.create(), api.create()
    api.update(stale.id)
    [result] = done(
        put(
            api,
            change(first.id, {"year": 1}, transition="GO", ifMatch=first.transaction),
            change(stale.id, {"year": 2}, transition="GO", ifMatch=stale.transaction),
            change(last.id, {"year": 3}, transition="GO", ifMatch=last.transaction),
        )
    )
    assert result["entityIds"] == [first.id, last.id]
    assert [item["entityId"] for item in result["failed"]] == [stale.id]
    assert [api.state(entity.id) for entity in (first, stale, last)] == ["Done", "New", "Done"]
    assert api.read(last.id)["data"] == {"year": 3, "motivation": "processed by now"}
    assert names(api.events(stale.id, result["transactionId"])) == ["STATE_MACHINE_START", "TRANSITION_ABORTED"]
    assert names(api.events(first.id, result["transactionId"]))[-1] == "STATE_MACHINE_FINISH"

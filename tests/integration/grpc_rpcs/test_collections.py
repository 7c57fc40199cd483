"""Many entities at once (docs/reference/grpc.md#entitymanagecollection)."""

import grpc
import pytest

from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.integration.grpc_rpcs.client import UNKNOWN, Rpcs, an_event, spec
from tests.service import Api

LIFE = a_workflow(NEW=[manual("GO", to="DONE")], DONE=[])
BAD = {**SAMPLE, "year": "x"}


def new(*documents: Json, model: str = "prize") -> list[Json]:
    return [{"model": spec(model), "data": document} for document in documents]


@pytest.mark.parametrize("kind", ["EntityCreateCollectionRequest", "EntityUpdateCollectionRequest"])
@pytest.mark.parametrize("payloads", [[], None])
def test_an_empty_collection_is_no_request(rpcs: Rpcs, kind: str, payloads: Json) -> None:
    event = an_event(kind, dataFormat="JSON", payloads=payloads)
    assert rpcs.status(event) == (grpc.StatusCode.INVALID_ARGUMENT, "payloads array is empty")


def test_entities_of_several_models_are_created_in_one_transaction(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    api.a_model(model="note/1", sample={"text": "x"})
    payloads = [*new(SAMPLE), *new({"text": "a"}, model="note"), *new({"year": 1901})]
    answer = rpcs.done("EntityCreateCollectionRequest", dataFormat="JSON", payloads=payloads)
    info = answer["transactionInfo"]
    assert [rpcs.read(entity)["data"] for entity in info["entityIds"]] == [SAMPLE, {"text": "a"}, {"year": 1901}]
    assert {rpcs.read(entity)["meta"]["transactionId"] for entity in info["entityIds"]} == {info["transactionId"]}


@pytest.mark.parametrize(
    ("code", "payloads"),
    [
        ("INCOMPATIBLE_TYPE", new(SAMPLE, BAD)),
        ("MODEL_NOT_FOUND", [*new(SAMPLE), *new(SAMPLE, model="nothing")]),
        ("MODEL_NOT_FOUND", [*new(SAMPLE), {"model": None, "data": SAMPLE}]),
        ("BAD_REQUEST", new(SAMPLE, "a text")),
    ],
)
def test_an_item_that_is_refused_is_named_and_nothing_is_created(
    api: Api, rpcs: Rpcs, code: str, payloads: Json
) -> None:
    api.a_model()
    answer = rpcs.refused("EntityCreateCollectionRequest", code, dataFormat="JSON", payloads=payloads)
    assert answer["error"]["message"].startswith(f"{code}: item 1: ")
    assert answer["transactionInfo"] == {"entityIds": []}
    assert api.get("/entity/prize/1").json() == []


def test_the_format_of_a_collection_and_its_windows_do_not_matter(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    ignored = {"dataFormat": "XML", "transactionWindow": 1, "transactionTimeoutMs": 1}
    answer = rpcs.done("EntityCreateCollectionRequest", payloads=new(*[SAMPLE] * 150), **ignored)
    assert len(answer["transactionInfo"]["entityIds"]) == 150
    entities = rpcs.ask("EntityGetAllRequest", model=spec(), pageSize=200)
    assert len({entity["payload"]["meta"]["transactionId"] for entity in entities}) == 1


def test_updates_follow_each_other_each_in_its_own_transaction(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    first, second = rpcs.create(), rpcs.create()
    payloads = [
        {"entityId": first, "data": {"year": 1}, "transition": "GO"},
        {"entityId": second, "data": {"year": 2}},
        {"entityId": first, "data": {"year": 3}, "transition": None},
    ]
    answer = rpcs.done("EntityUpdateCollectionRequest", dataFormat="JSON", payloads=payloads)
    assert answer["transactionInfo"]["entityIds"] == [first, second, first]
    one, other = rpcs.read(first), rpcs.read(second)
    assert (one["data"], one["meta"]["state"], other["data"]) == ({"year": 3}, "DONE", {"year": 2})
    assert one["meta"]["transactionId"] == answer["transactionInfo"]["transactionId"]
    assert other["meta"]["transactionId"] != answer["transactionInfo"]["transactionId"]


def test_the_first_update_that_fails_is_the_last_and_those_before_it_stay(api: Api, rpcs: Rpcs) -> None:
    api.a_model(LIFE)
    first, second = rpcs.create(), rpcs.create()
    payloads = [
        {"entityId": first, "data": {"year": 1}},
        {"entityId": UNKNOWN, "data": {"year": 2}},
        {"entityId": second, "data": {"year": 3}},
    ]
    answer = rpcs.refused("EntityUpdateCollectionRequest", "ENTITY_NOT_FOUND", dataFormat="JSON", payloads=payloads)
    assert answer["error"]["message"].startswith("ENTITY_NOT_FOUND: item 1: ")
    assert answer["transactionInfo"] == {"entityIds": []}
    assert (rpcs.read(first)["data"], rpcs.read(second)["data"]) == ({"year": 1}, SAMPLE)


def test_all_entities_of_a_model_are_deleted_and_no_others(api: Api, rpcs: Rpcs) -> None:
    model = api.a_model() and api.get("/model/").json()[0]["id"]
    api.a_model(model="note/1", sample={"text": "x"})
    note = rpcs.create({"text": "stays"}, model="note")
    entities = [rpcs.create() for _ in range(3)]
    answer = rpcs.done("EntityDeleteAllRequest", model=spec(), pageSize=1, transactionSize=1)
    assert answer == {
        "id": "ce-7",
        "requestId": "ce-7",
        "success": True,
        "modelId": model,
        "numDeleted": 3,
        "entityIds": [],
    }
    for entity in entities:
        rpcs.refused("EntityGetRequest", "ENTITY_NOT_FOUND", entityId=entity)
    assert rpcs.read(note)["data"] == {"text": "stays"}
    assert rpcs.done("EntityDeleteAllRequest", model=spec())["numDeleted"] == 0


def test_who_wants_to_know_hears_what_was_deleted(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    entities = [rpcs.create() for _ in range(3)]
    answer = rpcs.done("EntityDeleteAllRequest", model=spec(), verbose=True)
    assert (sorted(answer["entityIds"]), answer["numDeleted"]) == (sorted(entities), 3)


def test_a_deletion_is_always_of_the_present(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    rpcs.create()
    past = rpcs.done("EntityDeleteAllRequest", model=spec(), pointInTime="2001-01-01T00:00:00Z")
    assert past["numDeleted"] == 1


def test_an_unknown_model_has_nothing_to_delete(rpcs: Rpcs) -> None:
    answer = rpcs.refused("EntityDeleteAllRequest", "MODEL_NOT_FOUND", model=spec("nothing"))
    assert (answer["modelId"], answer["numDeleted"], answer["entityIds"]) == ("", 0, [])

"""Reading many entities, searching, counting, history (docs/reference/grpc.md#entitysearch,
docs/reference/grpc.md#entitysearchcollection).
"""

import threading
from itertools import pairwise
from uuid import UUID

import grpc
import pytest

from tests.builders import SAMPLE, Json, a_workflow, manual, when
from tests.integration.grpc_rpcs.client import NIL, UNKNOWN, Rpcs, an_event, spec
from tests.service import PATIENCE_S, Api

LIFE = a_workflow(NEW=[manual("GO", to="DONE")], DONE=[])
EVERY: Json = {"type": "group", "operator": "AND", "conditions": []}


def years(answers: list[Json]) -> list[int]:
    return [answer["payload"]["data"]["year"] for answer in answers]


def some_prizes(api: Api, *wanted: int) -> list[str]:
    api.a_model(LIFE)
    return [api.create({"year": year, "category": f"c{year % 2}"}).id for year in wanted]


def test_all_entities_come_in_pages_by_id(api: Api, rpcs: Rpcs) -> None:
    entities = some_prizes(api, *range(25))
    first = rpcs.ask("EntityGetAllRequest", model=spec())
    assert [answer["payload"]["meta"]["id"] for answer in first] == sorted(entities)[:20]
    assert all(answer["success"] and answer["payload"]["type"] == "JSON" for answer in first)
    for size in (0, -5, None):
        assert rpcs.ask("EntityGetAllRequest", model=spec(), pageSize=size) == first
    assert len(rpcs.ask("EntityGetAllRequest", model=spec(), pageNumber=1)) == 5
    assert rpcs.ask("EntityGetAllRequest", model=spec(), pageNumber=2) == []
    assert len(rpcs.ask("EntityGetAllRequest", model=spec(), pageSize=7, pageNumber=3)) == 4


def test_a_listing_is_always_of_the_present(api: Api, rpcs: Rpcs) -> None:
    some_prizes(api, 1)
    assert years(rpcs.ask("EntityGetAllRequest", model=spec(), pointInTime="2001-01-01T00:00:00Z")) == [1]


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("BAD_REQUEST: pageSize exceeds maximum 10000", {"pageSize": 10_001}),
        ("BAD_REQUEST: pageNumber exceeds maximum 214748", {"pageNumber": 214_749}),
        ("BAD_REQUEST: invalid pageNumber", {"pageNumber": -1}),
        ("MODEL_NOT_FOUND: ", {}),
    ],
)
def test_the_limits_of_a_listing_are_checked_before_its_model(rpcs: Rpcs, text: str, members: Json) -> None:
    answer = rpcs.one("EntityGetAllRequest", model=spec("nothing"), **members)
    assert answer["error"]["message"].startswith(text)
    assert (answer["success"], answer["payload"], answer["requestId"]) == (False, {"type": "JSON"}, "ce-7")


def test_a_search_finds_what_matches_and_nothing_else(api: Api, rpcs: Rpcs) -> None:
    some_prizes(api, 3, 1, 2)
    found = rpcs.ask("EntitySearchRequest", model=spec(), condition=when("$.year", "GREATER_THAN", 1))
    assert sorted(years(found)) == [2, 3]
    assert rpcs.ask("EntitySearchRequest", model=spec(), condition=when("$.year", "EQUALS", 9)) == []


def test_a_search_is_sorted_as_asked(api: Api, rpcs: Rpcs) -> None:
    some_prizes(api, 3, 1, 2, 4)
    up = rpcs.ask("EntitySearchRequest", model=spec(), condition=EVERY, orderBy=[{"path": "year"}])
    assert years(up) == [1, 2, 3, 4]
    order = [{"path": "category"}, {"path": "year", "source": "data", "desc": True}]
    assert years(rpcs.ask("EntitySearchRequest", model=spec(), condition=EVERY, orderBy=order)) == [4, 2, 3, 1]
    newest = [{"path": "creationDate", "source": "meta", "desc": True}, {"path": "year", "desc": True}]
    answers = rpcs.ask("EntitySearchRequest", model=spec(), condition=EVERY, orderBy=newest)
    dates = [answer["payload"]["meta"]["creationDate"][:23] for answer in answers]
    assert all(earlier >= later for earlier, later in pairwise(dates))


def test_a_search_can_look_at_the_past(api: Api, rpcs: Rpcs) -> None:
    [entity] = some_prizes(api, 1)
    moment = api.read(entity)["meta"]["lastUpdateTime"]
    api.update(entity, {"year": 2})
    was_one = when("$.year", "EQUALS", 1)
    assert rpcs.ask("EntitySearchRequest", model=spec(), condition=was_one) == []
    assert years(rpcs.ask("EntitySearchRequest", model=spec(), condition=was_one, pointInTime=moment)) == [1]


@pytest.mark.parametrize(
    ("code", "members"),
    [
        ("BAD_REQUEST: invalid limit: must be at least 1", {"limit": 0}),
        ("BAD_REQUEST: limit exceeds maximum 10000", {"limit": 10_001}),
        ("SEARCH_RESULT_LIMIT: ", {"limit": 1}),
        ("MODEL_NOT_FOUND: ", {"model": spec("nothing")}),
        ("BAD_REQUEST: ", {"condition": when("$.year", "NO_SUCH_OPERATOR", 1)}),
        ("INVALID_FIELD_PATH: ", {"condition": when("$.nowhere", "EQUALS", 1)}),
        ("CONDITION_TYPE_MISMATCH: ", {"condition": when("$.year", "EQUALS", "x")}),
        ("INVALID_FIELD_PATH: ", {"orderBy": [{"path": "nowhere"}]}),
        ("INVALID_FIELD_PATH: ", {"orderBy": [{"path": "nowhere", "source": "meta"}]}),
        ("BAD_REQUEST: too many sort keys: 17 exceeds maximum 16", {"orderBy": [{"path": f"p{n}"} for n in range(17)]}),
        ("BAD_REQUEST: ", {"condition": {"type": "function", "function": {"name": "f"}}}),
    ],
)
def test_a_search_that_is_refused_says_why_in_one_answer(api: Api, rpcs: Rpcs, code: str, members: Json) -> None:
    some_prizes(api, 1, 2)
    answer = rpcs.one("EntitySearchRequest", **({"model": spec(), "condition": EVERY} | members))
    assert answer["error"]["message"].startswith(code)
    assert (answer["success"], answer["payload"]) == (False, {"type": "JSON"})


@pytest.mark.parametrize("kind", ["EntitySearchRequest", "EntitySnapshotSearchRequest"])
@pytest.mark.parametrize(
    "condition", [None, [], "all", {}, {"type": "everything"}, {"type": "group", "operator": "AND", "conditions": 7}]
)
def test_what_is_no_condition_ends_the_call(rpcs: Rpcs, kind: str, condition: Json) -> None:
    code, text = rpcs.status(an_event(kind, model=spec("nothing"), condition=condition))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("invalid condition: ")


def finished(rpcs: Rpcs, snapshot: str) -> Json:
    """The status of a search that has come to its end, which nobody announces."""
    waited = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        status = rpcs.done("SnapshotGetStatusRequest", snapshotId=snapshot)["status"]
        if status["status"] != "RUNNING":
            return status
        waited.wait(0.01)
    raise AssertionError("the search goes on and on")


def submitted(rpcs: Rpcs, **members: Json) -> str:
    asked = {"model": spec(), "condition": EVERY} | members
    answer = rpcs.done("EntitySnapshotSearchRequest", **asked)
    assert set(answer) == {"id", "success", "status"}
    snapshot = answer["status"].pop("snapshotId")
    assert UUID(snapshot).version == 1
    assert answer["status"] == {"status": "RUNNING", "entitiesCount": 0}
    return str(snapshot)


def test_a_snapshot_search_runs_in_the_background_and_keeps_what_it_found(api: Api, rpcs: Rpcs) -> None:
    entities = some_prizes(api, *range(12))
    snapshot = submitted(rpcs, orderBy=[{"path": "year", "desc": True}])
    assert finished(rpcs, snapshot) == {"snapshotId": snapshot, "status": "SUCCESSFUL", "entitiesCount": 12}
    api.update(entities[11], {"year": 100})
    api.delete(f"/entity/{entities[10]}")
    assert years(rpcs.ask("SnapshotGetRequest", snapshotId=snapshot)) == [11, 10, 9, 8, 7, 6, 5, 4, 3, 2]
    assert years(rpcs.ask("SnapshotGetRequest", snapshotId=snapshot, pageNumber=1)) == [1, 0]
    assert len(rpcs.ask("SnapshotGetRequest", snapshotId=snapshot, pageSize=0)) == 12
    assert rpcs.ask("SnapshotGetRequest", snapshotId=snapshot, pageNumber=9) == []


def test_cancelling_a_search_that_has_ended_tells_how_it_ended(api: Api, rpcs: Rpcs) -> None:
    some_prizes(api, 1)
    snapshot = submitted(rpcs)
    before = finished(rpcs, snapshot)
    assert rpcs.done("SnapshotCancelRequest", snapshotId=snapshot)["status"] == before


@pytest.mark.parametrize("snapshot", [UNKNOWN, "no-uuid", ""])
def test_an_unknown_snapshot_is_not_found(rpcs: Rpcs, snapshot: str) -> None:
    for kind in ("SnapshotGetStatusRequest", "SnapshotCancelRequest"):
        answer = rpcs.refused(kind, "SEARCH_JOB_NOT_FOUND", snapshotId=snapshot)
        assert answer["status"] == {"snapshotId": NIL, "status": "FAILED"}
    answer = rpcs.refused("SnapshotGetRequest", "SEARCH_JOB_NOT_FOUND", snapshotId=snapshot)
    assert answer["payload"] == {"type": "JSON"}


@pytest.mark.parametrize("members", [{"pageSize": -1}, {"pageSize": 10_001}, {"pageNumber": -1}])
def test_the_pages_of_a_snapshot_have_limits(api: Api, rpcs: Rpcs, members: Json) -> None:
    some_prizes(api, 1)
    snapshot = submitted(rpcs)
    finished(rpcs, snapshot)
    rpcs.refused("SnapshotGetRequest", "BAD_REQUEST", snapshotId=snapshot, **members)


def test_a_snapshot_of_another_tenant_is_not_found(service: Json, api: Api, rpcs: Rpcs) -> None:
    some_prizes(api, 1)
    stranger = Rpcs(service.grpc, service.api("another-tenant").token)
    stranger.refused("SnapshotGetStatusRequest", "SEARCH_JOB_NOT_FOUND", snapshotId=submitted(rpcs))


def test_every_model_is_counted_also_one_without_entities(api: Api, rpcs: Rpcs) -> None:
    some_prizes(api, 1, 2)
    api.import_model("empty/3", {"a": 1})
    counted = {
        (answer["modelName"], answer["modelVersion"]): answer["count"] for answer in rpcs.ask("EntityStatsGetRequest")
    }
    assert counted == {("prize", 1): 2, ("empty", 3): 0}
    for anything in (None, spec("", 0)):
        assert len(rpcs.ask("EntityStatsGetRequest", model=anything)) == 2
    one = rpcs.done("EntityStatsGetRequest", model=spec())
    assert one == {
        "id": "ce-7",
        "requestId": "ce-7",
        "success": True,
        "modelName": "prize",
        "modelVersion": 1,
        "count": 2,
    }


def test_states_are_counted_apart_and_only_those_asked_for(api: Api, rpcs: Rpcs) -> None:
    first, *_ = some_prizes(api, 1, 2, 3)
    api.update(first, fire="GO")

    def counted(**members: Json) -> dict[str, int]:
        answers = rpcs.ask("EntityStatsByStateGetRequest", **members)
        return {answer["state"]: answer["count"] for answer in answers}

    assert counted() == counted(states=[]) == counted(states=None) == counted(model=spec()) == {"NEW": 2, "DONE": 1}
    assert counted(states=["DONE", "NOWHERE"]) == {"DONE": 1}
    assert counted(states=["NOWHERE"]) == {}


def test_the_past_is_counted_as_it_was(api: Api, rpcs: Rpcs) -> None:
    """Decision S17."""
    some_prizes(api, 1)
    for model in (None, spec()):
        [answer] = rpcs.ask("EntityStatsGetRequest", model=model, pointInTime="2001-01-01T00:00:00Z")
        assert answer["count"] == 0
        [answer] = rpcs.ask("EntityStatsByStateGetRequest", model=model, pointInTime="2999-01-01T00:00:00Z")
        assert (answer["state"], answer["count"]) == ("NEW", 1)


def test_an_unknown_model_has_no_numbers(rpcs: Rpcs) -> None:
    answer = rpcs.refused("EntityStatsGetRequest", "MODEL_NOT_FOUND", model=spec("nothing"))
    assert (answer["modelName"], answer["modelVersion"], answer["count"]) == ("", 0, 0)
    answer = rpcs.refused("EntityStatsByStateGetRequest", "MODEL_NOT_FOUND", model=spec("nothing"))
    assert (answer["modelName"], answer["modelVersion"], answer["state"], answer["count"]) == ("", 0, "", 0)


def test_the_history_of_an_entity_is_told_newest_first(api: Api, rpcs: Rpcs) -> None:
    [entity] = some_prizes(api, 1)
    updated = api.update(entity, {"year": 2})
    api.delete(f"/entity/{entity}")
    history = [answer["changeMeta"] for answer in rpcs.ask("EntityChangesMetadataGetRequest", entityId=entity)]
    assert [change["changeType"] for change in history] == ["DELETE", "UPDATE", "CREATE"]
    assert [set(change) for change in history] == [
        {"changeType", "timeOfChange", "user"},
        {"changeType", "timeOfChange", "user", "transactionId"},
        {"changeType", "timeOfChange", "user", "transactionId"},
    ]
    assert (history[1]["transactionId"], history[1]["user"]) == (updated.transaction, "alice")
    until = rpcs.ask("EntityChangesMetadataGetRequest", entityId=entity, pointInTime=history[1]["timeOfChange"])
    assert [answer["changeMeta"] for answer in until] == history[1:]


def test_what_never_was_has_no_history(rpcs: Rpcs) -> None:
    for entity in (UNKNOWN, "no-uuid"):
        answer = rpcs.refused("EntityChangesMetadataGetRequest", "ENTITY_NOT_FOUND", entityId=entity)
        assert answer["changeMeta"] == {"changeType": "", "timeOfChange": "0001-01-01T00:00:00Z", "user": ""}


def test_a_thousand_entities_are_streamed(api: Api, rpcs: Rpcs) -> None:
    api.a_model()
    payloads = [{"model": spec(), "data": SAMPLE}] * 1000
    rpcs.done("EntityCreateCollectionRequest", dataFormat="JSON", payloads=payloads)
    answers = rpcs.ask("EntitySearchRequest", model=spec(), condition=EVERY)
    assert len({answer["payload"]["meta"]["id"] for answer in answers}) == 1000

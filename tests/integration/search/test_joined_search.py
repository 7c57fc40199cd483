"""Searching from inside a transaction (docs/reference/search.md#searching-inside-a-transaction)."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated
from tests.integration.search.finding import EVERYTHING, PARCEL, a_parcel_model, asked, found, parcels, simple
from tests.service import Api, done, refused, wait_for

Work = Callable[[Api], Any]
Transaction = Callable[[Work], httpx.Response]

PATTERN = simple("$.name", "MATCHES_PATTERN", "[a-d]")
FRAGILE = simple("$.fragile", "EQUALS", True)


@pytest.fixture
def transaction(api: Api, serving: Any, callback: Any) -> Transaction:
    """Does work inside a transaction, through an API that joins it; the response of the request that began it."""
    a_parcel_model(api)
    node, todo = Node(tags=["node"]), list[Work]()

    @node.processor("enrich")
    def enrich(_document: Json, context: Any) -> None:
        todo.pop()(callback(context))

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))

    def run(work: Work) -> httpx.Response:
        todo.append(work)
        return api.post(f"/entity/JSON/{model}", SAMPLE)

    return run


@pytest.mark.parametrize("condition", [FRAGILE, PATTERN])
def test_a_transaction_sees_its_own_writes_and_others_do_not(
    api: Api, transaction: Transaction, condition: Json
) -> None:
    kept, changed, deleted = parcels(api, {"name": "a"}, {"name": "b"}, {"name": "c"})
    seen = {}

    def work(joined: Api) -> None:
        parcels(joined, {"name": "d"})
        joined.update(changed.id, {**PARCEL, "name": "x", "fragile": False})
        done(joined.delete(f"/entity/{deleted.id}"))
        seen["inside"] = found(joined, condition, sort="name:desc")
        seen["outside"] = found(api, condition, sort="name:desc")
        joined.update(changed.id, {**PARCEL, "name": "b"})
        seen["later"] = found(joined, condition, sort="name")

    done(transaction(work))
    assert seen == {"inside": ["d", "a"], "outside": ["c", "b", "a"], "later": ["a", "b", "d"]}
    assert found(api, condition, sort="name") == ["a", "b", "d"]
    assert api.state(kept.id) == "CREATED"


def test_the_limit_counts_what_is_committed_and_what_is_not(api: Api, transaction: Transaction) -> None:
    parcels(api, {}, {})
    seen = []

    def work(joined: Api) -> None:
        parcels(joined, {})
        seen.append(len(found(joined, EVERYTHING, limit=3)))
        problem = refused(asked(joined, EVERYTHING, limit=2), 400, "SEARCH_RESULT_LIMIT")
        assert "more than 2 " in problem["detail"]
        parcels(joined, {}, {})
        assert "more than 2 " in refused(asked(joined, FRAGILE, limit=2), 400, "SEARCH_RESULT_LIMIT")["detail"]
        seen.append(len(found(joined, EVERYTHING)))

    done(transaction(work))
    assert seen == [3, 5]


def test_the_past_knows_nothing_of_a_transaction(api: Api, transaction: Transaction) -> None:
    parcels(api, {"name": "a"})
    seen = []

    def work(joined: Api) -> None:
        parcels(joined, {"name": "b"})
        seen.append(found(joined, EVERYTHING, pointInTime="2999-01-01T00:00:00Z"))

    done(transaction(work))
    assert seen == [["a"]]


@pytest.mark.parametrize(("tracking", "status"), [("true", 409), ("false", 200)])
def test_a_tracked_entity_that_somebody_changes_first_is_a_conflict(
    api: Api, transaction: Transaction, tracking: str, status: int
) -> None:
    [parcel] = parcels(api, {"name": "a"})

    def work(joined: Api) -> None:
        assert found(joined, FRAGILE, trackingRead=tracking) == ["a"]
        api.update(parcel.id, {**PARCEL, "name": "z"})

    response = transaction(work)
    assert response.status_code == status
    if status == 409:
        assert refused(response, 409, "CONFLICT")["properties"]["retryable"] is True


def test_what_was_not_returned_is_not_tracked(api: Api, transaction: Transaction) -> None:
    other, written = parcels(api, {"name": "b", "fragile": False}, {"name": "c"})

    def work(joined: Api) -> None:
        joined.update(written.id, {**PARCEL, "name": "c2"})
        assert found(joined, FRAGILE, trackingRead="true") == ["c2"]
        refused(asked(joined, EVERYTHING, trackingRead="true", limit=1), 400, "SEARCH_RESULT_LIMIT")
        api.update(other.id, {**PARCEL, "name": "b2"})
        parcels(api, {"name": "phantom"})

    done(transaction(work))


def test_a_refused_search_leaves_the_transaction_usable(api: Api, transaction: Transaction) -> None:
    def work(joined: Api) -> None:
        parcels(joined, {"name": "a"})
        refused(asked(joined, simple("$.colour", "IS_NULL")), 400, "INVALID_FIELD_PATH")
        refused(asked(joined, "{"), 400, "BAD_REQUEST")
        assert found(joined, EVERYTHING) == ["a"]

    done(transaction(work))
    assert found(api, EVERYTHING) == ["a"]


def test_a_job_runs_on_committed_data_also_when_it_is_submitted_inside(api: Api, transaction: Transaction) -> None:
    parcels(api, {"name": "a"})
    jobs = []

    def work(joined: Api) -> None:
        parcels(joined, {"name": "b"})
        jobs.append(done(asked(joined, EVERYTHING, path="/search/async/parcel/1")))

    done(transaction(work))
    path = f"/search/async/{jobs[0]}/status"
    status = wait_for(lambda: done(api.get(path)), lambda seen: seen["searchJobStatus"] != "RUNNING")
    assert status["entitiesCount"] == 1


def test_a_search_by_a_unique_key_sees_what_its_transaction_has_made_of_it(api: Api, transaction: Transaction) -> None:
    api.import_model("badge/1", {"no": "a", "holder": "x"})
    done(api.put("/model/badge/1/unique-keys", {"uniqueKeys": [{"id": "no", "fields": ["$.no"]}]}))
    api.lock("badge/1")
    badge = api.create({"no": "a", "holder": "first"}, model="badge/1").id
    seen = {}

    def holders(asking: Api, number: str) -> list[str]:
        response = asked(asking, simple("$.no", "EQUALS", number), path="/search/direct/badge/1")
        return [json.loads(line)["data"]["holder"] for line in response.text.splitlines()]

    def work(joined: Api) -> None:
        joined.update(badge, {"no": "b", "holder": "first"})
        joined.create({"no": "a", "holder": "second"}, model="badge/1")
        seen["inside"] = holders(joined, "a"), holders(joined, "b")
        seen["outside"] = holders(api, "a"), holders(api, "b")

    done(transaction(work))
    assert seen == {"inside": (["second"], ["first"]), "outside": (["first"], [])}
    assert (holders(api, "a"), holders(api, "b")) == (["second"], ["first"])

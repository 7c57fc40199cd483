"""Events of runs, page by page (docs/reference/operations.md#events-of-runs)."""

import pytest

from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.integration.ops.builders import ops_api, walk
from tests.service import Api, RunningService, done, refused

TURN = a_workflow(A=[manual("GO", to="B")], B=[manual("BACK", to="A")])


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def a_moving_entity(api: Api, moves: int) -> str:
    api.a_model(TURN)
    entity = api.create().id
    for number in range(moves):
        api.update(entity, SAMPLE, fire="BACK" if number % 2 else "GO")
    return entity


def by_the_other_api(api: Api, entity: str) -> list[tuple[str, str, str]]:
    """What the dialect lists, whose cursor is an offset."""
    items = done(api.get(f"/audit/entity/{entity}?eventType=StateMachine&limit=1000"))["items"]
    return [(item["transactionId"], item["eventType"], item["details"]) for item in items]


def told(items: list[Json]) -> list[tuple[str, str, str]]:
    return [(item["transactionId"], item["eventType"], item["details"]) for item in items]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
def test_pages_of_any_size_tell_every_event_once(api: Api, ops: Api, limit: int) -> None:
    entity = a_moving_entity(api, 3)
    expected = by_the_other_api(api, entity)
    if limit < 1000:
        assert told(walk(ops, f"/entities/{entity}/events", limit=limit)) == expected
    assert told(done(ops.get(f"/entities/{entity}/events?limit=1000"))["items"]) == expected


def test_runs_that_come_meanwhile_move_nothing(api: Api, ops: Api) -> None:
    entity = a_moving_entity(api, 2)
    expected = by_the_other_api(api, entity)
    path = f"/entities/{entity}/events?limit=4"
    page = done(ops.get(path))
    items = page["items"]
    while "nextCursor" in page:
        api.update(entity, SAMPLE)
        page = done(ops.get(f"{path}&cursor={page['nextCursor']}"))
        items += page["items"]
    assert told(items) == expected


def test_the_events_of_one_run(api: Api, ops: Api) -> None:
    entity = a_moving_entity(api, 1)
    last = by_the_other_api(api, entity)[0][0]
    found = told(done(ops.get(f"/entities/{entity}/events?transactionId={last}"))["items"])
    assert found == [each for each in by_the_other_api(api, entity) if each[0] == last]


def test_a_deleted_entity_keeps_its_events_and_a_foreign_one_is_unknown(
    service: RunningService, api: Api, ops: Api, tenant: str
) -> None:
    entity = a_moving_entity(api, 1)
    before = by_the_other_api(api, entity)
    done(api.delete(f"/entity/{entity}"))
    assert told(done(ops.get(f"/entities/{entity}/events"))["items"]) == before
    refused(ops_api(service, f"{tenant}-x").get(f"/entities/{entity}/events"), 404, "ENTITY_NOT_FOUND")
    page = done(ops.get(f"/entities/{entity}/events?limit=1"))
    other = ops.get(f"/entities/{entity}/events?limit=1&transactionId={before[0][0]}&cursor={page['nextCursor']}")
    assert refused(other, 400, "BAD_REQUEST")["properties"]["parameter"] == "cursor"

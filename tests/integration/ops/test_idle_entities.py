"""The oldest entities in states that can still move (docs/reference/operations.md#idle-entities)."""

import asyncio

import pytest

from statewright.entity import ModelKey
from statewright.ids import model_id
from statewright.storage.ops import listings
from statewright.storage.ops.listings import OLDEST_OF_PART, PART
from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.integration.ops.builders import ops_api
from tests.integration.ops.test_searches import FILL
from tests.service import PATIENCE_S, Api, RunningService, done

WORKFLOW = a_workflow(
    OPEN=[manual("CHANGE", to="OPEN"), manual("SEND", to="SENT")],
    SENT=[manual("CLOSE", to="CLOSED")],
    CLOSED=[manual("REOPEN", to="OPEN", disabled=True)],
)


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def list_all(ops: Api, limit: int = 50) -> tuple[list[Json], int]:
    """The items of all pages, and how many pages there are."""
    items, pages, cursor = [], 0, ""
    while True:
        page = done(ops.get(f"/idle-entities?limit={limit}{cursor}"))
        items, pages = items + page["items"], pages + 1
        assert page["complete"] == (pages == 1 and "nextCursor" not in page)
        if "nextCursor" not in page:
            return items, pages
        cursor = f"&cursor={page['nextCursor']}"


def test_what_was_written_longest_ago_comes_first(api: Api, ops: Api) -> None:
    api.a_model(WORKFLOW)
    api.a_model(WORKFLOW, model="order/2")
    first, second, third = api.create().id, api.create(model="order/2").id, api.create().id
    api.update(first, SAMPLE, fire="CHANGE")
    items, _ = list_all(ops)
    assert [item["entityId"] for item in items] == [second, third, first]
    assert items[0]["model"] == {"name": "order", "version": 2}
    assert items[0]["since"] == items[0]["writtenAt"] == api.read(second)["meta"]["lastUpdateTime"]
    assert items[2]["since"] == api.read(first)["meta"]["creationDate"] < items[2]["writtenAt"]
    assert [item["entityId"] for item in list_all(ops, limit=1)[0]] == [second]
    only = done(ops.get("/idle-entities?model=prize"))
    assert [item["entityId"] for item in only["items"]] == [third, first]


def test_the_time_is_that_of_entering_the_state(api: Api, ops: Api) -> None:
    api.a_model(WORKFLOW)
    entity = api.create().id
    api.update(entity, SAMPLE, fire="SEND")
    entered = api.read(entity)["meta"]["lastUpdateTime"]
    api.update(entity)
    [item] = list_all(ops)[0]
    assert (item["state"], item["since"]) == ("SENT", entered)
    assert item["writtenAt"] > entered


def test_what_cannot_move_is_left_out(api: Api, ops: Api, service: RunningService, tenant: str) -> None:
    api.a_model(WORKFLOW)
    api.a_model(model="plain/1")
    api.create(model="plain/1")
    closed = api.create().id
    for transition in ("SEND", "CLOSE"):
        api.update(closed, SAMPLE, fire=transition)
    assert done(ops.get("/idle-entities"))["items"] == []
    api.create()
    assert done(ops_api(service, f"{tenant}-x").get("/idle-entities")) == {
        "items": [],
        "scanned": 0,
        "complete": True,
    }


@pytest.mark.parametrize("parts", [1, 2, 10])
def test_a_request_looks_at_a_bounded_part(api: Api, ops: Api, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    monkeypatch.setattr(listings, "PART", 2)
    monkeypatch.setattr(listings, "MAX_PARTS", parts)
    for model in ("order/1", "prize/1"):
        api.a_model(WORKFLOW, model=model)
    created = {api.create(model=model).id for model in ("order/1", "prize/1") for _ in range(3)}
    items, pages = list_all(ops)
    assert {item["entityId"] for item in items} == created
    assert len(items) == len(created)
    assert pages == {1: 4, 2: 2, 10: 1}[parts]


def test_a_part_is_a_range_of_an_index(api: Api, service: RunningService, tenant: str) -> None:
    for each in ("order/1", "prize/1"):
        api.a_model(WORKFLOW, model=each)
        api.create(model=each)

    async def explain() -> str:
        async with service.parts.runtime.core.pool.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                await connection.execute(FILL, tenant, 2 * PART)
                await connection.execute("ANALYZE entity")
                key = ModelKey("prize", 1)
                model = model_id(key.name, key.version)
                arguments = (tenant, model, "00000000-0000-0000-0000-000000000000", PART, ["OPEN", "SENT"], 50)
                rows = await connection.fetch(f"EXPLAIN (ANALYZE, COSTS OFF) {OLDEST_OF_PART}", *arguments)
            finally:
                await transaction.rollback()
            return "\n".join(row[0] for row in rows)

    plan = asyncio.run_coroutine_threadsafe(explain(), service.loop).result(PATIENCE_S)
    assert "Seq Scan on entity" not in plan, plan
    assert "entity_model" in plan, plan

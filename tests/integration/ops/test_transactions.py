"""What a transaction has written (docs/reference/operations.md#transactions)."""

import asyncio

import pytest

from statewright.ids import find_time
from statewright.storage.ops.history import FILED
from tests.builders import SAMPLE, a_workflow, manual
from tests.integration.ops.builders import ops_api, walk
from tests.service import PATIENCE_S, Api, RunningService, done, refused

WORKFLOW = a_workflow(OPEN=[manual("SEND", to="SENT")], SENT=[])
UNKNOWN = "9f8d6a10-e6c2-11f1-b054-d3ab3a78ba1c"


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def test_the_entity_of_a_transition_is_told(api: Api, ops: Api) -> None:
    api.a_model(WORKFLOW)
    created = api.create()
    sent = api.update(created.id, SAMPLE, fire="SEND")
    [item] = done(ops.get(f"/transactions/{sent.transaction}/entities"))["items"]
    assert (item["entityId"], item["state"], item["transition"]) == (created.id, "SENT", "SEND")
    assert (item["changeType"], item["versions"], item["model"]) == ("UPDATE", 1, {"name": "prize", "version": 1})
    events = walk(ops, f"/entities/{created.id}/events", limit=50)
    assert item["events"] == sum(event["transactionId"] == sent.transaction for event in events) > 0
    [item] = done(ops.get(f"/transactions/{created.transaction}/entities"))["items"]
    assert (item["state"], item["changeType"]) == ("OPEN", "CREATE")


def test_all_entities_of_a_collection_are_listed_page_by_page(api: Api, ops: Api) -> None:
    api.a_model(WORKFLOW)
    [result] = done(api.post("/entity/JSON/prize/1", [SAMPLE, SAMPLE, SAMPLE]))
    assert len(result["entityIds"]) == 3
    listed = walk(ops, f"/transactions/{result['transactionId']}/entities", limit=1)
    assert [item["entityId"] for item in listed] == sorted(result["entityIds"])


def test_unknown_and_foreign_transactions_have_written_nothing(
    api: Api, ops: Api, service: RunningService, tenant: str
) -> None:
    api.a_model(WORKFLOW)
    created = api.create()
    assert done(ops.get(f"/transactions/{UNKNOWN}/entities")) == {"items": []}
    assert done(ops.get("/transactions/0d4f3f34-52b6-4c1f-8f0c-1d6a1f1c1c1c/entities")) == {"items": []}
    other = ops_api(service, f"{tenant}-x")
    assert done(other.get(f"/transactions/{created.transaction}/entities")) == {"items": []}
    problem = refused(ops.get("/transactions/x/entities"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "transactionId"


FILL = """
    INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
    SELECT $1, gen_random_uuid(), $2::bigint - n * 1000000::bigint, gen_random_uuid(), 1, '[]'
      FROM generate_series(1, 60000) AS n
"""


def test_events_are_looked_up_by_their_time(api: Api, service: RunningService, tenant: str) -> None:
    api.a_model(WORKFLOW)
    created = api.create()
    made_at = find_time(created.transaction)
    assert made_at is not None

    async def explain() -> str:
        async with service.parts.runtime.core.pool.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                await connection.execute(FILL, tenant, made_at)
                await connection.execute("SELECT brin_summarize_new_values('entity_audit_at')")
                await connection.execute("ANALYZE entity_audit")
                window = (made_at - 60_000_000, made_at + 120_000_000)
                first = "00000000-0000-0000-0000-000000000000"
                rows = await connection.fetch(
                    f"EXPLAIN (COSTS OFF) {FILED}", tenant, created.transaction, *window, first, 50
                )
            finally:
                await transaction.rollback()
            return "\n".join(row[0] for row in rows)

    plan = asyncio.run_coroutine_threadsafe(explain(), service.loop).result(PATIENCE_S)
    assert "Seq Scan" not in plan, plan
    assert "entity_audit_at" in plan, plan

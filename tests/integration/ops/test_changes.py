"""Changes of the entities of a tenant (docs/reference/operations.md#changes)."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from statewright.instants import parse_instant
from statewright.storage.ops import history
from statewright.storage.ops.history import PART, ChangeFilter, FoundChanges
from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.database import connected
from tests.integration.ops.builders import ops_api
from tests.service import PATIENCE_S, Api, RunningService, done, refused

WORKFLOW = a_workflow(OPEN=[manual("SEND", to="SENT")], SENT=[])


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant)


def list_all(ops: Api, query: str = "", limit: int = 50) -> list[Json]:
    """The items of all pages."""
    items, cursor = [], ""
    while True:
        page = done(ops.get(f"/changes?limit={limit}{query}{cursor}"))
        items += page["items"]
        if "nextCursor" not in page:
            return items
        assert len(page["items"]) <= limit
        cursor = f"&cursor={page['nextCursor']}"


def test_changes_are_listed_newest_first_with_who_did_what(
    service: RunningService, api: Api, ops: Api, tenant: str
) -> None:
    api.a_model(WORKFLOW)
    service.api(tenant, "bob").a_model(WORKFLOW, model="order/1")
    first = api.create()
    second = service.api(tenant, "bob").create(model="order/1")
    sent = api.update(first.id, SAMPLE, fire="SEND")
    listed = list_all(ops)
    runs = [(each["entityId"], each["transactionId"], each["changeType"], each["state"]) for each in listed]
    assert runs == [
        (first.id, sent.transaction, "UPDATE", "SENT"),
        (second.id, second.transaction, "CREATE", "OPEN"),
        (first.id, first.transaction, "CREATE", "OPEN"),
    ]
    assert [each["attributedTo"]["id"] for each in listed] == ["alice", "bob", "alice"]
    assert (listed[0]["transition"], listed[0]["model"]) == ("SEND", {"name": "prize", "version": 1})
    assert listed[0]["events"] == len(
        done(ops.get(f"/entities/{first.id}/events?transactionId={sent.transaction}"))["items"]
    )
    assert list_all(ops, limit=1) == listed
    assert list_all(ops, "&model=order") == list_all(ops, "&actor=bob") == [listed[1]]
    assert list_all(ops, f"&atTo={listed[0]['at']}") == listed[1:]
    assert list_all(ops, f"&atFrom={listed[1]['at']}") == listed[:2]
    assert list_all(ops, "&actor=nobody") == []
    assert done(ops_api(service, f"{tenant}-x").get("/changes")) == {"items": [], "scanned": 0}


def test_what_cannot_be_listed_is_refused(ops: Api) -> None:
    for query, parameter in (("limit=0", "limit"), ("atFrom=soon", "atFrom"), ("cursor=x", "cursor"), ("odd=1", "odd")):
        assert refused(ops.get(f"/changes?{query}"), 400, "BAD_REQUEST")["properties"]["parameter"] == parameter


FILL = """
    INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
    SELECT $1, gen_random_uuid(), $2::bigint - n * $3::bigint, gen_random_uuid(), 1, '[]'
      FROM generate_series(1, $4) AS n
"""
NOW = 1_770_000_000_000_000
HOUR = 3_600_000_000


def run_in_service(service: RunningService, work: Callable[[], Awaitable[FoundChanges]]) -> FoundChanges:
    return asyncio.run_coroutine_threadsafe(work(), service.loop).result(PATIENCE_S)  # type: ignore[arg-type]


async def test_a_request_looks_at_so_much_only_and_the_next_one_goes_on_from_there(
    service: RunningService, tenant: str
) -> None:
    async with connected(service.database) as database:
        await database.execute(FILL, tenant, NOW, HOUR, 300)

    def find(after: history.ChangeKey | None, wanted: ChangeFilter) -> FoundChanges:
        search = service.parts.runtime.core.search
        return run_in_service(
            service,
            lambda: history.find_changes(search, tenant, wanted, now=NOW, limit=40, after=after, max_scanned=100),  # type: ignore[arg-type]
        )

    found, position, requests = list[int](), None, 0
    while requests == 0 or position is not None:
        page = find(position, ChangeFilter())
        found += [parse_instant(each.at) for each in page.found]
        position, requests = page.position, requests + 1
    assert found == [NOW - n * HOUR for n in range(1, 301)]
    nothing = find(None, ChangeFilter(model="prize"))
    assert (nothing.found, nothing.scanned >= 100, nothing.position is not None) == ((), True, True)
    between = find(None, ChangeFilter(since=NOW - 20 * HOUR, before=NOW - 10 * HOUR))
    assert [parse_instant(each.at) for each in between.found] == [NOW - n * HOUR for n in range(11, 21)]
    assert between.position is None


async def test_changes_are_looked_up_by_their_time(service: RunningService, tenant: str) -> None:
    async with connected(service.database) as database:
        transaction = database.transaction()
        await transaction.start()
        try:
            plan = await explain_part(database, tenant)
        finally:
            await transaction.rollback()
    assert "Seq Scan" not in plan, plan
    assert "entity_audit_at" in plan, plan


async def explain_part(database: asyncpg.Connection, tenant: str) -> str:
    await database.execute(FILL, tenant, NOW, 1_000_000, 60_000)
    await database.execute("SELECT brin_summarize_new_values('entity_audit_at')")
    await database.execute("ANALYZE entity_audit")
    last = "ffffffff-ffff-ffff-ffff-ffffffffffff"
    window = (NOW - 40_000_000, NOW - 30_000_000)
    rows = await database.fetch(f"EXPLAIN (COSTS OFF) {PART}", tenant, *window, last, last, 51)
    return "\n".join(row[0] for row in rows)

"""What is read and written for one entity or delivery is found by keys, however much there is
(docs/reference/operations.md#explain).
"""

import asyncio
import re
from uuid import uuid4

import pytest

from statewright.storage.ops.explanations import OBSERVE
from statewright.storage.ops.history import LAST, RUNS
from statewright.storage.ops.incidents import OPEN_OF
from statewright.storage.ops.subscriptions import NOTE
from tests.service import PATIENCE_S, Api, RunningService

FILL = """
    INSERT INTO incident (tenant, id, kind, severity, fingerprint, title, first_at, last_at, occurrences, subject_kind,
                          subject_id, model, state, code, message, attempts, principal_id, principal_kind,
                          payload_omitted)
    SELECT $1, gen_random_uuid(), 'RUN_FAILED', 'ERROR', md5(n::text), 't', n, n, 1, 'ENTITY',
           gen_random_uuid()::text, 'prize/1', 'NEW', 'X', 'm', '[]', 'ada', 'user', false
      FROM generate_series(1, 5000) AS n
"""


@pytest.mark.parametrize(
    ("statement", "arguments", "indexes"),
    [
        pytest.param(OPEN_OF, (10,), {"incident_open"}, id="incidents"),
        pytest.param(
            RUNS, (LAST.at, LAST.transaction, LAST.number, None, 51), {"entity_audit_entity", "at <="}, id="events"
        ),
        pytest.param(OBSERVE, (), {"on entity ", "scheduled_task_pkey", "entity_history_pkey"}, id="entity"),
    ],
)
def test_an_explanation_reads_by_keys(
    service: RunningService, tenant: str, api: Api, statement: str, arguments: tuple[object, ...], indexes: set[str]
) -> None:
    entity = api.create(model=api.a_model()).id
    api.update(entity)

    async def explain() -> str:
        async with service.parts.runtime.core.pool.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                await connection.execute(FILL, tenant)
                await connection.execute("ANALYZE incident")
                await connection.execute("SET LOCAL enable_seqscan = off")  # other tables have few rows here
                rows = await connection.fetch(f"EXPLAIN {statement}", tenant, entity, *arguments)
            finally:
                await transaction.rollback()
            return "\n".join(row[0] for row in rows)

    plan = asyncio.run_coroutine_threadsafe(explain(), service.loop).result(PATIENCE_S)
    assert "Seq Scan" not in plan
    assert all(index in plan for index in indexes), plan


PARK = """
    INSERT INTO event_delivery (tenant, subscription, at, transaction_id, entity, id, type, tried_at, next_at)
    SELECT $1, $2, n, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 't', 0, 0
      FROM generate_series(1, 5000) AS n
"""


@pytest.mark.parametrize("statistics", ["SELECT 1", "ANALYZE event_delivery"], ids=["none", "fresh"])
def test_an_attempt_is_noted_by_the_key_of_its_delivery(service: RunningService, tenant: str, statistics: str) -> None:
    """Ten thousand deliveries of a subscription may wait; those that are not looked at cost an attempt nothing."""
    subscription = str(uuid4())
    told = ([1], [str(uuid4())], [str(uuid4())], [str(uuid4())], ["DELIVERED"], [1], [1], [None], [204], [None], [""])

    async def explain() -> str:
        async with service.parts.runtime.core.pool.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                await connection.execute(PARK, tenant, subscription)
                await connection.execute(statistics)
                await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
                arguments = (tenant, subscription, "n", True, 0, *told)
                rows = await connection.fetch(f"EXPLAIN {NOTE}", *arguments)
            finally:
                await transaction.rollback()
            return "\n".join(row[0] for row in rows)

    plan = asyncio.run_coroutine_threadsafe(explain(), service.loop).result(PATIENCE_S)
    assert re.search(r"Index Cond: .*\(at = told\.at\) AND \(transaction_id = told\.transaction_id\)", plan), plan
    assert "Seq Scan on event_delivery" not in plan, plan

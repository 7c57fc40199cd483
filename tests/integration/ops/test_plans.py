"""What explaining an entity reads is found by keys, however much there is (docs/reference/operations.md#explain)."""

import asyncio

import pytest

from statewright.storage.ops.explanations import OBSERVE
from statewright.storage.ops.history import LAST, RUNS
from statewright.storage.ops.incidents import OPEN_OF
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

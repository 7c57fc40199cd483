"""What ``benchmarks.console`` looks at: an installation of fifty models, most entities in one of them, with incidents."""

from collections.abc import Callable
from typing import Any, Final

import asyncpg

from benchmarks.processes import SERVICE_TENANT
from benchmarks.search_cases import simple
from statewright.ids import model_id

MAIN: Final = "order"
SHARE: Final = 0.8
"""Of the entities, those of the main model; the others share the rest."""
INCIDENTS: Final = 2_000
CLOSED_INCIDENTS: Final = 20_000
"""More than any page may read."""
CAUSES: Final = 40
BATCH: Final = 100_000

SAMPLE: Final = {
    "number": 1,
    "customer": "Ada",
    "amount": 120.5,
    "city": "Oslo",
    "paid": False,
    "lines": [{"sku": "A-1", "count": 2}],
}

STATES: Final = ("NEW", "PAID", "PACKED", "SHIPPED", "HELD", "CANCELLED")

WORKFLOW: Final = {
    "version": "1.3",
    "name": "fulfilment",
    "initialState": "NEW",
    "states": {
        "NEW": {
            "transitions": [
                {"name": "PAY", "next": "PAID", "manual": True},
                {
                    "name": "HOLD",
                    "next": "HELD",
                    "manual": True,
                    "criterion": simple("$.amount", "GREATER_THAN", 10_000),
                },
            ]
        },
        "PAID": {
            "transitions": [
                {
                    "name": "PACK",
                    "next": "PACKED",
                    "manual": True,
                    "processors": [
                        {
                            "type": "externalized",
                            "name": "pack",
                            "executionMode": "SYNC",
                            "config": {"calculationNodesTags": "packing"},
                        }
                    ],
                },
                {"name": "CANCEL", "next": "CANCELLED", "manual": True},
            ]
        },
        "PACKED": {"transitions": [{"name": "SHIP", "next": "SHIPPED", "manual": True}]},
        "HELD": {"transitions": [{"name": "RELEASE", "next": "NEW", "manual": True}]},
        "SHIPPED": {"transitions": []},
        "CANCELLED": {"transitions": []},
    },
}

Ask = Callable[[str, str, Any], Any]
"""Method, path below the context path and JSON to the decoded answer of a request that succeeded."""

FILL: Final = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT $1, gen_random_uuid(), $2, ($3::text[])[1 + (n % 97) % 6], gen_random_uuid(), gen_random_uuid(),
           $6 - n * 1000::bigint, $6 - n * 1000::bigint, 'loopback', 'fulfilment', 0, 'u', 'user', 'u', 'user',
           jsonb_build_object('number', n, 'customer', 'c' || n % 5000, 'amount', (n % 20000) / 2.0,
                              'city', (ARRAY['Oslo', 'Rome', 'Wien', 'Bonn'])[1 + n % 4], 'paid', n % 3 = 0,
                              'lines', jsonb_build_array(jsonb_build_object('sku', 'L' || n % 50000, 'count', n % 7)))
      FROM generate_series($4::int, $5::int) AS n
"""

FILL_INCIDENTS: Final = """
    -- Of real entities in the states that they are in: else they would be closed as settled.
    INSERT INTO incident (tenant, id, kind, severity, fingerprint, title, first_at, last_at, occurrences, subject_kind,
                          subject_id, model, state, code, message, attempts, principal_id, principal_kind,
                          payload_omitted)
    SELECT $1, gen_random_uuid(), 'RUN_FAILED', 'ERROR', md5((n % $4::int)::text), 'cause ' || n % $4::int, now_us(),
           now_us() + n, 1, 'ENTITY', id, $3, state, 'PROCESSOR_FAILED', 'no box is left', '[]', 'u', 'user', true
      FROM (SELECT id, state, row_number() OVER () AS n
              FROM (SELECT id, state FROM entity WHERE tenant = $1 AND model = $2 LIMIT $5) AS chosen) AS numbered
"""


FILL_CLOSED_INCIDENTS: Final = """
    INSERT INTO incident (tenant, id, kind, severity, status, fingerprint, title, first_at, last_at, occurrences,
                          subject_kind, subject_id, model, state, code, message, attempts, principal_id, principal_kind,
                          payload_omitted, resolved_at, resolved_by_id, resolved_by_kind, resolution)
    SELECT $1, gen_random_uuid(), 'RUN_FAILED', 'ERROR', 'RESOLVED', md5((n % $3::int)::text), 'cause ' || n % $3::int,
           now_us() - n, now_us() - n, 1, 'ENTITY', gen_random_uuid(), $2, 'PAID', 'PROCESSOR_FAILED', 'no box is left',
           '[]', 'u', 'user', true, now_us(), 'u', 'user', 'RESOLVED'
      FROM generate_series(1, $4::int) AS n
"""


def define_models(ask: Ask, models: int) -> list[str]:
    """Models by the API, the main one first; their names."""
    names = [MAIN, *(f"model-{number:02}" for number in range(1, models))]
    for name in names:
        ask("POST", f"/model/import/JSON/SAMPLE_DATA/{name}/1", SAMPLE)
        ask("PUT", f"/model/{name}/1/lock", None)
        ask("POST", f"/model/{name}/1/workflow/import", {"importMode": "REPLACE", "workflows": [WORKFLOW]})
    return names


async def fill(
    connection: asyncpg.Connection, names: list[str], entities: int, *, tenant: str = SERVICE_TENANT
) -> None:
    """Entities and incidents, written straight into the tables, which are then as a database at work has them."""
    now = await connection.fetchval("SELECT now_us()")
    most = int(entities * SHARE)
    others = (entities - most) // max(1, len(names) - 1)
    for name in names:
        count = most if name == MAIN else others
        for first in range(1, count + 1, BATCH):
            last = min(first + BATCH - 1, count)
            await connection.execute(FILL, tenant, model_id(name, 1), list(STATES), first, last, now, timeout=600)
    await connection.execute(FILL_INCIDENTS, tenant, model_id(MAIN, 1), f"{MAIN}/1", CAUSES, INCIDENTS)
    await connection.execute(FILL_CLOSED_INCIDENTS, tenant, f"{MAIN}/1", CAUSES, CLOSED_INCIDENTS)
    for table in ("entity", "incident"):
        await connection.execute(f"VACUUM ANALYZE {table}", timeout=600)

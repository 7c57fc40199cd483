"""A page of a long audit trail does not hold the event loop (docs/reference/workflows.md#audit)."""

from tests.database import connected
from tests.integration.event_loop.conftest import Door

WRITTEN = 15_000
"""Times that the entity was written, each with a run of several events."""

AUDIT = """
    INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
    SELECT tenant, entity, at + number, gen_random_uuid(), n, events
      FROM entity_audit, generate_series(1, $2) AS number
     WHERE entity = $1
"""

HISTORY = """
    INSERT INTO entity_history (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                                valid_to, transition, workflow, workflow_revision, attributed_id, attributed_kind,
                                executor_id, executor_kind, document)
    SELECT tenant, id, model, state, gen_random_uuid(), gen_random_uuid(), created_at, valid_from - n,
           valid_from - n + 1, transition, workflow, workflow_revision, attributed_id, attributed_kind,
           executor_id, executor_kind, document
      FROM entity, generate_series(1, $2) AS n
     WHERE id = $1
"""


async def test_a_page_of_a_long_trail_leaves_the_loop_free(door: Door) -> None:
    entity = door.api.create({"v": [1]}, model="held/1").id
    async with connected(door.service.database) as database:
        for fill in (AUDIT, HISTORY):
            await database.execute(fill, entity, WRITTEN)
    door.require_free(f"GET /audit/entity/{entity}")
    door.require_free(f"GET /audit/entity/{entity}?eventType=EntityChange&limit=1000")

"""How many entities of a model are where, and how many of their timers are armed."""

import asyncio
from typing import Final

from msgspec import Struct

from statewright.ids import ModelId, TenantId
from statewright.storage.pool import Pool

COUNT_TIMEOUT_S: Final = 5.0
"""Longest time that counting may take, both counts together."""

MAX_GROUPS: Final = 10_000


class StateCount(Struct, frozen=True, kw_only=True):
    """Entities that follow a workflow and are in a state; of timers, those of one transition."""

    workflow: str
    state: str
    count: int
    transition: str | None = None


ENTITIES: Final = """
    -- A range of the index entity_model, however many other models there are.
    SELECT workflow, state, count(*) AS count
      FROM entity WHERE tenant = $1 AND model = $2
     GROUP BY workflow, state
     ORDER BY workflow, state
     LIMIT $3
"""

TIMERS: Final = """
    SELECT entity.workflow, task.state, task.transition, count(*) AS count
      FROM scheduled_task AS task
      JOIN entity ON entity.tenant = task.tenant AND entity.id = task.entity
     WHERE task.tenant = $1 AND task.model = $2
     GROUP BY entity.workflow, task.state, task.transition
     ORDER BY entity.workflow, task.state, task.transition
     LIMIT $3
"""


async def count_use(
    pool: Pool, tenant: TenantId, model: ModelId
) -> tuple[tuple[StateCount, ...], tuple[StateCount, ...]] | None:
    """Entities and armed timers of a model by where they are; None when counting them would take too long."""
    async with pool.connection() as connection:
        try:
            async with asyncio.timeout(COUNT_TIMEOUT_S):
                entities = await connection.fetch(ENTITIES, tenant, model, MAX_GROUPS)
                timers = await connection.fetch(TIMERS, tenant, model, MAX_GROUPS)
        except TimeoutError:
            return None
    return (
        tuple(StateCount(workflow=row["workflow"], state=row["state"], count=row["count"]) for row in entities),
        tuple(
            StateCount(workflow=row["workflow"], state=row["state"], transition=row["transition"], count=row["count"])
            for row in timers
        ),
    )

"""What an explanation of an entity is made from, in one consistent reading."""

from typing import Final

import msgspec
from msgspec import Struct

from statewright.entity import Entity, ScheduledTask
from statewright.ids import EntityId, TenantId
from statewright.storage.entities import COLUMNS, to_entity
from statewright.storage.pool import Pool
from statewright.storage.schedules import COLUMNS as TASK_COLUMNS
from statewright.storage.schedules import to_task

MAX_VERSIONS: Final = 1000
"""Superseded versions in which the beginning of the present state is looked for."""


class ObservedEntity(Struct, frozen=True, kw_only=True):
    """The current version with its timers. ``state_since``: when it came into its state, in epoch microseconds; None
    when that is more than ``MAX_VERSIONS`` versions ago.
    """

    entity: Entity
    timers: tuple[ScheduledTask, ...]
    state_since: int | None


OBSERVE: Final = f"""
    SELECT {COLUMNS}, created_at AS since_creation,
           (SELECT json_agg(json_build_array({TASK_COLUMNS}) ORDER BY fire_at, transition)
              FROM scheduled_task WHERE tenant = $1 AND entity = $2) AS timers,
           past.versions, past.state_since
      FROM entity
     CROSS JOIN LATERAL (
            SELECT count(*) AS versions, max(valid_to) FILTER (WHERE version.state <> entity.state) AS state_since
              FROM (SELECT state, valid_to FROM entity_history
                     WHERE tenant = $1 AND id = $2
                     ORDER BY valid_from DESC LIMIT {MAX_VERSIONS}) AS version) AS past
     WHERE tenant = $1 AND id = $2
"""  # noqa: S608 - the column lists are constants

_decode_rows = msgspec.json.Decoder(tuple[tuple[object, ...], ...]).decode


async def observe_entity(pool: Pool, tenant: TenantId, entity_id: EntityId) -> ObservedEntity | None:
    """The entity as it is now, with its timers; None when there is none (any more)."""
    async with pool.connection() as connection:
        row = await connection.fetchrow(OBSERVE, tenant, entity_id)
    if row is None:
        return None
    *columns, created_at, timers, versions, since = row
    if since is None and versions < MAX_VERSIONS:
        since = created_at
    return ObservedEntity(
        entity=to_entity(columns),
        timers=tuple(map(to_task, _decode_rows(timers))) if timers else (),
        state_since=since,
    )

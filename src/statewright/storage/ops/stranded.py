"""Looking for entities in states that no active workflow of their model has: nothing moves them
(docs/reference/operations.md#stranded-entities).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from statewright.entity import ModelKey
from statewright.ids import ModelId, TenantId
from statewright.instants import to_us
from statewright.operations.incidents import IncidentRow
from statewright.storage.ops.incidents import insert_incidents
from statewright.storage.ops.listings import ENTITIES, MAX_GROUPS, StateCount
from statewright.storage.pool import Pool


class SurveyedModel(Struct, frozen=True, kw_only=True):
    """A model whose entities are held against its ``workflows``, in their stored form."""

    tenant: TenantId
    model: ModelId
    key: ModelKey
    workflows: str


GRACE: Final = timedelta(minutes=1)
"""Entities are looked at once more so long after a change: nodes go on by the old workflows until they hear of it."""

RECOUNT_INTERVAL: Final = timedelta(minutes=1)
"""Between two looks at a model that has entities in unknown states."""

SURVEY_TIMEOUT_S: Final = 60.0
"""For the entities of one model. One that has more than can be counted in that time is looked at after its next
change.
"""

TRY_SURVEY: Final = "SELECT pg_try_advisory_xact_lock(5373)"

DUE: Final = """
    -- In no order: a model at which every look fails holds up no other.
    SELECT due.tenant, due.model, model.name, model.version, due.workflows
      FROM workflow_set AS due
      JOIN model ON model.tenant = due.tenant AND model.id = due.model
      LEFT JOIN workflow_survey AS survey ON survey.tenant = due.tenant AND survey.model = due.model
     CROSS JOIN LATERAL (SELECT coalesce(survey.surveyed_at, 0) AS at) AS last
     WHERE last.at < due.changed_at
        OR (last.at < due.changed_at + $1::bigint AND due.changed_at + $1 <= now_us())
        OR (last.at < now_us() - $2::bigint AND EXISTS (
                SELECT FROM incident
                 WHERE incident.tenant = due.tenant AND incident.model = concat(model.name, '/', model.version)
                   AND incident.status = 'OPEN' AND incident.kind = 'STATE_UNKNOWN'))
     ORDER BY random()
     LIMIT 1
"""

SETTLE_STRANDED: Final = """
    -- Those of states that have such entities no more are over; the others tell how many there are now.
    WITH found AS (
        SELECT * FROM json_to_recordset($3::json) AS row (fingerprint text, occurrences bigint, message text)
    )
    UPDATE incident
       SET occurrences = coalesce(now.occurrences, incident.occurrences),
           message = coalesce(now.message, incident.message),
           last_at = CASE WHEN now.occurrences IS NULL THEN incident.last_at ELSE now_us() END,
           status = CASE WHEN now.occurrences IS NULL THEN 'RESOLVED' ELSE 'OPEN' END,
           resolved_at = CASE WHEN now.occurrences IS NULL THEN now_us() END,
           resolved_by_id = CASE WHEN now.occurrences IS NULL THEN 'system' END,
           resolved_by_kind = CASE WHEN now.occurrences IS NULL THEN 'system' END,
           resolution = CASE WHEN now.occurrences IS NULL THEN 'MOVED' END
      FROM incident AS open
      LEFT JOIN found AS now USING (fingerprint)
     WHERE open.tenant = $1 AND open.model = $2 AND open.status = 'OPEN' AND open.kind = 'STATE_UNKNOWN'
       AND incident.tenant = open.tenant AND incident.id = open.id
       AND open.occurrences IS DISTINCT FROM now.occurrences
"""

MARK_SURVEYED: Final = """
    INSERT INTO workflow_survey (tenant, model, surveyed_at) VALUES ($1, $2, $3)
        ON CONFLICT (tenant, model) DO UPDATE SET surveyed_at = excluded.surveyed_at
"""

CLOSE_ORPHANS: Final = """
    -- Of models that are gone.
    UPDATE incident
       SET status = 'RESOLVED', resolved_at = now_us(), resolved_by_id = 'system', resolved_by_kind = 'system',
           resolution = 'GONE'
     WHERE status = 'OPEN' AND kind = 'STATE_UNKNOWN' AND NOT EXISTS (
            SELECT FROM model WHERE model.tenant = incident.tenant AND concat(name, '/', version) = incident.model)
"""


async def survey_states(
    pool: Pool, build_incidents: Callable[[SurveyedModel, Sequence[StateCount]], Sequence[IncidentRow]]
) -> bool:
    """Hold the entities of one model against its workflows, where that is due and no other node does so; whether there
    was one. ``build_incidents`` makes an incident of each state that no active workflow has.

    All is one transaction: of a node that ends meanwhile nothing is left, and another begins anew.
    """
    async with pool.connection(limit=None) as connection, connection.transaction():
        if not await connection.fetchval(TRY_SURVEY):
            return False
        await connection.execute(CLOSE_ORPHANS)
        row = await connection.fetchrow(DUE, to_us(GRACE), to_us(RECOUNT_INTERVAL))
        if row is None:
            return False
        due = SurveyedModel(
            tenant=row["tenant"],
            model=ModelId(str(row["model"])),
            key=ModelKey(row["name"], row["version"]),
            workflows=row["workflows"],
        )
        began_at = await connection.fetchval("SELECT now_us()")
        with suppress(TimeoutError):
            counts = await _count_states(connection, due)
            rows = await asyncio.to_thread(build_incidents, due, counts)
            found = msgspec.json.encode(rows).decode()
            model = f"{due.key.name}/{due.key.version}"
            await connection.execute(SETTLE_STRANDED, due.tenant, model, found)
            if rows:
                await insert_incidents(connection, rows, once=True)
        await connection.execute(MARK_SURVEYED, due.tenant, due.model, began_at)
    return True


async def _count_states(connection: asyncpg.Connection, due: SurveyedModel) -> list[StateCount]:
    """Entities of a model by workflow and state. Raises ``TimeoutError``; the transaction goes on then."""
    async with asyncio.timeout(SURVEY_TIMEOUT_S), connection.transaction():
        rows = await connection.fetch(ENTITIES, due.tenant, due.model, MAX_GROUPS)
    return [StateCount(**dict(row)) for row in rows]

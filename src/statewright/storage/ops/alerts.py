"""Incidents of queues that nobody serves: raised once, and closed when somebody does."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from statewright.ids import TenantId
from statewright.incidents import IncidentRow, Resolution
from statewright.storage.ops.incidents import write_incidents
from statewright.storage.pool import Pool

MAX_ALERTS: Final = 1_000
"""That are looked at in one round."""

_encode = msgspec.json.Encoder().encode


class OpenAlert(Struct, frozen=True, kw_only=True):
    """An open incident of a queue; ``subject_id`` is its kind and name."""

    tenant: TenantId
    id: str
    subject_id: str


class ClosedAlert(Struct, frozen=True, kw_only=True):
    """An incident that is over, and why."""

    tenant: TenantId
    id: str
    how: Resolution


OPEN: Final = """
    -- Uses incident_alert.
    SELECT tenant, id::text AS id, subject_id FROM incident
     WHERE status = 'OPEN' AND kind = 'NO_WORKER'
     ORDER BY tenant, subject_id
     LIMIT $1
"""

CLOSE: Final = """
    UPDATE incident
       SET status = 'RESOLVED', resolved_at = now_us(), resolved_by_id = 'system', resolved_by_kind = 'system',
           resolution = over.how
      FROM json_to_recordset($1::json) AS over (tenant text, id uuid, how text)
     WHERE incident.tenant = over.tenant AND incident.id = over.id AND incident.status = 'OPEN'
"""


async def raise_alert(pool: Pool, row: IncidentRow) -> bool:
    """Store the incident of a queue, unless there is an open one; whether it was."""
    return await write_incidents(pool, [row], once=True) == 1


async def list_open_alerts(pool: Pool) -> list[OpenAlert]:
    """The open incidents of queues, of all tenants."""
    async with pool.connection() as connection:
        return [OpenAlert(**dict(row)) for row in await connection.fetch(OPEN, MAX_ALERTS)]


async def close_alerts(pool: Pool, closed: Sequence[ClosedAlert]) -> None:
    """Close incidents of queues."""
    async with pool.connection() as connection:
        await connection.execute(CLOSE, _encode(closed).decode())

"""Retries of incidents: claimed by one at a time, and closed by the commit of what is done again.

The claim is the instant until which it holds, as it stands in the row. The commit demands it and closes the incident:
of a retry whose node ends at any moment either nothing is stored, or it is stored and the incident is closed.
"""

from collections.abc import Sequence
from typing import Final

from statewright.entity import Actor
from statewright.failures import IncidentClosed, IncidentNotRetryable
from statewright.ids import NodeId, TenantId, make_uuid7, system_clock
from statewright.operations.service import Act
from statewright.storage.commit.statement import build_staged_part, read_sections
from statewright.storage.commit.submission import PartRefused, StagedPart
from statewright.storage.ops.audit import encode_details, record_act
from statewright.storage.ops.incidents import RESOLVE
from statewright.storage.pool import Pool

CLAIM: Final = """
    -- The claim of a node that is gone holds nobody up. Should it live after all, its commit finds the claim replaced.
    UPDATE incident
       SET retried_until = now_us() + $3, retried_by = $4,
           takers = CASE WHEN $5::boolean THEN '{}' ELSE takers END || concat(now_us(), ' ', $4::text)
     WHERE tenant = $1 AND id = $2 AND status = 'OPEN' AND ($5::boolean OR cardinality(takers) < 3)
       AND (retried_until <= now_us()
            OR (retried_by IS NOT NULL AND NOT EXISTS (
                SELECT FROM cluster_node AS node WHERE node.id = retried_by AND node.lease_until > now_us())))
 RETURNING retried_until
"""

UNCLAIM: Final = """
    UPDATE incident SET retried_until = 0, takers = CASE WHEN $4::boolean THEN takers ELSE '{}' END
     WHERE tenant = $1 AND id = $2 AND retried_until = $3
"""

HAS_ENDED_NODES: Final = "SELECT cardinality(takers) >= 3 FROM incident WHERE tenant = $1 AND id = $2"


async def claim_incident(
    pool: Pool, tenant: TenantId, id_: str, *, node: NodeId, for_us: int, force: bool = False
) -> int | None:
    """Keep others from retrying an incident while a ``node`` does; the claim, None when it is closed or another retries
    it. Raises ``IncidentNotRetryable`` where so many nodes have ended with a retry, unless it is to be by ``force``.
    """
    async with pool.connection() as connection:
        claim: int | None = await connection.fetchval(CLAIM, tenant, id_, for_us, node, force)
        if claim is None and await connection.fetchval(HAS_ENDED_NODES, tenant, id_):
            raise IncidentNotRetryable("each node that retried it died, or its computation was killed; force does it")
    return claim


async def unclaim_incident(pool: Pool, tenant: TenantId, id_: str, claim: int, *, counts: bool = False) -> None:
    """Let others retry it. ``counts``: as if the node had died."""
    async with pool.connection() as connection:
        await connection.execute(UNCLAIM, tenant, id_, claim, counts)


class StagedRetry(StagedPart, frozen=True, kw_only=True):
    """The incident that a transaction closes, and the act as it is recorded."""

    tenant: TenantId
    id: str
    claim: int
    act_id: str
    by_id: str
    by_kind: str
    action: str
    details: str
    trace_id: str | None = None

    @property
    def names(self) -> Sequence[str]:
        return [self.id]


INCIDENT_RETRIES: Final = build_staged_part(
    "incident_retries",
    read_sections("statewright.storage.ops", "incident_retries.sql"),
    {"incident_taken": PartRefused(lambda _: IncidentClosed("RETRYING"))},
)


def build_staged_retry(tenant: TenantId, id_: str, claim: int, by: Actor, act: Act) -> StagedRetry:
    """What a transaction stages that does again what failed."""
    return StagedRetry(
        tenant=tenant,
        id=id_,
        claim=claim,
        act_id=make_uuid7(system_clock()),
        by_id=by.id,
        by_kind=by.kind,
        action=act.action,
        details=encode_details(act.details),
        trace_id=act.trace_id,
    )


MAKE_DUE: Final = """
    UPDATE scheduled_task SET fire_at = least(fire_at, $5), not_before = 0, attempts = 0, failures = 0
     WHERE tenant = $1 AND entity = $2 AND state = $3 AND transition = $4
 RETURNING 1
"""


async def retry_timer(
    pool: Pool,
    tenant: TenantId,
    id_: str,
    by: Actor,
    act: Act,
    *,
    entity: str,
    state: str,
    transition: str,
    now_ms: int,
) -> bool:
    """Have the timer of an incident taken by the next scan, and close the incident; whether the timer is there. Raises
    ``IncidentClosed``.
    """
    async with pool.connection() as connection, connection.transaction():
        if await connection.fetchval(MAKE_DUE, tenant, entity, state, transition, now_ms) is None:
            return False
        if await connection.fetchval(RESOLVE, tenant, id_, by.id, by.kind, "RETRIED", None) is None:
            raise IncidentClosed("RESOLVED")
        await record_act(connection, tenant, by, act)
    return True

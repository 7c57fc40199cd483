"""Incidents in the database: written, listed, grouped, retried, closed.

A retry is claimed by one at a time, and closed by the commit of what is done again. The claim is the instant until
which it holds, as it stands in the row. The commit demands it and closes the incident: of a retry whose node ends at
any moment either nothing is stored, or it is stored and the incident is closed.
"""

from collections.abc import Sequence
from typing import Final

import asyncpg
import msgspec
from msgspec import UNSET, Struct

from statewright.entity import Actor, ScheduledTask
from statewright.failures import IncidentClosed, IncidentNotRetryable
from statewright.ids import NodeId, TenantId, make_uuid7, system_clock
from statewright.operations.incidents import Incident, IncidentGroup, IncidentRow
from statewright.operations.service import Act
from statewright.storage.commit.overlay import PartRefused, StagedPart
from statewright.storage.commit.statement import build_staged_part, read_sections
from statewright.storage.ops.records import read_record
from statewright.storage.ops.service import build_removal, encode_details, record_act
from statewright.storage.pool import Pool
from statewright.storage.processes.leases import MAX_TAKERS
from statewright.storage.schedules import PARKED
from statewright.storage.work import IS_LAST, WORKS

MAX_PER_FINGERPRINT: Final = 1_000
"""Open incidents of one cause; of further subjects none is stored."""

MAX_OPEN: Final = 100_000
"""Open incidents of a tenant; further ones are only counted."""

MAX_CLOSED: Final = 1_000
"""At a time."""

STATEMENT_TIMEOUT_S: Final = 5.0
"""Nobody waits for what is written behind; a table that is locked must not keep a connection for ever."""

_encode = msgspec.json.Encoder().encode
_SECTIONS: Final = read_sections("statewright.storage.ops", "incidents.sql")


class StagedIncidents(StagedPart, frozen=True, kw_only=True):
    """The incidents that one transaction writes with their cause."""

    rows: tuple[IncidentRow, ...]

    @property
    def size(self) -> int:
        return sum(len(row.payload or "") for row in self.rows)

    @property
    def names(self) -> Sequence[str]:
        return [f"{row.subject_id}/{row.fingerprint}" for row in self.rows]


INCIDENTS: Final = build_staged_part("incidents", {"writes": _SECTIONS["writes"]})

WRITE: Final = f"""
    WITH applied AS (SELECT 0 AS t),
    -- Tenants that have as many open ones as are kept: repetitions count, nothing else is stored.
    crowded AS MATERIALIZED (
        SELECT tenant
          FROM (SELECT DISTINCT item ->> 'tenant' AS tenant FROM json_array_elements($1::json) AS item) AS asking
         WHERE (SELECT count(*) FROM (SELECT FROM incident
                                       WHERE tenant = asking.tenant AND status = 'OPEN' LIMIT $3) AS counted) >= $3
    ),
    asked AS (
        SELECT 0 AS t, json_build_object('rows', coalesce(json_agg(item), '[]')) AS part
          FROM json_array_elements($1::json) AS item
         CROSS JOIN LATERAL (
                SELECT EXISTS (SELECT FROM incident
                                WHERE tenant = item ->> 'tenant' AND subject_id = item ->> 'subject_id'
                                  AND fingerprint = item ->> 'fingerprint' AND status = 'OPEN') AS is_open) AS stored
         WHERE CASE WHEN stored.is_open THEN NOT $2::boolean
                    ELSE NOT EXISTS (SELECT FROM crowded WHERE tenant = item ->> 'tenant')
                         AND (SELECT count(*)
                                FROM (SELECT FROM incident
                                       WHERE tenant = item ->> 'tenant' AND fingerprint = item ->> 'fingerprint'
                                         AND status = 'OPEN' LIMIT {MAX_PER_FINGERPRINT}) AS counted)
                             < {MAX_PER_FINGERPRINT}
               END
    ),
    {_SECTIONS["writes"].replace("json_to_recordset($incidents::json) AS batch (t int, part json)", "asked AS batch")}
    ended AS (SELECT)
    SELECT json_array_length(part -> 'rows') FROM asked
"""  # noqa: S608 - constants


async def write_incidents(
    pool: Pool, rows: Sequence[IncidentRow], *, once: bool = False, max_open: int = MAX_OPEN
) -> int:
    """Store failures that have no commit of their own; how many. No two of ``rows`` are one incident.

    ``once``: what is open already is not counted again. ``max_open`` are kept of a tenant.
    """
    async with pool.connection() as connection:
        return await insert_incidents(connection, rows, once=once, max_open=max_open)


async def insert_incidents(
    connection: asyncpg.Connection, rows: Sequence[IncidentRow], *, once: bool = False, max_open: int = MAX_OPEN
) -> int:
    """Store incidents in the transaction that the connection is in, with their cause; see ``write_incidents``."""
    written: int = await connection.fetchval(WRITE, _encode(rows).decode(), once, max_open, timeout=STATEMENT_TIMEOUT_S)
    return written


class StoredIncident(Struct, frozen=True, kw_only=True):
    """An incident, and what only the service has to know of it. ``payload`` is JSON text."""

    incident: Incident
    language: str | None
    payload: str | None


_MEMBERS: Final = _SECTIONS["members"]


class IncidentFilter(Struct, frozen=True, kw_only=True):
    """Which incidents are wanted: of several values any; None: whatever it is. Instants in epoch microseconds."""

    statuses: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    severities: Sequence[str] | None = None
    fingerprints: Sequence[str] | None = None
    models: Sequence[str] | None = None
    subjects: Sequence[str] | None = None
    components: Sequence[str] | None = None
    codes: Sequence[str] | None = None
    first_from: int | None = None
    first_to: int | None = None
    last_from: int | None = None
    last_to: int | None = None


MATCHING: Final = _SECTIONS["matching"]
"""The rows of a tenant that a filter chooses."""

LIST: Final = f"""
    -- The newest of each status come from incident_latest in order; of several statuses at once it has none.
    SELECT newest.*
      FROM (SELECT DISTINCT unnest(coalesce($2::text[], ARRAY['OPEN', 'RESOLVED']))) AS chosen (status)
     CROSS JOIN LATERAL (
            SELECT {_MEMBERS} {MATCHING} AND status = chosen.status
               AND ($14::bigint IS NULL OR (last_at, id) < ($14, $15::uuid))
             ORDER BY last_at DESC, id DESC
             LIMIT $16) AS newest
     ORDER BY last_at DESC, id DESC
     LIMIT $16
"""  # noqa: S608 - constants

COUNT: Final = f"SELECT count(*) FROM (SELECT {MATCHING} LIMIT $14) AS counted"  # noqa: S608 - constants


async def list_incidents(
    pool: Pool, tenant: TenantId, wanted: IncidentFilter, *, limit: int, after: tuple[int, str] | None
) -> list[Incident]:
    """Up to ``limit``, the one that occurred last first, without payload; those behind a key."""
    at, id_ = after or (None, None)
    rows = await pool.fetch(LIST, tenant, *list_arguments(wanted), at, id_, limit)
    return [read_record(Incident, row) for row in rows]


async def count_incidents(pool: Pool, tenant: TenantId, wanted: IncidentFilter, *, limit: int) -> int:
    """How many there are, counted up to ``limit``."""
    count: int = await pool.fetchval(COUNT, tenant, *list_arguments(wanted), limit)
    return count


def list_arguments(wanted: IncidentFilter) -> list[object]:
    """The arguments of ``MATCHING`` from the second on."""
    return [getattr(wanted, name) for name in IncidentFilter.__struct_fields__]


OPEN_OF: Final = f"""
    -- Uses incident_open.
    SELECT {_MEMBERS} FROM incident
     WHERE tenant = $1 AND subject_id = $2 AND status = 'OPEN'
     ORDER BY last_at DESC, id DESC
     LIMIT $3
"""  # noqa: S608 - constants


async def list_open_of(pool: Pool, tenant: TenantId, subject: str, *, limit: int) -> list[Incident]:
    """Up to ``limit`` open ones of an entity or instance, the one that occurred last first."""
    rows = await pool.fetch(OPEN_OF, tenant, subject, limit)
    return [read_record(Incident, row) for row in rows]


FIND: Final = f"SELECT {_MEMBERS}, language, payload FROM incident WHERE tenant = $1 AND id = $2"  # noqa: S608 - constants


async def find_incident(pool: Pool, tenant: TenantId, id_: str) -> StoredIncident | None:
    """One, with its payload."""
    row = await pool.fetchrow(FIND, tenant, id_)
    if row is None:
        return None
    incident = read_record(Incident, row, payload=UNSET)
    return StoredIncident(incident=incident, language=row["language"], payload=row["payload"])


GROUPS: Final = _SECTIONS["groups"]


async def list_groups(
    pool: Pool, tenant: TenantId, *, limit: int, after: tuple[int, str] | None
) -> list[IncidentGroup]:
    """Up to ``limit`` causes, that of most incidents first; those behind a key."""
    count, fingerprint = after or (None, None)
    rows = await pool.fetch(GROUPS, tenant, count, fingerprint, limit)
    return [read_record(IncidentGroup, row) for row in rows]


COUNT_GROUPS: Final = """
    SELECT count(*)
      FROM (SELECT DISTINCT fingerprint FROM incident WHERE tenant = $1 AND status = 'OPEN' LIMIT $2) AS counted
"""


async def count_groups(pool: Pool, tenant: TenantId, *, limit: int) -> int:
    """How many causes there are, counted up to ``limit``."""
    count: int = await pool.fetchval(COUNT_GROUPS, tenant, limit)
    return count


RESOLVE: Final = """
    UPDATE incident
       SET status = 'RESOLVED', resolved_at = now_us(), resolved_by_id = $3, resolved_by_kind = $4, resolution = $5,
           resolution_reason = $6, retried_until = 0
     WHERE tenant = $1 AND id = $2 AND status = 'OPEN'
 RETURNING 1
"""


async def close_incident(pool: Pool, tenant: TenantId, id_: str, by: Actor, *, act: Act, reason: str | None) -> bool:
    """Close an incident, and record the act; whether it was open."""
    async with pool.connection() as connection, connection.transaction():
        done = await connection.fetchval(RESOLVE, tenant, id_, by.id, by.kind, "RESOLVED", reason) is not None
        if done:
            await record_act(connection, tenant, by, act)
    return done


NOTE_TIMER_FAILURE: Final = f"""
    UPDATE scheduled_task
       SET failures = failures + 1, not_before = CASE WHEN failures + 1 >= $6 THEN {PARKED} ELSE not_before END
     WHERE tenant = $1 AND entity = $2 AND state = $3 AND transition = $4 AND armed_in = $5
 RETURNING not_before = {PARKED}
"""  # noqa: S608 - a constant


async def note_timer_failure(
    pool: Pool, task: ScheduledTask, *, max_failures: int, incident: IncidentRow | None
) -> bool:
    """Count a failed fire; whether it was the last that is allowed: the timer is parked then, the incident stored."""
    timer = (task.tenant, task.entity, task.key.state, task.key.transition, task.armed_in)
    async with pool.connection() as connection, connection.transaction():
        is_parked: bool = await connection.fetchval(NOTE_TIMER_FAILURE, *timer, max_failures) or False
        if is_parked and incident is not None:
            await insert_incidents(connection, [incident])
    return is_parked


_IS_PARKED: Final = "\n                    ".join(
    f"WHEN '{work.name}' THEN EXISTS (SELECT FROM {work.table} AS task"
    f" WHERE task.tenant = incident.tenant AND {work.owner} = entity.id AND {work.is_parked})"
    for work in WORKS.values()
)

CLOSE_SETTLED: Final = f"""
    -- What has taken care of itself. Suspended subjects are left alone.
    WITH settled AS (
        SELECT incident.tenant, incident.id,
               CASE WHEN entity.id IS NULL THEN 'GONE'
                    WHEN settled.has_succeeded THEN 'SUCCEEDED'
                    WHEN entity.state <> incident.state THEN 'MOVED'
                    ELSE 'GONE' END AS resolution
          FROM incident
          -- As a CASE: subjects of other kinds are no ids.
          LEFT JOIN entity ON entity.tenant = incident.tenant
           AND entity.id = CASE WHEN incident.subject_kind IN ('ENTITY', 'INSTANCE') THEN incident.subject_id::uuid END
         CROSS JOIN LATERAL (
                SELECT incident.subject_kind = 'ENTITY' AND entity.valid_from > incident.last_at
                       AND entity.transition = coalesce(incident.transition, entity.transition) AS has_succeeded
               ) AS settled
         WHERE incident.status = 'OPEN' AND incident.subject_kind IN ('ENTITY', 'INSTANCE')
           AND incident.retried_until <= now_us()
           AND (entity.id IS NULL
            OR (incident.kind = 'POISONED' AND NOT CASE incident.component
                    {_IS_PARKED} END)
            OR (NOT entity.suspended AND incident.kind NOT IN ('CHAIN_FAILED', 'POISONED') AND (
                entity.state <> incident.state
                OR settled.has_succeeded
                OR (incident.kind IN ('TIMER_FAILED', 'TIMER_DEAD') AND NOT EXISTS (
                    SELECT FROM scheduled_task AS task
                     WHERE task.tenant = incident.tenant AND task.entity = entity.id AND task.state = incident.state
                       AND task.transition = incident.transition AND task.armed_at * 1000 <= incident.last_at)))))
         LIMIT $1
    )
    UPDATE incident
       SET status = 'RESOLVED', resolved_at = now_us(), resolved_by_id = 'system', resolved_by_kind = 'system',
           resolution = settled.resolution
      FROM settled
     WHERE incident.tenant = settled.tenant AND incident.id = settled.id AND incident.status = 'OPEN'
"""  # noqa: S608 - constants

CLOSE_OF_SUBSCRIPTIONS: Final = """
    -- Of those that are gone, or send again.
    UPDATE incident
       SET status = 'RESOLVED', resolved_at = now_us(), resolved_by_id = 'system', resolved_by_kind = 'system',
           resolution = CASE WHEN subscription.id IS NULL THEN 'GONE' ELSE 'SUCCEEDED' END
      FROM incident AS open
      LEFT JOIN event_subscription AS subscription
        ON subscription.tenant = open.tenant
       AND subscription.id = CASE WHEN open.subject_kind = 'SUBSCRIPTION' THEN open.subject_id::uuid END
     WHERE open.status = 'OPEN' AND open.subject_kind = 'SUBSCRIPTION'
       AND (subscription.id IS NULL OR (open.kind = 'SUBSCRIPTION_DISABLED' AND subscription.enabled))
       AND incident.tenant = open.tenant AND incident.id = open.id
"""

REMOVE: Final = build_removal("incident", "status = 'RESOLVED' AND resolved_at < now_us() - $1::bigint")
"""Uses incident_resolved."""

COUNT_OPEN: Final = """
    SELECT tenant, kind, count(*) AS open FROM incident WHERE status = 'OPEN'
     GROUP BY tenant, kind ORDER BY count(*) DESC LIMIT 1000
"""


async def close_settled(pool: Pool) -> int:
    """Close incidents whose cause is gone, of all tenants; how many."""
    async with pool.connection() as connection:
        status: str = await connection.execute(CLOSE_SETTLED, MAX_CLOSED)
        await connection.execute(CLOSE_OF_SUBSCRIPTIONS)
    return int(status.rsplit(" ", 1)[1])


async def count_open(pool: Pool) -> dict[tuple[str, str], int]:
    """Open incidents by tenant and kind."""
    rows = await pool.fetch(COUNT_OPEN)
    return {(row["tenant"], row["kind"]): row["open"] for row in rows}


CLAIM: Final = f"""
    -- The claim of a node that is gone holds nobody up. Should it live after all, its commit finds the claim replaced.
    UPDATE incident
       SET retried_until = now_us() + $3, retried_by = $4,
           takers = CASE WHEN $5::boolean THEN '{{}}' ELSE takers END || concat(now_us(), ' ', $4::text)
     WHERE tenant = $1 AND id = $2 AND status = 'OPEN' AND ($5::boolean OR cardinality(takers) < {MAX_TAKERS})
       AND (retried_until <= now_us()
            OR (retried_by IS NOT NULL AND NOT EXISTS (
                SELECT FROM cluster_node AS node WHERE node.id = retried_by AND node.lease_until > now_us())))
 RETURNING retried_until
"""  # noqa: S608 - a constant

UNCLAIM: Final = """
    UPDATE incident SET retried_until = 0, takers = CASE WHEN $4::boolean THEN takers ELSE '{}' END
     WHERE tenant = $1 AND id = $2 AND retried_until = $3
"""

HAS_ENDED_NODES: Final = f"SELECT {IS_LAST} FROM incident WHERE tenant = $1 AND id = $2"  # noqa: S608 - a constant


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
    await pool.execute(UNCLAIM, tenant, id_, claim, counts)


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

"""The suspensions of all tenants: begun, ended, loaded by nodes, and who knows of them.

Changes follow each other: each locks the one row of ``switch_revision`` until it commits, and gives it the next number.
So who has loaded a revision knows all changes up to it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from statewright.entity import Actor
from statewright.failures import AlreadyExists, EntityNotFound, LimitReached, ProcessNotFound
from statewright.ids import NodeId, TenantId, uuid_to_ulid
from statewright.operations.active_suspensions import (
    FLAGGED,
    HeldTimers,
    Suspension,
    Target,
    describe_target,
    list_held_timers,
)
from statewright.operations.service import Act
from statewright.operations.suspensions import SCOPES, Scope, TimerPolicy
from statewright.storage.connections import announce
from statewright.storage.ops.service import build_removal, record_act
from statewright.storage.pool import Pool
from statewright.storage.processes.leases import MAX_TAKERS
from statewright.storage.schedules import PARKED, write_held

CHANNEL: Final = "statewright_switches"
"""Says that there is another revision; the payload is its number."""

MAX_ENTITIES: Final = 10_000
"""Suspended entities of a tenant."""

MAX_OTHERS: Final = 1_000
"""Its other suspensions."""

RATE_PER_S: Final = 100
"""Timers that came due during a suspension fire at this rate after it."""

GRACE_MS: Final = 60_000
"""What such a timer may be late besides: it is taken by a scan after its suspension, as late as that may be."""

MAX_MS: Final = 2**63 - 1
"""The latest instant and the longest timeout of a timer: a suspension that moves one must not fail of it."""

_encode = msgspec.json.Encoder().encode
_decode_target = msgspec.json.Decoder(Target).decode

COLUMNS: Final = """id, tenant, scope, details, reason, since, by_id, by_kind, revision, until, effective_at, ended_at,
             ended_by_id, ended_by_kind, end_reason, timers"""


class NewSuspension(Struct, frozen=True, kw_only=True):
    """What an operator wants suspended."""

    id: str
    scope: Scope
    target: Target
    reason: str
    until: int | None


NEXT_REVISION: Final = "UPDATE switch_revision SET revision = revision + 1 RETURNING revision"

COUNT_ACTIVE: Final = """
    SELECT count(*) FROM suspension
     WHERE tenant = $1 AND scope = ANY ($2::text[]) AND ended_at IS NULL
"""

FLAG_ENTITY: Final = """
    -- Waits for a commit that has the row; who commits after this sees the flag.
    UPDATE entity SET suspended = true WHERE tenant = $1 AND id = $2 RETURNING 1
"""

UNFLAG_ENTITY: Final = """
    UPDATE entity SET suspended = EXISTS (SELECT FROM suspension AS other
                                           WHERE other.tenant = $1 AND other.scope = ANY ($3::text[])
                                             AND other.target = $2::uuid::text AND other.ended_at IS NULL)
     WHERE tenant = $1 AND id = $2
"""

IS_INSTANCE: Final = "SELECT 1 FROM process_instance WHERE tenant = $1 AND id = $2"

BEGIN: Final = f"""
    INSERT INTO suspension (tenant, id, scope, target, details, reason, until, by_id, by_kind, revision, effective_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CASE WHEN $3 = 'ENTITY' THEN now_us() END)
        ON CONFLICT (tenant, scope, target) WHERE ended_at IS NULL DO NOTHING
 RETURNING {COLUMNS}
"""  # noqa: S608 - a constant

EXISTING: Final = "SELECT id FROM suspension WHERE tenant = $1 AND scope = $2 AND target = $3 AND ended_at IS NULL"

SINGLE: Final = """
    SELECT id::text FROM suspension
     WHERE tenant = $1 AND scope = ANY ($2::text[]) AND target = $3::text AND ended_at IS NULL
     ORDER BY id
"""


async def list_single(pool: Pool, tenant: TenantId, id_: str) -> list[str]:
    """The active suspensions of an entity or instance alone."""
    return [row["id"] for row in await pool.fetch(SINGLE, tenant, FLAGGED, id_)]


async def take_revision(connection: asyncpg.Connection) -> int:
    """The number of a change of switches, which those that come later wait for until it commits."""
    revision: int = await connection.fetchval(NEXT_REVISION)
    return revision


async def announce_switch(connection: asyncpg.Connection, revision: int) -> None:
    """Tell the nodes of a change when it commits."""
    await announce(connection, CHANNEL, str(revision))


async def begin_suspension(pool: Pool, tenant: TenantId, by: Actor, wanted: NewSuspension) -> Suspension:
    """Suspend, and tell the nodes. Raises ``EntityNotFound``, ``ProcessNotFound``, ``AlreadyExists``,
    ``LimitReached``.
    """
    target = describe_target(wanted.target)

    async def act(connection: asyncpg.Connection) -> Suspension:
        revision = await take_revision(connection)
        await _check_limit(connection, tenant, wanted.scope)
        if wanted.target.id is not None:
            await _flag(connection, tenant, wanted.scope, wanted.target.id)
        row = await connection.fetchrow(
            BEGIN,
            tenant,
            wanted.id,
            wanted.scope,
            target,
            _encode(wanted.target).decode(),
            wanted.reason,
            wanted.until,
            by.id,
            by.kind,
            revision,
        )
        if row is None:
            existing = str(await connection.fetchval(EXISTING, tenant, wanted.scope, target))
            raise AlreadyExists(f"{wanted.scope} {target} is suspended already".replace("  ", " "), existing)
        details = {"scope": wanted.scope, "target": target, "until": wanted.until}
        trail = Act(
            action="suspend", target_kind="SUSPENSION", target_id=wanted.id, reason=wanted.reason, details=details
        )
        await record_act(connection, tenant, by, trail)
        await announce_switch(connection, revision)
        return _to_suspension(row)

    return await pool.transact(act)


async def _flag(connection: asyncpg.Connection, tenant: TenantId, scope: Scope, id_: str) -> None:
    if scope == "INSTANCE" and not await connection.fetchval(IS_INSTANCE, tenant, id_):
        raise ProcessNotFound(f"instance {uuid_to_ulid(id_)} not found")
    if not await connection.fetchval(FLAG_ENTITY, tenant, id_):
        raise EntityNotFound.of(id_)


async def _check_limit(connection: asyncpg.Connection, tenant: TenantId, scope: Scope) -> None:
    others = [each for each in SCOPES if each not in FLAGGED]
    scopes, limit = (FLAGGED, MAX_ENTITIES) if scope in FLAGGED else (others, MAX_OTHERS)
    if await connection.fetchval(COUNT_ACTIVE, tenant, scopes) >= limit:
        raise LimitReached("such suspensions", limit)


END: Final = f"""
    UPDATE suspension
       SET ended_at = now_us(), ended_by_id = $3, ended_by_kind = $4, end_reason = $5, timers = $6, revision = $7
     WHERE tenant = $1 AND id = $2 AND ended_at IS NULL
 RETURNING {COLUMNS}
"""  # noqa: S608 - a constant

_TIMERS_OF_SCOPE: Final = f"""
      FROM scheduled_task AS task
     WHERE task.tenant = $4 AND (CASE WHEN $9::uuid IS NULL THEN {write_held(5)} ELSE task.entity = $9 END)
"""

FIRE_TIMERS: Final = f"""
    -- In order of their times, so many a second. Neither the pause nor the way to the next scan counts as lateness.
    WITH due AS (
        SELECT task.entity, task.state, task.transition, row_number() OVER (ORDER BY task.fire_at, task.entity) AS n
        {_TIMERS_OF_SCOPE} AND task.fire_at <= $1::bigint AND task.not_before < {PARKED}
    )
    UPDATE scheduled_task AS task
       SET fire_at = $1::bigint + (due.n - 1) * 1000 / $2::bigint, not_before = 0, attempts = 0,
           timeout_ms = least(task.timeout_ms, {MAX_MS - GRACE_MS}) + {GRACE_MS}
      FROM due
     WHERE $3::bigint IS NOT NULL AND task.tenant = $4
       AND task.entity = due.entity AND task.state = due.state AND task.transition = due.transition
"""  # noqa: S608 - constants

SHIFT_TIMERS: Final = f"""
    -- Those armed during the pause move by what was left of it.
    WITH moved AS (
        SELECT task.entity, task.state, task.transition, $1::bigint - greatest($3::bigint, task.armed_at) AS by_ms
        {_TIMERS_OF_SCOPE}
    )
    UPDATE scheduled_task AS task
       SET fire_at = least(task.fire_at, {MAX_MS} - greatest(moved.by_ms, 0)) + moved.by_ms, attempts = 0,
           not_before = CASE WHEN task.not_before < {PARKED} THEN 0 ELSE task.not_before END
      FROM moved
     WHERE $2::bigint IS NOT NULL AND task.tenant = $4
       AND task.entity = moved.entity AND task.state = moved.state AND task.transition = moved.transition
"""  # noqa: S608 - constants


async def end_suspension(
    pool: Pool, tenant: TenantId, id_: str, by: Actor, *, reason: str | None, timers: TimerPolicy, now_ms: int
) -> Suspension | None:
    """Resume, and tell the nodes; None when there is no active suspension of this id. ``now_ms`` is the instant by the
    clock of timers.
    """

    async def act(connection: asyncpg.Connection) -> Suspension | None:
        revision = await take_revision(connection)
        row = await connection.fetchrow(END, tenant, id_, by.id, by.kind, reason, timers, revision)
        if row is None:
            return None
        ended = _to_suspension(row)
        await _release_timers(connection, ended, timers, now_ms)
        await _release_process_timers(connection, ended, timers, now_ms)
        if ended.scope in FLAGGED:
            await connection.execute(UNFLAG_ENTITY, tenant, ended.target.id, FLAGGED)
        await _release_children(connection, ended)
        length_us = (ended.ended_at or ended.since) - ended.since
        details = {
            "scope": ended.scope,
            "target": describe_target(ended.target),
            "timers": timers,
            "lengthSeconds": length_us // 1_000_000,
        }
        trail = Act(action="resume", target_kind="SUSPENSION", target_id=id_, reason=reason, details=details)
        await record_act(connection, tenant, by, trail)
        await announce_switch(connection, revision)
        return ended

    return await pool.transact(act)


async def _release_timers(connection: asyncpg.Connection, ended: Suspension, timers: TimerPolicy, now_ms: int) -> None:
    held: HeldTimers = list_held_timers([ended])
    if not held.tenants and ended.scope != "ENTITY":
        return
    entity = ended.target.id if ended.scope == "ENTITY" else None
    statement = FIRE_TIMERS if timers == "FIRE" else SHIFT_TIMERS
    columns = (held.tenants, held.models, held.workflows, held.transitions)
    await connection.execute(statement, now_ms, RATE_PER_S, ended.since // 1000, ended.tenant, *columns, entity)


PROCESS_TIMERS: Final = f"""
    -- Those that came due are taken by the next scan; or all move by the length of the pause.
    UPDATE process_timer AS timer
       SET fire_at = timer.fire_at + CASE WHEN $5::boolean THEN $6::bigint ELSE 0 END,
           not_before = CASE WHEN cardinality(timer.takers) >= {MAX_TAKERS} THEN timer.not_before ELSE 0 END
     WHERE timer.tenant = $1
       AND ($2::uuid IS NULL OR timer.instance = $2)
       AND ($3::text IS NULL
            OR EXISTS (SELECT FROM process_instance AS line
                        WHERE line.tenant = $1 AND line.id = timer.instance AND line.definition_id = $3))
       AND ($5::boolean OR timer.fire_at <= $4::bigint)
"""  # noqa: S608 - a constant


async def _release_process_timers(
    connection: asyncpg.Connection, ended: Suspension, timers: TimerPolicy, now_ms: int
) -> None:
    if ended.scope not in (*FLAGGED, "DEFINITION", "TENANT"):
        return
    target, length_us = ended.target, now_ms * 1000 - ended.since
    await connection.execute(
        PROCESS_TIMERS, ended.tenant, target.id, target.definition, now_ms * 1000, timers == "SHIFT", length_us
    )


DUE_STARTS: Final = f"""
    -- What is just being started or told is skipped: it is looked at again a while later.
    UPDATE process_child SET not_before = 0
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM process_child
             WHERE tenant = $1 AND ($2::text IS NULL OR definition_id = $2) AND NOT started
               AND cardinality(takers) < {MAX_TAKERS}
               FOR UPDATE SKIP LOCKED))
"""  # noqa: S608 - a constant

DUE_ENDS_OF_CHILDREN: Final = f"""
    UPDATE process_child_end SET not_before = 0
     WHERE ctid = ANY (ARRAY(
            SELECT ended.ctid FROM process_child_end AS ended
             WHERE ended.tenant = $1
               AND ($2::uuid IS NULL OR ended.parent = $2)
               AND ($3::text IS NULL
                    OR EXISTS (SELECT FROM process_instance AS line
                                WHERE line.tenant = $1 AND line.id = ended.parent AND line.definition_id = $3))
               AND cardinality(takers) < {MAX_TAKERS}
               FOR UPDATE SKIP LOCKED))
"""  # noqa: S608 - a constant


async def _release_children(connection: asyncpg.Connection, ended: Suspension) -> None:
    """What waits for instances to start, or to hear of the ends of others, need wait no more."""
    target = ended.target
    if ended.scope in ("DEFINITION", "TENANT"):
        await connection.execute(DUE_STARTS, ended.tenant, target.definition)
    if ended.scope in (*FLAGGED, "DEFINITION", "TENANT"):
        await connection.execute(DUE_ENDS_OF_CHILDREN, ended.tenant, target.id, target.definition)


MARK_EFFECTIVE: Final = """
    -- Uses suspension_unconfirmed. Nodes do this at the same time: with one order of locks none waits for one that
    -- waits for it.
    WITH unconfirmed AS (
        SELECT tenant, id FROM suspension
         WHERE effective_at IS NULL AND ended_at IS NULL
           AND NOT EXISTS (SELECT FROM cluster_node WHERE lease_until > now_us() AND switches < suspension.revision)
         ORDER BY tenant, id
           FOR UPDATE OF suspension
    )
    UPDATE suspension SET effective_at = now_us()
      FROM unconfirmed
     WHERE (suspension.tenant, suspension.id) = (unconfirmed.tenant, unconfirmed.id)
 RETURNING suspension.id, suspension.effective_at
"""


async def mark_effective(pool: Pool) -> dict[str, int]:
    """Keep since when those hold, of all tenants, that all living nodes act by: what was not known yet, by id."""
    rows = await pool.fetch(MARK_EFFECTIVE)
    return {str(row["id"]): row["effective_at"] for row in rows}


LEASED_JOBS: Final = """
    SELECT count(*)
      FROM (SELECT FROM process_job AS job
             WHERE job.lock_expires_at > $2 AND job.locked_at < $3 AND job.tenant = $1
               AND ($4::uuid IS NULL OR job.instance = $4)
               AND ($5::text IS NULL OR job.definition_id = $5)
               AND ($6::text IS NULL OR job.job_type = $6)
             LIMIT 10000) AS counted
"""


async def count_leased_jobs(pool: Pool, suspension: Suspension, *, now_us: int) -> int:
    """Jobs that were handed out before a suspension of what they belong to, and are not finished; up to 10,000."""
    target, before = suspension.target, suspension.effective_at or now_us
    count: int = await pool.fetchval(
        LEASED_JOBS, suspension.tenant, now_us, before, target.id, target.definition, target.name
    )
    return count


DUE_ENDS: Final = """
    SELECT tenant, id FROM suspension WHERE until <= now_us() AND ended_at IS NULL ORDER BY until LIMIT 100
"""


async def list_due_ends(pool: Pool) -> list[tuple[TenantId, str]]:
    """Suspensions of all tenants whose time is over."""
    rows = await pool.fetch(DUE_ENDS)
    return [(TenantId(tenant), str(id_)) for tenant, id_ in rows]


REVISION: Final = "SELECT revision FROM switch_revision"

LOAD: Final = f"""
    SELECT current.revision AS newest, active.*
      FROM switch_revision AS current
      LEFT JOIN (SELECT {COLUMNS} FROM suspension WHERE ended_at IS NULL) AS active ON true
"""  # noqa: S608 - a constant


async def fetch_revision(pool: Pool) -> int:
    """The revision of all suspensions."""
    revision: int = await pool.fetchval(REVISION)
    return revision


async def load_active(pool: Pool) -> tuple[int, list[Suspension]]:
    """The active suspensions of all tenants, and their revision."""
    rows = await pool.fetch(LOAD)
    return rows[0]["newest"], [_to_suspension(row) for row in rows if row["id"] is not None]


CONFIRM: Final = """
    UPDATE cluster_node SET switches = $2, recordings = $2, runs_under_way = $3
     WHERE id = $1 AND (switches, recordings, runs_under_way) IS DISTINCT FROM ($2, $2, $3)
"""

UNDER_WAY: Final = """
    SELECT coalesce(sum((runs_under_way::json ->> $1::text)::bigint), 0)::bigint
      FROM cluster_node WHERE lease_until > now_us() AND id <> $2
"""

PENDING: Final = """
    SELECT name FROM cluster_node WHERE lease_until > now_us() AND switches < $1 ORDER BY name LIMIT 100
"""


async def confirm_revision(pool: Pool, node: NodeId, revision: int, under_way: Mapping[str, int]) -> None:
    """Say that a node acts by this revision, and how many of its runs began before a suspension, by its id."""
    await pool.execute(CONFIRM, node, revision, _encode(under_way).decode())


async def count_under_way(pool: Pool, suspension: str, *, but: NodeId) -> int:
    """Runs of the other nodes that began before a suspension, as these said last."""
    count: int = await pool.fetchval(UNDER_WAY, suspension, but)
    return count


async def list_pending_nodes(pool: Pool, revision: int) -> list[str]:
    """The names of nodes that are alive and may not act by this revision yet."""
    return [row["name"] for row in await pool.fetch(PENDING, revision)]


class SuspensionFilter(Struct, frozen=True, kw_only=True):
    """Which suspensions are wanted; None: whatever it is."""

    scopes: Sequence[str] | None = None
    model: str | None = None
    entity_id: str | None = None
    is_active: bool | None = None


_MATCHING: Final = """
      FROM suspension
     WHERE tenant = $1
       AND ($2::text[] IS NULL OR scope = ANY ($2))
       AND ($3::text IS NULL OR (details::json -> 'model' ->> 'name') = $3)
       AND ($4::text IS NULL OR (scope IN ('ENTITY', 'INSTANCE') AND target = $4))
       AND ($5::boolean IS NULL OR (ended_at IS NULL) = $5)
"""

LIST: Final = f"""
    -- Newest first; ids rise with time.
    SELECT {COLUMNS} {_MATCHING}
       AND ($6::uuid IS NULL OR id < $6)
     ORDER BY id DESC
     LIMIT $7
"""

COUNT: Final = f"SELECT count(*) FROM (SELECT {_MATCHING} LIMIT $6) AS counted"  # noqa: S608 - constants

FIND: Final = f"SELECT {COLUMNS} FROM suspension WHERE tenant = $1 AND id = $2"  # noqa: S608 - a constant


async def list_suspensions(
    pool: Pool, tenant: TenantId, wanted: SuspensionFilter, *, limit: int, after: str | None
) -> list[Suspension]:
    """Up to ``limit``, newest first; those behind the id ``after``."""
    rows = await pool.fetch(LIST, tenant, *_list_arguments(wanted), after, limit)
    return [_to_suspension(row) for row in rows]


async def count_suspensions(pool: Pool, tenant: TenantId, wanted: SuspensionFilter, *, limit: int) -> int:
    """How many there are, counted up to ``limit``."""
    count: int = await pool.fetchval(COUNT, tenant, *_list_arguments(wanted), limit)
    return count


def _list_arguments(wanted: SuspensionFilter) -> tuple[object, ...]:
    return wanted.scopes, wanted.model, wanted.entity_id, wanted.is_active


async def find_suspension(pool: Pool, tenant: TenantId, id_: str) -> Suspension | None:
    """One, active or ended."""
    row = await pool.fetchrow(FIND, tenant, id_)
    return None if row is None else _to_suspension(row)


REMOVE: Final = build_removal("suspension", "ended_at < now_us() - $1::bigint")
"""Uses suspension_ended."""


def _to_suspension(row: asyncpg.Record) -> Suspension:
    ended_by = None if row["ended_by_id"] is None else Actor(row["ended_by_id"], row["ended_by_kind"])
    return Suspension(
        id=str(row["id"]),
        tenant=TenantId(row["tenant"]),
        scope=row["scope"],
        target=_decode_target(row["details"]),
        reason=row["reason"],
        since=row["since"],
        by=Actor(row["by_id"], row["by_kind"]),
        revision=row["revision"],
        until=row["until"],
        effective_at=row["effective_at"],
        ended_at=row["ended_at"],
        ended_by=ended_by,
        end_reason=row["end_reason"],
        timers=row["timers"],
    )

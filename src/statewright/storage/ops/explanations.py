"""What explanations are made from, each in one consistent reading: of an entity, and of an instance, whatever its
process language. Beside it stands what entities have become since some instant, for those who wait for one of their
states.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from statewright.entity import Entity, ScheduledTask
from statewright.ids import EntityId, TenantId, TransactionId
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
    row = await pool.fetchrow(OBSERVE, tenant, entity_id)
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


MAX_PLACES: Final = 1_000
"""Executions under way that are told, and timers."""


class ObservedJob(Struct, frozen=True, kw_only=True):
    """The unfinished job of an execution. Instants in epoch microseconds."""

    id: str
    type: str
    retries: int
    worker: str
    locked_at: int | None
    lock_expires_at: int | None
    held: bool
    kept: bool
    """Whether it is over, and what was reported of it waits for the end of a suspension."""


class ObservedExecution(Struct, frozen=True, kw_only=True):
    """An execution that has not ended, with the job or the user task that it waits for."""

    node: str
    node_type: str
    attempt: int
    started_at: int
    job: ObservedJob | None
    task: str | None


class ObservedTimer(Struct, frozen=True, kw_only=True):
    """An armed timer."""

    id: str
    fire_at: int


class ObservedInstance(Struct, frozen=True, kw_only=True):
    """An instance as the tables of processes have it. ``failure`` is the reason of the execution that failed last."""

    language: str
    definition_id: str
    status: str
    business_key: str | None
    failed_node: str | None
    failure: str | None
    executions: tuple[ObservedExecution, ...]
    timers: tuple[ObservedTimer, ...]


INSTANCES_OBSERVE: Final = f"""
    SELECT line.language, line.definition_id, line.status, line.business_key, failed.node_id AS failed_node,
           failed.failure_reason AS failure,
           (SELECT json_agg(under_way)
              FROM (SELECT made.node_id AS node, made.node_type, made.attempt, made.started_at,
                           (SELECT json_build_object('id', job.id, 'type', job.job_type, 'retries', job.retries,
                                                     'worker', job.worker, 'locked_at', job.locked_at,
                                                     'lock_expires_at', job.lock_expires_at, 'held', job.held,
                                                     'kept', job.kept_under IS NOT NULL)
                              FROM process_job AS job WHERE job.tenant = $1 AND job.id = made.work) AS job,
                           (SELECT task.id FROM process_task AS task
                             WHERE task.tenant = $1 AND task.id = made.work) AS task
                      FROM process_execution AS made
                     WHERE made.tenant = $1 AND made.instance = $2 AND made.status = 'RUNNING'
                     ORDER BY made.started_at, made.id
                     LIMIT {MAX_PLACES}) AS under_way) AS executions,
           (SELECT json_agg(armed)
              FROM (SELECT timer.id, timer.fire_at FROM process_timer AS timer
                     WHERE timer.tenant = $1 AND timer.instance = $2
                     ORDER BY timer.fire_at LIMIT {MAX_PLACES}) AS armed) AS timers
      FROM process_instance AS line
      LEFT JOIN LATERAL (
            SELECT node_id, failure_reason FROM process_execution
             WHERE tenant = $1 AND instance = $2 AND status = 'FAILED'
             ORDER BY ended_at DESC, id DESC LIMIT 1) AS failed ON true
     WHERE line.tenant = $1 AND line.id = $2
"""  # noqa: S608 - constants

_decode_executions = msgspec.json.Decoder(tuple[ObservedExecution, ...]).decode
_decode_timers = msgspec.json.Decoder(tuple[ObservedTimer, ...]).decode


async def observe_instance(pool: Pool, tenant: TenantId, instance: EntityId) -> ObservedInstance | None:
    """The instance as it is now; None when there is none (any more)."""
    row = await pool.fetchrow(INSTANCES_OBSERVE, tenant, instance)
    if row is None:
        return None
    return ObservedInstance(
        language=row["language"],
        definition_id=row["definition_id"],
        status=row["status"],
        business_key=row["business_key"],
        failed_node=row["failed_node"],
        failure=row["failure"],
        executions=_decode_executions(row["executions"] or "[]"),
        timers=_decode_timers(row["timers"] or "[]"),
    )


class SeenVersion(Struct, frozen=True):
    """A version as far as waiting is concerned. ``at`` is in epoch microseconds."""

    transaction_id: TransactionId
    state: str
    at: int
    is_deleted: bool


class Position(Struct, frozen=True):
    """From when on versions of an entity count: those later than ``since`` (epoch microseconds)."""

    tenant: TenantId
    entity: EntityId
    since: int


SINCE: Final = f"""
    -- Uses the primary keys of both tables; a row of the history that is valid for ever is a tombstone.
    SELECT wanted.n, seen.transaction_id, seen.state, seen.valid_from, seen.is_deleted
      FROM unnest($1::text[], $2::uuid[], $3::bigint[]) WITH ORDINALITY AS wanted (tenant, id, since, n)
     CROSS JOIN LATERAL (
            SELECT transaction_id, state, valid_from, false AS is_deleted FROM entity
             WHERE entity.tenant = wanted.tenant AND entity.id = wanted.id AND entity.valid_from > wanted.since
             UNION ALL
            SELECT transaction_id, state, valid_from, valid_to = 9223372036854775807 FROM entity_history AS old
             WHERE old.tenant = wanted.tenant AND old.id = wanted.id AND old.valid_from > wanted.since
             ORDER BY valid_from
             LIMIT {MAX_VERSIONS}) AS seen
     ORDER BY wanted.n, seen.valid_from
"""  # noqa: S608 - the limit is a constant


async def fetch_since(pool: Pool, positions: Sequence[Position]) -> list[list[SeenVersion]]:
    """For each position the versions behind it, in order; by one statement."""
    tenants, ids = [each.tenant for each in positions], [each.entity for each in positions]
    rows = await pool.fetch(SINCE, tenants, ids, [each.since for each in positions])
    found: list[list[SeenVersion]] = [[] for _ in positions]
    for n, transaction, state, at, is_deleted in rows:
        found[n - 1].append(SeenVersion(TransactionId(str(transaction)), state, at, is_deleted))
    return found


WRITTEN: Final = """
    SELECT min(valid_from) FROM (
        SELECT valid_from FROM entity
         WHERE tenant = $1 AND id = $2 AND $3 IN (transaction_id, entry_transaction_id)
         UNION ALL
        SELECT valid_from FROM entity_history
         WHERE tenant = $1 AND id = $2 AND $3 IN (transaction_id, entry_transaction_id)) AS written
"""


async def find_instant(pool: Pool, tenant: TenantId, entity: EntityId, transaction: TransactionId) -> int | None:
    """When a transaction wrote an entity first (epoch microseconds); None when it never did, or that is not kept."""
    at: int | None = await pool.fetchval(WRITTEN, tenant, entity, transaction)
    return at

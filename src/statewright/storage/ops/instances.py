"""What an explanation of an instance is made from, whatever its process language, in one consistent reading."""

from typing import Final

import msgspec
from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.storage.pool import Pool

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


OBSERVE: Final = f"""
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
    async with pool.connection() as connection:
        row = await connection.fetchrow(OBSERVE, tenant, instance)
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

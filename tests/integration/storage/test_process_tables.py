"""The tables of processes: what a database of the step engine alone becomes, and nodes that still use the old names."""

from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from statewright.ids import EntityId, TenantId
from statewright.storage import migrate
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from statewright.storage.processes import definitions, instances, jobs
from statewright.storage.processes.instances import InstanceFilter, TaskFilter
from statewright.storage.processes.jobs import JobKind, JobLease, WorkOwner
from statewright.storage.work import STARTS, TIMERS
from tests.database import connected, temporary_database
from tests.takings import take

BEFORE = migrate.MIGRATIONS[:11]
"""The schema in which only the step engine had instances."""
ACME = TenantId("acme")
IDS = [f"01900000-0000-7000-8000-{n:012x}" for n in range(10)]
INSTANCE, EXECUTION, JOB, TASK, TIMER, CHILD = map(EntityId, IDS[:6])

OLD_ROWS = [
    """INSERT INTO step_definition (tenant, id, version, name, description, content, uploaded_at, source)
        VALUES ('acme', 'loan', 1, 'a loan', '', 'hash', 5, '{"b": 1, "a": 2}')""",
    f"""INSERT INTO step_instance (tenant, id, definition_id, status, business_key, finished_at)
        VALUES ('acme', '{INSTANCE}', 'loan', 'ACTIVE', 'key', NULL)
        ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status, finished_at = excluded.finished_at""",
    f"""INSERT INTO step_execution (tenant, instance, id, step_id, step_type, attempt, status, started_at, input, work)
        VALUES ('acme', '{INSTANCE}', '{EXECUTION}', 'check', 'SERVICE_TASK', 1, 'RUNNING', 7, '{{"n": 1}}', '{JOB}')
        ON CONFLICT (tenant, instance, id) DO UPDATE SET status = excluded.status""",
    f"""INSERT INTO step_job (tenant, id, instance, execution, definition_id, step_id, job_type, retries, created_at,
                              held)
        VALUES ('acme', '{JOB}', '{INSTANCE}', '{EXECUTION}', 'loan', 'check', 'score', 3, 7, false)""",
    f"""INSERT INTO step_task (tenant, id, instance, execution, definition_id, definition_version, step_id, job_type,
                               created_at, held)
        VALUES ('acme', '{TASK}', '{INSTANCE}', '{EXECUTION}', 'loan', 1, 'approve', 'form', 8, false)""",
    f"INSERT INTO step_timer (tenant, id, instance, fire_at, held) VALUES ('acme', '{TIMER}', '{INSTANCE}', 9, false)",
    f"""INSERT INTO step_child (tenant, id, parent, definition_id, variables, not_before)
        VALUES ('acme', '{CHILD}', '{INSTANCE}', 'loan', '{{"v": 1}}', 9)""",
]
"""One row in every table, as nodes of the version before write them."""

OLD_CLAIM = """
    WITH claimed AS (
        UPDATE step_job
           SET worker = $4, locked_at = $5, lock_expires_at = $6
         WHERE tenant = $1
           AND id = ANY (ARRAY(
                SELECT oldest.id
                  FROM unnest($2::text[]) AS wanted (job_type)
                 CROSS JOIN LATERAL (
                    SELECT id FROM step_job
                     WHERE tenant = $1 AND job_type = wanted.job_type AND lock_expires_at IS NULL AND NOT held
                       AND tags IS NULL
                     ORDER BY id
                     LIMIT $3 FOR UPDATE SKIP LOCKED) AS oldest
                 ORDER BY oldest.id
                 LIMIT $3))
     RETURNING id, instance, execution, step_id
    )
    SELECT claimed.id, claimed.step_id, made.input
      FROM claimed
     CROSS JOIN LATERAL (
            SELECT input FROM step_execution
             WHERE step_execution.tenant = $1 AND step_execution.instance = claimed.instance
               AND step_execution.id = claimed.execution
             LIMIT 1) AS made
"""
OLD_TAKE_TIMERS = """
    UPDATE step_timer
       SET not_before = $2
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM step_timer
             WHERE greatest(fire_at, not_before) <= $1 AND NOT held
             ORDER BY greatest(fire_at, not_before), id
             LIMIT $3 FOR UPDATE SKIP LOCKED))
 RETURNING tenant, id, instance, fire_at
"""
OLD_TAKE_CHILDREN = """
    UPDATE step_child
       SET not_before = $1 + $2 * (1 << least(attempts, 6)), attempts = attempts + 1
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM step_child
             WHERE not_before <= $1
             ORDER BY not_before, id
             LIMIT $3 FOR UPDATE SKIP LOCKED))
 RETURNING tenant, id, parent, definition_id, business_key, variables
"""
OLD_SWEEP = """
    UPDATE step_job SET worker = '', locked_at = NULL, lock_expires_at = NULL
     WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM step_job
             WHERE lock_expires_at < $1
             ORDER BY lock_expires_at
             LIMIT $2 FOR UPDATE SKIP LOCKED))
 RETURNING tenant, id, instance, job_type
"""


@pytest.fixture
async def old_database(database_server: str) -> AsyncIterator[str]:
    """The URL of a database that has the schema of before."""
    async with temporary_database(database_server) as url:
        async with connected(url) as connection:
            await migrate.apply_pending(connection, BEFORE)
        yield url


async def check_rows(database: str) -> None:
    """What was written under the old names is found, and belongs to the step language."""
    async with Pool(parse_database_url(database), size=1) as pool:
        version = await definitions.fetch_version(pool, ACME, "steps", "loan", 1)
        assert version is not None
        assert version.source == '{"b": 1, "a": 2}'
        assert await definitions.fetch_version(pool, ACME, "toy", "loan", 1) is None
        _, count = await instances.fetch_abridged_instances(pool, ACME, "steps", InstanceFilter(), offset=0, limit=9)
        assert count == 1
        _, count = await instances.fetch_abridged_instances(pool, ACME, "toy", InstanceFilter(), offset=0, limit=9)
        assert count == 0
        [line], _ = await instances.fetch_execution_page(pool, ACME, "steps", INSTANCE, offset=0, limit=9)
        assert (line.node_id, line.node_type, line.input) == ("check", "SERVICE_TASK", '{"n": 1}')
        ids, _ = await instances.list_open_tasks(pool, ACME, TaskFilter(language="steps"), offset=0, limit=9)
        [task], _ = await instances.fetch_open_tasks(pool, ACME, ids)
        assert (task.id, task.node_id) == (TASK, "approve")
        assert await jobs.fetch_owner_of_work(pool, ACME, ["toy", "steps"], JOB) == WorkOwner("steps", INSTANCE)
        assert await jobs.fetch_owner_of_work(pool, ACME, ["toy"], JOB) is None
        assert await jobs.fetch_routes(pool, ACME, "toy") == []
        lease = JobLease(worker="w", now=10, until=20)
        assert await jobs.claim_jobs(pool, ACME, [JobKind("score", "toy")], [lease] * 9) == []
        [job] = await jobs.claim_jobs(pool, ACME, [JobKind("score", "steps")], [lease] * 9)
        assert (job.id, job.node_id, job.retries, job.input) == (JOB, "check", 3, '{"n": 1}')
        assert await take(pool, TIMERS, ["toy"], now=10, until=20) == []
        [timer] = await take(pool, TIMERS, ["steps"], now=10, until=20)
        assert (timer.id, timer.language) == (TIMER, "steps")
        assert await take(pool, STARTS, ["toy"], now=10, until=11) == []
        [child] = await take(pool, STARTS, ["steps"], now=10, until=11)
        assert (child.id, child.language, child.variables) == (CHILD, "steps", '{"v": 1}')


async def test_rows_of_every_table_outlive_the_migration(old_database: str):
    async with connected(old_database) as connection:
        for row in OLD_ROWS:
            await connection.execute(row)
        await migrate.apply_pending(connection)
    await check_rows(old_database)


async def test_a_node_of_the_version_before_goes_on_beside_new_ones(old_database: str):
    """It has prepared its statements, and neither names nor rows have gone away under it."""
    async with connected(old_database) as old, connected(old_database) as new:
        claim = await old.prepare(OLD_CLAIM)
        assert await claim.fetch("acme", ["score"], 9, "w", 10, 20) == []
        await migrate.apply_pending(new)
        for row in OLD_ROWS:
            await old.execute(row)
        [job] = await claim.fetch("acme", ["score"], 9, "w", 10, 20)
        assert (job["id"], job["step_id"], job["input"]) == (UUID(JOB), "check", '{"n": 1}')
        assert [row["id"] for row in await old.fetch(OLD_TAKE_TIMERS, 10, 0, 9)] == [UUID(TIMER)]
        assert [row["id"] for row in await old.fetch(OLD_TAKE_CHILDREN, 10, -1, 9)] == [UUID(CHILD)]
        assert [row["id"] for row in await old.fetch(OLD_SWEEP, 30, 9)] == [UUID(JOB)]
    await check_rows(old_database)


async def test_a_node_of_the_version_before_sees_nothing_of_other_languages(old_database: str):
    async with connected(old_database) as connection:
        await migrate.apply_pending(connection)
        await connection.execute(
            f"""INSERT INTO process_job (tenant, language, id, instance, execution, definition_id, node_id, job_type,
                                         retries, created_at, held)
                VALUES ('acme', 'toy', '{JOB}', '{INSTANCE}', '{EXECUTION}', 'loan', 'check', 'score', 3, 7, false)"""
        )
        assert await connection.fetch(OLD_CLAIM, "acme", ["score"], 9, "w", 10, 20) == []
        assert await connection.fetch("DELETE FROM step_job RETURNING id") == []


async def test_definitions_of_two_languages_may_have_one_name(old_database: str):
    insert = """INSERT INTO process_definition (tenant, language, id, version, name, description, content, uploaded_at,
                                                source)
                VALUES ('acme', $1, 'loan', 1, '', '', '', 0, '')"""
    async with connected(old_database) as connection:
        await migrate.apply_pending(connection)
        await connection.execute(insert, "steps")
        await connection.execute(insert, "toy")
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute(insert, "toy")

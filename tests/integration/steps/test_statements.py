"""Statements of the step engine find their rows by indexes, also with plans made while its tables were empty."""

import json
import re
from collections.abc import Iterator

import pytest

from statewright.storage import takings
from statewright.storage.commit.statement import CommitStatement
from statewright.storage.processes import definitions, instances, jobs, leases
from statewright.storage.processes.jobs import MAX_PAYLOAD, build_payloads
from statewright.storage.processes.parts import PROCESS_PARTS
from statewright.storage.work import ENDS, LOSSES, REPORTS, STARTS, TIMERS
from tests.database import Template, connected, explain_generically, filled_clone

FILL = """
    INSERT INTO process_job (tenant, id, instance, execution, definition_id, node_id, job_type, retries, created_at,
                             held)
    SELECT 'acme', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'd', 's', 't', 0, n, false
      FROM generate_series(1, 20000) AS n;
    INSERT INTO process_job (tenant, id, instance, execution, definition_id, node_id, job_type, retries, created_at,
                             held, tags)
    SELECT 'acme', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'd', 's', 't', 0, n, false, 'eu, gpu'
      FROM generate_series(1, 20000) AS n;
    INSERT INTO process_timer (tenant, id, instance, fire_at, held)
    SELECT 'acme', gen_random_uuid(), gen_random_uuid(), n, false FROM generate_series(1, 20000) AS n;
    INSERT INTO process_execution (tenant, instance, id, node_id, node_type, attempt, status, started_at, work)
    SELECT 'acme', gen_random_uuid(), gen_random_uuid(), 's', 'SERVICE_TASK', 1, 'RUNNING', n, gen_random_uuid()
      FROM generate_series(1, 20000) AS n;
    INSERT INTO process_instance (tenant, id, definition_id, status, finished_at)
    SELECT 'acme', gen_random_uuid(), 'd', 'COMPLETED', n FROM generate_series(1, 20000) AS n;
    INSERT INTO process_task (tenant, id, instance, execution, definition_id, definition_version, node_id, job_type,
                           created_at, held)
    SELECT 'acme', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'd', 1, 's', '', n, false
      FROM generate_series(1, 20000) AS n;
    INSERT INTO process_child (tenant, id, parent, definition_id, variables, not_before)
    SELECT 'acme', gen_random_uuid(), gen_random_uuid(), 'd', '{}', n FROM generate_series(1, 20000) AS n;
    INSERT INTO process_child_end (tenant, language, id, parent, execution, outcome, not_before)
    SELECT 'acme', 'steps', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), '{}', n
      FROM generate_series(1, 20000) AS n;
    INSERT INTO process_event (tenant, instance, number, event)
    SELECT 'acme', gen_random_uuid(), n, '{}' FROM generate_series(1, 20000) AS n;
    INSERT INTO process_definition (tenant, id, version, name, description, content, uploaded_at, source)
    SELECT 'acme', 'd' || n % 1000, n, 'd', '', '', n, '{}' FROM generate_series(1, 20000) AS n;
    ANALYZE;
"""

COMMIT = CommitStatement(PROCESS_PARTS)

HOT = {
    "claim": jobs.CLAIM,
    "claim plain jobs": jobs.CLAIM_PLAIN,
    "claim tagged jobs": jobs.CLAIM_TAGGED,
    "routes": jobs.ROUTES,
    "queued": jobs.QUEUED,
    "instance of": jobs.OWNER_OF,
    "requeue": leases.REQUEUE,
    "sweep": leases.SWEEP,
    "reports": leases.TAKE,
    **{
        f"{work.name} {name}": takings.write_statement(template, work)
        for work in (TIMERS, STARTS, ENDS, LOSSES)
        for name, template in (("take", takings.TAKE), ("suspect", takings.TAKE_SUSPECT), ("hold", takings.HOLD))
    },
    **{
        f"{work.name} {name}": takings.write_statement(template, work)
        for work in (TIMERS, STARTS, ENDS, LOSSES, REPORTS)
        for name, template in (("release", takings.RELEASE), ("revive", takings.REVIVE), ("drop", takings.DROP))
    },
    "suspect report": takings.write_statement(takings.TAKE_SUSPECT, REPORTS),
    "log": instances.EVENTS,
    "history page": instances.HISTORY_PAGE,
    "last statuses": instances.LAST_STATUSES,
    "latest versions": definitions.LATEST_VERSIONS,
    "commit": COMMIT.compose("progress"),
    "commit of a start": COMMIT.compose("latest", "progress"),
    "commit everything": COMMIT.compose(*COMMIT.part_names),
}


@pytest.fixture(scope="module", params=["empty", "filled"])
def tables(request: pytest.FixtureRequest, database_template: Template) -> Iterator[str]:
    """A database whose tables are as they were made, or large and analyzed; statements are only explained there."""
    script = FILL if request.param == "filled" else "SELECT"
    with filled_clone(database_template, script) as database:
        yield database


@pytest.mark.parametrize("name", HOT)
async def test_no_statement_scans_a_table_of_the_step_engine(tables: str, name: str):
    """Whatever the parameters: this is the plan that a connection keeps."""
    async with connected(tables) as connection:
        plan = await explain_generically(connection, HOT[name])
    assert not re.search("Seq Scan on process_", plan), plan


def test_announcements_are_cut_to_what_a_notification_may_hold():
    topics = {("acme", "steps", f"type-{n:04d}") for n in range(1000)} | {("acme", "steps", "x" * 9000)}
    texts = build_payloads(topics)
    assert all(len(text.encode()) <= MAX_PAYLOAD for text in texts)
    heard = [tuple(topic) for text in texts for topic in json.loads(text)]
    assert sorted(heard) == sorted(topic for topic in topics if len(topic[2]) < 100)

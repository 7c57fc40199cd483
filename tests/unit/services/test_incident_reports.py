"""What waits to be written as incidents."""

from contextlib import suppress
from typing import cast

from statewright.entity import Principal
from statewright.failures import FailedRun, WorkflowFailed
from statewright.ids import TenantId
from statewright.operations.incidents import compute_fingerprint
from statewright.services.incident_reports import MAX_WAITING, IncidentReports
from statewright.storage.ops.incidents import INCIDENTS
from statewright.storage.pool import Pool

ADA = Principal(id="ada", name="Ada", kind="user", tenant=TenantId("t"))


def reports(*, is_on: bool = True) -> IncidentReports:
    return IncidentReports(cast("Pool", None), lambda: 1_000_000, is_on=is_on, max_payload=100)


def a_failure(entity: str) -> WorkflowFailed:
    run = FailedRun(
        entity_id=entity,
        model="prize",
        version=1,
        workflow="w",
        state="NEW",
        transition="GO",
        component="charge",
        base_transaction="a",
        document="{}",
        requested="GO",
    )
    return WorkflowFailed("processor charge failed: no").amend(failed_run=run)


def test_what_has_no_room_is_dropped_and_counted():
    waiting = reports()
    for number in range(MAX_WAITING + 5):
        waiting.report_run(ADA, a_failure(f"e-{number}"))
    waiting.report_run(ADA, a_failure("e-0"))  # is there already
    assert (waiting.totals["RUN_FAILED"], waiting.dropped) == (MAX_WAITING + 6, 5)


def test_what_commits_is_written_behind_where_a_tenant_has_too_many():
    waiting = reports()
    parts = dict(waiting.build_run_parts(ADA, a_failure("e-0")))
    assert waiting.withhold(parts) == ()
    assert list(parts) == [INCIDENTS.name]
    waiting.crowded = frozenset({ADA.tenant})
    withheld = waiting.withhold(parts)
    assert [row.subject_id for row in withheld] == ["e-0"]
    assert parts == {}
    assert waiting.build_run_parts(ADA, a_failure("e-1")) == {}
    waiting.write_behind(withheld)
    assert (waiting.totals["RUN_FAILED"], waiting.dropped) == (1, 0)


def test_refusals_and_what_is_switched_off_are_not_reported():
    waiting, off = reports(), reports(is_on=False)
    waiting.report_run(ADA, WorkflowFailed("criterion not matched"))
    off.report_run(ADA, a_failure("e"))
    assert not waiting.totals
    assert not off.totals


def test_a_cause_is_recognised_whatever_is_quoted_or_numbered():
    def fingerprint(message: str, component: str = "c") -> str:
        return compute_fingerprint("RUN_FAILED", component, message=message)

    told = fingerprint('order "A-1" of 00000000-0000-1000-8000-000000000000 failed after 3.5 s')
    assert told == fingerprint('order "B" of 91b2a0c4-0000-1000-8000-000000000000 failed after 12 s')
    assert told != fingerprint('order "A-1" was refused after 3.5 s')
    assert told != fingerprint('order "B" of 91b2a0c4-0000-1000-8000-000000000000 failed after 12 s', "d")


def test_what_commits_with_its_cause_counts_once_that_has_succeeded():
    waiting = reports()
    [part] = waiting.build_run_parts(ADA, a_failure("e-0")).values()
    waiting.totals.clear()
    with suppress(ZeroDivisionError), waiting.watch_commit({INCIDENTS.name: part}):
        raise ZeroDivisionError
    assert waiting.totals["RUN_FAILED"] == 0
    with waiting.watch_commit({INCIDENTS.name: part}):
        pass
    assert waiting.totals["RUN_FAILED"] == 1


def test_what_a_crowded_tenant_does_not_commit_is_written_behind():
    waiting = reports()
    parts = dict(waiting.build_run_parts(ADA, a_failure("e-0")))
    waiting.totals.clear()
    waiting.crowded = frozenset({ADA.tenant})
    with waiting.watch_commit(parts):
        assert parts == {}
    assert (waiting.totals["RUN_FAILED"], waiting.dropped) == (1, 0)


def test_a_commit_without_incidents_is_left_alone():
    waiting, parts = reports(), {}
    with waiting.watch_commit(parts):
        assert parts == {}
    assert not waiting.totals

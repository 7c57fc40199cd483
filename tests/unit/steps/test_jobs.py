"""Decisions that need only a job's own row (docs/reference/steps.md#jobs, docs/reference/steps.md#when-a-job-fails)."""

import pytest

from statewright.processes.changes import FailureReport, GivenUp, Ignored, JobState, JobStatus, Requeued, decide_retry
from statewright.services.processes.jobs import clamp_batch_size, clamp_lease_s


def a_job(
    status: JobStatus = "LOCKED", *, worker: str | None = "w-1", retries: int = 2, held: bool = False
) -> JobState:
    return JobState(status=status, worker_id=worker, retries_remaining=retries, is_held=held)


def a_report(message: str = "boom", *, worker: str = "w-1", retryable: bool = True) -> FailureReport:
    return FailureReport(worker_id=worker, message=message, retryable=retryable)


def test_a_retryable_failure_uses_up_one_retry():
    assert decide_retry(a_job(retries=2), a_report()) == Requeued(1)


@pytest.mark.parametrize(("retries", "retryable"), [(0, True), (3, False)])
def test_without_a_retry_the_job_is_given_up(retries: int, *, retryable: bool):
    assert decide_retry(a_job(retries=retries), a_report("no", retryable=retryable)) == GivenUp("no")


def test_a_failure_without_a_message_has_a_reason_all_the_same():
    assert decide_retry(a_job(retries=0), a_report("")) == GivenUp("job failed")


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED"])
def test_a_finished_job_cannot_fail_any_more(status: JobStatus):
    assert decide_retry(a_job(status), a_report()) == Ignored()


def test_a_job_of_a_failed_instance_is_left_alone():
    assert decide_retry(a_job(held=True), a_report()) == Ignored()


def test_a_job_that_another_worker_holds_is_left_alone():
    assert decide_retry(a_job(worker="w-2"), a_report(worker="w-1")) == Ignored()


def test_a_report_without_a_worker_id_counts():
    assert decide_retry(a_job(worker="w-2"), a_report(worker="")) == Requeued(1)


def test_a_job_whose_lease_was_swept_can_still_fail():
    assert decide_retry(a_job("UNLOCKED", worker=None), a_report()) == Requeued(1)


@pytest.mark.parametrize(("asked", "granted"), [(0, 30), (45, 45), (1, 5), (-3, 5), (9999, 3600)])
def test_a_lease_is_thirty_seconds_or_what_was_asked_for_within_bounds(asked: int, granted: int):
    assert clamp_lease_s(asked) == granted


@pytest.mark.parametrize(("asked", "given"), [(0, 10), (-1, 10), (64, 64), (5000, 1000)])
def test_a_batch_has_a_default_and_a_limit(asked: int, given: int):
    assert clamp_batch_size(asked, default=10) == given

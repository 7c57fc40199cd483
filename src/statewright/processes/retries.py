"""Decisions about a job that need only its own row, not the instance.

The number of retries lives with the job: a retry changes no instance.
"""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

JobStatus: TypeAlias = Literal["UNLOCKED", "LOCKED", "COMPLETED", "FAILED", "CANCELLED"]

JOB_FAILED: Final = "job failed"
"""The reason of a failure that came without one."""


class JobState(Struct, frozen=True, kw_only=True):
    """What a job's row knows. ``is_held``: its instance is failed."""

    status: JobStatus
    worker_id: str | None
    retries_remaining: int
    is_held: bool = False


class FailureReport(Struct, frozen=True, kw_only=True):
    """What a worker says of a job it could not do. ``worker_id`` may be empty."""

    worker_id: str
    message: str
    retryable: bool


class Ignored(Struct, frozen=True):
    """The report has no effect: the job is finished or held, or another worker has it now."""


class Requeued(Struct, frozen=True):
    """The job can be claimed again at once, with the same payload and place in the queue."""

    retries_remaining: int


class GivenUp(Struct, frozen=True):
    """The job failed, and with it the instance."""

    reason: str


def decide_retry(job: JobState, report: FailureReport) -> Ignored | Requeued | GivenUp:
    """What a failure report leads to."""
    if job.status not in ("UNLOCKED", "LOCKED") or job.is_held:
        return Ignored()
    if job.status == "LOCKED" and report.worker_id and job.worker_id and report.worker_id != job.worker_id:
        return Ignored()
    if report.retryable and job.retries_remaining > 0:
        return Requeued(job.retries_remaining - 1)
    return GivenUp(report.message or JOB_FAILED)

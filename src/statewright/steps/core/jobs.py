"""Decisions about a job that need only its own row, not the instance (spec/step-engine.md §11.6, §14.1).

The number of retries lives with the job: a retry changes no instance.
"""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.steps.core.operations import JOB_FAILED

JobStatus: TypeAlias = Literal["UNLOCKED", "LOCKED", "COMPLETED", "FAILED", "CANCELLED"]

MAX_JOBS: Final = 1000
"""Most jobs of one claim."""
DEFAULT_LEASE_SECONDS: Final = 30
_SHORTEST_LEASE: Final = 5
_LONGEST_LEASE: Final = 3600


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


def judge_failure(job: JobState, report: FailureReport) -> Ignored | Requeued | GivenUp:
    """What a failure report leads to."""
    if job.status not in ("UNLOCKED", "LOCKED") or job.is_held:
        return Ignored()
    if job.status == "LOCKED" and report.worker_id and job.worker_id and report.worker_id != job.worker_id:
        return Ignored()
    if report.retryable and job.retries_remaining > 0:
        return Requeued(job.retries_remaining - 1)
    return GivenUp(report.message or JOB_FAILED)


def lease_seconds(asked: int) -> int:
    """How long a claim lasts: 30 seconds unless the worker asks for something between 5 seconds and an hour."""
    return DEFAULT_LEASE_SECONDS if asked == 0 else min(max(asked, _SHORTEST_LEASE), _LONGEST_LEASE)


def batch_size(asked: int, default: int) -> int:
    """How many jobs a claim may take; ``default`` when the worker does not say."""
    return min(asked, MAX_JOBS) if asked > 0 else default

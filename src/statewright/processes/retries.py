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
    """What a worker says of a job it could not do. ``worker_id`` may be empty. ``retry_after_s``: how long the job is
    to rest, None: the worker does not say.
    """

    worker_id: str
    message: str
    retryable: bool
    retry_after_s: int | None = None


MAX_RETRY_AFTER_S: Final = 3600
"""Most that a worker may ask for."""


class Backoff(Struct, frozen=True, kw_only=True):
    """How long jobs rest after failures; ``retries`` is how many each of them has when it is made."""

    retries: int
    delay_s: float = 0.5
    max_delay_s: float = 30.0
    factor: float = 2.0
    jitter: float = 0.2

    def compute_pause_us(self, retries_left: int, chance: float) -> int:
        """How long a job rests that had so many retries left before this one; ``chance`` from 0 to 1 decides the
        jitter.
        """
        failed_before = min(max(self.retries - retries_left, 0), MAX_GROWTH)
        pause_s = min(self.max_delay_s, self.delay_s * self.factor**failed_before)
        return round(pause_s * (1 + self.jitter * (2 * chance - 1)) * 1_000_000)


MAX_GROWTH: Final = 100
"""Failures after which a pause grows no more: a float holds no larger power."""


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

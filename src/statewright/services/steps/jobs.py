"""Jobs: claim, complete, fail, renew (spec/step-engine.md §11.6, §13, §14.1)."""

from datetime import timedelta
from typing import Final

from msgspec import Struct

from statewright.failures import NotImplementedHere
from statewright.jsonval.values import JsonObject
from statewright.services.runtime import Caller, Runtime
from statewright.steps.core import FailureReport

LONGEST_WAIT: Final = timedelta(seconds=60)
"""Most that a claim waits for a job."""


class Claim(Struct, frozen=True, kw_only=True):
    """What a worker asks for. Bring numbers into range with ``steps.core.jobs.batch_size`` and ``lease_seconds``."""

    worker_id: str
    job_types: tuple[str, ...]
    max_jobs: int
    """1 … 1,000."""
    lease: timedelta = timedelta(seconds=30)
    wait: timedelta = timedelta(0)
    """How long to wait for the first job when there is none; at most ``LONGEST_WAIT``."""


class ClaimedJob(Struct, frozen=True, kw_only=True):
    """A job that is locked for a worker. Instants are epoch microseconds; render it with ``job_record``."""

    id: str
    instance_id: str
    definition_id: str
    step_id: str
    step_execution_id: str
    job_type: str
    worker_id: str
    locked_at: int
    lock_expires_at: int
    retries_remaining: int
    variables: JsonObject
    """All variables as they were when the job was made."""
    created_at: int


def job_record(job: ClaimedJob) -> JsonObject:
    """The record clients read (§11.6)."""
    raise NotImplementedHere("steps")


async def claim(runtime: Runtime, caller: Caller, request: Claim) -> tuple[ClaimedJob, ...]:
    """Lock up to ``max_jobs`` of the oldest jobs of any of the types; in order of creation, empty when there are none.

    A job is never handed to two workers at once. With ``wait`` the call ends as soon as it has any job. When the task
    that waits is cancelled, either nothing was claimed, or the claim is given back at once; a claim whose answer does
    not reach its worker otherwise comes back when its lease ends.
    """
    raise NotImplementedHere("steps")


async def complete(
    runtime: Runtime, caller: Caller, job_id: str, variables: "JsonObject | None" = None, *, worker_id: str = ""
) -> None:
    """A worker's result; the first one counts. Late, repeated and foreign ones are accepted without effect (J6).

    Raises ``StepNotFound`` (``job "X" not found``), ``StepBadRequest`` for variables that cannot be stored.
    """
    raise NotImplementedHere("steps")


async def fail(runtime: Runtime, caller: Caller, job_id: str, report: FailureReport) -> None:
    """A worker's failure: another try, or the end of the instance (§14.1). Without effect when it is late (J6).

    Raises ``StepNotFound`` (``job "X" not found``).
    """
    raise NotImplementedHere("steps")


async def renew(runtime: Runtime, caller: Caller, job_id: str, *, worker_id: str, lease: timedelta) -> int:
    """Lengthen a lease, from now on; when it ends, in epoch microseconds. Ours.

    Raises ``StepNotFound``, and ``StepConflict`` when the worker does not hold the job (any more).
    """
    raise NotImplementedHere("steps")


async def release(runtime: Runtime, caller: Caller, job_id: str, *, worker_id: str) -> None:
    """Give a claimed job back without using a retry. Without effect when the worker does not hold it (any more)."""
    raise NotImplementedHere("steps")

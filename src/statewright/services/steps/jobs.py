"""Jobs as the workers of the step dialect know them, which do those of other languages, too: claim, complete, fail,
renew; how many a worker may claim, and for how long (docs/reference/steps.md#jobs).
"""

from datetime import timedelta
from typing import Final

from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.processes.retries import FailureReport
from statewright.services.processes import jobs
from statewright.services.processes.jobs import ClaimedJob, JobClaim
from statewright.services.processes.queues import find_shared_queue
from statewright.services.runtime import Caller, Runtime

MAX_CLAIMED_JOBS: Final = 1000
"""Most jobs of one claim."""
DEFAULT_LEASE_S: Final = 30
_MIN_LEASE_S: Final = 5
_MAX_LEASE_S: Final = 3600


def clamp_lease_s(asked: int) -> int:
    """How long a claim lasts: 30 seconds unless the worker asks for something between 5 seconds and an hour."""
    return DEFAULT_LEASE_S if asked == 0 else min(max(asked, _MIN_LEASE_S), _MAX_LEASE_S)


def clamp_batch_size(asked: int, default: int) -> int:
    """How many jobs a claim may take; ``default`` when the worker does not say."""
    return min(asked, MAX_CLAIMED_JOBS) if asked > 0 else default


def to_job_record(job: ClaimedJob) -> JsonObject:
    """The record clients read."""
    return {
        "id": job.id,
        "instanceId": job.instance_id,
        "stepId": job.node_id,
        "stepExecutionId": job.execution_id,
        "jobType": job.job_type,
        "status": "LOCKED",
        "workerId": job.worker_id,
        "lockedAt": format_instant(job.locked_at),
        "lockExpiresAt": format_instant(job.lock_expires_at),
        "retriesRemaining": job.retries_remaining,
        "variables": job.variables,
        "createdAt": format_instant(job.created_at),
    }


async def claim(runtime: Runtime, caller: Caller, request: JobClaim) -> tuple[ClaimedJob, ...]:
    """Lock jobs of any of the types (``processes.jobs.claim``)."""
    return await jobs.claim(find_shared_queue(runtime), caller, request)


async def complete(
    runtime: Runtime, caller: Caller, job_id: str, result: JsonValue = None, *, worker_id: str = ""
) -> None:
    """A worker's result (``processes.jobs.complete``)."""
    await jobs.complete(find_shared_queue(runtime), caller, job_id, result, worker_id=worker_id)


async def fail(runtime: Runtime, caller: Caller, job_id: str, report: FailureReport) -> None:
    """A worker's failure (``processes.jobs.fail``)."""
    await jobs.fail(find_shared_queue(runtime), caller, job_id, report)


async def renew(runtime: Runtime, caller: Caller, job_id: str, *, worker_id: str, lease: timedelta) -> int:
    """Lengthen a lease (``processes.jobs.renew``)."""
    return await jobs.renew(find_shared_queue(runtime), caller, job_id, worker_id=worker_id, lease=lease)


async def report_progress(
    runtime: Runtime, caller: Caller, job_id: str, report: JsonValue, *, worker_id: str
) -> JsonObject:
    """What a worker has done of a job that it goes on with (``processes.jobs.report_progress``)."""
    return await jobs.report_progress(find_shared_queue(runtime), caller, job_id, report, worker_id=worker_id)


async def release(runtime: Runtime, caller: Caller, job_id: str, *, worker_id: str) -> None:
    """Give a claimed job back (``processes.jobs.release``)."""
    await jobs.release(find_shared_queue(runtime), caller, job_id, worker_id=worker_id)

"""Jobs as the workers of the public protocols know them, whatever the language (``queues.find_shared_queue``): their
records, how many a worker may claim, and for how long (docs/reference/steps.md#jobs).
"""

from typing import Final

from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject
from statewright.services.processes.jobs import ClaimedJob

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

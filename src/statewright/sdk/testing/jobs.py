"""Jobs and tasks done in a test: attempts follow one another as the service would hand the job out again, and the rests
between them pass at once.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.processes.changes import Backoff, FailureReport, JobState, Requeued, decide_retry
from statewright.sdk.functions import Function
from statewright.sdk.jobs import DaemonThreadPool, Job, JobFailure, describe_failure, run_handler

MAX_THREADS: Final = 8
NO_JITTER: Final = 0.5
"""The chance at which a rest is neither shorter nor longer."""


class JobAttempt(Struct, frozen=True, kw_only=True):
    """One attempt: how long after the first it began, and how it failed, empty: it did not. ``rest`` is how long the
    job then rested; None where no attempt followed. ``exception`` is what the handler raised.
    """

    after: timedelta
    error: str = ""
    retryable: bool = True
    rest: timedelta | None = None
    exception: Exception | None = None


class Done(Struct, frozen=True, kw_only=True):
    """What became of a job. ``variables`` are those that it sets, None when it was given up; what a task returned that
    is no object is under ``$output``.
    """

    success: bool
    variables: "JsonObject | None"
    attempts: tuple[JobAttempt, ...]

    @property
    def error(self) -> str:
        """Of the last attempt, empty: it did not fail."""
        return self.attempts[-1].error


async def do_job(
    handlers: Mapping[str, Function],
    job_type: str,
    variables: Mapping[str, JsonValue],
    *,
    task: Mapping[str, JsonValue] | None,
    retries: int,
    backoff: Backoff | None,
) -> Done:
    """Have a job done, until it is done or given up. Raises ``LookupError`` when nobody does jobs of the type."""
    handler = handlers.get(job_type)
    if handler is None:
        raise LookupError(f"the node has no handler of {job_type}; it has {', '.join(sorted(handlers)) or 'none'}")
    given = dict(variables) if task is None else {"name": job_type, "node": 1, "input": {}, **task}
    job = Job(id="J-1", type=job_type, instance_id="I-1", retries_remaining=retries, variables=given)
    attempts: list[JobAttempt] = []
    after = timedelta(0)
    while True:
        made, error = await _try(handler, job)
        if error is None:
            attempts.append(JobAttempt(after=after))
            return Done(success=True, variables=made, attempts=tuple(attempts))
        failure = describe_failure(error)
        attempt = JobAttempt(after=after, error=failure.message, retryable=failure.retryable, exception=error)
        rest = _find_rest(job, failure, backoff)
        attempts.append(replace(attempt, rest=rest))
        if rest is None:
            return Done(success=False, variables=None, attempts=tuple(attempts))
        after += rest
        job = replace(job, retries_remaining=job.retries_remaining - 1)


async def _try(handler: Function, job: Job) -> "tuple[JsonObject | None, Exception | None]":
    threads = DaemonThreadPool(MAX_THREADS)
    try:
        made = decode(await run_handler(handler, job, threads))
    except Exception as error:  # whatever a handler raises is its outcome
        return None, error
    finally:
        threads.shutdown()
    return (made if isinstance(made, dict) else None), None


def _find_rest(job: Job, failure: JobFailure, backoff: Backoff | None) -> timedelta | None:
    """How long the job rests before it is handed out again; None: it is given up."""
    state = JobState(status="LOCKED", worker_id="tester", retries_remaining=job.retries_remaining)
    report = FailureReport(worker_id="tester", message=failure.message, retryable=failure.retryable)
    if not isinstance(decide_retry(state, report), Requeued):
        return None
    if failure.rest is not None:
        return failure.rest
    if backoff is None:
        return timedelta(0)
    return timedelta(microseconds=backoff.compute_pause_us(job.retries_remaining, NO_JITTER))

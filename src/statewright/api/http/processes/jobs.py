"""Jobs over REST: what workers call (docs/reference/steps.md#jobs, docs/reference/steps.md#workers).

``waitSeconds`` of a poll is ours: the same answer, given as soon as there is a job. Workers that do not know it are
answered at once, and none of them minds the member, since the public engine ignores members it does not know.
"""

from datetime import timedelta
from typing import Final

from statewright.api.http.processes.bodies import (
    DEFAULT_TIMEOUT,
    NO_CONTENT,
    ProcessRoute,
    RequestMembers,
    read,
    reply,
    reply_by_size,
    respond_empty,
)
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.api.http.router import Endpoint
from statewright.failures import ProcessBadRequest
from statewright.instants import to_rfc3339
from statewright.operations.idempotency import Recording
from statewright.processes.changes import MAX_RETRY_AFTER_S, FailureReport
from statewright.services.processes import failed_jobs, jobs
from statewright.services.processes.hosting import find_shared_queue
from statewright.services.processes.jobs import MAX_WAIT, JobClaim, clamp_batch_size, clamp_lease_s, to_job_record

DEFAULT_BATCH_SIZE: Final = 10
"""``maxJobs`` when a worker does not say (docs/reference/steps.md#jobs)."""


async def poll_jobs(request: Request) -> Response:
    """Claim jobs."""
    body = await read(request)
    worker = body.text("workerId")
    if not worker:
        raise ProcessBadRequest("workerId is required")
    jobs.require_few_types(len(body.array("jobTypes")))
    job_types = body.texts("jobTypes")
    if not job_types:
        raise ProcessBadRequest("jobTypes must not be empty")
    claim = JobClaim(
        worker_id=worker,
        job_types=job_types,
        max_jobs=clamp_batch_size(body.number("maxJobs"), DEFAULT_BATCH_SIZE),
        lease=_read_lease(body),
        wait=min(timedelta(seconds=max(body.number("waitSeconds"), 0)), MAX_WAIT),
        peer=request.peer,
    )
    if claim.wait:  # what is claimed for a worker that has gone would rest until its lease ends
        request.watch_client()
    claimed = await jobs.claim(find_shared_queue(request.runtime.processes), request.caller, claim)
    return await reply_by_size({"jobs": [to_job_record(job) for job in claimed]})


async def complete_job(request: Request) -> Response:
    """Take a worker's result."""
    body = await read(request)
    result = body.get("variables")
    if not isinstance(result, list):  # some languages take arrays; which one the job is of, it is too early to know
        result = body.object("variables")
    body.text("workerId")  # refused unless it is a text; whose it is does not matter
    caller = request.answer_with(respond_empty)
    await jobs.complete(find_shared_queue(request.runtime.processes), caller, request.path_params["id"], result)
    return NO_CONTENT


async def fail_job(request: Request) -> Response:
    """Take a worker's failure."""
    body = await read(request)
    rest_s = body.integer("retryAfterSeconds")
    if rest_s is not None and not 0 <= rest_s <= MAX_RETRY_AFTER_S:
        raise ProcessBadRequest(f"retryAfterSeconds must be from 0 to {MAX_RETRY_AFTER_S}")
    report = FailureReport(
        worker_id=body.text("workerId"),
        message=body.text("errorMessage"),
        retryable=body.flag("retryable") or False,
        retry_after_s=rest_s,
    )
    await failed_jobs.fail(
        find_shared_queue(request.runtime.processes),
        request.answer_with(respond_empty),
        request.path_params["id"],
        report,
    )
    return NO_CONTENT


async def renew_job(request: Request) -> Response:
    """Lengthen the lease of a job that its worker still works on."""
    return reply({"lockExpiresAt": to_rfc3339(await _renew(request))})


async def heartbeat_job(request: Request) -> Response:
    """The same, as workers of the public SDKs ask for it."""
    return reply({"accepted": True, "lockExpiresAt": to_rfc3339(await _renew(request))})


async def _renew(request: Request) -> int:
    body = await read(request)
    return await jobs.renew(
        find_shared_queue(request.runtime.processes),
        request.caller,
        request.path_params["id"],
        worker_id=_require_worker(body),
        lease=_read_lease(body),
    )


async def report_progress(request: Request) -> Response:
    """Take what a worker has done of a job that it goes on with."""
    body = await read(request)
    worker, report = _require_worker(body), body.object("progress")
    taken = await jobs.report_progress(
        find_shared_queue(request.runtime.processes),
        request.caller,
        request.path_params["id"],
        report,
        worker_id=worker,
    )
    return reply(taken)


async def release_job(request: Request) -> Response:
    """Take back a job that its worker will not begin."""
    body = await read(request)
    await jobs.release(
        find_shared_queue(request.runtime.processes),
        request.caller,
        request.path_params["id"],
        worker_id=_require_worker(body),
    )
    return NO_CONTENT


def _require_worker(body: RequestMembers) -> str:
    worker = body.text("workerId")
    if not worker:
        raise ProcessBadRequest("workerId is required")
    return worker


def _read_lease(body: RequestMembers) -> timedelta:
    return timedelta(seconds=clamp_lease_s(body.number("leaseSeconds")))


def _define_route(
    place: str,
    endpoint: Endpoint,
    id_: str,
    summary: str,
    body: str,
    reply: str | None = None,
    *,
    errors: tuple[int, ...] = (400, 404, 413),
    recording: Recording = "nothing",
    is_extension: bool = True,
) -> ProcessRoute:
    return ProcessRoute(
        method="POST",
        path=f"/v1/jobs/{place}",
        endpoint=endpoint,
        recording=recording,
        id=id_,
        tag="Step jobs",
        summary=summary,
        body=body,
        reply=reply,
        status=200 if reply else 204,
        errors=errors,
        timeout=DEFAULT_TIMEOUT + (MAX_WAIT if endpoint is poll_jobs else timedelta(0)),
        is_extension=is_extension,
    )


_LEASE_ERRORS: Final = (400, 404, 409, 413)
JOB_ROUTES: Final = (
    _define_route(
        "poll",
        poll_jobs,
        "pollJobs",
        "Claim the oldest jobs of some types; with waitSeconds the answer waits for the first one",
        "StepPoll",
        "StepJobs",
        errors=(400, 413),
        is_extension=False,
    ),
    _define_route(
        "{id}/complete",
        complete_job,
        "completeJob",
        "A worker's result; late and repeated ones are accepted without effect",
        "StepResult",
        recording="commit",
        is_extension=False,
    ),
    _define_route(
        "{id}/fail",
        fail_job,
        "failJob",
        "A worker's failure: another try, or the end of the instance",
        "StepFailure",
        recording="commit",
        is_extension=False,
    ),
    _define_route(
        "{id}/heartbeat",
        heartbeat_job,
        "heartbeatJob",
        "Lengthen the lease of a job, as workers of the public SDKs do",
        "StepRenewal",
        "StepHeartbeat",
        errors=_LEASE_ERRORS,
        is_extension=False,
    ),
    _define_route(
        "{id}/renew",
        renew_job,
        "renewJob",
        "Lengthen the lease of a job that its worker still works on",
        "StepRenewal",
        "StepLease",
        errors=_LEASE_ERRORS,
    ),
    _define_route(
        "{id}/progress",
        report_progress,
        "reportJobProgress",
        "What a run of a playbook's pipeline has done so far, while its worker goes on",
        "StepProgress",
        "StepProgressTaken",
        errors=(400, 409, 413),
    ),
    _define_route(
        "{id}/release",
        release_job,
        "releaseJob",
        "Give a claimed job back without using a retry",
        "StepWorker",
        errors=(400, 413),
    ),
)
"""What workers of all languages call; its operations and schemas have the names of the public engine."""

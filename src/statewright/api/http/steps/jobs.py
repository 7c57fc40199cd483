"""Jobs over REST: what workers call (spec/step-engine.md §11.6, §13).

``waitSeconds`` of a poll is ours: the same answer, given as soon as there is a job. Workers that do not know it are
answered at once, and none of them minds the member, since the public engine ignores members it does not know.
"""

from datetime import timedelta
from typing import Final

from statewright.api.http.exchange import Answer, Exchange
from statewright.api.http.steps.bodies import NO_CONTENT, Body, read, reply
from statewright.failures import StepBadRequest
from statewright.services.steps import jobs
from statewright.services.steps.jobs import LONGEST_WAIT, Claim, job_record
from statewright.steps.core import FailureReport
from statewright.steps.core.jobs import batch_size, lease_seconds
from statewright.steps.core.times import instant_text

DEFAULT_BATCH: Final = 10
"""``maxJobs`` when a worker does not say (§11.6)."""


async def poll(exchange: Exchange) -> Answer:
    """Claim jobs."""
    body = await read(exchange)
    worker, job_types = body.text("workerId"), body.texts("jobTypes")
    if not worker:
        raise StepBadRequest("workerId is required")
    if not job_types:
        raise StepBadRequest("jobTypes must not be empty")
    claim = Claim(
        worker_id=worker,
        job_types=job_types,
        max_jobs=batch_size(body.number("maxJobs"), DEFAULT_BATCH),
        lease=_lease(body),
        wait=min(timedelta(seconds=max(body.number("waitSeconds"), 0)), LONGEST_WAIT),
    )
    claimed = await jobs.claim(exchange.runtime, exchange.caller, claim)
    return reply({"jobs": [job_record(job) for job in claimed]})


async def complete(exchange: Exchange) -> Answer:
    """Take a worker's result."""
    body = await read(exchange)
    variables, worker = body.object("variables"), body.text("workerId")
    await jobs.complete(exchange.runtime, exchange.caller, exchange.segments["id"], variables, worker_id=worker)
    return NO_CONTENT


async def fail(exchange: Exchange) -> Answer:
    """Take a worker's failure."""
    body = await read(exchange)
    report = FailureReport(
        worker_id=body.text("workerId"), message=body.text("errorMessage"), retryable=body.flag("retryable")
    )
    await jobs.fail(exchange.runtime, exchange.caller, exchange.segments["id"], report)
    return NO_CONTENT


async def renew(exchange: Exchange) -> Answer:
    """Lengthen the lease of a job that its worker still works on."""
    body = await read(exchange)
    expires = await jobs.renew(
        exchange.runtime, exchange.caller, exchange.segments["id"], worker_id=_worker(body), lease=_lease(body)
    )
    return reply({"lockExpiresAt": instant_text(expires)})


async def release(exchange: Exchange) -> Answer:
    """Take back a job that its worker will not begin."""
    body = await read(exchange)
    await jobs.release(exchange.runtime, exchange.caller, exchange.segments["id"], worker_id=_worker(body))
    return NO_CONTENT


def _worker(body: Body) -> str:
    worker = body.text("workerId")
    if not worker:
        raise StepBadRequest("workerId is required")
    return worker


def _lease(body: Body) -> timedelta:
    return timedelta(seconds=lease_seconds(body.number("leaseSeconds")))

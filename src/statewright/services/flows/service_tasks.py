"""Jobs of flows that the service does itself: requests, resources, entities (docs/reference/flows.md#requests).

A node claims them like any worker, for all tenants, and does them outside of every transaction: with a lease, so that
another node does what this one leaves undone, and so many at a time in all and of each tenant. What a job amounts to
enters through the use cases of every worker. So each is done at least once; the jobs that a node had claimed when it
was killed are done again.
"""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Final
from uuid import uuid4

from statewright import logs
from statewright.background import repeat, run_by_size
from statewright.egress import Egress, HttpFailure, HttpRequest
from statewright.failures import Failure, ProcessBadRequest
from statewright.flows.definition import ENTITY_TYPES
from statewright.flows.requests import (
    METHODS,
    FailedAnswer,
    PlannedRequest,
    RequestTask,
    ServerAnswer,
    UnusableTask,
)
from statewright.flows.resources import plan_read, plan_write, read_content, read_reply
from statewright.ids import TenantId
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.processes.retries import FailureReport
from statewright.services.flows import find_flows
from statewright.services.flows.entity_resources import read_entity, write_entity
from statewright.services.processes import jobs
from statewright.services.processes.jobs import ClaimedJob, JobClaim
from statewright.services.processes.queues import get_own_queue
from statewright.services.processes.wakeups import TypeListener
from statewright.services.runtime import Caller, Runtime
from statewright.services.scheduler import system_principal
from statewright.storage.processes import jobs as queue

REQUEST_TYPES: Final = (*METHODS, "resource:read", "resource:write")
"""Jobs that workers may do, unless the service is set to send requests."""
MAX_JOBS: Final = 32
"""Jobs that a node does at a time."""
MAX_TENANT_JOBS: Final = 8
"""Those of a tenant among them."""
MAX_REDIRECTS: Final = 5
LEASE_MARGIN: Final = timedelta(seconds=30)
"""How much longer than the longest request a job is leased."""
WAIT_LEASE: Final = timedelta(days=3650)
"""How long a job waits that another program completes."""
POLL_INTERVAL: Final = timedelta(seconds=1)

_REPEATABLE: Final = frozenset(
    {"name_unresolved", "too_many_requests", "connection_failed", "connection_lost", "timed_out", "response_malformed"}
)
"""Failures after which the same request may succeed."""

log = logs.logger("flows")


class _TaskFailed(Exception):
    """A job failed, for a reason that its author may read."""

    def __init__(self, reason: str, *, retryable: bool = False) -> None:
        super().__init__(reason)
        self.retryable = retryable


class _Waiting:
    """Stands for an output that another program is going to report."""


class ServiceTasks:
    """Does these jobs, for the flows of all tenants. A background service."""

    def __init__(self, runtime: Runtime, *, sends_requests: bool) -> None:
        self._runtime = runtime
        self._host = find_flows(runtime)
        self._queue = get_own_queue(self._host)
        self._egress = runtime.extensions.get(Egress)
        self._types = (*ENTITY_TYPES, *(REQUEST_TYPES if sends_requests else ()))
        self._worker = f"service-{uuid4()}"
        self._busy: Counter[TenantId] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()
        self._listener = TypeListener(self._host.language.name, self._types)
        self._lease = timedelta(seconds=self._egress.policy.limits.timeout_s) + LEASE_MARGIN

    async def run(self) -> None:
        """Work until cancelled; what is under way then goes back to the queue."""
        wakeups = self._host.shared.wakeups
        try:
            with wakeups.listen_to_types(self._listener):
                await repeat(
                    self.run_once, POLL_INTERVAL, log=log, failure="flow_tasks_failed", wake=self._listener.heard
                )
        finally:
            for task in self._under_way:
                task.cancel()

    async def run_once(self) -> bool:
        """Begin what can be begun; whether there may be more. Raises ``StorageUnavailable``."""
        tenants = self._listener.take_tenants()
        if not tenants:
            name = self._host.language.name
            tenants = {*await queue.fetch_tenants(self._runtime.pool, name, self._types)}
        for tenant in sorted(tenants, key=lambda one: self._busy[one]):
            free = min(MAX_JOBS - len(self._under_way), MAX_TENANT_JOBS - self._busy[tenant])
            if free > 0:
                await self._begin_jobs(tenant, free)
        return False

    async def _begin_jobs(self, tenant: TenantId, most: int) -> None:
        claim = JobClaim(worker_id=self._worker, job_types=self._types, max_jobs=most, lease=self._lease)
        for job in await jobs.claim(self._queue, Caller(system_principal(tenant)), claim):
            self._busy[tenant] += 1
            task = asyncio.create_task(self._do(tenant, job), name="flow-task")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _do(self, tenant: TenantId, job: ClaimedJob) -> None:
        caller = Caller(system_principal(tenant))
        try:
            await self._do_and_report(caller, job)
        except asyncio.CancelledError:
            self._runtime.start_detached(jobs.release(self._queue, caller, job.id, worker_id=self._worker))
            raise
        except Failure as failure:  # its lease ends, and it is done again
            log.warning("flow_task_not_reported", job=job.id, error=failure.detail)
        except Exception as defect:
            log.error("flow_task_defect", job=job.id, type=job.job_type, error=repr(defect), exc_info=True)
            await self._fail(caller, job, "the service could not do the task", retryable=False)
        finally:
            self._busy[tenant] -= 1
            self._listener.take([(tenant, self._host.language.name, job.job_type)])  # there may be more of it

    async def _do_and_report(self, caller: Caller, job: ClaimedJob) -> None:
        try:
            output = await self._perform(caller, job)
        except (UnusableTask, FailedAnswer) as failed:
            may_pass = isinstance(failed, FailedAnswer) and failed.may_pass
            await self._fail(caller, job, str(failed), retryable=may_pass)
        except _TaskFailed as failed:
            await self._fail(caller, job, str(failed), retryable=failed.retryable)
        except Failure as failure:
            if failure.status >= 500:
                raise
            await self._fail(caller, job, f"{failure.code}: {failure.message}", retryable=failure.retryable)
        else:
            if isinstance(output, _Waiting):
                await jobs.renew(self._queue, caller, job.id, worker_id=self._worker, lease=WAIT_LEASE)
            else:
                await self._complete(caller, job, {"$output": output})

    async def _perform(self, caller: Caller, job: ClaimedJob) -> "JsonValue | _Waiting":
        payload = job.variables
        match job.job_type:
            case "entity:read":
                return await read_entity(self._runtime, caller, payload)
            case "entity:write":
                return await write_entity(self._runtime, caller, payload, job.id)
            case "resource:read":
                answer = await self._send(caller, plan_read(payload))
                return await run_by_size(len(answer.body), lambda: read_content(payload, answer))
            case "resource:write":
                answer = await self._send(caller, plan_write(payload))
                return await run_by_size(len(answer.body), lambda: read_reply(payload, answer))
            case _:
                request = RequestTask(payload, job.id)
                planned = request.plan()
                answer = await self._send(caller, planned)
                output = await run_by_size(len(answer.body), lambda: request.read_output(answer))
                return _Waiting() if planned.waits else output

    async def _send(self, caller: Caller, planned: PlannedRequest) -> ServerAnswer:
        outcome = await self._egress.send(
            HttpRequest(
                url=planned.url,
                method=planned.method,
                headers=planned.headers,
                body=planned.body,
                tenant=caller.tenant,
                max_redirects=MAX_REDIRECTS if planned.method == "GET" else 0,
            )
        )
        if isinstance(outcome, HttpFailure):
            raise _TaskFailed(f"REQUEST: {outcome}", retryable=outcome.reason in _REPEATABLE)
        return ServerAnswer(status=outcome.status, media_type=outcome.media_type, body=outcome.body)

    async def _complete(self, caller: Caller, job: ClaimedJob, output: JsonObject) -> None:
        try:
            await jobs.complete(self._queue, caller, job.id, output, worker_id=self._worker)
        except ProcessBadRequest as unusable:
            await self._fail(caller, job, f"RESPONSE: {unusable.message}", retryable=False)

    async def _fail(self, caller: Caller, job: ClaimedJob, message: str, *, retryable: bool) -> None:
        report = FailureReport(worker_id=self._worker, message=message, retryable=retryable)
        await jobs.fail(self._queue, caller, job.id, report)

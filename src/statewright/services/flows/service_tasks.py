"""Jobs of flows that the service does itself: requests, resources, entities (docs/reference/flows.md#requests).

Each is done at least once, as ``services.processes.service_worker`` says.
"""

from datetime import timedelta
from typing import Final, TypeAlias

from statewright.background import run_by_size
from statewright.egress import Egress, HttpFailure, HttpRequest
from statewright.failures import Failure, ProcessBadRequest
from statewright.flows.definition import ENTITY_TYPES, FlowProcess
from statewright.flows.instance import FlowInstance
from statewright.flows.requests import (
    METHODS,
    FailedAnswer,
    PlannedRequest,
    RequestTask,
    ServerAnswer,
    UnusableTask,
)
from statewright.flows.resources import plan_read, plan_write, read_content, read_reply
from statewright.jsonval.values import JsonValue
from statewright.services.flows import find_flows
from statewright.services.flows.entity_resources import read_entity, write_entity
from statewright.services.processes.jobs import ClaimedJob
from statewright.services.processes.service_worker import ServiceWorker
from statewright.services.runtime import Caller, Runtime

REQUEST_TYPES: Final = (*METHODS, "resource:read", "resource:write")
"""Jobs that workers may do, unless the service is set to send requests."""
MAX_REDIRECTS: Final = 5
LEASE_MARGIN: Final = timedelta(seconds=30)
"""How much longer than the longest request a job is leased."""
WAIT_LEASE: Final = timedelta(days=3650)
"""How long a job waits that another program completes."""

_REPEATABLE: Final = frozenset(
    {"name_unresolved", "too_many_requests", "connection_failed", "connection_lost", "timed_out", "response_malformed"}
)
"""Failures after which the same request may succeed."""


FlowWorker: TypeAlias = ServiceWorker[FlowProcess, FlowInstance]


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
        self._egress = runtime.extensions.get(Egress)
        types = (*ENTITY_TYPES, *(REQUEST_TYPES if sends_requests else ()))
        lease = timedelta(seconds=self._egress.policy.limits.timeout_s) + LEASE_MARGIN
        self._worker = ServiceWorker(find_flows(runtime), types, self._do_and_report, lease=lease)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def run_once(self) -> bool:
        """Begin what can be begun (``ServiceWorker.run_once``)."""
        return await self._worker.run_once()

    async def _do_and_report(self, worker: FlowWorker, caller: Caller, job: ClaimedJob) -> None:
        try:
            output = await self._perform(caller, job)
        except (UnusableTask, FailedAnswer) as failed:
            may_pass = isinstance(failed, FailedAnswer) and failed.may_pass
            await worker.fail(caller, job, str(failed), retryable=may_pass)
        except _TaskFailed as failed:
            await worker.fail(caller, job, str(failed), retryable=failed.retryable)
        except Failure as failure:
            if failure.status >= 500:
                raise
            await worker.fail(caller, job, f"{failure.code}: {failure.message}", retryable=failure.retryable)
        else:
            if isinstance(output, _Waiting):
                await worker.renew(caller, job, WAIT_LEASE)
                return
            try:
                await worker.complete(caller, job, {"$output": output})
            except ProcessBadRequest as unusable:
                await worker.fail(caller, job, f"RESPONSE: {unusable.message}", retryable=False)

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

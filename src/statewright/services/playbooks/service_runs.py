"""Runs of pipelines that the service does itself (``pipelines``; docs/reference/executions.md#task-kinds).

A step that is one ``wait`` task holds no worker: its job rests until the time has come.

Tasks that calculation members do: each is one processor request, like those of workflows
(docs/reference/executions.md#calculation-members).
"""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from statewright.compute.callout import Callout, CalloutResult
from statewright.entity import system_principal
from statewright.failures import (
    ComputationKilled,
    ComputeMemberDisconnected,
    DispatchTimeout,
    Failure,
    NoComputeMember,
    ProcessBadRequest,
    ProcessConflict,
    ProcessNotFound,
)
from statewright.ids import TenantId
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import MalformedJson
from statewright.jsonval.values import JsonObject
from statewright.playbooks.compiling import SERVICE
from statewright.playbooks.dispatch import KEYCHAIN, Dispatch, Pipeline, dispatch_from_document
from statewright.playbooks.execution import EXECUTION
from statewright.playbooks.pipeline import PipelineEnd, ToolCall, begin, prepare
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.playbooks.task_requests import MemberCall, build_member_call
from statewright.playbooks.tasks import WAIT, find_due
from statewright.services.core import Caller, Core
from statewright.services.playbooks.dialect import PLAYBOOK_DIALECT
from statewright.services.playbooks.pipelines import Keychain, PipelineComputer, run_pipeline
from statewright.services.processes import definitions
from statewright.services.processes.hosting import Processes, RefusedJob
from statewright.services.processes.jobs import ClaimedJob
from statewright.services.processes.service_workers import JobHolder, ServiceWorker
from statewright.services.processes.writing import to_entity_id
from statewright.services.writing import encode_by_size, read_by_size
from statewright.storage.processes.jobs import LockedJob
from statewright.telemetry import logs
from statewright.telemetry.tracing import get_trace

LOOK_INTERVAL_S: Final = 0.25
"""Between two looks for a member that is not there yet."""


class Callouts(Protocol):
    """Sends callouts to the members of all nodes."""

    def dispatch(self, callout: Callout) -> Awaitable[CalloutResult]:
        """The reply. Raises ``NoComputeMember``, ``DispatchTimeout``, ``ComputeMemberDisconnected``."""
        ...


class MemberTasks:
    """Has members do tasks. ``wait``: how long a task waits for a member that offers its tags."""

    def __init__(self, core: Core, callouts: Callouts, *, wait: timedelta) -> None:
        self._core = core
        self._callouts = callouts
        self._wait_s = wait.total_seconds()

    async def do(self, tenant: TenantId, call: ToolCall, dispatch: Dispatch) -> Outcome:
        """The outcome of a task, whatever becomes of the member."""
        asked = build_member_call(call, dispatch)
        if isinstance(asked, Outcome):
            return asked
        if await self._is_suspended(tenant, asked.tags):
            return fail("suspended", f"dispatch to {','.join(asked.tags)} is suspended", retryable=True)
        try:
            reply = await self._send(tenant, asked, dispatch)
        except NoComputeMember as error:
            return fail("no_compute_member", error.message, code=error.code, retryable=True)
        except DispatchTimeout as error:
            return fail("timeout", error.message, code=error.code, retryable=True)
        except ComputeMemberDisconnected as error:
            return fail("member_lost", error.message, code=error.code, retryable=True)
        except Failure as error:
            return fail("member", error.message, code=error.code, retryable=error.retryable)
        if not reply.success:
            return fail("tool", reply.error or "the member gave no reason", retryable=reply.retryable)
        if reply.data is msgspec.UNSET:
            return succeed(None)
        try:
            return succeed(await read_by_size(reply.data))
        except MalformedJson as malformed:
            return fail("tool", f"the answer of the member is no JSON: {malformed}", retryable=False)

    async def _is_suspended(self, tenant: TenantId, tags: tuple[str, ...]) -> bool:
        await self._core.guard.ensure_current()
        return self._core.guard.find_tags(tenant, tags) is not None

    async def _send(self, tenant: TenantId, asked: MemberCall, dispatch: Dispatch) -> CalloutResult:
        """The reply of a member, once there is one."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._wait_s
        callout = await self._build_callout(tenant, asked, dispatch)
        while True:
            try:
                return await self._callouts.dispatch(callout)
            except NoComputeMember:
                if clock() + LOOK_INTERVAL_S > until:
                    raise
            await asyncio.sleep(LOOK_INTERVAL_S)
            callout = replace(callout, request_id=self._core.ids())

    async def _build_callout(self, tenant: TenantId, asked: MemberCall, dispatch: Dispatch) -> Callout:
        instance, now = to_entity_id(dispatch.execution_id), to_rfc3339(self._core.clock())
        meta: JsonObject = {
            "id": instance,
            "modelKey": {"name": EXECUTION.key.name, "version": EXECUTION.key.version},
            "state": "RUNNING",
            "creationDate": now,
            "lastUpdateTime": now,
            "transactionId": "",
            "run": asked.run,
        }
        return Callout(
            kind="processor",
            request_id=self._core.ids(),
            tenant=tenant,
            name=asked.name,
            tags=tuple(tag.lower() for tag in asked.tags),
            tags_text=",".join(asked.tags),
            timeout_ms=asked.timeout_ms,
            entity_id=instance,
            workflow=dispatch.execution_id,
            transition=dispatch.step,
            parameters=asked.context,
            payload=await encode_by_size({"type": "JSON", "data": asked.data, "meta": meta}),
            principal=system_principal(tenant),
            trace=get_trace(),
            has_secrets=asked.has_secrets,
        )


async def add_credentials(
    processes: Processes, tenant: TenantId, job: LockedJob, payload: JsonObject, peer: str | None
) -> "JsonObject | RefusedJob":
    """The payload of a job with the credentials that its tasks name, opened now. Nothing of them is stored; a run that
    cannot have them fails, and its error names the first.
    """
    host = PLAYBOOK_DIALECT.find_host(processes)
    published = await host.processes.find(tenant, job.definition_id, job.definition_version)
    rules = None if published is None else published.process.compiled.rules.get(job.node_id)
    if rules is None or not rules.credentials:
        return payload
    if peer is not None and not processes.connections.is_private(peer):
        name = next((one.credential.name for one in rules.credentials if one.is_required), None)
        if name is None:
            return payload  # the worker may have some of its own
        told = f"the worker's connection is not private, so the credential {name} was not sent: use TLS"
        return _refuse(told, "CONNECTION_NOT_PRIVATE")
    found = await Keychain(processes.credentials).open(tenant, rules.credentials)
    return _refuse(found, "CREDENTIAL_MISSING") if isinstance(found, str) else {**payload, KEYCHAIN: found}


def _refuse(message: str, code: str) -> RefusedJob:
    error: JsonObject = {"kind": KEYCHAIN, "code": code, "message": message, "retryable": False}
    return RefusedJob({"status": "error", "error": error})


LEASE: Final = timedelta(seconds=60)
"""Renewed while a run goes on."""
RENEW_INTERVAL_S: Final = 20.0

log = logs.logger(__name__)


class ServiceRuns:
    """Does these runs, for the playbooks of all tenants. A background service."""

    def __init__(self, processes: Processes, members: MemberTasks) -> None:
        self._processes = processes
        self._members = members
        self._egress = processes.egress if processes.sends_requests else None
        self._worker = ServiceWorker(PLAYBOOK_DIALECT.find_host(processes), (SERVICE,), self.do, lease=LEASE)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def do(self, worker: JobHolder, caller: Caller, job: ClaimedJob) -> None:
        """Do a run until it ends, or is not this node's any more. Tasks of kinds that the service does not know are
        done by members that offer the kind as a tag.
        """
        doing = asyncio.create_task(self._run(worker, caller, job), name="service-run")
        keeping = asyncio.create_task(_keep(worker, caller, job), name="service-lease")
        try:
            await asyncio.wait((doing, keeping), return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                await doing
            else:
                log.info("service_run_lost", job=job.id)
        except ProcessConflict:  # a report found it out
            log.info("service_run_lost", job=job.id)
        finally:
            doing.cancel()
            keeping.cancel()

    async def _run(self, worker: JobHolder, caller: Caller, job: ClaimedJob) -> None:
        dispatch = await self._read_dispatch(caller, job)
        if (until := await self._find_rest(caller, dispatch, job)) is not None:
            await worker.rest(caller, job, until)
        else:
            report = partial(_report_progress, worker, caller, job)
            completion = await run_pipeline(
                self._processes.core.computations,
                self._egress,
                caller.tenant,
                dispatch,
                report,
                others=self._members.do,
            )
            await _report(worker, caller, job, completion)

    async def _read_dispatch(self, caller: Caller, job: ClaimedJob) -> Dispatch:
        published = await definitions.get_version(
            PLAYBOOK_DIALECT.find_host(self._processes), caller.tenant, job.definition_id, job.definition_version
        )
        playbook = published.process.playbook
        step = playbook.by_name[str(job.variables["step"])]
        return dispatch_from_document(job.variables, Pipeline(step.tasks, step.input))

    async def _find_rest(self, caller: Caller, dispatch: Dispatch, job: ClaimedJob) -> int | None:
        """Until when a step that is one wait rests; ``None``: it is over, or is none."""
        if len(dispatch.tasks) != 1 or dispatch.tasks[0].kind != WAIT:
            return None
        computer = PipelineComputer(self._processes.core.computations, caller.tenant, dispatch)
        try:
            state = await computer.compute(begin)
            prepared = None if isinstance(state, PipelineEnd) else await computer.compute(prepare, state)
        except ComputationKilled:  # the run ends with it
            return None
        due = find_due(prepared.fields, job.created_at) if isinstance(prepared, ToolCall) else None
        return due if isinstance(due, int) and due > self._processes.core.clock() else None


async def _report_progress(
    worker: JobHolder, caller: Caller, job: ClaimedJob, progress: JsonObject
) -> "JsonObject | None":
    """What was taken of a report; of one that could not be taken now the completion has it all. Raises
    ``ProcessConflict`` when there is nothing more to do.
    """
    try:
        return await worker.report_progress(caller, job, progress)
    except ProcessConflict:
        raise
    except Failure as failure:
        log.info("service_run_not_reported", job=job.id, error=failure.detail)
        return None


async def _report(worker: JobHolder, caller: Caller, job: ClaimedJob, completion: JsonObject) -> None:
    try:
        await worker.complete(caller, job, completion)
    except ProcessBadRequest as unusable:
        await worker.fail(caller, job, unusable.message, retryable=False)


async def _keep(worker: JobHolder, caller: Caller, job: ClaimedJob) -> None:
    """Renew the lease of a job until it is lost: the run was cancelled, or another node has it."""
    while True:
        await asyncio.sleep(RENEW_INTERVAL_S)
        try:
            await worker.renew(caller, job, LEASE)
        except (ProcessConflict, ProcessNotFound):
            return
        except Failure as failure:  # there is time for another try
            log.warning("service_lease_not_renewed", job=job.id, error=failure.detail)

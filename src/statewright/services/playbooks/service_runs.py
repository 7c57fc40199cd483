"""Runs of pipelines that the service does itself (``pipelines``; docs/reference/executions.md#task-kinds).

A step that is one ``wait`` task holds no worker: its job rests until the time has come.
"""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Final

from msgspec.structs import replace

from statewright import logs
from statewright.egress import Egress
from statewright.failures import Failure, ProcessBadRequest, ProcessConflict, ProcessNotFound
from statewright.jsonval.values import JsonObject
from statewright.playbooks.compiling import SERVICE
from statewright.playbooks.dispatch import Dispatch, dispatch_from_document
from statewright.playbooks.pipeline import PipelineEnd, ToolCall, begin, prepare
from statewright.playbooks.waits import WAIT, find_due
from statewright.services.playbooks import definitions, find_playbooks
from statewright.services.playbooks.member_tasks import MemberTasks
from statewright.services.playbooks.pipelines import run_pipeline
from statewright.services.playbooks.resources import PipelineResources
from statewright.services.processes.job_holder import JobHolder
from statewright.services.processes.jobs import ClaimedJob
from statewright.services.processes.service_worker import ServiceWorker
from statewright.services.runtime import Caller, Runtime

LEASE: Final = timedelta(seconds=60)
"""Renewed while a run goes on."""
RENEW_INTERVAL_S: Final = 20.0

log = logs.logger("processes")


class ServiceRuns:
    """Does these runs, for the playbooks of all tenants. A background service."""

    def __init__(self, runtime: Runtime, members: MemberTasks) -> None:
        resources = runtime.extensions.get(PipelineResources)
        self._runtime = runtime
        self._keychain = resources.keychain
        self._members = members
        self._egress = runtime.extensions.get(Egress) if resources.sends_requests else None
        self._worker = ServiceWorker(find_playbooks(runtime), (SERVICE,), self.do, lease=LEASE)

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
        if isinstance(dispatch, str):
            error: JsonObject = {"kind": "keychain", "message": dispatch}
            await _report(worker, caller, job, {"status": "error", "error": error})
        elif (until := await asyncio.to_thread(self._find_rest, dispatch, job)) is not None:
            await worker.rest(caller, job, until)
        else:
            report = partial(_report_progress, worker, caller, job)
            completion = await run_pipeline(self._egress, caller.tenant, dispatch, report, others=self._members.do)
            await _report(worker, caller, job, completion)

    async def _read_dispatch(self, caller: Caller, job: ClaimedJob) -> Dispatch | str:
        """The run with its credentials; a text says which of them cannot be had."""
        dispatch = await asyncio.to_thread(dispatch_from_document, job.variables)  # it compiles templates
        published = await definitions.get_version(self._runtime, caller, job.definition_id, job.definition_version)
        credentials = published.process.playbook.keychain
        if not credentials:
            return dispatch
        found = await self._keychain.resolve(caller.tenant, credentials)
        return found if isinstance(found, str) else replace(dispatch, keychain=found)

    def _find_rest(self, dispatch: Dispatch, job: ClaimedJob) -> int | None:
        """Until when a step that is one wait rests; ``None``: it is over, or is none. For a thread: its template may
        take a while.
        """
        if len(dispatch.tasks) != 1 or dispatch.tasks[0].kind != WAIT:
            return None
        state = begin(dispatch)
        prepared = None if isinstance(state, PipelineEnd) else prepare(dispatch, state)
        due = find_due(prepared.fields, job.created_at) if isinstance(prepared, ToolCall) else None
        return due if isinstance(due, int) and due > self._runtime.clock() else None


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

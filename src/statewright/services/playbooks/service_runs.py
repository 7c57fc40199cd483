"""Runs of pipelines that the service does itself (``pipelines``; docs/reference/executions.md#task-kinds).

A step that is one ``wait`` task holds no worker: its job rests until the time has come.
"""

import asyncio
from datetime import timedelta
from typing import Final, TypeAlias

from msgspec.structs import replace

from statewright.egress import Egress
from statewright.failures import ProcessBadRequest
from statewright.jsonval.values import JsonObject
from statewright.playbooks.compiling import SERVICE
from statewright.playbooks.dispatch import Dispatch, dispatch_from_document
from statewright.playbooks.execution import Execution
from statewright.playbooks.pipeline import PipelineEnd, ToolCall, begin, prepare
from statewright.playbooks.process import PlaybookProcess
from statewright.playbooks.waits import WAIT, find_due
from statewright.services.playbooks import definitions, find_playbooks
from statewright.services.playbooks.keychain import Keychain
from statewright.services.playbooks.pipelines import run_pipeline
from statewright.services.processes.jobs import ClaimedJob
from statewright.services.processes.service_worker import ServiceWorker
from statewright.services.runtime import Caller, Runtime

LEASE: Final = timedelta(seconds=60)
"""Renewed while a run goes on."""
RENEW_INTERVAL_S: Final = 20.0

PlaybookWorker: TypeAlias = ServiceWorker[PlaybookProcess, Execution]


class ServiceRuns:
    """Does these runs, for the playbooks of all tenants. A background service."""

    def __init__(self, runtime: Runtime, keychain: Keychain, *, sends_requests: bool) -> None:
        self._runtime = runtime
        self._keychain = keychain
        self._egress = runtime.extensions.get(Egress) if sends_requests else None
        self._worker = ServiceWorker(find_playbooks(runtime), (SERVICE,), self._do, lease=LEASE)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _do(self, worker: PlaybookWorker, caller: Caller, job: ClaimedJob) -> None:
        renewing = asyncio.create_task(_keep(worker, caller, job), name="service-lease")
        try:
            dispatch = await self._read_dispatch(caller, job)
            if isinstance(dispatch, str):
                error: JsonObject = {"kind": "keychain", "message": dispatch}
                await _report(worker, caller, job, {"status": "error", "error": error})
            elif (until := await asyncio.to_thread(self._find_rest, dispatch, job)) is not None:
                await worker.rest(caller, job, until)
            else:
                completion = await run_pipeline(self._egress, caller.tenant, dispatch, _ignore)
                await _report(worker, caller, job, completion)
        finally:
            renewing.cancel()

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


async def _ignore(_progress: JsonObject) -> None:
    """What a run sets takes effect with its completion."""


async def _report(worker: PlaybookWorker, caller: Caller, job: ClaimedJob, completion: JsonObject) -> None:
    try:
        await worker.complete(caller, job, completion)
    except ProcessBadRequest as unusable:
        await worker.fail(caller, job, unusable.message, retryable=False)


async def _keep(worker: PlaybookWorker, caller: Caller, job: ClaimedJob) -> None:
    while True:
        await asyncio.sleep(RENEW_INTERVAL_S)
        await worker.renew(caller, job, LEASE)

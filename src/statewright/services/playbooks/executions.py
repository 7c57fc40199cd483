"""Executions of playbooks: how they are started (docs/reference/executions.md#rest)."""

from functools import partial

from msgspec import Struct

from statewright.failures import ProcessBadRequest
from statewright.jsonval.values import JsonObject
from statewright.playbooks.context import CTX, WORKLOAD
from statewright.playbooks.execution import Execution
from statewright.playbooks.operations import ARGS
from statewright.playbooks.source import PlaybookProcess
from statewright.playbooks.tasks import needs_credentials
from statewright.services.core import Caller
from statewright.services.playbooks import find_playbooks
from statewright.services.playbooks.pipelines import Keychain
from statewright.services.processes import instances as hosted
from statewright.services.processes.hosting import Processes
from statewright.services.processes.instances import StartRequest


class ExecutionStart(Struct, frozen=True, kw_only=True):
    """What to start. ``version`` of 0 or less is the latest; an empty ``business_key`` is none."""

    path: str
    version: int = 0
    workload: JsonObject = {}
    """Merged over that of the playbook."""
    ctx: JsonObject = {}
    args: JsonObject = {}
    """Of the first token."""
    business_key: str = ""


async def start(processes: Processes, caller: Caller, request: ExecutionStart) -> Execution:
    """Start an execution; it is durable, and as far as it comes without any worker.

    Raises ``ProcessBadRequest``, also for a credential that the service lacks, ``ProcessNotFound``,
    ``BusinessKeyInUse``.
    """
    if not request.path:
        raise ProcessBadRequest("path is required")
    return await hosted.start(
        find_playbooks(processes),
        caller,
        StartRequest(
            definition_id=request.path,
            definition_version=request.version,
            variables={WORKLOAD: request.workload, CTX: request.ctx, ARGS: request.args},
            business_key=request.business_key,
        ),
        check=partial(_refuse_lacking_credentials, processes, caller),
    )


async def _refuse_lacking_credentials(processes: Processes, caller: Caller, process: PlaybookProcess) -> None:
    """Those of a playbook that workers do alone are the workers' business."""
    playbook = process.playbook
    if not playbook.keychain or not any(needs_credentials(step.tasks) for step in playbook.steps):
        return
    found = await Keychain(processes.credentials).resolve(caller.tenant, playbook.keychain)
    if isinstance(found, str):
        raise ProcessBadRequest(f"start: keychain: {found}")

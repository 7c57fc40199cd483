"""Executions of playbooks: how they are started (docs/reference/executions.md#rest)."""

from statewright.failures import ProcessBadRequest
from statewright.playbooks.source import PlaybookProcess
from statewright.playbooks.tasks import needs_credentials
from statewright.services.core import Caller
from statewright.services.playbooks.pipelines import Keychain
from statewright.services.processes.hosting import Processes


async def refuse_lacking_credentials(processes: Processes, caller: Caller, process: PlaybookProcess) -> None:
    """Refuse to start a playbook whose credentials the service lacks; those of tasks that workers do alone are the
    workers' business. Raises ``ProcessBadRequest``.
    """
    playbook = process.playbook
    if not playbook.keychain or not any(needs_credentials(step.tasks) for step in playbook.steps):
        return
    found = await Keychain(processes.credentials).resolve(caller.tenant, playbook.keychain)
    if isinstance(found, str):
        raise ProcessBadRequest(f"start: keychain: {found}")

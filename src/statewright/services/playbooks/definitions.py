"""Definitions of playbooks: what may be stored, and what may be started
(docs/reference/executions.md#definitions)."""

from functools import partial
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from statewright.failures import ProcessBadRequest
from statewright.playbooks.place import Finding, InvalidPlaybook
from statewright.playbooks.source import (
    PlaybookProcess,
    PlaybookSource,
    check_source,
    definition_to_document,
)
from statewright.playbooks.tasks import HTTP
from statewright.processes.language import source_to_text
from statewright.processes.user_tasks import ASK
from statewright.services.core import Caller
from statewright.services.playbooks.pipelines import Keychain
from statewright.services.processes import definitions
from statewright.services.processes.definitions import NewDefinition
from statewright.services.processes.hosting import Processes

NOT_FOUND: Final = "playbook not found"
_WEIGHT: Final = 64
"""Bytes of other input that a byte of a playbook is as much work as."""


async def accept(processes: Processes, caller: Caller, source: PlaybookSource) -> NewDefinition:
    """A playbook that may be stored. Kinds of tasks that the service is not set to do are errors.

    Raises ``ProcessBadRequest``, whose property ``findings`` has all that is wrong, each with its place;
    ``ComputationKilled``, ``ComputationsBusy``.
    """
    disabled = frozenset() if processes.sends_requests else frozenset((HTTP,))
    check_it = partial(check_source, source, disabled_kinds=disabled)
    try:
        checked = await definitions.check_by_size(processes.core, caller, _WEIGHT * len(source.text), check_it)
    except InvalidPlaybook as invalid:
        raise _to_failure(invalid) from None
    source = replace(source, asks_people=ASK in checked.kinds or UNSET)
    return NewDefinition(
        id=checked.path,
        name=checked.name,
        description=checked.description,
        source=source_to_text(source),
        build_document=partial(definition_to_document, source, checked),
    )


async def refuse_lacking_credentials(processes: Processes, caller: Caller, process: PlaybookProcess) -> None:
    """Refuse to start a playbook whose steps need credentials that the service lacks. Raises ``ProcessBadRequest``."""
    needed = {
        one.credential.name: one
        for rules in process.compiled.rules.values()
        for one in rules.credentials
        if one.is_required
    }
    if not needed:
        return
    found = await Keychain(processes.credentials).open(caller.tenant, tuple(needed.values()))
    if isinstance(found, str):
        raise ProcessBadRequest(f"start: keychain: {found}")


def _to_failure(invalid: InvalidPlaybook) -> ProcessBadRequest:
    first, *others = invalid.findings
    more = f" (and {len(others)} more)" if others else ""
    return ProcessBadRequest(f"{_describe(first)}{more}", {"findings": [_describe(one) for one in invalid.findings]})


def _describe(finding: Finding) -> str:
    return f"{finding.path or '/'}: {finding.message}"

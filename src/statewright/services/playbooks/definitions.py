"""Definitions of playbooks: check, upload, read, list, draw (docs/reference/executions.md#definitions)."""

from functools import partial
from typing import Final

from msgspec.structs import replace

from statewright.background import run_by_size
from statewright.failures import ProcessBadRequest
from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject
from statewright.playbooks.findings import Finding, InvalidPlaybook
from statewright.playbooks.process import PlaybookProcess, compile_source
from statewright.playbooks.source import (
    PlaybookSource,
    definition_to_document,
    hash_source,
    source_to_text,
)
from statewright.services.playbooks import find_playbooks
from statewright.services.playbooks.resources import PipelineResources
from statewright.services.processes import definitions
from statewright.services.processes.advancing import refuse_joined
from statewright.services.processes.definitions import NewDefinition, Summaries, UploadedDefinition
from statewright.services.processes.hosting import PublishedDefinition
from statewright.services.runtime import Caller, Runtime

NOT_FOUND: Final = "playbook not found"
_WEIGHT: Final = 64
"""Bytes of other input that a byte of a playbook is as much work as."""


async def check(runtime: Runtime, source: PlaybookSource) -> PlaybookProcess:
    """Compile a playbook, and store nothing. Kinds of tasks that the service is not set to do are errors.

    Raises ``ProcessBadRequest``, whose property ``findings`` has all that is wrong, each with its place.
    """
    disabled = runtime.extensions.get(PipelineResources).disabled_kinds
    compile_it = partial(compile_source, source, 0, disabled_kinds=disabled)
    try:
        return await run_by_size(_WEIGHT * len(source.text), compile_it)
    except InvalidPlaybook as invalid:
        raise _to_failure(invalid) from None


async def upload(runtime: Runtime, caller: Caller, source: PlaybookSource) -> UploadedDefinition[PlaybookProcess]:
    """Store a playbook as the next version of its path, unless one has the same content. Raises as ``check``."""
    refuse_joined(caller)
    process = await check(runtime, source)
    content, playbook = hash_source(source), process.playbook

    def build_document(version: int, at: int) -> JsonObject:
        document = definition_to_document(source, process.read, version)
        return {**document, "uploadedAt": format_instant(at), "contentHash": content}

    new = NewDefinition(
        id=playbook.path,
        name=playbook.name,
        description=playbook.description,
        source=source_to_text(source),
        content=content,
        build_document=build_document,
    )

    return await definitions.store_process(
        find_playbooks(runtime), caller, new, lambda version: replace(process, version=version)
    )


async def get_version(
    runtime: Runtime, caller: Caller, path: str, version: int = 0
) -> PublishedDefinition[PlaybookProcess]:
    """A version of a playbook, the latest for 0 or less. Raises ``ProcessNotFound``."""
    return await definitions.get_version(find_playbooks(runtime), caller.tenant, path, version, unknown=NOT_FOUND)


async def list_definitions(
    runtime: Runtime, caller: Caller, *, keyword: str = "", page: int = 0, page_size: int = 0
) -> Summaries:
    """Playbooks by path, each with its latest version (``processes.definitions.list_definitions``)."""
    return await definitions.list_definitions(
        find_playbooks(runtime), caller, keyword=keyword, page=page, page_size=page_size
    )


async def list_versions(runtime: Runtime, caller: Caller, path: str) -> list[tuple[int, int]]:
    """All versions of a playbook, ascending, each with the instant of its upload. Raises ``ProcessNotFound``."""
    return await definitions.list_versions(find_playbooks(runtime), caller.tenant, path, unknown=NOT_FOUND)


def _to_failure(invalid: InvalidPlaybook) -> ProcessBadRequest:
    first, *others = invalid.findings
    more = f" (and {len(others)} more)" if others else ""
    return ProcessBadRequest(f"{_describe(first)}{more}", {"findings": [_describe(one) for one in invalid.findings]})


def _describe(finding: Finding) -> str:
    return f"{finding.path or '/'}: {finding.message}"

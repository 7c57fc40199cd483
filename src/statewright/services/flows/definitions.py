"""Definitions of flows: check, upload, read, list, draw (docs/reference/flows.md#definitions)."""

import re
from functools import partial
from typing import Final

from msgspec.structs import replace

from statewright.background import run_by_size
from statewright.failures import ProcessBadRequest
from statewright.flows.definition import (
    MAX_ID_CHARS,
    FlowProcess,
    FlowSource,
    compile_source,
    definition_to_document,
    find_setting_defect,
    hash_source,
    source_to_text,
)
from statewright.flows.failures import InvalidFlow
from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject
from statewright.services.flows import find_flows
from statewright.services.processes import definitions
from statewright.services.processes.advancing import refuse_joined
from statewright.services.processes.definitions import NewDefinition, Summaries, UploadedDefinition
from statewright.services.processes.hosting import PublishedDefinition
from statewright.services.runtime import Caller, Runtime

_ID: Final = re.compile(r"[\w:.\-]+")
_WEIGHT: Final = 64
"""Bytes of other input that a byte of flow text is as much work as."""


async def check(source: FlowSource) -> FlowProcess:
    """Compile a definition, and store nothing. An empty id is the name that the text gives the flow.

    Raises ``ProcessBadRequest``, whose properties tell ``code``, ``line``, ``column``, ``piece`` and ``expected`` where
    the text has a defect.
    """
    defect = find_setting_defect(source.settings)
    if defect is not None:
        raise ProcessBadRequest(defect)
    try:
        process = await run_by_size(_WEIGHT * len(source.text), partial(compile_source, source, 0))
    except InvalidFlow as invalid:
        raise _to_failure(invalid) from None
    id_ = source.id or process.flow.graph.name or ""
    if not id_:
        raise ProcessBadRequest("the flow has no name: begin it with @flow NAME, or give an id")
    if len(id_) > MAX_ID_CHARS or not _ID.fullmatch(id_):
        raise ProcessBadRequest(f"the id of a flow has 1 to {MAX_ID_CHARS} letters, digits, and _ - : .")
    return replace(process, source=replace(source, id=id_))


async def upload(runtime: Runtime, caller: Caller, source: FlowSource) -> UploadedDefinition[FlowProcess]:
    """Store a definition as its next version, unless a stored one has the same content. Raises as ``check``."""
    refuse_joined(caller)
    process = await check(source)
    content = hash_source(process.source)

    def build_document(version: int, at: int) -> JsonObject:
        document = definition_to_document(replace(process, version=version))
        return {**document, "uploadedAt": format_instant(at), "contentHash": content}

    new = NewDefinition(
        id=process.source.id,
        name=process.name,
        description=process.description,
        source=source_to_text(process.source),
        content=content,
        build_document=build_document,
    )

    return await definitions.store_process(
        find_flows(runtime), caller, new, lambda version: replace(process, version=version)
    )


async def get_version(
    runtime: Runtime, caller: Caller, definition_id: str, version: int = 0
) -> PublishedDefinition[FlowProcess]:
    """A version of a definition, the latest for 0 or less. Raises ``ProcessNotFound``."""
    return await definitions.get_version(find_flows(runtime), caller.tenant, definition_id, version)


async def list_definitions(
    runtime: Runtime, caller: Caller, *, keyword: str = "", page: int = 0, page_size: int = 0
) -> Summaries:
    """Definitions by id, each with its latest version (``processes.definitions.list_definitions``)."""
    return await definitions.list_definitions(
        find_flows(runtime), caller, keyword=keyword, page=page, page_size=page_size
    )


async def list_versions(runtime: Runtime, caller: Caller, definition_id: str) -> list[tuple[int, int]]:
    """All versions of a definition, ascending, each with the instant of its upload. Raises ``ProcessNotFound``."""
    return await definitions.list_versions(find_flows(runtime), caller.tenant, definition_id)


def _to_failure(invalid: InvalidFlow) -> ProcessBadRequest:
    place = {"line": invalid.position.line, "column": invalid.position.column}
    return ProcessBadRequest(
        str(invalid), {"code": invalid.code, **place, "piece": invalid.piece, "expected": invalid.expected}
    )

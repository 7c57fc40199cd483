"""Definitions of flows: check, upload, read, list, draw (docs/reference/flows.md#definitions)."""

import re
from functools import partial
from typing import Final

from msgspec.structs import replace

from statewright.failures import ProcessBadRequest
from statewright.flows.definition import (
    MAX_ID_CHARS,
    CheckedFlow,
    FlowSource,
    check_source,
    definition_to_document,
    find_setting_defect,
    hash_source,
    source_to_text,
)
from statewright.flows.lexer import InvalidFlow
from statewright.jsonval.values import JsonObject
from statewright.services.core import Caller
from statewright.services.flows import find_flows
from statewright.services.processes import definitions
from statewright.services.processes.advancing import refuse_joined
from statewright.services.processes.definitions import NewDefinition, UploadedDefinition
from statewright.services.processes.hosting import Processes

_ID: Final = re.compile(r"[\w:.\-]+")
_WEIGHT: Final = 64
"""Bytes of other input that a byte of flow text is as much work as."""


async def check(processes: Processes, caller: Caller, source: FlowSource) -> JsonObject:
    """The record of a definition, which is compiled and not stored. An empty id becomes the name of the flow.

    Raises ``ProcessBadRequest``, whose properties tell ``code``, ``line``, ``column``, ``piece`` and ``expected`` where
    the text has a defect; ``ComputationKilled``, ``ComputationsBusy``.
    """
    return definition_to_document(*await _check(processes, caller, source), 0)


async def _check(processes: Processes, caller: Caller, source: FlowSource) -> tuple[FlowSource, CheckedFlow]:
    defect = find_setting_defect(source.settings)
    if defect is not None:
        raise ProcessBadRequest(defect)
    try:
        checked = await definitions.check_by_size(
            processes.core, caller, _WEIGHT * len(source.text), partial(check_source, source)
        )
    except InvalidFlow as invalid:
        raise _to_failure(invalid) from None
    id_ = source.id or checked.name
    if not id_:
        raise ProcessBadRequest("the flow has no name: begin it with @flow NAME, or give an id")
    if len(id_) > MAX_ID_CHARS or not _ID.fullmatch(id_):
        raise ProcessBadRequest(f"the id of a flow has 1 to {MAX_ID_CHARS} letters, digits, and _ - : .")
    return replace(source, id=id_), checked


async def upload(processes: Processes, caller: Caller, source: FlowSource) -> UploadedDefinition:
    """Store a definition as its next version, unless a stored one has the same content. Raises as ``check``."""
    refuse_joined(caller)
    source, checked = await _check(processes, caller, source)
    new = NewDefinition(
        id=source.id,
        name=checked.name,
        description=checked.description,
        source=source_to_text(source),
        content=hash_source(source),
        build_document=partial(definition_to_document, source, checked),
    )
    return await definitions.store_process(find_flows(processes), caller, new)


def _to_failure(invalid: InvalidFlow) -> ProcessBadRequest:
    place = {"line": invalid.position.line, "column": invalid.position.column}
    return ProcessBadRequest(
        str(invalid), {"code": invalid.code, **place, "piece": invalid.piece, "expected": invalid.expected}
    )

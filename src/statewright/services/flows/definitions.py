"""Definitions of flows: what may be stored (docs/reference/flows.md#definitions)."""

import re
from functools import partial
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from statewright.failures import InvalidMember, ProcessBadRequest
from statewright.flows.definition import (
    MAX_ID_CHARS,
    FlowSource,
    check_source,
    definition_to_document,
    find_setting_defect,
)
from statewright.flows.lexer import InvalidFlow
from statewright.processes.language import source_to_text
from statewright.services.core import Caller
from statewright.services.processes import definitions
from statewright.services.processes.definitions import NewDefinition
from statewright.services.processes.hosting import Processes

_ID: Final = re.compile(r"[\w:.\-]+")
_WEIGHT: Final = 64
"""Bytes of other input that a byte of flow text is as much work as."""


async def accept(processes: Processes, caller: Caller, source: FlowSource) -> NewDefinition:
    """A flow that may be stored. An empty id becomes the name of the flow.

    Raises ``ProcessBadRequest``, whose properties tell ``code``, ``line``, ``column``, ``piece`` and ``expected`` where
    the text has a defect; ``ComputationKilled``, ``ComputationsBusy``.
    """
    defect = find_setting_defect(source.settings)
    if defect is not None:
        raise InvalidMember("settings", defect)
    try:
        checked = await definitions.check_by_size(
            processes.core, caller, _WEIGHT * len(source.text), partial(check_source, source)
        )
    except InvalidFlow as invalid:
        raise _to_failure(invalid) from None
    source = replace(source, id=source.id or checked.name, asks_people=checked.asks_people or UNSET)
    if not source.id:
        raise InvalidMember("id", "the flow has no name: begin it with @flow NAME, or give an id")
    if len(source.id) > MAX_ID_CHARS or not _ID.fullmatch(source.id):
        raise InvalidMember("id", f"the id of a flow has 1 to {MAX_ID_CHARS} letters, digits, and _ - : .")
    return NewDefinition(
        id=source.id,
        name=checked.name,
        description=checked.description,
        source=source_to_text(source),
        build_document=partial(definition_to_document, source, checked),
    )


def _to_failure(invalid: InvalidFlow) -> ProcessBadRequest:
    place = {"line": invalid.position.line, "column": invalid.position.column}
    return ProcessBadRequest(
        str(invalid), {"code": invalid.code, **place, "piece": invalid.piece, "expected": invalid.expected}
    )

"""Definitions of the step language: what may be stored (docs/reference/steps.md#definitions)."""

from functools import partial
from typing import TypeAlias

from msgspec import Struct

from statewright.loop.background import free_in_parts, run_by_size
from statewright.processes.language import Rejection
from statewright.services.core import Caller
from statewright.services.processes import definitions
from statewright.services.processes.advancing import to_failure
from statewright.services.processes.definitions import NewDefinition
from statewright.services.processes.hosting import Processes
from statewright.steps import Definition, accept_definition, accept_text
from statewright.steps.documents import definition_to_document, definition_to_text


class ReadDefinition(Struct, frozen=True):
    """A definition that came in another form than text."""

    definition: Definition
    size: int
    """Bytes that it came in."""


StepSource: TypeAlias = bytes | str | ReadDefinition
"""The text that was posted, or a definition that came in another form (gRPC); refusals are worded for the one or the
other (docs/reference/steps.md#validation).
"""


async def accept(processes: Processes, caller: Caller, source: StepSource) -> NewDefinition:
    """A definition that may be stored. Raises ``ProcessBadRequest``, ``ComputationKilled``, ``ComputationsBusy``."""
    if isinstance(source, ReadDefinition):
        size = source.size
        check = partial(accept_definition, source.definition)
    else:
        size = len(source)
        check = partial(accept_text, source)
    accepted = await definitions.check_by_size(processes.core, caller, size, check)
    if isinstance(accepted, Rejection):
        raise to_failure(accepted)
    definition = accepted.definition
    free_in_parts(definition.metadata, size)
    return NewDefinition(
        id=definition.id,
        name=definition.name,
        description=definition.description,
        source=await run_by_size(size, partial(definition_to_text, definition)),
        content=accepted.content,
        build_document=partial(definition_to_document, definition),
        warnings=accepted.warnings,
    )

"""Definitions of the step language: upload, read, list, draw (docs/reference/steps.md#definitions)."""

from functools import partial
from typing import Final

from msgspec import Struct

from statewright.loop.background import free_in_parts, run_by_size
from statewright.processes.language import Rejection
from statewright.services.core import Caller
from statewright.services.processes import definitions
from statewright.services.processes.advancing import refuse_joined, to_failure
from statewright.services.processes.definitions import NewDefinition, UploadedVersion
from statewright.services.processes.hosting import Processes
from statewright.services.steps import find_steps
from statewright.steps import Definition, accept_definition, accept_text
from statewright.steps.documents import definition_to_document, definition_to_text

_BYTES_PER_STEP: Final = 256
"""About what a step comes to as text, of a definition that came in another form."""


class UploadResult(Struct, frozen=True, kw_only=True):
    """What an upload came to. ``is_new`` is False when a stored version has the same content; it is named then."""

    id: str
    version: int
    name: str
    uploaded_at: int
    """Epoch microseconds, of the version that is named."""
    is_new: bool
    warnings: tuple[str, ...]
    """What is allowed but looks like a mistake."""


async def upload(processes: Processes, caller: Caller, source: bytes | str | Definition) -> UploadResult:
    """Store a definition as its next version, unless a stored one has the same content.

    ``source`` is the text that was posted, or a definition that came in another form (gRPC); refusals are worded for
    the one or the other (docs/reference/steps.md#validation). Concurrent uploads of one id all succeed. Raises
    ``ProcessBadRequest``.
    """
    refuse_joined(caller)
    if isinstance(source, Definition):
        size = len(source.steps) * _BYTES_PER_STEP
        accept = partial(accept_definition, source)
    else:
        size = len(source)
        accept = partial(accept_text, source)
    accepted = await definitions.check_by_size(processes.core, caller, size, accept)
    if isinstance(accepted, Rejection):
        raise to_failure(accepted)
    definition = accepted.definition
    free_in_parts(definition.metadata, size)

    text = await run_by_size(size, partial(definition_to_text, definition))
    new = NewDefinition(
        id=definition.id,
        name=definition.name,
        description=definition.description,
        source=text,
        content=accepted.content,
        build_document=partial(definition_to_document, definition),
    )

    def conclude(stored: UploadedVersion) -> UploadResult:
        return UploadResult(
            id=definition.id,
            version=stored.version,
            name=definition.name,
            uploaded_at=stored.uploaded_at,
            is_new=stored.is_new,
            warnings=accepted.warnings,
        )

    caller.convert_result(conclude)
    return conclude(await definitions.store(find_steps(processes), caller, new))

"""Definitions: upload, read, list, draw (spec/step-engine.md §3, §11.2)."""

import uuid
from typing import Final

from msgspec import Struct

from statewright.engine.run import record
from statewright.failures import Conflict, StepNotFound
from statewright.identity import EntityId, TenantId
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import builtin, trail
from statewright.services.steps.documents import written
from statewright.services.steps.hosting import equip, refuse_joined, refused
from statewright.services.steps.paging import page_of
from statewright.services.steps.processes import Published
from statewright.services.steps.writing import new_entity
from statewright.steps.core import (
    Accepted,
    Definition,
    Refusal,
    accept_definition,
    accept_text,
    assign_version,
    definition_diagram,
)
from statewright.steps.core.times import instant_text
from statewright.steps.core.writing import to_document, to_stored
from statewright.storage.steps import definitions as stored
from statewright.storage.steps.staged import DefinitionRow, StagedSteps, Waits

ATTEMPTS: Final = 20
"""How often an upload is begun that meets others of the same id."""

NOT_FOUND: Final = "definition not found"


class Uploaded(Struct, frozen=True, kw_only=True):
    """What an upload came to. ``is_new`` is False when a stored version has the same content; it is named then."""

    id: str
    version: int
    name: str
    uploaded_at: int
    """Epoch microseconds, of the version that is named."""
    is_new: bool
    warnings: tuple[str, ...]
    """What is allowed but looks like a mistake."""


class Summary(Struct, frozen=True, kw_only=True):
    """A definition in a list: its latest version, and all there are."""

    id: str
    version: int
    name: str
    description: str
    uploaded_at: int
    versions: tuple[int, ...]
    """Ascending."""


class Summaries(Struct, frozen=True, kw_only=True):
    """A page of definitions by ascending id. ``total`` counts all ids that match."""

    items: tuple[Summary, ...]
    page: int
    page_size: int
    total: int


async def upload(runtime: Runtime, caller: Caller, source: bytes | str | Definition) -> Uploaded:
    """Store a definition as its next version, unless a stored one has the same content.

    ``source`` is the text that was posted, or a definition that came in another form (gRPC); refusals are worded for
    the one or the other (§3.2). Concurrent uploads of one id all succeed. Raises ``StepBadRequest``.
    """
    refuse_joined(caller)
    accepted = accept_definition(source) if isinstance(source, Definition) else accept_text(source)
    if isinstance(accepted, Refusal):
        raise refused(accepted)
    await equip(runtime, caller.tenant)
    for _ in range(ATTEMPTS):
        try:
            return await _store(runtime, caller, accepted)
        except Conflict:  # another upload of this id has taken the version
            continue
    raise Conflict


async def published(runtime: Runtime, caller: Caller, definition_id: str, version: int = 0) -> Published:
    """A version of a definition, the latest for 0 or less. Raises ``StepNotFound`` (``definition not found``)."""
    found = await find(runtime, caller.tenant, definition_id, version)
    if found is None:
        raise StepNotFound(NOT_FOUND)
    return found


async def find(runtime: Runtime, tenant: TenantId, definition_id: str, version: int) -> Published | None:
    """As ``published``; None when there is none."""
    processes = runtime.steps.processes
    if version <= 0:
        return await processes.latest(tenant, definition_id)
    return None if version >= 2**31 else await processes.find(tenant, definition_id, version)


async def listing(
    runtime: Runtime, caller: Caller, *, keyword: str = "", page: int = 0, page_size: int = 0
) -> Summaries:
    """One summary per id whose latest name or id contains ``keyword``, whatever the case.

    ``page`` counts from zero, a negative one is 0; ``page_size`` of 0 or less is 20, at most 1,000 (§11).
    """
    wanted = page_of(page, page_size)
    found, total = await stored.listed(runtime.pool, caller.tenant, keyword, offset=wanted.offset, limit=wanted.size)
    items = tuple(
        Summary(
            id=one.id,
            version=one.version,
            name=one.name,
            description=one.description,
            uploaded_at=one.uploaded_at,
            versions=one.versions,
        )
        for one in found
    )
    return Summaries(items=items, page=wanted.number, page_size=wanted.size, total=total)


async def diagram(runtime: Runtime, caller: Caller, definition_id: str, version: int = 0) -> str:
    """The definition in Mermaid's flowchart notation. Raises ``StepNotFound``."""
    found = await published(runtime, caller, definition_id, version)
    return definition_diagram(found.process.definition)


async def _store(runtime: Runtime, caller: Caller, accepted: Accepted) -> Uploaded:
    """Raises ``Conflict`` when the version was taken meanwhile."""
    definition = accepted.definition
    known = await stored.versions(runtime.pool, caller.tenant, definition.id)
    assigned = assign_version(accepted.content, {one.version: one.content for one in known})
    if assigned.is_new:
        at = runtime.clock()
        await _publish(runtime, caller, accepted, version=assigned.version, at=at)
        runtime.steps.tally.definitions_uploaded += 1
    else:
        at = next(one.uploaded_at for one in known if one.version == assigned.version)
    return Uploaded(
        id=definition.id,
        version=assigned.version,
        name=definition.name,
        uploaded_at=at,
        is_new=assigned.is_new,
        warnings=accepted.warnings,
    )


async def _publish(runtime: Runtime, caller: Caller, accepted: Accepted, *, version: int, at: int) -> None:
    definition = accepted.definition
    row = DefinitionRow(
        id=definition.id,
        version=version,
        name=definition.name,
        description=definition.description,
        content=accepted.content,
        uploaded_at=at,
        source=to_stored(definition),
    )
    document = {
        **to_document(definition, version),
        "uploadedAt": instant_text(at),
        "contentHash": accepted.content,
    }
    async with runtime.unit(caller) as unit:
        id_ = _entity_id(caller.tenant, definition.id, version)
        entity = new_entity(unit, builtin.DEFINITION_ID, id_, "PUBLISHED", written(document))
        unit.create(entity)
        record(unit, entity.id, trail.entry_event("definition-uploaded", {"definitionId": definition.id}, "PUBLISHED"))
        unit.steps = StagedSteps(waits=Waits(tenant=caller.tenant, definitions=(row,)))
        await unit.commit()


def _entity_id(tenant: TenantId, definition_id: str, version: int) -> EntityId:
    """Worked out from what it names, so that two of the same name cannot both be stored."""
    return EntityId(str(uuid.uuid5(uuid.NAMESPACE_URL, f"{tenant}/{definition_id}/{version}")))

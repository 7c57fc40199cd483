"""Definitions: stored in versions, read, listed."""

import hashlib
import uuid
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from statewright.failures import Conflict, ProcessNotFound
from statewright.ids import EntityId, TenantId
from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject
from statewright.loop.background import MAX_INLINE_BYTES
from statewright.processes.language import I, P
from statewright.services.core import Caller, Core
from statewright.services.processes.advancing import ensure_models, refuse_joined
from statewright.services.processes.documents import encode_text, normalize_page, read_texts
from statewright.services.processes.hosting import ProcessHost, PublishedDefinition
from statewright.services.processes.writing import build_entity, build_entry_event
from statewright.storage.processes import definitions as stored
from statewright.storage.processes.parts import WAITS, DefinitionRow, Waits

MAX_ATTEMPTS: Final = 20
"""Attempts to store a definition while others store one of the same id."""

NOT_FOUND: Final = "definition not found"
_DRAWING_WEIGHT: Final = 8
"""Bytes of other input that a character of a definition is as much work as, when it is drawn."""

T = TypeVar("T")


class NewDefinition(Struct, frozen=True, kw_only=True):
    """What is to be stored as the next version, checked by its language."""

    id: str
    name: str
    source: str
    """The text that the language compiles."""
    build_document: Callable[[int], JsonObject]
    """The record of a version, without when it was uploaded and what it contains."""
    description: str = ""
    warnings: tuple[str, ...] = ()
    """What is allowed but looks like a mistake, as far as the record does not say so."""
    content: str = ""
    """A hash: equal for equal content; empty: that of the source."""

    def __post_init__(self) -> None:
        if not self.content:
            force_setattr(self, "content", hashlib.sha256(self.source.encode()).hexdigest())

    def to_document(self, version: int, at: int) -> JsonObject:
        """The document of the entity, and the record that clients read."""
        return {**self.build_document(version), "uploadedAt": to_rfc3339(at), "contentHash": self.content}


class UploadedDefinition(Struct, frozen=True, kw_only=True):
    """What an upload came to. ``is_new`` is False when a stored version has the same content; it is named then."""

    new: NewDefinition
    version: int
    uploaded_at: int
    """Epoch microseconds, of the version that is named."""
    is_new: bool

    @property
    def document(self) -> JsonObject:
        """The record clients read."""
        return self.new.to_document(self.version, self.uploaded_at)


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


def assign_version(content: str, stored: Mapping[int, str]) -> tuple[int, bool]:
    """The highest stored version of the same content, else the next one, which is new. ``stored``: content hashes by
    version.
    """
    same = [version for version, known in stored.items() if known == content]
    return (max(same), False) if same else (max(stored, default=0) + 1, True)


async def check_by_size(core: Core, caller: Caller, size: int, check: Callable[[], T]) -> T:
    """What the check of a definition comes to that is as much work as ``size`` bytes of other input: found at once, or
    by another process. Raises what ``check`` raises, ``ComputationKilled``, ``ComputationsBusy``.
    """
    if size <= MAX_INLINE_BYTES:
        return check()
    return await core.computations.compute(caller.tenant, "definition", check)


async def store(host: ProcessHost[P, I], caller: Caller, definition: NewDefinition) -> UploadedDefinition:
    """Store a definition as its next version, unless a stored one has the same content.

    Concurrent calls for one id all succeed.
    """
    refuse_joined(caller)
    await ensure_models(host, caller.tenant)
    for _ in range(MAX_ATTEMPTS):
        try:
            return await _store_version(host, caller, definition)
        except Conflict:  # another upload of this id has taken the version
            continue
    raise Conflict


async def get_version(
    host: ProcessHost[P, I], tenant: TenantId, definition_id: str, version: int, *, unknown: str = NOT_FOUND
) -> PublishedDefinition[P]:
    """As ``find_version``. Raises ``ProcessNotFound``, which says ``unknown``."""
    found = await find_version(host, tenant, definition_id, version)
    if found is None:
        raise ProcessNotFound(unknown)
    return found


async def find_version(
    host: ProcessHost[P, I], tenant: TenantId, definition_id: str, version: int
) -> PublishedDefinition[P] | None:
    """A version of a definition, the latest for 0 or less; None when there is none."""
    if version <= 0:
        return await host.processes.find_latest(tenant, definition_id)
    return None if version >= 2**31 else await host.processes.find(tenant, definition_id, version)


async def draw_by_size(
    host: ProcessHost[P, I], caller: Caller, published: PublishedDefinition[P], draw: Callable[[P], T]
) -> T:
    """What ``draw`` makes of a definition: at once, or of a long one by another process. Raises ``ComputationKilled``,
    ``ComputationsBusy``.
    """
    if len(published.source) * _DRAWING_WEIGHT <= MAX_INLINE_BYTES:
        return draw(published.process)
    definition = host.define(published)
    return await host.core.computations.compute(caller.tenant, "diagram", definition.use, draw)


async def list_versions(
    host: ProcessHost[P, I], tenant: TenantId, definition_id: str, *, unknown: str = NOT_FOUND
) -> list[tuple[int, int]]:
    """All versions of a definition, ascending, each with the instant of its upload. Raises ``ProcessNotFound``, which
    says ``unknown``.
    """
    known = await stored.fetch_versions(host.core.pool, tenant, host.language.name, definition_id)
    if not known:
        raise ProcessNotFound(unknown)
    return sorted((one.version, one.uploaded_at) for one in known)


async def list_definitions(
    host: ProcessHost[P, I], caller: Caller, *, keyword: str = "", page: int = 0, page_size: int = 0
) -> Summaries:
    """One summary per id whose latest name or id contains ``keyword``, whatever the case.

    ``page`` counts from zero, a negative one is 0; ``page_size`` of 0 or less is 20, at most 1,000
    (docs/reference/steps.md#rest).
    """
    wanted = normalize_page(page, page_size)
    found, total = await stored.fetch_latest_definitions(
        host.core.pool, caller.tenant, host.language.name, keyword, offset=wanted.offset, limit=wanted.size
    )
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


async def _store_version(host: ProcessHost[P, I], caller: Caller, definition: NewDefinition) -> UploadedDefinition:
    """Raises ``Conflict`` when the version was taken meanwhile."""
    core = host.core
    known = await stored.fetch_versions(core.pool, caller.tenant, host.language.name, definition.id)
    version, is_new = assign_version(definition.content, {one.version: one.content for one in known})
    at = core.clock() if is_new else next(one.uploaded_at for one in known if one.version == version)
    uploaded = UploadedDefinition(new=definition, version=version, uploaded_at=at, is_new=is_new)
    if is_new:
        await _publish(host, caller, uploaded)
        host.metrics.definitions_uploaded += 1
    return uploaded


async def _publish(host: ProcessHost[P, I], caller: Caller, uploaded: UploadedDefinition) -> None:
    language, definition, version, at = host.language, uploaded.new, uploaded.version, uploaded.uploaded_at
    row = DefinitionRow(
        id=definition.id,
        version=version,
        name=definition.name,
        description=definition.description,
        content=definition.content,
        uploaded_at=at,
        source=definition.source,
    )
    model = language.models.definition
    state = next(iter(model.states))
    document = await read_texts([definition.source], lambda: encode_text(uploaded.document))
    async with host.core.open_unit(caller) as unit:
        id_ = _derive_entity_id(caller.tenant, language.models.namespace, definition.id, version)
        entity = build_entity(unit, model, id_, state, document)
        unit.create(entity)
        event = build_entry_event(
            "definition-uploaded", {"definitionId": definition.id, "definitionName": definition.name}, state
        )
        unit.record(entity.id, event)
        unit.parts[WAITS.name] = Waits(tenant=caller.tenant, language=language.name, definitions=(row,))
        await caller.commit(unit, uploaded)


def _derive_entity_id(tenant: TenantId, namespace: str, definition_id: str, version: int) -> EntityId:
    """Worked out from what it names, so that two of the same name cannot both be stored."""
    return EntityId(str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}{tenant}/{definition_id}/{version}")))

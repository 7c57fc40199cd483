"""What changed between versions of an entity (docs/reference/operations.md#versions)."""

from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.background import run_by_size
from statewright.failures import EntityNotFound, HistoryPruned, VersionNotFound
from statewright.ids import EntityId, TransactionId
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.differences import build_json_patch
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.runtime import Caller, Runtime
from statewright.storage import entities
from statewright.storage.ops import versions
from statewright.storage.ops.versions import Version as Version
from statewright.storage.ops.versions import VersionDocument as VersionDocument
from statewright.storage.ops.versions import VersionFilter as VersionFilter
from statewright.storage.ops.versions import VersionKey as VersionKey

VersionName: TypeAlias = TransactionId | int | Literal["current", "previous"]
"""A version by the transaction that wrote it, or by an instant in epoch microseconds at which it was valid; the last
one, or the one before the other of a pair.
"""


class Difference(Struct, frozen=True, kw_only=True):
    """What leads from one version to another; ``older`` is None before the first one."""

    older: Version | None
    newer: Version
    patch: "list[JsonObject]"
    size: int
    """Characters of both documents."""


async def list_versions(
    runtime: Runtime, caller: Caller, entity_id: EntityId, wanted: VersionFilter, page: PageRequest[VersionKey]
) -> Page[Version, VersionKey]:
    """The versions of an entity that are kept, newest first, also of a deleted one. Raises ``EntityNotFound``."""
    found = await versions.fetch_versions(
        runtime.pool, caller.tenant, entity_id, wanted, limit=page.size + 1, after=page.after
    )
    if not found:
        await _require_existed(runtime, caller, entity_id)
    return build_page(page, found, lambda version: VersionKey(version.at))


async def get_version(
    runtime: Runtime, caller: Caller, entity_id: EntityId, transaction: TransactionId
) -> VersionDocument:
    """The version that a transaction wrote. Raises ``EntityNotFound``, ``VersionNotFound``."""
    return await _find(runtime, caller, entity_id, transaction)


async def find_named(runtime: Runtime, caller: Caller, entity_id: EntityId, name: VersionName) -> VersionDocument:
    """A version; ``previous`` is the one before the last. Raises ``EntityNotFound``, ``VersionNotFound``,
    ``HistoryPruned``.
    """
    if name != "previous":
        return await _find(runtime, caller, entity_id, name)
    current = await _find(runtime, caller, entity_id, "current")
    found = await _find_before(runtime, caller, entity_id, current.version)
    if found is None:
        raise VersionNotFound("the entity has one version only")
    return found


async def compare(
    runtime: Runtime, caller: Caller, entity_id: EntityId, *, older: VersionName, newer: VersionName
) -> Difference:
    """What changed between two versions. The first version is compared with an empty document, and so is a deletion.

    Raises ``EntityNotFound``, ``VersionNotFound``, ``HistoryPruned``.
    """
    last = await find_named(runtime, caller, entity_id, newer)
    if older == "previous":
        first = await _find_before(runtime, caller, entity_id, last.version)
    else:
        first = await _find(runtime, caller, entity_id, older)
    before, after = _read(first), _read(last)
    size = len(last.document or "") + (len(first.document or "") if first else 0)
    patch = await run_by_size(size, lambda: build_json_patch(before(), after()))
    return Difference(older=first.version if first else None, newer=last.version, patch=patch, size=size)


def _read(version: VersionDocument | None) -> "_Decode":
    return _Decode(None if version is None else version.document)


class _Decode(Struct, frozen=True):
    """Decodes a document where it is needed, which may be a thread."""

    text: str | None

    def __call__(self) -> JsonValue:
        return {} if self.text is None else decode_stored(self.text)


async def _find(runtime: Runtime, caller: Caller, entity_id: EntityId, name: VersionName) -> VersionDocument:
    tenant = caller.tenant
    if isinstance(name, int):
        found = await versions.find_version(runtime.pool, tenant, entity_id, at=name)
        until = None if found is None else found.version.until
        if until is not None and until <= name:
            raise HistoryPruned(name)
        if found is None and await _has_existed_at(runtime, caller, entity_id, name):
            raise HistoryPruned(name)
    elif name == "current":
        found = await versions.find_version(runtime.pool, tenant, entity_id)
    else:
        found = await versions.find_version(runtime.pool, tenant, entity_id, transaction=TransactionId(name))
    if found is None:
        await _require_existed(runtime, caller, entity_id)
        raise VersionNotFound(f"entity id={entity_id} has no such version, or keeps it no longer")
    return found


async def _has_existed_at(runtime: Runtime, caller: Caller, entity_id: EntityId, instant: int) -> bool:
    """Whether the entity had been created by then, as its last version knows."""
    last = await versions.find_version(runtime.pool, caller.tenant, entity_id)
    return last is not None and last.version.entity.created_at <= instant


async def _find_before(
    runtime: Runtime, caller: Caller, entity_id: EntityId, version: Version
) -> VersionDocument | None:
    """The version that this one superseded; None for the first one. Raises ``HistoryPruned``."""
    if version.change == "CREATE":
        return None
    found = await versions.find_version(runtime.pool, caller.tenant, entity_id, at=version.at - 1)
    if found is None or found.version.until != version.at:
        raise HistoryPruned(version.at - 1)
    return found


async def _require_existed(runtime: Runtime, caller: Caller, entity_id: EntityId) -> None:
    if not await entities.has_existed(runtime.pool, caller.tenant, entity_id):
        raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})

"""Use cases of declared indexes: declare, list, withdraw."""

from typing import Final, get_args

from statewright.conditions.paths import Path, format_path, is_field, parse_path, types_at
from statewright.conditions.sorting import CLASSES, OrderingClass
from statewright.entity import ModelKey
from statewright.failures import BadRequest, InvalidFieldPath, ModelNotFound, SearchIndexNotFound
from statewright.searches import DeclaredIndex, IndexKind
from statewright.services.definitions import ModelDefinition
from statewright.services.runtime import Caller, Runtime
from statewright.storage.search.indexes import MAX_INDEXES, IndexSpec

KINDS: Final[dict[OrderingClass, IndexKind]] = {
    OrderingClass.TEXT: "TEXT",
    OrderingClass.NUMBER: "NUMBER",
    OrderingClass.BOOLEAN: "BOOLEAN",
}


async def declare(
    runtime: Runtime, caller: Caller, key: ModelKey, *, path: str, kind: str | None, state: str | None
) -> DeclaredIndex:
    """Have an index built in the background; the one that is there when it was declared before.

    ``kind`` may be left out for a field whose declared types leave no choice. Raises ``ModelNotFound``,
    ``InvalidFieldPath``, ``BadRequest``.
    """
    definition = await _get_definition(runtime, caller, key)
    wanted = _build_index(definition, path=path, kind=kind, state=state)
    if not await runtime.search_indexes.declare(wanted):
        raise BadRequest(f"there are {MAX_INDEXES} declared indexes already, which is the most there may be")
    runtime.index_builder.wake()
    return await _get_index(runtime, definition, wanted.id)


async def list_indexes(runtime: Runtime, caller: Caller, key: ModelKey) -> list[DeclaredIndex]:
    """The indexes of a model and how they are doing. Raises ``ModelNotFound``."""
    definition = await _get_definition(runtime, caller, key)
    return await runtime.search_indexes.list_for_model(caller.tenant, definition.stored.id)


async def withdraw(runtime: Runtime, caller: Caller, key: ModelKey, index: str) -> DeclaredIndex:
    """Have an index dropped in the background. Raises ``ModelNotFound``, ``SearchIndexNotFound``."""
    definition = await _get_definition(runtime, caller, key)
    found = await _get_index(runtime, definition, index)
    await runtime.search_indexes.request_drop(caller.tenant, definition.stored.id, index)
    runtime.index_builder.wake()
    return found


def _build_index(definition: ModelDefinition, *, path: str, kind: str | None, state: str | None) -> IndexSpec:
    place = parse_path(path)
    if kind is not None and kind not in get_args(IndexKind):
        raise BadRequest(f'unknown index type "{kind}"; valid: {", ".join(get_args(IndexKind))}')
    if place is None or (place.steps and not all(isinstance(step, str) for step in place.steps)):
        raise InvalidFieldPath(f'"{path}" cannot be indexed: a path is member names only')
    return IndexSpec(
        tenant=definition.stored.tenant,
        model=definition.stored.id,
        path=place,
        path_text=format_path(place),
        kind=_choose_kind(definition, place, kind),
        state=state,
    )


def _choose_kind(definition: ModelDefinition, place: Path, kind: str | None) -> IndexKind:
    if not place.steps:
        if kind not in (None, "DOCUMENT"):
            raise BadRequest("the whole document has an index of type DOCUMENT only")
        return "DOCUMENT"
    declared = definition.model.declared
    if not is_field(place, declared):
        raise InvalidFieldPath(f'"{format_path(place)}" is no field of the model that holds one value')
    possible: set[IndexKind] = {KINDS[CLASSES[known]] for known in types_at(place, declared) if known in CLASSES}
    for candidate in possible:
        if kind == candidate or (kind is None and len(possible) == 1):
            return candidate
    raise BadRequest(f'"{format_path(place)}" can have an index of type {" or ".join(sorted(possible)) or "none"}')


async def _get_definition(runtime: Runtime, caller: Caller, key: ModelKey) -> ModelDefinition:
    definition = await runtime.definitions.find(caller.tenant, key)
    if definition is None:
        raise ModelNotFound(f"model {key.name}/{key.version} not found")
    return definition


async def _get_index(runtime: Runtime, definition: ModelDefinition, index: str) -> DeclaredIndex:
    found = await runtime.search_indexes.find(definition.stored.tenant, definition.stored.id, index)
    if found is None:
        raise SearchIndexNotFound(index)
    return found

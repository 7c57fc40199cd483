"""Use cases of searching: directly, within a joined transaction, and how a search would be carried out."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from statewright.background import TimeSlices, run_by_size, run_in_thread
from statewright.conditions import (
    CompiledSearch,
    MalformedCondition,
    SearchCondition,
    SortKey,
    read_search_condition,
    replace_synonyms,
)
from statewright.entity import Entity, ModelKey
from statewright.failures import BadRequest, InvalidFieldPath, ModelNotFound, SearchResultLimit
from statewright.ids import TenantId
from statewright.jsonval.codec import MalformedJson, decode, decode_stored
from statewright.services.definitions import ModelDefinition
from statewright.services.runtime import Caller, Runtime
from statewright.storage import models
from statewright.storage.search.matching import Match, judge_entities, sort_matches, to_meta
from statewright.storage.search.query import Explanation
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery
from statewright.storage.versions import EntityList, Entry

T = TypeVar("T")

DEFAULT_LIMIT: Final = 1000
MAX_LIMIT: Final = 10_000


class Search(Struct, frozen=True, kw_only=True):
    """What is looked for in a model, as asked; ``instant`` is in epoch microseconds, None = now."""

    key: ModelKey
    condition: SearchCondition
    sort: tuple[SortKey, ...] = ()
    instant: int | None = None


def read_condition(body: bytes) -> SearchCondition:
    """The condition of a request body. Raises ``BadRequest`` (docs/reference/search.md#order-of-checks step 3)."""
    try:
        return read_search_condition(decode(body))
    except (MalformedJson, MalformedCondition) as malformed:
        raise BadRequest(f"invalid condition: {malformed}") from malformed


def read_older_condition(body: bytes) -> SearchCondition:
    """The same of an older client, whose operators may have other names. Raises ``BadRequest``."""
    try:
        return read_search_condition(replace_synonyms(decode(body)))
    except (MalformedJson, MalformedCondition) as malformed:
        raise BadRequest(f"invalid condition: {malformed}") from malformed


def check_limit(limit: int) -> int:
    """The limit of a direct search. Raises ``BadRequest``."""
    if limit < 1:
        raise BadRequest("invalid limit: must be at least 1")
    if limit > MAX_LIMIT:
        raise BadRequest(f"limit exceeds maximum {MAX_LIMIT}")
    return limit


async def prepare(runtime: Runtime, tenant: TenantId, search: Search) -> EntityQuery:
    """Checks in the order of docs/reference/search.md#order-of-checks, steps 6 to 11; raises their failures."""
    await run_for_condition(search.condition, search.condition.check_form)
    definition = await _require_definition(runtime, tenant, search.key)
    try:
        compiled = await _compile(definition, search)
    except InvalidFieldPath:  # another process may have added the field
        newest = await _reload_definition(runtime, definition)
        if newest is definition:
            raise
        compiled = await _compile(newest, search)
    stored = definition.stored
    return EntityQuery(tenant=stored.tenant, model=stored.id, search=compiled, instant=search.instant)


async def run_for_condition(condition: SearchCondition, compute: Callable[[], T]) -> T:
    """The result of a computation on a condition: at once, or from a thread when it is large."""
    return await run_in_thread(compute) if condition.is_large else compute()


async def _compile(definition: ModelDefinition, search: Search) -> CompiledSearch:
    def compile_search() -> CompiledSearch:
        compiled = definition.searches.compile(search.condition, search.sort)
        return compiled.precompile(first=FIRST_ARGUMENT) if search.condition.is_large else compiled

    return await run_for_condition(search.condition, compile_search)


async def run_direct_search(
    runtime: Runtime, caller: Caller, search: Search, *, limit: int = DEFAULT_LIMIT, tracking: bool = False
) -> EntityList:
    """All matching entities in order, within the transaction that the caller joins, if any.

    Raises the failures of ``prepare`` and of ``find_views``. With ``tracking`` the joined transaction fails when
    another transaction changes a returned entity first (docs/reference/search.md#searching-inside-a-transaction).
    """
    query = await prepare(runtime, caller.tenant, search)
    if caller.transaction is None or search.instant is not None:  # the past is what was committed then
        return await runtime.search.find_views(query, limit=limit)
    return await _search_in_transaction(runtime, caller, query, limit=limit, tracking=tracking)


async def explain(
    runtime: Runtime, caller: Caller, search: Search, *, limit: int = DEFAULT_LIMIT, analyze: bool = False
) -> Explanation:
    """How a direct search would be carried out; with ``analyze``, how it was. Raises as ``run_direct_search`` does, but
    never for the number of matches.
    """
    query = await prepare(runtime, caller.tenant, search)
    return await runtime.search.explain(query, limit=limit, analyze=analyze)


async def _search_in_transaction(
    runtime: Runtime, caller: Caller, query: EntityQuery, *, limit: int, tracking: bool
) -> EntityList:
    """What is committed, and what the transaction has made of it."""
    async with runtime.open_unit(caller) as unit:
        staged = unit.staged.values()
        own = await _find_own_matches([write.entity for write in staged if not write.deletes], query)
        untouched = replace(
            query, search=query.search.ignore_order(), without=tuple([write.entity.id for write in staged])
        )
        room = limit - len(own)
        try:
            committed = await runtime.search.find_views(untouched, limit=max(room, 0))
        except SearchResultLimit:
            raise SearchResultLimit(limit) from None
        if room < 0:
            raise SearchResultLimit(limit)
        if tracking:
            for entry in committed:
                unit.expect(entry.id, entry.transaction_id)
            await unit.commit()
    if query.search.order:
        own += await _read_matches(committed, query)
    else:
        own += [Match(entry, (entry.id,)) for entry in committed]
    return committed.replace_entries(sort_matches(own, query.search))


async def _find_own_matches(entities: Sequence[Entity], query: EntityQuery) -> list[Match[Entry]]:
    return [*await judge_entities([entity for entity in entities if entity.model == query.model], query.search)]


async def _read_matches(found: EntityList, query: EntityQuery) -> list[Match[Entry]]:
    """The matches with what sorting needs of their documents, which are in memory portion by portion."""
    read_values, slices = query.search.compile_values(), TimeSlices()
    matches = list[Match[Entry]]()
    entries = iter(found)
    async for portion in found.replace_entries([*found]).take_portions():
        for entity, entry in zip(portion, entries):  # noqa: B905 - those of further portions are left
            document = await run_by_size(len(entity.document), partial(decode_stored, entity.document))
            matches.append(Match(entry, read_values(document, to_meta(entity))))
            await slices.yield_if_due()
    return matches


async def _reload_definition(runtime: Runtime, definition: ModelDefinition) -> ModelDefinition:
    """The definition as it is now, the same when it is current. Raises ``ModelNotFound``."""
    stored = definition.stored
    if await models.fetch_revision(runtime.pool, stored.tenant, stored.id) == stored.revision:
        return definition
    runtime.definitions.forget(stored.tenant, stored.id)
    return await _require_definition(runtime, stored.tenant, stored.key)


async def _require_definition(runtime: Runtime, tenant: TenantId, key: ModelKey) -> ModelDefinition:
    definition = await runtime.definitions.find(tenant, key)
    if definition is None:
        raise ModelNotFound(f"model {key.name}/{key.version} not found")
    return definition

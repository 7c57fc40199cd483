"""Use cases of statistics: counting entities, and grouping those of a model (docs/reference/entities.md#counts,
docs/reference/entities.md#grouped-statistics).
"""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from statewright.background import run_in_thread
from statewright.conditions import (
    EVERYTHING,
    CompiledSearch,
    MalformedCondition,
    check_statistics,
    compile_search,
    is_large_condition,
    parse,
)
from statewright.entity import EntityCount, ModelKey
from statewright.failures import BadRequest, GroupCardinalityExceeded, InvalidCondition, ModelNotFound
from statewright.ids import EntityId
from statewright.jsonval.numbers import NUMERIC_TYPES
from statewright.jsonval.values import JsonValue
from statewright.services.definitions import ModelDefinition
from statewright.services.grouped_query import GroupedQuery
from statewright.services.runtime import Caller, Runtime
from statewright.storage.commit.submission import Write
from statewright.storage.search import counts, grouping
from statewright.storage.search.counts import Uncommitted
from statewright.storage.search.grouping import Additions, EntityGroups
from statewright.storage.search.matching import judge_entities
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery

MAX_STATES: Final = 1000
"""Most entries of a ``states`` filter (docs/reference/entities.md#limits)."""

_VERSION: Final = re.compile("-?(0|[1-9][0-9]{0,9})")


async def count_models(runtime: Runtime, caller: Caller, *, instant: int | None = None) -> list[EntityCount]:
    """How many entities every registered model has, zero included; or had at ``instant`` (epoch microseconds).

    Raises ``HistoryPruned``.
    """
    async with _collect_uncommitted(runtime, caller, instant) as uncommitted:
        return await counts.fetch_counts(runtime.search, caller.tenant, instant=instant, uncommitted=uncommitted)


async def count_model(runtime: Runtime, caller: Caller, key: ModelKey, *, instant: int | None = None) -> EntityCount:
    """How many entities one model has, or had. Raises ``ModelNotFound``, ``HistoryPruned``."""
    model = (await runtime.get_definition(caller.tenant, key)).stored.id
    async with _collect_uncommitted(runtime, caller, instant) as uncommitted:
        found = await counts.fetch_counts(
            runtime.search, caller.tenant, model=model, instant=instant, uncommitted=uncommitted
        )
    if not found:  # deleted by another process a moment ago
        raise ModelNotFound("model not found")
    return found[0]


async def count_by_state(
    runtime: Runtime,
    caller: Caller,
    *,
    key: ModelKey | None = None,
    states: Sequence[str] = (),
    instant: int | None = None,
) -> list[EntityCount]:
    """How many entities are, or were, in each state that has any; ``states``, when there are any, are the only ones of
    interest.

    Raises ``BadRequest`` for too many states, then ``ModelNotFound``, ``HistoryPruned``.
    """
    if len(states) > MAX_STATES:
        raise BadRequest(f"states has more than {MAX_STATES} entries")
    model = None if key is None else (await runtime.get_definition(caller.tenant, key)).stored.id
    async with _collect_uncommitted(runtime, caller, instant) as uncommitted:
        return await counts.fetch_counts_by_state(
            runtime.search,
            caller.tenant,
            model=model,
            states=states or None,
            instant=instant,
            uncommitted=uncommitted,
        )


async def group_entities(
    runtime: Runtime, caller: Caller, *, name: str, version: str, query: GroupedQuery
) -> tuple[EntityGroups, tuple[str, ...]]:
    """The groups of a model's entities, and warnings about aggregations of what has no numbers.

    Raises ``ModelNotFound``, then the failures of the condition, then ``GroupCardinalityExceeded``.
    """
    definition = await _get_definition(runtime, caller, name, version)
    most = runtime.max_stats_groups
    wanted, how = await _build_query(definition, query), query.to_grouping(max_groups=most)
    async with _collect_staged(runtime, caller, wanted) as (hidden, added):
        groups = await grouping.fetch_groups(runtime.search, replace(wanted, without=hidden), how, added)
    if groups.total > most:
        raise GroupCardinalityExceeded(f"the query forms {groups.total} groups, {most} are allowed")
    return groups, tuple(_find_empty_aggregations(definition, query))


def _find_empty_aggregations(definition: ModelDefinition, query: GroupedQuery) -> Iterator[str]:
    """Why results will be null: what has no numbers has no sum."""
    for alias, (operation, path) in query.aggregations.items():
        field = definition.model.declared.get(path)
        if field is None or not field.types & NUMERIC_TYPES:
            found = "no such field" if field is None else f"no number ({', '.join(sorted(field.types))})"
            yield f"aggregation {alias}: {operation} needs numbers, and the model has {found} at {path}"


async def _get_definition(runtime: Runtime, caller: Caller, name: str, version: str) -> ModelDefinition:
    """The version is a text here: one that is no version number names no model
    (docs/reference/entities.md#the-request-of-a-grouped-statistic).
    """
    if not _VERSION.fullmatch(version):
        raise ModelNotFound("model not found")
    return await runtime.get_definition(caller.tenant, ModelKey(name, int(version)))


async def _build_query(definition: ModelDefinition, query: GroupedQuery) -> EntityQuery:
    """The entities that are to be grouped."""
    return EntityQuery(
        tenant=definition.stored.tenant,
        model=definition.stored.id,
        search=EVERYTHING if query.condition is None else await _compile_condition(definition, query.condition),
        instant=query.instant,
    )


async def _compile_condition(definition: ModelDefinition, raw: JsonValue) -> CompiledSearch:
    def compile_condition() -> CompiledSearch:
        condition = parse(raw)
        check_statistics(condition)
        return compile_search(condition, definition.model.declared)

    try:
        if is_large_condition(raw):
            return await run_in_thread(lambda: compile_condition().precompile(first=FIRST_ARGUMENT))
        return compile_condition()
    except MalformedCondition as malformed:
        raise InvalidCondition(f"invalid condition: {malformed}") from malformed


@asynccontextmanager
async def _collect_staged(
    runtime: Runtime, caller: Caller, wanted: EntityQuery
) -> AsyncIterator[tuple[tuple[EntityId, ...], Additions]]:
    """Which committed entities the joined transaction has replaced, and with what of those wanted.

    The past is what was committed then, also inside a transaction (docs/reference/entities.md#the-groups).
    """
    if wanted.instant is not None:
        yield (), grouping.NO_ADDITIONS
        return
    async with _collect_writes(runtime, caller) as writes:
        entities = [write.entity for write in writes if not write.deletes and write.entity.model == wanted.model]
        shown = [match.entity for match in await judge_entities(entities, wanted.search)]
        added = Additions(
            states=tuple(entity.state for entity in shown), documents=tuple(entity.document for entity in shown)
        )
        yield tuple(write.entity.id for write in writes), added


@asynccontextmanager
async def _collect_uncommitted(
    runtime: Runtime, caller: Caller, instant: int | None = None
) -> AsyncIterator[Uncommitted]:
    """What the joined transaction has made of the entities that are counted; the past is what was committed then."""
    if instant is not None:
        yield counts.NO_CHANGES
        return
    async with _collect_writes(runtime, caller) as writes:
        shown = [write.entity for write in writes if not write.deletes]
        yield Uncommitted(
            ids=tuple(write.entity.id for write in writes),
            models=tuple(entity.model for entity in shown),
            states=tuple(entity.state for entity in shown),
        )


@asynccontextmanager
async def _collect_writes(runtime: Runtime, caller: Caller) -> AsyncIterator[Sequence[Write]]:
    """What the joined transaction has written so far, if there is one; it writes nothing during the block."""
    if caller.transaction is None:
        yield ()
        return
    async with runtime.open_unit(caller) as unit:
        yield tuple(unit.staged.values())

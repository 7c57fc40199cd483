"""Use cases of statistics: counting entities, and grouping those of a model (spec/entities.md §13, §14)."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from statewright.conditions import MalformedCondition, Plan, check_statistics, compile_plan, parse, plan_of
from statewright.conditions.plan import ALWAYS
from statewright.entity import ModelKey
from statewright.failures import BadRequest, GroupCardinalityExceeded, InvalidCondition, ModelNotFound
from statewright.identity import EntityId
from statewright.jsonval.codec import decode
from statewright.services.definitions import Definition
from statewright.services.grouped_query import GroupedQuery
from statewright.services.runtime import Caller, Runtime
from statewright.storage import grouping, statistics
from statewright.storage.grouping import Added, Groups
from statewright.storage.search import Query, meta_of
from statewright.storage.staging import Write
from statewright.storage.statistics import Count, Uncommitted

MAX_STATES = 1000
"""Most entries of a ``states`` filter (spec/entities.md §1.6)."""

_VERSION = re.compile("-?(0|[1-9][0-9]{0,9})")


async def counts(runtime: Runtime, caller: Caller) -> list[Count]:
    """How many entities every registered model has, zero included."""
    async with _uncommitted(runtime, caller) as uncommitted:
        return await statistics.counts(runtime.search, caller.tenant, uncommitted=uncommitted)


async def count(runtime: Runtime, caller: Caller, key: ModelKey) -> Count:
    """How many entities one model has. Raises ``ModelNotFound``."""
    model = (await runtime.definition(caller.tenant, key)).stored.id
    async with _uncommitted(runtime, caller) as uncommitted:
        found = await statistics.counts(runtime.search, caller.tenant, model=model, uncommitted=uncommitted)
    if not found:  # deleted by another process a moment ago
        raise ModelNotFound("model not found")
    return found[0]


async def counts_by_state(
    runtime: Runtime, caller: Caller, *, key: ModelKey | None = None, states: Sequence[str] = ()
) -> list[Count]:
    """How many entities are in each state that has any; ``states``, when there are any, are the only ones of interest.

    Raises ``BadRequest`` for too many states, then ``ModelNotFound``.
    """
    if len(states) > MAX_STATES:
        raise BadRequest(f"states has more than {MAX_STATES} entries")
    model = None if key is None else (await runtime.definition(caller.tenant, key)).stored.id
    async with _uncommitted(runtime, caller) as uncommitted:
        return await statistics.counts_by_state(
            runtime.search, caller.tenant, model=model, states=states or None, uncommitted=uncommitted
        )


async def grouped(runtime: Runtime, caller: Caller, *, name: str, version: str, query: GroupedQuery) -> Groups:
    """The groups of a model's entities.

    Raises ``ModelNotFound``, then the failures of the condition, then ``GroupCardinalityExceeded``.
    """
    definition = await _definition(runtime, caller, name, version)
    most = runtime.stats_group_max
    wanted, how = _wanted(definition, query), query.grouping(most=most)
    async with _staged(runtime, caller, wanted) as (hidden, added):
        groups = await grouping.grouped(runtime.search, replace(wanted, without=hidden), how, added)
    if groups.total > most:
        raise GroupCardinalityExceeded(f"the query forms {groups.total} groups, {most} are allowed")
    return groups


async def _definition(runtime: Runtime, caller: Caller, name: str, version: str) -> Definition:
    """The version is a text here: one that is no version number names no model (spec/entities.md §14.1)."""
    if not _VERSION.fullmatch(version):
        raise ModelNotFound("model not found")
    return await runtime.definition(caller.tenant, ModelKey(name, int(version)))


def _wanted(definition: Definition, query: GroupedQuery) -> Query:
    """The entities that are to be grouped."""
    return Query(
        tenant=definition.stored.tenant,
        model=definition.stored.id,
        wanted=_plan(definition, query),
        instant=query.instant,
    )


def _plan(definition: Definition, query: GroupedQuery) -> Plan:
    if query.condition is None:
        return ALWAYS
    try:
        condition = parse(query.condition)
    except MalformedCondition as malformed:
        raise InvalidCondition(f"invalid condition: {malformed}") from malformed
    check_statistics(condition)
    return plan_of(condition, definition.model.declared)


@asynccontextmanager
async def _staged(runtime: Runtime, caller: Caller, wanted: Query) -> AsyncIterator[tuple[tuple[EntityId, ...], Added]]:
    """Which committed entities the joined transaction has replaced, and with what of those wanted.

    The past is what was committed then, also inside a transaction (spec/entities.md §14.2).
    """
    if wanted.instant is not None:
        yield (), grouping.NOTHING
        return
    async with _writes(runtime, caller) as writes:
        belongs = compile_plan(wanted.plan)
        entities = [write.entity for write in writes if not write.deletes and write.entity.model == wanted.model]
        shown = [entity for entity in entities if belongs(decode(entity.document), meta_of(entity))]
        added = Added(
            states=tuple(entity.state for entity in shown), documents=tuple(entity.document for entity in shown)
        )
        yield tuple(write.entity.id for write in writes), added


@asynccontextmanager
async def _uncommitted(runtime: Runtime, caller: Caller) -> AsyncIterator[Uncommitted]:
    """What the joined transaction has made of the entities that are counted."""
    async with _writes(runtime, caller) as writes:
        shown = [write.entity for write in writes if not write.deletes]
        yield Uncommitted(
            ids=tuple(write.entity.id for write in writes),
            models=tuple(entity.model for entity in shown),
            states=tuple(entity.state for entity in shown),
        )


@asynccontextmanager
async def _writes(runtime: Runtime, caller: Caller) -> AsyncIterator[Sequence[Write]]:
    """What the joined transaction has written so far, if there is one; it writes nothing during the block."""
    if caller.transaction is None:
        yield ()
        return
    async with runtime.unit(caller) as unit:
        yield tuple(unit.staged.values())

"""Deleting the entities of a model: all of them, or those that satisfy a condition
(docs/reference/entities.md#delete-by-model).
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions import (
    EVERYTHING,
    MalformedCondition,
    SearchCondition,
    check_destructive,
    read_search_condition,
)
from statewright.entity import Entity, ModelKey
from statewright.failures import InvalidCondition
from statewright.ids import EntityId, ModelId
from statewright.jsonval.codec import MalformedJson, decode
from statewright.services.runtime import Caller, Runtime
from statewright.services.search import Search, prepare
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.deletion import Deletion, Stamp, delete_matching
from statewright.storage.entities import fetch_bare_entities
from statewright.storage.search.matching import judge_entities
from statewright.storage.search.statements import EntityQuery

NO_LIMIT: Final = 2**31
"""More than there are."""


class ModelDeletion(Struct, frozen=True, kw_only=True):
    """What became of the entities of a model. ``matched`` are the ids that a condition found, none without one."""

    model: ModelId
    matched: tuple[EntityId, ...]
    found: int
    removed: int


def read_optional_condition(body: bytes) -> SearchCondition | None:
    """The condition of a request body; None when there is nothing in it. Raises ``InvalidCondition``, also for one that
    could match everything by accident.
    """
    if not body.strip():
        return None
    try:
        condition = read_search_condition(decode(body))
        check_destructive(condition.tree)
    except (MalformedJson, MalformedCondition) as malformed:
        raise InvalidCondition(f"invalid condition: {malformed}") from malformed
    return condition


async def delete_all(
    runtime: Runtime,
    caller: Caller,
    key: ModelKey,
    *,
    condition: SearchCondition | None = None,
    instant: int | None = None,
) -> ModelDeletion:
    """Delete a model's entities, all or those that satisfy the condition, in one transaction.

    With a condition and an ``instant`` (epoch microseconds) it is the versions valid then that must satisfy it. Raises
    ``ModelNotFound``, the failures of ``services.search.prepare``, ``ScanBudgetExhausted``, ``Conflict``.
    """
    runtime.builtin.refuse_model(key)
    model = (await runtime.get_definition(caller.tenant, key)).stored.id
    if condition is None:
        query = EntityQuery(tenant=caller.tenant, model=model, search=EVERYTHING)
    else:
        query = await prepare(runtime, caller.tenant, Search(key=key, condition=condition, instant=instant))

    def conclude(deletion: Deletion) -> ModelDeletion:
        matched = deletion.matched
        return ModelDeletion(
            model=model, matched=() if condition is None else matched, found=len(matched), removed=deletion.removed
        )

    async with runtime.open_unit(caller) as unit:
        if unit.parent is None:
            return conclude(await _delete_directly(runtime, unit, query))
        deletion = conclude(await _stage_deletions(runtime, unit, query))
        await caller.commit(unit, deletion)
        return deletion


async def _delete_directly(runtime: Runtime, unit: UnitOfWork, query: EntityQuery) -> Deletion:
    """Delete in a database transaction of its own; the unit lends its name."""
    stamp = Stamp(transaction=unit.id, label=unit.label, attributed=unit.attributed, executor=unit.executor)
    return await delete_matching(runtime.pool, query, stamp, scan_budget=runtime.search.scan_budget)


async def _stage_deletions(runtime: Runtime, unit: UnitOfWork, query: EntityQuery) -> Deletion:
    """Delete as a part of the transaction that the request joins, and sees its own writes."""
    matched = await (
        _find_past(runtime, unit, query) if query.instant is not None else _find_current(runtime, unit, query)
    )
    present = [entity for entity in matched.values() if entity is not None]
    for entity in present:
        unit.delete(entity)
    return Deletion(tuple(sorted(matched)), len(present))


async def _find_current(runtime: Runtime, unit: UnitOfWork, query: EntityQuery) -> dict[EntityId, Entity | None]:
    """What the transaction has made to satisfy the query, and what is committed and untouched by it."""
    staged = {id_: write for id_, write in unit.staged.items() if write.entity.model == query.model}
    own = [write.entity for write in staged.values() if not write.deletes]
    found = [match.entity for match in await judge_entities(own, query.search)]
    committed = await runtime.search.find_entities(replace(query, without=tuple(staged)), limit=NO_LIMIT)
    for entity in committed:
        unit.expect(entity.id, entity.transaction_id)
    return {entity.id: entity for entity in (*found, *committed)}


async def _find_past(runtime: Runtime, unit: UnitOfWork, query: EntityQuery) -> dict[EntityId, Entity | None]:
    """What satisfied the query then, committed data only, as the transaction sees it now: None what it does not see."""
    ids = [entity.id for entity in await runtime.search.find_entities(query, limit=NO_LIMIT)]
    staged = unit.staged
    untouched = [entity_id for entity_id in ids if entity_id not in staged]
    seen = {entity.id: entity for entity in await fetch_bare_entities(runtime.pool, unit.tenant, untouched)}
    for entity in seen.values():
        unit.expect(entity.id, entity.transaction_id)
    for entity_id in ids:
        write = staged.get(entity_id)
        if write is not None and not write.deletes:
            seen[entity_id] = write.entity
    return {entity_id: seen.get(entity_id) for entity_id in ids}

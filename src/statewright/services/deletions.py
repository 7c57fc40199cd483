"""Deleting the entities of a model: all of them, or those that satisfy a condition (spec/entities.md §9.2)."""

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions import Condition, MalformedCondition, Plan, compile_plan, parse
from statewright.conditions.plan import AllOf
from statewright.entity import Entity, ModelKey
from statewright.failures import InvalidCondition
from statewright.identity import EntityId, ModelId
from statewright.jsonval.codec import MalformedJson, decode
from statewright.services.runtime import Caller, Runtime
from statewright.services.search import Search, prepare
from statewright.services.steps.entity_door import refuse_model
from statewright.storage.deletion import Deletion, Stamp, delete_matching
from statewright.storage.fence import settled
from statewright.storage.search import Query, meta_of
from statewright.storage.unit_of_work import UnitOfWork

EVERYTHING: Plan = AllOf(())
ANY_NUMBER = 2**31
"""More than there are."""


class ModelDeletion(Struct, frozen=True, kw_only=True):
    """What became of the entities of a model. ``matched`` are the ids that a condition found, none without one."""

    model: ModelId
    matched: tuple[EntityId, ...]
    found: int
    removed: int


def read_optional_condition(body: bytes) -> Condition | None:
    """The condition of a request body; None when there is nothing in it. Raises ``InvalidCondition``."""
    if not body.strip():
        return None
    try:
        return parse(decode(body))
    except (MalformedJson, MalformedCondition) as malformed:
        raise InvalidCondition(f"invalid condition: {malformed}") from malformed


async def delete_all(
    runtime: Runtime,
    caller: Caller,
    key: ModelKey,
    *,
    condition: Condition | None = None,
    instant: int | None = None,
) -> ModelDeletion:
    """Delete a model's entities, all or those that satisfy the condition, in one transaction.

    With a condition and an ``instant`` (epoch microseconds) it is the versions valid then that must satisfy it. Raises
    ``ModelNotFound``, the failures of ``services.search.prepare``, ``ScanBudgetExhausted``, ``Conflict``.
    """
    refuse_model(key)
    model = (await runtime.definition(caller.tenant, key)).stored.id
    if condition is None:
        query = Query(tenant=caller.tenant, model=model, wanted=EVERYTHING)
    else:
        query = (await prepare(runtime, caller.tenant, Search(key=key, question=condition, instant=instant))).query()
    async with runtime.unit(caller) as unit:
        deletion = await (_delete_apart(runtime, unit, query) if unit.parent is None else _stage(runtime, unit, query))
    matched = deletion.matched
    return ModelDeletion(
        model=model, matched=() if condition is None else matched, found=len(matched), removed=deletion.removed
    )


async def _delete_apart(runtime: Runtime, unit: UnitOfWork, query: Query) -> Deletion:
    """Delete in a database transaction of its own; the unit lends its name."""
    stamp = Stamp(transaction=unit.id, label=unit.label, attributed=unit.attributed, executor=unit.executor)
    return await delete_matching(runtime.pool, query, stamp, scan_budget=runtime.search.scan_budget)


async def _stage(runtime: Runtime, unit: UnitOfWork, query: Query) -> Deletion:
    """Delete as a part of the transaction that the request joins, and sees its own writes."""
    doomed = await (_of_the_past(runtime, unit, query) if query.instant is not None else _of_now(runtime, unit, query))
    present = [entity for entity in doomed.values() if entity is not None]
    for entity in present:
        unit.delete(entity)
    await unit.commit()
    return Deletion(tuple(sorted(doomed)), len(present))


async def _of_now(runtime: Runtime, unit: UnitOfWork, query: Query) -> dict[EntityId, Entity | None]:
    """What the transaction has made to satisfy the query, and what is committed and untouched by it."""
    staged = {id_: write for id_, write in unit.staged.items() if write.entity.model == query.model}
    holds = compile_plan(query.plan)
    own = [write.entity for write in staged.values() if not write.deletes]
    found = [entity for entity in own if holds(decode(entity.document), meta_of(entity))]
    committed = await runtime.search.entities(replace(query, without=tuple(staged)), limit=ANY_NUMBER)
    for entity in committed:
        unit.expect(entity.id, entity.transaction_id)
    return {entity.id: entity for entity in (*found, *committed)}


async def _of_the_past(runtime: Runtime, unit: UnitOfWork, query: Query) -> dict[EntityId, Entity | None]:
    """What satisfied the query then, committed data only, as the transaction sees it now."""
    assert query.instant is not None  # noqa: S101 - the caller's choice of this function
    await settled(runtime.pool, query.instant)
    ids = [entity.id for entity in await runtime.search.direct(query, limit=ANY_NUMBER)]
    await unit.prefetch(ids)
    return {entity_id: await unit.entity(entity_id) for entity_id in ids}

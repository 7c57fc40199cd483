"""Deleting the entities of a model: all of them, or those that satisfy a condition
(docs/reference/entities.md#delete-by-model).

Removing superseded versions: by request, a model at a time, and in the background (storage/deletion.py).
"""

import asyncio
import time
from datetime import timedelta
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
from statewright.ids import EntityId, ModelId, TenantId
from statewright.jsonval.codec import MalformedJson, decode
from statewright.loop.background import repeat
from statewright.operations.service import Act
from statewright.services.core import Caller, Core
from statewright.services.search import Search, prepare
from statewright.settings import Retention
from statewright.storage import deletion as retention
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.deletion import Deletion, Stamp, delete_matching
from statewright.storage.entities import fetch_bare_entities
from statewright.storage.ops.service import record_act_ahead
from statewright.storage.pool import Pool
from statewright.storage.search.matching import judge_entities
from statewright.storage.search.statements import EntityQuery
from statewright.telemetry import logs

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
    core: Core,
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
    core.builtin.refuse_model(key)
    model = (await core.get_definition(caller.tenant, key)).stored.id
    if condition is None:
        query = EntityQuery(tenant=caller.tenant, model=model, search=EVERYTHING)
    else:
        query = await prepare(core, caller.tenant, Search(key=key, condition=condition, instant=instant))

    def conclude(deletion: Deletion) -> ModelDeletion:
        matched = deletion.matched
        return ModelDeletion(
            model=model, matched=() if condition is None else matched, found=len(matched), removed=deletion.removed
        )

    async with core.open_unit(caller) as unit:
        if unit.parent is None:
            return conclude(await _delete_directly(core, unit, query))
        deletion = conclude(await _stage_deletions(core, unit, query))
        await caller.commit(unit, deletion)
        return deletion


async def _delete_directly(core: Core, unit: UnitOfWork, query: EntityQuery) -> Deletion:
    """Delete in a database transaction of its own; the unit lends its name."""
    stamp = Stamp(transaction=unit.id, label=unit.label, attributed=unit.attributed, executor=unit.executor)
    return await delete_matching(core.pool, query, stamp, scan_budget=core.search.scan_budget)


async def _stage_deletions(core: Core, unit: UnitOfWork, query: EntityQuery) -> Deletion:
    """Delete as a part of the transaction that the request joins, and sees its own writes."""
    matched = await (_find_past(core, unit, query) if query.instant is not None else _find_current(core, unit, query))
    present = [entity for entity in matched.values() if entity is not None]
    for entity in present:
        unit.delete(entity)
    return Deletion(tuple(sorted(matched)), len(present))


async def _find_current(core: Core, unit: UnitOfWork, query: EntityQuery) -> dict[EntityId, Entity | None]:
    """What the transaction has made to satisfy the query, and what is committed and untouched by it."""
    staged = {id_: write for id_, write in unit.staged.items() if write.entity.model == query.model}
    own = [write.entity for write in staged.values() if not write.deletes]
    found = [match.entity for match in await judge_entities(own, query)]
    committed = await core.search.find_entities(replace(query, without=tuple(staged)), limit=NO_LIMIT)
    for entity in committed:
        unit.expect(entity.id, entity.transaction_id)
    return {entity.id: entity for entity in (*found, *committed)}


async def _find_past(core: Core, unit: UnitOfWork, query: EntityQuery) -> dict[EntityId, Entity | None]:
    """What satisfied the query then, committed data only, as the transaction sees it now: None what it does not see."""
    ids = [entity.id for entity in await core.search.find_entities(query, limit=NO_LIMIT)]
    staged = unit.staged
    untouched = [entity_id for entity_id in ids if entity_id not in staged]
    seen = {entity.id: entity for entity in await fetch_bare_entities(core.pool, unit.tenant, untouched)}
    for entity in seen.values():
        unit.expect(entity.id, entity.transaction_id)
    for entity_id in ids:
        write = staged.get(entity_id)
        if write is not None and not write.deletes:
            seen[entity_id] = write.entity
    return {entity_id: seen.get(entity_id) for entity_id in ids}


REQUEST_WINDOW: Final = timedelta(seconds=5)
"""How long one request works; who wants more asks again."""

MAX_TIME_SHARE: Final = 0.5
"""Of the time, at most, in which a statement of ours runs: the disk is there for others, too."""

log = logs.logger(__name__)


class PruneResult(Struct, frozen=True, kw_only=True):
    """What was removed. ``kept_from``: the instant (epoch microseconds) from which on every version is kept."""

    removed: int
    kept_from: int
    is_complete: bool


async def prune(core: Core, caller: Caller, key: ModelKey, *, period: timedelta) -> PruneResult:
    """Remove versions of a model that were superseded longer than ``period`` ago, for a few seconds.

    Raises ``ModelNotFound``.
    """
    model = (await core.get_definition(caller.tenant, key)).stored.id
    details = {"olderThanSeconds": round(period.total_seconds())}
    act = Act(action="history.prune", target_kind="MODEL", target_id=f"{key.name}/{key.version}", details=details)
    await record_act_ahead(core.pool, caller.tenant, caller.principal.actor, act)
    return await _prune(core.pool, caller.tenant, model, period=period, within=REQUEST_WINDOW)


class Pruner:
    """Keeps the setting: removes what is too old, of all tenants, now and then. Every node may do so at once."""

    def __init__(self, pool: Pool, setting: Retention, *, interval: timedelta) -> None:
        self._pool = pool
        self._setting = setting
        self._interval = interval

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, self._interval, log=log, failure="history_pruning_failed", waits_first=True)

    async def run_once(self) -> int:
        """Remove everything that is too old now; how many versions."""
        total = 0
        for found in await retention.fetch_prunable(self._pool):
            period = self._setting.get_period(None if found.key is None else f"{found.key.name}/{found.key.version}")
            if period is not None:
                pruning = await _prune(self._pool, found.tenant, found.model, period=period)
                total += pruning.removed
        if total:
            log.info("history_pruned", count=total)
        return total


async def _prune(
    pool: Pool, tenant: TenantId, model: ModelId, *, period: timedelta, within: timedelta | None = None
) -> PruneResult:
    kept_from = await retention.move_horizon(pool, tenant, model, period=period)
    deadline = None if within is None else time.monotonic() + within.total_seconds()
    removed, since = 0, 0
    while deadline is None or time.monotonic() < deadline:
        began = time.monotonic()
        batch = await retention.remove_batch(pool, tenant, model, since=since, kept_from=kept_from)
        removed, since = removed + batch.removed, batch.up_to
        if batch.removed < retention.MAX_BATCH:
            return PruneResult(removed=removed, kept_from=kept_from, is_complete=True)
        await asyncio.sleep((time.monotonic() - began) * (1 - MAX_TIME_SHARE) / MAX_TIME_SHARE)
    return PruneResult(removed=removed, kept_from=kept_from, is_complete=False)

"""What all writes of entities have in common: how a transaction ends, and what its client is told."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TypeVar

from msgspec import Struct

from statewright.failures import Failure, RunCutOff
from statewright.identity import EntityId, TransactionId
from statewright.services.runtime import Runtime
from statewright.storage.unit_of_work import UnitOfWork

T = TypeVar("T")


class StaleItem(Struct, frozen=True, kw_only=True):
    """An item of a collection update that was left out because its ``ifMatch`` is stale; ``index`` is its position in
    its chunk.
    """

    entity_id: EntityId
    index: int


class Saved(Struct, frozen=True, kw_only=True):
    """The result of a write: the transaction its client may quote, the entities, what members warned of."""

    transaction_id: TransactionId
    entity_ids: tuple[EntityId, ...]
    warnings: tuple[str, ...] = ()
    failed: tuple[StaleItem, ...] = ()


def saved(unit: UnitOfWork, entity_ids: Sequence[EntityId], failed: Sequence[StaleItem] = ()) -> Saved:
    """What to tell the client of a unit that was committed."""
    # A joined request reports the transaction it is part of; a run of several segments the one it entered with.
    transaction = unit.label if unit.parent is None else unit.id
    return Saved(
        transaction_id=transaction,
        entity_ids=tuple(entity_ids),
        warnings=tuple(unit.warnings),
        failed=tuple(failed),
    )


async def committed(runtime: Runtime, unit: UnitOfWork, work: Coroutine[object, object, T], *, may_segment: bool) -> T:
    """Do the work and commit. What may commit segments goes on when its client leaves; all else is dropped then.

    A failure takes along what members warned of (spec/workflows.md §10.2).
    """

    async def to_commit() -> T:
        try:
            result = await work
            await unit.commit()
        except Failure as failure:
            failure.warnings = tuple(unit.warnings)
            raise
        return result

    if not may_segment or not unit.may_segment:
        return await to_commit()
    try:
        return await runtime.to_the_end(unit.outliving(to_commit()))
    except asyncio.CancelledError as cut:
        raise RunCutOff(unit.label) from cut

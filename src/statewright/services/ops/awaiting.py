"""What can be waited for: states of entities, the end of instances (docs/reference/operations.md#wait)."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, Literal

from msgspec.structs import replace

from statewright.engine.engine import list_declared_transitions
from statewright.entity import Entity
from statewright.failures import EntityNotFound, ProcessNotFound, VersionNotFound
from statewright.ids import EntityId, TransactionId
from statewright.services.core import Caller, Core
from statewright.services.entities import get_governing_definition
from statewright.services.ops.operations import Operations
from statewright.services.ops.waiting import WaitResult
from statewright.storage.ops.explaining import Position, SeenVersion, find_instant

InstanceTarget = Literal["FINISHED", "WAITING"]

IN_FLIGHT: Final = frozenset({"ACTIVE", "RUNNING", "WAITING", "TERMINATING", "SUSPENDED"})
"""Statuses of instances that are not finished, whatever their language."""


async def wait_for_entity(
    operations: Operations,
    caller: Caller,
    entity_id: EntityId,
    *,
    states: Sequence[str] = (),
    after: TransactionId | None = None,
    within: timedelta,
) -> WaitResult:
    """Wait until an entity is in one of the states; without states until it has a version newer than ``after``; without
    either until no transition leads out of its state. Raises ``EntityNotFound``, ``VersionNotFound``,
    ``TooManyRequests``.
    """
    entity = await operations.core.reader.get(caller.tenant, entity_id)
    if entity is None:
        raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
    since = entity.updated_at - 1
    if after is not None:
        written = await find_instant(operations.core.pool, caller.tenant, entity_id, after)
        if written is None:
            raise VersionNotFound(f"entity {entity_id} has no version of transaction {after}")
        since = written
    is_reached = await _build_target(operations.core, caller, entity, states, any_version=after is not None)
    position = Position(caller.tenant, entity_id, since)
    return await operations.waits.wait(position, is_reached, within=within)


async def wait_after_write(
    operations: Operations,
    caller: Caller,
    entity_id: EntityId,
    transaction: TransactionId,
    *,
    states: Sequence[str],
    within: timedelta,
) -> WaitResult | None:
    """The same, from the version on that a transaction wrote; None when there is no such entity any more."""
    entity = await operations.core.reader.get(caller.tenant, entity_id)
    if entity is None:
        return None
    written = await find_instant(operations.core.pool, caller.tenant, entity_id, transaction)
    since = (written if written is not None else entity.updated_at) - 1
    is_reached = await _build_target(operations.core, caller, entity, states, any_version=False)
    position = Position(caller.tenant, entity_id, since)
    return await operations.waits.wait(position, is_reached, within=within)


async def wait_for_instance(
    operations: Operations,
    caller: Caller,
    entity_id: EntityId,
    *,
    until: InstanceTarget,
    within: timedelta,
    unknown: ProcessNotFound,
) -> tuple[WaitResult, Entity]:
    """Wait until an instance of whatever language has ended, or, for ``WAITING``, waits for a person or a signal; and
    the instance as it is then. Raises ``unknown``, ``TooManyRequests``.
    """
    models = operations.processes.hosts.instance_models
    entity = await operations.core.reader.get(caller.tenant, entity_id)
    if entity is None or entity.model not in models:
        raise unknown

    def is_reached(version: SeenVersion) -> bool:
        return version.state not in IN_FLIGHT or (until == "WAITING" and version.state == "WAITING")

    position = Position(caller.tenant, entity_id, entity.updated_at - 1)
    result = await operations.waits.wait(position, is_reached, within=within)
    return result, await operations.core.reader.get(caller.tenant, entity_id) or entity


async def _build_target(
    core: Core, caller: Caller, entity: Entity, states: Sequence[str], *, any_version: bool
) -> Callable[[SeenVersion], bool]:
    if states:
        wanted = frozenset(states)
        return lambda version: version.state in wanted
    if any_version:
        return lambda _version: True
    model = (await get_governing_definition(core, caller, entity)).model
    return lambda version: not list_declared_transitions(model, replace(entity, state=version.state))

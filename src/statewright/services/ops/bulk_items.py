"""What bulk jobs do to an entity or instance, and what keeps it from that (docs/reference/operations.md#bulk-jobs).

An operation is a row of a table. What it does commits with the result of the item, by what is around the caller.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from statewright.entity import Entity
from statewright.failures import EntityNotFound, ProcessNotFound, TransitionNotFound
from statewright.ids import EntityId
from statewright.operations.bulk_jobs import BulkOperation, BulkPlan
from statewright.services import entities
from statewright.services.builtin import FireRequest
from statewright.services.core import Caller, Core
from statewright.services.entities import Patch
from statewright.services.ops.explanations import explain
from statewright.services.ops.service import Operations
from statewright.services.processes.hosting import Processes

CANCEL: Final = "cancel"
AGAIN: Final = ("retry", "restart")
"""The transitions by which failed instances go on, whichever their language has."""


class ItemContext(Struct, frozen=True, kw_only=True):
    """For whom, where and how items are worked on; ``change`` is the patch of the plan, read."""

    operations: Operations
    caller: Caller
    plan: BulkPlan
    reason: str
    change: Patch | None = None

    @property
    def core(self) -> Core:
        """That of the service."""
        return self.operations.core

    @property
    def processes(self) -> Processes:
        """Those of the service."""
        return self.operations.processes


class ItemWork(Struct, frozen=True):
    """An operation: what it ``does`` to an item, and why it would skip it, as far as that can be told without members
    (None: it would not). Both raise failures.
    """

    does: Callable[[ItemContext, EntityId], Awaitable[object]]
    judges: Callable[[ItemContext, EntityId], Awaitable[str | None]]


async def _move(item: ItemContext, id_: EntityId) -> None:
    transition = item.plan.arguments.transition
    if item.change is not None:
        await entities.patch(item.core, item.caller, id_, change=item.change, transition=transition)
    else:
        await entities.fire_transition(item.core, item.caller, id_, transition=transition)


async def _judge_move(item: ItemContext, id_: EntityId) -> str | None:
    entity, builtin = await get_entity(item, id_), item.core.builtin
    if entity.model in builtin.by_id:
        builtin.check_transition(FireRequest(entity=entity, transition=item.plan.arguments.transition, document={}))
    explained = await explain(item.operations, item.caller, id_)
    if explained.obstacles is not None and explained.obstacles.whole:
        return "SUSPENDED"
    wanted = item.plan.arguments.transition
    if wanted is None:
        return None
    found = next((each for each in explained.explanation.transitions if each.name == wanted), None)
    if found is None or found.disabled or found.kind == "SCHEDULED":
        return "NO_SUCH_TRANSITION"
    return next((code for code in ("SUSPENDED", "CRITERION") if code in found.blocked_by), None)


async def _delete(item: ItemContext, id_: EntityId) -> None:
    await entities.delete(item.core, item.caller, id_)


async def _judge_deletion(item: ItemContext, id_: EntityId) -> None:
    item.core.builtin.refuse_entities((await get_entity(item, id_)).model)


async def get_entity(item: ItemContext, id_: EntityId) -> Entity:
    """The entity of an item. Raises ``EntityNotFound``."""
    found = await item.core.reader.get(item.caller.tenant, id_)
    if found is None:
        raise EntityNotFound.of(id_)
    return found


def is_of_instances(core: Core, entity: Entity) -> bool:
    """Whether an entity is an instance of a process."""
    known = core.builtin.by_id.get(entity.model)
    return known is not None and CANCEL in known.client_transitions


async def _find_way(names: tuple[str, ...], item: ItemContext, id_: EntityId) -> str | None:
    """The transition of an instance that the operation takes, None where its state has none."""
    found = await get_entity(item, id_)
    if not is_of_instances(item.core, found):
        raise ProcessNotFound("it is no instance")
    known = item.core.builtin.by_id[found.model]
    if names == AGAIN and found.state != "FAILED":
        return None
    return next(
        (each for each in names if each in known.client_transitions and each in known.states.get(found.state, {})), None
    )


async def _move_instance(names: tuple[str, ...], item: ItemContext, id_: EntityId) -> None:
    transition = await _find_way(names, item, id_)
    if transition is None:
        raise TransitionNotFound(f"the state of the instance has no {' or '.join(names)}")
    await entities.fire_transition(item.core, item.caller, id_, transition=transition)


async def _judge_instance(names: tuple[str, ...], item: ItemContext, id_: EntityId) -> str | None:
    return None if await _find_way(names, item, id_) else "NO_SUCH_TRANSITION"


_MOVE: Final = ItemWork(_move, _judge_move)

MOVES: Final[Mapping[BulkOperation, ItemWork]] = {
    "TRANSITION": _MOVE,
    "LOOPBACK": _MOVE,
    "PATCH": _MOVE,
    "DELETE": ItemWork(_delete, _judge_deletion),
    "CANCEL_INSTANCES": ItemWork(partial(_move_instance, (CANCEL,)), partial(_judge_instance, (CANCEL,))),
    "RETRY_INSTANCES": ItemWork(partial(_move_instance, AGAIN), partial(_judge_instance, AGAIN)),
}

"""Events of the runs of an entity (docs/reference/operations.md#events-of-runs)."""

from statewright.failures import EntityNotFound
from statewright.ids import EntityId, TransactionId
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.runtime import Caller, Runtime
from statewright.storage import entities
from statewright.storage.ops import events
from statewright.storage.ops.events import EventKey as EventKey
from statewright.storage.ops.events import FiledEvent as FiledEvent


async def list_events(
    runtime: Runtime,
    caller: Caller,
    entity_id: EntityId,
    page: PageRequest[EventKey],
    *,
    transaction: TransactionId | None,
) -> Page[FiledEvent, EventKey]:
    """The events of an entity, those of the newest run first, also of a deleted one; ``transaction``: of one run alone.

    Raises ``EntityNotFound``.
    """
    found = await events.fetch_events(
        runtime.pool, caller.tenant, entity_id, limit=page.size + 1, after=page.after, transaction=transaction
    )
    if not found and not await entities.has_existed(runtime.pool, caller.tenant, entity_id):
        raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
    return build_page(page, found, lambda filed: filed.key)

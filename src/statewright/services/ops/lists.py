"""Lists that are read a page at a time, by key (docs/reference/operations.md#lists).

A page begins behind the key of the last row of the page before it, so rows that come or go never make another one
appear twice or be left out.

Changes of the entities of a tenant (docs/reference/operations.md#changes).

Events of the runs of an entity (docs/reference/operations.md#events-of-runs).

What a transaction has written (docs/reference/operations.md#transactions).

Which nodes there are (docs/reference/operations.md#nodes).

Messages and search jobs in lists (docs/reference/operations.md#messages-and-search-jobs).

Entities that could move and have not for long (docs/reference/operations.md#idle-entities).

How many instances are where (docs/reference/operations.md#counts-of-instances).
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from statewright.failures import EntityNotFound
from statewright.ids import EntityId, TransactionId, find_time
from statewright.instants import parse_instant
from statewright.operations.history import RunEvent, WrittenEntity
from statewright.operations.listings import InstanceCounts, ListedMessage, ListedSearchJob, StepCounts
from statewright.operations.records import MAX_COUNT
from statewright.operations.work import ServiceNode
from statewright.services.core import Caller, Core
from statewright.services.definitions import ModelDefinition
from statewright.storage import entities
from statewright.storage.ops import changes, explaining, listings, nodes
from statewright.storage.ops.changes import ChangeFilter as ChangeFilter
from statewright.storage.ops.changes import ChangeKey as ChangeKey
from statewright.storage.ops.changes import EventKey as EventKey
from statewright.storage.ops.changes import FoundChanges as FoundChanges
from statewright.storage.ops.changes import TransactionKey as TransactionKey
from statewright.storage.ops.listings import MessageKey as MessageKey
from statewright.storage.ops.listings import Scan as Scan
from statewright.storage.ops.listings import ScanKey as ScanKey
from statewright.storage.ops.listings import ScannedModel
from statewright.storage.ops.listings import SearchJobKey as SearchJobKey
from statewright.storage.ops.nodes import NodeKey as NodeKey

Item = TypeVar("Item")
Key = TypeVar("Key")


class PageRequest(Struct, Generic[Key], frozen=True, kw_only=True):
    """Which page is wanted: ``size`` rows behind the one with the key ``after``, None for the first page."""

    size: int
    after: Key | None = None
    counts: bool = False
    """Whether the total is wanted, too."""

    @property
    def count_up_to(self) -> int:
        """Rows to count: one more than are told, to know that there are more."""
        return MAX_COUNT + 1


class Page(Struct, Generic[Item, Key], frozen=True, kw_only=True):
    """Some rows, and the key after which the list goes on; None when it does not."""

    items: Sequence[Item]
    last_key: Key | None
    total: int | None = None


def build_page(
    request: PageRequest[Key], found: Sequence[Item], get_key: Callable[[Item], Key], total: int | None = None
) -> Page[Item, Key]:
    """The page from rows that were read in order: one more than its size, if there are so many."""
    items = found[: request.size]
    goes_on = len(found) > request.size
    return Page(items=items, last_key=get_key(items[-1]) if goes_on else None, total=total)


async def find_changes(core: Core, caller: Caller, wanted: ChangeFilter, page: PageRequest[ChangeKey]) -> FoundChanges:
    """Changes, the newest first, as far as one request comes. Raises ``SearchTimeout``."""
    return await changes.find_changes(
        core.search, caller.tenant, wanted, now=core.clock(), limit=page.size, after=page.after
    )


async def list_events(
    core: Core,
    caller: Caller,
    entity_id: EntityId,
    page: PageRequest[EventKey],
    *,
    transaction: TransactionId | None,
) -> Page[RunEvent, EventKey]:
    """The events of an entity, those of the newest run first, also of a deleted one; ``transaction``: of one run alone.

    Raises ``EntityNotFound``.
    """
    found = await changes.fetch_events(
        core.pool, caller.tenant, entity_id, limit=page.size + 1, after=page.after, transaction=transaction
    )
    if not found and not await entities.has_existed(core.pool, caller.tenant, entity_id):
        raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
    shown = build_page(page, found, lambda filed: filed.key)
    return Page(items=[filed.event for filed in shown.items], last_key=shown.last_key)


async def list_written(
    core: Core, caller: Caller, transaction: TransactionId, page: PageRequest[TransactionKey]
) -> Page[WrittenEntity, TransactionKey]:
    """The entities that a transaction has written, by id; none when it is unknown. Raises ``SearchTimeout``."""
    made_at = find_time(transaction)
    if made_at is None:
        return Page(items=(), last_key=None)
    found = await changes.list_written(
        core.search, caller.tenant, transaction, made_at=made_at, limit=page.size + 1, after=page.after
    )
    return build_page(page, found, lambda each: TransactionKey(UUID(each.entity_id)))


async def list_nodes(core: Core, caller: Caller, page: PageRequest[NodeKey]) -> Page[ServiceNode, NodeKey]:
    """The nodes of the installation that are alive, by id; their members are those of the tenant."""
    found = await nodes.list_nodes(core.pool, caller.tenant, limit=page.size + 1, after=page.after)
    total = await nodes.count_nodes(core.pool, limit=page.count_up_to) if page.counts else None
    return build_page(page, found, lambda node: NodeKey(node.id), total)


async def list_messages(core: Core, caller: Caller, page: PageRequest[MessageKey]) -> Page[ListedMessage, MessageKey]:
    """The edge messages of the tenant, the newest first."""
    found = await listings.list_messages(core.pool, caller.tenant, limit=page.size + 1, after=page.after)
    return build_page(page, found, lambda message: MessageKey(UUID(message.id)))


async def list_search_jobs(
    core: Core,
    caller: Caller,
    page: PageRequest[SearchJobKey],
    *,
    statuses: Sequence[str] | None,
    model: str | None,
) -> Page[ListedSearchJob, SearchJobKey]:
    """The search jobs of the tenant whose results are still kept, the newest first."""
    found = await listings.list_search_jobs(
        core.pool,
        caller.tenant,
        statuses=statuses,
        model=model,
        retention_us=core.search_jobs.retention_us,
        limit=page.size + 1,
        after=page.after,
    )
    return build_page(page, found, lambda job: SearchJobKey(parse_instant(job.created_at), UUID(job.id)))


WITHIN_S: Final = 2.0
"""Time of one request."""


async def find_idle_entities(core: Core, caller: Caller, page: PageRequest[ScanKey], *, name: str | None) -> Scan:
    """The entities in states that can still be left which were written the longest time ago, of all models or of
    those with a name. Raises ``SearchTimeout``.
    """
    models = list[ScannedModel]()
    for key in await listings.list_model_keys(core.search, caller.tenant, name=name):
        definition = await core.definitions.find(caller.tenant, key)
        states = () if definition is None else _list_movable_states(definition)
        if definition is not None and states:
            models.append(ScannedModel(key=key, id=definition.stored.id, states=states))
    models.sort(key=_get_place)
    return await listings.find_idle_entities(
        core.search, caller.tenant, models, after=page.after, limit=page.size, within_s=WITHIN_S
    )


def _get_place(model: ScannedModel) -> tuple[str, int]:
    return model.key.name, model.key.version


def _list_movable_states(definition: ModelDefinition) -> tuple[str, ...]:
    """The states that an enabled transition of an active workflow leads out of."""
    states = {
        name
        for workflow in definition.model.workflows
        if workflow.active
        for name, state in workflow.states.items()
        if any(not transition.disabled for transition in state.transitions)
    }
    return tuple(sorted(states))


async def count_instances(
    core: Core, caller: Caller, *, language: str | None, definition_id: str | None
) -> InstanceCounts:
    """Instances by definition and status. Raises ``SearchTimeout``."""
    return await explaining.count_instances(core.pool, caller.tenant, language=language, definition_id=definition_id)


async def count_steps(core: Core, caller: Caller, *, language: str, definition_id: str) -> StepCounts:
    """Executions under way by step of a definition. Raises ``SearchTimeout``."""
    return await explaining.count_steps(core.pool, caller.tenant, language=language, definition_id=definition_id)

"""What is stored: searching page by page, counting, estimating
(docs/reference/operations.md#searching-page-by-page), messages and search jobs in lists
(docs/reference/operations.md#messages-and-search-jobs), entities that could move and have not for long
(docs/reference/operations.md#idle-entities), and how many instances are where
(docs/reference/operations.md#counts-of-instances).
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright.entity import ModelKey
from statewright.instants import parse_instant
from statewright.jsonval.numbers import parse_number
from statewright.loop.background import run_in_thread
from statewright.operations.listings import (
    InstanceCounts,
    ListedMessage,
    ListedSearchJob,
    ModelEstimate,
    StepCounts,
    UniqueKeyHit,
)
from statewright.schema import UniqueKey, build_claim
from statewright.services.core import Caller, Core
from statewright.services.definitions import ModelDefinition
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.search import Search, prepare
from statewright.storage.commit.overlay import hash_claim
from statewright.storage.ops import listings as stored
from statewright.storage.ops.listings import MessageKey as MessageKey
from statewright.storage.ops.listings import Scan as Scan
from statewright.storage.ops.listings import ScanKey as ScanKey
from statewright.storage.ops.listings import ScannedModel, SingleKey
from statewright.storage.ops.listings import SearchJobKey as SearchJobKey
from statewright.storage.ops.listings import UniqueKeyHitKey as UniqueKeyHitKey
from statewright.storage.search import grouping
from statewright.storage.search.query import EntityKey as EntityKey
from statewright.storage.search.query import EntityPage as EntityPage
from statewright.storage.search.query import fetch_page

COUNT_WITHIN_S: Final = 2.0
"""Who counts for a person to see should not keep the database busy for longer."""


class NameVersionKey(Struct, frozen=True, array_like=True):
    """The place of a model in a list."""

    name: Annotated[str, Meta(max_length=256)]
    version: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


async def search_page(core: Core, caller: Caller, wanted: Search, page: PageRequest[EntityKey]) -> EntityPage:
    """A page of the entities that match, in order. Raises the failures of ``prepare`` and of ``fetch_page``."""
    query = await prepare(core, caller.tenant, wanted)
    return await fetch_page(core.search, query, size=page.size, after=page.after)


async def count_matches(core: Core, caller: Caller, wanted: Search, *, limit: int) -> int:
    """How many entities match, counted up to ``limit`` and for two seconds at most.

    Raises the failures of ``prepare``, ``ScanBudgetExhausted``, ``SearchTimeout``, ``HistoryPruned``.
    """
    query = await prepare(core, caller.tenant, replace(wanted, sort=()))
    return await grouping.count_matches(core.search, query, limit=limit, within_s=COUNT_WITHIN_S)


async def list_models(
    core: Core, caller: Caller, page: PageRequest[NameVersionKey]
) -> Page[ModelEstimate, NameVersionKey]:
    """The models of the tenant, by name and version, with about how many entities each has."""
    after = ModelKey(page.after.name, page.after.version) if page.after else None
    found = await grouping.estimate_counts(core.search, caller.tenant, limit=page.size + 1, after=after)
    return build_page(page, found, lambda each: NameVersionKey(each.name, each.version))


async def find_by_unique_key(
    core: Core, caller: Caller, page: PageRequest[UniqueKeyHitKey], value: str
) -> Page[UniqueKeyHit, UniqueKeyHitKey]:
    """The entities of the tenant that have the value, a text or what could be a number, in the one field of a unique
    key, ordered by model and key.
    """
    keys = await stored.list_single_keys(core.pool, caller.tenant)
    claims = await run_in_thread(lambda: [*_list_claims(keys, value)])
    hashes = [hash_ for _, hash_ in claims]
    found = await stored.fetch_claimants(core.pool, caller.tenant, hashes) if hashes else []
    entities = [
        UniqueKeyHit(entity_id=entity, model=claims[place][0].model_key, key=claims[place][0].id, state=state)
        for place, entity, state in found
    ]
    entities = [each for each in entities if page.after is None or _get_key(each) > page.after]
    return build_page(page, sorted(entities, key=_get_key), _get_key)


def _get_key(found: UniqueKeyHit) -> UniqueKeyHitKey:
    return UniqueKeyHitKey(found.model.name, found.model.version, found.key, UUID(found.entity_id))


def _list_claims(keys: Sequence[SingleKey], value: str) -> Iterator[tuple[SingleKey, str]]:
    """What an entity with the value claims by each of the keys."""
    number = parse_number(value)
    for key in keys:
        for given in (value,) if number is None else (value, number):
            if (claim := build_claim(UniqueKey(key.id, ("",)), {"": given})) is not None:
                yield key, hash_claim(key.model, claim)


async def list_messages(core: Core, caller: Caller, page: PageRequest[MessageKey]) -> Page[ListedMessage, MessageKey]:
    """The edge messages of the tenant, the newest first."""
    found = await stored.list_messages(core.pool, caller.tenant, limit=page.size + 1, after=page.after)
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
    found = await stored.list_search_jobs(
        core.pool,
        caller.tenant,
        statuses=statuses,
        model=model,
        retention_us=core.search_jobs.retention_us,
        limit=page.size + 1,
        after=page.after,
    )
    return build_page(page, found, lambda job: SearchJobKey(parse_instant(job.created_at), UUID(job.id)))


IDLE_WITHIN_S: Final = 2.0
"""Time of one request."""


async def find_idle_entities(core: Core, caller: Caller, page: PageRequest[ScanKey], *, name: str | None) -> Scan:
    """The entities in states that can still be left which were written the longest time ago, of all models or of
    those with a name. Raises ``SearchTimeout``.
    """
    models = list[ScannedModel]()
    for key in await stored.list_model_keys(core.search, caller.tenant, name=name):
        definition = await core.definitions.find(caller.tenant, key)
        states = () if definition is None else _list_movable_states(definition)
        if definition is not None and states:
            models.append(ScannedModel(key=key, id=definition.stored.id, states=states))
    models.sort(key=_get_place)
    return await stored.find_idle_entities(
        core.search, caller.tenant, models, after=page.after, limit=page.size, within_s=IDLE_WITHIN_S
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
    return await stored.count_instances(core.pool, caller.tenant, language=language, definition_id=definition_id)


async def count_steps(core: Core, caller: Caller, *, language: str, definition_id: str) -> StepCounts:
    """Executions under way by step of a definition. Raises ``SearchTimeout``."""
    return await stored.count_steps(core.pool, caller.tenant, language=language, definition_id=definition_id)

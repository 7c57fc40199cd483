"""Searching page by page, counting, estimating (docs/reference/operations.md#searching-page-by-page)."""

from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright.entity import ModelKey
from statewright.operations.listings import ModelEstimate
from statewright.services.core import Caller, Core
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.search import Search, prepare
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

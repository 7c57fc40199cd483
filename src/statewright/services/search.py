"""Use cases of searching: directly, within a joined transaction, and how a search would be carried out.

Use cases of asynchronous searches (docs/reference/search.md#asynchronous-search).

Use cases of declared indexes: declare, list, withdraw.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions import (
    CompiledSearch,
    MalformedCondition,
    SearchCondition,
    SortKey,
    read_search_condition,
    replace_synonyms,
    serialise,
)
from statewright.conditions.paths import Path, format_path, is_field, parse_path, types_at
from statewright.conditions.sorting import CLASSES, OrderingClass
from statewright.entity import Entity, FoundEntities, ModelKey
from statewright.failures import (
    BadRequest,
    InvalidFieldPath,
    ModelNotFound,
    SearchIndexNotFound,
    SearchJobAlreadyTerminal,
    SearchJobNotFound,
    SearchResultLimit,
)
from statewright.ids import TenantId
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.loop.background import TimeSlices, run_in_thread
from statewright.operations.listings import DeclaredIndex, IndexKind, JobId, SearchJob
from statewright.services.core import Caller, Core
from statewright.services.definitions import ModelDefinition
from statewright.services.writing import decode_by_size
from statewright.storage import models
from statewright.storage.search.indexes import MAX_INDEXES, IndexSpec
from statewright.storage.search.jobs import NewSearchJob
from statewright.storage.search.matching import Match, judge_entities, sort_matches, to_meta
from statewright.storage.search.query import SearchExplanation
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery
from statewright.storage.versions import EntityList, Entry

T = TypeVar("T")

DEFAULT_LIMIT: Final = 1000
MAX_LIMIT: Final = 10_000


class Search(Struct, frozen=True, kw_only=True):
    """What is looked for in a model, as asked; ``instant`` is in epoch microseconds, None = now."""

    key: ModelKey
    condition: SearchCondition
    sort: tuple[SortKey, ...] = ()
    instant: int | None = None


def read_condition(body: bytes) -> SearchCondition:
    """The condition of a request body. Raises ``BadRequest`` (docs/reference/search.md#order-of-checks step 3)."""
    try:
        return read_search_condition(decode(body))
    except (MalformedJson, MalformedCondition) as malformed:
        raise BadRequest(f"invalid condition: {malformed}") from malformed


def read_older_condition(body: bytes) -> SearchCondition:
    """The same of an older client, whose operators may have other names. Raises ``BadRequest``."""
    try:
        return read_search_condition(replace_synonyms(decode(body)))
    except (MalformedJson, MalformedCondition) as malformed:
        raise BadRequest(f"invalid condition: {malformed}") from malformed


def check_limit(limit: int) -> int:
    """The limit of a direct search. Raises ``BadRequest``."""
    if limit < 1:
        raise BadRequest("invalid limit: must be at least 1")
    if limit > MAX_LIMIT:
        raise BadRequest(f"limit exceeds maximum {MAX_LIMIT}")
    return limit


async def prepare(core: Core, tenant: TenantId, search: Search) -> EntityQuery:
    """Checks in the order of docs/reference/search.md#order-of-checks, steps 6 to 11; raises their failures."""
    await run_for_condition(search.condition, search.condition.check_form)
    definition = await _require_definition(core, tenant, search.key)
    try:
        compiled = await _compile(definition, search)
    except InvalidFieldPath:  # another process may have added the field
        newest = await _reload_definition(core, definition)
        if newest is definition:
            raise
        compiled = await _compile(newest, search)
    return definition.build_query(compiled, instant=search.instant, computations=core.computations)


async def run_for_condition(condition: SearchCondition, compute: Callable[[], T]) -> T:
    """The result of a computation on a condition: at once, or from a thread when it is large."""
    return await run_in_thread(compute) if condition.is_large else compute()


async def _compile(definition: ModelDefinition, search: Search) -> CompiledSearch:
    def compile_search() -> CompiledSearch:
        compiled = definition.searches.compile(search.condition, search.sort)
        return compiled.precompile(first=FIRST_ARGUMENT) if search.condition.is_large else compiled

    return await run_for_condition(search.condition, compile_search)


async def run_direct_search(
    core: Core, caller: Caller, search: Search, *, limit: int = DEFAULT_LIMIT, tracking: bool = False
) -> EntityList:
    """All matching entities in order, within the transaction that the caller joins, if any.

    Raises the failures of ``prepare`` and of ``find_views``. With ``tracking`` the joined transaction fails when
    another transaction changes a returned entity first (docs/reference/search.md#searching-inside-a-transaction).
    """
    query = await prepare(core, caller.tenant, search)
    if caller.transaction is None or search.instant is not None:  # the past is what was committed then
        return await core.search.find_views(query, limit=limit)
    return await _search_in_transaction(core, caller, query, limit=limit, tracking=tracking)


async def explain(
    core: Core, caller: Caller, search: Search, *, limit: int = DEFAULT_LIMIT, analyze: bool = False
) -> SearchExplanation:
    """How a direct search would be carried out; with ``analyze``, how it was. Raises as ``run_direct_search`` does, but
    never for the number of matches.
    """
    query = await prepare(core, caller.tenant, search)
    return await core.search.explain(query, limit=limit, analyze=analyze)


async def _search_in_transaction(
    core: Core, caller: Caller, query: EntityQuery, *, limit: int, tracking: bool
) -> EntityList:
    """What is committed, and what the transaction has made of it."""
    async with core.open_unit(caller) as unit:
        staged = unit.staged.values()
        own = await _find_own_matches([write.entity for write in staged if not write.deletes], query)
        untouched = replace(
            query, search=query.search.ignore_order(), without=tuple([write.entity.id for write in staged])
        )
        room = limit - len(own)
        try:
            committed = await core.search.find_views(untouched, limit=max(room, 0))
        except SearchResultLimit:
            raise SearchResultLimit(limit) from None
        if room < 0:
            raise SearchResultLimit(limit)
        if tracking:
            for entry in committed:
                unit.expect(entry.id, entry.transaction_id)
            await unit.commit()
    if query.search.order:
        own += await _read_matches(committed, query)
    else:
        own += [Match(entry, (entry.id,)) for entry in committed]
    return committed.replace_entries(sort_matches(own, query.search))


async def _find_own_matches(entities: Sequence[Entity], query: EntityQuery) -> list[Match[Entry]]:
    return [*await judge_entities([entity for entity in entities if entity.model == query.model], query)]


async def _read_matches(found: EntityList, query: EntityQuery) -> list[Match[Entry]]:
    """The matches with what sorting needs of their documents, which are in memory portion by portion."""
    read_values, slices = query.search.compile_values(), TimeSlices()
    matches = list[Match[Entry]]()
    entries = iter(found)
    async for portion in found.replace_entries([*found]).take_portions():
        for entity, entry in zip(portion, entries):  # noqa: B905 - those of further portions are left
            document = await decode_by_size(entity.document)
            matches.append(Match(entry, read_values(document, to_meta(entity))))
            await slices.yield_if_due()
    return matches


async def _reload_definition(core: Core, definition: ModelDefinition) -> ModelDefinition:
    """The definition as it is now, the same when it is current. Raises ``ModelNotFound``."""
    stored = definition.stored
    if await models.fetch_revision(core.pool, stored.tenant, stored.id) == stored.revision:
        return definition
    core.definitions.forget(stored.tenant, stored.id)
    return await _require_definition(core, stored.tenant, stored.key)


async def _require_definition(core: Core, tenant: TenantId, key: ModelKey) -> ModelDefinition:
    definition = await core.definitions.find(tenant, key)
    if definition is None:
        raise ModelNotFound(f"model {key.name}/{key.version} not found")
    return definition


MAX_PAGE_SIZE: Final = 10_000
DEFAULT_PAGE_SIZE: Final = 1000
MAX_PAGE_NUMBER: Final = 214_748

_encode_sort = msgspec.json.Encoder().encode


class ResultPage(Struct, frozen=True, kw_only=True):
    """A page of a finished job, and how much there is altogether."""

    key: ModelKey
    found: FoundEntities
    number: int
    size: int
    total: int

    @property
    def total_pages(self) -> int:
        return -(-self.total // self.size)


async def submit(core: Core, caller: Caller, search: Search) -> JobId:
    """Have a search carried out in the background on committed data. Raises the failures of ``prepare``."""
    query = await prepare(core, caller.tenant, search)
    condition = search.condition
    text = await run_for_condition(condition, lambda: encode(serialise(condition.tree)).decode())
    job = NewSearchJob(
        tenant=caller.tenant,
        id=JobId(core.ids()),
        model=query.model,
        key=search.key,
        condition=text,
        sort=_encode_sort(search.sort).decode(),
        instant=search.instant,
    )
    await core.search_jobs.submit(job)
    core.search_runner.wake()
    return job.id


async def find(core: Core, caller: Caller, job_id: JobId) -> SearchJob:
    """The job as it is now. Raises ``SearchJobNotFound``."""
    job = await core.search_jobs.find(caller.tenant, job_id)
    if job is None:
        raise SearchJobNotFound(job_id)
    return job


async def cancel(core: Core, caller: Caller, job_id: JobId) -> None:
    """End a running job. Raises ``SearchJobNotFound``, ``SearchJobAlreadyTerminal``."""
    if await core.search_jobs.cancel(caller.tenant, job_id):
        core.search_runner.stop(caller.tenant, job_id)
        return
    job = await find(core, caller, job_id)
    raise SearchJobAlreadyTerminal(job.id, job.status)


def check_page(*, size: int, number: int) -> int:
    """The size that is meant: nothing or less asks for the default. Raises ``BadRequest``, naming the parameter."""
    if size > MAX_PAGE_SIZE:
        raise BadRequest(f"pageSize exceeds maximum {MAX_PAGE_SIZE}")
    if number < 0:
        raise BadRequest("invalid pageNumber: must not be negative")
    if number > MAX_PAGE_NUMBER:
        raise BadRequest(f"pageNumber exceeds maximum {MAX_PAGE_NUMBER}")
    return size if size > 0 else DEFAULT_PAGE_SIZE


async def read_page(core: Core, caller: Caller, job_id: JobId, *, size: int, number: int) -> ResultPage:
    """A page of the matches, each as it was at the job's instant.

    Raises ``BadRequest`` for the page and for a job that was not successful (yet), ``SearchJobNotFound``.
    """
    size = check_page(size=size, number=number)
    job = await find(core, caller, job_id)
    if job.status != "SUCCESSFUL":
        raise BadRequest(f"search job {job_id} is not complete (status: {job.status})")
    offset = size * number
    found = await core.search_jobs.list_page(caller.tenant, job.id, offset=offset, size=min(size, job.hits - offset))
    return ResultPage(key=job.key, found=found, number=number, size=size, total=job.hits)


KINDS: Final[dict[OrderingClass, IndexKind]] = {
    OrderingClass.TEXT: "TEXT",
    OrderingClass.NUMBER: "NUMBER",
    OrderingClass.BOOLEAN: "BOOLEAN",
}


async def declare(
    core: Core, caller: Caller, key: ModelKey, *, path: str, kind: str | None, state: str | None
) -> DeclaredIndex:
    """Have an index built in the background; the one that is there when it was declared before.

    ``kind`` may be left out for a field whose declared types leave no choice. Raises ``ModelNotFound``,
    ``InvalidFieldPath``, ``BadRequest``.
    """
    definition = await _require_definition(core, caller.tenant, key)
    wanted = _build_index(definition, path=path, kind=kind, state=state)
    if not await core.search_indexes.declare(wanted):
        raise BadRequest(f"there are {MAX_INDEXES} declared indexes already, which is the most there may be")
    core.index_builder.wake()
    return await _get_index(core, definition, wanted.id)


async def list_indexes(core: Core, caller: Caller, key: ModelKey) -> list[DeclaredIndex]:
    """The indexes of a model and how they are doing. Raises ``ModelNotFound``."""
    definition = await _require_definition(core, caller.tenant, key)
    return await core.search_indexes.list_for_model(caller.tenant, definition.stored.id)


async def withdraw(core: Core, caller: Caller, key: ModelKey, index: str) -> DeclaredIndex:
    """Have an index dropped in the background. Raises ``ModelNotFound``, ``SearchIndexNotFound``."""
    definition = await _require_definition(core, caller.tenant, key)
    found = await _get_index(core, definition, index)
    await core.search_indexes.request_drop(caller.tenant, definition.stored.id, index)
    core.index_builder.wake()
    return found


def _build_index(definition: ModelDefinition, *, path: str, kind: str | None, state: str | None) -> IndexSpec:
    place = parse_path(path)
    if kind is not None and kind not in get_args(IndexKind):
        raise BadRequest(f'unknown index type "{kind}"; valid: {", ".join(get_args(IndexKind))}')
    if place is None or (place.steps and not all(isinstance(step, str) for step in place.steps)):
        raise InvalidFieldPath(f'"{path}" cannot be indexed: a path is member names only')
    return IndexSpec(
        tenant=definition.stored.tenant,
        model=definition.stored.id,
        path=place,
        path_text=format_path(place),
        kind=_choose_kind(definition, place, kind),
        state=state,
    )


def _choose_kind(definition: ModelDefinition, place: Path, kind: str | None) -> IndexKind:
    if not place.steps:
        if kind not in (None, "DOCUMENT"):
            raise BadRequest("the whole document has an index of type DOCUMENT only")
        return "DOCUMENT"
    declared = definition.model.declared
    if not is_field(place, declared):
        raise InvalidFieldPath(f'"{format_path(place)}" is no field of the model that holds one value')
    possible: set[IndexKind] = {KINDS[CLASSES[known]] for known in types_at(place, declared) if known in CLASSES}
    for candidate in possible:
        if kind == candidate or (kind is None and len(possible) == 1):
            return candidate
    raise BadRequest(f'"{format_path(place)}" can have an index of type {" or ".join(sorted(possible)) or "none"}')


async def _get_index(core: Core, definition: ModelDefinition, index: str) -> DeclaredIndex:
    found = await core.search_indexes.find(definition.stored.tenant, definition.stored.id, index)
    if found is None:
        raise SearchIndexNotFound(index)
    return found

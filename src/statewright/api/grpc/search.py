"""Reading and searching over gRPC (spec/grpc.md §10, §11; spec/search.md §15)."""

from contextlib import suppress
from typing import Final, Literal

from msgspec import Raw, Struct

from statewright.api.grpc.answers import (
    EntityChangesMetadataResponse,
    EntityResponse,
    EntitySnapshotSearchResponse,
    EntityStatsByStateResponse,
    EntityStatsResponse,
    Outcome,
    SnapshotStatus,
    change_response,
    count_response,
    entity_response,
    one,
    state_count_response,
)
from statewright.api.grpc.payloads import (
    NO_MODEL,
    Instant,
    Int64,
    ModelSpec,
    Payload,
    Text,
    canonical_uuid,
    existing_id,
)
from statewright.api.grpc.rpc import CallRefused, Rpc, always, operation
from statewright.conditions import Condition, MalformedCondition
from statewright.conditions.sorting import SortKey, check_keys
from statewright.conditions.templates import Shaped
from statewright.failures import BadRequest, SearchJobAlreadyTerminal, SearchJobNotFound
from statewright.jsonval.codec import MalformedJson, decode
from statewright.services import entities, search, search_jobs, statistics
from statewright.services.runtime import Caller, Runtime
from statewright.services.search import Search, question_of
from statewright.storage.entities import Cut
from statewright.storage.search_jobs import JobId

DEFAULT_PAGE_SIZE: Final = 20
DEFAULT_SNAPSHOT_PAGE_SIZE: Final = 10


class Get(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityGetRequest``"""

    entity_id: Text | None
    point_in_time: Instant | None = None


class GetAll(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityGetAllRequest``; always of the present."""

    model: ModelSpec | None
    page_size: Int64 | None = None
    page_number: Int64 | None = None
    point_in_time: Instant | None = None


class OrderBy(Struct, frozen=True):
    """A sort key."""

    path: Text | None
    source: Literal["data", "meta"] | None = None
    desc: bool | None = None

    @property
    def key(self) -> SortKey:
        """The key that is meant."""
        return SortKey(path=self.path or "", source=self.source or "data", descending=bool(self.desc))


class Asked(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntitySnapshotSearchRequest``, and what all searches are about."""

    model: ModelSpec | None
    condition: Raw
    point_in_time: Instant | None = None
    order_by: tuple[OrderBy, ...] | None = None


class Find(Asked, frozen=True, kw_only=True, rename="camel"):
    """``EntitySearchRequest``"""

    limit: Int64 | None = None
    tracking_read: bool | None = None
    timeout_millis: Int64 | None = None


class OfSnapshot(Payload, frozen=True, kw_only=True, rename="camel"):
    """``SnapshotGetStatusRequest`` and ``SnapshotCancelRequest``"""

    snapshot_id: Text | None

    @property
    def job(self) -> JobId:
        """The search that is meant. Raises ``SearchJobNotFound`` for a text that is no UUID."""
        job = canonical_uuid(self.snapshot_id or "")
        if job is None:
            raise SearchJobNotFound(self.snapshot_id or "")
        return JobId(job)


class GetSnapshot(OfSnapshot, frozen=True, kw_only=True, rename="camel"):
    """``SnapshotGetRequest``"""

    page_size: Int64 | None = None
    page_number: Int64 | None = None
    client_point_time: Instant | None = None


class Count(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityStatsGetRequest``; always of the present. A model without a name is any model."""

    model: ModelSpec | None = None
    point_in_time: Instant | None = None

    @property
    def spec(self) -> ModelSpec | None:
        """The model, None for all of them."""
        return self.model if self.model and self.model.name else None


class CountByState(Count, frozen=True, kw_only=True):
    """``EntityStatsByStateGetRequest``"""

    states: tuple[Text, ...] | None = None


class Changes(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityChangesMetadataGetRequest``"""

    entity_id: Text | None
    point_in_time: Instant | None = None


async def get(runtime: Runtime, caller: Caller, request: Get) -> Outcome:
    """An entity as it is, or as it was."""
    entity_id, instant = existing_id(request.entity_id), request.point_in_time
    if instant is None:
        entity = await entities.read(runtime, caller, entity_id)
    else:
        entity = await entities.read_at(runtime, caller, entity_id, instant.micros)
    definition = await entities.governing_definition(runtime, caller, entity)
    return one(entity_response(entity, definition.stored.key))


async def get_all(runtime: Runtime, caller: Caller, request: GetAll) -> Outcome:
    """A page of a model's entities."""
    size, number = request.page_size or 0, request.page_number or 0
    if size > entities.MAX_PAGE_SIZE:
        raise BadRequest(f"pageSize exceeds maximum {entities.MAX_PAGE_SIZE}")
    check_page_number(number)
    key = (request.model or NO_MODEL).key
    found = await entities.page(runtime, caller, key, Cut(size=size if size > 0 else DEFAULT_PAGE_SIZE, number=number))
    return Outcome(entity_response(entity, key) for entity in found)


async def find(runtime: Runtime, caller: Caller, request: Find) -> Outcome:
    """Everything that matches."""
    wanted = _search(runtime, request)
    limit = search.check_limit(search.DEFAULT_LIMIT if request.limit is None else request.limit)
    tracking = bool(request.tracking_read)
    found = await search.direct(runtime, caller, wanted, limit=limit, tracking=tracking)
    return Outcome(entity_response(entity, wanted.key) for entity in found)


async def submit(runtime: Runtime, caller: Caller, request: Asked) -> Outcome:
    """Begin a search in the background."""
    job = await search_jobs.submit(runtime, caller, _search(runtime, request))
    return one(EntitySnapshotSearchResponse(status=SnapshotStatus(snapshot_id=job, status="RUNNING", entities_count=0)))


async def status(runtime: Runtime, caller: Caller, request: OfSnapshot) -> Outcome:
    """How a search in the background is doing."""
    job = await search_jobs.find(runtime, caller, request.job)
    return one(
        EntitySnapshotSearchResponse(
            status=SnapshotStatus(snapshot_id=job.id, status=job.status, entities_count=job.hits)
        )
    )


async def cancel(runtime: Runtime, caller: Caller, request: OfSnapshot) -> Outcome:
    """End a search that runs; one that has ended before stays what it is, which is no failure here."""
    with suppress(SearchJobAlreadyTerminal):
        await search_jobs.cancel(runtime, caller, request.job)
    return await status(runtime, caller, request)


async def results(runtime: Runtime, caller: Caller, request: GetSnapshot) -> Outcome:
    """A page of what a search in the background has found."""
    size = DEFAULT_SNAPSHOT_PAGE_SIZE if request.page_size is None else request.page_size
    if size < 0:
        raise BadRequest("invalid pageSize")
    page = await search_jobs.page(runtime, caller, request.job, size=size, number=request.page_number or 0)
    return Outcome(entity_response(entity, page.key) for entity in page.entities)


async def count(runtime: Runtime, caller: Caller, request: Count) -> Outcome:
    """How many entities a model has, or every model."""
    spec = request.spec
    if spec is not None:
        return one(count_response(await statistics.count(runtime, caller, spec.key)))
    return Outcome(map(count_response, await statistics.counts(runtime, caller)))


async def count_by_state(runtime: Runtime, caller: Caller, request: CountByState) -> Outcome:
    """How many entities a model, or every model, has in each state."""
    key = request.spec.key if request.spec else None
    counts = await statistics.counts_by_state(runtime, caller, key=key, states=request.states or ())
    return Outcome(map(state_count_response, counts))


async def changes(runtime: Runtime, caller: Caller, request: Changes) -> Outcome:
    """The versions of an entity, newest first."""
    until = request.point_in_time.micros if request.point_in_time else None
    history = await entities.changes(runtime, caller, existing_id(request.entity_id), until=until)
    return Outcome(map(change_response, history))


def check_page_number(number: int) -> None:
    """Raises ``BadRequest``."""
    if number < 0:
        raise BadRequest("invalid pageNumber")
    if number > entities.MAX_PAGE_NUMBER:
        raise BadRequest(f"pageNumber exceeds maximum {entities.MAX_PAGE_NUMBER}")


def _search(runtime: Runtime, request: Asked) -> Search:
    """What is looked for. Raises :class:`CallRefused` for what is no condition, then the failures of sort keys."""
    question = _question(request.condition)
    sort = tuple(order.key for order in request.order_by or ())
    if len(sort) > runtime.max_sort_keys:
        raise BadRequest(f"too many sort keys: {len(sort)} exceeds maximum {runtime.max_sort_keys}")
    check_keys(sort, most=runtime.max_sort_keys)
    instant = request.point_in_time.micros if request.point_in_time else None
    return Search(key=(request.model or NO_MODEL).key, question=question, sort=sort, instant=instant)


def _question(raw: Raw) -> Condition | Shaped:
    try:
        return question_of(decode(bytes(raw)))
    except (MalformedJson, MalformedCondition) as malformed:
        raise CallRefused(f"invalid condition: {malformed}") from malformed


NOT_FOUND: Final = EntityResponse()
NO_SNAPSHOT: Final = EntitySnapshotSearchResponse()

ENTITY_SEARCH: Final = Rpc(
    kind="search",
    operations={
        "EntityGetRequest": operation(Get, get, failing=always(NOT_FOUND)),
        "EntitySnapshotSearchRequest": operation(Asked, submit, failing=always(NO_SNAPSHOT)),
        "SnapshotGetStatusRequest": operation(OfSnapshot, status, failing=always(NO_SNAPSHOT)),
        "SnapshotCancelRequest": operation(OfSnapshot, cancel, failing=always(NO_SNAPSHOT)),
    },
    unjoined=NOT_FOUND,
)

ENTITY_SEARCH_COLLECTION: Final = Rpc(
    kind="search collection",
    operations={
        "EntityGetAllRequest": operation(GetAll, get_all, failing=always(NOT_FOUND)),
        "EntitySearchRequest": operation(Find, find, failing=always(NOT_FOUND)),
        "SnapshotGetRequest": operation(GetSnapshot, results, failing=always(NOT_FOUND)),
        "EntityStatsGetRequest": operation(Count, count, failing=always(EntityStatsResponse())),
        "EntityStatsByStateGetRequest": operation(
            CountByState, count_by_state, failing=always(EntityStatsByStateResponse())
        ),
        "EntityChangesMetadataGetRequest": operation(Changes, changes, failing=always(EntityChangesMetadataResponse())),
    },
    unjoined=NOT_FOUND,
)

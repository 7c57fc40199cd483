"""Reading and searching over gRPC (docs/reference/grpc.md#entitysearch,
docs/reference/grpc.md#entitysearchcollection; docs/reference/search.md#searching-over-cloudevents).
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Final, Literal

from msgspec import Raw, Struct

from statewright.api.grpc.envelope import read_by_size
from statewright.api.grpc.handlers import InvalidCall, RpcMethod, build_operation
from statewright.api.grpc.payloads import (
    EntityChangesMetadataResponse,
    EntityResponse,
    EntitySnapshotSearchResponse,
    EntityStatsByStateResponse,
    EntityStatsResponse,
    Instant,
    Int64,
    ModelRequest,
    ModelSpec,
    Outcome,
    Payload,
    Response,
    SnapshotStatus,
    Text,
    change_response,
    count_response,
    entity_response,
    parse_uuid,
    read_entity_id,
    single_response,
    state_count_response,
)
from statewright.conditions import MalformedCondition, SearchCondition, SortKey, check_keys, read_search_condition
from statewright.entity import EntityView, ModelKey, OffsetPage
from statewright.failures import BadRequest, InvalidParameter, SearchJobAlreadyTerminal, SearchJobNotFound
from statewright.ids import TransactionId
from statewright.jsonval.codec import MalformedJson, decode
from statewright.operations.listings import JobId
from statewright.services import entities, search, statistics
from statewright.services.core import Caller
from statewright.services.runtime import Runtime
from statewright.services.search import Search

DEFAULT_PAGE_SIZE: Final = 20
DEFAULT_SNAPSHOT_PAGE_SIZE: Final = 10


class Get(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityGetRequest``"""

    entity_id: Text | None
    point_in_time: Instant | None = None
    transaction_id: Text | None = None


class GetAll(ModelRequest, frozen=True, kw_only=True, rename="camel"):
    """``EntityGetAllRequest``; always of the present."""

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


class SnapshotSearch(ModelRequest, frozen=True, kw_only=True, rename="camel"):
    """``EntitySnapshotSearchRequest``, and what all searches are about."""

    condition: Raw
    point_in_time: Instant | None = None
    order_by: tuple[OrderBy, ...] | None = None


class DirectSearch(SnapshotSearch, frozen=True, kw_only=True, rename="camel"):
    """``EntitySearchRequest``"""

    limit: Int64 | None = None
    tracking_read: bool | None = None
    timeout_millis: Int64 | None = None


class SnapshotRequest(Payload, frozen=True, kw_only=True, rename="camel"):
    """``SnapshotGetStatusRequest`` and ``SnapshotCancelRequest``"""

    snapshot_id: Text | None

    @property
    def job(self) -> JobId:
        """The search that is meant. Raises ``SearchJobNotFound`` for a text that is no UUID."""
        job = parse_uuid(self.snapshot_id or "")
        if job is None:
            raise SearchJobNotFound(self.snapshot_id or "")
        return JobId(job)


class GetSnapshot(SnapshotRequest, frozen=True, kw_only=True, rename="camel"):
    """``SnapshotGetRequest``"""

    page_size: Int64 | None = None
    page_number: Int64 | None = None
    client_point_time: Instant | None = None


class Count(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityStatsGetRequest``. A model without a name is any model."""

    model: ModelSpec | None = None
    point_in_time: Instant | None = None

    @property
    def spec(self) -> ModelSpec | None:
        """The model, None for all of them."""
        return self.model if self.model and self.model.name else None

    @property
    def instant(self) -> int | None:
        """The instant to look at in epoch microseconds, None for the present."""
        return self.point_in_time.micros if self.point_in_time else None


class CountByState(Count, frozen=True, kw_only=True):
    """``EntityStatsByStateGetRequest``"""

    states: tuple[Text, ...] | None = None


class Changes(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityChangesMetadataGetRequest``"""

    entity_id: Text | None
    point_in_time: Instant | None = None
    transaction_id: Text | None = None


async def get(runtime: Runtime, caller: Caller, request: Get) -> Outcome:
    """An entity at present, at an instant of the past, or as a transaction left it."""
    entity_id, instant = read_entity_id(request.entity_id), request.point_in_time
    transaction = _read_transaction(request.transaction_id)
    if instant is not None and transaction is not None:
        raise BadRequest("pointInTime and transactionId are mutually exclusive")
    if transaction is not None:
        entity = await entities.read_by_transaction(runtime.core, caller, entity_id, transaction)
    elif instant is None:
        entity = await entities.read(runtime.core, caller, entity_id)
    else:
        entity = await entities.read_at(runtime.core, caller, entity_id, instant.micros)
    definition = await entities.get_governing_definition(runtime.core, caller, entity)
    return single_response(entity_response(entity, definition.stored.key))


async def get_all(runtime: Runtime, caller: Caller, request: GetAll) -> Outcome:
    """A page of a model's entities."""
    size, number = request.page_size or 0, request.page_number or 0
    if size > entities.MAX_PAGE_SIZE:
        raise BadRequest(f"pageSize exceeds maximum {entities.MAX_PAGE_SIZE}")
    check_page_number(number)
    key = request.key
    page = OffsetPage(size=size if size > 0 else DEFAULT_PAGE_SIZE, number=number)
    return Outcome(_respond_with_entities(entities.list_portions(runtime.core, caller, key, page), key))


async def find(runtime: Runtime, caller: Caller, request: DirectSearch) -> Outcome:
    """Search directly: all matching entities."""
    asked = await _read_search(runtime, request)
    limit = search.check_limit(search.DEFAULT_LIMIT if request.limit is None else request.limit)
    tracking = bool(request.tracking_read)
    found = await search.run_direct_search(runtime.core, caller, asked, limit=limit, tracking=tracking)
    return Outcome(_respond_with_entities(found.take_portions(), asked.key))


async def submit(runtime: Runtime, caller: Caller, request: SnapshotSearch) -> Outcome:
    """Begin a search in the background."""
    job = await search.submit(runtime.core, caller, await _read_search(runtime, request))
    return single_response(
        EntitySnapshotSearchResponse(status=SnapshotStatus(snapshot_id=job, status="RUNNING", entities_count=0))
    )


async def get_status(runtime: Runtime, caller: Caller, request: SnapshotRequest) -> Outcome:
    """The status of a search in the background."""
    job = await search.find(runtime.core, caller, request.job)
    return single_response(
        EntitySnapshotSearchResponse(
            status=SnapshotStatus(snapshot_id=job.id, status=job.status, entities_count=job.hits)
        )
    )


async def cancel(runtime: Runtime, caller: Caller, request: SnapshotRequest) -> Outcome:
    """End a search that runs; one that has ended before stays what it is, which is no failure here."""
    with suppress(SearchJobAlreadyTerminal):
        await search.cancel(runtime.core, caller, request.job)
    return await get_status(runtime, caller, request)


async def get_results(runtime: Runtime, caller: Caller, request: GetSnapshot) -> Outcome:
    """A page of what a search in the background has found."""
    size = DEFAULT_SNAPSHOT_PAGE_SIZE if request.page_size is None else request.page_size
    if size < 0:
        raise BadRequest("invalid pageSize")
    page = await search.read_page(runtime.core, caller, request.job, size=size, number=request.page_number or 0)
    return Outcome(_respond_with_entities(page.found.take_portions(), page.key))


async def _respond_with_entities(
    portions: AsyncGenerator[Sequence[EntityView]], key: ModelKey
) -> AsyncGenerator[Response]:
    """A response for each entity of a model, made when the client takes it."""
    async with aclosing(portions):
        async for portion in portions:
            for entity in portion:
                yield entity_response(entity, key)


async def count(runtime: Runtime, caller: Caller, request: Count) -> Outcome:
    """How many entities a model has, or every model."""
    spec, instant = request.spec, request.instant
    if spec is not None:
        return single_response(
            count_response(await statistics.count_model(runtime.core, caller, spec.key, instant=instant))
        )
    return Outcome(map(count_response, await statistics.count_models(runtime.core, caller, instant=instant)))


async def count_by_state(runtime: Runtime, caller: Caller, request: CountByState) -> Outcome:
    """How many entities a model, or every model, has in each state."""
    key = request.spec.key if request.spec else None
    counts = await statistics.count_by_state(
        runtime.core, caller, key=key, states=request.states or (), instant=request.instant
    )
    return Outcome(map(state_count_response, counts))


async def list_changes(runtime: Runtime, caller: Caller, request: Changes) -> Outcome:
    """The versions of an entity, newest first; those of a run, when its transaction is named."""
    until = request.point_in_time.micros if request.point_in_time else None
    history = await entities.list_changes(
        runtime.core,
        caller,
        read_entity_id(request.entity_id),
        until=until,
        transaction=_read_transaction(request.transaction_id),
    )
    return Outcome(map(change_response, history))


def _read_transaction(text: str | None) -> TransactionId | None:
    """None for an absent or empty one. Raises ``InvalidParameter``."""
    if not text:
        return None
    found = parse_uuid(text)
    if found is None:
        raise InvalidParameter("transactionId", "not a UUID")
    return TransactionId(found)


def check_page_number(number: int) -> None:
    """Raises ``BadRequest``."""
    if number < 0:
        raise BadRequest("invalid pageNumber")
    if number > entities.MAX_PAGE_NUMBER:
        raise BadRequest(f"pageNumber exceeds maximum {entities.MAX_PAGE_NUMBER}")


async def _read_search(runtime: Runtime, request: SnapshotSearch) -> Search:
    """The search that a request describes. Raises :class:`InvalidCall` for what is no condition, then the failures of
    sort keys.
    """
    condition = await read_by_size(bytes(request.condition), _read_condition)
    sort = tuple(order.key for order in request.order_by or ())
    if len(sort) > runtime.core.max_sort_keys:
        raise BadRequest(f"too many sort keys: {len(sort)} exceeds maximum {runtime.core.max_sort_keys}")
    check_keys(sort, max_keys=runtime.core.max_sort_keys)
    instant = request.point_in_time.micros if request.point_in_time else None
    return Search(key=request.key, condition=condition, sort=sort, instant=instant)


def _read_condition(raw: bytes) -> SearchCondition:
    try:
        return read_search_condition(decode(raw))
    except (MalformedJson, MalformedCondition) as malformed:
        raise InvalidCall(f"invalid condition: {malformed}") from malformed


NOT_FOUND: Final = EntityResponse()
NO_SNAPSHOT: Final = EntitySnapshotSearchResponse()

ENTITY_SEARCH: Final = RpcMethod(
    kind="search",
    operations={
        "EntityGetRequest": build_operation(Get, get, failing=NOT_FOUND),
        "EntitySnapshotSearchRequest": build_operation(SnapshotSearch, submit, failing=NO_SNAPSHOT),
        "SnapshotGetStatusRequest": build_operation(SnapshotRequest, get_status, failing=NO_SNAPSHOT),
        "SnapshotCancelRequest": build_operation(SnapshotRequest, cancel, failing=NO_SNAPSHOT, is_change=True),
    },
    unjoined=NOT_FOUND,
)

ENTITY_SEARCH_COLLECTION: Final = RpcMethod(
    kind="search collection",
    operations={
        "EntityGetAllRequest": build_operation(GetAll, get_all, failing=NOT_FOUND),
        "EntitySearchRequest": build_operation(DirectSearch, find, failing=NOT_FOUND),
        "SnapshotGetRequest": build_operation(GetSnapshot, get_results, failing=NOT_FOUND),
        "EntityStatsGetRequest": build_operation(Count, count, failing=EntityStatsResponse()),
        "EntityStatsByStateGetRequest": build_operation(
            CountByState, count_by_state, failing=EntityStatsByStateResponse()
        ),
        "EntityChangesMetadataGetRequest": build_operation(
            Changes, list_changes, failing=EntityChangesMetadataResponse()
        ),
    },
    unjoined=NOT_FOUND,
)

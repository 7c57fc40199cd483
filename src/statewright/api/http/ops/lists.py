"""Pages of lists: how they are asked for and what they look like (docs/reference/operations.md#lists).

Changes of entities as clients read them (docs/reference/operations.md#changes).

Events of runs as clients read them (docs/reference/operations.md#events-of-runs).

Transactions as clients read them (docs/reference/operations.md#transactions).

Nodes as clients read them (docs/reference/operations.md#nodes).

Messages and search jobs as clients list them (docs/reference/operations.md#messages-and-search-jobs).

Idle entities as clients read them (docs/reference/operations.md#idle-entities).

Searching page by page, counting, estimating for clients (docs/reference/operations.md#searching-page-by-page).

Counts of instances as clients read them (docs/reference/operations.md#counts-of-instances).

How much was written in the last hour, as clients read it (docs/reference/operations.md#rates).

SettingList as administrators read them (docs/reference/operations.md#settings).

The audit trail of operators (docs/reference/operations.md#audit).
"""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeVar, get_args

import msgspec

from statewright.api.http.ops.route import OpsRoute, serve
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Framing, Response, encode_json, respond_with_envelopes
from statewright.api.http.search import read_sort
from statewright.failures import InvalidParameter
from statewright.ids import TransactionId, ulid_to_uuid
from statewright.operations.history import ChangedEntities
from statewright.operations.listings import IdleEntities, JobStatus, MatchCount
from statewright.operations.records import DEFAULT_LIMIT, MAX_COUNT, MAX_LIMIT, Listed
from statewright.operations.service import ActFilter, ActKey, SettingList
from statewright.operations.table import (
    COUNT_INSTANCES,
    COUNT_MATCHING_ENTITIES,
    COUNT_STEPS,
    LIST_CHANGES,
    LIST_EVENTS,
    LIST_IDLE_ENTITIES,
    LIST_MESSAGES,
    LIST_MODEL_ESTIMATES,
    LIST_NODES,
    LIST_OPERATOR_ACTS,
    LIST_SEARCH_JOBS,
    LIST_SETTINGS,
    LIST_WRITTEN_ENTITIES,
    SEARCH_ENTITY_PAGES,
    SHOW_RATES,
    ApiOperation,
)
from statewright.services.core import Caller, Core
from statewright.services.ops import audit, lists, searches
from statewright.services.ops.lists import (
    ChangeFilter,
    ChangeKey,
    EventKey,
    MessageKey,
    NodeKey,
    Page,
    PageRequest,
    ScanKey,
    SearchJobKey,
    TransactionKey,
)
from statewright.services.ops.searches import EntityKey, NameVersionKey
from statewright.services.search import Search, read_condition

Item = TypeVar("Item")
Key = TypeVar("Key")

_encode = msgspec.json.Encoder().encode


def read_page_request(
    request: Request, operation: ApiOperation[object], key: type[Key], *, body: bytes = b""
) -> PageRequest[Key]:
    """The page that a request asks for; ``key`` is the type of the keys of the list, a tuple of scalars. ``body`` is
    what else says which rows are wanted.

    Raises ``InvalidParameter``, also for a cursor of another tenant, of other filters, or of ours that is damaged.
    """
    size = request.query_int32("limit", DEFAULT_LIMIT)
    if not 1 <= size <= MAX_LIMIT:
        raise InvalidParameter("limit")
    cursor = request.query("cursor")
    after = None if cursor is None else _read_cursor(cursor, _digest(request, operation, body), key)
    return PageRequest(size=size, after=after, counts=request.query_flag("count"))


def build_list_response(
    request: Request,
    operation: ApiOperation[object],
    page: Page[Item, Key],
    describe: Callable[[Item], object] | None = None,
) -> Response:
    """A page as clients get it."""
    total = page.total
    found = Listed(
        items=[*map(describe, page.items)] if describe else page.items,
        next_cursor=None if page.last_key is None else build_cursor(request, operation, page.last_key),
        total=None if total is None else min(total, MAX_COUNT),
        total_is_lower_bound=total is not None and total > MAX_COUNT,
    )
    return Response(encode_json(found))


def serve_list(
    operation: ApiOperation[object],
    key: type[Key],
    list_page: Callable[[Core, Caller, PageRequest[Key]], Awaitable[Page[Item, Key]]],
) -> OpsRoute:
    """The route of a list of all there is."""

    async def list_items(request: Request) -> Response:
        page = read_page_request(request, operation, key)
        return build_list_response(request, operation, await list_page(request.runtime.core, request.caller, page))

    return serve(operation)(list_items)


def build_cursor(request: Request, operation: ApiOperation[object], last_key: object, *, body: bytes = b"") -> str:
    """What the next page is asked for with: behind the row with this key, of the same list."""
    return urlsafe_b64encode(_encode([_digest(request, operation, body), last_key])).decode().rstrip("=")


def _read_cursor(cursor: str, digest: str, key: type[Key]) -> Key:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        given, after = msgspec.json.decode(urlsafe_b64decode(padded), type=tuple[str, msgspec.Raw])
        if given != digest:
            raise InvalidParameter("cursor")
        return msgspec.json.decode(after, type=key)
    except ValueError as damaged:
        raise InvalidParameter("cursor") from damaged


def _digest(request: Request, operation: ApiOperation[object], body: bytes) -> str:
    """Of whose list it is and which of its rows are wanted: a cursor goes with these."""
    given = [[query.name, *sorted(request.query_all(query.name))] for query in operation.filters]
    content = _encode([request.principal.tenant, request.path_params, given])
    return hashlib.sha256(content + body).hexdigest()[:16]


@serve(LIST_CHANGES)
async def list_changes(request: Request) -> Response:
    """What was done to the entities of the tenant, the newest first."""
    wanted = ChangeFilter(
        model=request.query("model"),
        actor=request.query("actor"),
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, LIST_CHANGES, ChangeKey)
    scan = await lists.find_changes(request.runtime.core, request.caller, wanted, page)
    cursor = None if scan.position is None else build_cursor(request, LIST_CHANGES, scan.position)
    return Response(encode_json(ChangedEntities(items=scan.found, scanned=scan.scanned, next_cursor=cursor)))


@serve(LIST_EVENTS)
async def list_events(request: Request) -> Response:
    """The events of an entity, those of the newest run first."""
    transaction = request.query_transaction("transactionId")
    page = read_page_request(request, LIST_EVENTS, EventKey)
    found = await lists.list_events(
        request.runtime.core, request.caller, request.entity_id(), page, transaction=transaction
    )
    return build_list_response(request, LIST_EVENTS, found)


@serve(LIST_WRITTEN_ENTITIES)
async def list_written_entities(request: Request) -> Response:
    """The entities that a transaction has written."""
    transaction = TransactionId(uuid_text("transactionId", request.path_params["transactionId"]))
    page = read_page_request(request, LIST_WRITTEN_ENTITIES, TransactionKey)
    found = await lists.list_written(request.runtime.core, request.caller, transaction, page)
    return build_list_response(request, LIST_WRITTEN_ENTITIES, found)


list_nodes = serve_list(LIST_NODES, NodeKey, lists.list_nodes)

STATUSES: Final[tuple[str, ...]] = get_args(JobStatus)


list_messages = serve_list(LIST_MESSAGES, MessageKey, lists.list_messages)


@serve(LIST_SEARCH_JOBS)
async def list_search_jobs(request: Request) -> Response:
    """Search jobs, the newest first."""
    statuses = request.query_all("status")
    if not {*statuses} <= {*STATUSES}:
        raise InvalidParameter("status")
    page = read_page_request(request, LIST_SEARCH_JOBS, SearchJobKey)
    found = await lists.list_search_jobs(
        request.runtime.core, request.caller, page, statuses=statuses or None, model=request.query("model")
    )
    return build_list_response(request, LIST_SEARCH_JOBS, found)


@serve(LIST_IDLE_ENTITIES)
async def list_idle_entities(request: Request) -> Response:
    """Entities in states that can still be left, those first that were written the longest time ago."""
    page = read_page_request(request, LIST_IDLE_ENTITIES, ScanKey)
    scan = await lists.find_idle_entities(request.runtime.core, request.caller, page, name=request.query("model"))
    found = IdleEntities(
        items=scan.found,
        scanned=scan.scanned,
        complete=scan.position is None and page.after is None,
        next_cursor=None if scan.position is None else build_cursor(request, LIST_IDLE_ENTITIES, scan.position),
    )
    return Response(encode_json(found))


@serve(SEARCH_ENTITY_PAGES)
async def search_entities(request: Request) -> Response:
    """A page of the entities that match, in order."""
    raw, wanted = await _read_search(request)
    bound = encode_json([request.query_all("sort")]) + raw
    page = read_page_request(request, SEARCH_ENTITY_PAGES, EntityKey, body=bound)
    found = await searches.search_page(request.runtime.core, request.caller, wanted, page)
    tail = b"]}\n"
    if found.last_key is not None:
        tail = (
            b'],"nextCursor":"%b"}\n' % build_cursor(request, SEARCH_ENTITY_PAGES, found.last_key, body=bound).encode()
        )
    framing = Framing(b'{"items":[', tail=tail)
    return await respond_with_envelopes(found.found.take_portions(), wanted.key, framing)


@serve(COUNT_MATCHING_ENTITIES)
async def count_entities(request: Request) -> Response:
    """How many entities match, up to a bound."""
    _, wanted = await _read_search(request)
    count = await searches.count_matches(request.runtime.core, request.caller, wanted, limit=MAX_COUNT + 1)
    found = MatchCount(total=min(count, MAX_COUNT), total_is_lower_bound=count > MAX_COUNT)
    return Response(encode_json(found))


list_models = serve_list(LIST_MODEL_ESTIMATES, NameVersionKey, searches.list_models)


async def _read_search(request: Request) -> tuple[bytes, Search]:
    """The body, and the search."""
    instant, key = request.query_instant("pointInTime"), request.model_key()
    raw, condition = await request.read(lambda raw: (raw, read_condition(raw)))
    return raw, Search(key=key, condition=condition, sort=read_sort(request), instant=instant)


@serve(COUNT_INSTANCES)
async def count_instances(request: Request) -> Response:
    """How many instances there are by definition and status."""
    found = await lists.count_instances(
        request.runtime.core,
        request.caller,
        language=_read(request, "language"),
        definition_id=_read(request, "definitionId"),
    )
    return Response(encode_json(found))


@serve(COUNT_STEPS)
async def count_steps(request: Request) -> Response:
    """How many executions are under way by step."""
    language, definition_id = _read(request, "language"), _read(request, "definitionId")
    if not language or not definition_id:
        raise InvalidParameter("definitionId" if language else "language")
    found = await lists.count_steps(
        request.runtime.core, request.caller, language=language, definition_id=definition_id
    )
    return Response(encode_json(found))


def _read(request: Request, name: str) -> str | None:
    text = request.query(name)
    if text is not None and "\0" in text:
        raise InvalidParameter(name)
    return text


@serve(SHOW_RATES)
async def show_rates(request: Request) -> Response:
    """What the tenant has written in each minute of the last hour."""
    return Response(encode_json(await audit.show_rates(request.runtime.operations.rates, request.caller)))


@serve(LIST_SETTINGS)
async def list_settings(request: Request) -> Response:
    """What the node that answers runs with."""
    return Response(encode_json(SettingList(items=tuple(audit.list_settings(request.runtime.operations.settings)))))


@serve(LIST_OPERATOR_ACTS)
async def list_acts(request: Request) -> Response:
    """What operators have done, newest first."""
    wanted = ActFilter(
        actions=request.query_all("action") or None,
        actors=request.query_all("actor") or None,
        target_kinds=request.query_all("targetKind") or None,
        target_ids=tuple(_list_forms(request.query_all("targetId"))) or None,
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, LIST_OPERATOR_ACTS, ActKey)
    found = await audit.list_acts(request.runtime.core, request.caller, wanted, page)
    return build_list_response(request, LIST_OPERATOR_ACTS, found)


def _list_forms(ids: Iterable[str]) -> Iterator[str]:
    """The ids of targets; those that are ULIDs also as the UUIDs under which entities are recorded."""
    for id_ in ids:
        yield id_
        if uuid := ulid_to_uuid(id_):
            yield uuid

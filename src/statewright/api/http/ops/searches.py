"""Searching page by page, counting, estimating for clients (docs/reference/operations.md#searching-page-by-page)."""

from functools import partial
from typing import Final

from statewright.api.http.ops.lists import PAGING, build_cursor, build_list_response, read_page_request
from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Framing, Response, encode_json, respond_with_envelopes
from statewright.api.http.router import POINT_IN_TIME
from statewright.api.http.search import SORT, SUBMIT_PROBLEMS, read_sort
from statewright.background import run_by_size
from statewright.services.ops import searches
from statewright.services.ops.lists import MAX_COUNT
from statewright.services.ops.searches import EntityKey, EstimatedCount, NameVersionKey
from statewright.services.search import Search, read_condition

LISTING: Final = tuple(query for query in PAGING if query.name != "count")
FILTERS: Final = (POINT_IN_TIME,)

_BASE: Final = "/ops/v1/models/{entityName}/{modelVersion}/entities"


async def search_entities(request: Request) -> Response:
    """A page of the entities that match, in order."""
    raw, wanted = await _read_search(request)
    bound = encode_json([request.query_all("sort")]) + raw
    page = read_page_request(request, FILTERS, EntityKey, body=bound)
    found = await searches.search_page(request.runtime, request.caller, wanted, page)
    tail = b"]}\n"
    if found.last_key is not None:
        tail = b'],"nextCursor":"%b"}\n' % build_cursor(request, FILTERS, found.last_key, body=bound).encode()
    framing = Framing(b'{"items":[', tail=tail)
    return await respond_with_envelopes(found.found.take_portions(), wanted.key, framing)


async def count_entities(request: Request) -> Response:
    """How many entities match, up to a bound."""
    _, wanted = await _read_search(request)
    count = await searches.count_matches(request.runtime, request.caller, wanted, limit=MAX_COUNT + 1)
    body: dict[str, object] = {"total": min(count, MAX_COUNT)}
    return Response(encode_json(body | {"totalIsLowerBound": True} if count > MAX_COUNT else body))


async def list_models(request: Request) -> Response:
    """The models, with about how many entities each has."""
    page = read_page_request(request, (), NameVersionKey)
    found = await searches.list_models(request.runtime, request.caller, page)
    return build_list_response(request, (), found, _describe_model)


async def _read_search(request: Request) -> tuple[bytes, Search]:
    """The body, and the search."""
    instant, key = request.query_instant("pointInTime"), request.model_key()
    raw = await request.body()
    condition = await run_by_size(len(raw), partial(read_condition, raw))
    return raw, Search(key=key, condition=condition, sort=read_sort(request), instant=instant)


def _describe_model(found: EstimatedCount) -> dict[str, object]:
    return {"name": found.key.name, "version": found.key.version, "estimatedEntities": found.estimate}


SEARCHES: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/models",
        endpoint=list_models,
        id="listModelEstimates",
        summary="The models by name and version, with about how many entities each has",
        query=LISTING,
        reply="OpsModels",
        problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    ),
    OpsRoute(
        method="POST",
        path=f"{_BASE}/search",
        endpoint=search_entities,
        recording="nothing",
        is_read=True,
        id="searchEntityPages",
        summary="Find entities page by page, in order",
        query=(*FILTERS, SORT, *LISTING),
        body="Condition",
        reply="OpsEntities",
        problems=(*SUBMIT_PROBLEMS, "HISTORY_PRUNED", "SCAN_BUDGET_EXHAUSTED", "SEARCH_SHARD_TIMEOUT"),
    ),
    OpsRoute(
        method="POST",
        path=f"{_BASE}/count",
        endpoint=count_entities,
        recording="nothing",
        is_read=True,
        id="countMatchingEntities",
        summary="How many entities match, exact to 10000, in two seconds at most",
        query=FILTERS,
        body="Condition",
        reply="OpsTotal",
        problems=(*SUBMIT_PROBLEMS, "HISTORY_PRUNED", "SCAN_BUDGET_EXHAUSTED", "SEARCH_SHARD_TIMEOUT"),
    ),
)

"""What is stored, as clients read it: messages and search jobs
(docs/reference/operations.md#messages-and-search-jobs), idle entities (docs/reference/operations.md#idle-entities),
searching page by page, counting, estimating (docs/reference/operations.md#searching-page-by-page), and counts of
instances (docs/reference/operations.md#counts-of-instances).
"""

from typing import get_args

from statewright.api.http.ops.paging import (
    build_cursor,
    build_list_response,
    read_page_request,
    read_words,
    serve_list,
)
from statewright.api.http.ops.route import serve
from statewright.api.http.request import Request
from statewright.api.http.response import Framing, Response, encode_json, respond_with_envelopes
from statewright.api.http.search import read_sort
from statewright.failures import InvalidParameter
from statewright.operations.listings import IdleEntities, JobStatus, MatchCount
from statewright.operations.records import MAX_COUNT
from statewright.operations.table import (
    COUNT_INSTANCES,
    COUNT_MATCHING_ENTITIES,
    COUNT_STEPS,
    FIND_BY_UNIQUE_KEY,
    LIST_IDLE_ENTITIES,
    LIST_MESSAGES,
    LIST_MODEL_ESTIMATES,
    LIST_SEARCH_JOBS,
    SEARCH_ENTITY_PAGES,
)
from statewright.services.ops import listings
from statewright.services.ops.listings import (
    EntityKey,
    MessageKey,
    NameVersionKey,
    ScanKey,
    SearchJobKey,
    UniqueKeyHitKey,
)
from statewright.services.search import Search, read_condition

list_messages = serve_list(LIST_MESSAGES, MessageKey, listings.list_messages)


@serve(LIST_SEARCH_JOBS)
async def list_search_jobs(request: Request) -> Response:
    """Search jobs, the newest first."""
    statuses = read_words(request, "status", get_args(JobStatus))
    page = read_page_request(request, LIST_SEARCH_JOBS, SearchJobKey)
    found = await listings.list_search_jobs(
        request.runtime.core, request.caller, page, statuses=statuses, model=request.query("model")
    )
    return build_list_response(request, LIST_SEARCH_JOBS, found)


@serve(LIST_IDLE_ENTITIES)
async def list_idle_entities(request: Request) -> Response:
    """Entities in states that can still be left, those first that were written the longest time ago."""
    page = read_page_request(request, LIST_IDLE_ENTITIES, ScanKey)
    scan = await listings.find_idle_entities(request.runtime.core, request.caller, page, name=request.query("model"))
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
    found = await listings.search_page(request.runtime.core, request.caller, wanted, page)
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
    count = await listings.count_matches(request.runtime.core, request.caller, wanted, limit=MAX_COUNT + 1)
    found = MatchCount(total=min(count, MAX_COUNT), total_is_lower_bound=count > MAX_COUNT)
    return Response(encode_json(found))


@serve(FIND_BY_UNIQUE_KEY)
async def find_by_unique_key(request: Request) -> Response:
    """The entities that have a value as a unique key."""
    page = read_page_request(request, FIND_BY_UNIQUE_KEY, UniqueKeyHitKey)
    value = request.path_params["value"]
    found = await listings.find_by_unique_key(request.runtime.core, request.caller, page, value)
    return build_list_response(request, FIND_BY_UNIQUE_KEY, found)


list_models = serve_list(LIST_MODEL_ESTIMATES, NameVersionKey, listings.list_models)


async def _read_search(request: Request) -> tuple[bytes, Search]:
    """The body, and the search."""
    instant, key = request.query_instant("pointInTime"), request.model_key()
    raw, condition = await request.read(lambda raw: (raw, read_condition(raw)))
    return raw, Search(key=key, condition=condition, sort=read_sort(request), instant=instant)


@serve(COUNT_INSTANCES)
async def count_instances(request: Request) -> Response:
    """How many instances there are by definition and status."""
    found = await listings.count_instances(
        request.runtime.core,
        request.caller,
        language=request.query("language"),
        definition_id=request.query("definitionId"),
    )
    return Response(encode_json(found))


@serve(COUNT_STEPS)
async def count_steps(request: Request) -> Response:
    """How many executions are under way by step."""
    language, definition_id = request.query("language"), request.query("definitionId")
    if not language or not definition_id:
        raise InvalidParameter("definitionId" if language else "language")
    found = await listings.count_steps(
        request.runtime.core, request.caller, language=language, definition_id=definition_id
    )
    return Response(encode_json(found))

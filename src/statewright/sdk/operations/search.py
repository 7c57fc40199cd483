"""Searches, at once and as jobs whose results are kept (docs/reference/search.md).

Counts and grouped statistics of entities (docs/reference/entities.md#counts).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.conditions import Condition, to_condition
from statewright.sdk.errors import SearchFailed
from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    Instant,
    Operation,
    Page,
    Query,
    Script,
    ask,
    build_call,
    build_query,
    read_nothing,
    wait_for,
)
from statewright.sdk.operations.entities import MAX_MATCHES, Entity, Envelope, read_entity, to_entity
from statewright.sdk.outcomes import encode_json

RUNNING: Final = "RUNNING"
SUCCESSFUL: Final = "SUCCESSFUL"


class SearchStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a search job is doing: RUNNING, SUCCESSFUL, FAILED or CANCELLED. Times are RFC 3339 texts."""

    status: str = msgspec.field(name="searchJobStatus")
    entities_count: int = 0
    calculation_time_millis: int = 0
    create_time: str = ""
    finish_time: str = ""
    expiration_date: str = ""


def search(
    model: str,
    version: int,
    condition: Condition | Mapping[str, JsonValue],
    *,
    sort: Sequence[str] = (),
    limit: int = MAX_MATCHES,
    at: Instant | None = None,
    tracking: bool = False,
) -> Operation[list[Entity]]:
    """All entities that match, at once; more than ``limit`` of them are refused, and ``search_all`` reads them.

    ``sort`` holds keys like ``price:desc`` (docs/reference/search.md#sorting), or is one.
    ``tracking`` makes a joined transaction rely on what was found.
    """
    query = (("limit", str(limit)), *_build_sort(sort), *build_query(pointInTime=at, trackingRead=tracking or None))
    path, body = "/search/direct/{}/{}", encode_json(to_condition(condition))
    return Operation(
        build_call("search", "POST", path, model, version, query=query, body=body, only_asks=True), _read_lines
    )


def search_all(
    model: str,
    version: int,
    condition: Condition | Mapping[str, JsonValue],
    *,
    sort: Sequence[str] = (),
    at: Instant | None = None,
    size: int = MAX_PAGE_SIZE,
) -> Script[Page[Entity]]:
    """All entities that match, however many, as they were when the search began: a job whose results are read page by
    page. Raises ``SearchFailed``.
    """
    job_id = yield from ask(start(model, version, condition, sort=sort, at=at))
    yield from wait(job_id)
    return (yield from results(job_id, size=size))


def start(
    model: str,
    version: int,
    condition: Condition | Mapping[str, JsonValue],
    *,
    sort: Sequence[str] = (),
    at: Instant | None = None,
) -> Operation[str]:
    """Begin a job; its id."""
    query = (*_build_sort(sort), *build_query(pointInTime=at))
    path, body = "/search/async/{}/{}", encode_json(to_condition(condition))
    # only asks: a job too many is forgotten by the service
    call = build_call("start_search", "POST", path, model, version, query=query, body=body, only_asks=True)
    return Operation(call, msgspec.json.Decoder(str).decode)


def status(job_id: str) -> Operation[SearchStatus]:
    """How the job is doing."""
    call = build_call("search_status", "GET", "/search/async/{}/status", job_id)
    return Operation(call, msgspec.json.Decoder(SearchStatus).decode)


def wait(job_id: str) -> Script[SearchStatus]:
    """Wait for the job to be successful. Raises ``SearchFailed`` when it has failed or was cancelled."""
    found = yield from wait_for(status(job_id), lambda job: job.status != RUNNING)
    if found.status != SUCCESSFUL:
        reason = yield from ask(_get_failure(job_id))
        raise SearchFailed(job_id, found.status, reason)
    return found


def results(job_id: str, *, size: int = MAX_PAGE_SIZE, number: int = 0) -> Script[Page[Entity]]:
    """The entities that a successful job has found, in its order, from page ``number`` on."""
    query = build_query(pageSize=size, pageNumber=number)
    call = build_call("search_results", "GET", "/search/async/{}", job_id, query=query)
    found = yield from ask(Operation(call, _decode_results))
    entities = [to_entity(envelope) for envelope in found.content]
    if number + 1 >= found.page.total_pages:
        return Page(entities)
    return Page(entities, partial(results, job_id, size=size, number=number + 1))


def cancel(job_id: str) -> Operation[None]:
    """Stop a running job. One that has ended is refused."""
    return Operation(build_call("cancel_search", "PUT", "/search/async/{}/cancel", job_id), read_nothing)


def _get_failure(job_id: str) -> Operation[str]:
    call = build_call("search_failure", "GET", "/search/async/{}/failure", job_id)
    return Operation(call, lambda body: msgspec.json.decode(body, type=_Failure).reason or "")


def _build_sort(sort: Sequence[str]) -> Query:
    """One key may be given as a mere text."""
    return tuple(("sort", key) for key in ([sort] if isinstance(sort, str) else sort))


class _Failure(Struct, frozen=True):
    reason: str | None = None


class _PageInfo(Struct, frozen=True, rename="camel"):
    total_pages: int


class _Results(Struct, frozen=True):
    content: list[Envelope]
    page: _PageInfo


_decode_results = msgspec.json.Decoder(_Results).decode


def _read_lines(body: bytes) -> list[Entity]:
    return [read_entity(line) for line in body.splitlines() if line]


class Count(Struct, frozen=True, kw_only=True):
    """How many entities a model has, in one state or in all."""

    model: str = msgspec.field(name="modelName")
    model_version: int = msgspec.field(name="modelVersion")
    count: int
    state: str = ""


class Group(Struct, frozen=True, kw_only=True):
    """A group of a statistic: the values of its paths, how many entities it has, and the aggregations by alias."""

    key: dict[str, JsonValue]
    count: int
    aggregations: JsonObject


def count(model: str, version: int, *, at: Instant | None = None) -> Operation[int]:
    """The number of entities of the model."""
    query = build_query(pointInTime=at)
    return Operation(build_call("count", "GET", "/entity/stats/{}/{}", model, version, query=query), _read_count)


def count_states(
    model: str, version: int, *, states: Sequence[str] = (), at: Instant | None = None
) -> Operation[list[Count]]:
    """How many entities the model has in each state that has any, or in those named."""
    query = (*(("states", state) for state in states), *build_query(pointInTime=at))
    call = build_call("count_states", "GET", "/entity/stats/states/{}/{}", model, version, query=query)
    return Operation(call, _decode_counts)


def group(
    model: str,
    version: int,
    by: Sequence[str],
    *,
    aggregations: Sequence[Mapping[str, str]] = (),
    condition: Condition | Mapping[str, JsonValue] | None = None,
    limit: int | None = None,
) -> Operation[list[Group]]:
    """Entities grouped by ``state`` or paths; an aggregation is ``{"op": "sum", "field": "$.qty", "as": "onHand"}``
    (docs/reference/entities.md#grouped-statistics).
    """
    given: dict[str, object] = {
        "groupBy": [by] if isinstance(by, str) else list(by),
        "aggregations": [dict(each) for each in aggregations],
    }
    if condition is not None:
        given["condition"] = to_condition(condition)
    if limit is not None:
        given["limit"] = limit
    path, body = "/entity/stats/{}/{}/query", encode_json(given)
    return Operation(build_call("group", "POST", path, model, version, body=body, only_asks=True), _read_groups)


class _ModelCount(Struct, frozen=True):
    count: int


class _KeyPart(Struct, frozen=True):
    path: str
    value: msgspec.Raw


class _Group(Struct, frozen=True):
    key: tuple[_KeyPart, ...] = msgspec.field(name="groupKey")
    count: int
    aggregations: dict[str, msgspec.Raw] = {}


_decode_count = msgspec.json.Decoder(_ModelCount).decode
_decode_counts = msgspec.json.Decoder(list[Count]).decode
_decode_groups = msgspec.json.Decoder(list[_Group]).decode


def _read_count(body: bytes) -> int:
    return _decode_count(body).count


def _read_groups(body: bytes) -> list[Group]:
    return [
        Group(
            key={part.path: decode(bytes(part.value)) for part in found.key},
            count=found.count,
            aggregations={name: decode(bytes(value)) for name, value in found.aggregations.items()},
        )
        for found in _decode_groups(body)
    ]

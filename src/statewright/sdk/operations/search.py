"""Searches, at once and as jobs whose results are kept (docs/reference/search.md)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from statewright.jsonval.values import JsonValue
from statewright.sdk.conditions import Condition, to_condition
from statewright.sdk.errors import SearchFailed
from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    Call,
    Instant,
    Operation,
    Page,
    Pause,
    Query,
    Script,
    ask,
    build_model_path,
    build_query,
    quote_segment,
)
from statewright.sdk.operations.entities import MAX_MATCHES, Entity, Envelope, read_entity, to_entity
from statewright.sdk.outcomes import encode_json

RUNNING: Final = "RUNNING"
SUCCESSFUL: Final = "SUCCESSFUL"

FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 2.0
"""Seconds between two looks at a job that is not done."""


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
    call = Call(
        name="search",
        target=(model, str(version)),
        method="POST",
        path=f"/search/direct/{build_model_path(model, version)}",
        query=query,
        body=encode_json(to_condition(condition)),
        only_asks=True,
    )
    return Operation(call, _read_lines)


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
    call = Call(
        name="start_search",
        target=(model, str(version)),
        method="POST",
        path=f"/search/async/{build_model_path(model, version)}",
        query=(*_build_sort(sort), *build_query(pointInTime=at)),
        body=encode_json(to_condition(condition)),
        only_asks=True,  # a job too many is forgotten by the service
    )
    return Operation(call, msgspec.json.Decoder(str).decode)


def status(job_id: str) -> Operation[SearchStatus]:
    """How the job is doing."""
    call = Call(
        name="search_status", target=(job_id,), method="GET", path=f"/search/async/{quote_segment(job_id)}/status"
    )
    return Operation(call, msgspec.json.Decoder(SearchStatus).decode)


def wait(job_id: str) -> Script[SearchStatus]:
    """Wait for the job to be successful. Raises ``SearchFailed`` when it has failed or was cancelled."""
    pause = FIRST_PAUSE_S
    while (found := (yield from ask(status(job_id)))).status == RUNNING:
        yield Pause(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
    if found.status != SUCCESSFUL:
        reason = yield from ask(_get_failure(job_id))
        raise SearchFailed(job_id, found.status, reason)
    return found


def results(job_id: str, *, size: int = MAX_PAGE_SIZE, number: int = 0) -> Script[Page[Entity]]:
    """The entities that a successful job has found, in its order, from page ``number`` on."""
    call = Call(
        name="search_results",
        target=(job_id,),
        method="GET",
        path=f"/search/async/{quote_segment(job_id)}",
        query=build_query(pageSize=size, pageNumber=number),
    )
    found = yield from ask(Operation(call, _decode_results))
    entities = [to_entity(envelope) for envelope in found.content]
    if number + 1 >= found.page.total_pages:
        return Page(entities)
    return Page(entities, partial(results, job_id, size=size, number=number + 1))


def cancel(job_id: str) -> Operation[None]:
    """Stop a running job. One that has ended is refused."""
    call = Call(
        name="cancel_search", target=(job_id,), method="PUT", path=f"/search/async/{quote_segment(job_id)}/cancel"
    )
    return Operation(call, lambda _body: None)


def _get_failure(job_id: str) -> Operation[str]:
    call = Call(
        name="search_failure", target=(job_id,), method="GET", path=f"/search/async/{quote_segment(job_id)}/failure"
    )
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

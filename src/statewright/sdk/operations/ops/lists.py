"""What is stored: pages of searches, counts, oldest entities, messages, search jobs
(docs/reference/operations.md#searching-page-by-page).
"""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from msgspec import Struct

from statewright.jsonval.values import JsonValue
from statewright.sdk.conditions import Condition, to_condition
from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    Instant,
    Operation,
    Page,
    Script,
    ask,
    build_model_path,
    build_query,
)
from statewright.sdk.operations.entities import Entity, Envelope, to_entity
from statewright.sdk.operations.ops.answers import (
    Members,
    ModelRef,
    build_call,
    build_reader,
    read_list,
    repeat_parameter,
)

AnyCondition = Condition | Mapping[str, JsonValue]


class MatchCount(Struct, frozen=True, rename="camel"):
    """How many match; ``total_is_lower_bound``: at least so many."""

    total: int
    total_is_lower_bound: bool = False


class ModelEstimate(Struct, frozen=True, rename="camel"):
    """A model, and about how many entities it has."""

    name: str
    version: int
    estimated_entities: int


class IdleEntity(Struct, frozen=True, rename="camel", kw_only=True):
    """An entity that could move. ``since`` is when it came into its state, empty when that is too long ago to tell."""

    entity_id: str
    model: ModelRef
    state: str
    written_at: str
    since: str = ""


class ListedMessage(Struct, frozen=True, rename="camel", kw_only=True):
    """An edge message without its payload."""

    id: str
    header: Members
    created_at: str = ""


class SearchJob(Struct, frozen=True, rename="camel", kw_only=True):
    """A search whose results are kept. Times are RFC 3339 texts."""

    id: str
    model: ModelRef
    status: str
    created_at: str
    hits: int
    finished_at: str = ""
    expires_at: str = ""
    failure: str = ""
    condition: Members | None = None


class InstanceCount(Struct, frozen=True, rename="camel", kw_only=True):
    """How many instances of a definition have a status."""

    language: str
    definition_id: str
    status: str
    count: int


class InstanceCounts(Struct, frozen=True, rename="camel"):
    """Instances by definition and status; ``is_lower_bound``: there are more."""

    items: tuple[InstanceCount, ...]
    is_lower_bound: bool


class StepCount(Struct, frozen=True, rename="camel"):
    """How many executions of a step are under way."""

    step_id: str
    count: int


class StepCounts(Struct, frozen=True, rename="camel"):
    """What is under way by step; ``is_lower_bound``: there is more."""

    items: tuple[StepCount, ...]
    is_lower_bound: bool


def search(
    model: str,
    version: int,
    condition: AnyCondition,
    *,
    sort: Sequence[str] = (),
    at: Instant | None = None,
    size: int = MAX_PAGE_SIZE,
    cursor: str | None = None,
) -> Script[Page[Entity]]:
    """Entities that match, in order, read page by page as you iterate; nothing is kept in between, so entities that are
    written meanwhile may be left out, or seen as they are then. ``Client.search_all`` reads them as of one instant.
    """
    body = to_condition(condition)
    call = build_call(
        "search_pages",
        "POST",
        f"/models/{build_model_path(model, version)}/entities/search",
        target=(model, str(version)),
        query=(*repeat_parameter("sort", sort), *build_query(pointInTime=at, limit=size, cursor=cursor)),
        body=body,
        only_asks=True,
    )
    found = yield from ask(Operation(call, _decode_entities))
    entities = [to_entity(envelope) for envelope in found.items]
    if found.next_cursor is None:
        return Page(entities)
    onward = partial(search, model, version, condition, sort=sort, at=at, size=size, cursor=found.next_cursor)
    return Page(entities, onward)


def count(model: str, version: int, condition: AnyCondition, *, at: Instant | None = None) -> Operation[MatchCount]:
    """How many entities match, exact up to 10,000."""
    call = build_call(
        "count_matches",
        "POST",
        f"/models/{build_model_path(model, version)}/entities/count",
        target=(model, str(version)),
        query=build_query(pointInTime=at),
        body=to_condition(condition),
        only_asks=True,
    )
    return Operation(call, _read_count)


def models() -> Script[Page[ModelEstimate]]:
    """The models by name and version, with about how many entities each has."""
    return (yield from read_list("model_estimates", "/models", ModelEstimate, ()))


def idle(*, model: str | None = None, size: int = MAX_PAGE_SIZE) -> Script[Page[IdleEntity]]:
    """Entities that could still move and were written the longest time ago. Each page holds the oldest of those that
    one request looks at: the whole is not sorted (docs/reference/operations.md#idle-entities).
    """
    return (yield from read_list("idle_entities", "/idle-entities", IdleEntity, build_query(model=model), size=size))


def messages() -> Script[Page[ListedMessage]]:
    """Edge messages, the newest first."""
    return (yield from read_list("list_messages", "/messages", ListedMessage, ()))


def search_jobs(*, statuses: Sequence[str] = (), model: str | None = None) -> Script[Page[SearchJob]]:
    """Searches whose results are kept, the newest first."""
    query = (*repeat_parameter("status", statuses), *build_query(model=model))
    return (yield from read_list("list_search_jobs", "/search-jobs", SearchJob, query))


def count_instances(*, language: str | None = None, definition_id: str | None = None) -> Operation[InstanceCounts]:
    """How many instances there are by definition and status, of all process languages."""
    query = build_query(language=language, definitionId=definition_id)
    return Operation(build_call("count_instances", "GET", "/instance-counts", query=query), _read_instance_counts)


def count_steps(language: str, definition_id: str) -> Operation[StepCounts]:
    """How many executions of a definition are under way, by step."""
    call = build_call(
        "count_steps",
        "GET",
        "/instance-counts/steps",
        target=(definition_id,),
        query=build_query(language=language, definitionId=definition_id),
    )
    return Operation(call, _read_step_counts)


class _Entities(Struct, frozen=True, rename="camel"):
    items: list[Envelope]
    next_cursor: str | None = None


_decode_entities = msgspec.json.Decoder(_Entities).decode
_read_count = build_reader(MatchCount)
_read_instance_counts = build_reader(InstanceCounts)
_read_step_counts = build_reader(StepCounts)

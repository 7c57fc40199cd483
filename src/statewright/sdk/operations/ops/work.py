"""Who works, what waits, what is stored, and what workflows would do (docs/reference/operations.md#members).

What requests to the operations API have in common: they follow from the table of operations.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.operations import checks, listings, table
from statewright.operations.queues import MemberView, QueueView, Rates, ServiceNode
from statewright.sdk.conditions import Condition, to_condition
from statewright.sdk.exchange import Items, make_method
from statewright.sdk.operations.calls import (
    MAX_PAGE_SIZE,
    Call,
    Instant,
    Operation,
    Page,
    Query,
    Script,
    ask,
    build_key_header,
    build_query,
    quote_segment,
)
from statewright.sdk.operations.entities import Entity, Envelope, to_entity
from statewright.sdk.operations.models import ImportMode
from statewright.sdk.outcomes import encode_json

ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")
ItemT_co = TypeVar("ItemT_co", covariant=True)


Given: TypeAlias = Mapping[str, "str | int | bool | datetime | Sequence[str] | None"]
"""Query parameters; of those that are repeatable one may be given as a mere text, and none is left out."""

NO_PARAMETERS: Final[Given] = {}


class PageRecord(Protocol[ItemT_co]):
    """An answer that is a part of a list."""

    @property
    def items(self) -> Sequence[ItemT_co]: ...

    @property
    def next_cursor(self) -> str | None: ...


def build_call(
    operation: table.ApiOperation[object],
    *target: str,
    query: Given = NO_PARAMETERS,
    body: Struct | Mapping[str, object] | None = None,
    key: str | None = None,
) -> Call:
    """A request for an operation; ``target`` are the parameters of its path, ``key`` lets a write be repeated."""
    values = iter(target)
    return Call(
        name=re.sub(r"(?=[A-Z])", "_", operation.id).lower(),
        target=target,
        method=operation.method,
        path=re.sub(r"\{\w+\}", lambda _: quote_segment(next(values)), operation.path),
        query=_build_query(operation, query),
        headers=build_key_header(key),
        body=None if body is None else encode_json(body),
        at_root=True,
        only_asks=operation.is_read,
    )


def request(
    operation: table.ApiOperation[ResultT],
    *target: str,
    query: Given = NO_PARAMETERS,
    body: Struct | Mapping[str, object] | None = None,
    key: str | None = None,
) -> Operation[ResultT]:
    """A request, and how its answer is read."""
    return Operation(build_call(operation, *target, query=query, body=body, key=key), _build_reader(operation))


def read_list(
    operation: table.ApiOperation[PageRecord[ItemT]],
    *target: str,
    query: Given = NO_PARAMETERS,
    size: int = MAX_PAGE_SIZE,
    cursor: str | None = None,
) -> Script[Page[ItemT]]:
    """A list, page by page (docs/reference/operations.md#lists)."""
    asked = {**query, "limit": size, "cursor": cursor}
    found = yield from ask(request(operation, *target, query=asked))
    if found.next_cursor is None:
        return Page(found.items)
    return Page(found.items, partial(read_list, operation, *target, query=query, size=size, cursor=found.next_cursor))


def _build_query(operation: table.ApiOperation[object], given: Given) -> Query:
    """The parameters that an operation has, as the service reads them. Raises ``KeyError`` for others."""
    if unknown := given.keys() - {parameter.name for parameter in operation.query}:
        raise KeyError(*unknown)
    pairs: list[tuple[str, str]] = []
    for name, value in given.items():
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        pairs += [pair for one in values for pair in build_query(**{name: one})]
    return tuple(pairs)


def _build_reader(operation: table.ApiOperation[ResultT]) -> Callable[[bytes], ResultT]:
    """Reads an answer with exact numbers."""
    kind: Any = operation.answer  # a record, or the name of a schema that the caller reads itself
    return lambda body: msgspec.convert(decode(body), kind)


def write_duration(seconds: float) -> str:
    """Seconds in ISO 8601."""
    return f"PT{seconds:.3f}S"


def members(
    *,
    tags: Sequence[str] = (),
    kinds: Sequence[str] = (),
    nodes: Sequence[str] = (),
    stale: bool | None = None,
) -> Script[Page[MemberView]]:
    """Calculation members of all nodes, and workers, by id; ``stale`` ones were not heard of for 20 seconds."""
    return read_list(table.LIST_MEMBERS, query={"tag": tags, "kind": kinds, "node": nodes, "stale": stale})


def drain(member_id: str, *, within_s: float = 300) -> Operation[MemberView]:
    """Send a calculation member nothing any more; its stream ends when it is idle, after ``within_s`` seconds in any
    case. For operators.
    """
    return request(table.DRAIN_MEMBER, member_id, query={"within": write_duration(within_s)})


def nodes() -> Script[Page[ServiceNode]]:
    """The processes of the service that are alive, by id."""
    return read_list(table.LIST_NODES)


def queues(*, kinds: Sequence[str] = (), without_worker: bool | None = None) -> Script[Page[QueueView]]:
    """Types of jobs with unfinished jobs, and tags that callouts need; only what nobody can take ``without_worker``."""
    return read_list(table.LIST_QUEUES, query={"kind": kinds, "withoutWorker": without_worker})


def queue(kind: Literal["JOB_TYPE", "TAG"], name: str) -> Operation[QueueView]:
    """One queue; one that nobody knows is empty. The name of tags is all of them, joined by commas."""
    return request(table.GET_QUEUE if kind == "JOB_TYPE" else table.GET_CALLOUT_QUEUE, name)


def rates() -> Operation[Rates]:
    """What was written in each minute of the last hour."""
    return request(table.SHOW_RATES)


AnyCondition = Condition | Mapping[str, JsonValue]


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
    query: Given = {"sort": sort, "pointInTime": at, "limit": size, "cursor": cursor}
    call = build_call(table.SEARCH_ENTITY_PAGES, model, str(version), query=query, body=to_condition(condition))
    found = yield from ask(Operation(call, _decode_entities))
    entities = [to_entity(envelope) for envelope in found.items]
    if found.next_cursor is None:
        return Page(entities)
    onward = partial(search, model, version, condition, sort=sort, at=at, size=size, cursor=found.next_cursor)
    return Page(entities, onward)


def count(
    model: str, version: int, condition: AnyCondition, *, at: Instant | None = None
) -> Operation[listings.MatchCount]:
    """How many entities match, exact up to 10,000."""
    return request(
        table.COUNT_MATCHING_ENTITIES, model, str(version), query={"pointInTime": at}, body=to_condition(condition)
    )


def find(value: str) -> Script[Page[listings.UniqueKeyHit]]:
    """The entities of all models that have a value, a text or a number as a text, as a unique key of one field."""
    return read_list(table.FIND_BY_UNIQUE_KEY, value)


def models() -> Script[Page[listings.ModelEstimate]]:
    """The models by name and version, with about how many entities each has."""
    return read_list(table.LIST_MODEL_ESTIMATES)


def idle(*, model: str | None = None, size: int = MAX_PAGE_SIZE) -> Script[Page[listings.IdleEntity]]:
    """Entities that could still move and were written the longest time ago. Each page holds the oldest of those that
    one request looks at: the whole is not sorted (docs/reference/operations.md#idle-entities).
    """
    return read_list(table.LIST_IDLE_ENTITIES, query={"model": model}, size=size)


def messages() -> Script[Page[listings.ListedMessage]]:
    """Edge messages, the newest first."""
    return read_list(table.LIST_MESSAGES)


def search_jobs(*, statuses: Sequence[str] = (), model: str | None = None) -> Script[Page[listings.ListedSearchJob]]:
    """Searches whose results are kept, the newest first."""
    return read_list(table.LIST_SEARCH_JOBS, query={"status": statuses, "model": model})


def count_instances(
    *, language: str | None = None, definition_id: str | None = None
) -> Operation[listings.InstanceCounts]:
    """How many instances there are by definition and status, of all process languages."""
    return request(table.COUNT_INSTANCES, query={"language": language, "definitionId": definition_id})


def count_steps(language: str, definition_id: str) -> Operation[listings.StepCounts]:
    """How many executions of a definition are under way, by step."""
    return request(table.COUNT_STEPS, query={"language": language, "definitionId": definition_id})


class _Entities(Struct, frozen=True, rename="camel"):
    items: list[Envelope]
    next_cursor: str | None = None


_decode_entities = msgspec.json.Decoder(_Entities).decode


def check_workflows(
    model: str,
    version: int,
    workflows: Sequence[Mapping[str, JsonValue]] | Mapping[str, JsonValue],
    *,
    mode: ImportMode | None = None,
) -> Operation[checks.WorkflowCheck]:
    """What is wrong with workflows, what an import would change, and whom that concerns; nothing is imported. They are
    given as to ``Client.workflows.import_``.
    """
    body: dict[str, object] = {"workflows": _list_workflows(workflows)}
    if isinstance(workflows, Mapping) and "workflows" in workflows:
        body = dict(workflows)
    if mode is not None:
        body["importMode"] = mode
    return request(table.CHECK_WORKFLOWS, model, str(version), body=body)


def simulate(
    model: str,
    version: int,
    start: Mapping[str, JsonValue],
    events: Sequence[Mapping[str, JsonValue]] = (),
    *,
    stubs: Mapping[str, Mapping[str, JsonValue]] | None = None,
    workflows: Sequence[Mapping[str, JsonValue]] | None = None,
    principal: Mapping[str, JsonValue] | None = None,
    at: Instant | None = None,
) -> Operation[checks.Simulation]:
    """What would become of an entity, with stubs for members and a clock that jumps; nothing is written.

    ``start`` is ``{"document": {…}}`` or ``{"entityId": …}``; events are ``{"fire": NAME}``, ``{"loopback": {}}`` or
    ``{"advance": "PT2H"}`` (docs/reference/operations.md#simulating-workflows). Without ``workflows`` it is played by
    those of the model.
    """
    body: dict[str, object] = {"start": dict(start), "events": [dict(each) for each in events]}
    given = {"stubs": stubs, "workflows": workflows, "principal": principal}
    body |= {name: value for name, value in given.items() if value is not None} | dict(build_query(at=at))
    return request(table.SIMULATE_WORKFLOWS, model, str(version), body=body)


def _list_workflows(workflows: Sequence[Mapping[str, JsonValue]] | Mapping[str, JsonValue]) -> list[object]:
    return [workflows] if isinstance(workflows, Mapping) else list(workflows)


class WorkMethods:
    """The methods of ``Client.ops`` that are about what works, waits and is stored."""

    members = Items(members)
    drain = make_method(drain)
    queues = Items(queues)
    queue = make_method(queue)
    nodes = Items(nodes)
    rates = make_method(rates)
    search = Items(search)
    count = make_method(count)
    find = Items(find)
    models = Items(models)
    idle = Items(idle)
    messages = Items(messages)
    search_jobs = Items(search_jobs)
    count_instances = make_method(count_instances)
    count_steps = make_method(count_steps)
    check_workflows = make_method(check_workflows)
    simulate = make_method(simulate)

"""Use cases of statistics: counting entities, and grouping those of a model (docs/reference/entities.md#counts,
docs/reference/entities.md#grouped-statistics).

The request of a grouped statistic: what its body may say, and what is wrong with it
(docs/reference/entities.md#the-request-of-a-grouped-statistic).
"""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions import (
    EVERYTHING,
    CompiledSearch,
    MalformedCondition,
    check_statistics,
    compile_search,
    is_large_condition,
    parse,
)
from statewright.conditions.paths import MAX_STEPS
from statewright.entity import EntityCount, ModelKey
from statewright.failures import (
    BadRequest,
    DuplicateAggregationAlias,
    DuplicateGroupBy,
    GroupCardinalityExceeded,
    InvalidAggregationField,
    InvalidAggregationOp,
    InvalidCondition,
    InvalidGroupByPath,
    InvalidLimit,
    MalformedRequest,
    MissingGroupBy,
    ModelNotFound,
)
from statewright.ids import EntityId
from statewright.instants import from_rfc3339
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.numbers import NUMERIC_TYPES
from statewright.jsonval.values import JsonValue
from statewright.loop.background import repeat, run_in_thread
from statewright.loop.turns import use_once
from statewright.services.builtin import ModelScope
from statewright.services.core import Caller, Core
from statewright.services.definitions import ModelDefinition
from statewright.storage import entity_counts
from statewright.storage.commit.overlay import Write
from statewright.storage.pool import Pool
from statewright.storage.search import grouping
from statewright.storage.search.grouping import (
    Additions,
    EntityGroups,
    FieldPath,
    Grouping,
    Measure,
    Operation,
    Uncommitted,
)
from statewright.storage.search.matching import judge_entities
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery
from statewright.telemetry import logs

log = logs.logger(__name__)

STATE: Final = "state"
"""The word that stands for the workflow state; the document's own member is ``$.state``."""

MAX_ENTRIES: Final = 100
"""Of ``groupBy``, and of ``aggregations``: each becomes columns, of which PostgreSQL allows 1664."""

_OPERATIONS: Final[dict[str, Operation]] = {operation: operation for operation in get_args(Operation)}
_QUOTED: Final = re.compile(r"\['([^']*)'\]")
_DOTS: Final = re.compile(r"\.{2,}")


class _Aggregation(Struct, forbid_unknown_fields=True):
    op: str | None = None
    field: str | None = None
    alias: str | None = msgspec.field(default=None, name="as")


class _Body(Struct, forbid_unknown_fields=True, rename="camel"):
    group_by: list[str] | None = None
    condition: Any = None  # Any: whatever it is, parsing it as a condition is a later step with a failure of its own
    aggregations: list[_Aggregation] | None = None
    point_in_time: str | None = None
    limit: int | None = None


class GroupedQuery(Struct, frozen=True, kw_only=True):
    """What is asked for. Paths are normal: the word ``state``, or ``$.`` and member names.

    ``aggregations`` maps the names of the results to an operation and a path. ``limit`` is None when all groups are
    wanted, ``condition`` when all entities are; ``instant`` is in epoch microseconds.
    """

    group_by: tuple[str, ...]
    aggregations: dict[str, tuple[Operation, str]]
    condition: JsonValue
    instant: int | None
    limit: int | None

    def to_grouping(self, *, max_groups: int) -> Grouping:
        """The query as storage understands it; ``max_groups`` groups are wanted when it sets no limit."""
        return Grouping(
            keys=tuple(None if path == STATE else _split_path(path) for path in self.group_by),
            measures=tuple(Measure(operation, _split_path(field)) for operation, field in self.aggregations.values()),
            limit=self.limit or max_groups,
        )


def read_query(raw: bytes, *, max_limit: int) -> GroupedQuery:
    """The query in a request body, of which the failures of its members are raised in this order."""
    body = _decode_body(raw)
    instant = _parse_instant(body.point_in_time)
    return GroupedQuery(
        group_by=_read_group_by(body.group_by or []),
        aggregations=_read_aggregations(body.aggregations or []),
        condition=body.condition,
        instant=instant,
        limit=_check_limit(body.limit, max_limit),
    )


def normalize_path(text: str) -> str | None:
    """``$.`` and member names separated by single dots; None when the text is no path of a scalar."""
    if text.count(".") + text.count("[") > MAX_STEPS:
        return None
    path = _DOTS.sub(".", _QUOTED.sub(r".\1", text))
    path = "" if path == "$" else path.removeprefix("$.").removeprefix(".")
    if not path or path.endswith(".") or "[" in path or "]" in path:
        return None
    return f"$.{path}"


def _decode_body(raw: bytes) -> _Body:
    try:
        return use_once(decode(raw), lambda value: msgspec.convert(value, _Body))
    except (MalformedJson, msgspec.ValidationError) as malformed:
        raise MalformedRequest(f"invalid request body: {malformed}") from malformed


def _parse_instant(text: str | None) -> int | None:
    if text is None:
        return None
    instant = from_rfc3339(text)
    if instant is None:
        raise MalformedRequest(f"pointInTime {text!r} is no date-time")
    return instant


def _read_group_by(entries: list[str]) -> tuple[str, ...]:
    if not entries:
        raise MissingGroupBy
    _refuse_too_many(entries, "groupBy")
    paths = dict[str, None]()
    for entry in entries:
        path = STATE if entry == STATE else normalize_path(entry)
        if path is None:
            raise InvalidGroupByPath(f"groupBy entry {entry!r} is no path of a scalar")
        if path in paths:
            raise DuplicateGroupBy(f"groupBy names {path} more than once")
        paths[path] = None
    return tuple(paths)


def _read_aggregations(entries: list[_Aggregation]) -> dict[str, tuple[Operation, str]]:
    _refuse_too_many(entries, "aggregations")
    chosen = dict[str, tuple[Operation, str]]()
    for entry in entries:
        operation, field = _parse_operation(entry.op), normalize_path(entry.field or "")
        if field is None:
            raise InvalidAggregationField(f"aggregation field {entry.field!r} is no path of a scalar")
        if (operation, field) in chosen.values():  # the first name it was given counts
            continue
        alias = entry.alias or f"{operation}_{field.removeprefix('$.')}"
        if alias in chosen:
            raise DuplicateAggregationAlias(f"two aggregations would be named {alias!r}")
        chosen[alias] = (operation, field)
    return chosen


def _parse_operation(text: str | None) -> Operation:
    operation = _OPERATIONS.get(text or "")
    if operation is None:
        raise InvalidAggregationOp(f"aggregation op {text!r} is none of {', '.join(_OPERATIONS)}")
    return operation


def _check_limit(limit: int | None, max_limit: int) -> int | None:
    if limit is not None and not 1 <= limit <= max_limit:
        raise InvalidLimit(f"limit must be between 1 and {max_limit}")
    return limit


def _refuse_too_many(entries: list[Any], name: str) -> None:
    if len(entries) > MAX_ENTRIES:
        raise MalformedRequest(f"{name} has more than {MAX_ENTRIES} entries")


def _split_path(path: str) -> FieldPath:
    return tuple(path.removeprefix("$.").split("."))


MAX_STATES: Final = 1000
"""Most entries of a ``states`` filter (docs/reference/entities.md#limits)."""

_VERSION: Final = re.compile("-?(0|[1-9][0-9]{0,9})")


async def count_models(
    core: Core, caller: Caller, *, instant: int | None = None, scope: ModelScope = "own"
) -> list[EntityCount]:
    """How many entities every registered model has, zero included; or had at ``instant`` (epoch microseconds).

    Raises ``HistoryPruned``.
    """
    async with _collect_uncommitted(core, caller, instant) as uncommitted:
        found = await grouping.fetch_counts(core.search, caller.tenant, instant=instant, uncommitted=uncommitted)
    return core.builtin.select(found, lambda count: count.model, scope)


async def count_model(core: Core, caller: Caller, key: ModelKey, *, instant: int | None = None) -> EntityCount:
    """How many entities one model has, or had. Raises ``ModelNotFound``, ``HistoryPruned``."""
    model = (await core.get_definition(caller.tenant, key)).stored.id
    async with _collect_uncommitted(core, caller, instant) as uncommitted:
        found = await grouping.fetch_counts(
            core.search, caller.tenant, model=model, instant=instant, uncommitted=uncommitted
        )
    if not found:  # deleted by another process a moment ago
        raise ModelNotFound("model not found")
    return found[0]


async def count_by_state(
    core: Core,
    caller: Caller,
    *,
    key: ModelKey | None = None,
    states: Sequence[str] = (),
    instant: int | None = None,
    scope: ModelScope = "own",
) -> list[EntityCount]:
    """How many entities are, or were, in each state that has any; ``states``, when there are any, are the only ones of
    interest. A model that is named by ``key`` may be a built-in one.

    Raises ``BadRequest`` for too many states, then ``ModelNotFound``, ``HistoryPruned``.
    """
    if len(states) > MAX_STATES:
        raise BadRequest(f"states has more than {MAX_STATES} entries")
    model = None if key is None else (await core.get_definition(caller.tenant, key)).stored.id
    async with _collect_uncommitted(core, caller, instant) as uncommitted:
        found = await grouping.fetch_counts_by_state(
            core.search,
            caller.tenant,
            model=model,
            states=states or None,
            instant=instant,
            uncommitted=uncommitted,
        )
    return core.builtin.select(found, lambda count: count.model, scope if key is None else "all")


MERGE_INTERVAL: Final = timedelta(seconds=3)
"""Between two merges: what was changed in the meantime is added up by every reader."""


class CountMerger:
    """Keeps counting cheap (``storage/entity_counts.py``); every node does so."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._is_complete = False

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, MERGE_INTERVAL, log=log, failure="count_merge_failed")

    async def run_once(self) -> bool:
        """One round; whether there may be more to merge. Raises ``StorageUnavailable``."""
        self._is_complete = self._is_complete or await entity_counts.complete_counts(self._pool)
        return self._is_complete and await entity_counts.merge_changes(self._pool)


async def group_entities(
    core: Core, caller: Caller, *, name: str, version: str, query: GroupedQuery
) -> tuple[EntityGroups, tuple[str, ...]]:
    """The groups of a model's entities, and warnings about aggregations of what has no numbers.

    Raises ``ModelNotFound``, then the failures of the condition, then ``GroupCardinalityExceeded``.
    """
    definition = await _get_definition(core, caller, name, version)
    most = core.max_stats_groups
    wanted, how = await _build_query(core, definition, query), query.to_grouping(max_groups=most)
    async with _collect_staged(core, caller, wanted) as (hidden, added):
        groups = await grouping.fetch_groups(core.search, replace(wanted, without=hidden), how, added)
    if groups.total > most:
        raise GroupCardinalityExceeded(f"the query forms {groups.total} groups, {most} are allowed")
    return groups, tuple(_find_empty_aggregations(definition, query))


def _find_empty_aggregations(definition: ModelDefinition, query: GroupedQuery) -> Iterator[str]:
    """Why results will be null: what has no numbers has no sum."""
    for alias, (operation, path) in query.aggregations.items():
        field = definition.model.declared.get(path)
        if field is None or not field.types & NUMERIC_TYPES:
            found = "no such field" if field is None else f"no number ({', '.join(sorted(field.types))})"
            yield f"aggregation {alias}: {operation} needs numbers, and the model has {found} at {path}"


async def _get_definition(core: Core, caller: Caller, name: str, version: str) -> ModelDefinition:
    """The version is a text here: one that is no version number names no model
    (docs/reference/entities.md#the-request-of-a-grouped-statistic).
    """
    if not _VERSION.fullmatch(version):
        raise ModelNotFound("model not found")
    return await core.get_definition(caller.tenant, ModelKey(name, int(version)))


async def _build_query(core: Core, definition: ModelDefinition, query: GroupedQuery) -> EntityQuery:
    """The entities that are to be grouped."""
    search = EVERYTHING if query.condition is None else await _compile_condition(definition, query.condition)
    return definition.build_query(search, instant=query.instant, computations=core.computations)


async def _compile_condition(definition: ModelDefinition, raw: JsonValue) -> CompiledSearch:
    def compile_condition() -> CompiledSearch:
        condition = parse(raw)
        check_statistics(condition)
        return compile_search(condition, definition.model.declared)

    try:
        if is_large_condition(raw):
            return await run_in_thread(lambda: compile_condition().precompile(first=FIRST_ARGUMENT))
        return compile_condition()
    except MalformedCondition as malformed:
        raise InvalidCondition(f"invalid condition: {malformed}") from malformed


@asynccontextmanager
async def _collect_staged(
    core: Core, caller: Caller, wanted: EntityQuery
) -> AsyncIterator[tuple[tuple[EntityId, ...], Additions]]:
    """Which committed entities the joined transaction has replaced, and with what of those wanted.

    The past is what was committed then, also inside a transaction (docs/reference/entities.md#the-groups).
    """
    if wanted.instant is not None:
        yield (), grouping.NO_ADDITIONS
        return
    async with _collect_writes(core, caller) as writes:
        entities = [write.entity for write in writes if not write.deletes and write.entity.model == wanted.model]
        shown = [match.entity for match in await judge_entities(entities, wanted)]
        added = Additions(
            states=tuple(entity.state for entity in shown), documents=tuple(entity.document for entity in shown)
        )
        yield tuple(write.entity.id for write in writes), added


@asynccontextmanager
async def _collect_uncommitted(core: Core, caller: Caller, instant: int | None = None) -> AsyncIterator[Uncommitted]:
    """What the joined transaction has made of the entities that are counted; the past is what was committed then."""
    if instant is not None:
        yield grouping.NO_CHANGES
        return
    async with _collect_writes(core, caller) as writes:
        shown = [write.entity for write in writes if not write.deletes]
        yield Uncommitted(
            ids=tuple(write.entity.id for write in writes),
            models=tuple(entity.model for entity in shown),
            states=tuple(entity.state for entity in shown),
        )


@asynccontextmanager
async def _collect_writes(core: Core, caller: Caller) -> AsyncIterator[Sequence[Write]]:
    """What the joined transaction has written so far, if there is one; it writes nothing during the block."""
    if caller.transaction is None:
        yield ()
        return
    async with core.open_unit(caller) as unit:
        yield tuple(unit.staged.values())

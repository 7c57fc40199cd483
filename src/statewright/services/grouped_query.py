"""The request of a grouped statistic: what its body may say, and what is wrong with it
(docs/reference/entities.md#the-request-of-a-grouped-statistic).
"""

import re
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from statewright.failures import (
    DuplicateAggregationAlias,
    DuplicateGroupBy,
    InvalidAggregationField,
    InvalidAggregationOp,
    InvalidGroupByPath,
    InvalidLimit,
    MalformedRequest,
    MissingGroupBy,
)
from statewright.freeing import use_once
from statewright.instants import from_rfc3339
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue
from statewright.storage.search.grouping import FieldPath, Grouping, Measure, Operation

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
        """The query as storage understands it; ``most`` groups are wanted when it sets no limit."""
        return Grouping(
            keys=tuple(None if path == STATE else _split_path(path) for path in self.group_by),
            measures=tuple(Measure(operation, _split_path(field)) for operation, field in self.aggregations.values()),
            limit=self.limit or max_groups,
        )


def read_query(raw: bytes, *, max_limit: int) -> GroupedQuery:
    """The query in a request body; ``most`` is the highest limit. Raises the failures of its members in this order."""
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

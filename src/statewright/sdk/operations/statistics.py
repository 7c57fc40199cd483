"""Counts and grouped statistics of entities (docs/reference/entities.md#counts)."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.conditions import Condition, to_condition
from statewright.sdk.operations.calls import Call, Instant, Operation, build_model_path, build_query
from statewright.sdk.outcomes import encode_json


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
    path = f"/entity/stats/{build_model_path(model, version)}"
    query = build_query(pointInTime=at)
    return Operation(
        Call(name="count", target=(model, str(version)), method="GET", path=path, query=query), _read_count
    )


def count_states(
    model: str, version: int, *, states: Sequence[str] = (), at: Instant | None = None
) -> Operation[list[Count]]:
    """How many entities the model has in each state that has any, or in those named."""
    call = Call(
        name="count_states",
        target=(model, str(version)),
        method="GET",
        path=f"/entity/stats/states/{build_model_path(model, version)}",
        query=(*(("states", state) for state in states), *build_query(pointInTime=at)),
    )
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
    call = Call(
        name="group",
        target=(model, str(version)),
        method="POST",
        path=f"/entity/stats/{build_model_path(model, version)}/query",
        body=encode_json(given),
        only_asks=True,
    )
    return Operation(call, _read_groups)


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

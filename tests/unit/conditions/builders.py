"""Conditions, fields and metadata with valid defaults, so that a test mentions only what matters."""

import re
from collections.abc import Iterable, Mapping, Sequence

from statewright.conditions import compile_predicate, parse
from statewright.entity import EntityMeta
from statewright.jsonval.codec import decode
from statewright.jsonval.values import DataType, JsonObject, JsonValue
from statewright.schema.node import DeclaredField

META = EntityMeta(
    id="5e0c7f6e-0a1b-11f0-9a7e-3b1f0c9d2e44",
    state="PACKED",
    creation_date=1_935_727_200_000,  # 2031-05-05T06:00:00Z
    last_update_time=1_935_813_600_123,  # 2031-05-06T06:00:00.123Z
    transition="pack",
    transaction_id="5e0c7f6f-0a1b-11f0-9a7e-3b1f0c9d2e44",
)


NO_FIELDS: Mapping[str, DeclaredField] = {}


def fields(**types: str) -> dict[str, DeclaredField]:
    """``fields(n="INTEGER STRING")``: top-level fields and the names of their types."""
    return {f"$.{name}": a_field(names) for name, names in types.items()}


def a_field(names: str) -> DeclaredField:
    return DeclaredField(types=frozenset(DataType(name) for name in names.split()))


def spell_out(text: str, args: Sequence[object], first: int = 1) -> str:
    """SQL with its arguments in place of the parameters: the same for all numberings."""
    return re.sub(r"\$(\d+)", lambda found: repr(args[int(found[1]) - first]), text)


def simple(path: str, operator: str, value: JsonValue = None) -> JsonObject:
    return {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}


def lifecycle(field: str, operator: str, value: JsonValue = None) -> JsonObject:
    return {"type": "lifecycle", "field": field, "operatorType": operator, "value": value}


def group(operator: str, *conditions: JsonValue) -> JsonObject:
    return {"type": "group", "operator": operator, "conditions": list(conditions)}


def array(path: str, *values: JsonValue) -> JsonObject:
    return {"type": "array", "jsonPath": path, "values": list(values)}


def matches(
    condition: JsonValue,
    document: JsonValue,
    declared: Mapping[str, DeclaredField] = NO_FIELDS,
    meta: EntityMeta = META,
) -> bool:
    return compile_predicate(parse(condition), declared)(document, meta)


def value_matches(stored: JsonValue, types: str, operator: str, operand: JsonValue = None) -> bool:
    """Whether the field ``v``, declared with the types, matches when it holds the stored value."""
    return matches(simple("$.v", operator, operand), {"v": stored}, fields(v=types))


def matching(stored: Iterable[JsonValue], types: str, operator: str, operand: JsonValue = None) -> list[JsonValue]:
    """Those of the stored values that match."""
    predicate = compile_predicate(parse(simple("$.v", operator, operand)), fields(v=types))
    return [value for value in stored if predicate({"v": value}, META)]


def json(text: str) -> JsonValue:
    """The value of a JSON text, numbers exact."""
    return decode(text)

"""Random documents that resemble each other enough for their schemas to meet."""

from decimal import Decimal
from random import Random

from hypothesis import strategies as st

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.schema import SchemaNode, infer, normalise

_SCALARS: list[JsonValue] = [
    None,
    True,
    0,
    7,
    -(2**31),
    2**31,
    2**63,
    2**127,
    Decimal("7.0"),
    Decimal("1.5"),
    Decimal("0.1234567890123456"),
    Decimal("1E-300"),
    Decimal("1E+60"),
    "",
    "x",
    "2024",
    "2024-05",
    "2024-05-01",
    "09:30",
    "2024-05-01T10:00",
    "2024-05-01T10:00Z",
]
"""At least one value of every type that is ever inferred."""

NAMES = ["a", "b", "c", "", "a.b", "/", "[]"]


def scalars() -> st.SearchStrategy[JsonValue]:
    return st.sampled_from(_SCALARS)


def objects_of(members: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonObject]:
    return st.dictionaries(st.sampled_from(NAMES), members, max_size=4)


def values() -> st.SearchStrategy[JsonValue]:
    """Values with every kind of mixture inside arrays."""
    return st.recursive(scalars(), lambda inner: st.lists(inner, max_size=3) | objects_of(inner), max_leaves=10)


def documents() -> st.SearchStrategy[JsonObject]:
    return objects_of(values())


def schemas() -> st.SearchStrategy[SchemaNode]:
    return documents().map(lambda document: normalise(infer(document)))


def relatives() -> st.SearchStrategy[tuple[JsonObject, JsonObject]]:
    """A sample and a document that differs from it in a few places."""
    return st.builds(_with_relative, documents(), st.integers(0, 2**32), st.sampled_from((0.0, 0.1, 0.3)))


def _with_relative(sample: JsonObject, seed: int, changes: float) -> tuple[JsonObject, JsonObject]:
    random = Random(seed)
    return sample, {name: _relative(member, random, changes) for name, member in sample.items()}


def _relative(value: JsonValue, random: Random, changes: float) -> JsonValue:
    if random.random() < changes:
        return random.choice([None, [], {}, [value], [None], {"a": value}, *_SCALARS])
    if isinstance(value, dict):
        kept = [name for name in value if random.random() >= changes]
        return {name: _relative(value[name], random, changes) for name in kept}
    if isinstance(value, list):
        return [_relative(item, random, changes) for item in random.choices(value, k=len(value))] if value else []
    return value

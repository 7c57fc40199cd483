"""Functions on objects. Members come in the order of their names: stored objects have no other."""

from collections.abc import Mapping
from typing import Final

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.frames import Frame
from statewright.steps.core.expressions.functions.arrays import elements_of
from statewright.steps.core.expressions.functions.call import Function, of_one
from statewright.steps.core.expressions.values import Map, Value, as_int, entries, fetched, hashable, items, type_name


def _entries(value: Value, doing: str) -> dict[Value, Value]:
    members = entries(value)
    if members is None:
        raise ExpressionError(f"cannot {doing.format(type_name(value))}")
    return members


def _keys(value: Value) -> Value:
    return tuple(_entries(value, "get keys from {}"))


def _values(value: Value) -> Value:
    return tuple(_entries(value, "get values from {}").values())


def _to_pairs(value: Value) -> Value:
    return tuple((name, member) for name, member in _entries(value, "transform {} to pairs").items())


def _from_pairs(value: Value) -> Value:
    members: dict[Value, Value] = {}
    for pair in elements_of(value, "build an object from"):
        match items(pair):
            case (key, member):
                members[hashable(key)] = member
            case _:
                raise ExpressionError("invalid pair")
    return Map(members, is_keyed_by_text=False)


def _get(_: Frame, arguments: tuple[Value, ...]) -> Value:
    """As indexing, but nil where there is no such element, and of what has no elements at all."""
    base, key = arguments
    elements = items(base)
    if elements is None:
        return fetched(base, key) if isinstance(base, dict | Map | None) else None
    index = as_int(key)
    return elements[index] if -len(elements) <= index < len(elements) else None


FUNCTIONS: Final[Mapping[str, Function]] = {
    "keys": of_one(_keys),
    "values": of_one(_values),
    "toPairs": of_one(_to_pairs),
    "fromPairs": of_one(_from_pairs),
    "get": _get,
}

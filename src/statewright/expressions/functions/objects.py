"""Functions on objects. Members come in the order of their names: stored objects have no other."""

from collections.abc import Mapping
from typing import Final

from statewright.evaluation.costs import Entry, charge_nothing
from statewright.expressions.frames import Frame, list_entries, wrap_unary
from statewright.expressions.functions.arrays import require_elements
from statewright.expressions.values import (
    ExpressionError,
    Map,
    Value,
    as_entries,
    as_int,
    as_items,
    check_hashable,
    count_items,
    fetch_item,
    fetch_member,
    type_name,
)


def _require_entries(value: Value, doing: str) -> dict[Value, Value]:
    members = as_entries(value)
    if members is None:
        raise ExpressionError(f"cannot {doing.format(type_name(value))}")
    return members


def _keys(value: Value) -> Value:
    return tuple(_require_entries(value, "get keys from {}"))


def _values(value: Value) -> Value:
    return tuple(_require_entries(value, "get values from {}").values())


def _to_pairs(value: Value) -> Value:
    return tuple((name, member) for name, member in _require_entries(value, "transform {} to pairs").items())


def _from_pairs(value: Value) -> Value:
    members: dict[Value, Value] = {}
    for pair in require_elements(value, "build an object from"):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ExpressionError("invalid pair")
        key, member = as_items(pair) or (None, None)
        members[check_hashable(key)] = member
    return Map(members, is_keyed_by_text=False)


def _get(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    """``get(collection, key)``: as indexing, but nil for a missing element and for a value that has none."""
    base, key = arguments
    if not isinstance(base, str | list | tuple):
        return fetch_member(base, key) if isinstance(base, dict | Map | None) else None
    if isinstance(base, str) and not base.isascii():
        frame.charge_text(base)  # its bytes are counted
    index = as_int(key)
    length = count_items(base)
    return fetch_item(base, index) if -length <= index < length else None


def _read_pairs(value: Value) -> int:
    return 2 * len(value) if isinstance(value, list | tuple) else 0


FUNCTIONS: Final[Mapping[str, Entry]] = {
    "keys": wrap_unary(_keys, list_entries),
    "values": wrap_unary(_values, list_entries),
    "toPairs": wrap_unary(_to_pairs, list_entries),
    "fromPairs": wrap_unary(_from_pairs, _read_pairs),
    "get": Entry(_get, charge_nothing),
}

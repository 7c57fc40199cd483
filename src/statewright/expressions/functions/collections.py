"""Functions on arrays and on objects, whose members come in the order of their names: stored objects have no other."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cmp_to_key
from typing import Final

from statewright.evaluation.costs import Entry, charge_nothing, sort_items
from statewright.evaluation.values import charge_compared
from statewright.expressions.frames import (
    CHARS_PER_ELEMENT,
    Frame,
    list_all_items,
    list_entries,
    list_items,
    wrap_unary,
)
from statewright.expressions.operators import is_equal, is_less
from statewright.expressions.values import (
    ExpressionError,
    Map,
    Value,
    as_entries,
    as_float,
    as_int,
    as_items,
    check_hashable,
    count_items,
    fetch_item,
    fetch_member,
    is_number,
    type_name,
)

_COMPARISONS_PER_ELEMENT: Final = 4
"""Comparisons of sorting that count as one element: most orders need far fewer than the worst one."""


def require_elements(value: Value, doing: str) -> tuple[Value, ...]:
    """The elements of an array. Raises :class:`ExpressionError`, saying what cannot be done, for anything else."""
    elements = as_items(value)
    if elements is None:
        raise ExpressionError(f"cannot {doing} {type_name(value)}")
    return elements


def order_positions(values: Iterable[Value], frame: Frame) -> list[int]:
    """The positions of ``values`` in rising order of the values; equal ones keep theirs."""
    listed = list(values)
    frame.spend(sort_items(len(listed)) // _COMPARISONS_PER_ELEMENT)

    def order(first: int, second: int) -> int:
        if chars := charge_compared(listed[first], listed[second]):
            frame.spend(chars)
        if is_less(listed[first], listed[second]):
            return -1
        return 1 if is_less(listed[second], listed[first]) else 0

    return sorted(range(len(listed)), key=cmp_to_key(order))


def is_descending(order: Value) -> bool:
    """Whether ``order`` is ``desc``, not ``asc``. Raises :class:`ExpressionError` for anything else."""
    if order not in ("asc", "desc"):
        raise ExpressionError("unknown order, use asc or desc")
    return order == "desc"


def _first(value: Value) -> Value:
    return fetch_item(value, 0) if isinstance(value, str | list | tuple) and value else None


def _last(value: Value) -> Value:
    return fetch_item(value, -1) if isinstance(value, str | list | tuple) and value else None


def _take(_: Frame, arguments: tuple[Value, ...]) -> Value:
    elements, count = require_elements(arguments[0], "take from"), arguments[1]
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ExpressionError(f"cannot take {type_name(count)} elements")
    return elements[:count]


def _concat(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    parts = [require_elements(argument, "concat") for argument in arguments]
    frame.spend(sum(map(len, parts)))
    return tuple(element for part in parts for element in part)


def _flatten(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    return tuple(_iterate_flat(require_elements(arguments[0], "flatten"), frame))


def _iterate_flat(elements: tuple[Value, ...], frame: Frame) -> Iterator[Value]:
    """The elements of all levels; each level that hands them on visits them."""
    frame.spend(len(elements))
    for element in elements:
        inner = as_items(element)
        if inner is None:
            yield element
        else:
            for deeper in _iterate_flat(inner, frame):
                frame.spend(1)
                yield deeper


def _uniq(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    """The distinct elements, in the order of their first places. Scalars are looked up; only what is built of others is
    compared one by one.
    """
    elements = require_elements(arguments[0], "uniq")
    frame.spend(len(elements))
    scalars: set[tuple[str, Value]] = set()
    others: list[Value] = []
    unique: list[Value] = []
    for element in elements:
        if isinstance(element, str) and len(element) > CHARS_PER_ELEMENT:
            frame.spend(len(element) // CHARS_PER_ELEMENT)
        key = _scalar_key(element)
        if key is None:
            frame.spend(len(others))
            if any(is_equal(element, other, frame) for other in others):
                continue
            others.append(element)
        elif key in scalars:
            continue
        else:
            scalars.add(key)
        unique.append(element)
    return tuple(unique)


def _scalar_key(value: Value) -> tuple[str, Value] | None:
    if is_number(value):
        return "number", as_float(value)
    return (type_name(value), value) if isinstance(value, bool | str | None) else None


def _reverse(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    elements = require_elements(arguments[0], "reverse")
    frame.spend(len(elements))
    return elements[::-1]


def _sort(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    elements = require_elements(arguments[0], "sort")
    positions = order_positions(elements, frame)
    descending = len(arguments) == 2 and is_descending(arguments[1])
    return tuple(elements[position] for position in (reversed(positions) if descending else positions))


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
    "first": wrap_unary(_first),
    "last": wrap_unary(_last),
    "take": Entry(_take, list_items),
    "concat": Entry(_concat, list_all_items),
    "flatten": Entry(_flatten, list_items),
    "uniq": Entry(_uniq, list_items),
    "reverse": Entry(_reverse, list_items),
    "sort": Entry(_sort, list_items),
    "keys": wrap_unary(_keys, list_entries),
    "values": wrap_unary(_values, list_entries),
    "toPairs": wrap_unary(_to_pairs, list_entries),
    "fromPairs": wrap_unary(_from_pairs, _read_pairs),
    "get": Entry(_get, charge_nothing),
}

"""The functions that apply a predicate to every element of an array (docs/reference/steps.md#functions)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from statewright.expressions.frames import Frame
from statewright.expressions.functions.arrays import is_descending, order_positions, require_elements
from statewright.expressions.operators import add
from statewright.expressions.values import ExpressionError, Map, Value, check_hashable, type_name

Evaluate: TypeAlias = Callable[[Frame], Value]
"""A compiled expression."""

Apply: TypeAlias = Callable[[Frame, tuple[Value, ...], Evaluate | None, Value], Value]
"""A function applied to its elements, its predicate (``None``: not given) and its third argument (nil: not given)."""


def compile_predicate_call(name: str, arguments: tuple[Evaluate, ...]) -> Evaluate:
    """A call of the function ``name``; the second argument is the predicate."""
    apply, collection = _FUNCTIONS[name], arguments[0]
    predicate = arguments[1] if len(arguments) > 1 else None
    third = arguments[2] if len(arguments) > 2 else None

    def call(frame: Frame) -> Value:
        elements = require_elements(collection(frame), f"apply {name} to")
        extra = None if third is None else third(frame)
        outer = frame.element
        try:
            return apply(frame, elements, predicate, extra)
        finally:
            frame.element = outer

    return call


def _map_elements(frame: Frame, elements: Iterable[Value], predicate: Evaluate | None) -> Iterator[Value]:
    for element in elements:
        frame.spend(1)
        frame.element = element
        yield element if predicate is None else predicate(frame)


def _test_elements(frame: Frame, elements: Iterable[Value], predicate: Evaluate | None) -> Iterator[bool]:
    for verdict in _map_elements(frame, elements, predicate):
        if not isinstance(verdict, bool):
            raise ExpressionError(f"predicate should return boolean (got {type_name(verdict)})")
        yield verdict


def _all(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    return all(_test_elements(frame, elements, predicate))


def _any(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    return any(_test_elements(frame, elements, predicate))


def _none(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    return not any(_test_elements(frame, elements, predicate))


def _one(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    return sum(_test_elements(frame, elements, predicate)) == 1


def _count(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    return sum(_test_elements(frame, elements, predicate))


def _filter(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    verdicts = _test_elements(frame, elements, predicate)
    return tuple(element for element, holds in zip(elements, verdicts, strict=True) if holds)


def _map(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    return tuple(_map_elements(frame, elements, predicate))


def _find(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    index = _find_position(frame, elements, predicate)
    return None if index is None else elements[index]


def _find_index(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    return _find_position(frame, elements, predicate)


def _find_last(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    return _find(frame, elements[::-1], predicate, None)


def _find_last_index(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    index = _find_position(frame, elements[::-1], predicate)
    return None if index is None else len(elements) - 1 - index


def _find_position(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None) -> int | None:
    return next((index for index, holds in enumerate(_test_elements(frame, elements, predicate)) if holds), None)


def _sum(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    total: Value = 0
    for value in _map_elements(frame, elements, predicate):
        total = add(total, value)
    return total


def _group_by(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    groups: dict[Value, tuple[Value, ...]] = {}
    for element, key in zip(elements, _map_elements(frame, elements, predicate), strict=True):
        frame.spend(len(groups.get(check_hashable(key), ())) // 16)  # a group is copied for each of its members
        groups[key] = (*groups.get(key, ()), element)
    return Map({**groups}, is_keyed_by_text=False)


def _sort_by(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, order: Value) -> Value:
    descending = order is not None and is_descending(order)
    positions = order_positions(_map_elements(frame, elements, predicate))
    return tuple(elements[position] for position in (reversed(positions) if descending else positions))


def _reduce(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, initial: Value) -> Value:
    """The last value of the predicate. It cannot name what came before: ``#acc`` is a plain variable here
    (docs/reference/steps.md#undefined-variables).
    """
    if not elements and initial is None:
        raise ExpressionError("reduce of empty array with no initial value")
    last = initial
    for value in _map_elements(frame, elements, predicate):
        last = value
    return last


_FUNCTIONS: Final[Mapping[str, Apply]] = {
    "all": _all,
    "any": _any,
    "none": _none,
    "one": _one,
    "count": _count,
    "filter": _filter,
    "map": _map,
    "find": _find,
    "findIndex": _find_index,
    "findLast": _find_last,
    "findLastIndex": _find_last_index,
    "sum": _sum,
    "groupBy": _group_by,
    "sortBy": _sort_by,
    "reduce": _reduce,
}

"""The functions that apply a predicate to every element of an array (docs/reference/steps.md#functions)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from statewright.evaluation.costs import Entry
from statewright.evaluation.values import charge_joined
from statewright.expressions.frames import TOKENS_PER_ELEMENT, Frame, list_items
from statewright.expressions.functions.collections import is_descending, order_positions, require_elements
from statewright.expressions.operators import add
from statewright.expressions.values import ExpressionError, Map, Value, check_hashable, type_name

Evaluate: TypeAlias = Callable[[Frame], Value]
"""A compiled expression."""


def compile_predicate_call(name: str, arguments: tuple[Evaluate, ...], tokens: int) -> Evaluate:
    """A call of the function ``name``; the second argument is the predicate, which has so many ``tokens``."""
    entry, collection = PREDICATE_FUNCTIONS[name], arguments[0]
    apply, cost = entry.call, entry.cost
    predicate = _charge_tokens(arguments[1], tokens // TOKENS_PER_ELEMENT) if len(arguments) > 1 else None
    third = arguments[2] if len(arguments) > 2 else None

    def call(frame: Frame) -> Value:
        value = collection(frame)
        frame.spend(cost(value))
        elements = require_elements(value, f"apply {name} to")
        extra = None if third is None else third(frame)
        outer = frame.element
        try:
            result: Value = apply(frame, elements, predicate, extra)
            return result
        finally:
            frame.element = outer

    return call


def _charge_tokens(predicate: Evaluate, elements: int) -> Evaluate:
    """The predicate, which counts as so many elements each time, beside the one that it looks at."""
    if not elements:
        return predicate

    def evaluate(frame: Frame) -> Value:
        frame.spend(elements)
        return predicate(frame)

    return evaluate


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


Function: TypeAlias = Callable[[Frame, tuple[Value, ...], Evaluate | None, Value], Value]
"""Takes the frame, the elements, the predicate and the third argument."""


def _make_test(judge: Callable[[Iterator[bool]], Value]) -> Function:
    """A function of what the predicate says of the elements, one after the other as far as they are asked for."""
    return lambda frame, elements, predicate, _: judge(_test_elements(frame, elements, predicate))


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
        if total.__class__ is str:
            frame.spend(charge_joined(total, value))
        total = add(total, value)
    return total


def _group_by(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, _: Value) -> Value:
    groups: dict[Value, list[Value]] = {}
    for element, key in zip(elements, _map_elements(frame, elements, predicate), strict=True):
        groups.setdefault(check_hashable(key), []).append(element)
    return Map({key: tuple(group) for key, group in groups.items()}, is_keyed_by_text=False)


def _sort_by(frame: Frame, elements: tuple[Value, ...], predicate: Evaluate | None, order: Value) -> Value:
    descending = order is not None and is_descending(order)
    positions = order_positions(_map_elements(frame, elements, predicate), frame)
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


PREDICATE_FUNCTIONS: Final[Mapping[str, Entry]] = {
    "all": Entry(_make_test(all), list_items),
    "any": Entry(_make_test(any), list_items),
    "none": Entry(_make_test(lambda verdicts: not any(verdicts)), list_items),
    "one": Entry(_make_test(lambda verdicts: sum(verdicts) == 1), list_items),
    "count": Entry(_make_test(sum), list_items),
    "filter": Entry(_filter, list_items),
    "map": Entry(_map, list_items),
    "find": Entry(_find, list_items),
    "findIndex": Entry(_find_index, list_items),
    "findLast": Entry(_find_last, list_items),
    "findLastIndex": Entry(_find_last_index, list_items),
    "sum": Entry(_sum, list_items),
    "groupBy": Entry(_group_by, list_items),
    "sortBy": Entry(_sort_by, list_items),
    "reduce": Entry(_reduce, list_items),
}
"""Each takes the frame, the elements, the predicate and the third argument; its cost takes the array. Each element that
it looks at is accounted for then, with the predicate.
"""

"""What guards compute with values: members, comparisons and functions, within a budget
(docs/reference/flows.md#guards).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from statewright.jsonval.values import JsonValue

MAX_SELECTED: Final = 100_000
"""Values and pairs of values that one guard may look at."""

Function = Callable[..., Iterable[JsonValue]]

_Value = TypeVar("_Value")

budget: ContextVar[list[int]] = ContextVar("values that a guard may still select")


class GuardTooBroad(ValueError):
    """A guard that selects more of an input than one may."""

    def __init__(self) -> None:
        super().__init__(f"the guard selects more than {MAX_SELECTED} values")


def spend(values: Iterable[_Value]) -> Iterator[_Value]:
    """The values, each of which takes from what a guard may still look at."""
    for value in values:
        _charge()
        yield value


def _charge() -> None:
    left = budget.get()
    left[0] -= 1
    if left[0] < 0:
        raise GuardTooBroad


def get_member(value: JsonValue, name: str) -> Sequence[JsonValue]:
    """The member of an object, if there is one."""
    return (value[name],) if isinstance(value, dict) and name in value else ()


def get_element(value: JsonValue, index: int) -> Sequence[JsonValue]:
    """The element of an array, from the end for negative places, if there is one."""
    return (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()


def iter_children(value: JsonValue) -> Iterable[JsonValue]:
    """The members of an object, or the elements of an array."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def iter_descendants(value: JsonValue) -> Iterator[JsonValue]:
    """The value and all below it, depth first."""
    left = [value]
    while left:
        current = left.pop()
        yield current
        left.extend(reversed(list(iter_children(current))))


def _is_number(value: JsonValue) -> bool:
    return not isinstance(value, bool | str | list | dict) and value is not None


def _equals(one: JsonValue, other: JsonValue) -> bool:
    """Deep equality, in which numbers are equal by their value, and never to a boolean."""
    _charge()
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equals(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equals, one, other))
    if _is_number(one) and _is_number(other):
        return one == other
    return type(one) is type(other) and one == other


def _compare_numbers(compare: Callable[[Any, Any], bool]) -> Callable[[JsonValue, JsonValue], bool]:
    return lambda one, other: _is_number(one) and _is_number(other) and compare(one, other)


COMPARISONS: Final[dict[str, Callable[[JsonValue, JsonValue], bool]]] = {
    "=": _equals,
    "==": _equals,
    "!=": lambda one, other: not _equals(one, other),
    "<": _compare_numbers(lambda one, other: one < other),
    "<=": _compare_numbers(lambda one, other: one <= other),
    ">": _compare_numbers(lambda one, other: one > other),
    ">=": _compare_numbers(lambda one, other: one >= other),
}


def _length(value: JsonValue) -> Iterable[JsonValue]:
    return (len(value),) if isinstance(value, list | str) else ()


def _keys(value: JsonValue) -> Iterable[JsonValue]:
    return ([*value],) if isinstance(value, dict) else ()


def _values(value: JsonValue) -> Iterable[JsonValue]:
    return ([*value.values()],) if isinstance(value, dict) else ()


def _entries(value: JsonValue) -> Iterable[JsonValue]:
    return ([[name, member] for name, member in value.items()],) if isinstance(value, dict) else ()


def _char_at(value: JsonValue, at: JsonValue) -> Iterable[JsonValue]:
    if not isinstance(value, str) or type(at) is not int or not 0 <= at < len(value):
        return ()
    return (value[at],)


def _substring(value: JsonValue, first: JsonValue, last: JsonValue = None) -> Iterable[JsonValue]:
    if (
        not isinstance(value, str)
        or type(first) is not int
        or first < 0
        or (last is not None and type(last) is not int)
    ):
        return ()
    return (value[first:last],)


FUNCTIONS: Final[dict[str, Function]] = {
    "length": _length,
    "keys": _keys,
    "values": _values,
    "entries": _entries,
    "charAt": _char_at,
    "substring": _substring,
}
ARGUMENT_COUNTS: Final = {
    "length": (0,),
    "keys": (0,),
    "values": (0,),
    "entries": (0,),
    "charAt": (1,),
    "substring": (1, 2),
}

"""What guards compute with values: members, comparisons and functions, within a budget
(docs/reference/flows.md#guards).
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from typing import Final, TypeAlias, TypeGuard, TypeVar

from statewright.jsonval.values import JsonValue

MAX_SELECTED: Final = 100_000
"""Values and pairs of values that one guard may look at."""
CHARS_PER_VALUE: Final = 1024
"""So much of a text counts as a value where it is compared or copied."""

Comparison: TypeAlias = Callable[[JsonValue, JsonValue], bool]
Function: TypeAlias = Callable[[JsonValue, Sequence[JsonValue]], Sequence[JsonValue]]
"""From a value and arguments to the result, or to nothing where it is not for such a value."""

_Value = TypeVar("_Value")


class _Budget:
    """How much one evaluation may still look at."""

    def __init__(self, left: int) -> None:
        self._left = left

    def charge(self, count: int = 1) -> None:
        """Take from it. Raises :class:`GuardTooBroad` when nothing is left."""
        self._left -= count
        if self._left < 0:
            raise GuardTooBroad


_budget: ContextVar[_Budget] = ContextVar("values that a guard may still select")


class GuardTooBroad(ValueError):
    """A guard that selects more of an input than one may."""

    def __init__(self) -> None:
        super().__init__(f"the guard selects more than {MAX_SELECTED} values")


@contextmanager
def limit_values(limit: int) -> Iterator[None]:
    """A budget for one evaluation of a guard: how many values it may look at."""
    token = _budget.set(_Budget(limit))
    try:
        yield
    finally:
        _budget.reset(token)


def spend(values: Iterable[_Value]) -> Iterator[_Value]:
    """The values, each of which takes from what a guard may still look at."""
    charge = _budget.get().charge
    for value in values:
        charge()
        yield value


def get_member(value: JsonValue, name: str) -> Sequence[JsonValue]:
    """The member of an object, if there is one."""
    return (value[name],) if isinstance(value, dict) and name in value else ()


def get_element(value: JsonValue, index: int) -> Sequence[JsonValue]:
    """The element of an array, from the end for negative places, if there is one."""
    return (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()


def cut_slice(value: JsonValue, cut: slice) -> Iterable[JsonValue]:
    """Some of the elements of an array."""
    return (value[index] for index in range(*cut.indices(len(value)))) if isinstance(value, list) else ()


def iter_children(value: JsonValue) -> Iterable[JsonValue]:
    """The members of an object, or the elements of an array."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def iter_descendants(value: JsonValue) -> Iterator[JsonValue]:
    """The value and all below it, depth first."""
    yield value
    pending = [iter(iter_children(value))]
    while pending:
        for child in pending[-1]:
            yield child
            pending.append(iter(iter_children(child)))
            break
        else:
            pending.pop()


def _equal(one: JsonValue, other: JsonValue) -> bool:
    """Deep equality, in which numbers are equal by their value, and never to a boolean."""
    _budget.get().charge()
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, str) and isinstance(other, str):
        _charge_text(one if len(one) == len(other) else "")
        return one == other
    numbers = _read_numbers(one, other)
    return numbers[0] == numbers[1] if numbers else type(one) is type(other) and one == other


def _charge_text(text: str) -> None:
    _budget.get().charge(len(text) // CHARS_PER_VALUE)


def _read_numbers(one: JsonValue, other: JsonValue) -> tuple[int | Decimal, int | Decimal] | None:
    if isinstance(one, bool) or isinstance(other, bool):
        return None
    return (one, other) if isinstance(one, int | Decimal) and isinstance(other, int | Decimal) else None


def _order(compare: Callable[[int | Decimal, int | Decimal], bool]) -> Comparison:
    """A comparison of numbers, which does not hold for anything else."""

    def holds(one: JsonValue, other: JsonValue) -> bool:
        numbers = _read_numbers(one, other)
        return numbers is not None and compare(*numbers)

    return holds


COMPARISONS: Final[dict[str, Comparison]] = {
    "=": _equal,
    "==": _equal,
    "!=": lambda one, other: not _equal(one, other),
    "<": _order(operator.lt),
    "<=": _order(operator.le),
    ">": _order(operator.gt),
    ">=": _order(operator.ge),
}


def _length(value: JsonValue, _: Sequence[JsonValue]) -> Sequence[JsonValue]:
    return (len(value),) if isinstance(value, list | str) else ()


def _keys(value: JsonValue, _: Sequence[JsonValue]) -> Sequence[JsonValue]:
    if not isinstance(value, dict):
        return ()
    _budget.get().charge(len(value))
    return ([*value],)


def _values(value: JsonValue, _: Sequence[JsonValue]) -> Sequence[JsonValue]:
    if not isinstance(value, dict):
        return ()
    _budget.get().charge(len(value))
    return ([*value.values()],)


def _entries(value: JsonValue, _: Sequence[JsonValue]) -> Sequence[JsonValue]:
    if not isinstance(value, dict):
        return ()
    _budget.get().charge(len(value))
    return ([[name, member] for name, member in value.items()],)


def _char_at(value: JsonValue, arguments: Sequence[JsonValue]) -> Sequence[JsonValue]:
    at = arguments[0]
    if not isinstance(value, str) or not _is_place(at) or at >= len(value):
        return ()
    return (value[at],)


def _substring(value: JsonValue, arguments: Sequence[JsonValue]) -> Sequence[JsonValue]:
    first, last = arguments[0], arguments[1] if len(arguments) > 1 else None
    if not isinstance(value, str) or not _is_place(first):
        return ()
    _charge_text(value)
    if last is None:
        return (value[first:],)
    return (value[first:last],) if isinstance(last, int) and not isinstance(last, bool) else ()


def _is_place(value: JsonValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


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

"""What guards compute with values: members, comparisons and functions, within a budget
(docs/reference/flows.md#guards).
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from typing import Final, TypeAlias, TypeGuard, TypeVar

from statewright.evaluation.costs import Budget, Entry, charge_nothing
from statewright.evaluation.values import are_alike, charge_conversion, compare_parts
from statewright.jsonval.values import JsonObject, JsonValue, is_whole

MAX_SELECTED: Final = 100_000
"""Values and pairs of values that one guard may look at."""
PARTS_PER_VALUE: Final = 4
"""Tests and paths within a guard that count as one value, each time they are evaluated."""
CHARS_PER_VALUE: Final = 1024
"""So much of a text counts as a value where it is compared or copied."""

Comparison: TypeAlias = Callable[[JsonValue, JsonValue], bool]
Function: TypeAlias = Callable[[JsonValue, Sequence[JsonValue]], Sequence[JsonValue]]
"""From a value and arguments to the result, or to nothing where it is not for such a value."""

_Value = TypeVar("_Value")


class GuardBudget(Budget):
    """How much one evaluation may still look at, in tests and beginnings of paths, and the whole input; a comparison is
    two of them. Raises :class:`GuardTooBroad`.
    """

    __slots__ = ("_limit", "root")

    def __init__(self, limit: int, root: object) -> None:
        self._limit = limit * PARTS_PER_VALUE
        super().__init__(self._limit, GuardTooBroad)
        self.root = root

    def charge(self, values: int = 1) -> None:
        """Spend what so many values count as."""
        self.spend(values * PARTS_PER_VALUE)

    @property
    def spent(self) -> int:
        """The values that were looked at."""
        return (self._limit - self.left) // PARTS_PER_VALUE


_budget: ContextVar[GuardBudget] = ContextVar("values that a guard may still select")


def get_budget() -> GuardBudget:
    """That of the evaluation that goes on."""
    return _budget.get()


class GuardTooBroad(ValueError):
    """A guard that selects more of an input than one may."""

    def __init__(self) -> None:
        super().__init__(f"the guard selects more than {MAX_SELECTED} values")


@contextmanager
def limit_values(budget: GuardBudget) -> Iterator[None]:
    """A budget for one evaluation of a guard: how many values it may look at."""
    token = _budget.set(budget)
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
    if are_alike(one, other):
        if isinstance(one, dict):
            _budget.get().spend(len(one) // PARTS_PER_VALUE)
        return compare_parts(one, other, _equal)
    if isinstance(one, str) and isinstance(other, str):
        if len(one) == len(other):
            _budget.get().charge(copy_chars(one))
        return one == other
    numbers = _read_numbers(one, other)
    return numbers[0] == numbers[1] if numbers else type(one) is type(other) and one == other


def copy_chars(value: JsonValue, *_: object) -> int:
    """A text is copied or compared."""
    return len(value) // CHARS_PER_VALUE if isinstance(value, str) else 0


def _list_members(value: JsonValue, *_: object) -> int:
    return len(value) if isinstance(value, dict) else 0


def _read_numbers(one: JsonValue, other: JsonValue) -> tuple[int | Decimal, int | Decimal] | None:
    if isinstance(one, bool) or isinstance(other, bool):
        return None
    if not isinstance(one, int | Decimal) or not isinstance(other, int | Decimal):
        return None
    if steps := charge_conversion(one, other):
        _budget.get().charge(steps)
    return one, other


def _order(compare: Callable[[int | Decimal, int | Decimal], bool]) -> Comparison:
    """A comparison of numbers, which does not hold for anything else."""

    def holds(one: JsonValue, other: JsonValue) -> bool:
        numbers = _read_numbers(one, other)
        return numbers is not None and compare(*numbers)

    return holds


COMPARISONS: Final[dict[str, Entry]] = {
    "=": Entry(_equal, charge_nothing),
    "==": Entry(_equal, charge_nothing),
    "!=": Entry(lambda one, other: not _equal(one, other), charge_nothing),
    "<": Entry(_order(operator.lt), charge_nothing),
    "<=": Entry(_order(operator.le), charge_nothing),
    ">": Entry(_order(operator.gt), charge_nothing),
    ">=": Entry(_order(operator.ge), charge_nothing),
}
"""Each pair counts as a value before it is compared. Deep equality accounts for what it looks at, an order for the
digits of long numbers.
"""


def _length(value: JsonValue, _: Sequence[JsonValue]) -> Sequence[JsonValue]:
    return (len(value),) if isinstance(value, list | str) else ()


def _make_listing(list_parts: "Callable[[JsonObject], Iterable[JsonValue]]", /) -> Function:
    """A function that lists parts of an object."""
    return lambda value, _: ([*list_parts(value)],) if isinstance(value, dict) else ()


def _list_entries(value: JsonObject) -> Iterator[JsonValue]:
    return ([name, member] for name, member in value.items())


def _char_at(value: JsonValue, arguments: Sequence[JsonValue]) -> Sequence[JsonValue]:
    at = arguments[0]
    if not isinstance(value, str) or not _is_place(at) or at >= len(value):
        return ()
    return (value[at],)


def _substring(value: JsonValue, arguments: Sequence[JsonValue]) -> Sequence[JsonValue]:
    first, last = arguments[0], arguments[1] if len(arguments) > 1 else None
    if not isinstance(value, str) or not _is_place(first):
        return ()
    if last is None:
        return (value[first:],)
    return (value[first:last],) if is_whole(last) else ()


def _is_place(value: JsonValue) -> TypeGuard[int]:
    return is_whole(value) and value >= 0


class GuardFunction(Entry, frozen=True):
    """Takes the value and the arguments, and so does its cost, in values."""

    counts: tuple[int, ...]
    """How many arguments it may have."""


FUNCTIONS: Final[dict[str, GuardFunction]] = {
    "length": GuardFunction(_length, charge_nothing, (0,)),
    "keys": GuardFunction(_make_listing(dict.keys), _list_members, (0,)),
    "values": GuardFunction(_make_listing(dict.values), _list_members, (0,)),
    "entries": GuardFunction(_make_listing(_list_entries), _list_members, (0,)),
    "charAt": GuardFunction(_char_at, charge_nothing, (1,)),
    "substring": GuardFunction(_substring, copy_chars, (1, 2)),
}
"""By name."""

"""Following a path into a document (spec/search.md §4.4)."""

from collections.abc import Callable

from msgspec import UNSET

from statewright.conditions.paths import EACH, Path, Step
from statewright.conditions.values import Found
from statewright.jsonval.values import JsonValue

Lookup = Callable[[Found], Found]
"""The value at a path without wildcards; unset when there is none."""

Collect = Callable[[Found], list[JsonValue] | None]
"""The values at a path with wildcards, in document order; ``None`` when the first array is missing or is none.

Elements that lack the rest of the path contribute nothing; explicit nulls are collected.
"""


def lookup(path: Path) -> Lookup:
    """The value at the path, which has no wildcards."""
    (steps,) = _between_wildcards(path.steps)
    return _lookup(steps)


def collect(path: Path) -> Collect:
    """The values at the path, which has wildcards."""
    first, second, *rest = (_lookup(steps) for steps in _between_wildcards(path.steps))

    def values(document: Found) -> list[JsonValue] | None:
        array = first(document)
        if not isinstance(array, list):
            return None
        found = _found(array, second)
        for get in rest:
            found = _found([element for array in found if isinstance(array, list) for element in array], get)
        return found

    return values


def has_wildcard(path: Path) -> bool:
    """Whether the path may have more than one value."""
    return EACH in path.steps


def _found(elements: list[JsonValue], get: Lookup) -> list[JsonValue]:
    return [value for element in elements if (value := get(element)) is not UNSET]


def _between_wildcards(steps: tuple[Step, ...]) -> list[tuple[str | int, ...]]:
    """One more piece than there are wildcards; any of them may be empty."""
    pieces: list[tuple[str | int, ...]] = [()]
    for step in steps:
        if step is EACH:
            pieces.append(())
        else:
            pieces[-1] = (*pieces[-1], step)
    return pieces


def _lookup(steps: tuple[str | int, ...]) -> Lookup:
    getters = [_member(step) if isinstance(step, str) else _item(step) for step in steps]
    if len(getters) == 1:
        return getters[0]
    return _chain(getters)


def _chain(getters: list[Lookup]) -> Lookup:
    def get(value: Found) -> Found:
        for getter in getters:
            value = getter(value)
        return value

    return get


def _member(name: str) -> Lookup:
    def get(value: Found) -> Found:
        return value.get(name, UNSET) if isinstance(value, dict) else UNSET

    return get


def _item(index: int) -> Lookup:
    def get(value: Found) -> Found:
        return value[index] if isinstance(value, list) and index < len(value) else UNSET

    return get

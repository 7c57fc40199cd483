"""Large JSON values, freed a few items at a time.

When nothing refers to a value any more, Python frees it at once, with all it holds, and the interpreter does nothing
else meanwhile: a hundred milliseconds and more for a million containers, in whichever thread lets go of it last, be it
by the end of a function or of a failure that refers to its frame. So whoever works on a large value in a thread takes
it apart in the end.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

Container: TypeAlias = list[Any] | dict[Any, Any]  # Any: what is freed is not looked at

_SLICE: Final = 2_000
"""Items that are freed at once."""

_PAUSE_S: Final = 0.0001
"""In which other threads get their turn, after each slice."""

_Value = TypeVar("_Value")
_Result = TypeVar("_Result")


def use_once(value: _Value, use: Callable[[_Value], _Result]) -> _Result:
    """What ``use`` makes of a large value, which is taken apart afterwards, also when that fails. The result must not
    refer to the value's own list or object; it may to parts of it.
    """
    try:
        return use(value)
    finally:
        if isinstance(value, list | dict):
            take_apart([value])


def take_apart(values: list[Container]) -> None:
    """Free values that nobody else refers to, a few items at a time; the list is empty afterwards, and not before.

    Parts of them that are used elsewhere are left alone.
    """
    while values:
        current = values[-1]
        if not current:
            values.pop()
            continue
        items = _cut_off(current)
        # Refers to each item: the list, the variable of the loop, the argument.
        values += [item for item in items if isinstance(item, list | dict) and item and sys.getrefcount(item) <= 3]
        is_slice = len(items) == _SLICE
        del items, current
        if is_slice:
            time.sleep(_PAUSE_S)


def _cut_off(container: Container) -> list[Any]:
    if isinstance(container, dict):
        return [container.popitem()[1] for _ in range(min(len(container), _SLICE))]
    items = container[-_SLICE:]
    del container[-_SLICE:]
    return items

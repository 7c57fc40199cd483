"""Turns of the event loop: what is computed within one, and what is better computed by another process.

How much a computation on somebody else's definitions and data comes to is often known only when it is done. So it is
begun within a turn; when it turns out to be more it gives up by ``TurnExceeded``, and is done again from the beginning
by a process, while others have their turns. Only what changes nothing outside itself may be computed so.

Large values are freed a few items at a time. When nothing refers to a value any more, Python frees it at once, with all
it holds, and the interpreter does nothing else meanwhile: a hundred milliseconds and more for a million containers, in
whichever thread lets go of it last, be it by the end of a function or of a failure that refers to its frame. So whoever
works on a large value in a thread takes it apart in the end.
"""

import sys
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeVar

MAX_TURN_ELEMENTS: Final = 8_000
"""Elements that a computation may build or visit within a turn: some 5 to 30 ms."""

_BITS_PER_ELEMENT: Final = 1024
"""Of a whole number; twice as many are four elements."""
_DECIMAL_BYTES_PER_ELEMENT: Final = 256


class TurnExceeded(Exception):
    """A computation is more than others should wait for."""


def is_large(value: object, limit: int = MAX_TURN_ELEMENTS) -> bool:
    """Whether a JSON value has more elements than may be worked on within a turn; it looks at no more than so many.

    64 characters of text count as one element, and numbers by what it takes to write them: one of 4,000 digits takes as
    long as a hundred elements and more if it is whole, since that grows with the square of its length.
    """
    left = limit
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            left -= len(current) // 64
        elif isinstance(current, int):
            left -= (current.bit_length() // _BITS_PER_ELEMENT) ** 2
        elif isinstance(current, Decimal):
            left -= sys.getsizeof(current) // _DECIMAL_BYTES_PER_ELEMENT
        elif isinstance(current, dict | list):
            left -= len(current)
            if left >= 0:
                pending.extend(current.values() if isinstance(current, dict) else current)
        if left < 0:
            return True
    return False


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

"""Turns of the event loop: what is computed within one, and what is better computed by another process.

How much a computation on somebody else's definitions and data comes to is often known only when it is done. So it is
begun within a turn; when it turns out to be more it gives up by ``TurnExceeded``, and is done again from the beginning
by a process, while others have their turns. Only what changes nothing outside itself may be computed so.
"""

import sys
from decimal import Decimal
from typing import Final

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

"""Large JSON values, freed in parts.

When nothing refers to a value any more, Python frees it at once, with all it holds, and the interpreter does nothing
else meanwhile: a hundred milliseconds and more for a million containers, in whichever thread lets go of it last. So
large values are handed to a :class:`Disposer`. It keeps them until nobody else does, and lets a thread take them apart.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

Container: TypeAlias = list[Any] | dict[Any, Any]  # Any: what is freed is not looked at

_SLICE: Final = 2_000
"""Items that are freed at once."""

INTERVAL_S: Final = 0.05
"""Pause between two looks for values that are not used any more."""

MAX_LOOKS: Final = 2_400
"""Looks for the end of a value, two minutes in all; one that is used for longer is freed by its last user."""


class Disposer:
    """Values of one event loop. ``run`` has a thread carry out a function."""

    def __init__(self, run: Callable[[Callable[[], None]], object]) -> None:
        self._run = run
        self._values: list[tuple[Container, int]] = []
        self._is_due = False

    @property
    def is_holding(self) -> bool:
        """Whether there are values that are not freed yet."""
        return bool(self._values)

    def add(self, value: Container) -> None:
        """Free a value in parts when it is not used any more."""
        self._values.append((value, MAX_LOOKS))
        self._schedule()

    def _schedule(self) -> None:
        if self._values and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(INTERVAL_S, self._look)

    def _look(self) -> None:
        self._is_due = False
        kept: list[tuple[Container, int]] = []
        unused: list[Container] = []
        value: Container | None = None
        while self._values:
            value, looks = self._values.pop()
            if sys.getrefcount(value) <= _OWN_REFERENCES:
                unused.append(value)
            elif looks:
                kept.append((value, looks - 1))
        value = None
        self._values = kept
        if unused:
            self._run(lambda: take_apart(unused))
        self._schedule()


_OWN_REFERENCES: Final = 2
"""To a value that only a local variable refers to, as ``sys.getrefcount`` counts them."""


def take_apart(values: list[Container]) -> None:
    """Free values that nobody else refers to, a few items at a time; the list is empty afterwards.

    Parts of them that are used elsewhere are left alone.
    """
    while values:
        current = values.pop()
        while current:
            items = _cut_off(current)
            # Refers to each item: the list, the variable of the loop, the argument.
            values += [item for item in items if isinstance(item, list | dict) and item and sys.getrefcount(item) <= 3]
            del items


def _cut_off(container: Container) -> list[Any]:
    if isinstance(container, dict):
        return [container.popitem()[1] for _ in range(min(len(container), _SLICE))]
    items = container[-_SLICE:]
    del container[-_SLICE:]
    return items

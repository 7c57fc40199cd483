"""Large JSON values of an event loop, freed by a thread when nobody uses them any more.

Who has been given a large value cannot know whether it is the last one to use it. So such values are handed to a
:class:`Disposer`. It keeps them until nobody else does, and lets a thread take them apart
(:mod:`statewright.loop.freeing`).
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Final

from statewright.loop.freeing import Container, take_apart

INTERVAL_S: Final = 0.05
"""Pause between two looks for values that are not used any more."""

MAX_LOOKS: Final = 2_400
"""Looks for the end of a value, two minutes in all; one that is used for longer is freed by its last user."""


class Disposer:
    """Values of one event loop. ``run`` has a thread carry out a function."""

    def __init__(self, run: Callable[[Callable[[], None]], object]) -> None:
        self._run = run
        self._values: list[tuple[Container, int]] = []
        self._unused: list[list[Container]] = []
        """What threads take apart; each list is empty when that is done."""
        self._is_due = False

    @property
    def is_holding(self) -> bool:
        """Whether there are values that are not freed yet."""
        self._unused = [*filter(None, self._unused)]
        return bool(self._values or self._unused)

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
            self._unused = [*filter(None, self._unused), unused]
            self._run(lambda: take_apart(unused))
        self._schedule()


_OWN_REFERENCES: Final = 2
"""To a value that only a local variable refers to, as ``sys.getrefcount`` counts them."""

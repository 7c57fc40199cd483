"""Pauses between attempts to connect."""

import random
from collections.abc import Callable
from typing import Final

SHORTEST: Final = 0.2
LONGEST: Final = 10.0
"""Seconds."""


class BackOff:
    """Doubling pauses, each shortened by up to a half at random so that nodes do not return all at once."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._pause = SHORTEST

    def reset(self) -> None:
        """The last attempt went well: start over."""
        self._pause = SHORTEST

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        pause = self._pause
        self._pause = min(2 * pause, LONGEST)
        return pause * (1 - self._chance() / 2)

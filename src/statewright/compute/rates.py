"""How much this process hands out: jobs to workers, callouts to members (docs/reference/operations.md#queues)."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

WINDOW_S: Final = 60
SLOT_S: Final = 5
"""Older ones are forgotten slot by slot: what is told is of the last minute, and up to a slot less."""

_SLOTS: Final = WINDOW_S // SLOT_S

MAX_KEYS: Final = 10_000
"""What is counted apart; those that come first."""

K = TypeVar("K")


class MinuteCounts(Generic[K]):
    """What happened in the last minute, by key. ``clock`` in seconds, never going back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._slots: dict[int, dict[K, int]] = {}

    def count(self, key: K) -> None:
        """It has happened once more."""
        now = int(self._clock()) // SLOT_S
        slot = self._slots.get(now)
        if slot is None:
            self._forget(now)
            slot = self._slots[now] = {}
        if key in slot or len(slot) < MAX_KEYS:
            slot[key] = slot.get(key, 0) + 1

    def sum_up(self) -> dict[K, int]:
        """The counts of what has happened at all."""
        self._forget(int(self._clock()) // SLOT_S)
        sums: dict[K, int] = {}
        for slot in self._slots.values():
            for key, count in slot.items():
                sums[key] = sums.get(key, 0) + count
        return sums

    def _forget(self, now: int) -> None:
        for old in [each for each in self._slots if each <= now - _SLOTS]:
            del self._slots[old]

"""Many deadlines with few timers.

A timer for every callout costs more than the wait itself. Here deadlines that end in the same ``GRAIN`` share one, so
an item may expire up to that much late, and never early.
"""

import asyncio
from typing import Final, Protocol

GRAIN: Final = 0.02
"""Seconds."""


class Expiring(Protocol):
    """What has a deadline."""

    def expire(self) -> None:
        """The deadline is over."""
        ...


class Deadlines:
    """The items that wait for their deadlines, by the loop's clock."""

    def __init__(self) -> None:
        self._slots: dict[int, set[Expiring]] = {}

    def add(self, item: Expiring, at: float) -> int:
        """Have the item expire at that time; the slot by which it can be withdrawn."""
        slot = int(at / GRAIN) + 1
        items = self._slots.get(slot)
        if items is None:
            self._slots[slot] = {item}
            asyncio.get_running_loop().call_at(slot * GRAIN, self._end, slot)
        else:
            items.add(item)
        return slot

    def discard(self, item: Expiring, slot: int) -> None:
        """Withdraw an item."""
        items = self._slots.get(slot)
        if items is not None:
            items.discard(item)

    def _end(self, slot: int) -> None:
        for item in self._slots.pop(slot):
            item.expire()

"""What the calls of a port may hold in memory.

A message counts from its arrival until its handler is done with it; a compressed one with what it is inflated to, from
the moment it is read. Headers count, and so does every call by itself.

A connection may hold no more than its own limit, and no more than a quarter of what the port has left: so those that
take all they can never take everything, and a newcomer always finds some room. From half of that on a connection is
*crowded*: its client is held up by its windows. Beyond it the newest call is refused.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

CALL_BYTES: Final = 8 * 1024
"""What a call takes beside its headers and messages: its stream in h2, its context, its task."""


SHARE: Final = 4
"""A connection may hold what is left to the port, divided by this."""


class MemoryBudget:
    """Bytes that all connections of a port may hold together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.inflating = asyncio.Lock()
        """Held while a message is inflated: one after the other, since that takes time as well as memory."""
        self._observers: dict[object, Callable[[], None]] = {}
        self._is_due = False

    @property
    def free(self) -> int:
        """Bytes that are left; never less than none."""
        return max(0, self.limit - self.used)

    def notify_when_freed(self, who: object, observer: Callable[[], None]) -> None:
        """Call the observer once, in a turn of the loop after some bytes were given back."""
        self._observers[who] = observer

    def forget(self, who: object) -> None:
        """Nobody is to be called any more."""
        self._observers.pop(who, None)

    def give_back(self, size: int) -> None:
        """So many bytes are held no more."""
        self.used -= size
        if self._observers and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        self._is_due = False
        observers, self._observers = self._observers, {}
        for observer in observers.values():
            observer()


class MemoryAccount:
    """What one connection holds. ``limit`` is its own."""

    def __init__(self, budget: MemoryBudget, limit: int) -> None:
        self.held = 0
        self._budget = budget
        self._limit = limit
        self._waiting: list[asyncio.Future[None]] = []
        self._inflating = asyncio.Lock()

    @property
    def is_over(self) -> bool:
        """Whether it holds more than it may."""
        return self.held > self._limit or SHARE * self.held > self._budget.free

    @property
    def is_crowded(self) -> bool:
        """Whether it holds so much that its client should send no more for the moment."""
        return 2 * self.held > self._limit or 2 * SHARE * self.held > self._budget.free

    @property
    def room(self) -> int:
        """Bytes that it may hold beside those that it does; none, or less, when it is over."""
        left = self._budget.limit - self._budget.used
        return min(self._limit - self.held, (left - SHARE * self.held) // (SHARE + 1))

    def take(self, size: int) -> None:
        """Hold so many bytes more. They are there already, so this cannot fail; see :attr:`is_over`."""
        self.held += size
        self._budget.used += size

    def give_back(self, size: int) -> None:
        """Hold so many bytes less."""
        self.held -= size
        self._budget.give_back(size)
        if self._waiting and not self.is_crowded:
            self._wake()

    @asynccontextmanager
    async def inflate(self) -> AsyncIterator[None]:
        """A block in which a message may be inflated. Messages of one connection wait for one another, so that each
        finds room for all of itself, and for those of others only when they have room.
        """
        async with self._inflating:
            await self.wait_uncrowded()
            async with self._budget.inflating:
                yield

    async def wait_uncrowded(self) -> None:
        """Return when there is room for more."""
        while self.is_crowded:
            freed = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            self._budget.notify_when_freed(self, self._wake)
            await freed

    def close(self) -> None:
        """The connection is gone; what it still holds is given back as its handlers end."""
        self._budget.forget(self)
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for freed in waiting:
            if not freed.done():
                freed.set_result(None)

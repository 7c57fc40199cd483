"""How connections share the event loop.

What one read brings may take seconds to handle when it is made of tiny frames. So the frames of all connections of a
port have ``TURN_S`` in a turn of the loop together. A connection that is not done by then is read from no more, and
waits in line for its next slice. Everything else that the loop has to do comes in between, and has as much time: an
answer to somebody else may take several turns of the loop.
"""

import asyncio
from collections import deque
from time import perf_counter
from typing import Final, Protocol

TURN_S: Final = 0.004
"""Seconds for all connections in one turn of the loop."""

SLICE_S: Final = 0.002
"""Seconds for one of them, while others wait."""


class Sliced(Protocol):
    """Somebody with frames to handle."""

    def handle_frames(self, until: float) -> bool:
        """Handle what is there, by ``time.perf_counter`` not much longer than ``until``; whether some is left."""
        ...

    def pause_reading(self) -> None:
        """Take nothing more from the network for now."""
        ...

    def resume_reading(self) -> None:
        """Go on."""
        ...


class FairTurns:
    """The turns of one loop."""

    def __init__(self) -> None:
        self._waiting: deque[Sliced] = deque()
        self._spent = 0.0
        """Seconds in this turn."""
        self._is_due = False

    def handle(self, connection: Sliced) -> None:
        """Handle the frames of a connection: at once if there is time left in this turn, else later."""
        if not self._waiting and self._spent < TURN_S:
            begun = perf_counter()
            is_left = connection.handle_frames(begun + SLICE_S)
            self._spent += perf_counter() - begun
            if not is_left:
                return self._continue_soon()
        connection.pause_reading()
        self._waiting.append(connection)
        return self._continue_soon()

    def _continue_soon(self) -> None:
        """In the next turn; if somebody waits, not before everything else has had as much time as they."""
        if self._is_due:
            return
        self._is_due = True
        loop = asyncio.get_running_loop()
        if self._waiting:
            loop.call_later(self._spent, self._continue)
        else:
            loop.call_soon(self._continue)

    def _continue(self) -> None:
        """A new turn has begun: those who wait are first."""
        self._is_due = False
        self._spent = 0.0
        if not self._waiting:
            return
        begun = now = perf_counter()
        until = begun + TURN_S
        while self._waiting and now < until:
            connection = self._waiting.popleft()
            if connection.handle_frames(min(until, now + SLICE_S)):
                self._waiting.append(connection)
            else:
                connection.resume_reading()
            now = perf_counter()
        self._spent = now - begun
        self._continue_soon()

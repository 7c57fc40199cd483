"""An event loop whose clock jumps: who sleeps on it wakes at once, at the time at which it wanted to."""

import asyncio
import selectors


class JumpingLoop(asyncio.SelectorEventLoop):
    """When there is nothing left to do but to wait, the clock is set to when the wait would end."""

    def __init__(self) -> None:
        self._jumped_s = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Seconds since the loop was made, of which none was waited."""
        return self._jumped_s

    def jump(self, seconds: float) -> None:
        """So much time has passed."""
        self._jumped_s += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> "list[tuple[selectors.SelectorKey, int]]":
        if timeout is None:  # no timer is set: a thread computes
            return super().select(None)
        found = super().select(0)
        if not found and timeout > 0:
            self._loop.jump(timeout)
        return found

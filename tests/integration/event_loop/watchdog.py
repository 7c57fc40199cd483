"""How long an event loop is kept from its other work: by a turn of its own, and by threads that compute for it.

What is measured is processor time, not time on the wall: on a busy machine the process gets little of it, but what
cannot be interrupted takes the same. It is that of the loop's own thread, plus that of the threads to which the service
leaves long computations, from one beat of the loop to the next. These threads share one interpreter with the loop: pure
Python gives it up every 5 ms, a single call of the decoder or a collection of garbage only at its end. What clients and
the parser of HTTP compute on threads of their own does not count.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MAX_HOLD_S: Final = 0.05
"""What no request may exceed (docs/reference/entities.md#limits)."""

BEAT_S: Final = 0.001

ATTEMPTS: Final = 8
"""The best one counts: a turn that was long because caches were cold or neighbours noisy is not long again."""

COMPUTING_THREADS: Final = ("large-input", "disposal")
"""Prefixes of their names (``statewright.loop.background``)."""


class Watchdog:
    """The longest time, in seconds, between two beats of an event loop."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def beat(self) -> None:
        """Measure until cancelled."""
        last = _measure()
        while True:
            await asyncio.sleep(BEAT_S)
            now = _measure()
            self.longest_s, last = max(self.longest_s, now - last), now


def _measure() -> float:
    return time.thread_time() + measure_threads(COMPUTING_THREADS)


def measure_threads(names: tuple[str, ...]) -> float:
    """Processor time so far of the threads whose names begin so. Threads may be added, but never end."""
    clocks = [
        time.pthread_getcpuclockid(thread.ident)
        for thread in threading.enumerate()
        if thread.ident is not None and thread.name.startswith(names)
    ]
    return sum(map(time.clock_gettime, clocks))


@contextmanager
def watch(loop: asyncio.AbstractEventLoop) -> Iterator[Watchdog]:
    """The loop is watched while the block runs."""
    watchdog = Watchdog()
    beating = asyncio.run_coroutine_threadsafe(watchdog.beat(), loop)
    try:
        yield watchdog
        # What was done last is measured by the next beat only.
        asyncio.run_coroutine_threadsafe(asyncio.sleep(2 * BEAT_S), loop).result()
    finally:
        beating.cancel()


def require_free_loop(
    loop: asyncio.AbstractEventLoop, work: Callable[[], object], *, most_s: float = MAX_HOLD_S, name: str = "it"
) -> None:
    """Do something, again when the loop was held for too long meanwhile; it fails when it always was."""
    longest = list[float]()
    while len(longest) < ATTEMPTS:
        with watch(loop) as watchdog:
            work()
        longest.append(watchdog.longest_s)
        if longest[-1] < most_s:
            return
    held = ", ".join(f"{held * 1000:.0f} ms" for held in longest)
    raise AssertionError(f"{name} held the event loop for {held}; {most_s * 1000:.0f} ms are the most")

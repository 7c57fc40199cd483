"""When the process looks for reference cycles.

While the service is loaded, next to nothing becomes garbage, and next to nothing is looked at. What lives when it is
ready is frozen: no collection looks at it again. Young objects are looked at as they
come. Old ones wait for a full collection, which CPython starts by itself only when so many objects have become old that
a service would not see one in days; with the default thresholds full collections would triple the p99 of a read. So one
is made about every minute, and less often when it takes long. It looks at every container, and everything else stands
still meanwhile; so it waits as long as there are large documents in memory, which may have millions of them.
"""

import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from time import perf_counter
from typing import Final

from statewright import logs
from statewright.background import has_large_values, repeat, run_in_background

log = logs.logger(__name__)

THRESHOLDS: Final = (20_000, 4, 1_250)
"""Allocations between collections, and collections of the young and the middle-aged that make one of the next.

The first two bound how many objects a collection looks at while everything else stands still: of the million containers
that a large document may have, a tenth at a time, in some 10 ms.
"""

COLLECT_INTERVAL: Final = timedelta(minutes=1)

MAX_SHARE: Final = 0.0005
"""Of all time, that full collections may take."""


MAX_DELAY_S: Final = 600.0
"""For which large documents put a full collection off: some service always works on one."""


def tune_garbage_collection() -> None:
    """To be called when everything that stays is there. The garbage among it stays, too: it is a hundredth of it, and
    to find it would take a tenth of the start.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class FullCollections:
    """Full collections, not more often than they may be. ``clock`` gives seconds; ``is_crowded`` says whether there are
    large documents in memory.
    """

    def __init__(
        self, clock: Callable[[], float] = perf_counter, is_crowded: Callable[[], bool] = has_large_values
    ) -> None:
        self._clock = clock
        self._is_crowded = is_crowded
        self._next_at = 0.0
        self._delayed_since: float | None = None

    async def collect(self) -> None:
        """Collect all garbage, unless the last time took so long that it is too soon, or now would take too long."""
        begun = self._clock()
        if begun < self._next_at:
            return
        if self._is_crowded():
            self._delayed_since = begun if self._delayed_since is None else self._delayed_since
            if begun - self._delayed_since < MAX_DELAY_S:
                return
        self._delayed_since = None
        found = gc.collect()
        taken = self._clock() - begun
        self._next_at = begun + taken / MAX_SHARE
        log.debug("garbage_collected", objects=found, ms=round(taken * 1000, 1))


@asynccontextmanager
async def collect_garbage(interval: timedelta = COLLECT_INTERVAL) -> AsyncIterator[None]:
    """Full collections are made inside the block."""
    collections = repeat(
        FullCollections().collect, interval, log=log, failure="garbage_collection_failed", waits_first=True
    )
    async with run_in_background({"garbage": collections}):
        yield

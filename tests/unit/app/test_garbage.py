"""Reference cycles do not stay, however old they were when they became garbage."""

import asyncio
import gc
import weakref
from datetime import timedelta

from statewright.app.garbage import MAX_SHARE, THRESHOLDS, FullCollections, collect_garbage


class Knot:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.self = self


def an_old_knot() -> Knot:
    """One that has survived collections of the young."""
    knot = Knot()
    gc.collect(0)
    gc.collect(1)
    return knot


async def test_old_cycles_are_collected_by_and_by():
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        seen = weakref.ref(an_old_knot())
        gc.collect(0)
        gc.collect(1)
        assert seen() is not None, "collections of the young do not look at it"
        async with collect_garbage(timedelta(milliseconds=10)), asyncio.timeout(30):
            while seen() is not None:  # noqa: ASYNC110 - garbage has no event
                await asyncio.sleep(0.01)
    finally:
        gc.set_threshold(*before)


async def test_collections_that_take_long_are_made_less_often():
    times = iter((100.0, 100.1, 160.0, 299.0, 301.0, 301.1))
    made: list[float] = []
    collections = FullCollections(lambda: made.append(now := next(times)) or now)
    for _ in range(4):
        await collections.collect()
    assert MAX_SHARE == 0.0005, "after 0.1 s nothing for 200 s"
    assert made == [100.0, 100.1, 160.0, 299.0, 301.0, 301.1]

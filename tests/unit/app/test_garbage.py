"""Reference cycles do not stay, however old they were when they became garbage."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from datetime import timedelta

import pytest

from statewright.app.service import MAX_DELAY_S, MAX_SHARE, THRESHOLDS, FullCollections, collect_garbage
from statewright.loop.background import MAX_INLINE_BYTES, free_in_parts, has_large_values


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
    collections = FullCollections(lambda: made.append(now := next(times)) or now, lambda: False)
    for _ in range(4):
        await collections.collect()
    assert MAX_SHARE == 0.0005, "after 0.1 s nothing for 200 s"
    assert made == [100.0, 100.1, 160.0, 299.0, 301.0, 301.1]


@pytest.fixture
def no_other_collections() -> Iterator[None]:
    """None that the interpreter makes by itself."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_other_collections")
async def test_large_documents_put_a_collection_off_but_not_for_ever():
    now, crowded = 100.0, True
    collections = FullCollections(lambda: now, lambda: crowded)
    knot = weakref.ref(an_old_knot())
    await collections.collect()
    now += MAX_DELAY_S - 1
    await collections.collect()
    assert knot() is not None
    now += 1
    await collections.collect()
    assert knot() is None

    knot = weakref.ref(an_old_knot())
    await collections.collect()
    assert knot() is not None, "the next one waits, too"
    crowded = False
    await collections.collect()
    assert knot() is None


async def test_a_large_value_is_in_memory_until_it_is_freed():
    value = [{"n": n} for n in range(10)]
    assert not has_large_values()
    free_in_parts(value, MAX_INLINE_BYTES + 1)
    assert has_large_values()
    del value
    async with asyncio.timeout(30):
        while has_large_values():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)

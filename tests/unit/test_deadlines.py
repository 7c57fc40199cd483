"""Deadlines that share timers, and blocks that are limited by them."""

import asyncio

import pytest

from statewright.loop.deadlines import RESOLUTION_S, Deadlines

FOREVER = 60.0


async def test_what_takes_too_long_is_ended_with_a_timeout() -> None:
    with pytest.raises(TimeoutError), Deadlines().limit(0.01):
        await asyncio.sleep(FOREVER)


async def test_what_ends_in_time_is_left_alone() -> None:
    deadlines = Deadlines()
    with deadlines.limit(0.01):
        pass
    await asyncio.sleep(0.03)
    with deadlines.limit(0.01):
        done = True
    assert done


async def test_each_has_the_whole_span_although_they_share_timers() -> None:
    deadlines, clock = Deadlines(), asyncio.get_running_loop().time
    began: dict[int, float] = {}

    async def work(number: int) -> float:
        began[number] = clock()
        with pytest.raises(TimeoutError), deadlines.limit(0.05):
            await asyncio.sleep(FOREVER)
        return clock() - began[number]

    async with asyncio.TaskGroup() as group:
        tasks = []
        for number in range(5):
            tasks.append(group.create_task(work(number)))
            await asyncio.sleep(0.01)
    assert all(task.result() >= 0.049 for task in tasks)
    assert [*began] == sorted(began)


async def test_a_cancellation_from_elsewhere_is_no_timeout() -> None:
    inside = asyncio.Event()

    async def work() -> None:
        with Deadlines().limit(FOREVER):
            inside.set()
            await asyncio.sleep(FOREVER)

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_inside_stays_what_it_is() -> None:
    with pytest.raises(LookupError), Deadlines().limit(FOREVER):
        raise LookupError


async def test_one_inside_another_of_a_longer_span_ends_first() -> None:
    with Deadlines().limit(FOREVER), pytest.raises(TimeoutError), Deadlines().limit(0.01):
        await asyncio.sleep(FOREVER)


class Item:
    def __init__(self) -> None:
        self.expired_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def expire(self) -> None:
        self.expired_at.set_result(asyncio.get_running_loop().time())


async def test_an_item_expires_after_its_deadline_and_never_before():
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    items = {at: Item() for at in (loop.time() + n * RESOLUTION_S / 3 for n in range(12))}
    for at, item in items.items():
        deadlines.add(item, at)
    async with asyncio.timeout(30):
        for at, item in items.items():
            assert await item.expired_at >= at


async def test_a_withdrawn_item_never_expires():
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    withdrawn, later = Item(), Item()
    slot = deadlines.add(withdrawn, loop.time() + RESOLUTION_S)
    deadlines.add(later, loop.time() + 3 * RESOLUTION_S)
    deadlines.discard(withdrawn, slot)
    async with asyncio.timeout(30):
        await later.expired_at
    assert not withdrawn.expired_at.done()
    deadlines.discard(withdrawn, slot)  # once more, when the slot is gone


async def test_a_deadline_in_the_past_is_over_at_once():
    deadlines, item, began = Deadlines(), Item(), asyncio.get_running_loop().time()
    deadlines.add(item, began - 5)
    async with asyncio.timeout(30):
        assert await item.expired_at >= began

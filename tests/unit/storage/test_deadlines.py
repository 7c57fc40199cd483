"""Limits of time that share a timer (storage/deadlines.py)."""

import asyncio

import pytest

from statewright.storage.deadlines import Deadlines

FOREVER = 60.0


async def test_what_takes_too_long_is_ended_with_a_timeout() -> None:
    with pytest.raises(TimeoutError), Deadlines(0.01).limit():
        await asyncio.sleep(FOREVER)


async def test_what_ends_in_time_is_left_alone() -> None:
    deadlines = Deadlines(0.01)
    with deadlines.limit():
        pass
    await asyncio.sleep(0.03)
    with deadlines.limit():
        done = True
    assert done


async def test_each_has_the_whole_span_although_they_share_a_timer() -> None:
    deadlines, clock = Deadlines(0.05), asyncio.get_running_loop().time
    began: dict[int, float] = {}

    async def work(number: int) -> float:
        began[number] = clock()
        with pytest.raises(TimeoutError), deadlines.limit():
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
        with Deadlines(FOREVER).limit():
            inside.set()
            await asyncio.sleep(FOREVER)

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_inside_stays_what_it_is() -> None:
    with pytest.raises(LookupError), Deadlines(FOREVER).limit():
        raise LookupError


async def test_one_inside_another_of_a_longer_span_ends_first() -> None:
    with Deadlines(FOREVER).limit(), pytest.raises(TimeoutError), Deadlines(0.01).limit():
        await asyncio.sleep(FOREVER)

"""Deadlines that share timers."""

import asyncio

from statewright.compute.deadlines import GRAIN, Deadlines


class Item:
    def __init__(self) -> None:
        self.expired_at: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def expire(self) -> None:
        self.expired_at.set_result(asyncio.get_running_loop().time())


async def test_an_item_expires_after_its_deadline_and_never_before():
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    items = {at: Item() for at in (loop.time() + n * GRAIN / 3 for n in range(12))}
    for at, item in items.items():
        deadlines.add(item, at)
    async with asyncio.timeout(30):
        for at, item in items.items():
            assert await item.expired_at >= at


async def test_a_withdrawn_item_never_expires():
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    withdrawn, later = Item(), Item()
    slot = deadlines.add(withdrawn, loop.time() + GRAIN)
    deadlines.add(later, loop.time() + 3 * GRAIN)
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

"""One participant at a time works on a transaction."""

import asyncio

import pytest

from statewright.storage.commit.unit_of_work import Gate, ReleasedGate


async def test_a_participant_waits_until_the_owner_lets_go():
    owner = Gate()
    guest = Gate(owner)
    async with ReleasedGate(owner):
        await guest.take()
        back = asyncio.create_task(owner.take())
        await asyncio.sleep(0)
        assert not back.done()
        guest.release()
        await back
        owner.release()


async def test_participants_follow_each_other():
    owner, order = Gate(), list[int]()

    async def visit(number: int) -> None:
        guest = Gate(owner)
        await guest.take()
        order.append(number)
        await asyncio.sleep(0)
        order.append(number)
        guest.close()

    async with ReleasedGate(owner):
        await asyncio.gather(*map(visit, range(3)))
    assert order == [0, 0, 1, 1, 2, 2]


async def test_a_participant_may_wait_for_one_of_its_own():
    owner = Gate()
    guest, inner = Gate(owner), Gate(owner)
    async with ReleasedGate(owner):
        await guest.take()
        async with ReleasedGate(guest):
            await inner.take()
            inner.close()
        guest.close()


async def test_closing_lets_the_next_one_in_and_may_be_repeated():
    owner = Gate()
    first, second = Gate(owner), Gate(owner)
    owner.release()
    await first.take()
    waiting = asyncio.create_task(second.take())
    first.close()
    first.close()
    await asyncio.wait_for(waiting, 1)


async def test_a_cancelled_callout_does_not_wait_for_the_gate():
    owner = Gate()
    guest = Gate(owner)

    async def ask() -> None:
        async with ReleasedGate(owner):
            await guest.take()
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await ask()


def test_all_have_the_gate_of_the_owner():
    owner = Gate()
    assert owner.owner is Gate(owner).owner is owner

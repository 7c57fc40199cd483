"""What connections may hold, alone and together."""

import asyncio

import pytest

from grpc_h2.memory import MemoryAccount, MemoryBudget

KIB = 1024


def test_a_connection_may_hold_its_limit():
    account = MemoryAccount(MemoryBudget(1000 * KIB), 100 * KIB)
    account.take(100 * KIB)
    assert not account.is_over
    account.take(1)
    assert account.is_over


def test_a_connection_is_crowded_from_half_of_its_limit_on():
    account = MemoryAccount(MemoryBudget(1000 * KIB), 100 * KIB)
    account.take(50 * KIB)
    assert not account.is_crowded
    account.take(1)
    assert account.is_crowded


@pytest.mark.parametrize("greedy", [1, 2, 5, 20])
def test_however_many_take_all_they_can_a_newcomer_finds_room(greedy: int):
    budget = MemoryBudget(1000 * KIB)
    for _ in range(greedy):
        account = MemoryAccount(budget, budget.limit)
        account.take(account.room)
        assert not account.is_over
    newcomer = MemoryAccount(budget, budget.limit)
    assert newcomer.room > KIB
    newcomer.take(newcomer.room)
    assert not newcomer.is_over


def test_what_is_given_back_is_shared_evenly_in_the_end():
    budget = MemoryBudget(1000 * KIB)
    accounts = [MemoryAccount(budget, budget.limit) for _ in range(10)]
    for _ in range(200):
        for account in accounts:
            account.give_back(account.held // 10)
            account.take(max(0, account.room))
    held = [account.held for account in accounts]
    assert max(held) < 2 * min(held)


def test_room_is_what_may_be_taken_without_being_over():
    account = MemoryAccount(MemoryBudget(1000 * KIB), 900 * KIB)
    account.take(account.room)
    assert not account.is_over
    account.take(2)
    assert account.is_over


async def test_who_waits_for_room_is_woken_by_what_others_give_back():
    budget = MemoryBudget(400 * KIB)
    one, other = (MemoryAccount(budget, 100 * KIB) for _ in range(2))
    other.take(300 * KIB)
    one.take(15 * KIB)
    waiting = asyncio.create_task(one.wait_uncrowded())
    await asyncio.sleep(0)
    assert not waiting.done()
    other.give_back(300 * KIB)
    async with asyncio.timeout(30):
        await waiting


async def test_an_observer_is_told_once_however_much_is_given_back():
    budget = MemoryBudget(100)
    account = MemoryAccount(budget, 100)
    account.take(10)
    told: list[str] = []
    budget.notify_when_freed("somebody", lambda: told.append("freed"))
    account.give_back(1)
    account.give_back(1)
    for _ in range(3):
        await asyncio.sleep(0)
    account.give_back(1)
    for _ in range(3):
        await asyncio.sleep(0)
    assert told == ["freed"]

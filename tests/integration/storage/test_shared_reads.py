"""Reads that share a statement (statewright.storage.entities)."""

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from statewright.storage.entities import MAX_BATCH, MAX_IN_FLIGHT, SECOND_BATCH_MIN, SharedReads
from tests.integration.storage.store import Store


class Squares:
    """A table that knows the squares of even numbers; each statement waits until it may go on."""

    def __init__(self) -> None:
        self.statements: list[list[int]] = []
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def fetch(self, connection: asyncpg.Connection, keys: Sequence[int], timeout_s: float) -> dict[int, int]:
        self.statements.append(list(keys))
        self.was_asked.set()
        await self.may_answer.wait()
        found = await connection.fetch("SELECT n, n * n FROM unnest($1::int[]) AS n WHERE n % 2 = 0", keys)
        return dict(tuple(row) for row in found)


@pytest.fixture
def squares() -> Squares:
    return Squares()


@pytest.fixture
def reads(store: Store, squares: Squares) -> SharedReads[int, int]:
    return SharedReads(store.pool, squares.fetch, name="squares")


async def test_who_asks_together_is_answered_by_one_statement(reads: SharedReads[int, int], squares: Squares):
    squares.may_answer.set()
    asked = [reads.ask(n) for n in (2, 3, 4, 2)]
    assert await asyncio.gather(*asked) == [4, None, 16, 4]
    assert squares.statements == [[2, 3, 4]]


async def test_few_that_come_later_wait_for_the_next_statement_together(reads: SharedReads[int, int], squares: Squares):
    first = reads.ask(2)
    await until_sent(squares, 1)
    later = [reads.ask(n) for n in (4, 2)]
    await asyncio.sleep(0)
    assert squares.statements == [[2]]
    squares.may_answer.set()
    assert await asyncio.gather(first, *later) == [4, 16, 4]
    assert squares.statements == [[2], [4, 2]]


async def test_however_many_ask_few_statements_are_on_their_way(reads: SharedReads[int, int], squares: Squares):
    asked = [reads.ask(n) for n in range(MAX_IN_FLIGHT * MAX_BATCH + SECOND_BATCH_MIN)]
    await until_sent(squares, MAX_IN_FLIGHT)
    await asyncio.sleep(0)
    assert list(map(len, squares.statements)) == [MAX_BATCH] * MAX_IN_FLIGHT
    squares.may_answer.set()
    assert [n for n in await asyncio.gather(*asked) if n is not None][:3] == [0, 4, 16]


async def test_a_reader_that_leaves_takes_nobody_with_it(reads: SharedReads[int, int], squares: Squares):
    leaving, staying = reads.ask(2), reads.ask(2)
    leaving.cancel()
    squares.may_answer.set()
    assert await staying == 4


async def test_a_failure_reaches_every_reader_and_the_next_ones_are_answered(store: Store):
    broken = True

    async def fetch(_: asyncpg.Connection, keys: Sequence[int], __: float) -> dict[int, int]:
        if broken:
            raise OSError("gone")
        return {key: key for key in keys}

    reads = SharedReads(store.pool, fetch, name="broken")
    for outcome in await asyncio.gather(reads.ask(1), reads.ask(2), return_exceptions=True):
        assert isinstance(outcome, OSError)
    broken = False
    assert await reads.ask(1) == 1


async def until_sent(squares: Squares, count: int) -> None:
    async with asyncio.timeout(30):
        while len(squares.statements) < count:
            await squares.was_asked.wait()
            squares.was_asked.clear()

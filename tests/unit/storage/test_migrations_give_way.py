"""A migration gives way to the locks of running nodes, and comes to its end all the same: a database in memory, and a
clock that jumps (``storage/migrate.py`` says why).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.engine.simulation.simulator import JumpingLoop
from statewright.storage import migrate
from statewright.storage.migrate import (
    LIMIT_WAITS,
    LOCK_KEY,
    READ_SERVER,
    RECORD,
    RECORD_EXISTS,
    RECORDED,
    TAKE_LOCK,
    TRIES,
    TRY_INTERVAL_S,
    Migration,
    apply_pending,
)


class Database:
    """A database whose tables others have locked when so many migrations are tried: each fails then that gives way."""

    def __init__(self, *refusals: Exception, ends_transaction: bool = False) -> None:
        self.refusals = list(refusals)
        self.tries: list[tuple[str, bool]] = []
        """Each text that was tried, and whether it gave way."""
        self.recorded: dict[int, tuple[str, str]] = {}
        self._has_record = False
        self._gives_way = False
        self._is_locked = False
        self._ends_transaction = ends_transaction

    @asynccontextmanager
    async def transaction(self, *, isolation: str) -> AsyncIterator[None]:
        assert isolation == "read_committed"
        before = dict(self.recorded), self._has_record
        self._gives_way = self._is_locked = False
        try:
            yield
        except BaseException:
            self.recorded, self._has_record = before
            raise

    async def execute(self, text: str, *args: Any) -> None:
        if text == TAKE_LOCK:
            assert args == (LOCK_KEY,)
            self._is_locked = True
            return
        assert self._is_locked, "nothing is looked at or written before the lock is had"
        if text == LIMIT_WAITS:
            self._gives_way = True
        elif text == migrate.CREATE_RECORD:
            self._has_record = True
        elif text == RECORD:
            version, name, checksum = args
            assert version not in self.recorded
            self.recorded[version] = (name, checksum)
        else:
            self.tries.append((text, self._gives_way))
            if self._gives_way and self.refusals:
                raise self.refusals.pop(0)

    async def fetchrow(self, text: str) -> dict[str, object]:
        assert text == READ_SERVER
        return {"version": 180_004, "encoding": "UTF8"}

    async def fetchval(self, text: str) -> bool:
        assert text == RECORD_EXISTS
        assert self._is_locked
        return self._has_record

    async def fetch(self, text: str) -> Sequence[tuple[int, str, str]]:
        assert text == RECORDED
        return [(version, name, checksum) for version, (name, checksum) in self.recorded.items()]

    def is_in_transaction(self) -> bool:
        return not self._ends_transaction


def some_migrations(count: int) -> tuple[Migration, ...]:
    return tuple(Migration(version=n, name=f"000{n}_x.sql", sql=f"-- {n}") for n in range(1, count + 1))


def apply(database: Database, migrations: Sequence[Migration]) -> tuple[list[str], float]:
    """The names of what was applied, and how many seconds passed meanwhile."""
    loop = JumpingLoop()
    try:
        applied = loop.run_until_complete(apply_pending(database, migrations))  # type: ignore[arg-type]
        return [each.name for each in applied], loop.time()
    finally:
        loop.close()


BUSY = asyncpg.LockNotAvailableError("canceling statement due to lock timeout")
DEADLOCK = asyncpg.DeadlockDetectedError("deadlock detected")
busy = st.lists(st.sampled_from([BUSY, DEADLOCK]), max_size=2 * TRIES)


@given(busy, st.integers(0, 3))
def test_whatever_is_locked_all_are_applied_once_and_in_order(refusals: list[Exception], count: int):
    database, migrations = Database(*refusals), some_migrations(count)

    applied, _ = apply(database, migrations)

    assert applied == [each.name for each in migrations]
    assert database.recorded == {each.version: (each.name, each.checksum) for each in migrations}
    texts = [text for text, _ in database.tries]
    assert texts == sorted(texts), "the next begins when the one before is applied"
    for each in migrations:
        assert 1 <= texts.count(each.sql) <= TRIES


def test_the_last_try_waits_for_locks_as_long_as_it_takes():
    database = Database(*[BUSY] * (2 * TRIES))
    applied, waited_s = apply(database, some_migrations(1))
    assert applied == ["0001_x.sql"]
    assert database.tries == [("-- 1", True)] * (TRIES - 1) + [("-- 1", False)]
    assert waited_s == pytest.approx((TRIES - 1) * TRY_INTERVAL_S)


def test_each_migration_has_its_own_tries():
    database = Database(*[BUSY] * (2 * TRIES))
    apply(database, some_migrations(2))
    assert [gives_way for _, gives_way in database.tries].count(False) == 2
    assert len(database.tries) == 2 * TRIES


def test_where_nothing_is_locked_nothing_is_waited_for():
    database = Database()
    assert apply(database, some_migrations(3)) == (["0001_x.sql", "0002_x.sql", "0003_x.sql"], 0)
    assert all(gives_way for _, gives_way in database.tries)


def test_a_migration_that_is_wrong_is_tried_once_and_leaves_no_record():
    database = Database(asyncpg.UndefinedTableError('relation "x" does not exist'))
    with pytest.raises(asyncpg.UndefinedTableError):
        apply(database, some_migrations(2))
    assert (database.tries, database.recorded) == ([("-- 1", True)], {})


def test_a_migration_that_ends_its_transaction_is_not_recorded():
    database = Database(ends_transaction=True)
    with pytest.raises(ValueError, match=r"0001_x\.sql ends its transaction"):
        apply(database, some_migrations(1))
    assert database.recorded == {}


def test_what_another_node_has_applied_while_this_one_waited_is_left():
    database, migrations = Database(BUSY), some_migrations(2)
    database.recorded, database._has_record = {1: (migrations[0].name, migrations[0].checksum)}, True
    applied, _ = apply(database, migrations)
    assert applied == ["0002_x.sql"]
    assert [text for text, _ in database.tries] == ["-- 2", "-- 2"]

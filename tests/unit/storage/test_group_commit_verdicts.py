"""Every submission gets one verdict, whatever happens to its batch: group commit over a database in memory, on a clock
that jumps (``storage/commit/group_commit.py`` says how batches are made and how they fail).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Literal

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from statewright.engine.simulation.simulator import JumpingLoop
from statewright.failures import Conflict, OutcomeUnknown, StorageUnavailable
from statewright.ids import EntityId, TenantId
from statewright.storage.columns import StagedRow
from statewright.storage.commit.group_commit import (
    COMMIT_CONNECTIONS,
    GATHER_WITHIN_S,
    MAX_BATCH,
    MAX_SHARED_ROWS,
    CommitRates,
    GroupCommit,
    PendingCommit,
)
from statewright.storage.commit.overlay import AppliedSubmission, Busy, Stale, Submission
from statewright.storage.commit.statement import MIN_COPY_ROWS, CommitStatement
from statewright.storage.ops.service import MINUTE_US, Rate

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
SEND_WITHIN = timedelta(seconds=8)
LOCK_TIMEOUT = timedelta(seconds=5)

Fault = Literal["none", "slow", "deadlock", "unavailable", "defect"]


class Wanted(Struct, frozen=True, kw_only=True):
    """A transaction that replaces the version it read of some entities. Times in hundredths of a second; ``cut``:
    its client leaves after so long.
    """

    at: int
    entities: frozenset[int]
    rows: int = 1
    cut: int | None = None


def a_row(entity: str, *, transaction: str = "t", expected: str | None = None, **members: Any) -> StagedRow:
    return StagedRow(
        change=members.pop("change", "update"),
        expected=expected,
        events_at=None,
        n=None,
        events=None,
        tenant=members.pop("tenant", ACME),
        id=entity,
        entry_transaction_id=transaction,
        transaction_id=transaction,
        **members,
    )


class Database:
    """Versions of entities, and what goes wrong with the next statements, the last fault for none that follow."""

    def __init__(self, faults: Sequence[Fault] = (), locked: frozenset[int] = frozenset(), until: float = 0.0) -> None:
        self.faults = list(faults)
        self.locked = {str(each) for each in locked}
        self.until = until
        self.versions: dict[str, str] = {}
        self.history: list[tuple[str, str | None, str]] = []
        self.at = 0
        self.under_way: list[Sequence[Submission]] = []
        self.sizes: list[int] = []
        self.began: list[float] = []
        """When each statement began, by the clock of the event loop."""
        self.is_away = False
        self.connections = asyncio.Semaphore(COMMIT_CONNECTIONS)

    @asynccontextmanager
    async def connection(self, **_: object) -> AsyncIterator["Database"]:
        """As a pool lends one."""
        async with self.connections:
            await asyncio.sleep(0.02)
            if self.is_away:
                raise StorageUnavailable
            yield self

    async def apply(self, batch: Sequence[Submission]) -> list[object]:
        """As the commit statement: each submission wholly or not at all, or none where it fails."""
        entities = [row.id for submission in batch for row in submission.rows]
        assert len({*entities}) == len(entities), "submissions of a batch touch disjoint entities"
        self.under_way.append(batch)
        self.sizes.append(len(batch))
        self.began.append(asyncio.get_running_loop().time())
        try:
            fault = self.faults.pop(0) if self.faults else "none"
            await asyncio.sleep(0.3 if fault == "slow" else 0.004)
            if fault == "deadlock":
                raise asyncpg.DeadlockDetectedError
            if fault == "unavailable":
                raise StorageUnavailable
            if fault == "defect":
                raise asyncpg.DataError("a number out of range")
            return [self._apply_one(submission) for submission in batch]
        finally:
            self.under_way.remove(batch)

    def _apply_one(self, submission: Submission) -> object:
        if asyncio.get_running_loop().time() < self.until and {row.id for row in submission.rows} & self.locked:
            return Busy()
        stale = [EntityId(row.id) for row in submission.rows if self.versions.get(row.id) != row.expected]
        if stale:
            return Stale(tuple(stale))
        self.at += 1
        for row in submission.rows:
            assert row.transaction_id is not None
            self.history.append((row.id, row.expected, row.transaction_id))
            self.versions[row.id] = row.transaction_id
        return AppliedSubmission(self.at)


async def apply(_: CommitStatement, connection: Database, batch: Sequence[Submission]) -> list[object]:
    return await connection.apply(batch)


def play(database: Database, wanted: Sequence[Wanted]) -> tuple[list[object], GroupCommit]:
    """What each transaction comes to: a verdict or what was raised."""

    async def commit(group: GroupCommit, number: int, one: Wanted) -> object:
        await asyncio.sleep(one.at / 100)
        expected = {entity: database.versions.get(str(entity)) for entity in one.entities}
        rows = [a_row(str(each), transaction=f"t-{number}", expected=expected[each]) for each in sorted(one.entities)]
        rows += [a_row(f"{number}-{extra}", transaction=f"t-{number}") for extra in range(one.rows - 1)]
        return await group.commit(Submission(rows=rows))

    async def run() -> tuple[list[object], GroupCommit]:
        group = GroupCommit(database, send_within=SEND_WITHIN, lock_timeout=LOCK_TIMEOUT)  # type: ignore[arg-type]
        tasks = [asyncio.ensure_future(commit(group, number, one)) for number, one in enumerate(wanted)]
        for task, one in zip(tasks, wanted, strict=True):
            if one.cut is not None:
                asyncio.get_running_loop().call_later(one.cut / 100, task.cancel)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        await group.drain()
        assert group.waiting == 0
        assert not database.under_way
        return found, group

    loop = JumpingLoop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommitStatement, "apply", apply)
        try:
            return loop.run_until_complete(run())
        finally:
            loop.close()


wanted = st.lists(
    st.builds(
        Wanted,
        at=st.integers(0, 20),
        entities=st.frozensets(st.integers(0, 4), min_size=1, max_size=2),
        rows=st.sampled_from([1, 1, 1, MAX_SHARED_ROWS + 1]),
        cut=st.none() | st.none() | st.integers(0, 40),
    ),
    min_size=1,
    max_size=14,
)
faults: st.SearchStrategy[list[Fault]] = st.lists(
    st.sampled_from(["none", "none", "slow", "deadlock", "unavailable", "defect"]), max_size=6
)


@settings(max_examples=80)
@given(wanted, faults, st.frozensets(st.integers(0, 4), max_size=2))
def test_every_transaction_gets_one_verdict_and_it_is_what_became_of_it(
    wanted: list[Wanted], faults: list[Fault], locked: frozenset[int]
):
    database = Database(faults, locked, until=0.4)

    found, group = play(database, wanted)

    written = {transaction for _, _, transaction in database.history}
    for number, (verdict, one) in enumerate(zip(found, wanted, strict=True)):
        is_written = f"t-{number}" in written
        match verdict:
            case AppliedSubmission():
                assert is_written
            case OutcomeUnknown():
                assert one.cut is not None, "only a client that left on the way is not told"
            case asyncio.CancelledError():
                assert one.cut is not None
                assert not is_written, "who was cancelled before was told that nothing is done"
            case _:
                assert isinstance(verdict, Stale | StorageUnavailable | asyncpg.DataError)
                assert not is_written
    applied = sum(isinstance(verdict, AppliedSubmission) for verdict in found)
    assert group.metrics.conflicts == sum(isinstance(verdict, Stale) for verdict in found)
    assert sum(rate.transactions for rate in group.rates.take().values()) == applied


@settings(max_examples=50)
@given(wanted, faults, st.frozensets(st.integers(0, 4), max_size=2))
def test_no_update_is_lost(wanted: list[Wanted], faults: list[Fault], locked: frozenset[int]):
    database = Database(faults, locked, until=0.4)
    play(database, wanted)
    last: dict[str, str] = {}
    for entity, expected, transaction in database.history:
        assert last.get(entity) == expected, "each version follows the one that its transaction read"
        last[entity] = transaction


def test_what_becomes_ready_in_one_turn_travels_together():
    database = Database()
    found, _ = play(database, [Wanted(at=0, entities=frozenset({number})) for number in range(MAX_BATCH + 3)])
    assert all(isinstance(verdict, AppliedSubmission) for verdict in found)
    assert sorted(database.sizes) == [3, MAX_BATCH]


@pytest.mark.parametrize(
    ("active", "sizes"),
    [(20, [12]), (1, [1, 11]), (0, [1, 11])],
    ids=["others are at work", "nobody else", "nobody"],
)
def test_a_batch_waits_while_others_are_at_work_and_each_turn_brings_one(active: int, sizes: list[int]):
    assert commit_in_turns(range(12), active=active) == sizes


def test_a_batch_does_not_wait_for_transactions_that_bring_nothing():
    assert commit_in_turns([0, 0, 0, *range(5, 12)], active=1000) == [3, 7]


def test_a_full_batch_leaves_whoever_is_at_work():
    assert commit_in_turns(range(MAX_BATCH + 3), active=1000) == [MAX_BATCH, 3]


def test_a_batch_waits_for_few_turns_where_these_are_long():
    first, *_ = sizes = commit_in_turns(range(12), active=1000, turn_s=GATHER_WITHIN_S / 4)
    assert first == 4
    assert sum(sizes) == 12


def commit_in_turns(turns: Sequence[int], *, active: int, turn_s: float = 0.0) -> list[int]:
    """The sizes of the batches of transactions that are ready after so many turns of the loop, with so many open."""
    database = Database()

    async def commit(group: GroupCommit, number: int, turn: int) -> None:
        for _ in range(turn):
            await asyncio.sleep(0)
        await group.commit(Submission(rows=[a_row(str(number), transaction=f"t-{number}")]))

    async def run() -> None:
        group = GroupCommit(database, send_within=SEND_WITHIN, lock_timeout=LOCK_TIMEOUT)  # type: ignore[arg-type]
        group.metrics.active = active
        commits = asyncio.gather(*(commit(group, number, turn) for number, turn in enumerate(turns)))
        while turn_s and not commits.done():
            loop.jump(turn_s)
            await asyncio.sleep(0)
        await commits

    loop = JumpingLoop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommitStatement, "apply", apply)
        try:
            loop.run_until_complete(run())
        finally:
            loop.close()
    return database.sizes


def test_a_submission_that_a_statement_fails_for_fails_alone():
    database = Database(["defect", "none", "defect", "none"])
    found, _ = play(database, [Wanted(at=0, entities=frozenset({number})) for number in range(3)])
    assert [type(verdict) for verdict in found] == [AppliedSubmission, asyncpg.DataError, AppliedSubmission]
    assert database.sizes == [3, 1, 1, 1]


def test_a_large_submission_goes_alone_and_keeps_no_small_one_waiting():
    database = Database(["slow"])
    large = Wanted(at=0, entities=frozenset({0}), rows=MAX_SHARED_ROWS + 1)
    small = [Wanted(at=1, entities=frozenset({number})) for number in (1, 2)]
    play(database, [large, *small])
    assert [transaction for _, _, transaction in database.history][:2] == ["t-1", "t-2"]
    assert database.sizes == [1, 2]
    assert database.began == pytest.approx([0.02, 0.03]), "as soon as there is a connection"


@pytest.mark.parametrize(("held_s", "verdict"), [(4.0, AppliedSubmission), (7.0, Conflict)])
def test_an_entity_that_others_have_locked_is_waited_for_so_long_and_no_longer(held_s: float, verdict: type):
    database = Database(locked=frozenset({0}), until=held_s)
    found, _ = play(database, [Wanted(at=0, entities=frozenset({number})) for number in range(2)])
    assert [type(each) for each in found] == [verdict, AppliedSubmission]


def test_a_database_that_is_away_is_told_to_everybody_who_waits():
    database = Database()
    database.is_away = True
    found, _ = play(database, [Wanted(at=number, entities=frozenset({number})) for number in range(3)])
    assert [type(each) for each in found] == [StorageUnavailable] * 3


def test_two_that_touch_the_same_entity_leave_one_after_the_other():
    database = Database()
    found, _ = play(database, [Wanted(at=0, entities=frozenset({0})), Wanted(at=0, entities=frozenset({0, 1}))])
    assert [type(each) for each in found] == [AppliedSubmission, Stale]
    assert found[1] == Stale((EntityId("0"),))
    assert database.sizes == [1, 1]


rates = st.lists(
    st.tuples(st.sampled_from([ACME, GLOBEX]), st.integers(0, 3 * MINUTE_US), st.integers(0, 3), st.booleans()),
    max_size=8,
)


@settings(max_examples=50)
@given(rates, rates)
def test_what_could_not_be_stored_is_counted_again_with_what_came_since(
    before: list[tuple[TenantId, int, int, bool]], after: list[tuple[TenantId, int, int, bool]]
):
    def count(into: CommitRates, commits: list[tuple[TenantId, int, int, bool]]) -> CommitRates:
        for tenant, at, versions, reads in commits:
            rows = [a_row(str(number), tenant=tenant) for number in range(versions)]
            into.count([*rows, *([a_row("r", tenant=tenant, change="read")] if reads else [])], at)
        return into

    interrupted = count(CommitRates(), before)
    taken = interrupted.take()
    assert interrupted.take() == {}
    count(interrupted, after).give_back(taken)

    expected: dict[tuple[TenantId, int], Rate] = {}
    for tenant, at, versions, _ in [*before, *after]:
        if versions:
            rate = expected.setdefault((tenant, at // MINUTE_US), Rate())
            rate.transactions += 1
            rate.versions += versions
    assert interrupted.take() == expected


@pytest.mark.parametrize(
    ("rows", "is_large", "is_bulk"),
    [
        ([a_row(str(number)) for number in range(MAX_SHARED_ROWS)], False, False),
        ([a_row(str(number)) for number in range(MAX_SHARED_ROWS + 1)], True, False),
        ([a_row(str(number), change="create") for number in range(MIN_COPY_ROWS)], True, True),
        ([a_row(str(number), change="create") for number in range(MIN_COPY_ROWS - 1)], True, False),
        ([*[a_row(str(number), change="create") for number in range(MIN_COPY_ROWS)], a_row("u")], True, False),
        ([a_row("e", document="x" * 64 * 1024)], False, False),
        ([a_row("e", document="x" * (64 * 1024 + 1))], True, False),
    ],
    ids=["20 rows", "21 rows", "60 creations", "59 creations", "60 and an update", "64 KiB", "more"],
)
async def test_what_is_large_travels_alone_and_many_creations_are_copied(
    rows: list[StagedRow], is_large: bool, is_bulk: bool
):
    pending = PendingCommit(Submission(rows=rows), asyncio.get_running_loop().create_future(), 0.0)
    assert (pending.is_large, pending.is_bulk) == (is_large, is_bulk)

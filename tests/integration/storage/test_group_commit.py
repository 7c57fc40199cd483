"""Transactions that share a statement and nothing else (the prose of statewright.storage.commit.group_commit)."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from msgspec.structs import replace

from statewright.failures import Conflict, OutcomeUnknown, StorageUnavailable
from statewright.storage.commit import group_commit, statement
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.pool import ConnectionLost
from tests.database import connected
from tests.integration.storage.network import a_network
from tests.integration.storage.store import (
    Store,
    a_store,
    assert_histories_are_whole,
    data_of,
    fetch,
    rewrite,
    scalar,
)

PATIENCE_S = 15


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Wait until a question is answered with yes."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            pass


async def statements(store: Store) -> dict[str, str]:
    """The number of the statement that wrote each current version, by entity."""
    return {str(row["id"]): str(row["xmin"]) for row in await fetch(store, "SELECT id, xmin FROM entity")}


def blocked(store: Store, count: int = 1) -> Callable[[], Awaitable[bool]]:
    """Whether so many commits wait for a row."""

    async def ask() -> bool:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(await scalar(store, waiting) >= count)

    return ask


END_BLOCKED = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
"""Ends the sessions that wait for a lock: those of this test alone, since tests share a server."""

NO_COMMITS = "SELECT pg_advisory_xact_lock(5371, 1)"
"""Holds the fence (storage/entities.py), so that every commit waits in the middle of its statement."""


async def test_what_becomes_ready_together_shares_one_statement(store: Store):
    units = [store.unit() for _ in range(20)]
    for unit in units:
        store.new(unit)
    await asyncio.gather(*(unit.commit() for unit in units))
    assert len(set((await statements(store)).values())) == 1


async def test_more_than_a_batch_is_written_in_several_statements(store: Store):
    units = [store.unit() for _ in range(group_commit.MAX_BATCH * 3)]
    for unit in units:
        store.new(unit)
    await asyncio.gather(*(unit.commit() for unit in units))
    written = await statements(store)
    assert len(written) == len(units)
    assert len(set(written.values())) == 3


async def test_each_transaction_has_an_instant_of_its_own_verdict(store: Store):
    units = [store.unit() for _ in range(10)]
    made = [store.new(unit) for unit in units]
    instants = await asyncio.gather(*(unit.commit() for unit in units))
    stored = {str(row["id"]): row["valid_from"] for row in await fetch(store, "SELECT id, valid_from FROM entity")}
    assert [stored[entity.id] for entity in made] == instants


async def test_a_conflict_in_one_leaves_the_others_of_its_statement_untouched(store: Store):
    stale, fresh = await store.created({"n": 0}), await store.created({"n": 0})
    losing, winning = store.unit(), store.unit()
    await rewrite(losing, stale, {"n": 1})
    new = store.new(losing)
    await rewrite(winning, fresh, {"n": 1})
    await store.change(stale, {"n": 7})
    statement = await asyncio.gather(losing.commit(), winning.commit(), return_exceptions=True)
    assert isinstance(statement[0], Conflict)
    assert isinstance(statement[1], int)
    reader = store.unit()
    assert [await data_of(reader, id_) for id_ in (stale, fresh, new.id)] == [{"n": 7}, {"n": 1}, None]


async def test_a_transaction_that_builds_on_one_still_waiting_is_written_after_it(store: Store):
    """Two submissions on one entity in the same turn: the second waits for the next batch, which is no conflict."""
    entity = await store.created({"n": 0})
    first, second = store.unit(), store.unit()
    version = await rewrite(first, entity, {"n": 1})
    second.expect(entity, first.id)
    second.save(replace(version, document='{"n": 2}', transaction_id=second.id, entry_transaction_id=second.id))
    bystander = store.unit()
    store.new(bystander)
    statement = await asyncio.gather(first.commit(), second.commit(), bystander.commit())
    assert all(isinstance(outcome, int) for outcome in statement)
    assert await data_of(store.unit(), entity) == {"n": 2}
    assert len((await assert_histories_are_whole(store))[entity]) == 3


async def test_collisions_are_judged_by_version_and_not_by_company(store: Store):
    entity = await store.created({"n": 0})
    units = [store.unit() for _ in range(8)]
    for n, unit in enumerate(units):
        await rewrite(unit, entity, {"n": n})
    statement = await asyncio.gather(*(unit.commit() for unit in units), return_exceptions=True)
    assert isinstance(statement[0], int), "the first to ask is the first to commit"
    assert all(isinstance(outcome, Conflict) for outcome in statement[1:])
    assert await data_of(store.unit(), entity) == {"n": 0}


@pytest.mark.parametrize("poison", ['{"n": ', '"\\u0000"', '{"n": 1e999999}'])
async def test_a_member_that_the_database_refuses_fails_alone(store: Store, poison: str):
    units = [store.unit() for _ in range(9)]
    made = [store.new(unit) for unit in units]
    units[4].create(replace(made[4], document=poison))
    statement = await asyncio.gather(*(unit.commit() for unit in units), return_exceptions=True)
    assert [isinstance(outcome, int) for outcome in statement] == [n != 4 for n in range(9)]
    assert isinstance(statement[4], Exception)
    assert set(await statements(store)) == {entity.id for n, entity in enumerate(made) if n != 4}


async def test_a_poisoned_member_that_is_alone_leaves_nothing(store: Store):
    unit = store.unit()
    entity = store.new(unit)
    unit.create(replace(entity, document="{"))
    with pytest.raises(Exception, match="json"):
        await unit.commit()
    assert await statements(store) == {}


async def test_a_large_transaction_goes_alone_and_whole(store: Store):
    small, large = store.unit(), store.unit()
    store.new(small)
    for n in range(500):
        store.new(large, {"n": n})
    await asyncio.gather(small.commit(), large.commit())
    written = await statements(store)
    assert len(written) == 501
    assert len(set(written.values())) == 2


async def test_small_transactions_leave_beside_large_ones(store: Store, monkeypatch: pytest.MonkeyPatch):
    apply, arrived, released = statement.CommitStatement.apply, asyncio.Semaphore(0), asyncio.Event()

    async def hold_large_ones(self: statement.CommitStatement, connection: Any, submissions: Any) -> Any:
        if len(submissions[0].rows) > group_commit.MAX_SHARED_ROWS:
            arrived.release()
            await released.wait()
        return await apply(self, connection, submissions)

    monkeypatch.setattr(statement.CommitStatement, "apply", hold_large_ones)
    existing = [await store.created({"n": n}) for n in range(4 * group_commit.MAX_SHARED_ROWS)]
    large = [store.unit() for _ in range(3)]
    for unit, share in zip(large, (existing[:25], existing[25:50], existing[50:75]), strict=True):
        for entity in share:
            await rewrite(unit, entity, {"n": -1})
    committing: list[asyncio.Task[Any]] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            for unit in large[: group_commit.MAX_IN_FLIGHT]:
                committing.append(asyncio.create_task(unit.commit()))
                await arrived.acquire()
            committing += [asyncio.create_task(unit.commit()) for unit in large[group_commit.MAX_IN_FLIGHT :]]
            made = [await store.created({"n": n}) for n in range(3)]
        assert not any(task.done() for task in committing)
    finally:
        released.set()
    assert {str(entity) for entity in made} <= set(await statements(store))
    await asyncio.gather(*committing)
    assert [
        await scalar(store, "SELECT document->>'n' FROM entity WHERE id = $1", entity) for entity in existing[:75]
    ] == ["-1"] * 75


async def test_a_caller_that_is_cancelled_while_it_waits_writes_nothing(store: Store):
    units = [store.unit() for _ in range(3)]
    made = [store.new(unit) for unit in units]
    tasks = [asyncio.create_task(unit.commit()) for unit in units]
    await asyncio.sleep(0)  # they are queued now, and sent at the end of this turn
    tasks[1].cancel()
    statement = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(statement[1], asyncio.CancelledError)
    assert set(await statements(store)) == {made[0].id, made[2].id}


async def test_a_caller_that_is_cancelled_before_its_batch_has_a_connection_writes_nothing(database: str):
    async with a_store(database, lock_timeout=False, connections=1) as store:
        units = [store.unit() for _ in range(3)]
        made = [store.new(unit) for unit in units]
        async with connected(database) as blocker, blocker.transaction():
            await blocker.execute(NO_COMMITS)
            tasks = [asyncio.create_task(units[0].commit())]
            await until(blocked(store))
            tasks += [asyncio.create_task(unit.commit()) for unit in units[1:]]
            await asyncio.sleep(0)  # they are queued now
            await until(lambda: asyncio.sleep(0.01, store.commits.waiting == 0))
            tasks[1].cancel()
            await asyncio.wait(tasks[1:2])
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [int, asyncio.CancelledError, int]
        assert set(await statements(store)) == {made[0].id, made[2].id}


async def test_a_caller_that_is_cancelled_too_late_takes_nobody_along(patient_store: Store):
    store = patient_store
    entity = await store.created({"n": 0})
    units = [store.unit() for _ in range(3)]
    for unit in units[:2]:
        store.new(unit)
    await rewrite(units[2], entity, {"n": 1})
    async with connected(store.url) as blocker, blocker.transaction():
        await blocker.execute(NO_COMMITS)
        tasks = [asyncio.create_task(unit.commit()) for unit in units]
        await until(blocked(store))
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
    statement = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in statement] == [OutcomeUnknown, int, int]
    assert len(await statements(store)) == 3


async def test_a_backend_that_is_ended_in_the_middle_has_written_nothing_and_says_so(patient_store: Store):
    store = patient_store
    entity = await store.created({"n": 0})
    unit = store.unit()
    await rewrite(unit, entity, {"n": 1})
    async with connected(store.url) as blocker, blocker.transaction():
        await blocker.execute(NO_COMMITS)
        task = asyncio.create_task(unit.commit())
        await until(blocked(store))
        await fetch(store, END_BLOCKED)
        with pytest.raises(StorageUnavailable):
            await task
    assert await data_of(store.unit(), entity) == {"n": 0}
    await store.change(entity, {"n": 2})
    assert len((await assert_histories_are_whole(store))[entity]) == 2


async def test_a_commit_whose_answer_was_lost_is_looked_up(database: str):
    """The statement commits, and the network breaks before its answer arrives: the caller is told the truth."""
    async with a_network(database) as network, a_store(network.url, tables=database) as store:
        entity, doomed = await store.created({"n": 0}), await store.created({"n": 0})
        await commit_each_form(store)
        updating, creating, deleting = store.unit(), store.unit(), store.unit()
        await rewrite(updating, entity, {"n": 1})
        new = store.new(creating)
        victim = await deleting.get_entity(doomed)
        assert victim is not None
        deleting.delete(victim)
        network.mute()
        tasks = [asyncio.create_task(unit.commit()) for unit in (updating, creating, deleting)]
        await until(lambda: written_by(store, creating))
        network.cut()
        instants = await asyncio.gather(*tasks)
        assert all(isinstance(instant, int) for instant in instants)
        chains = await assert_histories_are_whole(store)
        assert [chains[id_][-1]["valid_from"] for id_ in (entity, new.id, doomed)] == instants


async def test_a_conflict_whose_answer_was_lost_is_not_told_as_a_success(database: str):
    async with a_network(database) as network, a_store(network.url, tables=database) as store:
        entity = await store.created({"n": 0})
        losing, winning = store.unit(), store.unit()
        await rewrite(losing, entity, {"n": 1})
        store.new(winning)
        await store.change(entity, {"n": 7})
        await commit_each_form(store)
        network.mute()
        tasks = [asyncio.create_task(unit.commit()) for unit in (losing, winning)]
        await until(lambda: written_by(store, winning))
        network.cut()
        statement = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(statement[0], Conflict | StorageUnavailable)
        assert isinstance(statement[1], int)
        assert await data_of(store.unit(), entity) == {"n": 7}


async def commit_each_form(store: Store) -> None:
    """Of the commit statement: that for new entities, that for updates, and those for several kinds of writes. A
    connection that is muted afterwards prepares no other.
    """
    entity = await store.created({"n": 0})
    await store.change(entity, {"n": 1})
    creating, updating = store.unit(), store.unit()
    store.new(creating)
    await rewrite(updating, entity, {"n": 2})
    await asyncio.gather(creating.commit(), updating.commit())
    creating, deleting = store.unit(), store.unit()
    store.new(creating)
    victim = await deleting.get_entity(entity)
    assert victim is not None
    deleting.delete(victim)
    await asyncio.gather(creating.commit(), deleting.commit())


async def written_by(store: Store, unit: UnitOfWork) -> bool:
    """Whether a current version is the unit's."""
    return bool(await scalar(store, "SELECT count(*) FROM entity WHERE transaction_id = $1", unit.id))


async def test_a_database_that_cannot_be_reached_is_told_and_recovered_from(database: str):
    async with a_network(database) as network, a_store(network.url, tables=database) as store:
        entity = await store.created({"n": 0})
        await commit_each_form(store)
        network.mute()
        unit = store.unit()
        await rewrite(unit, entity, {"n": 1})
        task = asyncio.create_task(unit.commit())
        await until(lambda: written_by(store, unit))
        network.cut()
        assert isinstance(await task, int)
        assert await data_of(store.unit(), entity) == {"n": 1}
        await store.change(entity, {"n": 2})


async def test_an_outcome_that_cannot_be_looked_up_is_told_as_unknown(database_server: str, database: str):
    name = urlsplit(database).path[1:]
    async with (
        a_store(database, lock_timeout=False, answer_within=timedelta(seconds=2)) as store,
        connected(store.url) as blocker,
        blocker.transaction(),
        connected(database_server) as admin,
    ):
        unit = store.unit()
        store.new(unit)
        await blocker.execute(NO_COMMITS)
        task = asyncio.create_task(unit.commit())
        await until(blocked(store))
        await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        await blocker.execute(END_BLOCKED)
        with pytest.raises(OutcomeUnknown, match=unit.id) as unknown:
            await task
        await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    assert not unknown.value.retryable
    assert unknown.value.properties == {"transactionId": unit.id}


async def test_a_whole_batch_is_looked_up_as_soon_as_the_database_can_be_asked(database_server: str, database: str):
    """It lets nobody in for a while, as after a crash; some of the batch were applied, and others had conflicts."""
    name = urlsplit(database).path[1:]
    async with a_network(database) as network, a_store(network.url, tables=database) as store:
        stale = await store.created({"n": 0})
        units = [store.unit() for _ in range(6)]
        for unit in units[:5]:
            store.new(unit)
        await rewrite(units[5], stale, {"n": 1})
        await store.change(stale, {"n": 7})
        await commit_each_form(store)
        network.mute()
        tasks = [asyncio.create_task(unit.commit()) for unit in units]
        await until(lambda: written_by(store, units[0]))
        async with connected(database_server) as admin:
            await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            network.cut()
            before = network.connections
            await until(lambda: asyncio.sleep(0.01, network.connections > before + 1))  # turned away, and back
            assert not any(task.done() for task in tasks)
            await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        statement = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in statement[:5]] == [int] * 5
        assert isinstance(statement[5], StorageUnavailable | Conflict)
        assert await data_of(store.unit(), stale) == {"n": 7}


async def test_only_the_very_backend_that_was_lost_is_ended(database: str):
    """A number may have been given to another backend since, even to the one that asks."""
    async with connected(database) as asking, connected(database) as other:
        lost = [ConnectionLost(each.get_server_pid(), datetime(2020, 1, 1, tzinfo=UTC)) for each in (asking, other)]
        started = await asking.fetchval("SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())")
        for each in (*lost, ConnectionLost(asking.get_server_pid(), started)):
            await statement.end_backend(asking, each)
        assert await asking.fetchval("SELECT 1") == await other.fetchval("SELECT 1") == 1
        started = await other.fetchval("SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())")
        await statement.end_backend(asking, ConnectionLost(other.get_server_pid(), started))
        # The driver has a fourth word for it, when the server's last message arrives while the statement is being sent.
        gone = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
        with pytest.raises(gone):
            await other.fetchval("SELECT 1")


async def test_a_backend_that_was_killed_is_waited_for(database: str):
    """Its process is gone, and what it was committing is in doubt until the server has recovered. A server of which one
    process has just been killed cannot be held there, so the function that looks for the process is replaced.
    """
    async with connected(database) as asking, connected(database) as other:
        await asking.execute(
            "CREATE SCHEMA killed;"
            "CREATE FUNCTION killed.pg_terminate_backend(integer, bigint) RETURNS boolean RETURN true;"
            "SET search_path = killed, pg_catalog"
        )
        started = await other.fetchval("SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())")
        with pytest.raises(statement.BackendAlive):
            await statement.end_backend(asking, ConnectionLost(other.get_server_pid(), started))


async def test_draining_waits_for_every_verdict(store: Store):
    units = [store.unit() for _ in range(100)]
    for unit in units:
        store.new(unit)
    tasks = [asyncio.create_task(unit.commit()) for unit in units]
    await asyncio.sleep(0)
    await store.commits.drain()
    assert store.commits.waiting == 0
    assert await scalar(store, "SELECT count(*) FROM entity") == 100
    await asyncio.gather(*tasks)


async def test_updates_stay_on_their_page(database: str):
    """HOT updates: at least 95 of 100, or the indexes of the table grow with every version."""
    dice = random.Random(7)
    async with connected(database) as observer, a_store(database) as store:

        async def undisturbed() -> bool:
            return bool(await observer.fetchval(UNDISTURBED))

        known = list(await asyncio.gather(*(store.created({"n": 0, "text": "x" * 300}) for _ in range(400))))
        for round_ in range(60):
            await until(undisturbed)
            chosen = dice.sample(known, 25)
            await asyncio.gather(*(store.change(entity, {"n": round_, "text": "y" * 300}) for entity in chosen))
    # A backend reports what it did at the latest when it ends.
    async with connected(database) as connection:

        async def reported() -> bool:
            await connection.execute("SELECT pg_stat_clear_snapshot()")
            return bool(await connection.fetchval(UPDATES) == 60 * 25)

        await until(reported)
        assert await connection.fetchval(HOT_SHARE) >= 0.95


UNDISTURBED = """
    -- A page is not pruned, and its updates are not HOT, while an older transaction lasts: a vacuum's, or one another
    -- test's in its database, since the oldest transaction of the whole server has to move on first.
    SELECT NOT EXISTS (SELECT FROM pg_stat_activity
                        WHERE pid <> pg_backend_pid() AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL))
"""
UPDATES = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'entity'"
HOT_SHARE = "SELECT n_tup_hot_upd::float / n_tup_upd FROM pg_stat_user_tables WHERE relname = 'entity'"

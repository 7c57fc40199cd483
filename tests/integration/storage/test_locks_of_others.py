"""Commits that need what somebody else holds: they are held up, and nobody else (the prose of group_commit)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest

from statewright.failures import Conflict, UniqueViolation
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonValue
from statewright.schema import ChangeLevel, Claim, Extender, infer, schema_to_stored
from statewright.storage.commit.growth import READ_MODELS, Growth, write_growing
from statewright.storage.commit.overlay import hash_claim
from statewright.storage.commit.unit_of_work import UnitOfWork
from tests.database import connected
from tests.integration.storage.store import (
    ACME,
    MODEL,
    Store,
    a_store,
    assert_histories_are_whole,
    data_of,
    rewrite,
    scalar,
)
from tests.integration.storage.test_group_commit import blocked, until

LOCK_ROWS = "SELECT FROM entity WHERE id = ANY($1::uuid[]) FOR UPDATE"
LONG = timedelta(minutes=5)
"""Longer than any test: who is held up stays so until the test lets go."""

KEY = Claim(key_id="number", values=b"1")


@asynccontextmanager
async def somebody(store: Store) -> AsyncIterator[asyncpg.Connection]:
    """A session of somebody else with an open transaction."""
    async with connected(store.url) as connection, connection.transaction():
        yield connection


@pytest.fixture
async def waiting_store(database: str) -> AsyncIterator[Store]:
    async with a_store(database, patience=LONG) as store:
        yield store


async def others_pass(store: Store) -> None:
    """Commits of somebody else go through, one after the other and side by side."""
    for _ in range(5):
        await store.created()
    entities = await asyncio.gather(*(store.created({"n": 0}) for _ in range(40)))
    await asyncio.gather(*(store.change(entity, {"n": 1}) for entity in entities))


async def test_commits_on_locked_entities_hold_nobody_up(waiting_store: Store):
    store = waiting_store
    entities = [await store.created({"n": 0}) for _ in range(5)]
    units = [store.unit() for _ in entities]
    for unit, entity in zip(units, entities, strict=True):
        await rewrite(unit, entity, {"n": 1})
        store.new(unit)
    async with somebody(store) as blocker:
        await blocker.execute(LOCK_ROWS, entities)
        tasks = [asyncio.create_task(unit.commit()) for unit in units]
        await others_pass(store)
        assert not any(task.done() for task in tasks)
    await asyncio.gather(*tasks)
    assert [await data_of(store.unit(), entity) for entity in entities] == [{"n": 1}] * 5
    await assert_histories_are_whole(store)


async def test_a_locked_entity_among_those_of_a_batch_holds_up_its_own_transaction_only(waiting_store: Store):
    store = waiting_store
    locked, free = await store.created({"n": 0}), [await store.created({"n": 0}) for _ in range(9)]
    units = [store.unit() for _ in range(10)]
    for unit, entity in zip(units, [*free, locked], strict=True):
        await rewrite(unit, entity, {"n": 1})
    async with somebody(store) as blocker:
        await blocker.execute(LOCK_ROWS, [locked])
        tasks = [asyncio.create_task(unit.commit()) for unit in units]
        await asyncio.gather(*tasks[:9])
        assert not tasks[9].done()
    await tasks[9]


async def test_what_is_changed_while_it_is_waited_for_is_a_conflict(waiting_store: Store):
    store = waiting_store
    entity = await store.created({"n": 0})
    unit = store.unit()
    await rewrite(unit, entity, {"n": 1})
    async with somebody(store) as other:
        await other.execute("UPDATE entity SET transaction_id = gen_random_uuid() WHERE id = $1", entity)
        task = asyncio.create_task(unit.commit())
        await others_pass(store)
        assert not task.done()
    with pytest.raises(Conflict):
        await task


async def test_what_is_deleted_while_it_is_waited_for_is_a_conflict(waiting_store: Store):
    store = waiting_store
    entity = await store.created({"n": 0})
    unit = store.unit()
    await rewrite(unit, entity, {"n": 1})
    async with somebody(store) as other:
        await other.execute("DELETE FROM entity WHERE id = $1", entity)
        task = asyncio.create_task(unit.commit())
        await others_pass(store)
        assert not task.done()
    with pytest.raises(Conflict):
        await task


async def test_patience_has_an_end_that_a_client_may_retry_after(database: str):
    async with a_store(database, patience=timedelta(milliseconds=100)) as store:
        entity = await store.created({"n": 0})
        unit = store.unit()
        await rewrite(unit, entity, {"n": 1})
        async with somebody(store) as blocker:
            await blocker.execute(LOCK_ROWS, [entity])
            with pytest.raises(Conflict) as refused:
                await unit.commit()
            assert refused.value.retryable
        assert await data_of(store.unit(), entity) == {"n": 0}
        await store.change(entity, {"n": 2})


async def test_a_stale_version_is_told_although_another_entity_is_locked(waiting_store: Store):
    store = waiting_store
    stale, locked = await store.created({"n": 0}), await store.created({"n": 0})
    unit = store.unit()
    await rewrite(unit, stale, {"n": 1})
    await rewrite(unit, locked, {"n": 1})
    await store.change(stale, {"n": 2})
    async with somebody(store) as blocker:
        await blocker.execute(LOCK_ROWS, [locked])
        with pytest.raises(Conflict):
            await unit.commit()


async def test_a_cancelled_caller_is_not_tried_again(waiting_store: Store):
    store = waiting_store
    entity = await store.created({"n": 0})
    unit = store.unit()
    await rewrite(unit, entity, {"n": 1})
    async with somebody(store) as blocker:
        await blocker.execute(LOCK_ROWS, [entity])
        task = asyncio.create_task(unit.commit())
        await others_pass(store)
        task.cancel()
        await asyncio.wait([task])
        await store.commits.drain()  # an attempt that is on its way cannot be taken back: it finds the lock
    await others_pass(store)
    assert await data_of(store.unit(), entity) == {"n": 0}
    await store.change(entity, {"n": 2})


TAKE = "INSERT INTO unique_claim (tenant, hash, entity) VALUES ($1, $2, gen_random_uuid())"


async def test_a_claim_that_somebody_is_just_taking_holds_nobody_else_up(waiting_store: Store):
    store = waiting_store
    await store.created()
    async with somebody(store) as other:
        await other.execute(TAKE, ACME, hash_claim(MODEL, KEY))
        tasks = []
        for _ in range(3):
            unit = store.unit()
            unit.create(store.new(unit), claims=[KEY])
            tasks.append(asyncio.create_task(unit.commit()))
            await until(blocked(store))
        await others_pass(store)
        assert not any(task.done() for task in tasks)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [UniqueViolation] * 3


async def test_models_that_somebody_is_changing_hold_up_their_own_growth_only(waiting_store: Store):
    store = waiting_store
    await a_growing_model(store)
    async with somebody(store) as other:
        await other.execute("SELECT FROM model FOR UPDATE")
        tasks = []
        for n in range(3):
            unit = store.unit()
            store.new(unit, {"n": n, f"m{n}": n})
            teach(unit, {"n": n, f"m{n}": n})
            tasks.append(asyncio.create_task(unit.commit()))
        await until(blocked(store))
        await others_pass(store)
        assert not any(task.done() for task in tasks)
    await asyncio.gather(*tasks)
    known = await scalar(store, "SELECT schema::text FROM model")
    assert all(f"m{n}" in known for n in range(3))


class OvertakenConnection:
    """A connection to a database where somebody else changes a model that was read, unless it is locked."""

    def __init__(self, connection: asyncpg.Connection, other: asyncpg.Connection) -> None:
        self._connection = connection
        self._other = other

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    async def fetch(self, query: str, *args: object) -> list[asyncpg.Record]:
        rows = await self._connection.fetch(query, *args)
        if query is READ_MODELS and not self._connection.is_in_transaction():
            await self._other.execute("UPDATE model SET revision = nextval('definition_revision')")
        return rows


async def test_growth_that_is_always_overtaken_commits_in_the_end(store: Store):
    await a_growing_model(store)
    incoming = infer({"n": 1, "late": True})
    growth = [Growth(tenant=ACME, model=MODEL, trees=(incoming,), schema=incoming, revision=None)]
    writes = []

    async def write() -> None:
        writes.append(await scalar(store, "SELECT schema::text FROM model"))

    async with connected(store.url) as connection, connected(store.url) as other:
        await write_growing(OvertakenConnection(connection, other), growth, write)
    assert len(writes) == 1
    assert "late" not in writes[0]
    assert "late" in await scalar(store, "SELECT schema::text FROM model")


async def a_growing_model(store: Store) -> None:
    async with connected(store.url) as connection:
        await connection.execute(
            "INSERT INTO model (tenant, id, name, version, state, change_level, schema, imported_at, changed_at,"
            " revision) VALUES ($1, $2, 'prize', 1, 'LOCKED', 'STRUCTURAL', $3, 1, 1, 0)",
            ACME,
            MODEL,
            encode(schema_to_stored(infer({"n": 1}))).decode(),
        )


def teach(unit: UnitOfWork, document: JsonValue) -> None:
    """Stage what a document teaches the model."""
    extender = Extender(infer({"n": 1}), ChangeLevel.STRUCTURAL)
    extension = extender.extend(document)
    assert extension is not None
    unit.growth.add(MODEL, extension, extender.follow(extension.schema), revision=0)


async def test_a_deadlock_costs_an_attempt_and_no_commit(patient_store: Store):
    """We hold the entity and want the claim, somebody holds the claim and wants the entity."""
    store = patient_store
    entity = await store.created({"n": 0})
    unit = store.unit()
    changed = await rewrite(unit, entity, {"n": 1})
    unit.save(changed, claims=[KEY])
    async with connected(store.url) as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute(TAKE, ACME, hash_claim(MODEL, KEY))
        task = asyncio.create_task(unit.commit())
        await until(blocked(store))
        try:
            await other.execute(LOCK_ROWS, [entity])  # one of the two is chosen to give way
        except asyncpg.DeadlockDetectedError:
            pass
        finally:
            await transaction.rollback()
    assert isinstance(await task, int)
    assert await data_of(store.unit(), entity) == {"n": 1}

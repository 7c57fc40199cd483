"""What was once told of the past stays true (decision S11)."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import astuple

from statewright.entity import Entity
from statewright.ids import EntityId, system_clock
from statewright.storage import entities
from statewright.storage.commit.statement import CommitStatement
from statewright.storage.commit.unit_of_work import UnitOfWork
from tests.database import connected
from tests.integration.storage.store import ACME, MODEL, Store, rewrite


def staged(unit: UnitOfWork) -> list[list[Any]]:
    """The arguments of the commit statement."""
    submission = unit.build_submission(unit.id)
    assert submission is not None
    columns = zip(*[(0, *astuple(row)) for row in submission.rows], strict=True)
    return [list(column) for column in columns]


async def at(store: Store, entity_id: EntityId, instant: int) -> Entity | None:
    return await entities.fetch_entity_at(store.pool, ACME, entity_id, instant)


@pytest.mark.parametrize("kind", ["update", "create"])
async def test_a_read_during_a_commit_and_one_after_it_agree(store: Store, kind: str):
    unit = store.unit()
    entity_id = await store.created({"n": 0}) if kind == "update" else store.new(unit, {"n": 0}).id
    if kind == "update":
        await rewrite(unit, entity_id, {"n": 1})
    async with connected(store.url) as connection:
        async with connection.transaction():
            await connection.fetch(CommitStatement().compose(), *staged(unit))
            instant = system_clock()
            during = asyncio.create_task(at(store, entity_id, instant))
            waited, _ = await asyncio.wait([during], timeout=0.2)
            assert not waited, "an instant was taken before it, and is not visible yet"
        after = await at(store, entity_id, instant)
    assert await during == after
    assert after is not None


async def test_a_writer_that_came_later_is_not_waited_for(store: Store):
    entity_id = await store.created({"n": 0})
    instant = system_clock()
    unit = store.unit()
    await rewrite(unit, entity_id, {"n": 1})
    async with connected(store.url) as writer, connected(store.url) as earlier:
        before = earlier.transaction()
        await before.start()
        await earlier.fetch(CommitStatement().compose(), *staged(unit))
        read = asyncio.create_task(at(store, entity_id, instant))
        await asyncio.wait([read], timeout=0.05)
        async with writer.transaction():
            await writer.fetchval("SELECT pg_advisory_xact_lock_shared(5371, 1)")
            await before.rollback()
            seen = await asyncio.wait_for(read, 5)
    assert seen is not None
    assert seen.document == '{"n": 0}'


async def test_an_old_instant_waits_for_nobody(store: Store):
    entity_id = await store.created({"n": 0})
    async with connected(store.url) as connection, connection.transaction():
        await connection.fetchval("SELECT pg_advisory_xact_lock_shared(5371, 1)")
        assert await asyncio.wait_for(at(store, entity_id, system_clock() - 3_600_000_000), 2) is None


async def test_an_instant_a_little_ahead_is_waited_for(store: Store):
    entity_id = await store.created({"n": 0})
    instant = system_clock() + 100_000
    seen = await at(store, entity_id, instant)
    assert system_clock() >= instant
    await store.change(entity_id, {"n": 1})
    assert await at(store, entity_id, instant) == seen


async def test_a_page_of_the_past_agrees_with_single_reads(store: Store):
    known = [await store.created({"n": n}) for n in range(10)]
    for entity_id in known[::2]:
        await store.change(entity_id, {"n": -1})
    instant = system_clock()
    for entity_id in known[::3]:
        await store.change(entity_id, {"n": -2})
    unit = store.unit()
    victim = await unit.get_entity(known[9])
    assert victim is not None
    unit.delete(victim)
    await unit.commit()
    portions = entities.fetch_entities(store.pool, ACME, MODEL, entities.OffsetPage(size=100), instant=instant)
    page = [version async for portion in portions for version in portion]
    assert [version.id for version in page] == sorted(known)
    assert page == [await at(store, entity_id, instant) for entity_id in sorted(known)]

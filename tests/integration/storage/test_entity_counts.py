"""Counts by model, workflow and state are what counting the entities would give, whoever writes meanwhile."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import asyncpg
from msgspec.structs import replace

from statewright.failures import Conflict, EntityModified
from statewright.ids import EntityId
from statewright.storage import entity_counts
from statewright.storage.commit import statement
from statewright.storage.entity_counts import complete_counts, merge_changes
from tests.database import connected
from tests.integration.storage.store import Store, fetch, scalar

STATES = ("NEW", "OPEN", "DONE")

BOTH = """
    -- In one snapshot.
    SELECT (SELECT json_agg(row ORDER BY row::text)
              FROM (SELECT tenant, model, workflow, state, count FROM counted_entity WHERE count <> 0) AS row)::text,
           (SELECT json_agg(row ORDER BY row::text)
              FROM (SELECT tenant, model, workflow, state, count(*) FROM entity GROUP BY 1, 2, 3, 4) AS row)::text
"""


async def assert_counts_are_exact(store: Store) -> Any:
    [(counted, there)] = await fetch(store, BOTH)
    assert counted == there
    return counted


async def write_once(store: Store, known: list[EntityId], dice: random.Random) -> None:
    """A transaction of some creates, moves and deletes; now and then one that comes to nothing."""
    unit = store.unit()
    created = [store.new(unit, state=dice.choice(STATES)).id for _ in range(dice.randint(0, 2))]
    for id_ in dice.sample(known, min(len(known), dice.randint(0, 3))):
        entity = await unit.get_entity(id_)
        if entity is None:
            continue
        if dice.random() < 0.2:
            unit.delete(entity)
        else:
            workflow = dice.choice(("lifecycle", "other"))
            moved = replace(entity, state=dice.choice(STATES), workflow=workflow, transaction_id=unit.id)
            unit.save(moved)
    if dice.random() < 0.1:
        return
    with suppress(Conflict, EntityModified):
        await unit.commit()
        known.extend(created)


async def write_many(store: Store, count: int, seed: int) -> None:
    dice, known = random.Random(seed), list[EntityId]()
    for _ in range(count):
        await write_once(store, known, dice)


async def test_writers_mergers_and_readers_never_disagree(store: Store) -> None:
    writers = asyncio.gather(*[write_many(store, 40, seed) for seed in range(12)])
    looks = 0
    while not writers.done():
        await asyncio.gather(merge_changes(store.pool), merge_changes(store.pool), assert_counts_are_exact(store))
        looks += 1
    await writers
    assert looks > 3
    assert await assert_counts_are_exact(store)
    await merge_changes(store.pool)
    assert await scalar(store, "SELECT count(*) FROM entity_count_change") == 0
    await assert_counts_are_exact(store)


async def test_copied_and_mass_deleted_entities_count(store: Store) -> None:
    unit = store.unit()
    for _ in range(statement.MIN_COPY_ROWS + 5):
        store.new(unit)
    await unit.commit()
    await assert_counts_are_exact(store)
    assert await scalar(store, "SELECT sum(count) FROM counted_entity") == statement.MIN_COPY_ROWS + 5
    await fetch(store, "DELETE FROM entity")
    assert await assert_counts_are_exact(store) is None
    await merge_changes(store.pool)
    assert await fetch(store, "SELECT FROM entity_count UNION ALL SELECT FROM entity_count_change") == []


async def test_what_does_not_commit_does_not_count(store: Store) -> None:
    await store.created()
    before = await assert_counts_are_exact(store)
    async with connected(store.url) as connection:
        with suppress(asyncpg.DivisionByZeroError):
            async with connection.transaction():
                await connection.execute("DELETE FROM entity")
                await connection.execute("SELECT 1 / 0")
    assert await assert_counts_are_exact(store) == before


async def test_entities_that_were_there_before_are_counted_beside_writers(store: Store) -> None:
    """As after a migration: rows without counts, of which ``entity_count_state`` knows."""
    await write_many(store, 30, 1)
    async with connected(store.url) as connection:
        await connection.execute("TRUNCATE entity_count, entity_count_change")
        await connection.execute("UPDATE entity_count_state SET is_complete = false")
    assert not await merge_changes(store.pool)
    writers = asyncio.gather(*[write_many(store, 30, seed) for seed in range(2, 10)])
    done = await asyncio.gather(*[complete_counts(store.pool) for _ in range(3)])
    assert True in done
    await assert_counts_are_exact(store)
    while not writers.done():
        await merge_changes(store.pool)
        await assert_counts_are_exact(store)
    await writers
    assert await complete_counts(store.pool)


async def test_counts_in_doubt_are_counted_anew(store: Store) -> None:
    await write_many(store, 20, 3)
    await merge_changes(store.pool)
    async with connected(store.url) as connection:
        await connection.execute("UPDATE entity_count SET count = count + 7")
        await connection.execute("UPDATE entity_count_state SET is_complete = false")
    assert await complete_counts(store.pool)
    await assert_counts_are_exact(store)


async def test_merging_takes_a_bounded_number_and_says_that_there_is_more(store: Store, monkeypatch: Any) -> None:
    monkeypatch.setattr(entity_counts, "MAX_MERGED", 2)
    for _ in range(3):
        await store.created()
    assert await merge_changes(store.pool)
    assert not await merge_changes(store.pool)
    await assert_counts_are_exact(store)

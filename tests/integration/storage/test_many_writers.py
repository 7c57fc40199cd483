"""Two processes' worth of writers on few entities: nothing is lost, nothing is torn, nobody deadlocks."""

import asyncio
import json
import random
from collections import Counter

import pytest
from msgspec.structs import replace

from statewright.failures import Conflict, EntityModified
from statewright.ids import EntityId
from tests.integration.storage.store import (
    Store,
    a_store,
    assert_histories_are_whole,
    data_of,
    fetch,
    happened,
    rewrite,
    transactions,
)

ENTITIES = 40
WRITERS = 24
TRANSACTIONS = 40


async def add_one(store: Store, chosen: list[EntityId], dice: random.Random) -> tuple[str, list[EntityId]] | None:
    """Count up some entities in one transaction that also relies on another; None when somebody was faster."""
    *counted, relied_on = chosen
    unit = store.unit()
    try:
        await unit.get_entity(relied_on)
        for entity in counted:
            data = await data_of(unit, entity)
            if dice.random() < 0.2:
                await asyncio.sleep(0)  # let the others in between reading and writing
            await rewrite(unit, entity, {"n": data["n"] + 1}, if_match=dice.random() < 0.5)
            happened(unit, entity, "COUNTED")
        await unit.commit()
    except (Conflict, EntityModified):
        return None
    return unit.id, counted


async def a_writer(store: Store, known: list[EntityId], seed: int) -> list[tuple[str, list[EntityId]]]:
    """Transactions of one client; what it was told had succeeded."""
    dice = random.Random(seed)
    outcomes = [await add_one(store, dice.sample(known, dice.randint(2, 4)), dice) for _ in range(TRANSACTIONS)]
    return [outcome for outcome in outcomes if outcome is not None]


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_success_counts_and_every_conflict_leaves_no_trace(database: str, seed: int):
    async with a_store(database) as store, a_store(database) as other:
        known = [await store.created({"n": 0}) for _ in range(ENTITIES)]
        async with asyncio.timeout(60):  # a deadlock would be a Conflict; a lost wake-up would hang
            told = await asyncio.gather(
                *(a_writer((store, other)[n % 2], known, 1000 * seed + n) for n in range(WRITERS))
            )
        succeeded = [outcome for outcomes in told for outcome in outcomes]
        assert len(succeeded) > WRITERS * TRANSACTIONS // 20, "hardly anybody got through"

        expected = Counter(entity for _, counted in succeeded for entity in counted)
        chains = await assert_histories_are_whole(store)
        for entity in known:
            versions = chains[entity]
            assert [json.loads(version["document"])["n"] for version in versions] == list(range(expected[entity] + 1))
            assert {*transactions(versions)[1:]} == {unit for unit, counted in succeeded if entity in counted}

        audited = await fetch(store, "SELECT entity::text, transaction_id::text, n FROM entity_audit")
        assert Counter((row["transaction_id"], row["entity"]) for row in audited) == Counter(
            (unit, entity) for unit, counted in succeeded for entity in counted
        )
        assert {row["n"] for row in audited} == {1}


async def test_versions_of_one_transaction_share_their_instant_under_load(database: str):
    async with a_store(database) as store, a_store(database) as other:
        known = [await store.created({"n": 0}) for _ in range(ENTITIES)]
        await asyncio.gather(*(a_writer((store, other)[n % 2], known, n) for n in range(WRITERS)))
        assert await fetch(store, SPREAD) == []


SPREAD = """
    SELECT transaction_id
      FROM (SELECT transaction_id, valid_from FROM entity
             UNION ALL
            SELECT transaction_id, valid_from FROM entity_history) AS versions
     GROUP BY transaction_id
    HAVING count(DISTINCT valid_from) > 1
"""


async def test_creating_and_deleting_under_load_leaves_whole_histories(database: str):
    async with a_store(database) as store, a_store(database) as other:
        known = [await store.created({"n": 0}) for _ in range(10)]
        gone: set[EntityId] = set()

        async def churn(own: Store, seed: int) -> None:
            dice = random.Random(seed)
            for _ in range(30):
                unit, entity_id = own.unit(), dice.choice(known)
                entity = await unit.get_entity(entity_id)
                if entity is None:
                    known.append(await own.created({"n": 0}))
                    continue
                if dice.random() < 0.15:
                    unit.delete(entity)
                else:
                    unit.save(replace(entity, transaction_id=unit.id, entry_transaction_id=unit.id))
                try:
                    await unit.commit()
                except Conflict:
                    continue
                if unit.staged[entity_id].deletes:
                    assert entity_id not in gone, "deleted twice"
                    gone.add(entity_id)

        await asyncio.gather(*(churn((store, other)[n % 2], n) for n in range(16)))
        chains = await assert_histories_are_whole(store)
        assert {id_ for id_, versions in chains.items() if versions[-1]["tombstone"]} == gone
        assert {*known} == {*chains}

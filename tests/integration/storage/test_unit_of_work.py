"""Transactions as objects: what they see, what they write, and who wins (docs/architecture.md)."""

import asyncio
import gc
import json
import weakref

import pytest
from msgspec.structs import replace

from statewright.entity import Entity
from statewright.failures import Conflict, EntityModified
from statewright.ids import EntityId
from statewright.storage import entities, versions
from statewright.storage.commit.unit_of_work import UnitOfWork
from tests.integration.storage.store import (
    ACME,
    ALICE,
    BOB,
    ROBOT,
    STRANGER,
    Store,
    assert_histories_are_whole,
    data_of,
    fetch,
    happened,
    rewrite,
    scalar,
    transactions,
)


async def test_what_was_committed_is_read_by_the_next(store: Store):
    entity = await store.created({"n": 1})
    assert await data_of(store.unit(), entity) == {"n": 1}
    await store.change(entity, {"n": 2})
    assert await data_of(store.unit(), entity) == {"n": 2}


async def test_a_unit_reads_its_own_writes_and_nobody_else_does(store: Store):
    entity = await store.created({"n": 1})
    unit = store.unit()
    new = store.new(unit, {"n": 10})
    await rewrite(unit, entity, {"n": 2})
    assert (await data_of(unit, entity), await data_of(unit, new.id)) == ({"n": 2}, {"n": 10})
    other = store.unit(BOB)
    assert (await data_of(other, entity), await data_of(other, new.id)) == ({"n": 1}, None)


async def test_a_unit_that_is_left_without_commit_has_done_nothing(store: Store):
    entity = await store.created({"n": 1})
    async with store.unit() as unit:
        store.new(unit)
        happened(unit, entity, "SEEN")
        await rewrite(unit, entity, {"n": 2})
    assert await data_of(store.unit(), entity) == {"n": 1}
    assert await scalar(store, "SELECT count(*) FROM entity") == 1
    assert await scalar(store, "SELECT count(*) FROM entity_audit") == 0


async def test_the_second_of_two_overlapping_writers_gets_a_conflict(store: Store):
    entity = await store.created({"n": 0})
    first, second = store.unit(ALICE), store.unit(BOB)
    await rewrite(first, entity, {"n": 1})
    await rewrite(second, entity, {"n": 2})
    await first.commit()
    with pytest.raises(Conflict):
        await second.commit()
    assert await data_of(store.unit(), entity) == {"n": 1}


async def test_a_writer_whose_client_named_the_version_is_told_that_it_moved(store: Store):
    entity = await store.created()
    first, second = store.unit(), store.unit(BOB)
    await rewrite(first, entity, {"n": 1})
    await rewrite(second, entity, {"n": 2}, if_match=True)
    await first.commit()
    with pytest.raises(EntityModified) as refusal:
        await second.commit()
    assert refusal.value.properties == {"entityId": entity}


async def test_writers_who_follow_each_other_all_succeed(store: Store):
    entity = await store.created()
    written = [await store.change(entity, {"n": n}) for n in range(5)]
    chains = await assert_histories_are_whole(store)
    assert transactions(chains[entity])[1:] == written


async def test_what_was_only_read_must_not_have_moved_either(store: Store):
    decided_by, written = await store.created(), await store.created({"n": 0})
    unit = store.unit()
    await unit.get_entity(decided_by)
    await rewrite(unit, written, {"n": 1})
    await store.change(decided_by, {"n": 9}, principal=BOB)
    with pytest.raises(Conflict):
        await unit.commit()
    assert await data_of(store.unit(), written) == {"n": 0}


async def test_what_was_read_and_then_deleted_is_a_conflict(store: Store):
    entity = await store.created()
    reader, writer = store.unit(), store.unit()
    await reader.get_entity(entity)
    store.new(reader)
    await rewrite(writer, entity, {"n": 1})
    remover = store.unit(BOB)
    remover.delete(await there(remover, entity))
    await remover.commit()
    for unit in (reader, writer):
        with pytest.raises(Conflict):
            await unit.commit()


async def test_of_two_deletions_one_wins(store: Store):
    entity = await store.created()
    units = [store.unit(), store.unit(BOB)]
    for unit in units:
        unit.delete(await there(unit, entity))
    outcomes = await asyncio.gather(*(unit.commit() for unit in units), return_exceptions=True)
    assert sorted(type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)) == [Conflict]


async def test_a_unit_that_only_read_has_nothing_to_lose(store: Store):
    entity = await store.created()
    unit = store.unit()
    await unit.get_entity(entity)
    await store.change(entity, {"n": 1})
    assert await unit.commit() is None


async def test_the_absence_of_an_entity_is_no_version(store: Store):
    """Phantoms are not detected (docs/reference/entities.md#isolation)."""
    unit = store.unit()
    assert await unit.get_entity(store.ids.new_entity_id()) is None
    store.new(unit)
    assert await unit.commit() is not None


async def test_an_entity_created_and_deleted_in_one_unit_never_was(store: Store):
    unit = store.unit()
    entity = store.new(unit)
    unit.delete(entity)
    assert await unit.get_entity(entity.id) is None
    await unit.commit()
    assert await entities.has_existed(store.pool, ACME, entity.id) is False


async def test_an_entity_created_and_changed_in_one_unit_has_one_version(store: Store):
    unit = store.unit()
    entity = store.new(unit, {"n": 1})
    await rewrite(unit, entity.id, {"n": 2})
    await unit.commit()
    [version] = (await assert_histories_are_whole(store))[entity.id]
    assert json.loads(version["document"]) == {"n": 2}


async def test_an_entity_changed_and_deleted_in_one_unit_loses_the_version_it_had(store: Store):
    entity = await store.created({"n": 1})
    unit = store.unit()
    unit.delete(await rewrite(unit, entity, {"n": 2}))
    await unit.commit()
    kept, tombstone = (await assert_histories_are_whole(store))[entity]
    assert json.loads(kept["document"]) == {"n": 1}
    assert tombstone["tombstone"]


async def test_either_all_entities_of_a_unit_are_written_or_none(store: Store):
    known = [await store.created({"n": 0}) for _ in range(5)]
    unit = store.unit()
    new = store.new(unit)
    for entity in known:
        await rewrite(unit, entity, {"n": 1})
    happened(unit, new.id, "MADE")
    await store.change(known[3], {"n": 7}, principal=BOB)
    with pytest.raises(Conflict):
        await unit.commit()
    reader = store.unit()
    assert [await data_of(reader, entity) for entity in known] == [{"n": 0}] * 3 + [{"n": 7}, {"n": 0}]
    assert await data_of(reader, new.id) is None
    assert await versions.fetch_entity_events(store.pool, ACME, new.id, list) == []


async def test_all_versions_of_one_transaction_carry_the_same_instant(store: Store):
    known = [await store.created() for _ in range(3)]
    unit = store.unit()
    new = store.new(unit)
    for entity in known:
        await rewrite(unit, entity, {"n": 1})
    at = await unit.commit()
    rows = await fetch(store, "SELECT id, valid_from FROM entity")
    assert {row["valid_from"] for row in rows} == {at}
    assert {str(row["id"]) for row in rows} == {*known, new.id}


async def test_times_of_an_entity_rise_even_when_the_clock_does_not(store: Store):
    entity = await store.created()
    ahead = await scalar(store, "UPDATE entity SET valid_from = valid_from + 3600000000 RETURNING valid_from")
    unit = store.unit()
    await rewrite(unit, entity, {"n": 1})
    assert await unit.commit() == ahead + 1
    [row] = await fetch(store, "SELECT valid_from, valid_to FROM entity_history")
    assert row["valid_to"] == ahead + 1


async def test_a_deletion_leaves_the_last_version_and_a_tombstone_of_the_deleter(store: Store):
    entity = await store.created({"n": 1})
    unit = store.unit(BOB)
    unit.delete(await there(unit, entity))
    at = await unit.commit()
    assert await data_of(store.unit(), entity) is None
    last, tombstone = (await assert_histories_are_whole(store))[entity]
    assert (last["valid_to"], tombstone["valid_from"], tombstone["transaction"]) == (at, at, unit.id)
    deletion, creation = await entities.fetch_changes(store.pool, ACME, entity)
    assert [(change.type, change.executor.id) for change in (deletion, creation)] == [
        ("DELETE", "bob"),
        ("CREATE", "alice"),
    ]


async def test_a_dropped_savepoint_takes_its_own_work_with_it_and_nothing_else(store: Store):
    entity = await store.created({"n": 0})
    async with store.unit() as unit:
        await rewrite(unit, entity, {"n": 1})
        before = store.new(unit, {"n": 10})
        happened(unit, entity, "BEFORE")
        async with unit.open_savepoint() as inner:
            await rewrite(inner, entity, {"n": 2})
            dropped = store.new(inner)
            happened(inner, entity, "DROPPED")
            assert await data_of(inner, before.id) == {"n": 10}
        assert await data_of(unit, entity) == {"n": 1}
        async with unit.open_savepoint() as inner:
            await rewrite(inner, before.id, {"n": 11})
            happened(inner, entity, "KEPT")
            await inner.commit()
        await unit.commit()
    reader = store.unit()
    found = [await data_of(reader, id_) for id_ in (entity, before.id, dropped.id)]
    assert found == [{"n": 1}, {"n": 11}, None]
    events = await versions.fetch_transaction_events(store.pool, ACME, entity, unit.label)
    assert [event.type for event in events] == ["BEFORE", "KEPT"]


async def test_events_become_durable_with_the_unit_in_order(store: Store):
    unit = store.unit()
    entity = store.new(unit)
    for kind in ("START", "MIDDLE", "FINISH"):
        happened(unit, entity.id, kind)
    await unit.commit()
    events = await versions.fetch_transaction_events(store.pool, ACME, entity.id, unit.id)
    assert [event.type for event in events] == ["START", "MIDDLE", "FINISH"]
    assert [event.at for event in events] == sorted({event.at for event in events})
    [row] = await fetch(store, "SELECT n, at FROM entity_audit")
    assert (row["n"], row["at"]) == (3, events[0].at)


async def test_events_alone_are_worth_a_commit(store: Store):
    entity = await store.created()
    unit = store.unit()
    happened(unit, entity, "NOTED")
    await unit.commit()
    events = await versions.fetch_entity_events(store.pool, ACME, entity, list)
    assert [filed.event.type for filed in events] == ["NOTED"]
    assert len((await assert_histories_are_whole(store))[entity]) == 1


async def test_what_a_service_writes_is_attributed_to_the_origin_and_executed_by_the_service(store: Store):
    entity = await store.created(principal=ROBOT)
    [change] = await entities.fetch_changes(store.pool, ACME, entity)
    assert (change.attributed.id, change.executor.id) == ("robot", "robot")


async def test_another_tenant_sees_writes_and_conflicts_nothing(store: Store):
    entity = await store.created({"n": 1})
    stranger = store.unit(STRANGER)
    assert await stranger.get_entity(entity) is None
    twin = replace(store.new(stranger, {"n": 2}), id=entity)
    stranger.create(twin)
    await stranger.commit()
    assert await data_of(store.unit(), entity) == {"n": 1}
    assert await data_of(store.unit(STRANGER), entity) == {"n": 2}


async def test_an_id_that_is_taken_is_a_conflict_and_not_a_crash(store: Store):
    entity = await store.created({"n": 1})
    unit = store.unit()
    unit.create(replace(store.new(unit), id=entity))
    with pytest.raises(Conflict):
        await unit.commit()
    assert await data_of(store.unit(), entity) == {"n": 1}


async def test_the_past_is_read_at_every_boundary(store: Store):
    entity = await store.created({"n": 0})
    for n in range(1, 4):
        await store.change(entity, {"n": n})
    unit = store.unit()
    unit.delete(await there(unit, entity))
    await unit.commit()
    versions = (await assert_histories_are_whole(store))[entity]
    starts = [version["valid_from"] for version in versions]
    for n, start in enumerate(starts[:4]):
        for instant in (start, starts[n + 1] - 1):
            found = await entities.fetch_entity_at(store.pool, ACME, entity, instant)
            assert found is not None
            assert json.loads(found.document) == {"n": n}
    for instant in (starts[0] - 1, starts[4], starts[4] + 1, 2**62):
        assert await entities.fetch_entity_at(store.pool, ACME, entity, instant) is None


async def there(unit: UnitOfWork, entity_id: EntityId) -> Entity:
    """An entity that must be there."""
    entity = await unit.get_entity(entity_id)
    assert entity is not None
    return entity


async def test_units_are_gone_with_their_last_user_and_leave_nothing_to_the_garbage_collector(store: Store):
    entity = await store.created({"n": 1})
    gc.collect()
    gc.disable()
    try:
        async with store.unit() as unit:
            async with unit.open_savepoint() as savepoint:
                await rewrite(savepoint, entity, {"n": 2})
                await savepoint.commit()
            async with unit.release_gate():
                pass
            await unit.commit()
        traces = [weakref.ref(unit), weakref.ref(savepoint)]
        del unit, savepoint
        assert [trace() for trace in traces] == [None, None]
    finally:
        gc.enable()


async def test_entities_can_be_read_without_their_documents(store: Store):
    first, second = await store.created({"n": 1}), await store.created({"n": 2})
    await store.change(second, {"n": 3})
    gone = store.ids.new_entity_id()
    bare = {one.id: one for one in await entities.fetch_bare_entities(store.pool, ACME, [first, second, gone])}
    assert {one.document for one in bare.values()} == {""}
    whole = {id_: await store.unit().get_entity(id_) for id_ in (first, second)}
    assert bare == {id_: replace(one, document="") for id_, one in whole.items() if one is not None}

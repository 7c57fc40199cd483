"""Tasks between a unit of work and the database: staged, committed together, checked, taken, held."""

import asyncio

import pytest
from msgspec.structs import replace

from statewright.entity import Actor, Arming, TaskKey
from statewright.failures import Conflict
from statewright.ids import TenantId
from statewright.storage import schedules, takings
from statewright.storage.commit.statement import CommitStatement
from statewright.storage.schedules import StoredTasks
from statewright.storage.work import TASKS, UNHELD_TASKS
from tests.database import connected, explain_generically
from tests.integration.storage.store import ACME, MODEL, STRANGER, Store, a_store, happened, rewrite
from tests.takings import take

LAPSE, REMIND = TaskKey("NEW", "lapse"), TaskKey("NEW", "remind")


@pytest.fixture
async def store(database):
    async with a_store(database) as opened:
        yield opened


@pytest.fixture
def tasks(store: Store) -> StoredTasks:
    return StoredTasks(store.pool)


def at(fire_at: int, **members) -> Arming:
    usual = {"model": MODEL, "timeout_ms": None, "armed_at": 1, "principal": Actor("alice", "user")}
    return Arming(fire_at=fire_at, **(usual | members))


async def armed(store, *, fire_at=100, key=LAPSE, principal=None):
    """A committed entity with a task; its id."""
    unit = store.unit() if principal is None else store.unit(principal)
    entity = store.new(unit)
    unit.tasks.arm(entity.id, key, at(fire_at))
    await unit.commit()
    return entity.id


async def test_a_task_is_stored_as_it_was_armed(store, tasks):
    unit = store.unit()
    entity = store.new(unit)
    arming = at(10**15, timeout_ms=0, armed_at=7, principal=Actor('röbot "x"', "service"))
    key = TaskKey("St\\ate 'ü'", 'tran"sition')
    unit.tasks.arm(entity.id, key, arming)
    await unit.commit()
    [(stored_key, task)] = (await tasks.list_for_entity(ACME, entity.id)).items()
    assert (stored_key, task.key, task.arming) == (key, key, arming)
    assert (task.tenant, task.entity, task.armed_in, task.attempts) == (ACME, entity.id, unit.id, 0)


async def test_tasks_are_invisible_until_their_unit_commits_and_gone_when_it_does_not(store, tasks):
    async with store.unit() as unit:
        entity = store.new(unit)
        unit.tasks.arm(entity.id, LAPSE, at(100))
        assert await tasks.list_for_entity(ACME, entity.id) == {}
    assert await tasks.list_for_entity(ACME, entity.id) == {}


async def test_the_second_of_two_units_that_withdraw_a_task_fails_as_a_whole(store, tasks):
    entity = await armed(store)
    [task] = (await tasks.list_for_entity(ACME, entity)).values()
    first, second = store.unit(), store.unit()
    for unit in (first, second):
        unit.tasks.withdraw(entity, LAPSE, task.armed_in)
        happened(unit, entity, "WITHDRAWN")
    await first.commit()
    with pytest.raises(Conflict):
        await second.commit()
    async with connected(store.url) as connection:
        assert await connection.fetchval("SELECT count(*) FROM entity_audit WHERE entity = $1", entity) == 1


async def test_two_units_that_withdraw_a_task_in_the_same_turn_have_one_winner(store, tasks):
    entities = [await armed(store) for _ in range(20)]
    stored = [(await tasks.list_for_entity(ACME, entity))[LAPSE] for entity in entities]

    async def withdraw(task):
        unit = store.unit()
        unit.tasks.withdraw(task.entity, task.key, task.armed_in)
        try:
            await unit.commit()
        except Conflict:
            return False
        return True

    won = await asyncio.gather(*(withdraw(task) for task in stored for _ in range(2)))
    assert [a + b for a, b in zip(won[::2], won[1::2], strict=True)] == [1] * 20


async def test_a_unit_that_relies_on_a_task_fails_when_it_was_armed_again(store, tasks):
    entity = await armed(store)
    [task] = (await tasks.list_for_entity(ACME, entity)).values()
    again = store.unit()
    await rewrite(again, entity, {"n": 1})
    again.tasks.arm(entity, LAPSE, at(200))
    await again.commit()
    late = store.unit()
    await rewrite(late, entity, {"n": 2})
    late.tasks.expect(entity, LAPSE, task.armed_in)
    with pytest.raises(Conflict):
        await late.commit()
    assert (await tasks.list_for_entity(ACME, entity))[LAPSE].arming.fire_at == 200


async def test_a_client_who_demanded_the_version_there_is_gets_a_conflict_when_only_a_task_is_gone(store):
    entity = await armed(store)
    unit = store.unit()
    await rewrite(unit, entity, {"n": 1}, if_match=True)
    unit.tasks.withdraw(entity, LAPSE, store.ids.new_transaction_id())
    with pytest.raises(Conflict):
        await unit.commit()


async def test_what_is_only_relied_on_stays(store, tasks):
    entity = await armed(store)
    before = await tasks.list_for_entity(ACME, entity)
    unit = store.unit()
    unit.tasks.expect(entity, LAPSE, before[LAPSE].armed_in)
    await unit.commit()
    assert await tasks.list_for_entity(ACME, entity) == before


async def test_a_stale_version_takes_the_tasks_of_its_unit_with_it_and_no_others(store, tasks):
    stale, fresh = await armed(store), await armed(store)
    loser, winner = store.unit(), store.unit()
    await rewrite(loser, stale, {"n": 1})
    await rewrite(winner, fresh, {"n": 1})
    await store.change(stale, {"n": 2})
    for unit, entity in ((loser, stale), (winner, fresh)):
        unit.tasks.arm(entity, REMIND, at(300))
    results = await asyncio.gather(loser.commit(), winner.commit(), return_exceptions=True)
    assert isinstance(results[0], Conflict)
    assert set(await tasks.list_for_entity(ACME, stale)) == {LAPSE}
    assert set(await tasks.list_for_entity(ACME, fresh)) == {LAPSE, REMIND}


async def test_what_is_created_and_deleted_in_one_unit_leaves_no_task(store, tasks):
    unit = store.unit()
    entity = store.new(unit)
    unit.tasks.arm(entity.id, LAPSE, at(100))
    unit.delete(entity)
    await unit.commit()
    assert await tasks.list_for_entity(ACME, entity.id) == {}


async def test_a_nested_unit_sees_and_replaces_the_tasks_of_the_outer_one(store, tasks):
    outer = store.unit()
    entity = store.new(outer)
    outer.tasks.arm(entity.id, LAPSE, at(100))
    async with outer.open_savepoint() as dropped:
        dropped.tasks.withdraw(entity.id, LAPSE, None)
        assert dropped.tasks.overlay(entity.id, {}) == {}
    async with outer.open_savepoint() as kept:
        assert kept.tasks.overlay(entity.id, {}) == {LAPSE: None}
        kept.tasks.arm(entity.id, REMIND, at(200))
        await kept.commit()
    await outer.commit()
    assert set(await tasks.list_for_entity(ACME, entity.id)) == {LAPSE, REMIND}


async def test_what_a_segment_armed_a_later_one_may_withdraw(store, tasks):
    """Although it looked at the stored tasks before."""
    entity = await armed(store)
    before = (await tasks.list_for_entity(ACME, entity))[LAPSE].armed_in
    unit = store.unit()
    version = await rewrite(unit, entity, {"n": 1})
    unit.tasks.arm(entity, LAPSE, at(200))
    segment = unit.id
    await unit.commit_segment(store.ids.new_transaction_id())
    unit.expect(entity, segment)
    unit.save(replace(version, transaction_id=unit.id))
    unit.tasks.withdraw(entity, LAPSE, before)
    await unit.commit()
    assert await tasks.list_for_entity(ACME, entity) == {}


async def test_due_tasks_are_taken_earliest_first_up_to_the_limit(store, tasks):
    first, third, second = [await armed(store, fire_at=n) for n in (10, 30, 20)]
    await armed(store, fire_at=31)
    taken = await take(store.pool, TASKS, [], now=30, until=1000, limit=2)
    assert [task.entity for task in taken] == [first, second]
    assert [task.attempts for task in taken] == [1, 1]
    assert [task.entity for task in await take(store.pool, TASKS, [], now=30, until=1000, limit=2)] == [third]
    assert await take(store.pool, TASKS, [], now=30, until=1000, limit=2) == []


async def test_a_taken_task_is_taken_again_when_its_back_off_ends(store, tasks):
    await armed(store, fire_at=10)
    await take(store.pool, TASKS, [], now=10, until=500, limit=9)
    assert await take(store.pool, TASKS, [], now=499, until=999, limit=9) == []
    [task] = await take(store.pool, TASKS, [], now=500, until=999, limit=9)
    assert task.attempts == 2


async def test_tasks_of_tenants_that_are_passed_over_wait(store, tasks):
    await armed(store)
    theirs = await armed(store, principal=STRANGER)
    taken = await take(store.pool, TASKS, [ACME], now=100, until=200, limit=9)
    assert [(task.tenant, task.entity) for task in taken] == [(TenantId("globex"), theirs)]


async def test_a_task_that_somebody_is_writing_is_skipped_and_nobody_waits(store, tasks):
    busy, free = await armed(store), await armed(store)
    async with connected(store.url) as connection, connection.transaction():
        await connection.execute("SELECT FROM scheduled_task WHERE entity = $1 FOR UPDATE", busy)
        taken = await take(store.pool, TASKS, [], now=100, until=200, limit=9)
        assert [task.entity for task in taken] == [free]
        [other] = (await tasks.list_for_entity(ACME, busy)).values()
        await tasks.hold([*taken, other], until=900)
    async with connected(store.url) as connection:
        held = dict(await connection.fetch("SELECT entity::text, not_before FROM scheduled_task"))
    assert held == {busy: 0, free: 900}


async def test_a_task_that_was_armed_again_is_not_held(store, tasks):
    entity = await armed(store)
    [taken] = await take(store.pool, TASKS, [], now=100, until=200, limit=9)
    unit = store.unit()
    await rewrite(unit, entity, {"n": 1})
    unit.tasks.arm(entity, LAPSE, at(100))
    await unit.commit()
    await tasks.hold([taken], until=900)
    assert len(await take(store.pool, TASKS, [], now=100, until=200, limit=9)) == 1


FILL = """
    INSERT INTO scheduled_task (tenant, entity, state, transition, model, fire_at, armed_at, armed_in, principal_id,
                                principal_kind)
    SELECT 'acme', gen_random_uuid(), 'S', 'T', gen_random_uuid(), n, 1, gen_random_uuid(), 'a', 'user'
      FROM generate_series(1, 20000) AS n;
"""

STATEMENTS = {
    **{
        f"{name} {kind}": takings.write_statement(template, work)
        for kind, work in (("all", TASKS), ("unheld", UNHELD_TASKS))
        for name, template in (("take", takings.TAKE), ("suspect", takings.TAKE_SUSPECT), ("release", takings.RELEASE))
    },
    "retry": takings.write_statement(takings.REVIVE, TASKS),
    "drop": takings.write_statement(takings.DROP, TASKS),
    "hold": schedules.HOLD,
    "of entity": schedules.OF_ENTITY,
    "commit": CommitStatement().compose("tasks"),
}


@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "never analysed"])
@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_statement_scans_the_tasks(database, name, analysed):
    """Whatever the parameters: this is the plan that a connection keeps."""
    async with connected(database) as connection:
        await connection.execute(FILL)
        if analysed:
            await connection.execute("ANALYZE")
        plan = await explain_generically(connection, STATEMENTS[name])
    assert "Seq Scan on scheduled_task" not in plan, plan

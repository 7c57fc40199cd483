"""Many new entities of one transaction, written by COPY (the prose of statewright.storage.commit.statement)."""

import asyncio

import pytest

from statewright.entity import Actor, Arming, TaskKey
from statewright.failures import BadRequest, ModelNotFound, StorageUnavailable, UniqueViolation
from statewright.ids import EntityId, system_clock
from statewright.schema import Claim
from statewright.storage import entities
from statewright.storage.commit import statement
from statewright.storage.commit.group_commit import PendingCommit
from statewright.storage.commit.overlay import Submission
from statewright.storage.commit.unit_of_work import UnitOfWork
from tests.database import connected
from tests.integration.storage.network import a_network
from tests.integration.storage.store import ACME, MODEL, Store, a_store, fetch, happened, scalar
from tests.integration.storage.test_columns_and_parts import Notes, with_notes
from tests.integration.storage.test_group_commit import blocked, until, written_by

MANY = statement.MIN_COPY_ROWS + 5
LAPSE = TaskKey("NEW", "lapse")


def submit(unit: UnitOfWork) -> Submission:
    """What the unit would commit."""
    submission = unit.build_submission(unit.id)
    assert submission is not None
    return submission


def claim(value: object) -> Claim:
    return Claim("by-no", str(value).encode())


def many(store: Store, unit: UnitOfWork, count: int = MANY, *, keys: range | None = None) -> list[EntityId]:
    """Entities staged in the unit, each with an event; with a unique key each when there are ``keys``."""
    ids = []
    for n in range(count):
        entity = store.new(unit, {"n": n, "amount": 1})
        if keys is not None:
            unit.create(entity, claims=[claim(keys[n])])
        happened(unit, entity.id, f"EVENT-{n}")
        ids.append(entity.id)
    return ids


TABLES = """
    SELECT state, created_at = valid_from AS fresh, transition, workflow, workflow_revision, attributed_id,
           attributed_kind, executor_id, executor_kind, suspended, jsonb_typeof(document) AS form,
           entity.transaction_id::text AS transaction, entry_transaction_id::text AS entry,
           entity_audit.n, entity_audit.transaction_id::text AS audited,
           events::json #>> '{0,type}' AS event
      FROM entity JOIN entity_audit ON entity_audit.entity = entity.id
     WHERE id = ANY($1::uuid[])
"""


async def test_what_is_copied_looks_like_what_is_committed_by_the_statement(store: Store):
    copying, single = store.unit(), store.unit()
    copied, [alone] = many(store, copying), many(store, single, 1)
    at = await copying.commit()
    await single.commit()
    [model] = [dict(row) for row in await fetch(store, TABLES, [alone])]
    rows = [dict(row) for row in await fetch(store, TABLES, copied)]
    assert len(rows) == MANY
    assert {row.pop("event") for row in rows} == {f"EVENT-{n}" for n in range(MANY)}
    expected = {**model, "transaction": copying.id, "entry": copying.id, "audited": copying.id}
    del expected["event"]
    assert all(row == expected for row in rows)
    assert await fetch(store, "SELECT DISTINCT valid_from FROM entity WHERE id = ANY($1::uuid[])", copied) == [(at,)]


async def test_few_rows_and_rows_of_other_kinds_are_not_copied(store: Store):
    few, mixed = store.unit(), store.unit()
    many(store, few, statement.MIN_COPY_ROWS - 1)
    many(store, mixed)
    happened(mixed, await store.created(), "LOOKED_AT")
    assert not statement.is_bulk(submit(few).rows)
    assert not statement.is_bulk(submit(mixed).rows)
    await mixed.commit()
    assert await scalar(store, "SELECT count(*) FROM entity_audit WHERE transaction_id = $1", mixed.id) == MANY + 1


async def test_a_claim_that_is_taken_leaves_nothing(store: Store):
    first, second = store.unit(), store.unit()
    many(store, first, keys=range(MANY))
    await first.commit()
    many(store, second, keys=range(MANY - 1, 2 * MANY))
    with pytest.raises(UniqueViolation):
        await second.commit()
    for table in ("entity", "entity_audit", "unique_claim"):
        assert await scalar(store, f"SELECT count(*) FROM {table}") == MANY


async def test_of_two_that_claim_the_same_at_once_one_is_written(database: str):
    async with a_store(database) as one, a_store(database) as other:
        units = [one.unit(), other.unit()]
        many(one, units[0], keys=range(MANY))
        many(other, units[1], keys=range(MANY - 1, -1, -1))  # taken in one order, whatever they came in
        outcomes = await asyncio.gather(*(unit.commit() for unit in units), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {int, UniqueViolation}
        assert await scalar(one, "SELECT count(*) FROM entity") == MANY
        assert await scalar(one, "SELECT count(*) FROM unique_claim") == MANY


async def test_a_claim_being_taken_is_waited_for(store: Store):
    copying = store.unit()
    many(store, copying, keys=range(MANY))
    [hash_] = [row[2] for row in submit(copying).claims if row[1] == next(iter(copying.staged))]
    async with connected(store.url) as holder:
        async with holder.transaction():
            taken = "INSERT INTO unique_claim (tenant, hash, entity) VALUES ($1, $2, gen_random_uuid())"
            await holder.execute(taken, ACME, hash_)
            commit = asyncio.create_task(copying.commit())
            await until(blocked(store))
        with pytest.raises(UniqueViolation):
            await commit
    assert await scalar(store, "SELECT count(*) FROM entity") == 0


SAME_ID = """
    INSERT INTO entity
    SELECT (jsonb_populate_record(entity, jsonb_build_object('id', $2::uuid))).* FROM entity WHERE id = $1::uuid
"""


async def test_a_read_of_the_past_waits_for_a_copy_that_has_its_instant(patient_store: Store):
    """A row of the same id stops the copy after it has taken its instant, and before anybody sees it (decision S11)."""
    store = patient_store
    unit, other = store.unit(), await store.created()
    [first, *_, last] = many(store, unit)
    async with connected(store.url) as obstacle:
        held = obstacle.transaction()
        await held.start()
        await obstacle.execute(SAME_ID, other, last)
        commit = asyncio.create_task(unit.commit())
        await until(blocked(store))
        instant = system_clock()
        read = asyncio.create_task(entities.fetch_entity_at(store.pool, ACME, first, instant))
        waited, _ = await asyncio.wait([read], timeout=0.2)
        assert not waited, "the instant was taken before it, and is not visible yet"
        await held.rollback()
        at = await commit
    seen = await read
    assert at is not None
    assert at <= instant
    assert seen is not None


async def test_a_copy_whose_answer_was_lost_is_looked_up(database: str):
    async with a_network(database) as network, a_store(network.url, tables=database, lock_timeout=False) as store:
        warm, unit = store.unit(), store.unit()
        many(store, warm)
        await warm.commit()
        many(store, unit)
        async with connected(database) as obstacle, obstacle.transaction():
            await obstacle.execute("LOCK TABLE entity_audit IN EXCLUSIVE MODE")
            commit = asyncio.create_task(unit.commit())
            await until(blocked(store))
            # Everything but the last answers has arrived: what is cut off is never sent, so nothing can be durable.
            network.mute()
            network.cut()
        with pytest.raises(StorageUnavailable):
            await commit
        assert not await written_by(store, unit)
        again = store.unit()
        ids = many(store, again)
        assert isinstance(await again.commit(), int)
        assert await scalar(store, "SELECT count(*) FROM entity WHERE model = $1", MODEL) == 2 * len(ids)


async def test_what_else_a_transaction_writes_is_written_beside_copied_rows(store: Store):
    async with with_notes(store) as noting:
        unit = noting.unit()
        ids = many(noting, unit)
        arming = Arming(model=MODEL, fire_at=10**15, timeout_ms=None, armed_at=1, principal=Actor("alice", "user"))
        for entity in (ids[0], ids[-1]):
            unit.tasks.arm(entity, LAPSE, arming)
        unit.parts["notes"] = Notes(entity=ids[1], texts=["a", "b"])
        pending = PendingCommit(submit(unit), asyncio.get_running_loop().create_future(), 0.0)
        assert pending.is_bulk
        at = await unit.commit()
        assert await fetch(store, "SELECT text, at FROM note ORDER BY text") == [("a", at), ("b", at)]
        assert {row[0] for row in await fetch(store, "SELECT entity::text FROM scheduled_task")} == {ids[0], ids[-1]}
        assert await fetch(store, "SELECT count(*), min(valid_from), max(valid_from) FROM entity") == [(MANY, at, at)]
        assert await scalar(store, "SELECT count(*) FROM entity_audit") == MANY


async def test_a_part_may_refuse_copied_rows(store: Store):
    async with with_notes(store) as noting:
        unit = noting.unit()
        [first, *_] = many(noting, unit, keys=range(MANY))
        unit.parts["notes"] = Notes(entity=first, texts=["rude"])
        with pytest.raises(BadRequest, match=r"^a: b$"):
            await unit.commit()
        for table in ("note", "entity", "entity_audit", "unique_claim"):
            assert await scalar(store, f"SELECT count(*) FROM {table}") == 0


async def test_copied_entities_need_their_model_too(store):
    unit = store.unit()
    for _ in range(statement.MIN_COPY_ROWS):
        unit.create(store.new(unit), lock=1)
    assert statement.is_bulk(submit(unit).rows)
    with pytest.raises(ModelNotFound):
        await unit.commit()
    assert await scalar(store, "SELECT count(*) FROM entity") == 0

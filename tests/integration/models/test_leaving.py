"""A model that is unlocked or deleted while entities are still being made: none is ever left without its lock."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from statewright.ids import model_id
from tests.builders import SAMPLE, a_processor, a_workflow, automated, manual
from tests.database import connected
from tests.integration.node import a_node
from tests.service import Api, done, eventually, refused

PATH = "/model/prize/1"
MODEL = model_id("prize", 1)


def in_thread(call, *arguments) -> Future:
    """A request whose answer is a while in coming."""
    answer: Future = Future()
    threading.Thread(target=lambda: answer.set_result(call(*arguments)), daemon=True).start()
    return answer


@pytest.fixture
def asking(api: Api) -> Api:
    """A model whose entities are made by a calculation node."""
    api.a_model(a_workflow(NEW=[automated("MAKE", to="MADE", processors=[a_processor("make")])], MADE=[]))
    return api


@contextmanager
def a_create_under_way(service, tenant, api: Api) -> Iterator[tuple[Future, object]]:
    """A create whose processor is at work: its answer to come, and what lets it end."""
    with a_node(service, tenant, "node") as node:
        answer = in_thread(api.post, "/entity/JSON/prize/1", SAMPLE)
        request = node.next()
        yield answer, lambda: node.answer(request)


def entities_of(service, tenant: str) -> int:
    async def count() -> int:
        async with connected(service.database) as connection:
            return await connection.fetchval(
                "SELECT count(*) FROM entity WHERE tenant = $1 AND model = $2", tenant, MODEL
            )

    return asyncio.run(count())


def test_a_create_that_outlives_its_model_is_refused(asking, service, tenant):
    with a_create_under_way(service, tenant, asking) as (answer, finish):
        done(asking.put(f"{PATH}/unlock"))
        done(asking.delete(PATH))
        finish()
        refused(answer.result(30), 404, "MODEL_NOT_FOUND")
    assert entities_of(service, tenant) == 0


def test_a_create_that_outlives_the_lock_of_its_model_is_refused(asking, service, tenant):
    with a_create_under_way(service, tenant, asking) as (answer, finish):
        done(asking.put(f"{PATH}/unlock"))
        finish()
        refused(answer.result(30), 409, "MODEL_NOT_LOCKED")
    assert entities_of(service, tenant) == 0


def test_a_create_held_against_rules_that_have_changed_may_be_repeated(asking, service, tenant):
    """Unlocked, given a unique key and locked again: what was judged by the old rules claims nothing."""
    with a_create_under_way(service, tenant, asking) as (answer, finish):
        done(asking.put(f"{PATH}/unlock"))
        key = {"id": "name", "fields": ["$.motivation"]}
        done(asking.put(f"{PATH}/unique-keys", {"uniqueKeys": [key]}))
        done(asking.put(f"{PATH}/lock"))
        finish()
        problem = refused(answer.result(30), 409, "CONFLICT")
        assert problem["properties"]["retryable"] is True
    assert entities_of(service, tenant) == 0
    asking.import_workflows(a_workflow(NEW=[]))
    asking.create()
    refused(asking.post("/entity/JSON/prize/1", SAMPLE), 409, "UNIQUE_VIOLATION")


def test_the_first_segment_of_a_create_makes_its_model_stay(api, service, tenant):
    separate = a_processor("make", mode="COMMIT_BEFORE_DISPATCH")
    api.a_model(a_workflow(NEW=[automated("MAKE", to="MADE", processors=[separate])], MADE=[]))
    with a_create_under_way(service, tenant, api) as (answer, finish):
        refused(api.put(f"{PATH}/unlock"), 409, "MODEL_HAS_ENTITIES")
        finish()
        done(answer.result(30))
    assert entities_of(service, tenant) == 1


def test_an_update_whose_entity_and_model_go_meanwhile_conflicts(api, service, tenant):
    api.a_model(a_workflow(NEW=[manual("MAKE", to="MADE", processors=[a_processor("make")])], MADE=[]))
    entity = api.create()
    with a_node(service, tenant, "node") as node:
        answer = in_thread(api.put, f"/entity/JSON/{entity.id}/MAKE", SAMPLE)
        request = node.next()
        done(api.delete("/entity/prize/1"))
        done(api.put(f"{PATH}/unlock"))
        done(api.delete(PATH))
        node.answer(request)
        refused(answer.result(30), 409, "CONFLICT")
    assert entities_of(service, tenant) == 0


def test_creates_and_unlocks_in_any_order_leave_no_entity_without_a_lock(api, service, tenant):
    """Whoever comes first wins: either the unlock finds entities, or the creates find no lock."""
    rounds = 15
    api.import_model()
    creators = ThreadPoolExecutor(6)
    for _ in range(rounds):
        done(api.put(f"{PATH}/lock"))
        barrier = threading.Barrier(7)

        def create(barrier=barrier):
            barrier.wait(30)
            return api.post("/entity/JSON/prize/1", SAMPLE)

        under_way = [creators.submit(create) for _ in range(6)]
        barrier.wait(30)
        unlocked = api.put(f"{PATH}/unlock").status_code == 200
        statuses = [answer.result(30).status_code for answer in under_way]
        assert set(statuses) <= {200, 409}
        assert entities_of(service, tenant) == statuses.count(200)
        if unlocked:
            assert statuses.count(200) == 0
        else:
            done(api.delete("/entity/prize/1"))
            done(api.put(f"{PATH}/unlock"))
    creators.shutdown()


def test_an_unlock_waits_for_a_create_that_is_being_written_and_counts_it(api, service, tenant):
    """The commit stands between its check and its end, held up by somebody who wants the same unique value."""
    api.import_model()
    key = {"id": "name", "fields": ["$.motivation"]}
    done(api.put(f"{PATH}/unique-keys", {"uniqueKeys": [key]}))
    api.lock()
    first = api.create()

    async def race() -> tuple[Future, Future]:
        async with connected(service.database) as blocker:
            transaction = blocker.transaction()
            await transaction.start()
            [row] = await blocker.fetch("DELETE FROM unique_claim WHERE tenant = $1 RETURNING hash", tenant)
            await transaction.rollback()
            done(api.delete(f"/entity/{first.id}"))
            async with blocker.transaction():  # an insert that is not committed: theirs must wait for it
                await blocker.execute(
                    "INSERT INTO unique_claim (tenant, hash, entity) VALUES ($1, $2, gen_random_uuid())",
                    tenant,
                    row["hash"],
                )
                creating = in_thread(api.post, "/entity/JSON/prize/1", SAMPLE)
                await asyncio.to_thread(eventually, lambda: waits(service, "-- Applies the staged writes%"))
                unlocking = in_thread(api.put, f"{PATH}/unlock")
                await asyncio.to_thread(
                    eventually, lambda: unlocking.done() or waits(service, "%pg_advisory_xact_lock(%")
                )
                await blocker.execute("DELETE FROM unique_claim WHERE tenant = $1", tenant)
        return creating, unlocking

    creating, unlocking = asyncio.run(race())
    outcomes = creating.result(30).status_code, unlocking.result(30).status_code
    assert outcomes in {(200, 409), (409, 200)}
    assert entities_of(service, tenant) == (1 if outcomes == (200, 409) else 0)


def waits(service, statement: str) -> bool:
    async def ask() -> bool:
        async with connected(service.database) as connection:
            query = (
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE $1"
            )
            return bool(await connection.fetchval(query, statement))

    return asyncio.run(ask())

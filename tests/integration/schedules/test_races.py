"""Whoever competes for a task, one of them has an effect (docs/reference/workflows.md#scanning,
docs/reference/workflows.md#firing).
"""

import asyncio
from collections import Counter
from contextlib import ExitStack

import pytest

from statewright.entity import Principal
from statewright.failures import Conflict, TransitionNotFound
from statewright.services import entities
from statewright.services.core import Caller
from statewright.services.scheduler import fire_task
from tests.builders import a_processor, a_workflow, manual
from tests.integration.node import a_node
from tests.integration.schedules.conftest import Watch, all_events, of_type, scheduled
from tests.service import done, names

ROUNDS = 50

LAPSING = a_workflow(
    Booked=[scheduled("lapse", to="Lapsed", timeout_ms=10_000), manual("ship", to="Shipped")],
    Lapsed=[],
    Shipped=[],
)

SLOW = a_workflow(
    Booked=[
        scheduled("lapse", to="Lapsed", processors=[a_processor(mode="COMMIT_BEFORE_DISPATCH")]),
        manual("ship", to="Shipped"),
    ],
    Lapsed=[],
    Shipped=[],
)


def lapsing(api, timers, count=ROUNDS):
    """Entities with a task each, and an instant at which all of them are due."""
    model = api.a_model(LAPSING)
    ids = [api.create(model=model).id for _ in range(count)]
    return ids, timers.all_due(ids)


def test_two_nodes_that_took_the_same_task_fire_it_once(api, timers):
    ids, at = lapsing(api, timers)
    outcomes = timers.run(each_twice(timers.core(at), timers.take(at)))
    assert outcomes == [["fired", "kept"]] * ROUNDS
    for entity in ids:
        assert len(of_type(all_events(api, entity), "SCHEDULED_TRANSITION_FIRE")) == 1
        assert len(done(api.get(f"/entity/{entity}/changes"))) == 2


def test_two_nodes_that_took_the_same_task_expire_it_once(api, timers):
    ids, due = lapsing(api, timers)
    at = due + 60_000
    outcomes = timers.run(each_twice(timers.core(at), timers.take(at)))
    assert outcomes == [["expired", "kept"]] * ROUNDS
    for entity in ids:
        assert len(of_type(all_events(api, entity), "SCHEDULED_TRANSITION_EXPIRE")) == 1


async def each_twice(core, tasks):
    """What two nodes make of every task at the same time."""

    async def twice(task):
        return sorted(await asyncio.gather(*(fire_task(core, task, grace_ms=100) for _ in range(2))))

    return await asyncio.gather(*map(twice, tasks))


def test_nodes_that_scan_at_the_same_time_share_the_tasks(api, timers):
    ids, at = lapsing(api, timers)

    async def race():
        nodes = [timers.scheduler(at, batch_size=20) for _ in range(4)]
        scans = await asyncio.gather(*(node.run_once() for node in nodes))
        await asyncio.gather(*(node.wait_idle() for node in nodes))
        return [scan.taken for scan in scans]

    taken = timers.run(race())
    assert sum(taken) == ROUNDS
    assert max(taken) <= 20
    assert {api.state(entity) for entity in ids} == {"Lapsed"}


@pytest.mark.parametrize("transition", ["ship", None], ids=["manual transition", "loopback"])
def test_a_client_and_a_fire_that_race_for_an_entity_have_one_winner(api, tenant, timers, transition):
    ids, at = lapsing(api, timers)
    core = timers.core(at)
    alice = Caller(Principal(id="alice", name="alice", kind="user", tenant=tenant))

    async def write(entity):
        body = b'{"category":"physics","year":2024,"motivation":"client"}'
        try:
            await entities.update(core, alice, entity, media="JSON", body=body, transition=transition)
        except (Conflict, TransitionNotFound):
            return "refused"
        return "written"

    async def compete(task, *, client_first):
        client, node = write(task.entity), fire_task(core, task, grace_ms=100)
        if client_first:
            return await asyncio.gather(client, node)
        return reversed(await asyncio.gather(node, client))

    async def race(tasks):
        return await asyncio.gather(*(compete(task, client_first=n % 2 == 0) for n, task in enumerate(tasks)))

    tasks = timers.take(at)
    outcomes = {task.entity: tuple(pair) for task, pair in zip(tasks, timers.run(race(tasks)), strict=True)}
    assert outcomes.keys() == set(ids)
    for entity, outcome in outcomes.items():
        events = Counter(names(all_events(api, entity)))
        fired, cancelled = events["SCHEDULED_TRANSITION_FIRE"], events["SCHEDULED_TRANSITION_CANCEL"]
        match outcome:
            case ("refused", "fired"):
                assert (api.state(entity), fired, cancelled) == ("Lapsed", 1, 0)
            case ("written", "kept"):
                state, withdrawn = ("Shipped", 1) if transition else ("Booked", 0)
                assert (api.state(entity), fired, cancelled) == (state, 0, withdrawn)
            case ("written", "fired"):  # the loopback came after the fire
                assert (api.state(entity), fired, cancelled, transition) == ("Lapsed", 1, 0, None)
            case _:
                pytest.fail(f"impossible: {outcome}")


def test_a_node_that_dies_between_taking_and_firing_delays_the_task_by_one_back_off(api, timers):
    entity = api.create(model=api.a_model(a_workflow(Booked=[scheduled("lapse", to="Lapsed")], Lapsed=[]))).id
    at = timers.due(entity)
    [task] = timers.take(at)
    assert (task.entity, task.attempts) == (entity, 1)
    assert timers.scan(at=at + 29_999) == 0
    assert timers.scan(at=at + 30_000) == 1
    assert api.state(entity) == "Lapsed"


def test_a_task_that_was_armed_again_after_it_was_taken_does_not_fire(api, timers):
    [entity], at = lapsing(api, timers, count=1)
    [task] = timers.take(at)
    api.update(entity)
    assert timers.fire(task, at) == "kept"
    assert api.state(entity) == "Booked"
    assert len(timers.of(entity)) == 1


def test_a_task_that_is_gone_after_it_was_taken_does_not_fire(api, timers):
    [entity], at = lapsing(api, timers, count=1)
    [task] = timers.take(at)
    timers.sql("DELETE FROM scheduled_task")
    assert timers.fire(task, at) == "kept"
    assert api.state(entity) == "Booked"


def test_a_client_who_moves_the_entity_during_a_segmented_fire_wins(api, service, tenant, timers):
    entity = api.create(model=api.a_model(SLOW)).id
    with a_node(service, tenant, "node") as node:
        scan = timers.begin_scan(timers.due(entity))
        request = node.next()
        api.update(entity, fire="ship")
        node.answer(request)
        scan.result()
    assert api.state(entity) == "Shipped"
    assert timers.of(entity) == []
    events = Counter(names(all_events(api, entity)))
    assert (events["SCHEDULED_TRANSITION_CANCEL"], events["SCHEDULED_TRANSITION_FIRE"]) == (1, 0)


def test_a_fire_that_takes_longer_than_the_back_off_is_not_begun_by_another_node(api, service, tenant, timers):
    entity = api.create(model=api.a_model(SLOW)).id
    at = timers.due(entity)
    watch = Watch(at)
    first, second = timers.scheduler(watch), timers.scheduler(at + 40_000)
    with a_node(service, tenant, "node") as node:
        timers.run(first.run_once())
        request = node.next()
        watch.at = at + 20_000
        assert timers.run(first.hold_once()) == 1
        assert timers.run(second.run_once()).taken == 0
        assert timers.of(entity)[0]["not_before"] == at + 50_000
        node.answer(request)
        timers.run(first.wait_idle())
        assert node.is_idle
    assert api.state(entity) == "Lapsed"


def test_a_node_does_not_begin_again_what_it_is_doing(api, service, tenant, timers):
    entity = api.create(model=api.a_model(SLOW)).id
    scheduler = timers.scheduler(timers.due(entity))
    with a_node(service, tenant, "node") as node:
        timers.run(scheduler.run_once())
        request = node.next()
        timers.sql("UPDATE scheduled_task SET not_before = 0")
        timers.run(scheduler.run_once())
        node.answer(request)
        timers.run(scheduler.wait_idle())
        assert node.is_idle
    assert api.state(entity) == "Lapsed"


def test_a_tenant_with_slow_processors_leaves_room_for_the_others(service, timers):
    slow, quick = service.api("slow-tenant"), service.api("quick-tenant")
    slow.a_model(SLOW)
    quick.a_model(LAPSING)
    at = timers.all_due([slow.create().id for _ in range(8)])
    with a_node(service, "slow-tenant", "node") as node:
        scheduler = timers.scheduler(at, batch_size=2)
        assert [timers.run(scheduler.run_once()).taken for _ in range(3)] == [2, 0, 0]
        requests = [node.next(), node.next()]
        entity = quick.create().id
        timers.sql("UPDATE scheduled_task SET fire_at = $1 WHERE tenant = 'quick-tenant'", at)
        assert timers.run(scheduler.run_once()).taken == 1
        for request in requests:
            node.answer(request)
        timers.run(scheduler.wait_idle())
    assert quick.state(entity) == "Lapsed"


def test_there_is_a_limit_to_what_is_under_way(service, timers):
    tenants = [f"limited-{n}" for n in range(5)]
    with ExitStack() as connected:
        nodes = [connected.enter_context(a_node(service, tenant, "node")) for tenant in tenants]
        apis = [service.api(tenant) for tenant in tenants]
        at = timers.all_due([api.create(model=api.a_model(SLOW)).id for api in apis])
        scheduler = timers.scheduler(at, batch_size=1)
        scans = [timers.run(scheduler.run_once()) for _ in tenants]
        assert [scan.taken for scan in scans] == [1, 1, 1, 0, 0]
        assert scans[-1].more
        for node in nodes[:3]:
            node.answer_next()
        timers.run(scheduler.wait_idle())
        assert timers.run(scheduler.run_once()).taken == 1
        nodes[3].answer_next()
        timers.run(scheduler.wait_idle())

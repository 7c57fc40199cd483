"""Incidents of scheduled transitions (docs/reference/operations.md#incidents)."""

import asyncio

import pytest

from tests.builders import Json, a_processor, a_workflow, manual
from tests.integration.ops.builders import ops_api
from tests.integration.schedules.conftest import Timers, scheduled
from tests.service import PATIENCE_S, Api, RunningService, done, eventually, refused

PRINTS = a_workflow(
    Booked=[
        scheduled("lapse", to="Lapsed", processors=[a_processor(tags="printer")]),
        manual("again", to="Booked"),
    ],
    Lapsed=[],
)
LAPSES = a_workflow(Booked=[scheduled("lapse", to="Lapsed", timeout_ms=1000)], Lapsed=[])


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR", user="olga")


def listed(ops: Api, query: str = "") -> list[Json]:
    """The open incidents, once there are any."""
    eventually(lambda: done(ops.get(f"/incidents{query}"))["items"] != [])
    return done(ops.get(f"/incidents{query}"))["items"]


def scan(timers: Timers, at: int) -> int:
    """One scan of a node whose timers are parked by their second failure."""

    async def look() -> int:
        scheduler = timers.scheduler(at, max_attempts=2)
        taken = (await scheduler.run_once()).taken
        await scheduler.wait_idle()
        return taken

    return timers.run(look())


def sweep(service: RunningService) -> None:
    sweeper = service.parts.runtime.operations.concerns.incident_sweeper
    asyncio.run_coroutine_threadsafe(sweeper.run_once(), service.loop).result(PATIENCE_S)


def test_a_timer_that_fails_too_often_is_parked_until_somebody_retries(api: Api, ops: Api, timers: Timers) -> None:
    entity = api.create(model=api.a_model(PRINTS)).id
    due = timers.due(entity)
    assert scan(timers, due) == 1
    [failed] = listed(ops)
    assert (failed["kind"], failed["subject"]["model"], failed["transition"]) == ("TIMER_FAILED", "prize/1", "lapse")
    assert scan(timers, due + 30_000) == 1
    [dead] = done(ops.get("/incidents?kind=TIMER_DEAD"))["items"]  # at once: it has committed with the parking
    assert (dead["subject"]["id"], dead["code"]) == (entity, "NO_COMPUTE_MEMBER_FOR_TAG")
    assert scan(timers, due + 10**12) == 0
    assert done(ops.post(f"/incidents/{dead['id']}/retry"))["result"] == {"timer": "lapse", "due": True}
    [task] = timers.of(entity)
    assert (task["attempts"], task["failures"], task["not_before"]) == (0, 0, 0)
    assert scan(timers, due + 60_000) == 1


def test_a_parked_timer_survives_a_suspension(api: Api, ops: Api, timers: Timers) -> None:
    entity = api.create(model=api.a_model(PRINTS)).id
    due = timers.due(entity)
    assert [scan(timers, due + n * 30_000) for n in range(3)] == [1, 1, 0]
    for policy in ("FIRE", "SHIFT"):
        suspension = ops.post("/suspensions", {"scope": "ENTITY", "id": entity, "reason": "audit"}).json()
        done(ops.post(f"/suspensions/{suspension['id']}/resume", {"timers": policy}))
        assert scan(timers, due + 10**12) == 0


def test_without_the_setting_a_timer_is_tried_for_ever(api: Api, timers: Timers) -> None:
    entity = api.create(model=api.a_model(PRINTS)).id
    due = timers.due(entity)
    assert [timers.scan(at=due + n * 30_000) for n in range(5)] == [1] * 5


def test_an_expired_timer_leaves_an_incident_with_the_expiry(
    service: RunningService, api: Api, ops: Api, timers: Timers
) -> None:
    entity = api.create(model=api.a_model(LAPSES)).id
    timers.scan(at=timers.due(entity) + 5000)
    [expired] = done(ops.get("/incidents"))["items"]
    assert (expired["kind"], expired["subject"]["id"], expired["transition"]) == ("TIMER_EXPIRED", entity, "lapse")
    assert "lateness 5000ms > timeout 1000ms" in expired["message"]
    problem = refused(ops.post(f"/incidents/{expired['id']}/retry"), 409, "INCIDENT_NOT_RETRYABLE")
    assert problem["properties"]["reason"] == "the timer is gone"
    sweep(service)
    assert [each["id"] for each in listed(ops)] == [expired["id"]]


def test_an_incident_of_a_timer_that_was_armed_anew_closes_itself(
    service: RunningService, api: Api, ops: Api, timers: Timers
) -> None:
    entity = api.create(model=api.a_model(PRINTS)).id
    timers.scan(at=timers.due(entity))
    [failed] = listed(ops)
    sweep(service)
    assert [each["id"] for each in listed(ops)] == [failed["id"]]
    api.update(entity, fire="again")
    sweep(service)
    [closed] = listed(ops, "?status=RESOLVED")
    assert (closed["id"], closed["resolution"]["how"]) == (failed["id"], "GONE")


def test_a_timer_that_is_parked_while_its_node_holds_it_stays_parked(api: Api, timers: Timers) -> None:
    entity = api.create(model=api.a_model(PRINTS)).id
    due = timers.due(entity)
    assert scan(timers, due) == 1
    under_way = timers.take(due + 30_000)
    assert scan(timers, due + 60_000) == 1, "its second failure parks it"
    timers.run(timers.service.parts.runtime.core.tasks.hold(under_way, until=due + 90_000))
    assert scan(timers, due + 120_000) == 0

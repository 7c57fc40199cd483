"""Scheduled transitions that end the nodes which take them, and shares of those that are due."""

import pytest

from tests.builders import Json, a_processor, a_workflow, manual
from tests.integration.ops.builders import ops_api
from tests.integration.schedules.conftest import Timers, scheduled
from tests.service import Api, RunningService, done, refused

LAPSES = a_workflow(Booked=[scheduled("lapse", to="Lapsed"), manual("again", to="Booked")], Lapsed=[])
PRINTS = a_workflow(Booked=[scheduled("lapse", to="Lapsed", processors=[a_processor(tags="printer")])], Lapsed=[])
BACKOFF_MS = 30_000


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_OPERATOR", user="olga")


def park(timers: Timers, entity: str) -> int:
    """Three nodes die of the timer of an entity, and the next one looks; when."""
    at = timers.due(entity)
    for _ in range(3):
        assert len(timers.take(at)) == 1
        at += BACKOFF_MS
    assert timers.scan(at) == 0
    return at


def listed(ops: Api, status: str = "OPEN") -> list[Json]:
    return done(ops.get(f"/incidents?kind=POISONED&status={status}"))["items"]


def test_a_timer_that_ends_three_nodes_is_parked_until_it_is_retried(api: Api, ops: Api, timers: Timers) -> None:
    entity = api.create(model=api.a_model(LAPSES)).id
    at = park(timers, entity)
    [incident] = listed(ops)  # at once: it has committed with the parking
    assert incident["subject"] == incident["subject"] | {"kind": "ENTITY", "id": entity, "model": "prize/1"}
    assert (incident["component"], incident["transition"], incident["occurrences"]) == ("transition", "lapse", 1)
    assert [attempt["member"] in incident["message"] for attempt in incident["attempts"]] == [True] * 3
    assert timers.scan(at + 10 * BACKOFF_MS) == 0
    retried = done(ops.post(f"/incidents/{incident['id']}/retry", {}))
    assert (retried["incident"]["status"], retried["result"]) == ("RESOLVED", {"work": "transition", "due": True})
    assert timers.scan(at + 11 * BACKOFF_MS) == 1
    assert api.state(entity) == "Lapsed"
    refused(ops.post(f"/incidents/{incident['id']}/retry", {}), 409, "INCIDENT_CLOSED")


def test_resolving_the_incident_withdraws_a_parked_timer(api: Api, ops: Api, timers: Timers) -> None:
    entity = api.create(model=api.a_model(LAPSES)).id
    at = park(timers, entity)
    [incident] = listed(ops)
    done(ops.post(f"/incidents/{incident['id']}/resolve", {"reason": "hopeless"}))
    assert timers.of(entity) == []
    assert timers.scan(at + BACKOFF_MS) == 0
    assert (api.state(entity), listed(ops)) == ("Booked", [])


def test_a_timer_that_is_armed_again_has_its_attempts_again(api: Api, timers: Timers) -> None:
    entity = api.create(model=api.a_model(LAPSES)).id
    park(timers, entity)
    api.update(entity, fire="again")
    assert timers.scan(timers.due(entity)) == 1
    assert api.state(entity) == "Lapsed"


def test_the_end_of_a_suspension_leaves_a_parked_timer_parked(api: Api, ops: Api, timers: Timers) -> None:
    entity = api.create(model=api.a_model(LAPSES)).id
    at = park(timers, entity)
    suspension = ops.post("/suspensions", {"scope": "ENTITY", "id": entity, "reason": "audit"}).json()
    done(ops.post(f"/suspensions/{suspension['id']}/resume", {"timers": "FIRE"}))
    assert timers.scan(at + BACKOFF_MS) == 0
    assert len(listed(ops)) == 1


def test_a_fire_that_fails_in_good_order_is_no_attempt(api: Api, ops: Api, timers: Timers) -> None:
    entity = api.create(model=api.a_model(PRINTS)).id
    due = timers.due(entity)
    for n in range(6):
        assert timers.scan(due + n * BACKOFF_MS) == 1
    timers.run(timers.service.parts.runtime.core.takings.release_all())
    [task] = timers.of(entity)
    assert (task["takers"], listed(ops)) == ([], [])


def test_nodes_take_shares_of_what_is_due(api: Api, timers: Timers, monkeypatch: pytest.MonkeyPatch) -> None:
    model = api.a_model(LAPSES)
    entities = [api.create(model=model).id for _ in range(9)]
    at = timers.all_due(entities)
    monkeypatch.setattr(timers.service.parts.runtime.core.takings, "count_nodes", lambda: 3)
    assert [timers.scan(at) for _ in range(6)] == [3, 2, 2, 1, 1, 0]
    assert {api.state(entity) for entity in entities} == {"Lapsed"}


def test_suspects_are_taken_one_at_a_time_and_fire(api: Api, ops: Api, timers: Timers) -> None:
    model = api.a_model(LAPSES)
    entities = [api.create(model=model).id for _ in range(9)]
    at = timers.all_due(entities)
    for n in range(2):
        assert len(timers.take(at + n * BACKOFF_MS)) == 9
    assert [timers.scan(at + 2 * BACKOFF_MS) for _ in range(10)] == [1] * 9 + [0]
    assert {api.state(entity) for entity in entities} == {"Lapsed"}
    assert listed(ops) == []

"""Waiting for entities and instances (docs/reference/operations.md#wait).

``STATEWRIGHT_TEST_WAITERS=1000`` has as many wait for one entity as one tenant may have on a node.
"""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from datetime import timedelta
from urllib.parse import urlsplit

import httpx
import pytest

from statewright.api.http import request
from statewright.api.http.ops import history
from statewright.failures import ModelNotFound
from statewright.services.ops import waiting
from statewright.storage.pool import Pool
from tests.builders import a_workflow, automated, manual, when
from tests.database import Template, connected, database_url
from tests.integration.ops.builders import ops_api
from tests.integration.steps_http.conftest import definition, step, uploaded
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, eventually, hosted, refused

WAITERS = int(os.environ.get("STATEWRIGHT_TEST_WAITERS", "100"))

UNKNOWN = "00000000-0000-1000-8000-000000000000"
LIFE = a_workflow(
    HERE=[manual("GO", to="THERE"), manual("HOP", to="AIR")],
    AIR=[automated("LAND", to="THERE", criterion=when("$.year", "GREATER_THAN", 0))],
    THERE=[manual("END", to="GONE")],
    GONE=[],
)


@pytest.fixture(scope="module")
def services(database_template: Template) -> Iterator[list[RunningService]]:
    """Two services on one database."""
    with ExitStack() as stack:
        one = stack.enter_context(hosted(database_template.clone()))
        yield [one, stack.enter_context(hosted(nullcontext(one.database), waiters_per_node=3))]


@pytest.fixture
def here(services: list[RunningService], tenant: str) -> Api:
    api = services[0].api(tenant)
    api.a_model(LIFE, sample={"year": 1})
    return api


@pytest.fixture
def ops(services: list[RunningService], tenant: str) -> list[Api]:
    return [ops_api(service, tenant) for service in services]


@pytest.fixture
def crowd() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def wait(ops: Api, entity: str, query: str) -> httpx.Response:
    return ops.get(f"/entities/{entity}/wait?{query}")


def waiters(service: RunningService) -> int:
    return service.parts.runtime.operations.waits.count


def begin(
    crowd: ThreadPoolExecutor, service: RunningService, ops: Api, entity: str, query: str
) -> "Future[httpx.Response]":
    """A wait that is under way."""
    before = waiters(service)
    waiting = crowd.submit(wait, ops, entity, query)
    eventually(lambda: waiters(service) > before)
    return waiting


def test_what_is_there_already_is_answered_at_once(here: Api, ops: list[Api]) -> None:
    saved = here.create({"year": 1})
    found = done(wait(ops[0], saved.id, "state=THERE&state=HERE"))
    assert (found["reached"], found["deleted"], found["state"]) == (True, False, "HERE")
    assert found["transactionId"] == saved.transaction
    late = done(wait(ops[0], saved.id, "state=THERE&timeout=PT0S"))
    assert (late["reached"], late["state"]) == (False, "HERE")


@pytest.mark.parametrize("node", [0, 1])
def test_a_transition_ends_the_wait_on_every_node(here: Api, ops, services, crowd, node: int) -> None:
    saved = here.create({"year": 1})
    waiting = begin(crowd, services[node], ops[node], saved.id, "state=THERE")
    moved = here.update(saved.id, {"year": 2}, fire="GO")
    found = done(waiting.result())
    assert (found["reached"], found["state"], found["transactionId"]) == (True, "THERE", moved.transaction)
    eventually(lambda: waiters(services[node]) == 0)


@pytest.mark.parametrize("node", [0, 1])
def test_a_state_that_was_only_passed_through_counts(here: Api, ops, services, crowd, node: int) -> None:
    saved = here.create({"year": 0})
    waiting = begin(crowd, services[node], ops[node], saved.id, "state=AIR")
    here.update(saved.id, {"year": 0}, fire="HOP")
    here.update(saved.id, {"year": 1})
    here.delete(f"/entity/{saved.id}")
    assert done(waiting.result())["reached"] is True


def test_without_a_state_the_end_of_its_workflow_or_a_newer_version_is_awaited(here, ops, services, crowd) -> None:
    saved = here.create({"year": 1})
    ended = begin(crowd, services[0], ops[0], saved.id, "timeout=PT40S")
    newer = begin(crowd, services[0], ops[0], saved.id, f"after={saved.transaction}")
    moved = here.update(saved.id, {"year": 1}, fire="GO")
    assert done(newer.result())["transactionId"] == moved.transaction
    assert not ended.done()
    here.update(saved.id, {"year": 1}, fire="END")
    assert done(ended.result())["state"] == "GONE"
    assert done(wait(ops[0], saved.id, f"after={saved.transaction}&state=THERE"))["transactionId"] == moved.transaction


def test_a_deletion_ends_the_wait(here: Api, ops, services, crowd) -> None:
    saved = here.create({"year": 1})
    waiting = begin(crowd, services[1], ops[1], saved.id, "state=NOWHERE")
    here.delete(f"/entity/{saved.id}")
    found = done(waiting.result())
    assert (found["reached"], found["deleted"]) == (False, True)
    refused(wait(ops[0], saved.id, "state=THERE"), 404, "ENTITY_NOT_FOUND")


def test_what_cannot_be_awaited_is_refused(here: Api, ops, services, tenant) -> None:
    saved = here.create({"year": 1})
    refused(wait(ops[0], UNKNOWN, ""), 404, "ENTITY_NOT_FOUND")
    refused(wait(ops_api(services[0], f"{tenant}-x"), saved.id, ""), 404, "ENTITY_NOT_FOUND")
    refused(wait(ops[0], saved.id, f"after={UNKNOWN}"), 404, "VERSION_NOT_FOUND")
    for query in ("timeout=soon", "timeout=P1M", "timeout=P999999999999W", "after=x"):
        refused(wait(ops[0], saved.id, query), 400, "BAD_REQUEST")


def test_no_wait_is_longer_than_the_longest_one(here: Api, ops, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timedelta(seconds=50) == waiting.MAX_WAIT == history.MAX_WAIT
    monkeypatch.setattr(history, "MAX_WAIT", timedelta(milliseconds=50))
    entity = here.create({"year": 1}).id
    found = done(wait(ops[0], entity, "state=GONE&timeout=P7D"))
    assert (found["reached"], found["state"], found["waitedMs"] >= 50) == (False, "HERE", True)


def test_too_many_waiters_are_turned_away_and_leaving_makes_room(here: Api, ops, services, crowd) -> None:
    saved = here.create({"year": 1})
    held = [begin(crowd, services[1], ops[1], saved.id, "state=THERE") for _ in range(3)]
    turned_away = wait(ops[1], saved.id, "state=THERE")
    refused(turned_away, 429, "TOO_MANY_REQUESTS")
    here.update(saved.id, {"year": 1}, fire="GO")
    assert all(done(each.result())["reached"] for each in held)
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(
            f"{ops[1].url}/entities/{saved.id}/wait?state=GONE",
            headers={"Authorization": f"Bearer {ops[1].token}"},
            timeout=0.5,
            trust_env=False,
        )
    eventually(lambda: waiters(services[1]) == 0)


def test_many_waiters_of_one_entity_are_one_query_per_look(here: Api, ops, services, monkeypatch) -> None:
    looks: list[int] = []
    fetch = waiting.fetch_since

    async def count(pool: Pool, positions: Sequence[waiting.Position]) -> list[list[waiting.SeenVersion]]:
        looks.append(len(positions))
        return await fetch(pool, positions)

    async def hold() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=WAITERS)
        async with httpx.AsyncClient(timeout=PATIENCE_S, limits=limits, trust_env=False) as http:
            asking = (http.get(url, headers={"Authorization": f"Bearer {ops[0].token}"}) for _ in range(WAITERS))
            answers = asyncio.gather(*asking)
            await asyncio.to_thread(eventually, lambda: waiters(services[0]) == WAITERS)
            monkeypatch.setattr(waiting, "fetch_since", count)
            assert len(services[0].parts.runtime.core.commits.watched) == 1
            await asyncio.to_thread(eventually, lambda: len(looks) >= 3)
            await asyncio.to_thread(here.update, saved.id, {"year": 1}, fire="GO")
            await asyncio.to_thread(here.update, saved.id, {"year": 1}, fire="END")
            return await answers

    saved = here.create({"year": 1})
    url = f"{ops[0].url}/entities/{saved.id}/wait?state=GONE"
    assert all(done(answer)["reached"] for answer in asyncio.run(hold()))
    assert {*looks} == {1}
    eventually(lambda: not services[0].parts.runtime.core.commits.watched)


def test_a_write_waits_when_its_client_prefers(here: Api) -> None:
    plain = here.post("/entity/JSON/prize/1", {"year": 1})
    assert {"preference-applied", "x-wait-result", "x-entity-state"}.isdisjoint(plain.headers)
    late = here.post("/entity/JSON/prize/1", {"year": 1}, Prefer="wait=0")
    entity = done(late)[0]["entityIds"][0]
    told = [late.headers[name] for name in ("preference-applied", "x-wait-result", "x-entity-state")]
    assert told == ["wait=0", "timeout", "HERE"]
    path = f"/entity/JSON/{entity}"
    moved = here.put(f"{path}/GO", {"year": 1}, Prefer='respond-async, wait=20; state="AIR, THERE"')
    assert (moved.headers["x-wait-result"], moved.headers["x-entity-state"]) == ("reached", "THERE")
    ended = here.put(f"{path}/END", {"year": 1}, Prefer="wait=99", Idempotency_Key=entity)
    assert (ended.headers["preference-applied"], ended.headers["x-wait-result"]) == ("wait=50", "reached")
    again = here.put(f"{path}/END", {"year": 1}, Prefer="wait=99", Idempotency_Key=entity)
    assert (again.content, again.headers["idempotency-replayed"]) == (ended.content, "true")
    assert "x-wait-result" not in here.put(f"{path}/END", {"year": 1}, Prefer="wait=9").headers


def test_a_write_is_held_until_another_one_moves_the_entity(here: Api, services, crowd) -> None:
    held = crowd.submit(here.post, "/entity/JSON/prize/1", {"year": 1}, Prefer='wait=30; state="GONE"')
    eventually(lambda: waiters(services[0]) == 1)
    [entity] = [each["meta"]["id"] for each in done(here.get("/entity/prize/1"))]
    here.update(entity, {"year": 1}, fire="GO")
    here.update(entity, {"year": 1}, fire="END")
    assert held.result().headers["x-entity-state"] == "GONE"
    assert done(held.result())[0]["entityIds"] == [entity]


def test_instances_are_awaited_and_started_and_awaited(services, ops, tenant, crowd) -> None:
    v1 = Api(services[0].root, a_token(tenant))
    uploaded(v1, definition("form", step("wait", "WAIT", "end")), definition("none"))
    started = v1.post("/v1/instances", {"definitionId": "form"}).json()
    path = f"/instances/{started['id']}/wait"
    assert done(ops[0].get(f"{path}?until=WAITING"))["status"] == "WAITING"
    assert done(ops[0].get(f"{path}?timeout=PT0S"))["reached"] is False
    ending = crowd.submit(ops[1].get, path)
    eventually(lambda: waiters(services[1]) == 1)
    v1.post(f"/v1/instances/{started['id']}/cancel", {"reason": "no"})
    found = done(ending.result())
    assert (found["reached"], found["status"], found["failureReason"]) == (True, "CANCELLED", "no")
    refused(ops[0].get("/instances/nobody/wait"), 404, "STEP_NOT_FOUND")
    at_once = v1.post("/v1/instances", {"definitionId": "form"}, Prefer="wait=0")
    assert (at_once.json()["status"], at_once.headers["x-wait-result"]) == ("WAITING", "timeout")


def test_an_instance_that_fails_ends_the_wait_for_its_start(services, tenant) -> None:
    v1 = Api(services[0].root, a_token(tenant))
    uploaded(v1, definition("decide", step("route", "DECISION", conditionalNextSteps={"score > 1": "end"})))
    failed = v1.post("/v1/instances", {"definitionId": "decide"}, Prefer="wait=20")
    assert (failed.json()["status"], failed.headers["x-wait-result"]) == ("FAILED", "reached")


def test_what_befalls_a_wait_does_not_befall_the_write(here: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ModelNotFound("model not found")

    monkeypatch.setattr(request, "wait_after_write", fail)
    written = here.post("/entity/JSON/prize/1", {"year": 1}, Prefer="wait=20")
    assert done(written)[0]["entityIds"]
    assert written.headers["x-wait-result"] == "timeout"


def test_a_wait_outlasts_the_absence_of_the_database(database_template: Template, tenant: str, crowd) -> None:
    with hosted(database_template.clone()) as service:
        api = service.api(tenant)
        api.a_model(LIFE, sample={"year": 1})
        saved = api.create({"year": 1})
        waiting = begin(crowd, service, ops_api(service, tenant), saved.id, "state=THERE")
        admit_connections(service, admits=False)
        eventually(lambda: api.get(f"/entity/{saved.id}").status_code == 503)
        assert not waiting.done()
        admit_connections(service, admits=True)
        eventually(lambda: api.put(f"/entity/JSON/{saved.id}/GO", {"year": 1}).status_code == 200)
        assert done(waiting.result())["reached"] is True


def admit_connections(service: RunningService, *, admits: bool) -> None:
    """Whether the database of a service lets anybody in. Who is in it is thrown out."""
    name = urlsplit(service.database).path.removeprefix("/")

    async def execute() -> None:
        async with connected(database_url(service.database, "postgres")) as admin:
            await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {admits}')
            await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)

    asyncio.run(execute())


def test_a_service_that_stops_ends_its_waits(database_template: Template, tenant: str, crowd) -> None:
    with hosted(database_template.clone()) as stopping:
        api = stopping.api(tenant)
        api.a_model(LIFE, sample={"year": 1})
        waiting = begin(crowd, stopping, ops_api(stopping, tenant), api.create({"year": 1}).id, "state=THERE")
        begun = time.monotonic()
    assert done(waiting.result())["reached"] is False
    assert time.monotonic() - begun < 25

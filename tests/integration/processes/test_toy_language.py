"""A language that the program does not have runs on the host, which was not touched for it."""

import asyncio
import subprocess
import sys
from datetime import timedelta

import pytest

from statewright.entity import ModelKey
from statewright.jsonval.values import JsonValue
from statewright.net import ulid_to_uuid
from statewright.sdk import Node
from statewright.services.processes import jobs
from statewright.services.processes.documents import decode_text
from statewright.storage.work import TIMERS
from tests.integration.processes.conftest import Loop, Office
from tests.integration.processes.errands import CHORE, ERRAND, PLAN, Errand
from tests.integration.steps.conftest import Watch
from tests.integration.steps.test_entity_api import search, simple
from tests.integration.transactions.conftest import Serving
from tests.integration.transactions.conftest import serving as serving
from tests.service import Api, RunningService, done, eventually, refused
from tests.takings import take


def entity_of(errand: Errand) -> str:
    return str(ulid_to_uuid(errand.id))


async def test_jobs_are_polled_and_the_choice_follows_their_results(offices: tuple[Office, Office]):
    office, other = offices
    await office.draw()
    light, heavy = await office.send(), await office.send()
    first, second = await other.claim("fetch")
    await other.complete(first, weight=3)
    await office.complete(second, weight=30)
    assert (await office.read(light)).status == "COMPLETED"
    assert (await other.read(heavy)).status == "RUNNING"
    [lift] = await office.claim("fetch", "lift")
    assert (lift.job_type, lift.node_id, lift.variables) == ("lift", "lift", {"weight": 30})
    await office.complete(lift, lifted=True)
    assert (await office.read(heavy)).marking.data == {"weight": 30, "lifted": True}
    assert await other.trace(light) == ["ask JOB COMPLETED", "done END COMPLETED"]
    assert await other.trace(heavy) == ["ask JOB COMPLETED", "lift JOB COMPLETED", "done END COMPLETED"]


async def test_a_job_whose_payload_meets_a_defect_keeps_no_other_from_being_claimed(
    offices: tuple[Office, Office], monkeypatch: pytest.MonkeyPatch
):
    office, _ = offices
    await office.draw()
    await office.send(text="poison")
    good = await office.send(text="good")

    def decode(text: str) -> JsonValue:
        assert "poison" not in text
        return decode_text(text)

    monkeypatch.setattr(jobs, "decode_text", decode)
    [job] = await office.claim("fetch")
    assert job.instance_id == good.id


async def test_a_business_key_is_held_while_the_instance_is_in_flight(offices: tuple[Office, Office]):
    office, other = offices
    await office.draw()
    await office.send(key="k")
    with pytest.raises(Exception, match="business key already in use"):
        await other.send(key="k")
    [job] = await office.claim("fetch")
    await office.complete(job, weight=1)
    await other.send(key="k")


DYING = """
import asyncio, os, sys
from datetime import timedelta
from tests.integration.processes import conftest
from tests.integration.steps.conftest import Watch

async def work(database, tenant):
    languages = conftest.languages
    languages.LANGUAGES = (*languages.LANGUAGES, conftest.INSTALLED)
    async with conftest.a_node(database, tenant, Watch()) as office:
        [job] = await office.claim("fetch", worker="dying", lease=30)
        print(job.id, flush=True)
        os._exit(9)

asyncio.run(work(*sys.argv[1:]))
"""


async def test_a_job_of_a_process_that_dies_is_done_by_another(
    offices: tuple[Office, Office], database: str, clock: Watch
):
    office, other = offices
    await office.draw()
    errand = await office.send()
    arguments = [sys.executable, "-c", DYING, database, office.caller.tenant]
    died = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, timeout=60)
    assert died.returncode == 9, died.stderr
    assert await other.claim("fetch") == ()
    assert await other.sweep() == 0
    clock.advance(timedelta(seconds=31))
    assert await other.sweep() == 1
    assert other.host.metrics.leases_expired == 1
    [job] = await other.claim("fetch", worker="taking over")
    assert job.id == died.stdout.strip()
    await asyncio.gather(other.complete(job, weight=1), office.complete(job, weight=100))
    ended = await other.read(errand)
    assert (ended.status, ended.marking.data["weight"]) in {("COMPLETED", 1), ("RUNNING", 100)}
    assert (await other.trace(errand)).count("ask JOB COMPLETED") == 1


async def test_a_timer_fires_once_whichever_node_looks(offices: tuple[Office, Office], clock: Watch):
    office, other = offices
    await office.draw()
    late = await office.send()
    assert await other.scan() == 0
    clock.advance(timedelta(hours=2))
    assert sum(await asyncio.gather(office.scan(), other.scan())) == 1
    assert (await other.read(late)).status == "COMPLETED"
    assert (await other.trace(late))[-1] == "late END COMPLETED"
    assert await office.claim("fetch") == ()


async def test_rows_of_a_language_are_left_alone_by_nodes_that_have_it_not(
    offices: tuple[Office, Office], clock: Watch
):
    office, _ = offices
    await office.draw()
    await office.send()
    now = clock() + 2 * 3_600_000_000
    assert await take(office.runtime.core.pool, TIMERS, ["steps"], now=now, until=now) == []


async def test_definitions_get_versions_of_their_own(offices: tuple[Office, Office]):
    office, other = offices
    await asyncio.gather(office.draw(limit=1), other.draw(limit=2), office.draw(limit=1))
    errand = await office.send()
    assert errand.definition_version == 2


def test_a_member_does_pushed_jobs(service: RunningService, office: Office, run: Loop, serving: Serving):
    node = Node(tags=["fetch-pushed"])

    @node.processor("fetch-pushed")
    def fetch(data: dict[str, object]) -> dict[str, object]:
        return {"weight": 2, "for": data["who"]}

    serving(node)
    run(office.draw("pushed", ask="fetch-pushed"))
    errand = run(office.send("pushed", who="Ada"))
    eventually(lambda: run(office.read(errand)).status == "COMPLETED")
    assert run(office.read(errand)).marking.data == {"who": "Ada", "weight": 2, "for": "Ada"}


def test_workers_of_another_language_are_not_given_its_jobs(
    service: RunningService, office: Office, run: Loop, tenant: str
):
    run(office.draw(ask="same"))
    run(office.send())
    v1 = Api(service.root, service.api(tenant).token)
    poll = {"workerId": "w", "jobTypes": ["same"]}
    assert done(v1.post("/v1/jobs/poll", poll)) == {"jobs": []}
    [job] = run(office.claim("same"))
    assert v1.post(f"/v1/jobs/{job.id}/complete", {"workerId": "w"}).status_code == 404
    assert v1.get(f"/v1/instances/{job.instance_id}").status_code == 404
    assert done(v1.get("/v1/instances"))["total"] == 0
    assert done(v1.get("/v1/definitions"))["total"] == 0


def test_instances_are_searched_read_and_audited_as_entities(office: Office, run: Loop, api: Api):
    run(office.draw())
    heavy, light = run(office.send(weight=50)), run(office.send(weight=1))
    [found] = search(api, ERRAND.key.name, simple("$.data.weight", "GREATER_THAN", 10))
    assert (found["meta"]["id"], found["meta"]["state"]) == (entity_of(heavy), "RUNNING")
    [job] = [job for job in run(office.claim("fetch")) if job.instance_id == light.id]
    run(office.complete(job, weight=2))
    assert api.state(entity_of(light)) == "COMPLETED"
    assert len(done(api.get(f"/entity/{entity_of(light)}/changes"))) == 2
    trail = list(reversed(done(api.get(f"/audit/entity/{entity_of(light)}?eventType=StateMachine&limit=99"))["items"]))
    kinds = [event["data"]["kind"] for event in trail if event["eventType"] == "STATE_PROCESS_RESULT"]
    assert kinds == ["errand-sent", "errand-sent"]
    assert trail[-1]["eventType"] == "TRANSITION_MAKE"


def test_an_instance_is_cancelled_by_its_transition_and_nobody_else_writes_it(office: Office, run: Loop, api: Api):
    run(office.draw())
    errand = run(office.send())
    refused(api.put(f"/entity/JSON/{entity_of(errand)}", {"data": {}}), 403, "FORBIDDEN")
    refused(api.put(f"/entity/JSON/{entity_of(errand)}/fail", {}), 403, "FORBIDDEN")
    api.update(entity_of(errand), {}, fire="cancel")
    assert api.state(entity_of(errand)) == "CANCELLED"
    assert run(office.claim("fetch")) == ()
    refused(api.put(f"/entity/JSON/{entity_of(errand)}/cancel", {}), 404, "TRANSITION_NOT_FOUND")


@pytest.mark.parametrize("key", [ERRAND.key, PLAN.key, CHORE.key])
def test_its_models_belong_to_the_language(office: Office, run: Loop, api: Api, key: ModelKey):
    run(office.draw())
    problem = refused(api.post(f"/entity/JSON/{key.name}/1", {"id": "mine"}), 403, "FORBIDDEN")
    assert f"model {key.name}/1 belongs to the errand office" in str(problem)
    refused(api.put(f"/model/{key.name}/1/unlock"), 403, "FORBIDDEN")

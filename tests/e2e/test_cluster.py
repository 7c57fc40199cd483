"""Nodes that die, hang and come back (docs/reference/grpc.md#several-nodes,
docs/reference/grpc.md#failures-of-nodes): what clients are told, and what the database holds.
"""

import asyncio
import re
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.database import Template, connected
from tests.e2e.program import Program, started
from tests.integration.grpc_rpcs.client import Rpcs, spec
from tests.integration.node import Node, Request
from tests.integration.transactions.conftest import JoinedApi
from tests.service import Api, a_token, done, eventually, refused

LEASE = "2s"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def shared(database_template: Template) -> Iterator[str]:
    """The URL of a database for all nodes."""
    with asyncio.Runner() as runner:
        clone = database_template.clone()
        yield runner.run(clone.__aenter__())
        runner.run(clone.__aexit__(None, None, None))


def a_service(home: Path, database: str, name: str) -> AbstractContextManager[Program]:
    return started(
        home,
        POSTGRES_URL=database,
        NODE_ID=name,
        NODE_LEASE=LEASE,
        DRAIN_WINDOW="0s",
        DISPATCH_WAIT_TIMEOUT="30s",  # for a machine that does much else
        SCHEDULER_SCAN_INTERVAL="100ms",
        SCHEDULER_REDISPATCH_BACKOFF="2s",
    )


@pytest.fixture(scope="module")
def stayer(home: Path, shared: str) -> Iterator[Program]:
    """A node that outlives the others."""
    with a_service(home, shared, "stayer") as program:
        yield program.ready()


@pytest.fixture
def victim(home: Path, shared: str, stayer: Program) -> Iterator[Program]:
    """A node whose end is near."""
    with a_service(home, shared, "victim") as program:
        yield program.ready()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Clients that wait."""
    with ThreadPoolExecutor(8) as threads:
        yield threads


@contextmanager
def a_member(program: Program, *tags: str, known_to: Program | None = None) -> Iterator[Node]:
    """A member of a node, which another one knows of."""
    node = Node(program.grpc, a_token("any"), tags)
    try:
        if known_to is not None:
            eventually(lambda: peer_members(known_to) > 0)
        yield node
    finally:
        node.leave()


def peer_members(program: Program) -> int:
    """How many members of other nodes a node knows of."""
    [value] = re.findall(r"^statewright_cluster_peer_members (\S+)$", program.admin.get("/metrics").text, re.MULTILINE)
    return int(float(value))


def a_name() -> str:
    """A model nobody uses yet."""
    return f"m{uuid4().hex[:10]}/1"


def fetch(database: str, query: str, *arguments: object) -> list[Json]:
    async def ask() -> list[Json]:
        async with connected(database) as connection:
            return [tuple(row) for row in await connection.fetch(query, *arguments)]

    return asyncio.run(ask())


def versions(database: str, model: str) -> list[Json]:
    """States of all versions of a model's entities, oldest first."""
    return fetch(
        database,
        """
        SELECT version.state
          FROM (SELECT tenant, model, state, valid_from FROM entity
                 UNION ALL SELECT tenant, model, state, valid_from FROM entity_history) AS version
          JOIN model ON model.tenant = version.tenant AND model.id = version.model
         WHERE model.name = $1 ORDER BY valid_from
        """,
        model.partition("/")[0],
    )


def moved_by(processor: Json) -> Json:
    return a_workflow(NEW=[automated("GO", to="DONE", processors=[processor])], DONE=[])


def test_a_node_killed_with_a_callout_on_its_member(
    stayer: Program, victim: Program, shared: str, pool: ThreadPoolExecutor
) -> None:
    api = stayer.api()
    tags = uuid4().hex[:8]
    sync, segment, retried = (
        api.a_model(moved_by(a_processor(tags=tags, mode=mode, retryPolicy=policy)), model=a_name())
        for mode, policy in [("SYNC", "NONE"), ("COMMIT_BEFORE_DISPATCH", "NONE"), ("COMMIT_BEFORE_DISPATCH", "FIXED")]
    )
    with a_member(victim, tags, known_to=stayer) as doomed:
        asked = [pool.submit(api.post, f"/entity/JSON/{model}", SAMPLE) for model in (sync, segment, retried)]
        for _ in asked:
            doomed.next()
        with a_member(stayer, tags) as heir:
            victim.kill()
            refused(asked[0].result(60), 503, "DISPATCH_FORWARD_FAILED")
            problem = refused(asked[1].result(60), 400, "WORKFLOW_FAILED")
            assert problem["properties"]["cause"] == "DISPATCH_FORWARD_FAILED"
            heir.return_next({**SAMPLE, "year": 1})
            [saved] = done(asked[2].result(60))
    assert versions(shared, sync) == []
    assert versions(shared, segment) == [("NEW",)]
    assert versions(shared, retried) == [("NEW",), ("DONE",)]
    assert api.read(saved["entityIds"][0])["data"]["year"] == 1
    eventually(lambda: fetch(shared, "SELECT name FROM cluster_node") == [("stayer",)])
    assert fetch(shared, "SELECT count(*) FROM cluster_member") == [(0,)]


def test_the_owner_of_a_transaction_killed_while_callbacks_run(
    stayer: Program, victim: Program, shared: str, pool: ThreadPoolExecutor
) -> None:
    api = victim.api()
    outer, inner = uuid4().hex[:8], uuid4().hex[:8]
    owner_model = api.a_model(moved_by(a_processor(tags=outer)), model=a_name())
    inner_model = api.a_model(moved_by(a_processor(tags=inner)), model=a_name())
    with a_member(stayer, outer, known_to=victim) as node, a_member(stayer, inner) as nested:
        eventually(lambda: peer_members(victim) == 2)
        client = pool.submit(outcome, api, owner_model)
        request = node.next()
        callback = joined(stayer, request)
        over_http = pool.submit(callback.post, f"/entity/JSON/{inner_model}", SAMPLE)
        nested.next()
        over_grpc = pool.submit(created_by_grpc, stayer, request, inner_model)
        nested.next()
        victim.kill()
        refused(over_http.result(60), 503, "TRANSACTION_NODE_UNAVAILABLE")
        message = over_grpc.result(60)["error"]["message"]
        assert message == "TRANSACTION_NODE_UNAVAILABLE: transaction node is unreachable"
        assert client.result(60) == "cut off"
        eventually(lambda: fetch(shared, "SELECT name FROM cluster_node") == [("stayer",)])
        problem = refused(callback.get(f"/entity/{uuid4()}"), 503, "TRANSACTION_NODE_UNAVAILABLE")
        assert "transaction node is not available" in problem["detail"]
    assert versions(shared, owner_model) == []
    assert versions(shared, inner_model) == []


def joined(program: Program, request: Request) -> Api:
    """A node's API inside the transaction of a callout."""
    return JoinedApi(program.api().url, None, request.attributes["cyodatxtoken"])


def created_by_grpc(program: Program, request: Request, model: str) -> Json:
    name = model.partition("/")[0]
    rpcs = Rpcs(program.grpc, None).joining(request.attributes["cyodatxtoken"])
    return rpcs.one("EntityCreateRequest", dataFormat="JSON", payload={"model": spec(name), "data": dict(SAMPLE)})


def outcome(api: Api, model: str) -> str:
    """What a client is told."""
    try:
        return str(api.post(f"/entity/JSON/{model}", SAMPLE).status_code)
    except httpx.TransportError:
        return "cut off"


def test_a_node_that_hangs_is_given_up_and_welcome_again(
    stayer: Program, victim: Program, shared: str, pool: ThreadPoolExecutor
) -> None:
    api = stayer.api()
    tags = uuid4().hex[:8]
    model = api.a_model(moved_by(a_processor(tags=tags, responseTimeoutMs=120_000)), model=a_name())
    with a_member(victim, tags, known_to=stayer) as node:
        asked: Future[httpx.Response] = pool.submit(api.post, f"/entity/JSON/{model}", SAMPLE)
        node.next()
        victim.tell(signal.SIGSTOP)
        refused(asked.result(60), 503, "DISPATCH_FORWARD_FAILED")
        victim.tell(signal.SIGCONT)
        eventually(lambda: victim.admin.get("/readyz").status_code == 200)
        eventually(lambda: peer_members(stayer) > 0)
        again = pool.submit(api.post, f"/entity/JSON/{model}", SAMPLE)
        node.return_next(dict(SAMPLE))
        done(again.result(60))
    assert versions(shared, model) == [("DONE",)]


def test_changes_get_around_and_scheduled_transitions_fire_once_though_a_node_dies(
    stayer: Program, victim: Program, shared: str
) -> None:
    there, here = victim.api(), stayer.api()
    model = there.a_model(a_workflow(NEW=[]), model=a_name())
    assert here.state(here.create(model=model).id) == "NEW"
    timer = {"name": "FIRE", "next": "FIRED", "manual": False, "schedule": {"delayMs": 600}}
    there.import_workflows(
        a_workflow("timed", ARMED=[timer, manual("LEAVE", to="LEFT")], FIRED=[], LEFT=[]), model=model
    )
    eventually(lambda: here.state(here.create(model=model).id) == "ARMED")
    sample = {**SAMPLE, "extra": "a member that no sample had"}
    assert here.post(f"/entity/JSON/{model}", sample).status_code == 400
    done(there.post(f"/model/{model}/changeLevel/STRUCTURAL"))
    eventually(lambda: here.post(f"/entity/JSON/{model}", sample).status_code == 200)

    for api in (here, there):
        done(api.post(f"/entity/JSON/{model}", [SAMPLE] * 150))
    eventually(lambda: ("FIRED",) in versions(shared, model))
    victim.kill()
    eventually(lambda: fetch(shared, "SELECT count(*) FROM scheduled_task") == [(0,)], within_s=60)
    name = model.partition("/")[0]
    assert fetch(shared, STATES, name)[0] == ("FIRED",)
    assert fetch(shared, NOT_ONCE, name) == []


STATES = """
    SELECT DISTINCT entity.state
      FROM entity JOIN model ON model.tenant = entity.tenant AND model.id = entity.model
     WHERE model.name = $1 AND entity.state <> 'NEW'
"""

NOT_ONCE = """
    -- Entities that were armed, without exactly one version and one event of the fire.
    SELECT entity.id
      FROM entity JOIN model ON model.tenant = entity.tenant AND model.id = entity.model
     CROSS JOIN LATERAL (
            SELECT count(*) FROM entity_audit AS run
              CROSS JOIN LATERAL jsonb_array_elements(run.events::jsonb) AS event
             WHERE run.tenant = entity.tenant AND run.entity = entity.id
               AND event ->> 'type' = 'SCHEDULED_TRANSITION_FIRE') AS fires (number)
     CROSS JOIN LATERAL (
            SELECT count(*) FROM entity_history AS past
             WHERE past.tenant = entity.tenant AND past.id = entity.id) AS earlier (number)
     WHERE model.name = $1 AND entity.state = 'FIRED' AND (fires.number <> 1 OR earlier.number <> 1)
"""


def operations(program: Program) -> Api:
    """The operations API of a node."""
    return program.api(context_path="/ops/v1")


def test_a_node_killed_while_work_fails_and_is_retried(
    stayer: Program, victim: Program, shared: str, pool: ThreadPoolExecutor
) -> None:
    tags, job_type = uuid4().hex[:8], uuid4().hex[:8]
    go = manual("GO", to="DONE", processors=[a_processor(tags=tags)])
    model = stayer.api().a_model(a_workflow(NEW=[go], DONE=[]), model=a_name())
    entity, unlucky = (stayer.api().create(model=model).id for _ in range(2))
    v1 = victim.api(context_path="/v1")
    step = {"id": "a", "name": "a", "type": "SERVICE_TASK", "jobType": job_type, "nextStep": "z"}
    ends = {"id": "z", "name": "z", "type": "END"}
    assert v1.post("/definitions", {"id": job_type, "name": "d", "steps": [step, ends]}).is_success
    assert v1.post("/instances", {"definitionId": job_type}).is_success
    [job] = v1.post("/jobs/poll", {"workerId": "w", "jobTypes": [job_type]}).json()["jobs"]

    def find(query: str) -> list[Json]:
        return list(done(operations(stayer).get(f"/incidents?{query}"))["items"])

    with a_member(stayer, tags, known_to=victim) as node, a_member(victim, "elsewhere", known_to=stayer):
        failing = pool.submit(victim.api().put, f"/entity/JSON/{entity}/GO", SAMPLE)
        node.fail_next("no")
        refused(failing.result(60), 400, "WORKFLOW_FAILED")
        eventually(lambda: len(find(f"entityId={entity}")) == 1)
        [incident] = find(f"entityId={entity}")
        eventually(lambda: len(done(operations(stayer).get("/members?kind=STREAM"))["items"]) == 2)

        retrying = pool.submit(outcome_of_retry, victim, incident["id"])
        node.next()
        failing = pool.submit(victim.api().put, f"/entity/JSON/{unlucky}/GO", SAMPLE)
        node.fail_next("no")
        refused(failing.result(60), 400, "WORKFLOW_FAILED")
        assert v1.post(f"/jobs/{job['id']}/fail", {"workerId": "w", "errorMessage": "no paper"}).is_success
        victim.kill()  # with a retry under way, and the failed run perhaps not written yet

        assert retrying.result(60) == "cut off"
        assert [each["message"] for each in find("kind=JOB_FAILED") if each["workflow"] == job_type] == ["no paper"]
        assert len(find(f"entityId={unlucky}")) in (0, 1)
        assert [stayer.api().state(each) for each in (entity, unlucky)] == ["NEW", "NEW"]
        eventually(lambda: len(done(operations(stayer).get("/members?kind=STREAM"))["items"]) == 1)

        # The claim of the dead node ends with its lease.
        again = pool.submit(lambda: eventually_done(stayer, incident["id"]))
        node.answer_next()
        assert again.result(60)["status"] == "RESOLVED"
        assert stayer.api().state(entity) == "DONE"

        failing = pool.submit(stayer.api().put, f"/entity/JSON/{unlucky}/GO", SAMPLE)
        node.fail_next("no")
        refused(failing.result(60), 400, "WORKFLOW_FAILED")
        eventually(lambda: len(find(f"entityId={unlucky}")) == 1)


def outcome_of_retry(program: Program, incident: str) -> str:
    """What an operator is told."""
    try:
        return str(operations(program).post(f"/incidents/{incident}/retry").status_code)
    except httpx.TransportError:
        return "cut off"


def eventually_done(program: Program, incident: str) -> Json:
    """Retry until nobody else does; the incident afterwards."""
    answers: list[httpx.Response] = []

    def retry() -> bool:
        answers.append(operations(program).post(f"/incidents/{incident}/retry"))
        return answers[-1].status_code != 409

    eventually(retry, within_s=60)
    return done(answers[-1])["incident"]

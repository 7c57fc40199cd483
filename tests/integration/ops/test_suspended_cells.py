"""What each door answers under each suspension: the table of docs/reference/operations.md#suspensions, cell by cell.

Moves of entities are in ``test_suspended_doors``, reports on jobs in ``test_kept_reports``, timers and runs under way
in ``test_suspensions``.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from statewright.net import ulid_to_uuid
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.integration.grpc_rpcs.client import Rpcs
from tests.integration.node import a_node
from tests.integration.ops.builders import ops_api
from tests.integration.steps_grpc.engine import Engine, engine_of
from tests.integration.steps_grpc.engine import refused as refused_over_grpc
from tests.service import Api, RunningService, a_token, done, eventually, refused

EVERYTHING: Json = {"type": "group", "operator": "AND", "conditions": []}
PRIZE: Json = {"name": "prize", "version": 1}
FLOW = a_workflow(NEW=[manual("GO", to="DONE"), manual("STOP", to="STOPPED")], DONE=[], STOPPED=[])

STEPS: Json = {
    "id": "d",
    "name": "d",
    "steps": [
        {
            "id": "fork",
            "name": "fork",
            "type": "PARALLEL_GATEWAY",
            "parallelNextSteps": ["wait", "ask", "work"],
            "joinStep": "join",
        },
        {"id": "wait", "name": "wait", "type": "WAIT", "nextStep": "join"},
        {"id": "ask", "name": "ask", "type": "USER_TASK", "jobType": "form", "nextStep": "join"},
        {"id": "work", "name": "work", "type": "SERVICE_TASK", "jobType": "mail", "nextStep": "join"},
        {"id": "join", "name": "join", "type": "JOIN_GATEWAY", "nextStep": "z"},
        {"id": "z", "name": "z", "type": "END"},
    ],
}


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_ADMIN", user="olga")


@pytest.fixture
def rpcs(service: RunningService, tenant: str) -> Rpcs:
    return Rpcs(service.grpc, a_token(tenant))


@pytest.fixture
def v1(api: Api, service: RunningService) -> Api:
    v1 = replace(api, url=f"{service.root}/v1")
    assert v1.post("/definitions", STEPS).is_success
    return v1


def suspend(ops: Api, scope: str, **target: Json) -> str:
    response = ops.post("/suspensions", {"scope": scope, "reason": "bank is down", **target})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def resume(ops: Api, id_: str) -> None:
    done(ops.post(f"/suspensions/{id_}/resume", {}))


def start(v1: Api) -> str:
    response = v1.post("/instances", {"definitionId": "d"})
    assert response.is_success, response.text
    return str(response.json()["id"])


def test_a_suspended_transition_is_refused_over_grpc_and_others_go_on(api: Api, ops: Api, rpcs: Rpcs) -> None:
    entity = api.create(model=api.a_model(FLOW)).id
    suspend(ops, "TRANSITION", model=PRIZE, transition="GO")
    rpcs.refused("EntityTransitionRequest", "SUSPENDED", entityId=entity, transition="GO")
    change = {"entityId": entity, "data": SAMPLE, "transition": "GO"}
    rpcs.refused("EntityUpdateRequest", "SUSPENDED", dataFormat="JSON", payload=change)
    patch = {"entityId": entity, "patch": {"motivation": "changed"}, "transition": "GO", "ifMatch": "*"}
    rpcs.refused("EntityPatchRequest", "SUSPENDED", patchFormat="MERGE_PATCH", payload=patch)
    rpcs.refused("EntityUpdateCollectionRequest", "SUSPENDED", dataFormat="JSON", payloads=[change])
    rpcs.done("EntityUpdateRequest", dataFormat="JSON", payload={"entityId": entity, "data": SAMPLE})
    rpcs.done("EntityTransitionRequest", entityId=entity, transition="STOP")


def test_a_create_that_comes_to_a_suspended_tag_leaves_nothing(
    service: RunningService, tenant: str, api: Api, ops: Api, rpcs: Rpcs
) -> None:
    """The first move is made without a member, the cascade behind it not."""
    asking = automated("ASK", to="DONE", processors=[a_processor()])
    api.a_model(a_workflow(NEW=[automated("BEGIN", to="BEGUN")], BEGUN=[asking], DONE=[]))
    with a_node(service, tenant, "node") as node:
        suspend(ops, "TAG", name="node")
        refused(api.post("/entity/JSON/prize/1", SAMPLE), 409, "SUSPENDED")
        new = {"model": PRIZE, "data": SAMPLE}
        rpcs.refused("EntityCreateRequest", "SUSPENDED", dataFormat="JSON", payload=new)
        assert node.is_idle
    assert done(api.get("/entity/prize/1")) == []


def test_a_suspended_tenant_is_read_administered_and_cleared(api: Api, ops: Api, rpcs: Rpcs) -> None:
    kept, dropped, removed = (api.create(model=model).id for model in (api.a_model(FLOW), "prize/1", "prize/1"))
    suspend(ops, "TENANT")
    reads = [
        api.get(f"/entity/{kept}"),
        api.get(f"/entity/{kept}/changes"),
        api.get(f"/entity/{kept}/transitions"),
        api.get("/entity/prize/1"),
        api.get("/entity/stats"),
        api.get(f"/audit/entity/{kept}"),
        api.post("/search/direct/prize/1", EVERYTHING),
        api.post("/search/async/prize/1", EVERYTHING),
        api.get("/model/prize/1/workflow/export"),
        ops.get(f"/entities/{kept}/explain"),
        ops.get(f"/entities/{kept}/versions"),
    ]
    assert [answer.status_code for answer in reads] == [200] * len(reads), [answer.text for answer in reads]
    assert len(rpcs.ask("EntitySearchRequest", model=PRIZE, condition=EVERYTHING)) >= 1
    assert rpcs.read(kept)["meta"]["state"] == "NEW"
    api.import_workflows(FLOW)
    api.a_model(FLOW, model="other/1")
    assert api.delete(f"/entity/{dropped}").status_code == 200
    rpcs.done("EntityDeleteRequest", entityId=removed)
    assert [each["meta"]["id"] for each in done(api.get("/entity/prize/1"))] == [kept]
    assert api.delete("/entity/prize/1").status_code == 200


Door = Callable[[Api, Engine, str], str]
"""What is said of an instance under a suspension: the text of a refusal."""


def post(path: str, **body: Json) -> Door:
    def send(v1: Api, _: Engine, instance: str) -> str:
        answer = v1.post(f"/instances{path.replace('ID', instance)}", body)
        assert (answer.status_code, answer.json()["error"]) == (409, "conflict"), answer.text
        return str(answer.json()["reason"])

    return send


def call(method: str, **members: Json) -> Door:
    def send(_: Api, engine: Engine, instance: str) -> str:
        of = {} if method == "StartInstance" else {"instance_id": instance}
        return refused_over_grpc(engine, "FAILED_PRECONDITION", method, **of, **members)

    return send


def fire(v1: Api, _: Engine, instance: str) -> str:
    """Instances are entities, and a retry is a transition of theirs."""
    answer = replace(v1, url=v1.url.replace("/v1", "/api")).put(f"/entity/JSON/{ulid_to_uuid(instance)}/retry", {})
    assert answer.status_code == 409, answer.text
    return answer.text


STARTS: dict[str, Door] = {
    "start over REST": post("", definitionId="d"),
    "start over gRPC": call("StartInstance", definition_id="d"),
}
MOVES: dict[str, Door] = {
    "signal over REST": post("/ID/signals/wait"),
    "signal over gRPC": call("SignalWait", wait_step_id="wait"),
    "user task over REST": post("/ID/user-tasks/ask/complete", completedBy="ada"),
    "user task over gRPC": call("CompleteUserTask", user_task_step_id="ask", completed_by="ada"),
    "retry over REST": post("/ID/steps/work/retry"),
    "retry over gRPC": call("RetryStep", step_id="work"),
    "retry of the entity": fire,
}
TARGETS: dict[str, Callable[[str], Json]] = {
    "INSTANCE": lambda instance: {"id": instance},
    "DEFINITION": lambda _: {"definitionId": "d"},
    "TENANT": lambda _: {},
    "JOB_TYPE": lambda _: {"name": "mail"},
    "TAG": lambda _: {"name": "mail"},
}


@pytest.mark.parametrize("scope", ["INSTANCE", "DEFINITION", "TENANT"])
def test_no_client_moves_a_suspended_instance(
    service: RunningService, tenant: str, v1: Api, ops: Api, scope: str
) -> None:
    running, failed = start(v1), start(v1)
    jobs = v1.post("/jobs/poll", {"workerId": "w", "jobTypes": ["mail"], "maxJobs": 2}).json()["jobs"]
    [last] = [job for job in jobs if job["instanceId"] == failed]
    assert v1.post(f"/jobs/{last['id']}/fail", {"workerId": "w", "retryable": False}).status_code == 204
    suspended = [suspend(ops, scope, **TARGETS[scope](running))]
    if scope == "INSTANCE":
        suspended.append(suspend(ops, scope, **TARGETS[scope](failed)))
    with engine_of(service, a_token(tenant)) as engine:
        for name, door in MOVES.items():
            of = failed if name.startswith("retry") else running
            assert "SUSPENDED" in door(v1, engine, of), name
        if scope != "INSTANCE":
            for name, door in STARTS.items():
                assert "SUSPENDED" in door(v1, engine, running), name
        assert v1.get(f"/instances/{running}").json()["status"] == "WAITING"
        for id_ in suspended:
            resume(ops, id_)
        engine("SignalWait", instance_id=running, wait_step_id="wait")
        engine("RetryStep", instance_id=failed, step_id="work")
        assert v1.post(f"/instances/{running}/user-tasks/ask/complete", {"completedBy": "ada"}).is_success


@pytest.mark.parametrize("scope", ["INSTANCE", "DEFINITION", "TENANT", "JOB_TYPE", "TAG"])
def test_no_door_hands_out_a_suspended_job(service: RunningService, tenant: str, v1: Api, ops: Api, scope: str) -> None:
    """Neither polls nor streams; under ``TAG`` only streams do not."""
    poll: Json = {"workerId": "w", "jobTypes": ["mail"]}
    control = {**STEPS, "id": "control", "steps": [*STEPS["steps"]]}
    control["steps"][3] = STEPS["steps"][3] | {"jobType": "letter"}
    assert v1.post("/definitions", control).is_success
    instance = start(v1)
    id_ = suspend(ops, scope, **TARGETS[scope](instance))
    with engine_of(service, a_token(tenant)) as engine, a_node(service, tenant, "mail", "letter") as node:
        if scope != "TENANT":
            assert v1.post("/instances", {"definitionId": "control"}).is_success
            pushed = node.next()
            assert pushed["processorName"] == "letter"
            node.answer(pushed)
        if scope != "TAG":
            assert v1.post("/jobs/poll", poll).json() == {"jobs": []}
            assert not engine("PollJobs", worker_id="w", job_types=["mail"], max_jobs=1).jobs
        assert node.is_idle
        resume(ops, id_)
        request = node.next()
        assert request["processorName"] == "mail"
        node.answer(request)
        eventually(lambda: not is_at(ops, instance, "work"))


def is_at(ops: Api, instance: str, step: str) -> bool:
    tokens = done(ops.get(f"/instances/{instance}/explain"))["tokens"]
    return any(token.get("stepId") == step and token["waitsFor"] == "JOB" for token in tokens)


@pytest.mark.parametrize("scope", ["INSTANCE", "DEFINITION", "TENANT"])
def test_suspended_instances_are_read_cancelled_and_removed(
    service: RunningService, tenant: str, v1: Api, ops: Api, scope: str
) -> None:
    first, second = start(v1), start(v1)
    for instance in (first, second) if scope == "INSTANCE" else (first,):
        suspend(ops, scope, **TARGETS[scope](instance))
    with engine_of(service, a_token(tenant)) as engine:
        assert v1.get(f"/instances/{first}").is_success
        assert v1.get(f"/instances/{first}/history").is_success
        assert engine("GetInstance", id=first).instance.id == first
        assert v1.post(f"/instances/{first}/cancel", {}).is_success
        engine("CancelInstance", id=second)
    statuses = [v1.get(f"/instances/{one}").json()["status"] for one in (first, second)]
    assert statuses == ["CANCELLED", "CANCELLED"]

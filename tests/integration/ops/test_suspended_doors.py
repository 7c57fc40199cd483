"""Suspensions hold at every entrance and on every node (docs/reference/operations.md#suspensions).

``STATEWRIGHT_TEST_MOVES=1000`` races a suspension with so many transitions.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext

import pytest

from statewright.proto.workflow.v1 import engine_pb2 as pb
from tests.builders import SAMPLE, Json, a_workflow, manual
from tests.database import Template
from tests.integration.grpc_rpcs.client import Rpcs
from tests.integration.ops.builders import ops_api
from tests.integration.steps_grpc.engine import engine_of
from tests.integration.steps_grpc.engine import refused as refused_over_grpc
from tests.service import PATIENCE_S, Api, RunningService, a_token, done, hosted, refused

MODEL: Json = {"name": "prize", "version": 1}
ROUND = a_workflow(NEW=[manual("GO", to="BACK")], BACK=[manual("GO", to="NEW")])
TARGETS: dict[str, Json] = {
    "ENTITY": {},
    "MODEL": {"model": MODEL},
    "WORKFLOW": {"model": MODEL, "workflow": "lifecycle"},
    "TENANT": {},
}
CHANGED = SAMPLE | {"motivation": "changed"}
MOVES = int(os.environ.get("STATEWRIGHT_TEST_MOVES", "60"))


@pytest.fixture
def ops(service: RunningService, tenant: str) -> Api:
    return ops_api(service, tenant, "ROLE_ADMIN", user="olga")


@pytest.fixture
def entity(api: Api) -> str:
    return api.create(model=api.a_model(ROUND)).id


def suspend(ops: Api, scope: str, **target: Json) -> str:
    response = ops.post("/suspensions", {"scope": scope, "reason": "bank is down", **target})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


@pytest.mark.parametrize("scope", ["ENTITY", "MODEL", "WORKFLOW", "TENANT"])
def test_no_door_lets_a_suspended_entity_be_moved(
    service: RunningService, tenant: str, api: Api, ops: Api, entity: str, scope: str
) -> None:
    target = TARGETS[scope] | ({"id": entity} if scope == "ENTITY" else {})
    before = api.read(entity)
    id_ = suspend(ops, scope, **target)
    rpcs = Rpcs(service.grpc, a_token(tenant))
    merge = {"Content-Type": "application/merge-patch+json", "If-Match": "*"}
    answers = [
        api.put(f"/entity/JSON/{entity}", CHANGED),
        api.put(f"/entity/JSON/{entity}/GO", CHANGED),
        api.request("PATCH", f"/entity/JSON/{entity}", {"motivation": "changed"}, **merge),
        api.request("PATCH", f"/entity/JSON/{entity}/GO", {"motivation": "changed"}, **merge),
        api.put("/entity/JSON", [{"id": entity, "payload": "{}"}]),
    ]
    for answer in answers:
        assert refused(answer, 409, "SUSPENDED")["properties"]["scope"] == scope
    change = {"entityId": entity, "data": CHANGED}
    rpcs.refused("EntityUpdateRequest", "SUSPENDED", dataFormat="JSON", payload=change)
    rpcs.refused("EntityUpdateCollectionRequest", "SUSPENDED", dataFormat="JSON", payloads=[change])
    rpcs.refused("EntityTransitionRequest", "SUSPENDED", entityId=entity, transition="GO")
    patch = {"entityId": entity, "patch": {"motivation": "changed"}, "ifMatch": "*"}
    rpcs.refused("EntityPatchRequest", "SUSPENDED", patchFormat="MERGE_PATCH", payload=patch)
    assert api.read(entity) == before
    assert len(api.get(f"/entity/{entity}/changes").json()) == 1
    assert done(ops.get(f"/suspensions/{id_}"))["active"] is True


@pytest.mark.parametrize(("scope", "count"), [("MODEL", 1), ("MODEL", 100), ("WORKFLOW", 1), ("TENANT", 1)])
def test_no_door_makes_an_entity_of_a_suspended_model(
    service: RunningService, tenant: str, api: Api, ops: Api, entity: str, scope: str, count: int
) -> None:
    """A collection fails whole, whichever way it would be stored."""
    suspend(ops, scope, **TARGETS[scope])
    rpcs = Rpcs(service.grpc, a_token(tenant))
    many = [SAMPLE] * count
    refused(api.post("/entity/JSON/prize/1", many if count > 1 else SAMPLE), 409, "SUSPENDED")
    new = [{"model": MODEL, "data": each} for each in many]
    if count == 1:
        rpcs.refused("EntityCreateRequest", "SUSPENDED", dataFormat="JSON", payload=new[0])
    rpcs.refused("EntityCreateCollectionRequest", "SUSPENDED", dataFormat="JSON", payloads=new)
    assert len(done(api.get("/entity/prize/1"))) == 1


def test_the_step_engine_over_grpc_refuses_what_is_suspended(service: RunningService, tenant: str, ops: Api) -> None:
    wait = pb.WorkflowStep(id="paid", name="paid", type=pb.STEP_TYPE_WAIT, next_step="end")
    end = pb.WorkflowStep(id="end", name="end", type=pb.STEP_TYPE_END)
    with engine_of(service, a_token(tenant)) as engine:
        engine("UploadDefinition", definition=pb.WorkflowDefinition(id="pause", name="pause", steps=[wait, end]))
        instance = engine("StartInstance", definition_id="pause").instance.id
        suspend(ops, "DEFINITION", definitionId="pause")
        started = refused_over_grpc(engine, "FAILED_PRECONDITION", "StartInstance", definition_id="pause")
        moved = refused_over_grpc(
            engine, "FAILED_PRECONDITION", "SignalWait", instance_id=instance, wait_step_id="paid"
        )
        assert "SUSPENDED" in started
        assert "SUSPENDED" in moved
        assert engine("GetInstance", id=instance).instance.status == pb.INSTANCE_STATUS_WAITING


def test_no_version_of_three_nodes_is_later_than_the_suspension(database_template: Template) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(hosted(database_template.clone()))
        nodes = [first, *(stack.enter_context(hosted(nullcontext(first.database))) for _ in range(2))]
        api, ops = first.api("t"), ops_api(first, "t", "ROLE_ADMIN")
        api.a_model(ROUND)
        entities = [api.create().id for _ in range(3)]
        half = threading.Semaphore(0)

        def move(node: RunningService, number: int) -> int:
            response = node.api("t").put(f"/entity/JSON/{entities[number % 3]}/GO", SAMPLE)
            half.release()
            return int(response.status_code)

        with ThreadPoolExecutor(9) as clients:
            moving = [clients.submit(move, nodes[number % 3], number) for number in range(MOVES)]
            for _ in range(MOVES // 2):
                assert half.acquire(timeout=PATIENCE_S)
            for entity in entities:
                suspend(ops, "ENTITY", id=entity)
            versions = [len(api.get(f"/entity/{entity}/changes").json()) for entity in entities]
            refusals = sum(each.result(PATIENCE_S) == 409 for each in moving)
        for node in nodes:
            for entity in entities:
                refused(node.api("t").put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "SUSPENDED")
        assert [len(api.get(f"/entity/{entity}/changes").json()) for entity in entities] == versions
        assert sum(versions) - len(entities) == MOVES - refusals

"""Models of the service itself are in lists and counts of the dialect only when they are asked for
(docs/reference/models.md#list-models).
"""

import pytest

from statewright.sdk.client import Client
from tests.builders import Json
from tests.integration.flows.conftest import done
from tests.integration.grpc_rpcs.client import Rpcs
from tests.service import Api, RunningService, a_token

ONE_STEP = {"id": "stop", "name": "Stop", "steps": [{"id": "end", "name": "End", "type": "END"}]}
OWN = {"StepWorkflowDefinition", "StepWorkflowInstance"}


@pytest.fixture
def used(service: RunningService, api: Api) -> Api:
    """A tenant with a model, an entity of it, and an instance of the step engine."""
    root = Api(service.root, api.token)
    done(root.post("/v1/definitions", ONE_STEP), 201)
    done(root.post("/v1/instances", {"definitionId": "stop"}), 201)
    api.a_model()
    api.create()
    return api


@pytest.mark.parametrize("path", ["/model/", "/entity/stats", "/entity/stats/states"])
def test_lists_are_of_the_models_of_users_unless_all_are_asked_for(used: Api, path: str) -> None:
    assert names(done(used.get(path))) == {"prize"}
    assert names(done(used.get(f"{path}?includeBuiltin=false"))) == {"prize"}
    assert names(done(used.get(f"{path}?includeBuiltin=true"))) >= OWN | {"prize"}
    assert used.get(f"{path}?includeBuiltin=perhaps").status_code == 400


def test_a_built_in_model_that_is_named_is_counted(used: Api) -> None:
    assert done(used.get("/entity/stats/StepWorkflowInstance/1"))["count"] == 1
    states = done(used.get("/entity/stats/states/StepWorkflowInstance/1"))
    assert [(row["state"], row["count"]) for row in states] == [("COMPLETED", 1)]


def test_the_same_over_grpc(used: Api, service: RunningService, tenant: str) -> None:
    rpcs = Rpcs(service.grpc, a_token(tenant))
    assert {model["name"] for model in rpcs.done("EntityModelGetAllRequest")["models"]} == {"prize"}
    for kind in ("EntityStatsGetRequest", "EntityStatsByStateGetRequest"):
        assert names(rpcs.ask(kind)) == {"prize"}
        named = {"name": "StepWorkflowInstance", "version": 1}
        assert names(rpcs.ask(kind, model=named)) == {"StepWorkflowInstance"}


def test_the_client_has_them_on_request(used: Api, service: RunningService) -> None:
    with Client(service.root, token=used.token) as client:
        assert {model.name for model in client.models.list()} == {"prize"}
        assert {model.name for model in client.models.list(with_builtin=True)} >= OWN | {"prize"}


def names(rows: Json) -> set[str]:
    return {row["modelName"] for row in rows}

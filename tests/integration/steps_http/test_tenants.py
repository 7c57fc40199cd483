"""Who may call the step engine, and whose definitions they see (docs/reference/steps.md#who-may-call, decision J8)."""

from tests.database import Template
from tests.integration.steps_http.conftest import an_error
from tests.service import Api, RunningService, a_token, hosted

HELLO = {"id": "hello", "name": "Hello", "steps": [{"id": "end", "name": "End", "type": "END"}]}


def test_an_open_tenant_serves_those_without_credentials_and_nothing_else(database_template: Template) -> None:
    """Decision J8: workers of the public engine cannot authenticate."""
    with hosted(database_template.clone(), steps_open_tenant="workshop") as service:
        anonymous, known = Api(service.root), Api(service.root, a_token("elsewhere"))
        assert anonymous.post("/v1/definitions", HELLO).status_code == 201
        assert anonymous.get("/v1/definitions").json()["total"] == 1
        assert Api(service.root, a_token("workshop")).get("/v1/definitions").json()["total"] == 1
        assert known.get("/v1/definitions").json()["total"] == 0
        an_error(Api(service.root, "no token").get("/v1/definitions"), 401, "unauthorized")
        an_error(anonymous.post("/v1/instances/purge", {"olderThan": "P1D"}), 403, "forbidden")
        assert anonymous.get("/api/model/").status_code == 401


def test_everybody_is_served_in_mock_mode(database_template: Template) -> None:
    with hosted(database_template.clone(), iam_mode="mock") as service:
        assert Api(service.root).get("/v1/definitions").json()["items"] == []


def test_tenants_do_not_see_each_other(service: RunningService, v1: Api) -> None:
    assert v1.post("/v1/definitions", HELLO).status_code == 201
    instance = v1.post("/v1/instances", {"definitionId": "hello"}).json()["id"]
    stranger = Api(service.root, a_token("somebody-else"))
    an_error(stranger.get("/v1/definitions/hello"), 404, "not-found")
    an_error(stranger.get(f"/v1/instances/{instance}"), 404, "not-found")
    an_error(stranger.get(f"/v1/instances/{instance}/history"), 404, "not-found")
    an_error(stranger.post(f"/v1/instances/{instance}/cancel"), 404, "not-found")
    assert stranger.get("/v1/instances?definitionId=hello").json()["total"] == 0

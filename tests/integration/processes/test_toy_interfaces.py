"""REST, open transitions, the client and the commands of a language are made of what it says of itself."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from statewright.sdk import Conflicting
from tests.integration.processes.errand_interfaces import ErrandClient, errands
from tests.service import Api, RunningService, done

PLAN = {"id": "errand", "ask": "fetch", "lift": "lift", "limit": 10, "within": "PT1H"}


@pytest.fixture
def v1(service: RunningService, tenant: str) -> Api:
    return Api(f"{service.root}/v1", service.api(tenant).token)


def test_definitions_are_checked_stored_listed_read_and_drawn(v1: Api):
    assert done(v1.post("/plans/validate", PLAN)) == {"id": "errand", "limit": 10}
    assert done(v1.get("/plans"))["total"] == 0
    stored = v1.post("/plans", PLAN).json()
    assert (stored["version"], stored["isNew"]) == (1, True)
    assert v1.post("/plans", PLAN).json()["isNew"] is False
    assert [item["id"] for item in done(v1.get("/plans?keyword=err"))["items"]] == ["errand"]
    assert done(v1.get("/plans/errand/versions/1"))["limit"] == 10
    assert v1.get("/plans/errand/diagram").text.startswith("flowchart LR\n  ask\n")
    unknown = v1.get("/plans/other")
    assert (unknown.status_code, unknown.json()) == (404, {"error": "not-found", "reason": "definition not found"})


def test_instances_are_started_listed_and_cancelled_by_the_client(service: RunningService, tenant: str, v1: Api):
    v1.post("/plans", PLAN)
    with ErrandClient(service.root, token=v1.token) as client:
        sent = client.errands.start("errand", {"definitionId": "errand", "data": {"what": "milk"}})
        assert (sent["status"], sent["data"]) == ("RUNNING", {"what": "milk"})
        assert [one["id"] for one in client.errands.errands(status="RUNNING")] == [sent["id"]]
        assert [line["node"] for line in client.errands.history(sent["id"])] == ["ask"]
        assert client.errands.change("cancel", sent["id"])["status"] == "CANCELLED"
        assert client.errands.errand(sent["id"])["status"] == "CANCELLED"
        with pytest.raises(Conflicting, match="the errand is over"):
            client.errands.change("cancel", sent["id"])
    assert "ask: " in v1.get(f"/errands/{sent['id']}/diagram").text


def test_definitions_are_checked_and_drawn_by_commands(tmp_path: Path):
    file = tmp_path / "errand.json"
    file.write_text(json.dumps(PLAN))
    assert CliRunner().invoke(errands, ["lint", str(file)]).output == f"{file}: errand is fine\n"
    [report] = json.loads(CliRunner().invoke(errands, ["lint", "--json", str(file)]).output)
    assert (report["id"], report["error"]) == ("errand", None)
    assert CliRunner().invoke(errands, ["diagram", str(file)]).output.startswith("flowchart LR\n  ask\n")
    file.write_text("{")
    assert CliRunner().invoke(errands, ["lint", str(file)]).exit_code == 1

"""REST, open transitions, the client, the commands and the pages of a language are made of what it says of itself."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from statewright.app import runtime as languages
from statewright.sdk import Client, Conflicting
from statewright.services.processes.dialects import build_transitions
from statewright.services.processes.installing import install_language
from tests.commands import CommandRunner
from tests.database import Template
from tests.e2e.program import EXECUTABLE
from tests.integration.identity.test_console_login import Visit
from tests.integration.processes.errand_interfaces import ERRAND_DIALECT, ErrandSubject, errands
from tests.integration.processes.errands import ERRANDS
from tests.service import Api, RunningService, a_token, done, eventually, hosted

PLAN = {"id": "errand", "ask": "fetch", "lift": "lift", "limit": 10, "within": "PT1H"}
PORTERS = """
from statewright.sdk import Node

node = Node()

@node.job("lift")
def lift(errand: dict) -> dict:
    return {"lifted": errand["weight"]}
"""
"""A node written with the SDK."""


@pytest.fixture(scope="module")
def service(installed: None, database_template: Template) -> Iterator[RunningService]:
    """A service whose workers of the public protocols are given jobs of the toy language, too."""
    transitions = build_transitions(ERRAND_DIALECT)
    sharing = install_language(ERRANDS, transitions=transitions, shares_jobs=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(languages, "LANGUAGES", (*languages.LANGUAGES[:-1], sharing))
        with hosted(database_template.clone()) as running:
            yield running


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
    with Client(service.root, token=v1.token) as client:
        subject = ErrandSubject.share(client)
        sent = subject.start("errand", {"definitionId": "errand", "input": {"what": "milk"}})
        assert (sent["status"], sent["input"]) == ("RUNNING", {"what": "milk"})
        assert [one["id"] for one in subject.errands(status="RUNNING")] == [sent["id"]]
        assert [line["step"] for line in subject.history(sent["id"])] == ["ask"]
        assert subject.change("cancel", sent["id"])["status"] == "CANCELLED"
        assert subject.errand(sent["id"])["status"] == "CANCELLED"
        with pytest.raises(Conflicting, match="the errand is over"):
            subject.change("cancel", sent["id"])
    assert "ask: " in v1.get(f"/errands/{sent['id']}/diagram").text


def test_jobs_are_done_over_rest_and_by_a_node_of_the_sdk_that_a_command_runs(
    service: RunningService, v1: Api, tmp_path: Path
):
    v1.post("/plans", PLAN)
    sent = v1.post("/errands", {"definitionId": "errand"}).json()
    [job] = done(v1.post("/jobs/poll", {"workerId": "w", "jobTypes": ["fetch"]}))["jobs"]
    assert (job["instanceId"], job["stepId"]) == (sent["id"], "ask")
    assert v1.post(f"/jobs/{job['id']}/complete", {"workerId": "w", "variables": {"weight": 11}}).status_code == 204
    (tmp_path / "porters.py").write_text(PORTERS)
    command = (EXECUTABLE, "node", "porters:node", "--url", service.root)
    environment = {**os.environ, "STATEWRIGHT_TOKEN": str(v1.token)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as node:
        try:
            eventually(lambda: done(v1.get(f"/errands/{sent['id']}"))["status"] == "COMPLETED")
        finally:
            node.terminate()
    assert done(v1.get(f"/errands/{sent['id']}"))["input"] == {"weight": 11, "lifted": 11}


def test_definitions_and_instances_have_pages(service: RunningService, tenant: str, v1: Api):
    v1.post("/plans", PLAN)
    sent = v1.post("/errands", {"definitionId": "errand", "input": {"what": "milk"}}).json()
    visit = Visit(service)
    visit.log_in(token=a_token(tenant, user_roles=["ROLE_ADMIN", "ROLE_M2M", "ROLE_OPERATOR"]))

    def see(path: str) -> str:
        page = visit.get(path)
        assert page.status_code == 200, page.text
        return page.text

    assert 'href="/console/plans/errand"' in see("/console/plans")
    definition = see("/console/plans/errand")
    assert "Diagram of the plan" in definition
    assert all(f"focus={node}" in definition for node in ("ask", "lift", "done", "late"))
    assert sent["id"] in see("/console/instances?language=plan")
    instance = see(f"/console/instances/{sent['id']}")
    assert "Diagram of the plan" in instance
    assert "1 under way" in instance
    assert "milk" in instance


def test_definitions_are_checked_and_drawn_by_commands(tmp_path: Path):
    file = tmp_path / "errand.json"
    file.write_text(json.dumps(PLAN))
    assert CommandRunner().invoke(errands, ["lint", str(file)]).output == f"{file}: fine\n"
    [report] = json.loads(CommandRunner().invoke(errands, ["lint", "--json", str(file)]).output)
    assert (report["id"], report["error"]) == ("errand", None)
    assert CommandRunner().invoke(errands, ["diagram", str(file)]).output.startswith("flowchart LR\n  ask\n")
    file.write_text("{")
    assert CommandRunner().invoke(errands, ["lint", str(file)]).exit_code == 1

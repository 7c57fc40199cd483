"""An instance of a process is an entity: every operation that takes the id of either understands it as a UUID and as
the ULID that the languages of processes give (docs/reference/entities.md#parameters).
"""

import re
from urllib.parse import quote

import httpx
import pytest

from statewright.ids import ulid_to_uuid
from tests.builders import Json
from tests.integration.flows.conftest import done
from tests.integration.grpc_rpcs.client import Rpcs
from tests.service import Api, RunningService, a_token

PATHS = re.compile(r"/(v1/instances|v1/jobs|ops/v1/instances)/\{(id|instanceId)\}|\{entityId\}")
"""Instances of flows and executions of playbooks are hosted as those of the step engine are, by the same parts."""
QUERIES = ("query", "entityId"), ("query", "instanceId"), ("query", "afterId")
FILLED = {
    "entityName": "StepWorkflowInstance", "modelVersion": "1", "format": "JSON", "transition": "retry",
    "stepId": "work",
}  # fmt: skip
BODIES: dict[str, Json] = {
    "completeJob": {"workerId": "w", "variables": {}},
    "failJob": {"workerId": "w", "errorMessage": "no"},
    "restoreEntity": {"version": "00000000-0000-1000-8000-000000000000"},
}
WORK = {
    "id": "d",
    "name": "D",
    "steps": [
        {"id": "work", "name": "Work", "type": "SERVICE_TASK", "jobType": "work", "nextStep": "end"},
        {"id": "end", "name": "End", "type": "END"},
    ],
}


@pytest.fixture
def root(service: RunningService, api: Api) -> Api:
    """The tenant, with a definition whose instances wait for a worker."""
    root = Api(service.root, api.token)
    done(root.post("/v1/definitions", WORK), 201)
    return root


def start(root: Api) -> str:
    return str(done(root.post("/v1/instances", {"definitionId": "d"}), 201)["id"])


def job_of(root: Api, instance: str) -> str:
    """The job that the instance waits for, claimed."""
    jobs = done(root.post("/v1/jobs/poll", {"jobTypes": ["work"], "jobType": "work", "workerId": "w", "maxJobs": 100}))
    return str(next(job["id"] for job in jobs["items" if "items" in jobs else "jobs"] if job["instanceId"] == instance))


def test_both_forms_of_an_id_have_the_same_answer(root: Api) -> None:
    document = done(root.get("/openapi.json"))
    walked = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            queried = [one["name"] for one in operation["parameters"] if (one["in"], one["name"]) in QUERIES]
            if not PATHS.search(path) and not queried:
                continue
            answers = [ask(root, method, path, operation, queried, form) for form in (str, ulid_to_uuid)]
            first, second = map(judge, answers)
            assert first == second, f"{method} {path}: {[answer.text for answer in answers]}"
            assert "not a UUID" not in answers[0].text
            assert "no such entity" not in answers[0].text
            walked += 1
    assert walked >= 35


def ask(root: Api, method: str, path: str, operation: Json, queried: list[str], form: Json) -> httpx.Response:
    """The operation on an instance of its own, whose id is written in this form."""
    instance = start(root)
    transaction = done(root.get(f"/api/entity/{ulid_to_uuid(instance)}"))["meta"]["transactionId"]
    subject = job_of(root, instance) if path.startswith("/v1/jobs") else instance
    for name in re.findall(r"\{(\w+)\}", path):
        is_id = name in ("id", "instanceId", "entityId")
        value = form(subject) if is_id else transaction if name == "transactionId" else FILLED[name]
        path = path.replace(f"{{{name}}}", quote(str(value)))
    base = "" if path.startswith(("/v1", "/ops/v1")) else "/api"
    query = "&".join(f"{name}={form(instance)}" for name in queried)
    if "/diff" in path:
        query = f"from={transaction}&to={transaction}"
    if "/wait" in path:
        query = "timeout=PT0S"
    body = BODIES.get(operation["operationId"], {} if "requestBody" in operation else b"")
    return root.request(method.upper(), f"{base}{path}{'?' if query else ''}{query}", body)


def judge(answer: httpx.Response) -> tuple[int, Json]:
    """What two answers about different instances have in common."""
    document = answer.json() if "json" in answer.headers.get("content-type", "") and answer.content else None
    if isinstance(document, dict) and "properties" in document:
        return answer.status_code, document["properties"]["errorCode"]
    return answer.status_code, sorted(document) if isinstance(document, dict) else type(document).__name__


def test_grpc_understands_both_forms(root: Api, service: RunningService, tenant: str) -> None:
    instance = start(root)
    rpcs = Rpcs(service.grpc, a_token(tenant))
    assert rpcs.read(instance) == rpcs.read(str(ulid_to_uuid(instance)))
    changes = [rpcs.ask("EntityChangesMetadataGetRequest", entityId=form(instance)) for form in (str, ulid_to_uuid)]
    assert [len(each) for each in changes] == [1, 1]


def test_searches_find_an_instance_by_both_forms(api: Api, root: Api) -> None:
    instance = start(root)
    for id_ in (instance, instance.lower(), ulid_to_uuid(instance)):
        condition = {"type": "lifecycle", "field": "id", "operatorType": "EQUALS", "value": id_}
        found = api.post("/search/direct/StepWorkflowInstance/1", condition)
        assert found.status_code == 200
        assert str(ulid_to_uuid(instance)) in found.text

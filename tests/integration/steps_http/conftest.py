"""What the tests of the step dialect share."""

import httpx
import pytest

from tests.builders import Json
from tests.service import Api, RunningService, a_token


@pytest.fixture
def v1(service: RunningService, tenant: str) -> Api:
    """The root of the service as alice of this test's tenant sees it: paths start with ``/v1``."""
    return Api(service.root, a_token(tenant))


def an_error(response: httpx.Response, status: int, error: str) -> str:
    """The reason of an answer that must be this error, with two members and no third."""
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    assert response.headers["content-type"] == "application/json"
    body: Json = response.json()
    assert sorted(body) == ["error", "reason"]
    assert body["error"] == error, body
    return str(body["reason"])


def done(response: httpx.Response, status: int = 200) -> Json:
    """The JSON of a response that must have this status; None when it has no content."""
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    return response.json() if response.content else None


def step(id_: str, type_: str, then: str = "", **members: Json) -> Json:
    """A step of a definition."""
    return {"id": id_, "name": id_, "type": type_, **({"nextStep": then} if then else {}), **members}


def definition(id_: str, *steps: Json, **members: Json) -> Json:
    """A definition of these steps and an END."""
    return {"id": id_, "name": f"The {id_}", "steps": [*steps, step("end", "END")], **members}


def uploaded(v1: Api, *definitions: Json) -> None:
    """Store definitions."""
    for one in definitions:
        done(v1.post("/v1/definitions", one), 201)


def started(v1: Api, id_: str, **members: Json) -> Json:
    """A new instance."""
    return done(v1.post("/v1/instances", {"definitionId": id_, **members}), 201)


def polled(v1: Api, *types: str, worker: str = "w-1", **members: Json) -> list[Json]:
    """Jobs that are now the worker's."""
    return list(done(v1.post("/v1/jobs/poll", {"workerId": worker, "jobTypes": types, **members}))["jobs"])

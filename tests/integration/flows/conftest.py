"""What the tests of hosted flows share: a service, and a worker that speaks ``/v1/jobs``."""

from dataclasses import dataclass, field
from itertools import count

import httpx
import pytest

from tests.builders import Json
from tests.service import Api, RunningService, a_token

_numbers = count()


def done(response: httpx.Response, status: int = 200) -> Json:
    """The JSON of a response that must have this status; None when it has no content."""
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    return response.json() if response.content else None


def an_error(response: httpx.Response, status: int, error: str) -> Json:
    """The body of an answer that must be this error."""
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    body: Json = response.json()
    assert body["error"] == error, body
    return body


@dataclass(frozen=True)
class Flows:
    """``/v1/flows`` as one caller sees it, and ``/v1/jobs`` as its worker does. Short verbs assert success."""

    api: Api
    worker: str = "w-1"
    asked: list[Json] = field(default_factory=list)

    def upload(self, source: str, id_: str = "", **settings: Json) -> str:
        """Store a flow; its id."""
        body = {"id": id_ or f"flow-{next(_numbers)}", "source": source, "settings": settings}
        return str(done(self.api.post("/v1/flows/definitions", body), 201)["id"])

    def start(self, flow: str, value: Json = None, **members: Json) -> Json:
        """A new instance of a stored flow."""
        return done(self.api.post("/v1/flows/instances", {"definitionId": flow, "input": value, **members}), 201)

    def run(self, source: str, value: Json = None, **settings: Json) -> Json:
        """A new instance of a text."""
        return self.start(self.upload(source, **settings), value)

    def read(self, instance: Json) -> Json:
        return done(self.api.get(f"/v1/flows/instances/{instance['id']}"))

    def do(self, instance: Json, verb: str, **body: Json) -> Json:
        """``cancel``, ``terminate`` or ``restart``."""
        return done(self.api.post(f"/v1/flows/instances/{instance['id']}/{verb}", body))

    def history(self, instance: Json) -> list[Json]:
        return list(done(self.api.get(f"/v1/flows/instances/{instance['id']}/history?pageSize=1000"))["items"])

    def poll(self, *types: str, most: int = 100, **members: Json) -> list[Json]:
        body = {"workerId": self.worker, "jobTypes": types, "maxJobs": most, **members}
        return list(done(self.api.post("/v1/jobs/poll", body))["jobs"])

    def job(self, type_: str) -> Json:
        """The only job of a type."""
        [job] = self.poll(type_)
        return job

    def complete(self, job: Json, output: Json = None) -> None:
        done(self.api.post(f"/v1/jobs/{job['id']}/complete", {"workerId": self.worker, "variables": output}), 204)

    def fail(self, job: Json, message: str = "boom", *, retryable: bool = False) -> None:
        body = {"workerId": self.worker, "errorMessage": message, "retryable": retryable}
        done(self.api.post(f"/v1/jobs/{job['id']}/fail", body), 204)


@pytest.fixture
def flows(service: RunningService, tenant: str) -> Flows:
    """The shared service, in a tenant that nobody has seen before."""
    return Flows(Api(service.root, a_token(tenant)))


@pytest.fixture
def other(service: RunningService, tenant: str) -> Flows:
    """The same, in another tenant."""
    return Flows(Api(service.root, a_token(f"{tenant}-other")))

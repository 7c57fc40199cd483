"""What the tests of the event loop share."""

import gc
import http.client
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from statewright.app.service import THRESHOLDS
from tests.builders import a_workflow, automated, when
from tests.integration.event_loop.bodies import MAX_BODY
from tests.integration.event_loop.watchdog import require_free_loop
from tests.service import Api, RunningService

TENANT = "held-loop-tenant"


@dataclass(frozen=True)
class Door:
    """The HTTP interface of a service whose event loop is watched, as one tenant sees it."""

    service: RunningService
    api: Api

    def send(self, line: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """By hand, since a client library would compute, too. ``line`` is method and path, below ``/api`` or of
        ``/v1``.
        """
        assert len(body) <= MAX_BODY
        method, _, path = line.partition(" ")
        if not path.startswith("/v1/"):
            path = f"{self.service.context_path}{path}"
        connection = http.client.HTTPConnection(urlsplit(self.api.url).netloc, timeout=120)
        given = {"Authorization": f"Bearer {self.api.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body, given | dict(headers or {}))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def require_free(self, line: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """A request leaves the loop free, whatever its answer is."""

        def work() -> None:
            status, answer = self.send(line, body, headers)
            assert status not in {401, 403, 404, 405, 415}, (status, answer[:500])
            assert status < 500, (status, answer[:500])

        require_free_loop(self.service.loop, work)


@pytest.fixture(scope="module", autouse=True)
def collections_as_in_production() -> Iterator[None]:
    """The garbage collector runs as rarely as where the service has a process of its own."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    yield
    gc.set_threshold(*before)


@pytest.fixture(scope="session")
def door(service: RunningService) -> Door:
    """A tenant with a model that has a criterion to evaluate, and one that is not locked, and
    one with a small entity to search for."""
    api = service.api(TENANT)
    api.import_model("held/1", {"v": [1]})
    workflow = a_workflow(New=[automated("GO", to="Gone", criterion=when("$.v[*]", "EQUALS", -1))], Gone=[])
    api.import_workflows(workflow, model="held/1")
    api.lock("held/1")
    api.import_model("held-open/1", {"v": 1})
    api.a_model(model="sought/1", sample={"v": [1]})
    api.create({"v": [1, 2, 3]}, model="sought/1")
    return Door(service, api)

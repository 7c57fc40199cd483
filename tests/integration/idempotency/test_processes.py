"""Instances, jobs and tasks by requests with keys (docs/reference/operations.md#idempotent-requests)."""

from collections.abc import Callable

import httpx
import pytest

from tests.builders import Json
from tests.integration.steps_http.conftest import an_error, definition, done, polled, step, uploaded
from tests.service import Api, RunningService, a_token

Post = Callable[[str, Json], httpx.Response]


@pytest.fixture
def v1(service: RunningService, tenant: str) -> Api:
    return Api(service.root, a_token(tenant))


def post_twice(v1: Api, path: str, body: Json, key: str) -> httpx.Response:
    """The first answer to a request that is sent twice; the second must be that answer once more."""
    first, again = (v1.post(path, body, Idempotency_Key=key) for _ in range(2))
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    return first


def test_an_instance_is_started_once(v1: Api) -> None:
    uploaded(v1, definition("chain", step("work", "SERVICE_TASK", "end", jobType="t")))
    first = done(post_twice(v1, "/v1/instances", {"definitionId": "chain"}, "k"), 201)
    assert first["status"] == "ACTIVE"
    assert done(v1.get("/v1/instances"))["total"] == 1
    assert len(polled(v1, "t")) == 1


def test_a_definition_is_stored_once(v1: Api) -> None:
    first = done(post_twice(v1, "/v1/definitions", definition("chain", step("work", "WAIT", "end")), "k"), 201)
    assert first["version"] == 1
    assert done(post_twice(v1, "/v1/definitions", definition("chain", step("work", "WAIT", "end")), "k2"), 201) == first


def test_results_and_failures_of_jobs_are_taken_once(v1: Api) -> None:
    work = [step("a", "SERVICE_TASK", "b", jobType="t", retryCount=3), step("b", "SERVICE_TASK", "end", jobType="t")]
    uploaded(v1, definition("chain", *work))
    done(v1.post("/v1/instances", {"definitionId": "chain"}), 201)
    [job] = polled(v1, "t")
    failure = {"workerId": "w-1", "errorMessage": "no luck", "retryable": True}
    done(post_twice(v1, f"/v1/jobs/{job['id']}/fail", failure, "fail"), 204)
    [again] = polled(v1, "t")
    assert again["retriesRemaining"] == job["retriesRemaining"] - 1
    done(post_twice(v1, f"/v1/jobs/{job['id']}/complete", {"workerId": "w-1", "variables": {"n": 1}}, "done"), 204)
    [following] = polled(v1, "t")
    assert following["stepId"] == "b"
    other = v1.post(f"/v1/jobs/{job['id']}/complete", {"workerId": "w-1"}, Idempotency_Key="done")
    assert an_error(other, 409, "conflict").startswith("IDEMPOTENCY_CONFLICT: ")


def test_tasks_signals_and_cancellations_are_taken_once(v1: Api) -> None:
    uploaded(v1, definition("form", step("sign", "USER_TASK", "wait"), step("wait", "WAIT", "end")))
    instance = done(v1.post("/v1/instances", {"definitionId": "form"}), 201)["id"]
    path = f"/v1/instances/{instance}"
    done(post_twice(v1, f"{path}/user-tasks/sign/complete", {"variables": {"by": "ann"}}, "task"), 204)
    done(post_twice(v1, f"{path}/signals/wait", {"go": True}, "signal"), 204)
    assert done(v1.get(path))["status"] == "COMPLETED"
    other = done(v1.post("/v1/instances", {"definitionId": "form"}), 201)["id"]
    cancelled = done(post_twice(v1, f"/v1/instances/{other}/cancel", {"reason": "no"}, "cancel"))
    assert cancelled["status"] == "CANCELLED"
    assert "STEP" not in an_error(v1.post(f"/v1/instances/{other}/cancel", {}, Idempotency_Key="late"), 409, "conflict")


def test_transitions_of_built_in_models_are_fired_once(v1: Api, api: Api) -> None:
    uploaded(v1, definition("form", step("wait", "WAIT", "end")))
    done(v1.post("/v1/instances", {"definitionId": "form"}), 201)
    [instance] = done(api.get("/entity/StepWorkflowInstance/1"))
    path = f"/entity/JSON/{instance['meta']['id']}/cancel"
    first, again = (api.put(path, {"reason": "no"}, Idempotency_Key="k") for _ in range(2))
    assert done(first)["entityIds"] == [instance["meta"]["id"]]
    assert (first.content, again.headers.get("idempotency-replayed")) == (again.content, "true")


def test_flows_are_uploaded_started_and_ended_once(v1: Api) -> None:
    source = {"id": "f", "source": "a -> b"}
    done(post_twice(v1, "/v1/flows/definitions", source, "up"), 201)
    started = done(post_twice(v1, "/v1/flows/instances", {"definitionId": "f"}, "start"), 201)
    path = f"/v1/flows/instances/{started['id']}"
    done(post_twice(v1, f"{path}/cancel", {"reason": "no"}, "cancel"))

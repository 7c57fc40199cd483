"""The manners of the step dialect, whatever is asked for (docs/reference/steps.md#conventions,
docs/reference/steps.md#rest, docs/reference/steps.md#who-may-call).
"""

import json

import pytest

from statewright.api.http.steps.routes import STEP_ROUTES
from tests.builders import Json
from tests.integration.steps_http.conftest import an_error
from tests.service import Api, RunningService

ULID = "01JABC3V9E6K8M2Q4S6T8W0Y2Z"


def filled(path: str) -> str:
    return path.replace("{id}", ULID).replace("{version}", "1").replace("{stepId}", "s").replace("{taskId}", ULID)


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/nothing", "/v1/definitions/", "/v1//definitions", "/v1/jobs/poll/x"]
)
def test_an_unknown_path_is_an_error_of_the_dialect(v1: Api, path: str) -> None:
    response = v1.get(path)
    reason = "there is no such path; /docs shows those there are"
    assert (response.status_code, response.json()) == (404, {"error": "not-found", "reason": reason})


def test_a_path_that_only_begins_alike_belongs_to_nobody(v1: Api) -> None:
    assert v1.get("/v1x").status_code == 404
    assert v1.get("/v11/definitions").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/definitions", "GET, HEAD, POST"),
        ("DELETE", "/v1/instances/x", "GET, HEAD"),
        ("GET", "/v1/jobs/poll", "POST"),
        ("HEAD", "/v1/jobs/poll", "POST"),
    ],
)
def test_a_wrong_method_is_an_error_of_the_dialect(v1: Api, method: str, path: str, allowed: str) -> None:
    response = v1.request(method, path)
    assert response.status_code == 405
    if method != "HEAD":
        assert response.json()["error"] == "method-not-allowed"
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize("route", STEP_ROUTES, ids=lambda route: route.id)
def test_nobody_is_served_without_credentials(service: RunningService, route: Json) -> None:
    response = Api(service.root).request(route.method, filled(route.path))
    assert an_error(response, 401, "unauthorized") == "authentication required"
    response = Api(service.root, "no token").request(route.method, filled(route.path))
    an_error(response, 401, "unauthorized")


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/v1/instances", "", "invalid request body: EOF"),
        ("/v1/instances", "{", "invalid request body: "),
        ("/v1/instances", "[]", "the body must be an object, not an array"),
        ("/v1/instances", '{"definitionId": 7}', "definitionId must be a text, not the number 7"),
        ("/v1/instances", '{"definitionId": "x", "variables": []}', "variables must be an object, not "),
        (
            "/v1/instances",
            '{"definitionId": "x", "definitionVersion": 1.5}',
            "definitionVersion must be an integer, not the number 1.5",
        ),
        ("/v1/instances", '{"definitionId": "x", "variables": {"a": "\\u0000"}}', "invalid request body: "),
        ("/v1/instances", "{}", "definitionId is required"),
        ("/v1/instances", '{"definitionId": null}', "definitionId is required"),
        ("/v1/jobs/poll", "", "invalid request body: EOF"),
        ("/v1/jobs/poll", '{"jobTypes": ["a"]}', "workerId is required"),
        ("/v1/jobs/poll", '{"workerId": "w"}', "jobTypes must not be empty"),
        ("/v1/jobs/poll", '{"workerId": "w", "jobTypes": [1]}', "jobTypes[] must be a text, not the number 1"),
        ("/v1/jobs/poll", '{"workerId": "w", "jobTypes": "a"}', "jobTypes must be an array, not a text"),
        ("/v1/jobs/poll", json.dumps({"workerId": "w" * 513, "jobTypes": ["a"]}), "workerId must be ≤ 512 characters"),
        (
            "/v1/jobs/poll",
            json.dumps({"workerId": "w", "jobTypes": ["a" * 513]}),
            "jobTypes[] must be ≤ 512 characters",
        ),
        ("/v1/jobs/poll", json.dumps({"workerId": "w", "jobTypes": ["a"] * 1001}), "jobTypes must be ≤ 1000, got 1001"),
        (f"/v1/jobs/{ULID}/complete", "", "invalid request body: EOF"),
        (f"/v1/jobs/{ULID}/complete", '{"variables": 1}', "variables must be an object, not "),
        (f"/v1/jobs/{ULID}/fail", "", "invalid request body: EOF"),
        (f"/v1/jobs/{ULID}/fail", '{"retryable": "yes"}', "retryable must be true or false, not a text"),
        (f"/v1/jobs/{ULID}/renew", "{}", "workerId is required"),
        (f"/v1/jobs/{ULID}/heartbeat", "{}", "workerId is required"),
        (f"/v1/jobs/{ULID}/release", "{}", "workerId is required"),
        (f"/v1/instances/{ULID}/signals/s", "{", "invalid request body: "),
        (f"/v1/instances/{ULID}/signals/s", '"text"', "the body must be an object, not a text"),
        (f"/v1/instances/{ULID}/user-tasks/s/complete", "{", "invalid request body: "),
        (f"/v1/instances/{ULID}/steps/s/retry", '{"variables": "x"}', "variables must be an object, not "),
    ],
)
def test_a_body_that_makes_no_sense_is_refused_with_the_member_it_is_about(
    v1: Api, path: str, body: str, reason: str
) -> None:
    assert reason in an_error(v1.post(path, body), 400, "bad-request")


def test_a_body_of_more_than_ten_mebibytes_is_refused(v1: Api) -> None:
    reason = an_error(v1.post("/v1/instances", b" " * (10 * 1024 * 1024 + 1)), 413, "too-large")
    assert "10485760 bytes" in reason


@pytest.mark.parametrize("content_type", ["application/xml", "text/xml; charset=utf-8"])
def test_xml_is_no_definition(v1: Api, content_type: str) -> None:
    response = v1.post("/v1/definitions", "<a/>", Content_Type=content_type)
    assert an_error(response, 415, "unsupported-format") == "Only JSON workflow definitions are accepted"


@pytest.mark.parametrize("path", ["/v1/definitions/x/versions/one", "/v1/definitions/x/versions/1.0"])
def test_a_version_is_an_integer(v1: Api, path: str) -> None:
    assert an_error(v1.get(path), 400, "bad-request") == "invalid version parameter"


@pytest.mark.parametrize("version", ["0", "-1", "99999999999"])
def test_a_version_that_cannot_be_is_not_found(v1: Api, version: str) -> None:
    response = v1.get(f"/v1/definitions/x/versions/{version}")
    assert an_error(response, 404, "not-found") == "definition not found"


def test_any_origin_may_call(v1: Api) -> None:
    response = v1.get("/v1/nothing", Origin="https://modeller.example")
    assert response.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in response.headers


def test_a_preflight_is_answered_without_credentials(service: RunningService) -> None:
    response = Api(service.root).request(
        "OPTIONS", "/v1/definitions", Origin="https://modeller.example", Access_Control_Request_Method="POST"
    )
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
    allowed = response.headers["access-control-allow-headers"]
    assert allowed == "Accept, Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Prefer"
    assert response.headers["access-control-max-age"] == "300"


def test_the_probes_are_empty(service: RunningService) -> None:
    for path in ("/healthz", "/readyz"):
        response = Api(service.root).get(path)
        assert (response.status_code, response.content) == (200, b"")


def test_the_entity_api_is_where_it_was(v1: Api) -> None:
    assert v1.get("/api/model/").status_code == 200


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/v1/definitions/a%00", "id"),
        ("/v1/definitions/a%00/versions/1", "id"),
        ("/v1/definitions/a%00/diagram", "id"),
        ("/v1/definitions?keyword=a%00", "keyword"),
        ("/v1/instances?businessKey=a%00", "businessKey"),
        ("/v1/instances?status=a%00", "status"),
        ("/v1/instances?definitionId=a%00", "definitionId"),
        ("/v1/user-tasks?jobType=a%00", "jobType"),
    ],
)
def test_a_nul_character_is_refused(v1: Api, path: str, parameter: str) -> None:
    """PostgreSQL takes none."""
    assert an_error(v1.get(path), 400, "bad-request") == f"invalid value for parameter '{parameter}'"

"""Request ids and the access log (docs/reference/service.md#request-ids)."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from statewright.telemetry import logs
from tests.database import Template
from tests.service import Api, RunningService, done, eventually, hosted

GIVEN = "client-7/4f:2a"


@pytest.fixture(scope="module")
def logging_service(database_template: Template) -> Iterator[RunningService]:
    """A service with an access log."""
    with hosted(database_template.clone(), access_log=True) as running:
        yield running


@pytest.fixture
def stream() -> io.BytesIO:
    """Where the log goes, as JSON."""
    stream = io.BytesIO()
    logs.configure("info", "json", stream)
    return stream


def read_lines(stream: io.BytesIO, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in lines if line["msg"] == event]


def test_every_answer_names_its_request(service: RunningService, api: Api) -> None:
    answers = [
        api.get("/model/"), api.get("/no/such"), api.get("/entity/x"), service.anonymous().get("/model/"),
        Api(service.root).get("/v1/definitions"), Api(service.root).get("/healthz"), Api(service.admin).get("/livez"),
        api.request("HEAD", "/account"),
    ]  # fmt: skip
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == len(answers)


def test_the_name_that_a_client_gives_is_kept(api: Api) -> None:
    assert api.get("/model/", X_Request_ID=GIVEN).headers["x-request-id"] == GIVEN
    assert api.get("/model/", X_Request_ID="x" * 128).headers["x-request-id"] == "x" * 128


@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "a,b", '"a"', "-a", "a;b"])
def test_a_name_that_could_harm_headers_or_logs_is_replaced(api: Api, name: str) -> None:
    given = api.get("/model/", X_Request_ID=name)
    assert given.headers["x-request-id"] not in {"", name}


def test_what_is_logged_for_a_request_names_it(api: Api, stream: io.BytesIO) -> None:
    api.get("/entity/x", X_Request_ID=GIVEN)
    eventually(lambda: read_lines(stream, "request_refused"))
    assert {line["request"] for line in read_lines(stream, "request_refused")} == {GIVEN}


def test_every_request_but_probes_has_a_line_where_that_is_wanted(
    logging_service: RunningService, tenant: str, stream: io.BytesIO
) -> None:
    api = logging_service.api(tenant, "ann")
    done(api.get("/model/?secret=s3cret", X_Request_ID="first"))
    api.get("/entity/x", X_Request_ID="second")
    logging_service.anonymous().get("/nowhere", X_Request_ID="third")
    Api(logging_service.root).get("/healthz", X_Request_ID="probe")
    Api(logging_service.admin).get("/livez", X_Request_ID="probe")
    done(api.get("/account", X_Request_ID="last"))
    eventually(lambda: any(line["request"] == "last" for line in read_lines(stream, "request_answered")))
    lines = {line["request"]: line for line in read_lines(stream, "request_answered")}
    assert set(lines) == {"first", "second", "third", "last"}
    first = lines["first"]
    assert first["ms"] > 0
    told = {name: first[name] for name in ("status", "method", "path", "route", "client", "tenant", "user")}
    assert told == {
        "status": 200, "method": "GET", "path": "/api/model/", "route": "/model/", "client": "127.0.0.1",
        "tenant": tenant, "user": "ann",
    }  # fmt: skip
    assert (lines["second"]["status"], lines["third"]["status"]) == (400, 401)
    assert "tenant" not in lines["third"]
    assert b"s3cret" not in stream.getvalue()


def test_no_request_has_a_line_unless_it_is_wanted(api: Api, stream: io.BytesIO) -> None:
    done(api.get("/account"))
    assert read_lines(stream, "request_answered") == []

"""What a web page that somebody happens to have open can do to a service, and what pages of the service may do
(docs/reference/authentication.md#web-pages, decision A5; docs/reference/service.md#openapi).
"""

import base64
import hashlib
import http.client
import json
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.database import Template
from tests.service import Api, RunningService, done, hosted, refused

EVIL = "http://evil.example"
UNKNOWN = "00000000-0000-1000-8000-000000000000"


@pytest.fixture(scope="module")
def mock(database_template: Template) -> Iterator[RunningService]:
    """A service in mock mode with a name of its own."""
    settings = {"iam_mode": "mock", "jwt_signing_key": None, "allowed_hosts": ("dev.example",)}
    with hosted(database_template.clone(), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def half_open(database_template: Template) -> Iterator[RunningService]:
    """A service in jwt mode whose step engine takes callers without credentials."""
    with hosted(database_template.clone(), steps_open_tenant="workers") as running:
        yield running


def ask(
    url: str, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """A request with exactly these headers, and a host of the client's choice."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


SAMPLE = b'{"name": "x"}'
IMPORT = "/api/model/import/JSON/SAMPLE_DATA/stolen/1"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", IMPORT),
        ("DELETE", f"/api/entity/{UNKNOWN}"),
        ("POST", "/api/admin/log-level"),
        ("POST", "/api/oauth/token"),
        ("POST", "/v1/definitions"),
        ("POST", "/v1/jobs/poll"),
        ("POST", "/no/such/path"),
    ],
)
def test_a_foreign_page_can_change_nothing(mock: RunningService, method: str, path: str) -> None:
    for headers in ({"Origin": EVIL}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}):
        status, _, answer = ask(mock.root, method, path, SAMPLE, Content_Type="text/plain", **headers)
        assert status == 403, (headers, answer)
        assert b"STATEWRIGHT_CORS_ALLOWED_ORIGINS" in answer
    assert "stolen" not in {model["modelName"] for model in done(mock.anonymous().get("/model/"))}


@pytest.mark.parametrize(
    "path", ["/api/model/", "/api/health", "/docs", "/openapi.json", "/v1/definitions", "/healthz", "/x"]
)
def test_a_name_that_was_bound_to_this_machine_opens_nothing(mock: RunningService, path: str) -> None:
    status, _, answer = ask(mock.root, "GET", path, Host="evil.example:8080")
    assert status == 421
    assert b"STATEWRIGHT_ALLOWED_HOSTS" in answer
    assert ask(mock.root, "GET", path, Host="dev.example:8080")[0] == ask(mock.root, "GET", path, Host="localhost")[0]


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/readyz"])
def test_the_admin_port_is_guarded_too(mock: RunningService, path: str) -> None:
    assert ask(mock.admin, "GET", path, Host="evil.example")[0] == 421
    assert ask(mock.admin, "POST", path, Origin=EVIL)[0] == 403
    assert ask(mock.admin, "GET", path, Host="localhost")[0] == 200


def test_a_page_of_the_service_may_do_everything(mock: RunningService) -> None:
    status, _, answer = ask(
        mock.root,
        "POST",
        "/api/model/import/JSON/SAMPLE_DATA/mine/1",
        SAMPLE,
        Origin=mock.root,
        Sec_Fetch_Site="same-origin",
    )
    assert status == 200, answer


def test_the_answers_say_what_kind_of_refusal_it_is(mock: RunningService) -> None:
    refused(mock.anonymous().get("/model/", Host="evil.example"), 421, "HOST_NOT_ALLOWED")
    refused(mock.anonymous().post("/model/", "{}", Origin=EVIL), 403, "ORIGIN_NOT_ALLOWED")
    step = Api(mock.root).post("/v1/jobs/poll", "{}", Origin=EVIL)
    assert (step.status_code, set(step.json()), step.json()["error"]) == (403, {"error", "reason"}, "forbidden")
    step = Api(mock.root).get("/v1/definitions", Host="evil.example")
    assert (step.status_code, step.json()["error"]) == (421, "misdirected-request")


def test_a_foreign_page_is_not_shown_what_it_may_ask_for(mock: RunningService) -> None:
    for path in ("/api/model/", "/v1/definitions"):
        status, headers, _ = ask(mock.root, "GET", path, Origin=EVIL)
        assert (status, headers["access-control-allow-origin"]) == (200, None)
        status, headers, _ = ask(mock.root, "GET", path, Origin="http://localhost:3000")
        assert (status, headers["access-control-allow-origin"]) == (200, "http://localhost:3000")


def test_callers_without_credentials_are_guarded_where_a_tenant_is_open(half_open: RunningService) -> None:
    assert ask(half_open.root, "POST", "/v1/jobs/poll", b"{}", Origin=EVIL)[0] == 403
    assert ask(half_open.root, "GET", "/v1/definitions", Host="evil.example")[0] == 421
    assert ask(half_open.root, "GET", "/v1/definitions", Origin=EVIL)[1]["access-control-allow-origin"] is None
    assert ask(half_open.root, "GET", "/v1/definitions")[0] == 200


def test_callers_with_credentials_come_by_any_name_and_from_any_page(half_open: RunningService) -> None:
    token = half_open.api("acme").token
    credentials = {"Host": "steps.example", "Origin": EVIL, "Authorization": f"Bearer {token}"}
    assert ask(half_open.root, "GET", "/v1/definitions", **credentials)[0] == 200
    assert ask(half_open.root, "POST", "/v1/jobs/poll", b"{}", **credentials)[0] == 400
    assert ask(half_open.root, "GET", "/api/model/", **credentials)[0] == 200
    assert ask(half_open.admin, "GET", "/livez", Host="statewright.metrics.svc")[0] == 200


def test_every_answer_is_what_it_says_it_is(mock: RunningService) -> None:
    for url, path in (
        (mock.root, "/api/model/"),
        (mock.root, "/x"),
        (mock.root, "/v1/definitions"),
        (mock.admin, "/metrics"),
    ):
        assert ask(url, "GET", path)[1]["x-content-type-options"] == "nosniff", path
    assert ask(mock.root, "GET", "/docs", Host="a.b")[1]["x-content-type-options"] == "nosniff"


def test_pages_load_nothing_from_elsewhere_and_are_shown_in_no_frame(mock: RunningService) -> None:
    _, headers, page = ask(mock.root, "GET", "/docs")
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["script-src"], policy["frame-ancestors"]) == ("'none'", "'self'", "'none'")
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert b"//cdn" not in page


def test_what_the_page_loads_is_served_beside_it_and_may_be_kept(mock: RunningService) -> None:
    page = Api(mock.root).get("/docs").text
    files = re.findall(r'(?:src|href)="(/docs/[^"]+)" integrity="sha384-([^"]+)"', page)
    assert len(files) == 3
    for path, digest in files:
        status, headers, content = ask(mock.root, "GET", path)
        assert (status, base64.b64encode(hashlib.sha384(content).digest()).decode()) == (200, digest)
        assert headers["content-type"].startswith(("text/javascript", "text/css"))
        assert "immutable" in headers["cache-control"]
    assert Api(mock.root).get("/docs/0/swagger-ui.css").status_code == 404


# HEAD (decision A7)


@pytest.mark.parametrize(
    "path", ["/api/health", "/api/help", "/docs", "/openapi.json", "/api/model/", "/v1/definitions", "/healthz"]
)
def test_what_can_be_got_has_a_head(mock: RunningService, path: str) -> None:
    status, headers, body = ask(mock.root, "HEAD", path)
    got, got_headers, _ = ask(mock.root, "GET", path)
    assert (status, body) == (got, b"")
    for name in ("content-type", "content-length", "vary"):
        assert headers[name] == got_headers[name], name


def test_heads_of_entities_tell_what_getting_them_would(mock: RunningService) -> None:
    api = mock.anonymous()
    api.a_model()
    saved = api.create()
    for path in (
        f"/entity/{saved.id}",
        "/entity/prize/1",
        f"/entity/{saved.id}/changes",
        f"/entity/{UNKNOWN}",
        "/entity/x",
    ):
        head, got = api.request("HEAD", path), api.get(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]
        assert head.headers.get("content-length") == got.headers.get("content-length")


def test_a_head_of_what_can_only_be_changed_is_refused(mock: RunningService) -> None:
    response = mock.anonymous().request("HEAD", "/search/direct/prize/1")
    assert (response.status_code, response.content, response.headers["allow"]) == (405, b"", "OPTIONS, POST")
    assert mock.anonymous().request("POST", "/account").headers["allow"] == "GET, HEAD, OPTIONS"


def test_a_connection_goes_on_after_a_head(mock: RunningService) -> None:
    connection = http.client.HTTPConnection(urlsplit(mock.root).netloc, timeout=10)
    try:
        for method in ("HEAD", "GET", "HEAD", "GET"):
            connection.request(method, "/api/health")
            body = connection.getresponse().read()
            assert body == b"" if method == "HEAD" else json.loads(body) == {"status": "UP"}
    finally:
        connection.close()

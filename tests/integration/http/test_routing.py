"""Which paths exist, for whom, and how names get through (docs/reference/entities.md#conventions,
auth-and-operations.md docs/reference/entities.md#operations, docs/reference/entities.md#the-envelope).
"""

import http.client
from urllib.parse import quote

import pytest

from tests.builders import SAMPLE, a_workflow, manual
from tests.service import Api, RunningService, done, refused

UNKNOWN = "00000000-0000-1000-8000-000000000000"

UNAUTHORIZED = (
    '{"detail":"UNAUTHORIZED: authentication failed","instance":"/api%s","properties":{"errorCode":"UNAUTHORIZED"},'
    '"status":401,"title":"Unauthorized","type":"/api/help/errors.UNAUTHORIZED"}\n'
)


def raw(
    service: RunningService, method: str, target: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, bytes]:
    """A request whose target goes out as it is; status and body of its response."""
    connection = http.client.HTTPConnection(service.root.removeprefix("http://"), timeout=10)
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


# Authentication comes before routing


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/model/"),
        ("GET", f"/entity/{UNKNOWN}"),
        ("POST", "/entity/JSON/prize/1"),
        ("GET", "/no/such/path"),
        ("PATCH", "/model/"),
        ("GET", "/oauth/token"),
    ],
)
def test_without_a_token_every_path_says_the_same(service: RunningService, method: str, path: str) -> None:
    response = service.anonymous().request(method, path)
    assert (response.status_code, response.text) == (401, UNAUTHORIZED % path)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["www-authenticate"] == 'Bearer realm="statewright"'
    assert "retry-after" not in response.headers


@pytest.mark.parametrize(
    "path", ["/.well-known/other", "/.well-known/openid-configuration", "/.well-known/jwks.json/x"]
)
def test_what_is_not_well_known_is_a_404_without_a_token(service: RunningService, path: str) -> None:
    refused(service.anonymous().get(path), 404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/no/such/path", "/model", "/entity", "/entity/a/b/c/d/e", "/audit/", "//"])
def test_with_a_token_an_unknown_path_is_a_problem(api: Api, path: str) -> None:
    response = api.get(path)
    if path == "/model":
        assert response.status_code in {200, 404}
        return
    problem = refused(response, 404, "NOT_FOUND")
    assert problem["instance"] == f"/api{path}"


@pytest.mark.parametrize(
    "path",
    [
        f"/entity/{UNKNOWN}/",
        "/entity/prize/1/",
        f"/entity/{UNKNOWN}/changes/",
        "/model/prize/1/lock/",
        "/account/",
        "/entity/JSON//1",
        "//model/",
        "/model//",
    ],
)
def test_a_trailing_slash_is_significant(api: Api, path: str) -> None:
    method = "PUT" if "lock" in path else "GET"
    response = api.request(method, path)
    refused(response, 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/model/", {"GET"}),
        ("POST", f"/entity/{UNKNOWN}/changes", {"GET"}),
        ("GET", "/model/prize/1/lock", {"PUT"}),
        ("PUT", f"/audit/entity/{UNKNOWN}", {"GET"}),
        ("POST", "/account", {"GET"}),
    ],
)
def test_a_method_that_a_path_lacks_is_a_405_that_names_the_others(
    api: Api, method: str, path: str, allowed: set[str]
) -> None:
    response = api.request(method, path)
    problem = refused(response, 405, "BAD_REQUEST")
    assert problem["title"] == "Method Not Allowed"
    named = {name.strip() for name in response.headers["allow"].split(",")}
    assert allowed <= named
    assert method not in named


def test_outside_the_context_path_there_is_little(service: RunningService, api: Api) -> None:
    outside = Api(service.root, api.token)
    for path in ("/model/", "/apix/model/", "/health", "/livez"):
        assert outside.get(path).status_code == 404


# Names


@pytest.mark.parametrize("segment", ["%FF", "a%C3", "%C3%28", "%ED%A0%80", "%C0%AF"])
def test_a_name_that_is_not_utf_8_is_refused(service: RunningService, api: Api, segment: str) -> None:
    """With a mark in place of what cannot be read, all such names would be one."""
    headers = {"Authorization": f"Bearer {api.token}"}
    status, content = raw(service, "POST", f"/api/model/import/JSON/SAMPLE_DATA/{segment}/1", headers, b'{"a": 1}')
    assert (status, b'"parameter":"entityName"' in content) == (400, True)
    assert raw(service, "GET", f"/api/entity/{segment}/1", headers)[0] == 400
    assert done(api.get("/model/")) == []


@pytest.mark.parametrize(
    "name",
    [
        "with space",
        "a/b",
        "a%b",
        "käse",
        "漢字",
        "a+b",
        "a?b#c",
        "..",
        "'; DROP TABLE entity; --",
        "x" * 2000,
        "{a}",
        "a:b",
    ],
)
def test_any_name_of_a_model_survives_the_path(service: RunningService, api: Api, name: str) -> None:
    headers = {"Authorization": f"Bearer {api.token}"}
    segment = quote(name, safe="").replace(".", "%2E")

    def call(method: str, path: str, body: bytes = b"") -> bytes:
        status, content = raw(service, method, f"/api{path}", headers, body)
        assert status == 200, content
        return content

    call("POST", f"/model/import/JSON/SAMPLE_DATA/{segment}/1", b'{"n": 1}')
    call("PUT", f"/model/{segment}/1/lock")
    call("POST", f"/entity/JSON/{segment}/1", b'{"n": 2}')
    assert [model["modelName"] for model in done(api.get("/model/"))] == [name]
    listed = call("GET", f"/entity/{segment}/1").decode()
    assert '"modelKey":{"name":' in listed
    assert name in listed.replace('\\"', '"')


def test_a_name_that_cannot_be_stored_does_not_bind(api: Api) -> None:
    problem = refused(api.post("/model/import/JSON/SAMPLE_DATA/nul%00nul/1", SAMPLE), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "entityName"


def test_a_nul_elsewhere_in_a_path_finds_nothing(api: Api) -> None:
    api.a_model(a_workflow(New=[manual("GO", to="New")]))
    entity = api.create().id
    refused(api.put(f"/entity/JSON/{entity}/G%00", SAMPLE), 404, "TRANSITION_NOT_FOUND")
    refused(api.get(f"/entity/{entity}%00"), 400, "BAD_REQUEST")


@pytest.mark.parametrize("segment", ["%", "%zz", "%e"])
def test_escapes_that_are_none_break_nothing(service: RunningService, api: Api, segment: str) -> None:
    headers = {"Authorization": f"Bearer {api.token}"}
    status, _ = raw(service, "GET", f"/api/entity/{segment}/1", headers)
    assert status == 404


# Bodies and headers


@pytest.mark.parametrize(
    "path", ["/entity/JSON/prize/1", f"/entity/JSON/{UNKNOWN}", "/model/import/JSON/SAMPLE_DATA/p/1"]
)
def test_a_body_over_ten_mebibytes_is_too_large(api: Api, path: str) -> None:
    body = b'{"text": "%b"}' % (b"x" * 10 * 1024 * 1024)
    method = "PUT" if UNKNOWN in path else "POST"
    refused(api.request(method, path, body), 413, "BAD_REQUEST")


def test_a_body_without_a_declared_length_is_limited_too(service: RunningService, api: Api) -> None:
    connection = http.client.HTTPConnection(service.root.removeprefix("http://"), timeout=10)
    chunks = iter([b'{"text": "'] + [b"x" * 65536] * 200)
    try:
        connection.request(
            "POST", "/api/entity/JSON/prize/1", chunks, {"Authorization": f"Bearer {api.token}"}, encode_chunked=True
        )
    except OSError:
        return  # it was cut off while sending, which is just as well
    try:
        assert connection.getresponse().status == 413
    finally:
        connection.close()


def test_a_chunked_body_is_read_to_its_end(service: RunningService, api: Api) -> None:
    api.a_model()
    connection = http.client.HTTPConnection(service.root.removeprefix("http://"), timeout=10)
    chunks = iter([b'{"ye', b'ar": 19', b"05}"])
    connection.request(
        "POST", "/api/entity/JSON/prize/1", chunks, {"Authorization": f"Bearer {api.token}"}, encode_chunked=True
    )
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == 200
    [envelope] = done(api.get("/entity/prize/1"))
    assert envelope["data"] == {"year": 1905}


def test_a_repeated_if_match_is_a_bad_request_without_a_parameter(service: RunningService, api: Api) -> None:
    api.a_model()
    saved = api.create()
    connection = http.client.HTTPConnection(service.root.removeprefix("http://"), timeout=10)
    connection.putrequest("PUT", f"/api/entity/JSON/{saved.id}")
    for name, value in (
        ("Authorization", f"Bearer {api.token}"),
        ("If-Match", saved.transaction),
        ("If-Match", saved.transaction),
        ("Content-Length", "2"),
    ):
        connection.putheader(name, value)
    connection.endheaders(b"{}")
    response = connection.getresponse()
    body = response.read()
    connection.close()
    assert response.status == 400
    assert b"parameter" not in body


def test_problems_do_not_vary_with_the_query(api: Api) -> None:
    plain, queried = (api.get(f"/entity/{UNKNOWN}{query}") for query in ("", "?x=1"))
    assert plain.content == queried.content


def test_a_plain_refusal_of_the_framework_never_shows_through(api: Api) -> None:
    """Whatever a request lacks, the answer is a problem document or one of the two plain texts."""
    for method, path in (("POST", "/entity/JSON/prize/1"), ("PUT", f"/entity/JSON/{UNKNOWN}"), ("GET", "/entity/a/b")):
        response = api.request(method, path, b"\xff\xfe", Content_Type="application/json; charset=utf-16")
        assert response.headers["content-type"] == "application/problem+json"


# CORS: only what every caller meets


def test_a_loopback_origin_is_echoed_and_others_are_served_without(api: Api) -> None:
    allowed = api.get("/model/", Origin="http://localhost:3000")
    assert allowed.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert "Origin" in allowed.headers["vary"]
    other = api.get("/model/", Origin="https://example.org")
    assert other.status_code == 200
    assert "access-control-allow-origin" not in other.headers


def test_a_preflight_is_answered_before_authentication(service: RunningService) -> None:
    response = service.anonymous().request(
        "OPTIONS", "/model/", Origin="http://127.0.0.1:5173", Access_Control_Request_Method="PUT"
    )
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["access-control-allow-methods"] == "GET, POST, PUT, PATCH, DELETE, OPTIONS"
    assert response.headers["access-control-max-age"] == "86400"
    assert response.headers["access-control-allow-origin"] == "http://127.0.0.1:5173"


def test_refusals_carry_the_cors_headers_too(service: RunningService, api: Api) -> None:
    for response in (
        service.anonymous().get("/model/", Origin="http://localhost"),
        api.get("/no/such/path", Origin="http://localhost"),
        api.get(f"/entity/{UNKNOWN}", Origin="http://localhost"),
    ):
        assert response.headers["access-control-allow-origin"] == "http://localhost"


@pytest.mark.parametrize("path", ["/", "/api", "/api/", "/docs/"])
def test_what_people_type_leads_to_the_documentation(service: RunningService, path: str) -> None:
    response = Api(service.root).get(path)
    assert (response.status_code, response.headers["location"]) == (302, "/docs")


def test_the_type_of_a_problem_is_a_page_about_it(service: RunningService, api: Api) -> None:
    problem = refused(api.get(f"/entity/{UNKNOWN}"), 404, "ENTITY_NOT_FOUND")
    assert problem["type"] == "/api/help/errors.ENTITY_NOT_FOUND"
    assert Api(service.root).get(problem["type"]).json()["topic"] == "errors.ENTITY_NOT_FOUND"


def test_an_unknown_query_parameter_is_told_in_a_header(api: Api) -> None:
    response = api.get("/model/?colour=red&x=1")
    assert response.status_code == 200
    assert response.headers.get_list("warning") == [
        "299 - \"unknown query parameter 'colour'; known: includeBuiltin; it has no effect\"",
        "299 - \"unknown query parameter 'x'; known: includeBuiltin; it has no effect\"",
    ]
    assert "warning" not in api.get("/model/").headers


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("PUT", "/model/prize/1/lock?dryRun=true", "dryRun"),
        ("POST", "/model/import/JSON/SAMPLE_DATA/prize/1?dryRun=true", "dryRun"),
        ("POST", "/model/prize/1/workflow/import?dry_run=true&dryRun=maybe", "dryRun"),
        ("GET", "/model/prize/1/index?page=1", "page"),
        ("POST", "/model/prize/1/history/prune?olderthan=90d", "olderthan"),
    ],
)
def test_an_option_of_ours_that_would_be_ignored_is_refused(api: Api, method: str, path: str, name: str) -> None:
    problem = refused(api.request(method, path, "{}"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == name
    refused(api.get("/model/export/SIMPLE_VIEW/prize/1"), 404, "MODEL_NOT_FOUND")

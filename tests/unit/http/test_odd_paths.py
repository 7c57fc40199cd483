"""Which route a path has, however oddly it is spelt, and what is told of it to whom
(docs/reference/entities.md#paths-and-authentication).
"""

import msgspec
import pytest

from statewright.api.http import dialects
from statewright.api.http.application import HttpApplication
from statewright.api.http.asgi import Message
from statewright.api.http.dialects import (
    OPS_ROUTES,
    PROCESS_APIS,
    ROUTES,
    build_entity_dialect,
    build_ops_dialect,
    build_process_dialect,
)
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.api.http.router import FoundRoute, PublicRoute, Router
from statewright.auth import AuthenticationFailed
from statewright.entity import Principal
from statewright.failures import InvalidParameter
from statewright.ids import TenantId

CONTEXT = "/api"


async def answer(_request: Request) -> Response:
    return Response(b"public")


PUBLIC = [
    PublicRoute(method="ANY", path=f"{CONTEXT}/help", endpoint=answer, is_tree=True),
    PublicRoute(method="GET", path=f"{CONTEXT}/.well-known", endpoint=answer, is_tree=True),
    PublicRoute(method="GET", path=f"{CONTEXT}/.well-known/jwks.json", endpoint=answer),
    PublicRoute(method="GET", path="/docs", endpoint=answer),
]
ENTITY = "/entity/{entityName}/{modelVersion}"


@pytest.fixture(scope="module")
def router() -> Router:
    """The routes of a whole service."""
    processes = [("", route) for api in PROCESS_APIS for route in api.routes]
    entities = [(CONTEXT, route) for route in ROUTES]
    return Router([*entities, *processes, *(("", route) for route in OPS_ROUTES), *(("", route) for route in PUBLIC)])


@pytest.mark.parametrize(
    ("request_line", "route", "params"),
    [
        ("GET /api/entity/a%2Fb/1", ENTITY, ["a/b", "1"]),
        ("GET /api/entity/../1", ENTITY, ["..", "1"]),
        ("GET /api/entity/%2E%2E/1", ENTITY, ["..", "1"]),
        ("GET /api/entity/./1", ENTITY, [".", "1"]),
        ("GET /api/entity/{a}/1", ENTITY, ["{a}", "1"]),
        ("GET /api/entity/{p3:str}/1", ENTITY, ["{p3:str}", "1"]),
        ("GET /api/entity/{}/1", ENTITY, ["{}", "1"]),
        ("GET /api/entity/[x]/1", ENTITY, ["[x]", "1"]),
        ("GET /api/entity/a;b=c/1", ENTITY, ["a;b=c", "1"]),
        ("GET /api/entity/a+b:c/1", ENTITY, ["a+b:c", "1"]),
        ("GET /api/entity/%/1", ENTITY, ["%", "1"]),
        ("GET /api/entity/a%00/1", ENTITY, ["a\0", "1"]),
        (f"GET /api/entity/{'x' * 5000}/1", ENTITY, ["x" * 5000, "1"]),
        ("HEAD /api/entity/a/1", ENTITY, ["a", "1"]),
        # static segments win over parameters, from the left, and a name may be spelt as one of them
        ("GET /api/entity/stats/1", ENTITY, ["stats", "1"]),
        ("GET /api/entity/stats", "/entity/stats", []),
        ("PUT /api/entity/stats", "/entity/{format}", ["stats"]),
        ("GET /api/entity/stats/states", "/entity/stats/states", []),
        ("GET /api/entity/stats/states/1", "/entity/stats/{entityName}/{modelVersion}", ["states", "1"]),
        ("DELETE /api/model/docs/index", "/model/{entityName}/{modelVersion}", ["docs", "index"]),
        (
            "POST /api/model/members/history/workflow/import",
            "/model/{entityName}/{modelVersion}/workflow/import",
            ["members", "history"],
        ),
        ("GET /api/model/", "/model/", []),
        ("HEAD /api/model/", "/model/", []),
        ("POST /v1/jobs/poll", "/v1/jobs/poll", []),
        # a tree has everything below its path
        ("GET /api/help", "/api/help", []),
        ("GET /api/help/", "/api/help", []),
        ("GET /api/help//x", "/api/help", []),
        ("GET /api/help/a/b/c/", "/api/help", []),
        ("OPTIONS /api/help/a", "/api/help", []),
        ("GET /api/.well-known/jwks.json", "/api/.well-known/jwks.json", []),
        ("GET /api/.well-known/jwks.json/x", "/api/.well-known", []),
    ],
)
def test_a_path_has_one_route(router: Router, request_line: str, route: str, params: list[str]) -> None:
    method, _, path = request_line.partition(" ")
    found = router.find(method, path)
    assert isinstance(found, FoundRoute)
    assert (found.route.path, list(found.read_params().values())) == (route, params)


@pytest.mark.parametrize(
    "path",
    [
        *("/api/entity/a//1", "/api//entity/a/1", "//api/entity/a/1", "/api/entity//a/1", "/api/entity/a/1/"),
        *("/api/model", "/api//model/", "/api/model//", "//api/model/", "/API/model/", "/api/Model/", "/model/"),
        *("/v1/jobs/poll/", "/v1//jobs/poll", "//v1/jobs/poll", "/v1/jobs/poll//"),
        *("/api//help/x", "//api/help/x", "/api/helpx", "/api/.well-known/jwks.json/", "/docs/"),
        *("/", "//", "*", "", "/api", "/api/", "/nothing", "/%61pi/model/", "/api%2Fmodel/"),
    ],
)
def test_a_path_that_is_spelt_otherwise_is_none(router: Router, path: str) -> None:
    found = [router.find(method, path) for method in ("GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW")]
    assert found == [()] * 6


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/model/", "GET HEAD"),
        ("/api/entity/a/b/1", "PATCH POST PUT"),
        ("/api/model/stats/index/lock", "PUT"),
        ("/api/model/a/unique-keys/unique-keys", "PUT"),
        ("/v1/jobs/poll", "POST"),
        ("/api/help", "DELETE GET HEAD PATCH POST PUT"),
        ("/api/help/x/y", "DELETE GET HEAD PATCH POST PUT"),
        ("/api/.well-known/jwks.json", "GET HEAD"),
        ("/api/.well-known/x", "GET HEAD"),
        ("/docs", "GET HEAD"),
    ],
)
def test_an_unknown_method_is_told_those_that_a_path_has(router: Router, path: str, methods: str) -> None:
    assert [router.find(method, path) for method in ("BREW", "get", "PRI")] == [tuple(methods.split())] * 3


def test_a_name_that_is_not_utf_8_has_a_route_and_does_not_bind(router: Router) -> None:
    found = router.find("GET", "/api/entity/%FF/1")
    assert isinstance(found, FoundRoute)
    with pytest.raises(InvalidParameter):
        found.read_params()


class OneToken:
    """Knows one caller."""

    def authenticate(self, authorization: str | None) -> Principal:
        if authorization != "Bearer known":
            raise AuthenticationFailed("token-invalid")
        return Principal(id="ann", name="Ann", kind="user", tenant=TenantId("acme"))

    async def authenticate_later(self, authorization: str | None) -> Principal:
        return self.authenticate(authorization)


def ignore(_method: str, _path: str, _status: int, _seconds: float) -> None:
    """Nothing is counted."""


def build_application(context_path: str) -> HttpApplication:
    """A service without a runtime: it can refuse, and answer what needs no credentials."""
    entities = build_entity_dialect(context_path, OneToken(), public=PUBLIC, origins=None, observe=ignore)
    ops = build_ops_dialect(context_path, OneToken(), origins=None, observe=ignore)
    processes = [build_process_dialect(api, OneToken(), origins=None, observe=ignore) for api in dialects.PROCESS_APIS]
    return HttpApplication([*processes, ops, entities])


async def ask(request_line: str, *, token: bool, context_path: str = CONTEXT) -> tuple[int, str, str]:
    """Status, error code and allowed methods of the answer."""
    method, _, path = request_line.partition(" ")
    headers = [(b"host", b"localhost"), *([(b"authorization", b"Bearer known")] if token else [])]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await build_application(context_path)(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], _read_code(body), dict(sent[0]["headers"]).get(b"allow", b"").decode()


def _read_code(body: bytes) -> str:
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode()
    code = document.get("properties", {}).get("errorCode") or document.get("error") or document.get("code")
    return str(code)


@pytest.mark.parametrize(
    "request_line",
    [
        *("GET /api/no/such/path", "GET /api/entity/a/1", "BREW /api/entity/a/1", "OPTIONS /api/model/"),
        *("GET /api//model/", "GET /api/../docs", "GET /api/%FF", "POST /api/entity/a//1", "GET /api/entity/%FF/1"),
        *("GET /ops/v1/no", "GET /ops/v1//incidents", "BREW /ops/v1/incidents"),
    ],
)
async def test_a_stranger_learns_of_no_path(request_line: str) -> None:
    assert await ask(request_line, token=False) == (401, "UNAUTHORIZED", "")


@pytest.mark.parametrize(
    ("request_line", "told"),
    [
        ("GET /api/no/such/path", (404, "NOT_FOUND", "")),
        ("GET /api//model/", (404, "NOT_FOUND", "")),
        ("GET /api/../docs", (404, "NOT_FOUND", "")),
        ("BREW /api/entity/a/1", (405, "BAD_REQUEST", "DELETE, GET, HEAD, OPTIONS, PATCH, PUT")),
        ("POST /api/model/", (405, "BAD_REQUEST", "GET, HEAD, OPTIONS")),
        ("OPTIONS /api/model/", (204, "", "GET, HEAD, OPTIONS")),
        ("OPTIONS /api/no", (404, "NOT_FOUND", "")),
        ("BREW /ops/v1/incidents", (405, "BAD_REQUEST", "GET, HEAD")),
        ("OPTIONS /ops/v1/incidents", (405, "BAD_REQUEST", "GET, HEAD")),
    ],
)
async def test_who_is_known_learns_which_methods_a_path_has(request_line: str, told: tuple[int, str, str]) -> None:
    assert await ask(request_line, token=True) == told


@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize(
    ("request_line", "told"),
    [
        ("GET /nothing", (404, "NOT_FOUND", "")),
        ("GET //api/model/", (404, "NOT_FOUND", "")),
        ("GET //docs", (404, "NOT_FOUND", "")),
        ("POST /docs", (405, "BAD_REQUEST", "GET, HEAD, OPTIONS")),
        ("GET /docs", (200, "public", "")),
        ("HEAD /docs", (200, "", "")),
        ("GET /api/help//x", (200, "public", "")),
        ("BREW /v1/jobs/poll", (405, "method-not-allowed", "POST")),
        ("POST /v1/jobs/poll/", (404, "not-found", "")),
        ("OPTIONS /v1/jobs/poll", (405, "method-not-allowed", "POST")),
    ],
)
async def test_what_is_no_secret_is_told_to_all(request_line: str, told: tuple[int, str, str], token: bool) -> None:
    assert await ask(request_line, token=token) == told


@pytest.mark.parametrize("context_path", ["", "/a/b", "/v2.0"])
async def test_the_api_lies_below_any_context_path(context_path: str) -> None:
    known = [await ask(f"POST {context_path}/model/", token=True, context_path=context_path)]
    known.append(await ask(f"GET {context_path}/no", token=True, context_path=context_path))
    assert known == [(405, "BAD_REQUEST", "GET, HEAD, OPTIONS"), (404, "NOT_FOUND", "")]
    assert (await ask(f"GET {context_path}/no", token=False, context_path=context_path))[0] == 401

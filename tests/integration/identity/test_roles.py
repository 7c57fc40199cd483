"""Which role each endpoint of the entity API wants, and what mock mode does not have: one table for all of them
(docs/reference/authentication.md#roles). That members need ``ROLE_M2M`` is tests/integration/grpc/test_server.py's.
"""

import re
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from statewright.api.http.dialects import ROUTES
from statewright.api.http.router import Route
from tests.database import Template
from tests.service import Api, RunningService, hosted

CLIENTS, PAIRS, TRUSTED, PROVIDERS = "/clients", "/oauth/keys/keypair", "/oauth/keys/trusted", "/oauth/oidc/providers"

ADMIN_ONLY = {
    "GET /admin/log-level",
    "POST /admin/log-level",
    "GET /admin/trace-sampler",
    "POST /admin/trace-sampler",
    "POST /model/{entityName}/{modelVersion}/history/prune",
    "POST /model/{entityName}/{modelVersion}/index",
    "DELETE /model/{entityName}/{modelVersion}/index/{indexId}",
    f"GET {CLIENTS}",
    f"POST {CLIENTS}",
    f"DELETE {CLIENTS}/{{clientId}}",
    f"PUT {CLIENTS}/{{clientId}}/secret",
    f"POST {PAIRS}",
    f"GET {PAIRS}/current",
    f"DELETE {PAIRS}/{{keyId}}",
    f"POST {PAIRS}/{{keyId}}/invalidate",
    f"POST {PAIRS}/{{keyId}}/reactivate",
    f"GET {TRUSTED}",
    f"POST {TRUSTED}",
    f"DELETE {TRUSTED}/{{keyId}}",
    f"POST {TRUSTED}/{{keyId}}/invalidate",
    f"POST {TRUSTED}/{{keyId}}/reactivate",
    f"POST {PROVIDERS}",
    f"POST {PROVIDERS}/reload",
    f"PATCH {PROVIDERS}/{{id}}",
    f"DELETE {PROVIDERS}/{{id}}",
    f"POST {PROVIDERS}/{{id}}/invalidate",
    f"POST {PROVIDERS}/{{id}}/reactivate",
}
"""Those that want ``ROLE_ADMIN``. All others are for any authenticated principal."""

JWT_ONLY = {name for name in ADMIN_ONLY if name.split()[1].startswith((CLIENTS, "/oauth/"))} | {f"GET {PROVIDERS}"}
"""501 in mock mode."""

UNBUILT = {"GET /account/subscriptions"}
"""501 in both."""


def name_route(route: Route) -> str:
    return f"{route.method} {route.path}"


def call(api: Api, route: Route) -> httpx.Response:
    """A request to the route, with ids that are nowhere and without a body."""
    path = re.sub(r"\{modelVersion\}", "1", route.path)
    path = re.sub(r"\{(clientId|keyId)\}", "UNKNOWN", path)
    path = re.sub(r"\{entityName\}", "nothing", path)
    path = re.sub(r"\{[^}]*\}", str(uuid4()), path)
    wanted = "?audience=human" if path.endswith("/current") else ""
    return api.request(route.method, path + wanted)


@pytest.fixture(scope="module")
def mock(database_template: Template) -> Iterator[RunningService]:
    settings = {"iam_mode": "mock", "iam_trusted_key_registration_enabled": True}
    with hosted(database_template.clone(), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def mock_person(database_template: Template) -> Iterator[RunningService]:
    """In mock mode, and without the role of administrators."""
    settings = {"iam_mode": "mock", "iam_mock_roles": ("ROLE_M2M",), "iam_trusted_key_registration_enabled": True}
    with hosted(database_template.clone(), **settings) as running:
        yield running


@pytest.mark.parametrize("route", ROUTES, ids=name_route)
def test_who_may_call(
    launched: RunningService, mock: RunningService, mock_person: RunningService, route: Route
) -> None:
    name, tenant = name_route(route), str(uuid4())
    is_restricted, is_jwt_only = name in ADMIN_ONLY, name in JWT_ONLY
    told = {
        "nobody": call(launched.anonymous(), route).status_code,
        "nonsense": call(Api(launched.url, "nonsense"), route).status_code,
        "person": call(launched.api(tenant, user_roles=[]), route).status_code,
        "member": call(launched.api(tenant, user_roles=["ROLE_M2M"]), route).status_code,
        "near miss": call(launched.api(tenant, user_roles=["role_admin", "ROLE_ADMIN "]), route).status_code,
        "administrator": call(launched.api(tenant, user_roles=["ROLE_ADMIN"]), route).status_code,
        "mock administrator": call(mock.anonymous(), route).status_code,
        "mock person": call(mock_person.anonymous(), route).status_code,
    }
    assert (told["nobody"], told["nonsense"]) == (401, 401)
    for who in ("person", "member", "near miss"):
        assert (told[who] == 403) == is_restricted, told
        assert told[who] != 401
    assert told["administrator"] not in {401, 403}
    assert (told["administrator"] == 501) == (name in UNBUILT)
    assert (told["mock administrator"] == 501) == (is_jwt_only or name in UNBUILT), told
    role_first = is_restricted and not route.path.startswith(PROVIDERS)
    assert (told["mock person"] == 403) == role_first, told
    assert (told["mock person"] == 501) == ((is_jwt_only and not role_first) or name in UNBUILT), told


def test_every_row_of_the_table_is_an_endpoint() -> None:
    assert {name_route(route) for route in ROUTES} >= (ADMIN_ONLY | JWT_ONLY | UNBUILT)

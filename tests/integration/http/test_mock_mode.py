"""Mock authentication, the default of a fresh start (docs/reference/authentication.md#mock-mode,
docs/reference/authentication.md#routes-without-credentials, docs/reference/authentication.md#roles).
"""

from collections.abc import Iterator

import pytest

from tests.builders import SAMPLE
from tests.database import Template
from tests.service import Api, RunningService, a_token, done, hosted, refused


@pytest.fixture(scope="module")
def mock(database_template: Template) -> Iterator[RunningService]:
    """A service in mock mode."""
    with hosted(database_template.clone(), iam_mode="mock", jwt_signing_key=None) as running:
        yield running


@pytest.mark.parametrize("authorization", ["", "Bearer nonsense", "Basic e30=", f"Bearer {a_token('acme', 'alice')}"])
def test_everybody_is_the_same_principal_whatever_they_claim(mock: RunningService, authorization: str) -> None:
    info = done(mock.anonymous().get("/account", Authorization=authorization))["userAccountInfo"]
    assert (info["userId"], info["userName"], info["legalEntity"]["id"]) == (
        "mock-user-001",
        "Mock User",
        "mock-tenant",
    )
    assert info["roles"] == [{"id": "ROLE_ADMIN"}, {"id": "ROLE_M2M"}]


def test_the_name_of_the_mock_tenant_is_told(mock: RunningService) -> None:
    info = done(mock.anonymous().get("/account"))["userAccountInfo"]
    assert info["legalEntity"] == {"id": "mock-tenant", "name": "Mock Tenant"}


def test_writes_need_no_header(mock: RunningService) -> None:
    api = mock.anonymous()
    api.a_model()
    saved = api.create()
    assert api.read(saved.id)["data"] == SAMPLE
    [change] = done(api.get(f"/entity/{saved.id}/changes"))
    assert (change["user"], change["executedBy"]) == ("mock-user-001", {"id": "mock-user-001", "kind": "user"})


def test_there_are_no_published_keys(mock: RunningService) -> None:
    response = mock.anonymous().get("/.well-known/jwks.json")
    refused(response, 404, "NOT_FOUND")


def test_clients_with_a_token_step_get_one_that_nobody_checks(mock: RunningService) -> None:
    granted = done(mock.anonymous().post("/oauth/token", "grant_type=client_credentials"))
    done(Api(mock.url, granted["access_token"]).get("/model/"))


def test_an_unsigned_token_of_mock_mode_opens_nothing_in_jwt_mode(
    mock: RunningService, service: RunningService
) -> None:
    token = done(mock.anonymous().post("/oauth/token"))["access_token"]
    refused(Api(service.url, token).get("/model/"), 401, "UNAUTHORIZED")


def test_unknown_paths_are_unknown_at_once(mock: RunningService) -> None:
    refused(mock.anonymous().get("/no/such/path"), 404, "NOT_FOUND")


def test_roles_and_kind_can_be_configured(database_template: Template) -> None:
    settings = {"iam_mode": "mock", "jwt_signing_key": None, "iam_mock_roles": ("ROLE_X",), "iam_mock_kind": "service"}
    with hosted(database_template.clone(), **settings) as service:
        api = service.anonymous()
        assert done(api.get("/account"))["userAccountInfo"]["roles"] == [{"id": "ROLE_X"}]
        api.a_model()
        [change] = done(api.get(f"/entity/{api.create().id}/changes"))
        assert change["attributedKind"] == "service"


@pytest.mark.parametrize("context_path", ["", "/v2/rest"])
def test_the_context_path_can_be_configured_and_problems_show_it(
    database_template: Template, context_path: str
) -> None:
    settings = {"iam_mode": "mock", "jwt_signing_key": None, "context_path": context_path}
    with hosted(database_template.clone(), **settings) as service:
        api = service.anonymous()
        api.a_model()
        saved = api.create()
        assert api.read(saved.id)["data"] == SAMPLE
        assert done(api.get("/health")) == {"status": "UP"}
        problem = refused(api.get("/entity/x"), 400, "BAD_REQUEST")
        assert (problem["instance"], problem["type"]) == (
            f"{context_path}/entity/x",
            f"{context_path}/help/errors.BAD_REQUEST",
        )
        assert done(Api(service.root).get("/openapi.json"))["servers"] == [{"url": f"{service.root}{context_path}"}]


@pytest.mark.parametrize(
    ("method", "path", "subject"),
    [
        ("GET", "/clients", "M2M client"),
        ("POST", "/clients", "M2M client"),
        ("DELETE", "/clients/x", "M2M client"),
        ("PUT", "/clients/x/secret", "M2M client"),
        ("POST", "/oauth/keys/keypair", "key"),
        ("GET", "/oauth/keys/keypair/current?audience=client", "key"),
        ("DELETE", "/oauth/keys/keypair/x", "key"),
        ("POST", "/oauth/keys/keypair/x/invalidate", "key"),
        ("POST", "/oauth/keys/keypair/x/reactivate", "key"),
    ],
)
def test_there_are_no_clients_and_no_keys_to_manage(mock: RunningService, method: str, path: str, subject: str) -> None:
    problem = refused(mock.anonymous().request(method, path), 501, "NOT_IMPLEMENTED")
    assert problem["detail"] == f"NOT_IMPLEMENTED: {subject} management requires JWT IAM mode"

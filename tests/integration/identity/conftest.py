"""A service with a bootstrap client and every feature of the administration of clients and keys switched on."""

import base64
from collections.abc import Iterator

import httpx
import pytest

from statewright.settings import Secret
from tests.builders import Json
from tests.database import Template
from tests.service import CLIENT_ID, CLIENT_SECRET, Api, RunningService, hosted

ADMIN = ["ROLE_ADMIN"]
FEATURES: dict[str, Json] = {
    "bootstrap_client_id": CLIENT_ID,
    "bootstrap_client_secret": Secret(CLIENT_SECRET),
    "bootstrap_tenant_id": "boot-tenant",
    "iam_m2m_admin_role_enabled": True,
    "iam_trusted_key_registration_enabled": True,
    "oidc_require_https": False,
    "webhook_allow_http": True,
    "webhook_allow_private_networks": True,
    "oidc_allow_private_networks": True,
}


@pytest.fixture(scope="module")
def launched(database_template: Template) -> Iterator[RunningService]:
    """The service that the tests of a module share; those that change its keys have their own."""
    with hosted(database_template.clone(), **FEATURES) as running:
        yield running


@pytest.fixture
def admin(launched: RunningService, tenant: str) -> Api:
    """The API as an administrator of this test's tenant sees it."""
    return administrator(launched, tenant)


def administrator(service: RunningService, tenant: str) -> Api:
    return service.api(tenant, "root", user_roles=ADMIN)


def ask(service: RunningService, client_id: str, secret: str, **parameters: str) -> httpx.Response:
    """A token for a client; its own unless the parameters say otherwise."""
    form = str(httpx.QueryParams({"grant_type": "client_credentials"} | parameters))
    basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {basic}", "content_type": "application/x-www-form-urlencoded"}
    return service.anonymous().post("/oauth/token", form, **headers)

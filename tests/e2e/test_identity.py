"""Clients, keys and providers of three nodes that die (docs/reference/authentication.md#keys).

What one node changes counts on the others within a second; how long it took is printed (``-s``): 10 to 90 ms on a
loaded machine.
"""

import asyncio
import base64
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import httpx
import jwt
import pytest

from tests.database import connected
from tests.e2e.program import Program, started
from tests.identity_provider import IdentityProvider, identity_provider
from tests.integration.identity.test_trusted_keys import EXCHANGE, JWT, a_registration, signed
from tests.service import CLIENT_ID, CLIENT_SECRET, Api, done, eventually, signing_key_pem

PAIRS = "/oauth/keys/keypair"
PROVIDERS = "/oauth/oidc/providers"
TENANT = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
SETTINGS = {
    "IAM_MODE": "jwt",
    "JWT_SIGNING_KEY": base64.b64encode(signing_key_pem().encode()).decode(),
    "ENCRYPTION_KEY": "5e" * 32,
    "IAM_TRUSTED_KEY_REGISTRATION_ENABLED": "true",
    "BOOTSTRAP_CLIENT_ID": CLIENT_ID,
    "BOOTSTRAP_CLIENT_SECRET": CLIENT_SECRET,
    "BOOTSTRAP_TENANT_ID": TENANT,
    "OIDC_REQUIRE_HTTPS": "false",
    "OIDC_ALLOW_PRIVATE_NETWORKS": "true",
    "POSTGRES_MAX_CONNS": "5",
    "LOG_LEVEL": "debug",
    "ACCESS_LOG": "true",
}


def ask(node: Program, client: str, secret: str, **parameters: str) -> httpx.Response:
    form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret} | parameters
    content_type = "application/x-www-form-urlencoded"
    return node.api().post("/oauth/token", str(httpx.QueryParams(form)), content_type=content_type)


def a_grant(node: Program, client: str, secret: str, **parameters: str) -> str:
    return str(done(ask(node, client, secret, **parameters))["access_token"])


def administrator(node: Program) -> Api:
    return node.api(a_grant(node, CLIENT_ID, CLIENT_SECRET))


def kid_of(token: str) -> str:
    return str(jwt.get_unverified_header(token)["kid"])


def statuses(nodes: list[Program], token: str) -> set[int]:
    return {node.api(token).get("/account").status_code for node in nodes}


def wait_until(nodes: list[Program], token: str, status: int, what: str) -> None:
    """All nodes answer a token with this status, within a second."""
    began = monotonic()
    eventually(lambda: statuses(nodes, token) == {status}, within_s=1)
    print(f"{what}: {(monotonic() - began) * 1000:.0f} ms")  # noqa: T201


TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"


async def dump(database: str) -> str:
    """Everything that is stored, as text."""
    async with connected(database) as connection:
        tables = [row["tablename"] for row in await connection.fetch(TABLES)]
        rows = [await connection.fetch(f'SELECT t::text AS row FROM "{table}" AS t') for table in tables]
    return "\n".join(row["row"] for found in rows for row in found)


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


def test_what_one_of_three_nodes_does_counts_on_all_and_survives_them(
    tmp_path: Path, database: str, idp: IdentityProvider
) -> None:
    def start(stack: ExitStack, count: int) -> list[Program]:
        nodes = [stack.enter_context(started(tmp_path, POSTGRES_URL=database, **SETTINGS)) for _ in range(count)]
        return [node.ready() for node in nodes]

    secrets = [CLIENT_SECRET, SETTINGS["ENCRYPTION_KEY"], SETTINGS["JWT_SIGNING_KEY"]]
    with ExitStack() as stack:
        nodes = [here, there, elsewhere] = start(stack, 3)
        issued, again = (done(administrator(here).post("/clients", Idempotency_Key="k")) for _ in range(2))
        assert issued == again
        client, first = issued["client_id"], issued["client_secret"]
        assert [ask(node, client, first).status_code for node in nodes] == [200] * 3
        renewed = done(administrator(there).put(f"/clients/{client}/secret"))["client_secret"]
        assert [ask(node, client, first).status_code for node in nodes] == [401] * 3

        old = a_grant(elsewhere, client, renewed)
        wanted = {"algorithm": "RS256", "audience": "client", "invalidateCurrent": True}
        kid = done(administrator(elsewhere).post(PAIRS, wanted))["keyId"]
        wait_until(nodes, old, 401, "a signing key ends")
        new = a_grant(elsewhere, client, renewed)
        assert statuses(nodes, new) == {200}, "a key that was not heard of yet is looked for"
        assert {kid_of(a_grant(node, client, renewed)) for node in nodes} == {kid}

        done(administrator(here).post("/oauth/keys/trusted", a_registration("ci")))
        subject = {"subject_token": signed("ci", sub="ann", caas_org_id=TENANT), "subject_token_type": JWT}
        for node in nodes:
            a_grant(node, client, renewed, grant_type=EXCHANGE, **subject)
        registered = done(administrator(there).post(PROVIDERS, {"wellKnownConfigUri": idp.uri}))["id"]
        person = idp.mint(roles=["ROLE_ADMIN"])
        assert statuses(nodes, person) == {200}, "a provider that was not heard of yet is looked for"
        administrator(here).post(f"{PROVIDERS}/{registered}/invalidate")
        wait_until(nodes, person, 401, "a provider is invalidated")
        done(administrator(elsewhere).post(f"{PROVIDERS}/{registered}/reactivate"))
        wait_until(nodes, person, 200, "a provider is reactivated")
        for node in nodes:
            node.kill()
    with ExitStack() as stack:
        nodes = start(stack, 1)
        assert ask(nodes[0], client, first).status_code == 401
        assert (statuses(nodes, old), statuses(nodes, new), statuses(nodes, person)) == ({401}, {200}, {200})
        grants = [a_grant(node, client, renewed, grant_type=EXCHANGE, **subject) for node in nodes]
        assert {kid_of(token) for token in grants} == {kid}
        administrator(nodes[0]).delete(f"/clients/{client}")
        assert ask(nodes[0], client, renewed).status_code == 401
        metrics = "".join(node.admin.get("/metrics").text for node in nodes)
        assert nodes[0].terminate() == 0
    told = metrics + "".join(file.read_text() for file in tmp_path.glob("run-*"))
    stored = asyncio.run(dump(database))
    assert "key_pair_issued" in told
    assert client in stored
    for secret in (*secrets, first, renewed, old, new, person, *grants, subject["subject_token"], idp.root):
        assert secret not in told
        assert secret not in stored or secret == idp.root
    assert not re.search(r"eyJ[\w-]+\.eyJ", told + stored), "a token"
    assert "PRIVATE KEY" not in told + stored

"""Machine clients and their secrets (docs/reference/authentication.md#token-endpoint,
docs/reference/authentication.md#clients).
"""

import asyncio
import threading

import pytest

from statewright.auth import Client, ClientSecrets, load_bootstrap_client
from statewright.auth.clients import hash_secret, matches_hash
from statewright.settings import Settings
from tests.unit.auth.builders import FixedClients, a_client, hashed, pem, rsa_key


async def test_a_client_is_known_by_its_secret():
    assert await ClientSecrets(FixedClients(a_client())).authenticate("robot", "hunter2") == a_client()


@pytest.mark.parametrize(("client_id", "secret"), [("robot", "wrong"), ("robot", ""), ("Robot", "hunter2"), ("", "")])
async def test_a_wrong_secret_and_an_unknown_client_are_nobody(client_id: str, secret: str):
    assert await ClientSecrets(FixedClients(a_client())).authenticate(client_id, secret) is None


async def test_a_remembered_secret_is_still_that_of_one_client_only():
    secrets = ClientSecrets(FixedClients(a_client(), a_client("other", secret="different")))
    assert await secrets.authenticate("robot", "hunter2") is not None
    assert await secrets.authenticate("other", "hunter2") is None


class ChangingStore:
    """A store whose one client can be replaced or deleted."""

    def __init__(self, client: Client | None) -> None:
        self.client = client

    async def find(self, client_id: str) -> Client | None:
        return self.client if self.client and self.client.id == client_id else None


async def test_an_old_secret_stops_working_at_once_although_it_is_remembered():
    store = ChangingStore(a_client())
    secrets = ClientSecrets(store)
    assert await secrets.authenticate("robot", "hunter2") is not None
    store.client = a_client(secret="renewed")
    assert await secrets.authenticate("robot", "hunter2") is None


async def test_a_deleted_client_is_nobody_at_once_although_it_is_remembered():
    store = ChangingStore(a_client())
    secrets = ClientSecrets(store)
    assert await secrets.authenticate("robot", "hunter2") is not None
    store.client = None
    assert await secrets.authenticate("robot", "hunter2") is None


async def test_the_event_loop_runs_on_while_a_secret_is_checked(monkeypatch: pytest.MonkeyPatch):
    turned = threading.Event()

    def waits_for_the_loop(secret: str, stored: object) -> bool:
        return turned.wait(timeout=5)

    monkeypatch.setattr("statewright.auth.clients.matches_hash", waits_for_the_loop)
    check = asyncio.create_task(ClientSecrets(FixedClients(a_client())).authenticate("robot", "x"))
    await asyncio.sleep(0)
    turned.set()
    assert await check == a_client()


@pytest.mark.parametrize("secret", ["", "x" * 72, "ü" * 36, "a\0b"])
def test_any_secret_of_up_to_72_bytes_can_be_used(secret: str):
    assert matches_hash(secret, hash_secret(secret))


def test_a_secret_with_the_right_beginning_is_wrong():
    assert not matches_hash("x" * 73, hashed("x" * 72))
    assert not matches_hash("a", hashed("a\0b"))


def test_neither_hash_nor_secret_shows_in_a_representation():
    assert "$2b$" not in repr(a_client())


def jwt_settings(**variables: str) -> Settings:
    return Settings.from_environment({"CYODA_IAM_MODE": "jwt", "CYODA_JWT_SIGNING_KEY": pem(rsa_key())} | variables)


async def test_the_bootstrap_client_is_as_configured():
    client = await load_bootstrap_client(
        jwt_settings(
            CYODA_BOOTSTRAP_CLIENT_ID="ops.client-1",
            CYODA_BOOTSTRAP_CLIENT_SECRET="s3cret",
            CYODA_BOOTSTRAP_ROLES="A, B",
        )
    )
    assert client is not None
    assert (client.id, client.tenant, client.user_id, client.roles) == (
        "ops.client-1", "default-tenant", "admin", ("A", "B"),
    )  # fmt: skip
    assert matches_hash("s3cret", client.secret_hash)


async def test_there_is_no_bootstrap_client_unless_it_is_configured():
    assert await load_bootstrap_client(jwt_settings()) is None


async def test_there_is_no_bootstrap_client_in_mock_mode():
    variables = {"CYODA_BOOTSTRAP_CLIENT_ID": "x", "CYODA_BOOTSTRAP_CLIENT_SECRET": "y"}
    assert await load_bootstrap_client(Settings.from_environment(variables)) is None

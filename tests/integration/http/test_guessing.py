"""Guessing the secrets of clients over the wire (docs/reference/authentication.md#guesses)."""

import asyncio
import base64
from collections.abc import Iterator

import httpx
import pytest

from statewright.settings import Secret
from tests.database import Template
from tests.service import CLIENT_ID, CLIENT_SECRET, RunningService, hosted

GUESSES = 200
FORM = {"grant_type": "client_credentials"}


@pytest.fixture(scope="module")
def launched(database_template: Template) -> Iterator[RunningService]:
    """A service with a bootstrap client."""
    settings = {"bootstrap_client_id": CLIENT_ID, "bootstrap_client_secret": Secret(CLIENT_SECRET)}
    with hosted(database_template.clone(), **settings) as running:
        yield running


def basic(client_id: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()


async def test_guesses_hold_up_neither_who_is_known_nor_who_comes_from_elsewhere(launched: RunningService) -> None:
    url = f"{launched.url}/oauth/token"
    elsewhere = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with (
        httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=GUESSES)) as attacker,
        httpx.AsyncClient(timeout=120) as known,
        httpx.AsyncClient(timeout=120, transport=elsewhere) as other,
    ):

        async def ask(client: httpx.AsyncClient, client_id: str, secret: str) -> httpx.Response:
            return await client.post(url, data=FORM, headers={"Authorization": basic(client_id, secret)})

        assert (await ask(known, CLIENT_ID, CLIENT_SECRET)).status_code == 200
        async with asyncio.TaskGroup() as tasks:
            guesses = [tasks.create_task(ask(attacker, CLIENT_ID, f"guess-{n}")) for n in range(GUESSES)]
            granted = [tasks.create_task(ask(known, CLIENT_ID, CLIENT_SECRET)) for _ in range(5)]
            looked_at = tasks.create_task(ask(other, "somebody", "else"))
    refusals = [guess.result() for guess in guesses]
    assert {refusal.status_code for refusal in refusals} == {401, 429}
    paused = [refusal for refusal in refusals if refusal.status_code == 429]
    assert len(paused) > GUESSES * 3 // 4
    assert all(int(refusal.headers["retry-after"]) >= 1 for refusal in paused)
    assert {refusal.json()["error"] for refusal in paused} == {"temporarily_unavailable"}
    assert [grant.result().status_code for grant in granted] == [200] * 5
    assert looked_at.result().status_code == 401

"""Logging in to the console and out, in jwt mode (docs/console.md#login)."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import nullcontext
from time import time
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest

from statewright.storage.auth.console_sessions import StoredConsoleSessions
from tests.database import connected
from tests.e2e.program import free_ports
from tests.identity_provider import IdentityProvider, identity_provider
from tests.integration.identity.conftest import FEATURES, administrator
from tests.integration.identity.test_providers import register
from tests.service import CLIENT_ID, CLIENT_SECRET, PATIENCE_S, RunningService, a_token, hosted

OWN_PAGE = {"sec-fetch-site": "same-origin"}
TENANT = str(uuid4())


@pytest.fixture(scope="module")
def idp() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def node(launched: RunningService, idp: IdentityProvider) -> Iterator[RunningService]:
    """Another node of the same database, with a client at the provider."""
    registered = register(administrator(launched, TENANT), idp)
    port = free_ports("HTTP")["HTTP"]
    settings: dict[str, Any] = FEATURES | {
        "http_port": port,
        "public_url": f"http://127.0.0.1:{port}",
        "console_oidc_clients": ((registered["id"], "shop"),),
    }
    with hosted(nullcontext(launched.database), **settings) as running:
        yield running


@pytest.fixture(autouse=True)
def usual_provider(idp: IdentityProvider) -> None:
    idp.claims, idp.gives_opaque_tokens = {}, False


class Visit:
    """A browser without scripts."""

    def __init__(self, service: RunningService) -> None:
        self.client = httpx.Client(
            base_url=service.root,
            headers=OWN_PAGE,
            timeout=PATIENCE_S,
            verify=False,
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(path, headers=headers)

    def log_in(self, at: str = "/console/login", **fields: str) -> httpx.Response:
        """Fill in one of the forms of the page."""
        page = self.get(at).text
        hidden = {name: _find_field(page, name) for name in ("form_token", "next")}
        return self.client.post("/console/login", data=hidden | fields)

    def log_in_as_client(self, at: str = "/console/login") -> httpx.Response:
        return self.log_in(at, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)

    def log_in_at_provider(self, at: str = "/console/login") -> httpx.Response:
        """Go to the provider and come back: the answer to the callback."""
        link = re.search(r'href="(/console/login/start[^"]*)"', self.get(at).text)
        assert link is not None
        begun = self.get(link[1].replace("&amp;", "&"))
        assert begun.status_code == 303
        back = httpx.get(begun.headers["location"])
        assert back.status_code == 302
        return self.get(back.headers["location"])

    def log_out(self) -> httpx.Response:
        token = _find_field(self.get("/console/").text, "form_token")
        return self.client.post("/console/logout", data={"form_token": token})

    @property
    def is_known(self) -> bool:
        return self.get("/console/").status_code == 200


def _find_field(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None
    return found[1]


def _rows(service: RunningService) -> list[Any]:
    async def fetch() -> list[Any]:
        async with connected(service.database) as connection:
            return await connection.fetch("SELECT * FROM console_session")

    return asyncio.run(fetch())


def test_who_is_not_logged_in_is_asked_to_and_comes_back(node: RunningService):
    visit = Visit(node)
    asked = visit.get("/console/models?filter=a%20b")
    assert asked.status_code == 303
    assert asked.headers["location"] == "/console/login?next=%2Fconsole%2Fmodels%3Ffilter%3Da%2520b"
    answer = visit.log_in_as_client(asked.headers["location"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/models?filter=a%20b")
    assert "boot-tenant" in visit.get("/console/models").text


def test_the_cookie_is_for_the_server_alone(node: RunningService):
    cookies = Visit(node).log_in_as_client().headers.get_list("set-cookie")
    assert [cookie.partition("; ")[2] for cookie in cookies if cookie.startswith("statewright=")] == [
        "HttpOnly; SameSite=Lax; Path=/console"
    ]


def test_a_login_counts_on_every_node_and_a_logout_too(node: RunningService, launched: RunningService):
    here, elsewhere = Visit(node), Visit(launched)
    here.log_in_as_client()
    elsewhere.client.cookies = here.client.cookies
    assert elsewhere.is_known
    left = here.log_out()
    assert left.headers["location"] == "/console/login?out=1"
    assert left.headers["clear-site-data"] == '"cache"'
    assert not elsewhere.is_known


def test_streams_end_with_the_logout(node: RunningService, launched: RunningService):
    api = launched.api("acme", "ann")
    api.a_model(model="streamed/1")
    entity = api.create(model="streamed/1").id
    visit = Visit(node)
    visit.log_in(token=a_token("acme", "ann"))
    with visit.client.stream("GET", f"/console/live?topic=entity-{entity}", timeout=8) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        elsewhere = Visit(launched)
        elsewhere.client.cookies = visit.client.cookies
        elsewhere.log_out()
        assert not [line for line in lines if line]
    assert visit.get(f"/console/live?topic=entity-{entity}", **{"hx-request": "true"}).status_code == 401


def test_logins_that_have_ended_are_removed(launched: RunningService):
    stored = StoredConsoleSessions(launched.parts.runtime.core.pool)

    async def add_and_sweep() -> bool:
        for digest, ends_at in ((b"ended", 5), (b"not yet", 1 << 60)):
            await stored.add(
                tenant="acme", digest=digest, principal="ann", sealed=b"", token_ends_at=1, now=1, ends_at=ends_at
            )
        return await stored.sweep(10)

    assert asyncio.run_coroutine_threadsafe(add_and_sweep(), launched.loop).result(PATIENCE_S)
    left = {row["digest"] for row in _rows(launched)}
    assert b"not yet" in left
    assert b"ended" not in left


def test_a_token_that_somebody_has_logs_in(node: RunningService):
    token = a_token("acme", "ann")
    visit = Visit(node)
    visit.log_in(token=f" {token}\n")
    page = visit.get("/console/")
    assert "acme" in page.text
    assert token not in page.text
    assert all(token.encode() not in row["sealed"] for row in _rows(node))


def test_every_failed_login_reads_the_same(node: RunningService):
    answers = [
        Visit(node).log_in(client_id=CLIENT_ID, client_secret="wrong"),
        Visit(node).log_in(client_id="nobody", client_secret="wrong"),
        Visit(node).log_in(token="wrong"),
        Visit(node).log_in(token=a_token("acme", exp=1_000_000_000)),
    ]
    assert [answer.status_code for answer in answers] == [401] * 4
    assert all("The login failed." in answer.text for answer in answers)
    assert not any("statewright=" in cookie for answer in answers for cookie in answer.headers.get_list("set-cookie"))


def test_a_form_of_another_page_logs_nobody_in(node: RunningService):
    visit = Visit(node)
    fields = {"token": a_token("acme"), "form_token": _find_field(visit.get("/console/login").text, "form_token")}
    foreign = visit.client.post("/console/login", data=fields, headers={"sec-fetch-site": "same-site"})
    forged = Visit(node).client.post("/console/login", data=fields)
    assert (foreign.status_code, forged.status_code) == (403, 403)
    assert not visit.is_known


def test_a_login_has_another_id_each_time(node: RunningService):
    visit = Visit(node)
    visit.log_in_as_client()
    first = visit.client.cookies["statewright"]
    visit.log_in_as_client()
    assert visit.client.cookies["statewright"] != first
    visit.client.cookies.set("statewright", first, path="/console")
    again = Visit(node)
    again.client.cookies.set("statewright", first)
    assert not again.is_known


def test_what_comes_after_the_end_of_a_login_is_asked_to_log_in(node: RunningService):
    visit = Visit(node)
    part = visit.get(
        "/console/part/status", **{"hx-request": "true", "hx-current-url": f"{node.root}/console/models?size=20"}
    )
    stream = visit.get(f"/console/live?topic=entity-{uuid4()}", **{"hx-request": "true"})
    form = visit.client.post("/console/do/lock_model", data={"name": "order", "version": "1"})
    assert (part.status_code, part.headers["hx-redirect"]) == (
        401,
        "/console/login?next=%2Fconsole%2Fmodels%3Fsize%3D20",
    )
    assert stream.status_code == 401
    assert (form.status_code, form.headers["location"]) == (303, "/console/login?ended=form")
    assert "the form was not sent" in visit.get(form.headers["location"]).text


def test_nobody_logs_in_at_an_address_that_is_not_the_public_one(node: RunningService):
    answer = Visit(node).get("/console/login", host="orders:8080")
    assert answer.status_code == 403
    assert f"Use {node.root}" in answer.text


# By a provider.


def test_a_provider_logs_in_and_sends_back_to_the_page(node: RunningService, idp: IdentityProvider):
    visit = Visit(node)
    answer = visit.log_in_at_provider("/console/login?next=/console/models")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/models")
    page = visit.get("/console/models").text
    assert TENANT in page
    assert ":ann</bdi>" in page
    asked = idp.granted[-1]
    assert asked["redirect_uri"] == f"{node.root}/console/login/callback"
    assert visit.log_out().headers["location"].startswith("/console/login?out=1&provider=")


def test_the_logout_page_leads_to_that_of_the_provider(node: RunningService, idp: IdentityProvider):
    visit = Visit(node)
    visit.log_in_at_provider()
    assert f'href="{idp.root}/end_session?client_id=shop' in visit.get(visit.log_out().headers["location"]).text


def test_an_access_token_that_nobody_can_read_gives_way_to_the_id_token(node: RunningService, idp: IdentityProvider):
    idp.gives_opaque_tokens = True
    visit = Visit(node)
    assert visit.log_in_at_provider().status_code == 303
    assert visit.is_known


@pytest.mark.parametrize(
    "claims", [{"nonce": "of another login"}, {"aud": "another client"}], ids=lambda claims: str(*claims)
)
def test_a_token_for_another_login_logs_nobody_in(node: RunningService, idp: IdentityProvider, claims: dict[str, Any]):
    idp.claims = claims
    visit = Visit(node)
    answer = visit.log_in_at_provider()
    assert answer.status_code == 401
    assert not visit.is_known


def test_only_the_browser_that_began_a_login_finishes_it(node: RunningService):
    victim, attacker = Visit(node), Visit(node)
    page = attacker.get("/console/login").text
    link = re.search(r'href="(/console/login/start[^"]*)"', page)
    assert link is not None
    begun = attacker.get(link[1].replace("&amp;", "&"))
    back = httpx.get(begun.headers["location"]).headers["location"]
    assert victim.get(back).status_code == 401
    assert not victim.is_known
    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"]


def test_a_login_at_a_provider_outlives_its_first_token(node: RunningService, idp: IdentityProvider):
    idp.claims = {"exp": int(time()) + 45, "sub": "bob"}
    visit = Visit(node)
    assert visit.log_in_at_provider().status_code == 303
    idp.claims = {"sub": "bob"}
    assert visit.is_known
    assert idp.granted[-1]["grant_type"] == "refresh_token"
    before = len(idp.granted)
    assert visit.is_known
    assert len(idp.granted) == before


def test_a_provider_that_is_not_configured_leads_nowhere(node: RunningService):
    answer = Visit(node).get(f"/console/login/start?provider={uuid4()}")
    assert answer.status_code == 503
    assert "cannot be reached" in answer.text


def test_callbacks_without_a_flow_lock_nobody_out(node: RunningService):
    for _ in range(12):
        assert Visit(node).get("/console/login/callback?code=x&state=y").status_code == 401
    assert Visit(node).log_in_as_client().status_code == 303
    assert Visit(node).log_in_at_provider().status_code == 303


def test_failures_of_one_client_lock_no_other_account_at_the_address(node: RunningService):
    guessed = f"client-{uuid4().hex}"
    statuses = [Visit(node).log_in(client_id=guessed, client_secret="wrong").status_code for _ in range(11)]
    assert statuses[-1] == 429
    assert Visit(node).log_in_at_provider().status_code == 303


def test_failures_of_one_flow_lock_no_other(node: RunningService):
    visit = Visit(node)
    link = re.search(r'href="(/console/login/start[^"]*)"', visit.get("/console/login").text)
    assert link is not None
    cookie = visit.get(link[1].replace("&amp;", "&")).cookies["statewright-login"]
    stolen = OWN_PAGE | {"cookie": f"statewright-login={cookie}"}
    attack = [
        httpx.get(f"{node.root}/console/login/callback?code=x&state=y", headers=stolen).status_code for _ in range(11)
    ]
    assert attack == [401] * 10 + [429]
    assert Visit(node).log_in_at_provider().status_code == 303

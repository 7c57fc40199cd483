"""Logging in and out in a browser, in jwt mode (docs/console.md#login); without one: tests/integration/identity."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any
from uuid import uuid4

import pytest

from tests.browser.conftest import OpenTab
from tests.browser.tab import Tab
from tests.database import Template
from tests.e2e.program import free_ports
from tests.identity_provider import IdentityProvider, identity_provider
from tests.integration.identity.conftest import FEATURES, administrator
from tests.integration.identity.test_providers import register
from tests.service import CLIENT_ID, CLIENT_SECRET, RunningService, a_token, hosted

TENANT = str(uuid4())
REFUSED = "Failed to load resource: the server responded with a status of 401"
ASK_AGAIN = "() => htmx.trigger(document.querySelector('[data-live]'), 'every')"
"""What the page does every 10 s."""


@pytest.fixture(scope="module")
def idp() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def node(database_template: Template, idp: IdentityProvider) -> Iterator[RunningService]:
    """A service whose console is a client of the provider, which was registered at another node before."""
    with hosted(database_template.clone(), **FEATURES) as first:
        registered = register(administrator(first, TENANT), idp)
        port = free_ports("HTTP")["HTTP"]
        settings: dict[str, Any] = FEATURES | {
            "http_port": port,
            "public_url": f"http://127.0.0.1:{port}",
            "console_oidc_clients": ((registered["id"], "shop"),),
        }
        with hosted(nullcontext(first.database), **settings) as running:
            yield running


@pytest.fixture
def tab(open_tab: OpenTab, node: RunningService, idp: IdentityProvider) -> Tab:
    tab = open_tab(node)
    tab.allowed.append(idp.root)
    return tab


def log_in_at_provider(page: Any) -> None:
    page.get_by_role("link", name="Log in with").click()


def log_in_as_client(page: Any, secret: str = CLIENT_SECRET, client: str = CLIENT_ID) -> None:
    page.get_by_label("Client id").fill(client)
    page.get_by_label("Secret").fill(secret)
    page.get_by_role("button", name="Log in").first.click()


def log_in_with_token(page: Any, token: str = "") -> None:
    page.get_by_label("Access token").fill(token or a_token(TENANT, "ann"))
    page.get_by_role("button", name="Log in").last.click()


@pytest.mark.parametrize("log_in", [log_in_at_provider, log_in_as_client, log_in_with_token])
def test_each_way_in_leads_to_the_page_that_was_asked_for(tab: Tab, log_in: Callable[[Any], None]):
    page = tab.page
    tab.open("/console/models?filter=a%20b")
    assert "/console/login?next=" in page.url
    log_in(page)
    page.wait_for_url("**/console/models?filter=a%20b")
    assert page.get_by_role("heading", name="Models").is_visible()
    [cookie] = [cookie for cookie in tab.context.cookies() if cookie["name"] == "statewright"]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/console")
    assert page.evaluate("() => document.cookie") == ""
    kept = page.evaluate("() => JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
    assert "eyJ" not in page.content() + kept + page.url


def test_every_failed_login_reads_the_same_and_keeps_no_secret(tab: Tab):
    tab.expect(REFUSED)
    page, texts = tab.page, []
    tab.open("/console/login")
    for log_in in (
        lambda: log_in_as_client(page, "wrong"),
        lambda: log_in_as_client(page, "wrong", "nobody"),
        lambda: log_in_with_token(page, "wrong"),
    ):
        with page.expect_navigation():
            log_in()
        texts.append(page.get_by_role("alert").inner_text())
        assert "wrong" not in page.content()
    assert len(set(texts)) == 1
    assert "The login failed." in texts[0]


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example/console/", "/\\evil.example"])
def test_a_login_leads_nowhere_else(tab: Tab, target: str):
    tab.open(f"/console/login?next={target}")
    log_in_with_token(tab.page)
    tab.page.wait_for_url("**/console/")
    assert tab.page.url == f"{tab.root}/console/"


@pytest.fixture
def two(tab: Tab) -> tuple[Any, Any]:
    """Two tabs of the same browser, logged in."""
    tab.open("/console/login")
    log_in_with_token(tab.page)
    tab.page.wait_for_url("**/console/")
    other = tab.context.new_page()
    other.goto("/console/models")
    return tab.page, other


def log_out(page: Any) -> None:
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("You are logged out.").wait_for()


def test_a_page_of_another_tab_asks_for_a_login_after_the_logout(two: tuple[Any, Any]):
    page, other = two
    log_out(other)
    page.goto("/console/models?size=20")
    assert page.url.endswith("/console/login?next=%2Fconsole%2Fmodels%3Fsize%3D20")


def test_a_part_of_another_tab_leads_to_the_login_after_the_logout(two: tuple[Any, Any], tab: Tab):
    tab.expect(REFUSED)
    page, other = two
    page.locator("[data-live]").first.wait_for()
    log_out(other)
    page.evaluate(ASK_AGAIN)
    page.wait_for_url("**/console/login?next=%2Fconsole%2F")


def test_a_form_that_comes_too_late_is_not_lost(two: tuple[Any, Any]):
    page, other = two
    page.goto("/console/models/new")
    page.locator("textarea").first.fill('{"typed": "for an hour"}')
    page.locator("main input[name=name]").fill("late")
    log_out(other)
    page.get_by_role("button", name="Create model").click()
    page.get_by_text("the form was not sent").wait_for()
    log_in_with_token(page)
    page.wait_for_url(lambda url: "/console/login" not in url)
    for address in ("**/console/login?ended=form", "**/console/models/new"):
        page.go_back()
        page.wait_for_url(address)  # htmx names its page in the history, which ends waiting for a step back, too
    assert page.locator("textarea").first.input_value() == '{"typed": "for an hour"}'

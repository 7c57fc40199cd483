"""Whom the console answers, and with which headers (docs/console.md#security)."""

import httpx
import pytest

from statewright.console.route import Action
from statewright.console.routes import ROUTES
from tests.browser.installation import Installation
from tests.browser.test_routes import iterate_addresses

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
EXPECTED = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
ACTIONS = [route.name for route in ROUTES if isinstance(route, Action)]


@pytest.fixture
def client(console: Installation):
    with httpx.Client(base_url=console.root) as client:
        yield client


def get_form_token(client: httpx.Client) -> str:
    page = client.get("/console/models/draft/1/settings").text
    return page.split('name="form_token" value="', 1)[1].split('"', 1)[0]


def test_every_page_has_every_header(client: httpx.Client, console: Installation):
    for path in [*iterate_addresses(console), "/console/nowhere", "/console/part/status", "/console/models/none/1"]:
        headers = client.get(path).headers
        assert {name: headers.get(name) for name in EXPECTED} == EXPECTED, path
        assert "access-control-allow-origin" not in headers


def test_the_scripts_may_not_compile_but_for_the_worker(client: httpx.Client):
    page = client.get("/console/").text
    script = page.split('src="/console/static/', 1)[1].split('"', 1)[0]
    headers = client.get(f"/console/static/{script}").headers
    assert headers["content-security-policy"] == POLICY
    assert "immutable" in headers["cache-control"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_page_does_nothing(client: httpx.Client, console: Installation, headers: dict[str, str]):
    form = {"form_token": get_form_token(client), "idempotency_key": "k", "name": "draft", "version": "1"}
    answer = client.post("/console/do/lock_model", data=form, headers=headers)
    assert answer.status_code == 403
    assert '"UNLOCKED"' in console.api.get("/model/export/SIMPLE_VIEW/draft/1").text


@pytest.mark.parametrize("action", ACTIONS)
def test_no_action_without_its_token(client: httpx.Client, action: str):
    for what in ("do", "call"):
        answer = client.post(
            f"/console/{what}/{action}", data={"idempotency_key": "k"}, headers={"sec-fetch-site": "same-origin"}
        )
        assert answer.status_code == 403


def test_nothing_is_done_by_a_link(client: httpx.Client):
    for action in ACTIONS:
        assert client.get(f"/console/do/{action}").status_code == 405


@pytest.mark.parametrize("path", ["/console/", "/api/model/", "/ops/v1", "/v1/definitions"])
def test_a_name_that_an_attacker_may_have_is_refused(client: httpx.Client, path: str):
    assert client.get(path, headers={"host": "rebound.evil.example"}).status_code == 421


def test_a_stream_of_something_else_is_refused(client: httpx.Client):
    unknown = "00000000-0000-1000-8000-000000000000"
    assert client.get("/console/live").status_code == 400
    assert client.get(f"/console/live?topic=entity-{unknown}").status_code == 404


def test_a_change_is_told_to_a_page_that_is_open(client: httpx.Client, console: Installation):
    saved = console.api.create(console.api.read(console.orders[0])["data"], model="sale/1")
    with client.stream("GET", f"/console/live?topic=entity-{saved.id}", timeout=30) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        console.api.update(saved.id, {"amount": 1.5}, fire="PAY")
        assert next(line for line in lines if line.startswith("event:")) == f"event: entity-{saved.id}"

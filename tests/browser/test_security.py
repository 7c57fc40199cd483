"""Whom the console answers, and with which headers (docs/console.md#security)."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from statewright.console.request import Action, Page
from statewright.console.routes import ROUTES
from tests.browser.conftest import OpenTab
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
PARTS = [route for route in ROUTES if isinstance(route, Page) and (route.is_part or route.is_file)]
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


def test_whatever_is_no_page_has_the_headers_too(client: httpx.Client, console: Installation):
    values = {"id": console.orders[0], "name": "order", "version": "1", "workflow": "fulfilment"} | console.parameters
    parts = [page.path.format_map(defaultdict(lambda: "x", values)) for page in PARTS]
    confirmations = [f"/console/confirm/{action}" for action in ACTIONS]
    others = [
        "/console/login",
        "/console/login/start",
        "/console/live",
        "/console/static/none/none.js",
        "/console/do/fire",
    ]
    for path in [*parts, *confirmations, *others]:
        headers = client.get(path).headers
        found = {name: headers.get(name) for name in EXPECTED}
        if path.startswith("/console/static/"):
            found["cache-control"] = "no-store"
        assert found == EXPECTED, path
    form = client.post("/console/do/fire", headers={"origin": "http://evil.example"})
    assert {name: form.headers.get(name) for name in EXPECTED} == EXPECTED


class Framing(BaseHTTPRequestHandler):
    """A page elsewhere that shows whatever its query names in a frame."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f'<iframe src="{self.path.partition("?")[2]}"></iframe>'.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_frames() -> Iterator[str]:
    """The root of a server of such pages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Framing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_no_page_is_shown_in_a_frame(open_tab: OpenTab, console: Installation):
    tab = open_tab(console)
    tab.expect("in a frame because", "frame-ancestors", "ERR_BLOCKED_BY_RESPONSE", "favicon", "404")
    with serve_frames() as elsewhere:
        tab.allowed.append(elsewhere)
        tab.open(f"{elsewhere}/?{elsewhere}/?x")
        assert tab.page.frames[1].locator("iframe").count() == 1  # others are shown
        tab.open(f"{elsewhere}/?{console.root}/console/")
        frame = tab.page.frames[1]
        assert frame.locator("nav, main, form").count() == 0
        assert "Statewright" not in frame.content()


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


def test_every_form_of_another_page_is_refused(client: httpx.Client):
    token = get_form_token(client)
    forms = [
        *(f"/console/{what}/{action}" for what in ("do", "call") for action in ACTIONS),
        "/console/login",
        "/console/logout",
    ]
    answers = {
        (path, *headers.values()): client.post(
            path, data={"form_token": token, "idempotency_key": "k"}, headers=headers
        )
        for path in forms
        for headers in ({}, {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"})
    }
    allowed = {key for key, answer in answers.items() if answer.status_code != 403}
    assert {path for path, *_ in allowed} <= {"/console/login", "/console/logout"}  # there are no logins in mock mode
    assert all(answers[key].headers.get("location") == "/console/" for key in allowed)


def test_no_action_without_its_token(client: httpx.Client):
    own = {"sec-fetch-site": "same-origin"}
    for token in ({}, {"form_token": "x"}, {"form_token": "A" * 88}):
        for path in (f"/console/{what}/{action}" for what in ("do", "call") for action in ACTIONS):
            assert client.post(path, data={"idempotency_key": "k"} | token, headers=own).status_code == 403, path


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

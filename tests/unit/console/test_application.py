"""What a process does at the same time for browsers (docs/console.md#security)."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlencode

import pytest

from statewright.api.http.asgi import Message
from statewright.api.http.request import Request
from statewright.console import application, live
from statewright.console.application import MAX_ACTING, MAX_RENDERED, Console
from statewright.console.calls import ApiCall, Reply
from statewright.console.frame import FrameConfig
from statewright.console.request import Page
from statewright.console.response import ConsoleResponse
from statewright.console.routes import ROUTES
from statewright.console.session import MockSessions, Session, build_form_token
from statewright.operations.history import EntityWait
from statewright.operations.service import ApiDescription
from tests.unit.console.recorded import a_document

CONFIG = FrameConfig(context_path="/api", is_mock=True, address="127.0.0.1:8080", version="1")
COOKIE = "c" * 43
MODELS = next(route for route in ROUTES if isinstance(route, Page) and route.name == "models")
HELP = next(route for route in ROUTES if isinstance(route, Page) and route.name == "help")


class SlowApi:
    """Answers a change, or a list of models, when it is let go."""

    def __init__(self) -> None:
        self.waiting = 0
        self.let_go = asyncio.Event()

    async def call(self, call: ApiCall, headers: Sequence[tuple[bytes, bytes]]) -> Reply:
        if call.method != "GET" or "model" in call.path:
            self.waiting += 1
            await self.let_go.wait()
        if call.path.endswith("/wait"):
            return Reply(call=call, status=200, value=a_document(EntityWait))
        asker = {"id": "ann", "kind": "user", "roles": ["ROLE_ADMIN"]}
        told = a_document(ApiDescription, principal=asker, tenant="acme", features=[])
        return Reply(call=call, status=200, value=told if call.method == "GET" else {"items": []})

    async def wait_for(self, count: int) -> None:
        """Until so many calls wait for their answer."""
        for _ in range(5_000):
            if self.waiting == count:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"{self.waiting} calls wait")


def ask(path: str, body: bytes = b"", query: bytes = b"", **params: str) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    cookie = f"statewright={COOKIE}".encode()
    scope = {
        "method": "POST" if body else "GET",
        "path": path,
        "query_string": query,
        "scheme": "http",
        "headers": [(b"host", b"localhost"), (b"cookie", cookie), (b"sec-fetch-site", b"same-origin")],
    }
    return Request(scope, receive, path_params=params)


def listen(console: Console) -> "asyncio.Task[ConsoleResponse]":
    browser = ask("/console/live", query=b"topic=entity-5e1f6a02-0000-1000-8000-00000000c3a9")
    return asyncio.create_task(console.open_live_stream(browser))


def lock_model(console: Console, *, key: str = "k") -> "asyncio.Task[int]":
    token = build_form_token(Session(id=COOKIE))
    fields = {"form_token": token, "idempotency_key": key, "name": "order", "version": "1"}

    async def act() -> int:
        browser = ask("/console/do/lock_model", urlencode(fields).encode(), action="lock_model")
        return (await console.act("do", browser)).status

    return asyncio.create_task(act())


def show(console: Console, page: Page) -> "asyncio.Task[int]":
    async def open_page() -> int:
        return (await console.show_page(page, ask(page.path))).status

    return asyncio.create_task(open_page())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "QUEUE_TIMEOUT_S", 0.05)


@pytest.mark.usefixtures("impatient")
async def test_pages_are_made_while_acts_wait_for_the_api():
    api = SlowApi()
    console = Console(api, MockSessions(), CONFIG)
    acts = [lock_model(console) for _ in range(MAX_ACTING)]
    await api.wait_for(MAX_ACTING)
    assert await show(console, HELP) == 200
    assert await lock_model(console) == 503
    api.let_go.set()
    assert set(await asyncio.gather(*acts)) == {303}
    assert await lock_model(console) == 303


@pytest.mark.usefixtures("impatient")
async def test_so_many_pages_are_made_at_a_time_and_no_more():
    api = SlowApi()
    console = Console(api, MockSessions(), CONFIG)
    pages = [show(console, MODELS) for _ in range(MAX_RENDERED)]
    await api.wait_for(MAX_RENDERED)
    assert await show(console, HELP) == 503
    api.let_go.set()
    await asyncio.gather(*pages)
    assert await show(console, HELP) == 200


async def test_so_many_streams_are_open_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "MAX_STREAMS", 2)
    console = Console(SlowApi(), MockSessions(), CONFIG)
    first, second = await listen(console), await listen(console)
    assert (first.status, second.status, (await listen(console)).status) == (200, 200, 503)
    assert isinstance(first.body, live.LiveStream)
    assert (b"x-accel-buffering", b"no") in first.headers
    await first.body.aclose()
    assert (await listen(console)).status == 200
    await console.close()
    assert (await listen(console)).status == 503


@pytest.mark.parametrize("key", ["clé", "ключ", "a\r\nb", "", "k" * 300])
async def test_a_key_that_no_header_can_carry_is_refused(key: str):
    api = SlowApi()
    api.let_go.set()
    assert await lock_model(Console(api, MockSessions(), CONFIG), key=key) == 400
    assert api.waiting == 0

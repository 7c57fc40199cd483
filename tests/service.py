"""Services for tests: one in this process that many tests share, and the installed program as a process.

The shared service runs in ``jwt`` mode on a thread of its own, with the event loop of production. A test that uses it
works in a tenant that nobody has seen before, which is cheaper than a service for each test and just as separate. A
test that needs other settings, or the database to itself, hosts its own.
"""

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from time import time
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import jwt
import pytest
import uvloop
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from statewright import app
from statewright.settings import Secret, Settings
from tests.builders import SAMPLE, Json
from tests.database import Template

T = TypeVar("T")

PATIENCE_S = 20.0
"""After so long a fact that has not come true is taken for a failure."""
MAX_PAUSE_S = 0.2
"""Between two looks at a fact."""

ISSUER = "cyoda"
CLIENT_ID, CLIENT_SECRET = "launcher", "correct horse battery staple"


@cache
def signing_key() -> rsa.RSAPrivateKey:
    """The key of every service in this process."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def signing_key_pem() -> str:
    """The same as PKCS#8 PEM, which has several lines."""
    return signing_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@cache
def signing_key_id() -> str:
    """What everybody who holds the key can work out (docs/reference/authentication.md#access-tokens)."""
    spki = signing_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spki).digest()[:16].hex()


def a_token(tenant: str, user: str = "alice", **claims: Json) -> str:
    """A token that an external tool minted with the service's key; ``None`` removes a claim."""
    now = int(time())
    issued: dict[str, Json] = {
        "iss": ISSUER,
        "sub": user,
        "caas_user_id": user,
        "caas_org_id": tenant,
        "user_roles": ["ROLE_USER", "ROLE_M2M"],
        "iat": now,
        "exp": now + 600,
    }
    kept = {name: value for name, value in (issued | claims).items() if value is not None}
    return jwt.encode(kept, signing_key(), algorithm="RS256", headers={"kid": signing_key_id()})


_TRANSPORT = httpx.HTTPTransport(verify=False, limits=httpx.Limits(max_keepalive_connections=64))
"""Shared, since every new one reads certificates that nobody needs here; connections are kept by address."""


@dataclass(frozen=True)
class Api:
    """The REST API as one caller sees it. Short verbs assert success and return what they are for."""

    url: str
    token: str | None = None

    def request(self, method: str, path: str, body: Json = b"", **headers: str) -> httpx.Response:
        """Any request; ``path`` starts below the context path. A body that is no text or bytes is sent as JSON."""
        content = body if isinstance(body, bytes | str) else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            named.setdefault("Authorization", f"Bearer {self.token}")
        request = httpx.Request(method, f"{self.url}{path}", content=content, headers=named)
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), PATIENCE_S)
        response = _TRANSPORT.handle_request(request)
        response.request = request
        response.read()
        return response

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.request("GET", path, **headers)

    def post(self, path: str, body: Json = b"", **headers: str) -> httpx.Response:
        return self.request("POST", path, body, **headers)

    def put(self, path: str, body: Json = b"", **headers: str) -> httpx.Response:
        return self.request("PUT", path, body, **headers)

    def delete(self, path: str, body: Json = b"", **headers: str) -> httpx.Response:
        return self.request("DELETE", path, body, **headers)

    def import_model(self, model: str = "prize/1", sample: Json = SAMPLE) -> str:
        """The id of a model, not locked yet; ``model`` is ``<name>/<version>``."""
        return str(done(self.post(f"/model/import/JSON/SAMPLE_DATA/{model}", sample)))

    def lock(self, model: str = "prize/1") -> None:
        done(self.put(f"/model/{model}/lock"))

    def import_workflows(self, *workflows: Json, model: str = "prize/1", mode: str = "REPLACE") -> None:
        done(self.post(f"/model/{model}/workflow/import", {"importMode": mode, "workflows": workflows}))

    def a_model(self, *workflows: Json, model: str = "prize/1", sample: Json = SAMPLE) -> str:
        """A locked model with workflows; returns ``model`` for use in paths."""
        self.import_model(model, sample)
        if workflows:
            self.import_workflows(*workflows, model=model)
        self.lock(model)
        return model

    def create(self, document: Json = SAMPLE, *, model: str = "prize/1") -> "Saved":
        [result] = done(self.post(f"/entity/JSON/{model}", document))
        return Saved(result["entityIds"][0], result["transactionId"])

    def update(self, entity: str, document: Json = SAMPLE, *, fire: str = "", **headers: str) -> "Saved":
        """Fire a transition with a new document; a loopback when none is named."""
        result = done(self.put(f"/entity/JSON/{entity}{'/' if fire else ''}{fire}", document, **headers))
        return Saved(result["entityIds"][0], result["transactionId"])

    def read(self, entity: str, query: str = "") -> Json:
        """The envelope."""
        return done(self.get(f"/entity/{entity}{query}"))

    def state(self, entity: str) -> str:
        return str(self.read(entity)["meta"]["state"])

    def events(self, entity: str, transaction: str) -> list[Json]:
        """The state machine events of a run, oldest first."""
        path = f"/audit/entity/{entity}?eventType=StateMachine&limit=1000&transactionId={transaction}"
        return list(reversed(done(self.get(path))["items"]))


@dataclass(frozen=True)
class Saved:
    """What a write returned."""

    id: str
    transaction: str


def done(response: httpx.Response) -> Json:
    """The JSON of a response that must be a success."""
    assert response.status_code == 200, f"{response.status_code}: {response.text}"
    return response.json()


def refused(response: httpx.Response, status: int, code: str) -> Json:
    """The problem document of a response that must be this refusal."""
    assert response.status_code == status, f"{response.status_code}: {response.text}"
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["properties"]["errorCode"] == code, problem
    return problem


@dataclass(frozen=True)
class RunningService:
    """Where a service in this process listens, and the parts it is made of."""

    root: str
    context_path: str
    admin: str
    grpc: str
    database: str
    parts: app.Service
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"{self.root}{self.context_path}"

    def api(self, tenant: str, user: str = "alice", **claims: Json) -> Api:
        """The API as ``user`` of ``tenant`` sees it."""
        return Api(self.url, a_token(tenant, user, **claims))

    def anonymous(self) -> Api:
        """The API without credentials."""
        return Api(self.url)


@contextmanager
def hosted(database: AbstractAsyncContextManager[str], **settings: Any) -> Iterator[RunningService]:
    """A service on a thread of its own while the block runs; in jwt mode unless the settings say otherwise."""
    ready: Future[tuple[RunningService, asyncio.Event]] = Future()

    async def host() -> None:
        stop = asyncio.Event()
        async with database as url, app.run_service(_settings(url, settings)) as parts:
            ready.set_result((_described(parts, url, settings), stop))
            await stop.wait()

    def run() -> None:
        try:
            uvloop.run(host())
        except BaseException as failure:
            if ready.done():
                raise
            ready.set_exception(failure)

    thread = threading.Thread(target=run, name="service", daemon=True)
    thread.start()
    service, stop = ready.result(timeout=PATIENCE_S)
    try:
        yield service
    finally:
        service.loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=PATIENCE_S)
        assert not thread.is_alive(), "the service did not stop"


def _settings(url: str, settings: Mapping[str, Any]) -> Settings:
    usual: dict[str, Any] = {
        "iam_mode": "jwt",
        "jwt_signing_key": Secret(signing_key_pem()),
        "http_port": 0,
        "grpc_port": 0,
        "admin_port": 0,
        "postgres_url": Secret(url),
        "drain_window": timedelta(0),
        "log_level": "error",
    }
    return Settings(**(usual | settings))


def _described(parts: app.Service, url: str, settings: Mapping[str, Any]) -> RunningService:
    return RunningService(
        root=f"http://127.0.0.1:{parts.http_port}",
        context_path=settings.get("context_path", "/api"),
        admin=f"http://127.0.0.1:{parts.admin_port}",
        grpc=f"127.0.0.1:{parts.grpc_port}",
        database=url,
        parts=parts,
        loop=asyncio.get_running_loop(),
    )


@pytest.fixture(scope="session")
def service(database_template: Template) -> Iterator[RunningService]:
    """The service that tests of this worker share, each in a tenant of its own."""
    with hosted(database_template.clone()) as running:
        yield running


@pytest.fixture
def tenant() -> str:
    """A tenant that nobody has seen before."""
    return f"tenant-{uuid4().hex[:12]}"


@pytest.fixture
def api(service: RunningService, tenant: str) -> Api:
    """The API as alice of this test's tenant sees it."""
    return service.api(tenant)


def eventually(fact: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Waits for a fact that nobody announces, with a deadline. To look takes time from what is waited for, so a pause
    is a tenth of the time that has been waited.
    """
    pause, waited_s = threading.Event(), 0.0
    while waited_s < within_s:
        if fact():
            return
        pause_s = min(max(waited_s / 10, 0.005), MAX_PAUSE_S)
        pause.wait(pause_s)
        waited_s += pause_s
    raise AssertionError(f"it has not come true within {within_s:.0f} s")


def wait_for(look: Callable[[], T], is_it: Callable[[T], bool], *, within_s: float = PATIENCE_S) -> T:
    """What is seen, once it is what is waited for."""
    seen = list[T]()

    def fact() -> bool:
        seen[:] = [look()]
        return is_it(seen[0])

    eventually(fact, within_s=within_s)
    return seen[0]


def names(items: Sequence[Json]) -> list[str]:
    """The types of audit events, in order."""
    return [item["eventType"] for item in items]

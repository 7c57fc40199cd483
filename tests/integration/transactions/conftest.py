"""A calculation node in this process, whose processors may call back."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from statewright.ids import TenantId
from statewright.sdk import Context, Node
from statewright.sdk.tokens import Token
from tests.service import PATIENCE_S, Api, RunningService, a_token, eventually

Serving = Callable[[Node], None]


@pytest.fixture
def serving(service: RunningService, tenant: str) -> Iterator[Serving]:
    """Connects nodes to the shared service, as members of the test's tenant, until the test ends."""
    ends: list[Callable[[], None]] = []

    def serve(node: Node) -> None:
        block = connected(service, tenant, node)
        block.__enter__()
        ends.append(lambda: block.__exit__(None, None, None))

    yield serve
    for end in reversed(ends):
        end()


@contextmanager
def connected(
    service: RunningService, tenant: str, node: Node, token: Token = None, *, api: str | None = None
) -> Iterator[None]:
    """The node is a member of the tenant while the block runs."""
    token = token or a_token(tenant, "node", user_roles=None, scopes=["ROLE_M2M"])

    def count_members() -> int:
        """Of this tenant: those of others come and go meanwhile."""
        return len(service.parts.members.list_members(TenantId(tenant)))

    before = count_members()
    loop = asyncio.new_event_loop()
    task = loop.create_task(node.serve(service.grpc, token=token, api=api or service.url))
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])), daemon=True)
    thread.start()
    eventually(lambda: count_members() > before)
    try:
        yield
    finally:
        connected_now = count_members()
        loop.call_soon_threadsafe(task.cancel)
        thread.join(PATIENCE_S)
        loop.close()
        eventually(lambda: count_members() < connected_now)


class Callback:
    """The API as a processor sees it from inside the transaction it was called from."""

    def __init__(self, service: RunningService, tenant: str) -> None:
        self._service = service
        self._tenant = tenant

    def __call__(self, context: Context) -> Api:
        """Requests that join the transaction of the callout."""
        api = self._service.api(self._tenant, "node", user_roles=None, scopes=["ROLE_M2M"])
        return JoinedApi(api.url, api.token, context.tx_token or "")


class JoinedApi(Api):
    """An API whose every request carries a transaction token."""

    def __init__(self, url: str, token: str | None, tx_token: str) -> None:
        super().__init__(url, token)
        object.__setattr__(self, "tx_token", tx_token)

    def request(self, method, path, body=b"", **headers):
        return super().request(method, path, body, **(headers | {"X_Tx_Token": self.tx_token}))


@pytest.fixture
def callback(service: RunningService, tenant: str) -> Callback:
    return Callback(service, tenant)

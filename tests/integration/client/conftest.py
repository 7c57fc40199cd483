"""The client of applications, in both forms: what a test says of one holds for the other."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from statewright import AsyncClient, Client
from statewright.sdk.exchange import RetryPolicy
from tests.service import RunningService, a_token

Connect = Callable[..., Client]
"""Makes a client of the given form; arguments as for ``Client``."""


class Blocking:
    """The async client as if it were the other: its results are waited for, its lists read to the end."""

    def __init__(self, part: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._part = part
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._part, name)
        if not callable(member):
            return Blocking(member, self._loop)

        def call(*arguments: Any, **named: Any) -> Any:
            return self._run(member(*arguments, **named))

        return call

    def _run(self, made: Any) -> Any:
        if inspect.isasyncgen(made):
            return iter(self._run(_read_all(made)))
        return asyncio.run_coroutine_threadsafe(made, self._loop).result(60)


async def _read_all(made: Any) -> list[Any]:
    return [item async for item in made]


@pytest.fixture(scope="session")
def client_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The event loop of all async clients."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(params=["blocking", "async"])
def connect(request: pytest.FixtureRequest, client_loop: asyncio.AbstractEventLoop) -> Iterator[Connect]:
    """Makes clients, which are closed at the end."""
    made: list[Any] = []

    def make(*arguments: Any, **named: Any) -> Client:
        if request.param == "blocking":
            made.append(Client(*arguments, **named))
            return cast("Client", made[-1])
        made.append(Blocking(AsyncClient(*arguments, **named), client_loop))
        return cast("Client", made[-1])

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(connect: Connect, service: RunningService, tenant: str) -> Client:
    """A client of the shared service, in the test's tenant."""
    return connect(service.root, token=a_token(tenant), retry=RetryPolicy(deadline_s=10))

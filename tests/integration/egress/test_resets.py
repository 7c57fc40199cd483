"""Servers that reset connections as soon as they are made, as one does that is killed while clients connect."""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator

import httpx
import pytest
import uvloop

from statewright.egress import HttpFailure, HttpRequest
from statewright.sdk.endpoint import parse_address
from statewright.sdk.errors import Unreachable
from statewright.sdk.http import HttpTransport
from statewright.sdk.operations.calls import Call
from statewright.sdk.pipelines import send_http
from statewright.sdk.tokens import make_token_source
from statewright.tools.requests import GuardedTransport
from tests.integration.egress.conftest import open_egress

AT_ONCE = 30
"""On uvloop one of ten such connections or so is lost before anybody has looked at it."""


@pytest.fixture
def url() -> Iterator[str]:
    """Of a server that resets all connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=AT_ONCE) as listener:

        def reset_all() -> None:
            while True:
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

        accepting = threading.Thread(target=reset_all)
        accepting.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


async def ask_by_egress(url: str) -> None:
    async with open_egress() as egress:

        async def ask() -> None:
            answer = await egress.send(HttpRequest(url=url))
            assert isinstance(answer, HttpFailure)
            assert answer.reason in {"connection_failed", "connection_lost"}

        await ask_many(ask)


async def ask_by_worker(url: str) -> None:
    transport = HttpTransport(parse_address(url), make_token_source(None))

    async def ask() -> None:
        with pytest.raises(Unreachable):
            await transport.send_async(Call(name="job", method="POST", path="/v1/jobs/poll", at_root=True))

    await ask_many(ask)
    await transport.close_async()


async def ask_by_pipeline(url: str) -> None:
    async def ask() -> None:
        outcome = await send_http({"url": url}, {})
        assert outcome.error is not None
        assert outcome.error["code"] == "connection_failed"

    await ask_many(ask)


async def ask_by_tools(url: str) -> None:
    async with httpx.AsyncClient(transport=GuardedTransport()) as client:

        async def ask() -> None:
            with pytest.raises(httpx.NetworkError):
                await client.get(url)

        await ask_many(ask)


async def ask_many(ask: Callable[[], Awaitable[None]]) -> None:
    for _ in range(6):
        await asyncio.gather(*[ask() for _ in range(AT_ONCE)])


@pytest.mark.parametrize("ask", [ask_by_egress, ask_by_worker, ask_by_pipeline, ask_by_tools])
def test_a_connection_that_is_reset_at_once_is_a_failure_of_the_network(
    url: str, ask: Callable[[str], Awaitable[None]]
) -> None:
    async def work() -> None:
        await ask(url)

    uvloop.run(work())

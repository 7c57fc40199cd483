"""An answer that fails while it is sent: nobody may take the half of it for the whole."""

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from statewright.api.http.asgi import ResponseTorn
from statewright.api.http.response import prime_stream, stream_response
from tests.database import connected
from tests.service import PATIENCE_S, Api, RunningService, done


@pytest.fixture
def torn(service: RunningService, api: Api) -> str:
    """The path of a message of which a piece in the middle is missing."""
    [result] = done(api.post("/message/new/x", {"payload": "x" * 400_000}, Content_Type="application/json"))
    [message] = result["entityIds"]

    async def tear() -> None:
        async with connected(service.database) as connection:
            gone = await connection.execute("DELETE FROM message_piece WHERE message = $1 AND n = 2", message)
            assert gone == "DELETE 1"

    asyncio.run(tear())
    return f"/message/{message}"


def test_the_connection_is_cut_and_not_ended(api: Api, torn: str) -> None:
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        api.get(torn)
    assert api.get("/model/").status_code == 200


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_whatever_marks_the_end_of_a_body_is_missing(
    service: RunningService, api: Api, torn: str, version: str
) -> None:
    """In HTTP/1.0 that is the orderly end of the connection."""
    host, _, port = service.root.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client:
        request = f"GET {service.context_path}{torn} HTTP/{version}"
        client.sendall("\r\n".join([request, f"Host: {host}", f"Authorization: Bearer {api.token}", "", ""]).encode())
        received: list[bytes] = []
        with pytest.raises(ConnectionResetError):
            receive(client, received)
        assert not b"".join(received).endswith(b"0\r\n\r\n")


def receive(client: socket.socket, received: list[bytes]) -> None:
    """All that comes until the orderly end of the connection."""
    while part := client.recv(65536):
        received.append(part)


class Source:
    """Parts of a body from something that must be let go of."""

    def __init__(self, *parts: bytes | Exception) -> None:
        self._parts = list(parts)
        self.is_closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._parts:
            raise StopAsyncIteration
        part = self._parts.pop(0)
        if isinstance(part, Exception):
            raise part
        return part

    async def aclose(self) -> None:
        self.is_closed = True


async def test_what_fails_before_the_first_part_is_no_answer_yet() -> None:
    source = Source(ValueError("no luck"), b"a")
    with pytest.raises(ValueError, match="no luck"):
        await prime_stream(source)
    assert source.is_closed


async def never() -> dict[str, object]:
    raise AssertionError("nobody asks for the body")


@pytest.mark.parametrize(
    ("gone", "raised"), [(ConnectionError(), ResponseTorn), (asyncio.CancelledError(), asyncio.CancelledError)]
)
async def test_the_source_is_let_go_of_when_nobody_listens_any_more(
    gone: BaseException, raised: type[BaseException]
) -> None:
    source = Source(b"a", b"b", b"c")

    async def send(message) -> None:
        if message.get("body") == b"b":
            raise gone

    with pytest.raises(raised):
        await stream_response(await prime_stream(source), 200, (), {"method": "GET", "path": "/"}, never, send)
    assert source.is_closed


async def test_all_parts_of_an_answer_are_sent_in_order() -> None:
    source, sent = Source(b"a", b"b"), []

    async def send(message) -> None:
        sent.append(message.get("body"))

    await stream_response(await prime_stream(source), 200, (), {"method": "GET", "path": "/"}, never, send)
    assert sent == [None, b"a", b"b", b""]
    assert source.is_closed

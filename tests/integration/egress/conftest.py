"""A server of any behaviour, and names that lead to it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path

from statewright.egress import Address, Egress, EgressLimits, EgressPolicy

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PERMITTED = "127.0.0.1"
REFUSED = "127.0.0.2"
"""As good an address of this machine as the other, but not in the networks that the policies of the tests permit."""


class Server:
    """Listens on a port of both addresses; ``requests`` holds the heads that came in, by address."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[tuple[str, str]] = []
        self.connections: list[str] = []

    def url(self, host: str = PERMITTED, path: str = "/", scheme: str = "http") -> str:
        """A URL of the server."""
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serve(answer: Answer | bytes, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server that gives ``answer`` to each request."""
    server = Server()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        server.connections.append(address)
        try:
            while head := await read_head(reader):
                server.requests.append((address, head))
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(accept, PERMITTED, 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    other = await asyncio.start_server(accept, REFUSED, server.port, ssl=tls)
    try:
        yield server
    finally:
        listener.close()
        other.close()


async def read_head(reader: asyncio.StreamReader) -> str:
    """The head of the next request; empty when there is none."""
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return ""


class Names:
    """A resolver: each name has the addresses of its next entry, the last one from then on."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(entries) for name, entries in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        del port
        self.asked.append(host)
        if host not in self.answers:
            raise OSError("no such name")
        entries = self.answers[host]
        return [ip_address(text) for text in (entries.pop(0) if len(entries) > 1 else entries[0])]


@asynccontextmanager
async def open_egress(
    names: Names | None = None,
    *,
    limits: EgressLimits | None = None,
    certificates: Path | None = None,
    hosts: tuple[str, ...] = (),
) -> AsyncIterator[Egress]:
    """What is tested; it may call ``PERMITTED`` beside public addresses."""
    policy = EgressPolicy(
        networks=(ip_network(PERMITTED),),
        hosts=hosts,
        limits=limits or EgressLimits(),
        certificates=certificates,
    )
    egress = Egress(policy, resolve=names)
    try:
        yield egress
    finally:
        await egress.close()


def respond(body: bytes = b"", *, status: str = "200 OK", **headers: str) -> bytes:
    """A response; underscores in names of headers stand for hyphens."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body

"""A way to the database that can be cut at the worst moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit


class Network:
    """Carries bytes between clients and the database.

    From then on ``mute`` holds back what the database says, and ``deafen`` what clients say.
    """

    def __init__(self, server: str) -> None:
        self._server = urlsplit(server)
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._speaks, self._hears = asyncio.Event(), asyncio.Event()
        self._speaks.set()
        self._hears.set()
        self.port = 0
        self.withheld = b""
        """What clients have said since the database was deafened."""

    @property
    def url(self) -> str:
        """The database, reached through this network."""
        credentials, _, _ = self._server.netloc.rpartition("@")
        place = f"127.0.0.1:{self.port}"
        netloc = f"{credentials}@{place}" if credentials else place
        return self._server._replace(netloc=netloc, query="sslmode=disable").geturl()

    def mute(self) -> None:
        """From now on clients hear nothing; what they say still arrives."""
        self._speaks.clear()

    def deafen(self) -> None:
        """From now on the database hears nothing; what it says still arrives."""
        self.withheld = b""
        self._hears.clear()

    def cut(self) -> None:
        """Break every connection, and let new ones speak and be heard."""
        for client, server in self._pairs:
            client.transport.abort()
            server.transport.abort()
        self._pairs.clear()
        self._speaks.set()
        self._hears.set()

    async def carry(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        answers, server = await self._connect()
        pair = (client, server)
        self._pairs.append(pair)
        with suppress(OSError):
            await asyncio.gather(self._listen(answers, client, pair), self._speak(reader, server, pair))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        directory = parse_qs(self._server.query).get("host")
        port = self._server.port or 5432
        if directory:
            return await asyncio.open_unix_connection(f"{directory[0]}/.s.PGSQL.{port}")
        return await asyncio.open_connection(self._server.hostname, port)

    async def _speak(
        self,
        reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
        pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        while data := await reader.read(65536):
            if not self._hears.is_set():
                self.withheld += data
            await self._hears.wait()
            if pair not in self._pairs:
                return  # it was cut while deaf: what the client said is lost
            server.write(data)
            await server.drain()
        server.close()

    async def _listen(
        self,
        answers: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        while data := await answers.read(65536):
            await self._speaks.wait()
            if pair not in self._pairs:
                return  # it was cut while mute: what the server said is lost
            client.write(data)
            await client.drain()
        client.close()


@asynccontextmanager
async def a_network(server: str) -> AsyncIterator[Network]:
    """A network to the database ``server``, open on a port of the system's choice."""
    network = Network(server)
    listener = await asyncio.start_server(network.carry, "127.0.0.1", 0)
    network.port = listener.sockets[0].getsockname()[1]
    try:
        yield network
    finally:
        network.cut()
        listener.close()
        await listener.wait_closed()

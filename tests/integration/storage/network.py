"""A way to the database that can be cut at the worst moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit


class Network:
    """Carries bytes between clients and the database.

    From then on ``mute`` holds back what the database says. ``mute_after`` does so once a client has said some words,
    and ``deafen_at`` holds back those words and whatever clients say after them.
    """

    def __init__(self, server: str) -> None:
        self._server = urlsplit(server)
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._speaks, self._hears = asyncio.Event(), asyncio.Event()
        self._speaks.set()
        self._hears.set()
        self.port = 0
        self.connections = 0
        """How often somebody has connected."""
        self._last_words: bytes | None = None
        self._unheard: bytes | None = None

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

    def mute_after(self, words: bytes) -> None:
        """Be mute as soon as a client has said these words, which the database still hears."""
        self._last_words = words

    def deafen_at(self, words: bytes) -> None:
        """The database hears nothing any more from these words of a client on."""
        self._unheard = words

    @property
    def is_cuttable(self) -> bool:
        """Whether the words have been said."""
        return not (self._speaks.is_set() and self._hears.is_set())

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
        self.connections += 1
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
            if self._unheard is not None and self._unheard in data:
                self._unheard = None
                self._hears.clear()
            await self._hears.wait()
            if pair not in self._pairs:
                return  # it was cut while deaf: what the client said is lost
            if self._last_words is not None and self._last_words in data:
                self._last_words = None
                self._speaks.clear()
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
async def a_network(server: str, kind: type[Network] = Network) -> AsyncIterator[Network]:
    """A network to the database ``server``, open on a port of the system's choice."""
    network = kind(server)
    listener = await asyncio.start_server(network.carry, "127.0.0.1", 0)
    network.port = listener.sockets[0].getsockname()[1]
    try:
        yield network
    finally:
        network.cut()
        listener.close()
        await listener.wait_closed()

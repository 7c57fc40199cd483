"""Publishing to JetStream of NATS, by ``nats-py`` (the extra ``nats``).

A connection that was lost is not mended but made anew with the next message: so what was under way on it fails at once,
and the caller, who repeats it, keeps the order. The stream drops a repetition by its ``Nats-Msg-Id``, within the window
that it has for that.
"""

import asyncio
import re
import ssl
from typing import Final
from urllib.parse import ParseResult

import nkeys
from msgspec import Struct
from nats.aio.client import Client, RawCredentials
from nats.aio.transport import TcpTransport
from nats.errors import Error as NatsError
from nats.js.errors import APIError

from statewright.egress.brokers import PUBLISH_TIMEOUT_S, Message, NotPublished, TlsSettings, describe_failure
from statewright.egress.client import Egress
from statewright.egress.policy import HttpFailure, NotReached

_CREDENTIALS: Final = re.compile(
    r"^.*BEGIN NATS USER JWT.*\n.+\n(?:.*\n)*?.*BEGIN USER NKEY SEED.*\n(.+)\n", re.MULTILINE
)
"""What the client reads of them: a token, and a seed."""

CONNECT_TIMEOUT_S: Final = 10
CLOSE_TIMEOUT_S: Final = 2.0


class NatsSettings(Struct, frozen=True, kw_only=True):
    """Where to publish. ``stream``: the one that has to keep it; None: whichever has the subject. ``seed`` is an NKey,
    ``credentials`` what a file of credentials holds.
    """

    servers: tuple[str, ...]
    subject: str
    stream: str | None = None
    username: str | None = None
    password: str | None = None
    token: str | None = None
    seed: str | None = None
    credentials: str | None = None
    tls: TlsSettings = TlsSettings()

    def read_credentials(self) -> str | None:
        """The credentials with lines as the client reads them, which looks for what is not there for ever. Raises
        ``ValueError`` for those, or a seed, that nobody can log in with.
        """
        text = None if self.credentials is None else "\n".join(self.credentials.splitlines()) + "\n"
        found = None if text is None else _CREDENTIALS.search(text)
        if text is not None and found is None:
            raise ValueError("credentials are the text of a file of credentials, with a token and a seed")
        seed = self.seed if found is None else found[1]
        try:
            if seed is not None:
                nkeys.from_seed(seed.strip().encode())
        except (nkeys.NkeysError, ValueError) as error:
            raise ValueError("the seed is no NKey") from error
        return text


class NatsBroker:
    """A subject of JetStream. It connects when something is published."""

    def __init__(self, egress: Egress, settings: NatsSettings) -> None:
        self._egress = egress
        self._settings = settings
        self._lock = asyncio.Lock()
        self._link: _Link | None = None

    async def publish(self, message: Message) -> None:
        """Come back when the stream has the message. Raises ``NotPublished``."""
        try:
            async with asyncio.timeout(2 * PUBLISH_TIMEOUT_S):
                link = await self._open()
                await link.publish(self._settings, message)
        except APIError as error:
            raise NotPublished(f"nats: {error.description or type(error).__name__:.200}") from error
        except NotReached as error:
            raise NotPublished(str(error), is_away=True) from error
        except (
            OSError,
            NatsError,
            nkeys.NkeysError,
            TimeoutError,
            ValueError,
        ) as error:  # what it says may name addresses
            is_lost = isinstance(error, ConnectionError | ssl.SSLError) and self._settings.servers[0].startswith("tls:")
            raise NotPublished(describe_failure("nats", error, is_lost=is_lost), is_away=True) from error

    async def _open(self) -> "_Link":
        async with self._lock:
            if self._link is None or self._link.is_over.is_set():
                await self._discard()
                context = await asyncio.to_thread(self._settings.tls.build_context, self._egress.policy)
                credentials = self._settings.read_credentials()
                link = _Link(self._egress)
                try:
                    await link.connect(self._settings, context, credentials)
                except BaseException:
                    await link.close()
                    raise
                self._link = link
            return self._link

    async def close(self) -> None:
        """Close the connection."""
        async with self._lock:
            await self._discard()

    async def _discard(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()


class _Link:
    """One connection."""

    _failure: Exception | None = None

    def __init__(self, egress: Egress) -> None:
        self.is_over = asyncio.Event()
        self._transport = _CheckedTransport(egress)
        self._client = Client()
        self._client._transport = self._transport

    async def connect(self, settings: NatsSettings, context: ssl.SSLContext, credentials: str | None) -> None:
        """Connect with one of the servers. Raises ``OSError``, ``NatsError``."""
        try:
            await self._client.connect(
                list(settings.servers),
                error_cb=self._note,
                closed_cb=self._end,
                name="statewright",
                allow_reconnect=False,
                connect_timeout=CONNECT_TIMEOUT_S,
                reconnect_time_wait=0,
                max_reconnect_attempts=1,
                tls=context,
                user=settings.username,
                password=settings.password,
                token=settings.token,
                nkeys_seed_str=settings.seed,
                user_credentials=None if credentials is None else RawCredentials(credentials),
            )
        except NatsError:
            raise (self._failure if isinstance(self._failure, OSError) else None) or NatsError from self._failure

    async def _note(self, error: Exception) -> None:
        self._failure = error

    async def _end(self) -> None:
        self.is_over.set()

    async def publish(self, settings: NatsSettings, message: Message) -> None:
        """Publish, and wait for what the stream says. Raises ``NatsError``, ``TimeoutError``, ``NotReached``."""
        headers = {"content-type": message.media_type, **({} if message.is_repeated else {"Nats-Msg-Id": message.id})}
        stream = self._client.jetstream(timeout=PUBLISH_TIMEOUT_S)
        sending = asyncio.ensure_future(
            stream.publish(settings.subject, message.body, stream=settings.stream, headers=headers)
        )
        ending = asyncio.ensure_future(self.is_over.wait())
        try:
            await asyncio.wait({sending, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise NotReached(HttpFailure(reason="connection_lost", detail="the server has closed the connection"))
            sending.result()
        finally:
            ending.cancel()
            if not sending.cancel() and not sending.cancelled():
                sending.exception()

    async def close(self) -> None:
        """Close the connection."""
        self.is_over.set()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._client.close()
        except (OSError, NatsError, TimeoutError):
            self._transport.close()  # type: ignore[no-untyped-call]  # as it comes


class _CheckedTransport(TcpTransport):
    """Connects as the policy permits, and tells nothing before TLS where that is needed."""

    def __init__(self, egress: Egress) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as it comes
        self._egress = egress
        self._needs_tls = egress.policy.requires_https

    def __bool__(self) -> bool:
        """The client takes another one while this is false."""
        return True

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        """Connect with an address that was checked."""
        del connect_timeout
        connected = await self._egress.connect(uri.hostname or "", uri.port or 4222)
        reader, writer = await asyncio.open_connection(sock=connected, limit=buffer_size)
        self._bare_io_reader = self._io_reader = reader
        self._bare_io_writer = self._io_writer = writer
        self._needs_tls = self._needs_tls or uri.scheme == "tls"

    async def connect_tls(
        self, uri: str | ParseResult, ssl_context: ssl.SSLContext, buffer_size: int, connect_timeout: int
    ) -> None:
        """Go on by TLS. Raises ``NotReached`` where the certificate is not accepted."""
        try:
            await super().connect_tls(uri, ssl_context, buffer_size, connect_timeout)
        except ssl.SSLError as error:
            raise NotReached(HttpFailure(reason="tls_failed", detail="the handshake failed")) from error
        self._needs_tls = False

    def write(self, payload: bytes) -> None:
        """Send. Raises ``NotReached`` where the server does not speak TLS, and has to."""
        if self._needs_tls:
            raise NotReached(HttpFailure(reason="tls_failed", detail="the server does not speak TLS"))
        super().write(payload)  # type: ignore[no-untyped-call]  # as it comes

"""Publishing to Kafka, by ``aiokafka`` (the extra ``kafka``).

It is written in asyncio throughout, so every connection can be made to an address that was checked: those to the
servers that a tenant has named, and those to the brokers whose names these servers tell. Clients on librdkafka resolve
and connect in threads of their own, where nothing can stand between. What is used here is not promised: the extra pins
the version.

A partition has one request under way, so the messages of a key keep their order whatever is repeated. They are
published at least once: a batch whose answer was lost is sent again.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import chain
from typing import Any, Final, TypeAlias

from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.util import create_task
from msgspec import Struct

from statewright.egress.brokers import PUBLISH_TIMEOUT_S, Message, NotPublished, TlsSettings, describe_failure
from statewright.egress.client import Egress
from statewright.egress.policy import HttpFailure, NotReached

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
"""What it says of every attempt is told with the delivery."""

CLOSE_TIMEOUT_S: Final = 1.0
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024

_Failures: TypeAlias = tuple[type[Exception], ...]
_FAILURES: Final[_Failures] = (OSError, KafkaError, TimeoutError, AssertionError)
"""``aiokafka`` asserts what servers answer."""


class KafkaSettings(Struct, frozen=True, kw_only=True):
    """Where to publish, as clients of Kafka name it. ``protocol``: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT``,
    ``SASL_SSL``.
    """

    servers: tuple[str, ...]
    topic: str
    protocol: str
    mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    tls: TlsSettings = TlsSettings()
    timeout_s: float = PUBLISH_TIMEOUT_S


class KafkaBroker:
    """A topic of Kafka. It connects when something is published."""

    def __init__(self, egress: Egress, settings: KafkaSettings) -> None:
        self._egress = egress
        self._settings = settings
        self._lock = asyncio.Lock()
        self._producer: _Producer | None = None
        self._is_lost = False

    async def publish(self, message: Message) -> None:
        """Come back when all replicas that are in sync have the message. Raises ``NotPublished``."""
        producer: _Producer | None = None
        try:
            async with asyncio.timeout(
                3 * self._settings.timeout_s
            ):  # connecting, waiting for its batch, and for the answer
                producer = await self._open()
                sent = await producer.send(
                    self._settings.topic,
                    message.body,
                    key=message.key.encode(),
                    headers=[
                        ("content-type", message.media_type.encode()),
                        *([("redelivery", b"true")] if message.is_repeated else ()),
                    ],
                )
                await sent
        except _FAILURES as error:
            is_away = not isinstance(error, KafkaError) or bool(error.retriable)
            if is_away and producer is self._producer:
                self._is_lost = True  # the next one asks the servers anew that were named
            raise NotPublished(self._describe(error, producer), is_away=is_away) from error

    def _describe(self, error: Exception, producer: "_Producer | None") -> str:
        if isinstance(error, NotReached):
            return str(error)
        known = producer.problem if producer is not None else None
        return known or _describe(error, self._settings.protocol)

    async def _open(self) -> "_Producer":
        async with self._lock:
            if self._is_lost:
                await self._discard()
            if self._producer is None:
                self._producer = await self._start()
            return self._producer

    async def _start(self) -> "_Producer":
        policy, context = self._egress.policy, None
        if self._settings.protocol.endswith("SSL"):
            context = await asyncio.to_thread(self._settings.tls.build_context, policy)
        elif policy.requires_https:
            raise NotReached(HttpFailure(reason="scheme_refused", detail="it must be reached by TLS"))
        producer = _Producer(self._egress, self._settings, context)
        try:
            await producer.start()
        except BaseException:  # cancelled, too
            await producer.stop()
            raise
        return producer

    async def close(self) -> None:
        """Close the connections; what waits for a broker that is away is dropped."""
        async with self._lock:
            producer, self._producer = self._producer, None
            if producer is not None:
                await producer.stop_soon()

    async def _discard(self) -> None:
        """What it has not sent yet goes out, or fails, before anything else is published."""
        producer, self._producer, self._is_lost = self._producer, None, False
        if producer is not None:
            await producer.stop()


def _describe(error: Exception, protocol: str) -> str:
    is_lost = isinstance(error, ConnectionError | KafkaConnectionError) and protocol.endswith("SSL")
    return describe_failure("kafka", error, is_lost=is_lost)


class _Producer(AIOKafkaProducer):  # type: ignore[misc]  # it has no types
    """Connects as the policy permits."""

    def __init__(self, egress: Egress, settings: KafkaSettings, context: object) -> None:
        options: dict[str, Any] = {  # Any: as it takes them
            "client_id": "statewright",
            "request_timeout_ms": int(settings.timeout_s * 1000),
            "security_protocol": settings.protocol,
            "ssl_context": context,
            "sasl_mechanism": settings.mechanism or "PLAIN",
            "sasl_plain_username": settings.username,
            "sasl_plain_password": settings.password,
        }
        super().__init__(
            bootstrap_servers=",".join(settings.servers), acks="all", max_request_size=MAX_MESSAGE_BYTES, **options
        )
        self._checked = _adopt(self.client)
        self._checked.prepare(egress, settings.topic, options)

    async def stop_soon(self) -> None:
        """Close the connections. What is under way may come to its end for a moment."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.stop()
        except TimeoutError:
            waiting = self._message_accumulator
            for batch in [*waiting._pending_batches, *chain.from_iterable(waiting._batches.values())]:
                batch._ttl = 0.0  # it is given up at its next turn
            self._checked.drop_connections()
            await waiting.flush()
            await self._sender.close()
            await self._checked.close()

    @property
    def problem(self) -> str | None:
        """Why there was no connection the last time that one was made; None when there was."""
        return self._checked.problem


def _adopt(client: Any) -> "_Client":  # Any: producers make their client by themselves
    client.__class__ = _Client
    assert isinstance(client, _Client)  # noqa: S101 - by now
    return client


class _Client(AIOKafkaClient):  # type: ignore[misc]  # it has no types
    """Knows brokers and leaders of one topic."""

    def prepare(self, egress: Egress, topic: str, options: dict[str, Any]) -> None:
        """What it needs beside."""
        self._egress = egress
        self._options = options
        self._topics = {topic}
        self.problem: str | None = None

    def drop_connections(self) -> None:
        """Requests under way fail."""
        for connection in list(self._conns.values()):
            connection.close()

    async def bootstrap(self) -> None:
        """Ask the servers that were named for the others. Raises ``OSError``, ``KafkaError``."""
        failure: Exception = KafkaConnectionError("no server was named")
        for host, port, _ in self.hosts:
            try:
                connection = await self._connect(host, port, None)
            except _FAILURES as error:
                failure = error
                continue
            self._conns["bootstrap", ConnectionGroup.DEFAULT] = connection
            if await self._metadata_update(self.cluster, self._topics):
                self._sync_task = create_task(self._md_synchronizer())
                return
            failure = KafkaConnectionError("no metadata")
        raise failure

    async def _get_conn(
        self, node_id: object, *, group: object = ConnectionGroup.DEFAULT, no_hint: bool = False
    ) -> Any:
        del no_hint
        async with self._get_conn_lock:
            known = self._conns.get((node_id, group))
            if known is not None and known.connected():
                return known
            self._conns.pop((node_id, group), None)
            broker = self.cluster.broker_metadata(node_id)
            if broker is None:
                self.force_metadata_update()
                return None
            try:
                made = await self._connect(broker.host, broker.port, self._on_connection_closed)
            except _FAILURES:
                self.force_metadata_update()
                return None
            self._conns[node_id, group] = made
            return made

    async def _connect(self, host: str, port: int, on_close: Callable[..., None] | None) -> "_Connection":
        made = _Connection(host, port, on_close=on_close, max_idle_ms=540_000, **self._options)
        try:
            await made.connect_by(self._egress)
        except _FAILURES as error:
            protocol = self._options["security_protocol"]
            self.problem = str(error) if isinstance(error, NotReached) else _describe(error, protocol)
            raise
        self.problem = None
        return made


class _Connection(AIOKafkaConnection):  # type: ignore[misc]  # it has no types
    async def connect_by(self, egress: Egress) -> None:
        """Connect as the policy permits. Raises ``NotReached`` among others."""
        self._loop = _CheckedLoop(asyncio.get_running_loop(), egress)
        await self.connect()


class _CheckedLoop:
    """The event loop, which makes connections to addresses that were checked."""

    def __init__(self, loop: asyncio.AbstractEventLoop, egress: Egress) -> None:
        self._loop = loop
        self._egress = egress

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, ssl: Any = None
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """As that of the loop. ``ssl`` is a context, or None."""
        connected = await self._egress.connect(host, port)
        name = None if ssl is None else host
        return await self._loop.create_connection(factory, sock=connected, ssl=ssl, server_hostname=name)

    def __getattr__(self, name: str) -> Any:  # Any: whatever the loop has
        return getattr(self._loop, name)

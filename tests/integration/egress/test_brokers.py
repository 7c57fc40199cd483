"""Clients of brokers reach what the policy permits, and nothing else (docs/reference/operations.md#brokers)."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network

import nkeys
import pytest

from statewright.egress import Egress, EgressPolicy
from statewright.egress.brokers import Broker, Message, NotPublished
from statewright.egress.kafka import KafkaBroker, KafkaSettings
from statewright.egress.nats import NatsBroker, NatsSettings
from tests.integration.egress.conftest import PERMITTED, REFUSED, Names, Server, open_egress, serve

MESSAGE = Message(key="k", id="m-1", body=b"{}", media_type="application/json")
INFO = b'INFO {"server_id":"x","version":"2.15.2","proto":1,"headers":true,"max_payload":1048576}\r\n'


def build_kafka(egress: Egress, host: str, port: int) -> Broker:
    settings = KafkaSettings(servers=(f"{host}:{port}",), topic="events", protocol="PLAINTEXT", timeout_s=1.0)
    return KafkaBroker(egress, settings)


def build_nats(egress: Egress, host: str, port: int) -> Broker:
    return NatsBroker(egress, NatsSettings(servers=(f"nats://{host}:{port}",), subject="events"))


async def why(broker: Broker) -> str:
    """Why a message is not published."""
    try:
        with pytest.raises(NotPublished) as refusal:
            await broker.publish(MESSAGE)
        return str(refusal.value)
    finally:
        await broker.close()


@pytest.mark.parametrize("build", [build_kafka, build_nats])
async def test_a_name_that_is_private_when_it_is_connected_is_not_reached(build):
    names = Names(rebinding_test=[[PERMITTED], [REFUSED]])
    async with serve(b"") as server, open_egress(names) as egress:
        assert await egress.check(f"https://rebinding.test:{server.port}/") is None
        assert await why(build(egress, "rebinding.test", server.port)) == (
            "address_refused: rebinding.test has an address that is not permitted"
        )
    assert server.connections == []


@pytest.mark.parametrize("build", [build_kafka, build_nats])
async def test_a_server_that_does_not_listen_is_named(build):
    async with serve(b"") as server:
        port = server.port
    async with open_egress() as egress:
        assert await why(build(egress, PERMITTED, port)) == ("connection_failed: 127.0.0.1 does not accept connections")


async def test_a_broker_that_kafka_names_is_checked_like_the_first_one():
    """Its metadata lead to an address that is not permitted: nothing goes there."""
    async with serve_kafka(REFUSED) as server, open_egress() as egress:
        assert "address_refused: 127.0.0.2" in await why(build_kafka(egress, PERMITTED, server.port))
    assert set(server.connections) == {PERMITTED}


async def test_a_client_of_kafka_is_closed_at_once_though_its_broker_is_away():
    """What waits would be sent for a minute."""
    async with serve_kafka(REFUSED) as server, open_egress() as egress:
        place = f"{PERMITTED}:{server.port}"
        broker = KafkaBroker(
            egress, KafkaSettings(servers=(place,), topic="events", protocol="PLAINTEXT", timeout_s=60.0)
        )
        publishing = asyncio.create_task(broker.publish(MESSAGE))
        while not server.connections:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        async with asyncio.timeout(30):
            await broker.close()


@pytest.mark.parametrize("build", [build_kafka, build_nats])
async def test_nothing_is_told_without_tls_where_that_is_needed(build):
    """Also where the server says, or whoever stands between, that it knows none."""
    egress = Egress(EgressPolicy(networks=(ip_network(PERMITTED),), requires_https=True))
    async with serve_nats() as server:
        assert "TLS" in await why(build(egress, PERMITTED, server.port))
    assert server.requests == []
    await egress.close()


async def test_credentials_that_nobody_can_log_in_with_are_not_tried():
    """The client looks for the token in them, for ever where there is none: the node would hang."""
    key = nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER).decode()
    seed = f"-----BEGIN USER NKEY SEED-----\n{key}\n"
    async with serve_nats(greeting=INFO.replace(b"{", b'{"nonce":"x",', 1)) as server, open_egress() as egress:
        servers = (f"nats://{PERMITTED}:{server.port}",)
        for login in ({"credentials": seed}, {"credentials": "no"}, {"seed": "no"}):
            broker = NatsBroker(egress, NatsSettings(servers=servers, subject="events", **login))
            assert await why(broker) == "nats: ValueError"
        token = "-----BEGIN NATS USER JWT-----\r\na.b.c\r\n------END NATS USER JWT------\r\n\r\n"
        whole = NatsSettings(servers=servers, subject="events", credentials=token + seed.strip())
        broker = NatsBroker(egress, whole)
        await broker.publish(MESSAGE)
        await broker.close()
    assert len(server.requests) == 1


async def test_a_message_is_published_when_the_stream_says_so():
    async with serve_nats() as server, open_egress() as egress:
        broker = build_nats(egress, PERMITTED, server.port)
        await broker.publish(MESSAGE)
        await broker.publish(MESSAGE)
        await broker.close()
    assert len(server.connections) == 1
    heads = [head for _, head in server.requests]
    assert len(heads) == 2
    for head in heads:
        assert "Nats-Msg-Id: m-1\r\n" in head
        assert "content-type: application/json\r\n" in head


async def test_a_connection_that_is_lost_fails_what_is_under_way_and_is_made_anew():
    async with serve_nats(answers=[None, b'{"stream":"S","seq":1}']) as server, open_egress() as egress:
        broker = build_nats(egress, PERMITTED, server.port)
        with pytest.raises(NotPublished, match="connection_lost"):
            await broker.publish(MESSAGE)
        await broker.publish(MESSAGE)
        await broker.close()
    assert len(server.connections) == 2


async def test_what_a_stream_refuses_is_told():
    error = b'{"error":{"code":400,"err_code":10077,"description":"maximum messages exceeded"},"stream":"","seq":0}'
    async with serve_nats(answers=[error]) as server, open_egress() as egress:
        assert await why(build_nats(egress, PERMITTED, server.port)) == "nats: maximum messages exceeded"


@asynccontextmanager
async def serve_nats(answers: list[bytes | None] | None = None, greeting: bytes = INFO) -> AsyncIterator[Server]:
    """A server of NATS with one stream, which acknowledges messages, or answers otherwise (None: it goes away).
    ``requests`` has their headers.
    """
    server = Server()
    left = list(answers or [])

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections.append(writer.get_extra_info("sockname")[0])
        writer.write(greeting)
        while line := (await reader.readline()).decode().split():
            if line[0] == "PING":
                writer.write(b"PONG\r\n")
            if line[0] == "HPUB":
                _, _subject, reply, size, total = line
                content = await reader.readexactly(int(total) + 2)
                server.requests.append(("", content[: int(size)].decode()))
                answer = left.pop(0) if left else b'{"stream":"S","seq":1}'
                if answer is None:
                    break
                writer.write(f"MSG {reply} 1 {len(answer)}\r\n".encode() + answer + b"\r\n")
        writer.close()

    listener = await asyncio.start_server(accept, PERMITTED, 0)
    server.port = listener.sockets[0].getsockname()[1]
    yield server
    listener.close()


@asynccontextmanager
async def serve_kafka(named: str) -> AsyncIterator[Server]:
    """A server of Kafka which says that the topic is at another one, ``named``, on the same port."""
    server = Server()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections.append(writer.get_extra_info("sockname")[0])
        try:
            while True:
                [size] = struct.unpack(">i", await reader.readexactly(4))
                kind, _version, number = struct.unpack_from(">hhi", await reader.readexactly(size))
                answer = struct.pack(">i", number) + (_VERSIONS if kind == 18 else describe_topic(named, server.port))
                writer.write(struct.pack(">i", len(answer)) + answer)
        except asyncio.IncompleteReadError:
            writer.close()

    listener = await asyncio.start_server(accept, PERMITTED, 0)
    server.port = listener.sockets[0].getsockname()[1]
    other = await asyncio.start_server(accept, REFUSED, server.port)
    yield server
    listener.close()
    other.close()


_VERSIONS = struct.pack(">hi", 0, 3) + b"".join(struct.pack(">hhh", key, 0, 1) for key in (0, 3, 18))
"""It knows Produce, Metadata and ApiVersions, each in its first versions."""


def describe_topic(host: str, port: int) -> bytes:
    """Metadata: one broker, and one partition, which it leads."""
    name = host.encode()
    broker = struct.pack(f">iih{len(name)}sih", 1, 1, len(name), name, port, -1)
    topic = struct.pack(">iihh6s?", 1, 1, 0, 6, b"events", False)
    partition = struct.pack(">ihiiiiii", 1, 0, 0, 1, 1, 1, 1, 1)
    return broker + topic + partition

"""A pooler between service and database, and a database that is not there yet (docs/guides/postgresql.md)."""

import asyncio
import struct
from datetime import timedelta

import pytest

from statewright.app.database import connect_when_ready
from statewright.failures import StorageUnavailable
from statewright.storage.commit.group_commit import configure_commit_sessions
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import connect
from statewright.storage.search.query import configure_past_sessions
from tests.database import connected
from tests.integration.storage.network import Network, a_network

KNOWN = {
    "user",
    "database",
    "application_name",
    "client_encoding",
    "datestyle",
    "timezone",
    "standard_conforming_strings",
}
"""Parameters of a start that PgBouncer takes (its manual, ``ignore_startup_parameters``)."""


class Pooler(Network):
    """Reads the first words of a session as PgBouncer does."""

    async def carry(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack("!I", await reader.readexactly(4))
        start = await reader.readexactly(length - 4)
        names = {name.decode().lower() for name in start[4:].split(b"\0")[:-2:2]}
        if unknown := names - KNOWN:
            text = f"SFATAL\0C08P01\0Munsupported startup parameter: {min(unknown)}\0\0".encode()
            client.write(b"E" + struct.pack("!I", len(text) + 4) + text)
            client.close()
            return
        told = asyncio.StreamReader()
        told.feed_data(struct.pack("!I", length) + start)
        forwarding = asyncio.create_task(feed(reader, told))
        await super().carry(told, client)
        await forwarding


async def feed(source: asyncio.StreamReader, sink: asyncio.StreamReader) -> None:
    while data := await source.read(65536):
        sink.feed_data(data)
    sink.feed_eof()


async def test_every_kind_of_session_begins_behind_a_pooler(database: str):
    async with a_network(database, Pooler) as pooler:
        plain = parse_database_url(pooler.url)
        expected = {
            plain: {"jit": "off"},
            configure_commit_sessions(plain): {"jit": "off", "lock_timeout": "250ms"},
            configure_past_sessions(plain, timeout=timedelta(seconds=9)): {"jit": "off", "enable_seqscan": "off"},
        }
        for sessions, settings in expected.items():
            connection = await connect(sessions)
            assert {name: await connection.fetchval(f"SHOW {name}") for name in settings} == settings
            await connection.close()


async def test_sessions_are_the_same_whatever_a_database_is_set_to(database: str):
    """With escapes in texts searches for a text with a backslash failed, and serializable sessions refused writes."""
    hostile = {
        "default_transaction_isolation": "serializable",
        "standard_conforming_strings": "off",
        "transform_null_equals": "on",
    }
    async with connected(database) as admin:
        name = await admin.fetchval("SELECT current_database()")
        for parameter, value in hostile.items():
            await admin.execute(f"ALTER DATABASE \"{name}\" SET {parameter} = '{value}'")
    async with connected(database) as stranger:
        assert {each: await stranger.fetchval(f"SHOW {each}") for each in hostile} == hostile
    connection = await connect(parse_database_url(database))
    assert [await connection.fetchval(f"SHOW {each}") for each in hostile] == ["read committed", "on", "off"]
    await connection.close()


async def test_a_database_that_is_not_there_yet_is_waited_for(database: str):
    network = Network(database)
    listener = await asyncio.start_server(network.carry, "127.0.0.1", 0)
    network.port = listener.sockets[0].getsockname()[1]
    listener.close()  # nobody listens at that port now
    connecting = asyncio.create_task(connect_when_ready(parse_database_url(network.url)))
    done, _ = await asyncio.wait([connecting], timeout=0.2)
    assert not done
    listener = await asyncio.start_server(network.carry, "127.0.0.1", network.port, reuse_address=True)
    connection = await connecting
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()
    listener.close()


async def test_what_waiting_does_not_change_is_told_at_once(database: str):
    broken = database.replace("?", "_no_such?", 1) if "?" in database else f"{database}_no_such"
    with pytest.raises(StorageUnavailable):
        await asyncio.wait_for(connect_when_ready(parse_database_url(broken)), 10)

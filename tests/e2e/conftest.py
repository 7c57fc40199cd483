"""Databases in unusual conditions."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.database import connected


@pytest.fixture
async def newer_database(database: str) -> str:
    """A database that a later release has migrated."""
    async with connected(database) as connection:
        await connection.execute(
            "INSERT INTO schema_migration (version, name, checksum) "
            "SELECT max(version) + 1, '9999_from_the_future.sql', max(checksum) FROM schema_migration"
        )
    return database


@pytest.fixture
async def empty_database(database_server: str) -> AsyncIterator[str]:
    """A database without tables."""
    name = f"empty_{uuid4().hex}"
    async with connected(database_server) as connection:
        await connection.execute(f'CREATE DATABASE "{name}"')
    yield urlsplit(database_server)._replace(path=f"/{name}").geturl()
    async with connected(database_server) as connection:
        await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

"""A store on a database of its own."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.storage.store import Store, a_store


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    async with a_store(database) as opened:
        yield opened

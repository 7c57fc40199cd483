"""A store on a database of its own."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.storage.store import Store, a_store


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    async with a_store(database) as opened:
        yield opened


@pytest.fixture
async def patient_store(database: str) -> AsyncIterator[Store]:
    """A store whose statements wait for every lock, so that a test can stop them wherever it wants."""
    async with a_store(database, lock_timeout=False) as opened:
        yield opened

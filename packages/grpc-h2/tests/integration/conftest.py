"""The loop of production, and a server on it."""

from collections.abc import AsyncIterator

import pytest
import uvloop

from grpc_h2_testing.echo import Client, House, a_client, a_house


def pytest_asyncio_loop_factories() -> dict[str, type[uvloop.Loop]]:
    return {"uvloop": uvloop.Loop}


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with a_house() as opened:
        yield opened


@pytest.fixture
async def client(house: House) -> AsyncIterator[Client]:
    async with a_client(house) as connected:
        yield connected

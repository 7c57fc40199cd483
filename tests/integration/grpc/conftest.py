"""The loop of production, and an open door on it."""

from collections.abc import AsyncIterator

import pytest
import uvloop

from tests.integration.grpc.door import Door, an_open_door


def pytest_asyncio_loop_factories() -> dict[str, type[uvloop.Loop]]:
    return {"uvloop": uvloop.Loop}


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with an_open_door() as opened:
        yield opened

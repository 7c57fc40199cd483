"""The floor of the modes: a handler as one writes it first, which holds its connection while it waits for the processor.

The same rows in the same tables and the same requests as the service, Litestar and a pool of as many connections. The
processor is a pause. Run it with uvicorn; ``HELD_DATABASE`` is the URL of a migrated database.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
from litestar import Litestar, post, put
from litestar.datastructures import State
from litestar.exceptions import ClientException

from benchmarks.statements import Rows

TENANT, CONNECTIONS = "held", 10
rows = Rows(TENANT)


@asynccontextmanager
async def database(app: Litestar) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["HELD_DATABASE"], min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        app.state.pool = pool
        yield


@post("/api/entity/JSON/{name:str}/{version:int}", status_code=200)
async def create(state: State, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    async with state.pool.acquire() as connection, connection.transaction():
        written = [await rows.create(connection, json.dumps(each)) for each in data]
    return [{"entityIds": [each.entity for each in written], "transactionId": written[0].transaction}]


@put("/api/entity/JSON/{entity_id:uuid}/{transition:str}")
async def move(state: State, entity_id: UUID, transition: str, data: dict[str, Any]) -> dict[str, Any]:
    """``<anything>-<milliseconds>-<close or reopen>``."""
    pause = int(transition.split("-")[-2]) / 1000
    async with state.pool.acquire() as connection, connection.transaction():
        await rows.read(connection, entity_id)
        await asyncio.sleep(pause)
        written = await rows.transition(connection, entity_id, json.dumps(data))
    if written is None:
        raise ClientException(f"entity {entity_id} has been moved meanwhile", status_code=409)
    return {"entityIds": [written.entity], "transactionId": written.transaction}


app = Litestar([create, move], lifespan=[database])

"""The baseline: creating, reading and moving entities as one writes it first, with Litestar and asyncpg's pool.

It keeps the same rows in the same tables and speaks the same paths, so that the same clients measure it. It has no
authentication, no validation and no workflow. Run it with uvicorn; ``NAIVE_DATABASE`` is the URL of a migrated
database.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
from litestar import Litestar, get, post, put
from litestar.datastructures import State
from litestar.exceptions import ClientException, NotFoundException

from benchmarks.statements import Rows
from benchmarks.workload import MODEL, VERSION
from statewright.instants import to_rfc3339

TENANT = "naive"
rows = Rows(TENANT)


@asynccontextmanager
async def database(app: Litestar) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["NAIVE_DATABASE"]) as pool:
        app.state.pool = pool
        yield


@post("/api/entity/JSON/{name:str}/{version:int}", status_code=200)
async def create(state: State, data: dict[str, Any]) -> list[dict[str, Any]]:
    async with state.pool.acquire() as connection, connection.transaction():
        written = await rows.create(connection, json.dumps(data))
    return [{"entityIds": [written.entity], "transactionId": written.transaction}]


@get("/api/entity/{entity_id:uuid}")
async def read(state: State, entity_id: UUID) -> dict[str, Any]:
    row = await rows.read(state.pool, entity_id)
    if row is None:
        raise NotFoundException(f"entity {entity_id} not found")
    return {
        "type": "ENTITY",
        "data": json.loads(row["document"]),
        "meta": {
            "id": str(entity_id),
            "modelKey": {"name": MODEL, "version": VERSION},
            "state": row["state"],
            "creationDate": to_rfc3339(row["created_at"]),
            "lastUpdateTime": to_rfc3339(row["valid_from"]),
            "transactionId": str(row["transaction_id"]),
            "transitionForLatestSave": row["transition"],
        },
    }


@put("/api/entity/JSON/{entity_id:uuid}/{transition:str}")
async def move(state: State, entity_id: UUID, data: dict[str, Any]) -> dict[str, Any]:
    async with state.pool.acquire() as connection, connection.transaction():
        written = await rows.transition(connection, entity_id, json.dumps(data))
    if written is None:
        raise ClientException(f"entity {entity_id} has been moved meanwhile", status_code=409)
    return {"entityIds": [written.entity], "transactionId": written.transaction}


app = Litestar([create, read, move], lifespan=[database])

"""Payloads are written and read in pieces (docs/reference/entities.md#read-a-message)."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from itertools import repeat
from uuid import uuid4

import pytest

from statewright.entity import Principal
from statewright.ids import TenantId
from statewright.services import messages as use_cases
from statewright.services.messages import MessageGone
from statewright.storage import messages
from statewright.storage.connections import parse_database_url
from statewright.storage.messages import StoredMessage
from statewright.storage.pool import Pool
from tests.database import connected
from tests.service import PATIENCE_S, Api, RunningService, done

TENANT = TenantId("tenant")
PIECE = b"x" * 65536


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    async with Pool(parse_database_url(database), size=2) as pool:
        yield pool


def a_message() -> StoredMessage:
    return StoredMessage(tenant=TENANT, id=str(uuid4()), header="{}", metadata=b"{}")


async def rows(database: str) -> tuple[int, int]:
    async with connected(database) as connection:
        count = "SELECT (SELECT count(*) FROM message), (SELECT count(*) FROM message_piece)"
        return tuple(await connection.fetchrow(count))


async def test_a_short_payload_is_one_row(database: str, pool: Pool) -> None:
    message = a_message()
    await messages.store_message(pool, message, iter([b"1"]))
    assert await rows(database) == (1, 0)
    found = await messages.fetch_message(pool, TENANT, message.id)
    assert found is not None
    assert (found.content, found.pieces) == (b"1", 1)


async def test_the_pieces_of_a_long_one_are_read_one_by_one(pool: Pool) -> None:
    message = a_message()
    await messages.store_message(pool, message, iter([b"a", b"b", b"c"]))
    found = await messages.fetch_message(pool, TENANT, message.id)
    assert found is not None
    assert (found.content, found.pieces) == (b"a", 3)
    assert [await messages.fetch_piece(pool, TENANT, message.id, n) for n in (1, 2, 3)] == [b"b", b"c", None]
    assert await messages.fetch_piece(pool, TenantId("other"), message.id, 1) is None


async def test_deleting_leaves_no_piece_behind(database: str, pool: Pool) -> None:
    message = a_message()
    await messages.store_message(pool, message, iter([b"a", b"b", b"c"]))
    assert await messages.remove_messages(pool, TENANT, [str(uuid4()), message.id]) == 1
    assert await rows(database) == (0, 0)


async def test_a_payload_that_fails_half_way_leaves_nothing_behind(database: str, pool: Pool) -> None:
    def failing() -> Iterator[bytes]:
        yield from (b"a", b"b", b"c")
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        await messages.store_message(pool, a_message(), failing())
    assert await rows(database) == (0, 0)
    await messages.store_message(pool, a_message(), iter([b"a"]))


async def test_storing_and_reading_hold_a_few_pieces_at_a_time(pool: Pool) -> None:
    message = a_message()
    await messages.store_message(
        pool, a_message(), iter([PIECE, PIECE])
    )  # what is loaded once is no matter of this test
    tracemalloc.start()
    try:
        await messages.store_message(pool, message, repeat(PIECE, 480))
        for n in range(1, 480):
            assert await messages.fetch_piece(pool, TENANT, message.id, n) == PIECE
        assert tracemalloc.get_traced_memory()[1] < len(PIECE) * 480 // 8
    finally:
        tracemalloc.stop()


def test_a_message_that_is_deleted_while_it_is_read_cannot_be_completed(
    service: RunningService, api: Api, tenant: str
) -> None:
    [result] = done(api.post("/message/new/x", {"payload": "x" * 200_000}, Content_Type="application/json"))
    [message] = result["entityIds"]
    runtime = service.parts.runtime
    alice = Principal(id="alice", name="alice", kind="user", tenant=TenantId(tenant))

    async def read_and_delete() -> None:
        reading = await use_cases.read(runtime.core, alice, message)
        assert (await anext(reading.content)).startswith(b'"x')
        await use_cases.delete(runtime.core, alice, message)
        with pytest.raises(MessageGone):
            await anext(reading.content)

    asyncio.run_coroutine_threadsafe(read_and_delete(), service.loop).result(PATIENCE_S)

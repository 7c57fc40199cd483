"""Edge messages: written once, read in pieces, deleted (docs/reference/entities.md#edge-messages)."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from statewright.ids import TenantId
from statewright.storage.pool import Pool


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A message. ``header`` and ``metadata`` are JSON text; ``content`` is the first of ``pieces`` of its payload."""

    tenant: TenantId
    id: str
    header: str
    metadata: bytes
    pieces: int = 1
    content: bytes = b""


INSERT: Final = """
    INSERT INTO message (tenant, id, header, metadata, pieces, content)
    VALUES ($1, $2, $3, $4, $5, $6)
"""

PIECE_COLUMNS: Final = ("tenant", "message", "n", "content")


async def store_message(pool: Pool, message: StoredMessage, payload: Iterator[bytes]) -> None:
    """Store the message with its whole payload, which comes in pieces, at least one. Nothing is kept of a failure."""
    first, second = next(payload), next(payload, None)
    if second is None:
        await pool.execute(INSERT, *_build_row(message, 1, first))
        return
    rows = ((message.tenant, message.id, n, piece) for n, piece in enumerate(chain([second], payload), start=1))
    async with pool.connection(limit=None) as connection, connection.transaction():
        copied = await connection.copy_records_to_table("message_piece", records=rows, columns=PIECE_COLUMNS)
        await connection.execute(INSERT, *_build_row(message, 1 + int(copied.removeprefix("COPY ")), first))


def _build_row(message: StoredMessage, pieces: int, content: bytes) -> tuple[object, ...]:
    return (message.tenant, message.id, message.header, message.metadata, pieces, content)


READ: Final = "SELECT header, metadata, pieces, content FROM message WHERE tenant = $1 AND id = $2"


async def fetch_message(pool: Pool, tenant: TenantId, message: str) -> StoredMessage | None:
    """The message with the first piece of its payload; None when the tenant has no such message."""
    row = await pool.fetchrow(READ, tenant, message)
    if row is None:
        return None
    header, metadata, pieces, content = row
    return StoredMessage(tenant=tenant, id=message, header=header, metadata=metadata, pieces=pieces, content=content)


PIECE: Final = "SELECT content FROM message_piece WHERE tenant = $1 AND message = $2 AND n = $3"


async def fetch_piece(pool: Pool, tenant: TenantId, message: str, n: int) -> bytes | None:
    """A later piece of the payload, from 1; None when the message was deleted meanwhile."""
    content: bytes | None = await pool.fetchval(PIECE, tenant, message, n)
    return content


DELETE: Final = """
    WITH gone AS (
        DELETE FROM message WHERE tenant = $1 AND id = ANY ($2::uuid[]) RETURNING id
    ), pieces AS (
        DELETE FROM message_piece WHERE tenant = $1 AND message = ANY ($2::uuid[])
    )
    SELECT count(*) FROM gone
"""


async def remove_messages(pool: Pool, tenant: TenantId, messages: Sequence[str]) -> int:
    """Delete those of the messages that exist; how many did."""
    count: int = await pool.fetchval(DELETE, tenant, messages)
    return count

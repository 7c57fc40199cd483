"""A database transaction in which a request does all its work and leaves its record
(docs/reference/operations.md#idempotent-requests).

What administers models, clients or indexes writes by statements of its own, each on a connection of a pool. A
:class:`JoinedPool` stands for one connection with an open transaction: whoever is given it writes into that
transaction, and knows nothing of it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import TracebackType

import asyncpg
from asyncpg.transaction import Transaction

from statewright.storage.connections import DatabaseConnection
from statewright.storage.idempotency.parts import KeyRecord
from statewright.storage.idempotency.records import write_record
from statewright.storage.pool import ACQUIRE_TIMEOUT, LEASE_LIMIT, ConnectionLease, Pool


class JoinedLease(ConnectionLease):
    """The connection for the length of a block, whose work is undone alone when the block fails."""

    __slots__ = ("_joined", "_savepoint")

    def __init__(self, pool: Pool, connection: DatabaseConnection) -> None:
        super().__init__(pool, ACQUIRE_TIMEOUT, None)
        self._joined = connection
        self._savepoint: Transaction | None = None

    async def __aenter__(self) -> DatabaseConnection:
        self._savepoint = self._joined.transaction()
        await self._savepoint.start()
        return self._joined

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._savepoint is not None  # noqa: S101 - the block was entered
        if error is None:
            await self._savepoint.commit()
        elif not self._joined.is_closed():
            await self._savepoint.rollback()


class JoinedPool(Pool):
    """A pool whose only connection is in an open transaction. It is for one task, which asks for one thing after the
    other.
    """

    def __init__(self, pool: Pool, connection: DatabaseConnection) -> None:
        self.faults = pool.faults
        self._connection = connection

    def connection(
        self, *, within: timedelta = ACQUIRE_TIMEOUT, limit: timedelta | None = LEASE_LIMIT
    ) -> ConnectionLease:
        """The connection, in a savepoint for the length of the block."""
        return JoinedLease(self, self._connection)


class RecordedTransaction:
    """An open transaction: ``pool`` is what writes into it."""

    def __init__(self, pool: JoinedPool, connection: asyncpg.Connection) -> None:
        self.pool = pool
        self._connection = connection

    async def write(self, record: KeyRecord) -> bool:
        """Write a record of the request; False when another attempt has the key. A twin that is at work is waited
        for.
        """
        return await write_record(self._connection, record)


@asynccontextmanager
async def open_recorded_transaction(pool: Pool) -> AsyncIterator[RecordedTransaction]:
    """A transaction that is committed when the block is left, and undone when it fails."""
    async with pool.connection(limit=None) as connection, connection.transaction(isolation="read_committed"):
        yield RecordedTransaction(JoinedPool(pool, connection), connection)

"""Logins to the web console, the same for all nodes (docs/console.md#login)."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from msgspec import Struct

from statewright.ids import TenantId
from statewright.storage.pool import DatabaseConnection

MAX_SWEPT: Final = 1000
"""Logins that are removed at a time because they have ended."""


class ConsoleSessionRow(Struct, frozen=True, kw_only=True):
    """A login. ``digest`` is that of its id; times in microseconds since 1970."""

    tenant: TenantId
    digest: bytes
    principal: str
    sealed: bytes
    token_ends_at: int
    created_at: int
    seen_at: int
    ends_at: int


class Connections(Protocol):
    """Where connections come from."""

    def connection(self) -> AbstractAsyncContextManager[DatabaseConnection]: ...


class StoredConsoleSessions:
    """The logins of one database; nothing of them is kept in memory, so that a logout counts everywhere at once."""

    def __init__(self, pool: Connections) -> None:
        self._pool = pool

    async def find(self, digest: bytes) -> ConsoleSessionRow | None:
        """The login with this digest, whether it still holds or not. Raises ``StorageUnavailable``."""
        return next(iter(await self.find_all([digest])), None)

    FIND = """
        SELECT tenant, digest, principal, sealed, token_ends_at, created_at, seen_at, ends_at
          FROM console_session WHERE digest = ANY($1::bytea[])
    """

    async def find_all(self, digests: Collection[bytes]) -> list[ConsoleSessionRow]:
        """Those with one of these digests, whether they still hold or not. Raises ``StorageUnavailable``."""
        async with self._pool.connection() as connection:
            rows = await connection.fetch(self.FIND, list(digests))
        return [ConsoleSessionRow(**dict(row)) for row in rows]

    SWEEP = """
        WITH ended AS (
            DELETE FROM console_session
             WHERE (tenant, digest) IN (SELECT tenant, digest FROM console_session WHERE ends_at < $1 LIMIT $2)
         RETURNING digest
        )
        SELECT EXISTS (SELECT FROM console_session WHERE ends_at >= $1) OR (SELECT count(*) FROM ended) = $2
    """

    async def sweep(self, now: int) -> bool:
        """Remove logins that have ended; whether there may be others. Raises ``StorageUnavailable``."""
        async with self._pool.connection() as connection:
            return bool(await connection.fetchval(self.SWEEP, now, MAX_SWEPT))

    ADD = """
        INSERT INTO console_session (tenant, digest, principal, sealed, token_ends_at, created_at, seen_at, ends_at)
        VALUES ($1, $2, $3, $4, $5, $6, $6, $7)
    """

    async def add(
        self, *, tenant: str, digest: bytes, principal: str, sealed: bytes, token_ends_at: int, now: int, ends_at: int
    ) -> None:
        """Keep a new login. Raises ``StorageUnavailable``."""
        async with self._pool.connection() as connection:
            await connection.execute(self.ADD, tenant, digest, principal, sealed, token_ends_at, now, ends_at)

    TOUCH = "UPDATE console_session SET seen_at = $3 WHERE tenant = $1 AND digest = $2 AND seen_at < $3"

    async def touch(self, tenant: str, digest: bytes, now: int) -> None:
        """Somebody has just used it. Raises ``StorageUnavailable``."""
        async with self._pool.connection() as connection:
            await connection.execute(self.TOUCH, tenant, digest, now)

    REMOVE = "DELETE FROM console_session WHERE tenant = $1 AND digest = $2"

    async def remove(self, tenant: str, digest: bytes) -> None:
        """End a login. Raises ``StorageUnavailable``."""
        async with self._pool.connection() as connection:
            await connection.execute(self.REMOVE, tenant, digest)

    CLAIM = """
        UPDATE console_session SET renewing_until = $4
         WHERE tenant = $1 AND digest = $2 AND renewing_until < $3
    """

    async def claim_renewal(self, tenant: str, digest: bytes, now: int, until: int) -> bool:
        """Whether it is the caller who asks for a new token; nobody else does ``until`` then. Raises
        ``StorageUnavailable``.
        """
        async with self._pool.connection() as connection:
            tag: str = await connection.execute(self.CLAIM, tenant, digest, now, until)
        return tag == "UPDATE 1"

    RENEW = """
        UPDATE console_session SET sealed = $3, token_ends_at = $4, renewing_until = 0
         WHERE tenant = $1 AND digest = $2
    """

    async def renew(self, tenant: str, digest: bytes, sealed: bytes, token_ends_at: int) -> None:
        """Keep another token. Raises ``StorageUnavailable``."""
        async with self._pool.connection() as connection:
            await connection.execute(self.RENEW, tenant, digest, sealed, token_ends_at)

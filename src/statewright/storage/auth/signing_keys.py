"""Key pairs of the service (docs/reference/authentication.md#keys), which belong to no tenant.

Every change is announced; nodes read all pairs again then (``services/auth/key_ring.py``). Changes that look at other
pairs follow one another under a lock of the database, or two rotations at once would leave two keys active.
"""

from datetime import timedelta
from typing import Final

import asyncpg

from statewright.auth.encryption import Encrypted
from statewright.auth.key_pairs import KeyPair
from statewright.auth.keys import Audience
from statewright.storage.auth.acts import TenantAct, record
from statewright.storage.connections import DatabaseConnection
from statewright.storage.pool import Pool

CHANNEL: Final = "statewright_signing_keys"

MAX_KEY_PAIRS: Final = 100
"""Key pairs of a database, also those whose time is over."""

COLUMNS: Final = "kid, audience, public_key, private_key, encrypted_by, active, valid_from, valid_to, unlimited"

LOCK_TIMEOUT: Final = timedelta(seconds=10)


class StoredKeyPairs:
    """The pairs of one database. ``configured_kid`` is the key in the settings of this node; those of other nodes do
    not count here.
    """

    def __init__(self, pool: Pool, configured_kid: str = "") -> None:
        self._pool = pool
        self._configured_kid = configured_kid

    def within(self, pool: Pool) -> "StoredKeyPairs":
        """The same, whose statements go over this pool."""
        return StoredKeyPairs(pool, self._configured_kid)

    LIST = f"""
        SELECT {COLUMNS} FROM signing_key
         WHERE (private_key IS NOT NULL OR kid = $1) AND NOT removed
         ORDER BY created_at, kid
    """  # noqa: S608 - the columns are a constant

    async def list_all(self) -> list[KeyPair]:
        """All pairs that this node knows, the oldest first."""
        async with self._pool.connection() as connection:
            return [_to_pair(row) for row in await connection.fetch(self.LIST, self._configured_kid)]

    CURRENT = f"""
        SELECT {COLUMNS} FROM signing_key
         WHERE audience = $2 AND active AND valid_from <= $3 AND valid_to > $3
           AND (private_key IS NOT NULL OR kid = $1) AND NOT removed
         ORDER BY valid_from DESC, created_at DESC, kid
         LIMIT 1
    """  # noqa: S608

    async def find_current(self, audience: Audience, *, now: int) -> KeyPair | None:
        """The active pair of an audience whose validity began last."""
        async with self._pool.connection() as connection:
            row = await connection.fetchrow(self.CURRENT, self._configured_kid, audience, now)
        return None if row is None else _to_pair(row)

    LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('statewright signing_key', 0))"

    ISSUE = """
        INSERT INTO signing_key (kid, audience, public_key, private_key, encrypted_by, active, valid_from, valid_to)
        SELECT $1, $2, $3::bytea, $4::bytea, $5, true, $6::bigint, $7::bigint
         WHERE (SELECT count(*) FROM signing_key) < $8::bigint
    """

    END_OTHERS = """
        UPDATE signing_key SET active = false, unlimited = false, valid_to = least(valid_to, $3::bigint)
         WHERE audience = $2 AND active AND kid <> $1
    """

    async def issue(self, pair: KeyPair, *, others_end_at: int | None = None, act: TenantAct | None = None) -> bool:
        """Add a pair; False when there are :data:`MAX_KEY_PAIRS`. With ``others_end_at`` the other active pairs of its
        audience are inactive from then on, and end at that instant at the latest.
        """
        assert pair.private_key is not None  # noqa: S101 - it was generated
        private = (pair.private_key.ciphertext, pair.private_key.key_name)
        values = (pair.kid, pair.audience, pair.public_key, *private, pair.valid_from, pair.valid_to)
        async with (
            self._pool.connection(limit=LOCK_TIMEOUT) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            await connection.execute(self.LOCK)
            if await connection.execute(self.ISSUE, *values, MAX_KEY_PAIRS) != "INSERT 0 1":
                return False
            if others_end_at is not None:
                await connection.execute(self.END_OTHERS, pair.kid, pair.audience, others_end_at)
            await record(connection, act)
            await _announce(connection, pair.kid)
        return True

    INVALIDATE = """
        UPDATE signing_key SET active = false, unlimited = false, valid_to = least(valid_to, $3::bigint)
         WHERE kid = $1 AND (private_key IS NOT NULL OR kid = $2) AND NOT removed
    """

    async def invalidate(self, kid: str, *, ends_at: int, act: TenantAct | None = None) -> bool:
        """Have a pair end at an instant, or earlier if it would have; False when there is none."""
        return await self._change(self.INVALIDATE, kid, ends_at, act=act)

    REACTIVATE = """
        UPDATE signing_key SET active = true, unlimited = false, valid_from = $3::bigint, valid_to = $4::bigint
         WHERE kid = $1 AND (private_key IS NOT NULL OR kid = $2) AND NOT removed
    """

    async def reactivate(self, kid: str, *, valid_from: int, valid_to: int, act: TenantAct | None = None) -> bool:
        """Make a pair active in another window; False when there is none."""
        return await self._change(self.REACTIVATE, kid, valid_from, valid_to, act=act)

    REMOVE = """
        UPDATE signing_key SET active = false, unlimited = false, removed = true
         WHERE kid = $1 AND kid = $2 AND private_key IS NULL AND NOT removed
    """

    DELETE = "DELETE FROM signing_key WHERE kid = $1 AND kid <> $2 AND private_key IS NOT NULL"

    async def delete(self, kid: str, *, act: TenantAct | None = None) -> bool:
        """Remove a pair; False when there is none. A configured key is marked, or the next start would bring it
        back.
        """
        return await self._change(self.REMOVE if kid == self._configured_kid else self.DELETE, kid, act=act)

    FIND = f"""
        SELECT {COLUMNS} FROM signing_key WHERE kid = $1 AND (private_key IS NOT NULL OR kid = $2) AND NOT removed
    """  # noqa: S608

    async def find(self, kid: str) -> KeyPair | None:
        """The pair with this id."""
        async with self._pool.connection() as connection:
            row = await connection.fetchrow(self.FIND, kid, self._configured_kid)
        return None if row is None else _to_pair(row)

    # A key that was invalidated or deleted stays so, whatever is started with it, and so does a window that was set.
    ENTER = """
        INSERT INTO signing_key AS known (kid, audience, public_key, active, unlimited, valid_from, valid_to)
        VALUES ($1, $2, $3::bytea, true, true, $4::bigint, $5::bigint)
            ON CONFLICT (kid) DO UPDATE
           SET audience = excluded.audience, valid_to = greatest(known.valid_to, excluded.valid_to)
         WHERE known.unlimited
    """

    async def enter_configured(self, pair: KeyPair) -> None:
        """Make the key of the settings known, or have it end later if it is."""
        values = (pair.kid, pair.audience, pair.public_key, pair.valid_from, pair.valid_to)
        async with (
            self._pool.connection() as connection,
            connection.transaction(isolation="read_committed"),
        ):
            await connection.execute(self.ENTER, *values)
            await _announce(connection, pair.kid)

    # Only what is still as it was read: another node may have done the same, or deleted the pair.
    RENEW = """
        UPDATE signing_key SET private_key = $3::bytea, encrypted_by = $4
         WHERE kid = $1 AND encrypted_by = $2
    """

    async def renew_encryption(self, pair: KeyPair, encrypted: Encrypted) -> None:
        """Store the private key of a pair as it is encrypted now."""
        before = pair.private_key.key_name if pair.private_key is not None else None
        async with self._pool.connection() as connection:
            await connection.execute(self.RENEW, pair.kid, before, encrypted.ciphertext, encrypted.key_name)

    async def _change(self, statement: str, kid: str, *values: int, act: TenantAct | None) -> bool:
        async with (
            self._pool.connection(limit=LOCK_TIMEOUT) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            await connection.execute(self.LOCK)
            tag: str = await connection.execute(statement, kid, self._configured_kid, *values)
            if tag.endswith(" 0"):
                return False
            await record(connection, act)
            await _announce(connection, kid)
        return True


ANNOUNCE: Final = "SELECT pg_notify($1, $2)"


async def _announce(connection: DatabaseConnection, kid: str) -> None:
    await connection.execute(ANNOUNCE, CHANNEL, kid)


def _to_pair(row: asyncpg.Record) -> KeyPair:
    private: bytes | None = row["private_key"]
    return KeyPair(
        kid=row["kid"],
        audience=row["audience"],
        public_key=row["public_key"],
        private_key=None if private is None else Encrypted(private, row["encrypted_by"]),
        active=row["active"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        is_unlimited=row["unlimited"],
    )

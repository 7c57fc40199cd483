"""Key pairs of the service, which belong to no tenant, and the keys that tenants trust.

*Key pairs* (docs/reference/authentication.md#keys). Every change is announced; nodes read all pairs again then
(``services/auth/key_ring.py``). Changes that look at other pairs follow one another under a lock of the database, or
two rotations at once would leave two keys active.

*Trusted keys* (docs/reference/authentication.md#trusted-keys) are read whenever one is needed: what a node has changed
is true on every other at once.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import asyncpg
import msgspec

from statewright.auth.keys import Audience, Encrypted, JwkMembers, KeyPair, TrustedKey, read_jwk
from statewright.ids import TenantId
from statewright.storage.auth.clients import AdministeredRows, TenantAct, record
from statewright.storage.connections import announce
from statewright.storage.entities import SharedReads
from statewright.storage.pool import Pool

CHANNEL: Final = "statewright_signing_keys"

MAX_KEY_PAIRS: Final = 100
"""Key pairs of a database, also those whose time is over."""

COLUMNS: Final = "kid, audience, public_key, private_key, encrypted_by, active, valid_from, valid_to, unlimited"


class StoredKeyPairs(AdministeredRows):
    """The pairs of one database."""

    LIST = f"""
        SELECT {COLUMNS} FROM signing_key
         WHERE (private_key IS NOT NULL OR kid = $1) AND NOT removed
         ORDER BY created_at, kid
    """  # noqa: S608 - the columns are a constant

    async def list_all(self) -> list[KeyPair]:
        """All pairs that this node knows, the oldest first."""
        return [_to_pair(row) for row in await self._pool.fetch(self.LIST, self._configured)]

    CURRENT = f"""
        SELECT {COLUMNS} FROM signing_key
         WHERE audience = $2 AND active AND valid_from <= $3 AND valid_to > $3
           AND (private_key IS NOT NULL OR kid = $1) AND NOT removed
         ORDER BY valid_from DESC, created_at DESC, kid
         LIMIT 1
    """  # noqa: S608

    async def find_current(self, audience: Audience, *, now: int) -> KeyPair | None:
        """The active pair of an audience whose validity began last."""
        rows = await self._pool.fetch(self.CURRENT, self._configured, audience, now)
        return _to_pair(rows[0]) if rows else None

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
        async with self._open_change(self.LOCK) as connection:
            if await connection.execute(self.ISSUE, *values, MAX_KEY_PAIRS) != "INSERT 0 1":
                return False
            if others_end_at is not None:
                await connection.execute(self.END_OTHERS, pair.kid, pair.audience, others_end_at)
            await record(connection, act)
            await announce(connection, CHANNEL, pair.kid)
        return True

    INVALIDATE = """
        UPDATE signing_key SET active = false, unlimited = false, valid_to = least(valid_to, $3::bigint)
         WHERE kid = $1 AND (private_key IS NOT NULL OR kid = $2) AND NOT removed
    """

    async def invalidate(self, kid: str, *, ends_at: int, act: TenantAct | None = None) -> bool:
        """Have a pair end at an instant, or earlier if it would have; False when there is none."""
        return await self._change_pair(self.INVALIDATE, kid, ends_at, act=act)

    REACTIVATE = """
        UPDATE signing_key SET active = true, unlimited = false, valid_from = $3::bigint, valid_to = $4::bigint
         WHERE kid = $1 AND (private_key IS NOT NULL OR kid = $2) AND NOT removed
    """

    async def reactivate(self, kid: str, *, valid_from: int, valid_to: int, act: TenantAct | None = None) -> bool:
        """Make a pair active in another window; False when there is none."""
        return await self._change_pair(self.REACTIVATE, kid, valid_from, valid_to, act=act)

    REMOVE = """
        UPDATE signing_key SET active = false, unlimited = false, removed = true
         WHERE kid = $1 AND kid = $2 AND private_key IS NULL AND NOT removed
    """

    DELETE = "DELETE FROM signing_key WHERE kid = $1 AND kid <> $2 AND private_key IS NOT NULL"

    async def delete(self, kid: str, *, act: TenantAct | None = None) -> bool:
        """Remove a pair; False when there is none. A configured key is marked, or the next start would bring it
        back.
        """
        return await self._change_pair(self.REMOVE if kid == self._configured else self.DELETE, kid, act=act)

    FIND = f"""
        SELECT {COLUMNS} FROM signing_key WHERE kid = $1 AND (private_key IS NOT NULL OR kid = $2) AND NOT removed
    """  # noqa: S608

    async def find(self, kid: str) -> KeyPair | None:
        """The pair with this id."""
        rows = await self._pool.fetch(self.FIND, kid, self._configured)
        return _to_pair(rows[0]) if rows else None

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
        async with self._pool.connection() as connection, connection.transaction(isolation="read_committed"):
            await connection.execute(self.ENTER, *values)
            await announce(connection, CHANNEL, pair.kid)

    # Only what is still as it was read: another node may have done the same, or deleted the pair.
    RENEW = """
        UPDATE signing_key SET private_key = $3::bytea, encrypted_by = $4
         WHERE kid = $1 AND encrypted_by = $2
    """

    async def renew_encryption(self, pair: KeyPair, encrypted: Encrypted) -> None:
        """Store the private key of a pair as it is encrypted now."""
        before = pair.private_key.key_name if pair.private_key is not None else None
        await self._pool.execute(self.RENEW, pair.kid, before, encrypted.ciphertext, encrypted.key_name)

    async def _change_pair(self, statement: str, kid: str, *values: int, act: TenantAct | None) -> bool:
        async with self._open_change(self.LOCK) as connection:
            tag: str = await connection.execute(statement, kid, self._configured, *values)
            if tag.endswith(" 0"):
                return False
            await record(connection, act)
            await announce(connection, CHANNEL, kid)
        return True


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


MAX_STORED: Final = 1000
"""Keys of one tenant, also those that count no more."""

MAX_ID_CHARACTERS: Final = 128

TRUSTED_KEYS_COLUMNS: Final = "tenant, kid, jwk, audience, issuers, active, valid_from, valid_to"

_decode_jwk: Final = msgspec.json.Decoder(dict[str, object]).decode
_encode: Final = msgspec.json.Encoder().encode

Registration = Literal["registered", "owned by another", "too many"]


class StoredTrustedKeys(AdministeredRows):
    """The keys of one database."""

    def __init__(self, pool: Pool, configured: str = "") -> None:
        super().__init__(pool, configured)
        self._reads = SharedReads(pool, self._fetch_batch, name="trusted-keys")

    FIND = f"""
        SELECT {TRUSTED_KEYS_COLUMNS} FROM trusted_key
         WHERE (tenant, kid) IN (SELECT * FROM unnest($1::text[], $2::text[]))
    """  # noqa: S608 - the columns are a constant

    async def find(self, tenant: TenantId, kid: str) -> TrustedKey | None:
        """The key that ``tenant`` has registered under this id. Raises ``StorageUnavailable``."""
        if not kid or len(kid) > MAX_ID_CHARACTERS or "\0" in kid:
            return None
        return await self._reads.ask((tenant, kid))

    async def _fetch_batch(
        self, connection: asyncpg.Connection, keys: Sequence[tuple[TenantId, str]], within_s: float
    ) -> Mapping[tuple[TenantId, str], TrustedKey]:
        tenants, kids = [tenant for tenant, _ in keys], [kid for _, kid in keys]
        rows = await connection.fetch(self.FIND, tenants, kids, timeout=within_s)
        return {(TenantId(row["tenant"]), row["kid"]): _to_key(row) for row in rows}

    LIST = f"SELECT {TRUSTED_KEYS_COLUMNS} FROM trusted_key WHERE tenant = $1 ORDER BY created_at, kid"  # noqa: S608

    async def list_for_tenant(self, tenant: TenantId) -> list[TrustedKey]:
        """The keys of a tenant, the oldest first."""
        return [_to_key(row) for row in await self._pool.fetch(self.LIST, tenant)]

    # Registrations of a tenant follow one another, or two of them would overlook each other and exceed the most.
    LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('statewright trusted_key ' || $1::text, 0))"

    OTHERS = """
        SELECT EXISTS (SELECT FROM trusted_key WHERE kid = $2 AND tenant <> $1) AS is_owned,
               count(*) FILTER (WHERE active AND valid_to > $3) AS active, count(*) AS stored
          FROM trusted_key WHERE tenant = $1 AND kid <> $2
    """

    END_OTHERS = """
        UPDATE trusted_key SET active = false, valid_to = least(valid_to, $3::bigint)
         WHERE tenant = $1 AND kid <> $2 AND active
    """

    REGISTER = """
        INSERT INTO trusted_key (tenant, kid, jwk, audience, issuers, active, valid_from, valid_to)
        VALUES ($1, $2, $3, $4, $5::text[], true, $6::bigint, $7::bigint)
            ON CONFLICT (kid) DO UPDATE
           SET jwk = excluded.jwk, audience = excluded.audience, issuers = excluded.issuers, active = true,
               valid_from = excluded.valid_from, valid_to = excluded.valid_to
         WHERE trusted_key.tenant = excluded.tenant
    """

    async def register(
        self,
        key: TrustedKey,
        *,
        now: int,
        most: int,
        others_end_at: int | None = None,
        act: TenantAct | None = None,
    ) -> Registration:
        """Add a key, or replace that of the same id; ``most`` is how many of a tenant may count, 0 for any number.

        With ``others_end_at`` the others of the tenant are inactive from then on, and count no more against ``most``.
        """
        values = (_encode(key.jwk).decode(), key.audience, list(key.issuers), key.valid_from, key.valid_to)
        async with self._open_change(self.LOCK, key.tenant) as connection:
            others = await connection.fetchrow(self.OTHERS, key.tenant, key.kid, now)
            assert others is not None, "an aggregate has one row"  # noqa: S101
            if others["is_owned"]:
                return "owned by another"
            active = 0 if others_end_at is not None else others["active"]
            if (most and active >= most) or others["stored"] >= MAX_STORED:
                return "too many"
            # Another tenant may have registered the id meanwhile: it does not wait for this lock.
            if await connection.execute(self.REGISTER, key.tenant, key.kid, *values) != "INSERT 0 1":
                return "owned by another"
            if others_end_at is not None:
                await connection.execute(self.END_OTHERS, key.tenant, key.kid, others_end_at)
            await record(connection, act)
        return "registered"

    INVALIDATE = """
        UPDATE trusted_key SET active = false, valid_to = least(valid_to, $3::bigint)
         WHERE tenant = $1 AND kid = $2
     RETURNING kid
    """

    async def invalidate(self, tenant: TenantId, kid: str, *, ends_at: int, act: TenantAct | None = None) -> bool:
        """Make a key inactive; False when the tenant has none of this id."""
        return await self._change(self.INVALIDATE, tenant, kid, ends_at, act=act) is not None

    REACTIVATE = f"""
        UPDATE trusted_key SET active = true, valid_from = $3::bigint, valid_to = $4::bigint
         WHERE tenant = $1 AND kid = $2
     RETURNING {TRUSTED_KEYS_COLUMNS}
    """  # noqa: S608

    async def reactivate(
        self, tenant: TenantId, kid: str, *, valid_from: int, valid_to: int, act: TenantAct | None = None
    ) -> TrustedKey | None:
        """Make a key active in another window; None when the tenant has none of this id."""
        row = await self._change(self.REACTIVATE, tenant, kid, valid_from, valid_to, act=act)
        return None if row is None else _to_key(row)

    DELETE = "DELETE FROM trusted_key WHERE tenant = $1 AND kid = $2 RETURNING kid"

    async def delete(self, tenant: TenantId, kid: str, *, act: TenantAct | None = None) -> bool:
        """Remove a key; False when the tenant has none of this id."""
        return await self._change(self.DELETE, tenant, kid, act=act) is not None


def _to_key(row: asyncpg.Record) -> TrustedKey:
    jwk: JwkMembers = _decode_jwk(row["jwk"])
    return TrustedKey(
        kid=row["kid"],
        tenant=TenantId(row["tenant"]),
        public=read_jwk(jwk, row["kid"]),
        jwk=jwk,
        audience=row["audience"],
        active=row["active"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        issuers=tuple(row["issuers"]),
    )

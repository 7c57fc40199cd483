"""Trusted keys of all tenants (docs/reference/authentication.md#trusted-keys), read whenever one is needed: what a node
has changed is true on every other at once.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, Literal

import asyncpg
import msgspec

from statewright.auth.trusted_keys import Jwk, TrustedKey, read_jwk
from statewright.ids import TenantId
from statewright.storage.auth.acts import TenantAct, record
from statewright.storage.pool import Pool
from statewright.storage.shared_reads import SharedReads

MAX_STORED: Final = 1000
"""Keys of one tenant, also those that count no more."""

MAX_ID_CHARACTERS: Final = 128
LOCK_TIMEOUT: Final = timedelta(seconds=10)

COLUMNS: Final = "tenant, kid, jwk, audience, issuers, active, valid_from, valid_to"

_decode_jwk: Final = msgspec.json.Decoder(dict[str, object]).decode
_encode: Final = msgspec.json.Encoder().encode

Registration = Literal["registered", "owned by another", "too many"]


class StoredTrustedKeys:
    """The keys of one database."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reads = SharedReads(pool, self._fetch_batch, name="trusted-keys")

    def within(self, pool: Pool) -> "StoredTrustedKeys":
        """The same, whose statements go over this pool."""
        return StoredTrustedKeys(pool)

    FIND = f"""
        SELECT {COLUMNS} FROM trusted_key
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

    LIST = f"SELECT {COLUMNS} FROM trusted_key WHERE tenant = $1 ORDER BY created_at, kid"  # noqa: S608

    async def list_for_tenant(self, tenant: TenantId) -> list[TrustedKey]:
        """The keys of a tenant, the oldest first."""
        async with self._pool.connection() as connection:
            return [_to_key(row) for row in await connection.fetch(self.LIST, tenant)]

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
        async with (
            self._pool.connection(limit=LOCK_TIMEOUT) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            await connection.execute(self.LOCK, key.tenant)
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
        UPDATE trusted_key SET active = false, valid_to = least(valid_to, $3::bigint) WHERE tenant = $1 AND kid = $2
    """

    async def invalidate(self, tenant: TenantId, kid: str, *, ends_at: int, act: TenantAct | None = None) -> bool:
        """Make a key inactive; False when the tenant has none of this id."""
        async with self._pool.connection() as connection, connection.transaction(isolation="read_committed"):
            if await connection.execute(self.INVALIDATE, tenant, kid, ends_at) != "UPDATE 1":
                return False
            await record(connection, act)
        return True

    REACTIVATE = f"""
        UPDATE trusted_key SET active = true, valid_from = $3::bigint, valid_to = $4::bigint
         WHERE tenant = $1 AND kid = $2
     RETURNING {COLUMNS}
    """  # noqa: S608

    async def reactivate(
        self, tenant: TenantId, kid: str, *, valid_from: int, valid_to: int, act: TenantAct | None = None
    ) -> TrustedKey | None:
        """Make a key active in another window; None when the tenant has none of this id."""
        async with self._pool.connection() as connection, connection.transaction(isolation="read_committed"):
            row = await connection.fetchrow(self.REACTIVATE, tenant, kid, valid_from, valid_to)
            if row is None:
                return None
            await record(connection, act)
        return _to_key(row)

    DELETE = "DELETE FROM trusted_key WHERE tenant = $1 AND kid = $2"

    async def delete(self, tenant: TenantId, kid: str, *, act: TenantAct | None = None) -> bool:
        """Remove a key; False when the tenant has none of this id."""
        async with self._pool.connection() as connection, connection.transaction(isolation="read_committed"):
            if await connection.execute(self.DELETE, tenant, kid) != "DELETE 1":
                return False
            await record(connection, act)
        return True


def _to_key(row: asyncpg.Record) -> TrustedKey:
    jwk: Jwk = _decode_jwk(row["jwk"])
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

"""Machine clients of all tenants (docs/reference/authentication.md#clients), the assertions they have authenticated
with, and what is done to them.

A client is read when it asks for a token, so that what one node has changed is true on every other at once. Those who
ask at the same time share a statement, and a flood of them shares a few connections.

An assertion counts once, on whichever node (docs/reference/authentication.md#private-keys-of-clients).

What administrators of clients, keys and providers do stands in the trail of operators
(docs/reference/operations.md#audit). An act is recorded in the transaction of what it does.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Self

import asyncpg
from msgspec import Struct

from statewright.auth import Client
from statewright.entity import Actor
from statewright.ids import TenantId
from statewright.operations.service import Act
from statewright.settings import Secret
from statewright.storage.entities import SharedReads
from statewright.storage.ops.service import record_act
from statewright.storage.pool import DatabaseConnection, Pool


class TenantAct(Struct, frozen=True):
    """An act of ``actor``, in the trail of ``tenant``."""

    tenant: TenantId
    actor: Actor
    act: Act


async def record(connection: asyncpg.Connection, act: TenantAct | None) -> None:
    """Add the act to the trail, if there is one, in the transaction that the connection is in."""
    if act is not None:
        await record_act(connection, act.tenant, act.actor, act.act)


LOCK_TIMEOUT: Final = timedelta(seconds=10)


class AdministeredRows:
    """The rows of a table that administrators change. ``configured`` is the id of the row that the settings of this
    node are about, if there is one: those of other nodes do not count here.
    """

    def __init__(self, pool: Pool, configured: str = "") -> None:
        self._pool = pool
        self._configured = configured

    def within(self, pool: Pool) -> Self:
        """The same, whose statements go over this pool."""
        return type(self)(pool, self._configured)

    async def _change(self, statement: str, *args: object, act: TenantAct | None) -> asyncpg.Record | None:
        """The row that a statement returns because it has changed it; with the act, unless there is none."""
        async with self._pool.connection() as connection, connection.transaction(isolation="read_committed"):
            row = await connection.fetchrow(statement, *args)
            if row is not None:
                await record(connection, act)
        return row

    @asynccontextmanager
    async def _open_change(self, lock: str, *args: object) -> AsyncIterator[DatabaseConnection]:
        """A transaction that follows others which take the same lock."""
        async with (
            self._pool.connection(limit=LOCK_TIMEOUT) as connection,
            connection.transaction(isolation="read_committed"),
        ):
            await connection.execute(lock, *args)
            yield connection


MAX_CLIENTS: Final = 1000
"""Clients of one tenant."""

MAX_ID_CHARACTERS: Final = 256
"""No longer id is looked for."""

COLUMNS: Final = "tenant, id, user_id, roles, secret_hash, configured, created_at, updated_at"


class StoredClients(AdministeredRows):
    """The clients of one database."""

    def __init__(self, pool: Pool, configured: str = "") -> None:
        super().__init__(pool, configured)
        self._reads = SharedReads(pool, self._fetch_batch, name="clients")

    FIND = f"SELECT {COLUMNS} FROM auth_client WHERE id = ANY ($1::text[])"  # noqa: S608 - the columns are a constant

    async def find(self, client_id: str) -> Client | None:
        """The client with this id, of whichever tenant. Raises ``StorageUnavailable``."""
        if not client_id or len(client_id) > MAX_ID_CHARACTERS or "\0" in client_id:
            return None
        return await self._reads.ask(client_id)

    async def _fetch_batch(
        self, connection: asyncpg.Connection, ids: Sequence[str], within_s: float
    ) -> Mapping[str, Client]:
        rows = await connection.fetch(self.FIND, ids, timeout=within_s)
        return {row["id"]: _to_client(row) for row in rows if not row["configured"] or row["id"] == self._configured}

    LIST = f"""
        SELECT {COLUMNS} FROM auth_client
         WHERE tenant = $1 AND (NOT configured OR id = $2)
         ORDER BY created_at, id
    """  # noqa: S608

    async def list_for_tenant(self, tenant: TenantId) -> list[Client]:
        """The clients of a tenant, the oldest first."""
        return [_to_client(row) for row in await self._pool.fetch(self.LIST, tenant, self._configured)]

    CREATE = """
        INSERT INTO auth_client (tenant, id, user_id, roles, secret_hash, configured, created_at, updated_at)
        SELECT $1, $2, $3, $4::text[], $5, false, $6::bigint, $6::bigint
         WHERE (SELECT count(*) FROM auth_client WHERE tenant = $1) < $7::bigint
     RETURNING id
    """

    async def create(self, client: Client, *, act: TenantAct | None = None) -> bool:
        """Add a client; False when its tenant has :data:`MAX_CLIENTS` already."""
        values = (client.tenant, client.id, client.user_id, list(client.roles), client.secret_hash.reveal())
        return await self._change(self.CREATE, *values, client.created_at, MAX_CLIENTS, act=act) is not None

    DELETE = "DELETE FROM auth_client WHERE tenant = $1 AND id = $2 AND (NOT configured OR id = $3) RETURNING id"

    async def delete(self, tenant: TenantId, client_id: str, *, act: TenantAct | None = None) -> bool:
        """Remove a client; False when the tenant has none of this id."""
        return await self._change(self.DELETE, tenant, client_id, self._configured, act=act) is not None

    # Clocks of nodes differ: a later change never has an earlier time.
    REPLACE_SECRET = f"""
        UPDATE auth_client SET secret_hash = $4, updated_at = greatest($5::bigint, updated_at + 1)
         WHERE tenant = $1 AND id = $2 AND (NOT configured OR id = $3)
     RETURNING {COLUMNS}
    """  # noqa: S608

    async def replace_secret(
        self, tenant: TenantId, client_id: str, secret_hash: Secret, *, now: int, act: TenantAct | None = None
    ) -> Client | None:
        """Give a client another secret; the client as it is then, or None when the tenant has none of this id."""
        key = (tenant, client_id, self._configured)
        row = await self._change(self.REPLACE_SECRET, *key, secret_hash.reveal(), now, act=act)
        return None if row is None else _to_client(row)

    ENTER = """
        INSERT INTO auth_client (tenant, id, user_id, roles, secret_hash, configured, created_at, updated_at)
        VALUES ($1, $2, $3, $4::text[], $5, true, $6::bigint, $6::bigint)
            ON CONFLICT (id) DO UPDATE
           SET tenant = excluded.tenant, user_id = excluded.user_id, roles = excluded.roles,
               secret_hash = excluded.secret_hash, updated_at = excluded.updated_at
         WHERE auth_client.configured
    """

    async def enter_configured(self, client: Client) -> bool:
        """Make the client of the settings what they say; False when its id is that of a client of the API."""
        values = (client.tenant, client.id, client.user_id, list(client.roles), client.secret_hash.reveal())
        return await self._pool.execute(self.ENTER, *values, client.updated_at) == "INSERT 0 1"


def _to_client(row: asyncpg.Record) -> Client:
    return Client(
        id=row["id"],
        tenant=TenantId(row["tenant"]),
        user_id=row["user_id"],
        roles=tuple(row["roles"]),
        secret_hash=Secret(row["secret_hash"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


class StoredAssertions:
    """The assertions of one database; those of a client that have expired go when it uses another."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    RECORD = """
        WITH expired AS (
            DELETE FROM client_assertion WHERE tenant = $1 AND client = $2 AND expires_at < $5 AND digest <> $3
        )
        INSERT INTO client_assertion (tenant, client, digest, expires_at)
        SELECT tenant, id, $3::bytea, $4::bigint FROM auth_client WHERE tenant = $1 AND id = $2
            ON CONFLICT DO NOTHING
    """

    async def record(self, tenant: TenantId, client: str, digest: bytes, *, expires_at: int, now: int) -> bool:
        """Remember an assertion until it expires; False when it was used before, or the client is gone. Times in
        microseconds since 1970. Raises ``StorageUnavailable``.
        """
        tag: str = await self._pool.execute(self.RECORD, tenant, client, digest, expires_at, now)
        return tag == "INSERT 0 1"

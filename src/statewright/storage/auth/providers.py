"""Identity providers of tenants (docs/reference/oidc.md#providers).

Every change advances the revision and is announced; nodes read all active providers again then
(``services/auth/live_providers.py``). Changes follow one another under the lock of the row with the revision: what a
change has found of other rows stays so until it commits, also beside processes that look for nothing.

Issuer and audience belong to the tenant that claimed them first, whether its provider is active or not. A provider
without audiences claims all of its issuer, one without issuers of its own those of its discovery document: until that
was read, whatever stands at its URI.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, Literal
from uuid import UUID

import asyncpg
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from statewright.auth.providers import Provider
from statewright.entity import Actor
from statewright.ids import TenantId
from statewright.operations.service import Act
from statewright.storage.auth.clients import AdministeredRows, TenantAct, record
from statewright.storage.connections import announce
from statewright.storage.pool import DatabaseConnection

CHANNEL: Final = "statewright_oidc_providers"

MAX_PROVIDERS: Final = 50
"""Providers of a tenant, also those that are not active."""

COLUMNS: Final = (
    "tenant, id, uri, issuers, audiences, roles_claim, active, created_at, keys_since, reloaded_at, discovered"
)

SYSTEM: Final = Actor(id="statewright", kind="system")
"""Who finds out that another tenant has claimed an issuer before."""


class ProviderChanges(Struct, frozen=True, kw_only=True):
    """What of a provider becomes another; UNSET: it stays."""

    issuers: tuple[str, ...] | UnsetType = UNSET
    audiences: tuple[str, ...] | UnsetType = UNSET
    roles_claim: str | None | UnsetType = UNSET


class StoredProviders(AdministeredRows):
    """The providers of one database."""

    REVISION = "SELECT revision FROM oidc_revision"

    async def read_revision(self) -> int:
        """Another number after every change."""
        revision: int = await self._pool.fetchval(self.REVISION)
        return revision

    # One that a process of the previous version has registered has claimed its own issuers since then.
    ACTIVE = f"""
        SELECT {COLUMNS} FROM oidc_provider WHERE active
         ORDER BY coalesce(claimed_at, CASE WHEN issuers <> '{{}}' THEN created_at END) NULLS LAST, created_at, id
    """  # noqa: S608 - a constant

    async def list_active(self) -> list[Provider]:
        """The active providers of all tenants, those first that have claimed their issuers first."""
        return [_to_provider(row) for row in await self._pool.fetch(self.ACTIVE)]

    LIST = f"""
        SELECT {COLUMNS} FROM oidc_provider
         WHERE tenant = $1 AND (active OR NOT $2)
         ORDER BY created_at, id
    """  # noqa: S608

    async def list_for_tenant(self, tenant: TenantId, *, active_only: bool) -> list[Provider]:
        """The providers of a tenant, the oldest first."""
        return [_to_provider(row) for row in await self._pool.fetch(self.LIST, tenant, active_only)]

    OWNERS = "SELECT tenant FROM oidc_uri_owner WHERE uri_hash = $2 AND tenant <> $1 ORDER BY since, tenant LIMIT 100"

    async def list_other_owners(self, tenant: TenantId, uri: str) -> list[TenantId]:
        """Other tenants that have or had a provider at ``uri``, the oldest first; a hundred at most."""
        return [TenantId(row["tenant"]) for row in await self._pool.fetch(self.OWNERS, tenant, _hash_uri(uri))]

    COUNT = "SELECT count(*) FROM oidc_provider WHERE tenant = $1"

    REGISTER = """
        INSERT INTO oidc_provider (tenant, id, uri, issuers, audiences, roles_claim, active, created_at,
                                   keys_since, reloaded_at, claimed_at)
        VALUES ($1, $2::uuid, $3, $4::text[], $5::text[], $6, true, $7::bigint, 0, 0,
                CASE WHEN $4::text[] <> '{}' THEN $7::bigint END)
            ON CONFLICT ON CONSTRAINT oidc_provider_uri DO NOTHING
    """

    REMEMBER = """
        INSERT INTO oidc_uri_owner (tenant, uri_hash, since) VALUES ($1, $2, $3::bigint) ON CONFLICT DO NOTHING
    """

    CLAIMS = f"""
        SELECT {COLUMNS} FROM oidc_provider
         WHERE tenant <> $1
           AND (issuers && $2::text[] OR issuers = '{{}}' AND (discovered = ANY($2) OR uri = $3 AND $4))
    """  # noqa: S608

    async def register(
        self, provider: Provider, act: TenantAct
    ) -> Literal["registered", "duplicate", "too many", "taken"]:
        """Add a provider, unless its tenant has one at this URI, or :data:`MAX_PROVIDERS`, or another tenant has
        claimed what it claims.
        """
        values = (provider.uri, list(provider.issuers), list(provider.audiences), provider.roles_claim)
        async with self._open_change(BEGIN) as connection:
            full = await connection.fetchval(self.COUNT, provider.tenant) >= MAX_PROVIDERS
            key = (provider.tenant, UUID(provider.id))
            if full:
                return "too many"
            if await _list_rivals(connection, provider):
                return "taken"
            if await connection.execute(self.REGISTER, *key, *values, provider.created_at) != "INSERT 0 1":
                return "duplicate"
            await connection.execute(self.REMEMBER, provider.tenant, _hash_uri(provider.uri), provider.created_at)
            await _end_change(connection, act)
        return "registered"

    FIND = f"SELECT {COLUMNS} FROM oidc_provider WHERE tenant = $1 AND id = $2::uuid"  # noqa: S608

    UPDATE = f"""
        UPDATE oidc_provider SET issuers = $3::text[], audiences = $4::text[], roles_claim = $5,
                                 discovered = CASE WHEN issuers = $3 THEN discovered END,
                                 claimed_at = CASE WHEN issuers = $3 THEN claimed_at
                                                   WHEN $3 <> '{{}}' THEN $6::bigint END,
                                 keys_since = greatest($6::bigint, keys_since + 1)
         WHERE tenant = $1 AND id = $2::uuid AND active
     RETURNING {COLUMNS}
    """  # noqa: S608

    async def update(
        self, tenant: TenantId, id_: UUID, changes: ProviderChanges, *, now: int, act: TenantAct
    ) -> Provider | Literal["taken"] | None:
        """Change a provider, whose keys are fetched again. One that is not active is returned as it is; None when the
        tenant has none of this id; ``taken`` when it would claim more of what another tenant has claimed.
        """
        async with self._open_change(BEGIN) as connection:
            found = await connection.fetchrow(self.FIND, tenant, id_)
            if found is None or not found["active"]:
                return None if found is None else _to_provider(found)
            known = _to_provider(found)
            issuers = known.issuers if changes.issuers is UNSET else changes.issuers
            audiences = known.audiences if changes.audiences is UNSET else changes.audiences
            claim = known.roles_claim if changes.roles_claim is UNSET else changes.roles_claim
            wanted = replace(known, issuers=tuple(issuers), audiences=tuple(audiences))
            if await _list_rivals(connection, wanted) - await _list_rivals(connection, known):
                return "taken"
            row = await connection.fetchrow(self.UPDATE, tenant, id_, list(issuers), list(audiences), claim, now)
            assert row is not None, "the row was there under the lock"  # noqa: S101
            await _end_change(connection, act)
        return _to_provider(row)

    INVALIDATE = "UPDATE oidc_provider SET active = false WHERE tenant = $1 AND id = $2::uuid AND active"

    async def invalidate(self, tenant: TenantId, id_: UUID, *, act: TenantAct) -> bool | None:
        """Make a provider inactive: whether it was active; None when the tenant has none of this id."""
        return await self._switch(self.INVALIDATE, tenant, id_, act=act)

    REACTIVATE = """
        UPDATE oidc_provider SET active = true, keys_since = greatest($3::bigint, keys_since + 1)
         WHERE tenant = $1 AND id = $2::uuid AND NOT active
    """

    async def reactivate(self, tenant: TenantId, id_: UUID, *, now: int, act: TenantAct) -> bool | None:
        """Make a provider active, whose keys are fetched again: whether it was not; None when the tenant has none of
        this id.
        """
        return await self._switch(self.REACTIVATE, tenant, id_, now, act=act)

    DELETE = "DELETE FROM oidc_provider WHERE tenant = $1 AND id = $2::uuid"

    async def delete(self, tenant: TenantId, id_: UUID, *, act: TenantAct) -> bool | None:
        """Remove a provider: None when the tenant has none of this id."""
        return await self._switch(self.DELETE, tenant, id_, act=act)

    RELOAD = """
        UPDATE oidc_provider SET reloaded_at = greatest($2::bigint, reloaded_at + 1) WHERE tenant = $1 AND active
    """

    async def reload(self, tenant: TenantId, *, now: int, act: TenantAct) -> None:
        """Have all nodes fetch the keys of the tenant's active providers again."""
        async with self._open_change(BEGIN) as connection:
            await connection.execute(self.RELOAD, tenant, now)
            await _end_change(connection, act)

    RECORD_ISSUER = """
        UPDATE oidc_provider
           SET discovered = $3, claimed_at = CASE WHEN discovered IS NULL THEN coalesce(claimed_at, $4) ELSE $4 END
         WHERE tenant = $1 AND id = $2::uuid AND issuers = '{}' AND discovered IS DISTINCT FROM $3
    """

    EARLIER = """
        SELECT EXISTS (
               SELECT FROM oidc_provider mine, oidc_provider rival
                WHERE mine.tenant = $1 AND mine.id = $2::uuid AND rival.id = ANY($3::uuid[])
                  AND (coalesce(rival.claimed_at, rival.created_at), rival.created_at, rival.id)
                      < (coalesce(mine.claimed_at, mine.created_at), mine.created_at, mine.id)
               )
    """

    async def record_issuer(self, provider: Provider, issuer: str, *, now: int) -> bool:
        """Record which issuer the discovery document of a provider names, from when on it is claimed; whether other
        tenants had claimed nothing of that before. If they had, the trail of the tenant tells.

        Another task, or node, may have recorded it already: the answer is the same.
        """
        key = (provider.tenant, UUID(provider.id))
        async with self._open_change(BEGIN) as connection:
            rivals = await _list_rivals(connection, replace(provider, discovered=issuer))
            tag = await connection.execute(self.RECORD_ISSUER, *key, issuer, now)
            if tag.endswith(" 0"):
                return not (rivals and await connection.fetchval(self.EARLIER, *key, [*map(UUID, rivals)]))
            shadow = Act(action="oidc_provider.shadow", target_kind="OIDC_PROVIDER", target_id=provider.id)
            await _end_change(connection, TenantAct(provider.tenant, SYSTEM, shadow) if rivals else None)
        return not rivals

    async def find(self, tenant: TenantId, id_: UUID) -> Provider | None:
        """The provider with this id, if it is one of the tenant."""
        rows = await self._pool.fetch(self.FIND, tenant, id_)
        return _to_provider(rows[0]) if rows else None

    async def _switch(self, statement: str, tenant: TenantId, id_: UUID, *values: int, act: TenantAct) -> bool | None:
        async with self._open_change(BEGIN) as connection:
            if await connection.fetchrow(self.FIND, tenant, id_) is None:
                return None
            tag: str = await connection.execute(statement, tenant, id_, *values)
            if tag.endswith(" 0"):
                return False
            await _end_change(connection, act)
        return True


BEGIN: Final = "SELECT revision FROM oidc_revision FOR UPDATE"
ADVANCE: Final = "UPDATE oidc_revision SET revision = revision + 1"


async def _list_rivals(connection: DatabaseConnection, provider: Provider) -> set[str]:
    """The providers of other tenants that claim an issuer and audience that the provider claims, too."""
    issuers = provider.issuers or (() if provider.discovered is None else (provider.discovered,))
    rows = await connection.fetch(
        StoredProviders.CLAIMS, provider.tenant, list(issuers), provider.uri, not provider.issuers
    )
    others = map(_to_provider, rows)
    mine = set(provider.audiences)
    return {each.id for each in others if not mine or not each.audiences or mine.intersection(each.audiences)}


async def _end_change(connection: DatabaseConnection, act: TenantAct | None) -> None:
    await record(connection, act)
    await connection.execute(ADVANCE)
    await announce(connection, CHANNEL, "")


def _hash_uri(uri: str) -> bytes:
    return hashlib.sha256(uri.encode("utf-8", "surrogatepass")).digest()


def _to_provider(row: asyncpg.Record) -> Provider:
    issuers: Sequence[str] = row["issuers"]
    audiences: Sequence[str] = row["audiences"]
    return Provider(
        id=str(row["id"]),
        tenant=TenantId(row["tenant"]),
        uri=row["uri"],
        active=row["active"],
        issuers=tuple(issuers),
        audiences=tuple(audiences),
        roles_claim=row["roles_claim"],
        created_at=row["created_at"],
        keys_since=row["keys_since"],
        reloaded_at=row["reloaded_at"],
        discovered=row["discovered"],
    )

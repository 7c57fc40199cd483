"""Identity providers of a database in which tenants have registered the same issuer and audience."""

from uuid import uuid4

import asyncpg

from statewright.storage import migrate
from statewright.storage.auth.providers import StoredProviders
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from tests.database import connected, temporary_database

BEFORE = [migration for migration in migrate.MIGRATIONS if migration.name < "0040"]
INSERT = """
    INSERT INTO oidc_provider (tenant, id, uri, issuers, audiences, active, created_at, keys_since, reloaded_at)
    VALUES ($1, $2, $3, $4::text[], $5::text[], true, $6::bigint, 0, 0)
"""


async def insert(
    connection: asyncpg.Connection, tenant: str, at: int, *, uri: str, issuers: list[str], audiences: list[str]
) -> None:
    """As processes of the version before do."""
    await connection.execute(INSERT, tenant, uuid4(), uri, issuers, audiences, at)


async def test_of_duplicates_the_earliest_counts_and_the_trail_tells_the_others(database_server: str) -> None:
    same = {"uri": "https://a.test/", "issuers": ["i"]}
    async with temporary_database(database_server) as url:
        async with connected(url) as connection:
            await migrate.apply_pending(connection, BEFORE)
            await insert(connection, "second", 2, **same, audiences=["shop", "desk"])
            await insert(connection, "first", 1, **same, audiences=["shop"])
            await insert(connection, "other", 3, **same, audiences=["x"])
            await insert(connection, "any", 4, uri="https://b.test/", issuers=["j", "i"], audiences=[])
            await insert(connection, "discovers", 5, uri="https://c.test/", issuers=[], audiences=["shop"])
            await insert(connection, "discovers-too", 6, uri="https://c.test/", issuers=[], audiences=["shop"])
            await migrate.apply_pending(connection)
            shadowed = await connection.fetch("SELECT tenant, action, target_kind FROM ops_audit ORDER BY tenant")
            assert [tuple(row) for row in shadowed] == [
                (tenant, "oidc_provider.shadow", "OIDC_PROVIDER") for tenant in ("any", "discovers-too", "second")
            ]
            await insert(connection, "beside", 3, uri="https://d.test/", issuers=["i"], audiences=["y"])
            await insert(connection, "later", 0, uri="https://e.test/", issuers=[], audiences=["y"])
        async with Pool(parse_database_url(url), size=1) as pool:
            store = StoredProviders(pool)
            order = [provider.tenant for provider in await store.list_active()]
            assert order[:2] == ["first", "second"]
            assert order[4:] == ["any", "discovers", "discovers-too", "later"]
            earlier, later = (await store.list_active())[5:7]
            assert not await store.record_issuer(later, "k", now=10), "whatever stands at its URI is claimed"
            assert not await store.record_issuer(later, "k", now=12), "it was found out before, and is so still"
            await store.record_issuer(earlier, "k", now=11)
            assert await store.record_issuer(earlier, "k", now=12), "who came later takes nothing away"
            assert [provider.tenant for provider in await store.list_active()] == order, "who was first stays first"

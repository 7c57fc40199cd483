"""What tests of the operations API share."""

from dataclasses import replace

import asyncpg

from tests.builders import Json
from tests.service import Api, RunningService, done


def ops_api(service: RunningService, tenant: str, *roles: str, user: str = "alice") -> Api:
    """The operations API as a user of the tenant sees it; paths begin behind ``/ops/v1``."""
    api = service.api(tenant, user, user_roles=["ROLE_USER", *roles])
    return replace(api, url=f"{service.root}/ops/v1")


def walk(ops: Api, path: str, *, limit: int) -> list[Json]:
    """All items of a list, page by page."""
    items, query = [], f"limit={limit}"
    while True:
        page = done(ops.get(f"{path}?{query}"))
        items += page["items"]
        if "nextCursor" not in page:
            return items
        assert len(page["items"]) == limit
        query = f"limit={limit}&cursor={page['nextCursor']}"


async def list_rows(connection: asyncpg.Connection, tenant: str) -> dict[str, list[Json]]:
    """The versions of all rows of the tenant, but for rates: nodes write now and then what was done before."""
    tables = await connection.fetch(
        "SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_name)"
        " WHERE column_name = 'tenant' AND table_type = 'BASE TABLE' AND columns.table_schema = 'public'"
    )
    return {
        name: await connection.fetch(f"SELECT xmin::text, ctid::text FROM {name} WHERE tenant = $1", tenant)
        for (name,) in tables
        if not name.endswith("_rate")
    }

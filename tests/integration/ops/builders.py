"""What tests of the operations API share."""

import asyncio
from dataclasses import replace
from uuid import uuid4

import asyncpg

from statewright.ids import TenantId, system_clock
from statewright.operations.incidents import IncidentRow
from tests.builders import Json
from tests.service import PATIENCE_S, Api, RunningService, done


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


def sweep(service: RunningService) -> None:
    """Close the incidents whose cause is gone."""
    sweeper = service.parts.runtime.operations.concerns.incident_sweeper
    asyncio.run_coroutine_threadsafe(sweeper.run_once(), service.loop).result(PATIENCE_S)


def an_incident(tenant: str, subject: str, *, fingerprint: str = "f", component: str | None = None) -> IncidentRow:
    """The failure of an entity that could not be created."""
    return IncidentRow(
        tenant=TenantId(tenant),
        id=str(uuid4()),
        kind="RUN_FAILED",
        severity="ERROR",
        fingerprint=fingerprint,
        title="t",
        at=system_clock(),
        occurrences=1,
        subject_kind="NEW_ENTITY",
        subject_id=subject,
        model="prize/1",
        state="NEW",
        component=component,
        code="X",
        message="m",
        principal_id="ada",
        principal_kind="user",
    )


async def list_rows(connection: asyncpg.Connection, tenant: str) -> dict[str, list[Json]]:
    """The versions of all rows of the tenant, but for rates, surveys and counts: nodes write now and then what was done
    before."""
    tables = await connection.fetch(
        "SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_name)"
        " WHERE column_name = 'tenant' AND table_type = 'BASE TABLE' AND columns.table_schema = 'public'"
    )
    return {
        name: await connection.fetch(f"SELECT xmin::text, ctid::text FROM {name} WHERE tenant = $1", tenant)
        for (name,) in tables
        if not name.endswith(("_rate", "_survey", "_count", "_count_change"))
    }

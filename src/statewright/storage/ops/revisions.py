"""Revisions of the workflows of a model (docs/reference/operations.md#revisions-of-workflows).

A revision is written in the transaction of the change that makes it, under the lock of the model: numbers have no gaps.
"""

import asyncio
from typing import Annotated, Final

import asyncpg
from msgspec import Meta, Struct

from statewright.entity import Actor
from statewright.failures import SearchTimeout
from statewright.ids import ModelId, TenantId
from statewright.operations.checks import Origin, PopulationItem, WorkflowRevision
from statewright.storage.columns import ENTITY_COLUMNS
from statewright.storage.ops.records import read_record
from statewright.storage.pool import Pool

SYSTEM: Final = Actor("system", "system")


class NewRevision(Struct, frozen=True, kw_only=True):
    """Who left which workflows, and how; ``mode`` None: not by an import."""

    by: Actor
    origin: Origin
    mode: str | None = None
    note: str | None = None


class RevisionKey(Struct, frozen=True, array_like=True):
    """Where a revision stands in the list of its model."""

    revision: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class StoredRevision(Struct, frozen=True):
    """A revision, and its workflows in the stored form of the workflow package."""

    view: WorkflowRevision
    text: str


ADD: Final = """
    WITH given AS (
        SELECT $4::text AS document, encode(sha256(convert_to($4, 'UTF8')), 'hex') AS hash
    ), kept AS (
        INSERT INTO workflow_document (tenant, hash, document) SELECT $1, hash, document FROM given
            ON CONFLICT DO NOTHING
    )
    INSERT INTO workflow_revision (tenant, model, revision, definition_revision, hash, origin, mode, note,
                                   imported_at, imported_by_id, imported_by_kind)
    SELECT $1, $2, (SELECT coalesce(max(revision), 0) + 1 FROM workflow_revision WHERE tenant = $1 AND model = $2),
           $3, given.hash, $5, $6, $7, now_us(), $8, $9
      FROM given
    RETURNING revision
"""


async def add_revision(
    connection: asyncpg.Connection,
    tenant: TenantId,
    model: ModelId,
    new: NewRevision,
    *,
    text: str,
    definition_revision: int,
) -> int:
    """Keep workflows as the next revision of a model; its number. The caller holds the lock of the model."""
    number: int = await connection.fetchval(
        ADD,
        tenant,
        model,
        definition_revision,
        text,
        new.origin,
        new.mode,
        new.note,
        new.by.id,
        new.by.kind,
    )
    return number


NEWEST: Final = """
    SELECT made.revision, made.hash = encode(sha256(convert_to(workflow_set.workflows, 'UTF8')), 'hex') AS is_stored
      FROM workflow_revision AS made
      JOIN workflow_set ON workflow_set.tenant = made.tenant AND workflow_set.model = made.model
     WHERE made.tenant = $1 AND made.model = $2
     ORDER BY made.revision DESC
     LIMIT 1
"""


async def find_newest(connection: asyncpg.Connection, tenant: TenantId, model: ModelId) -> tuple[int, bool]:
    """The last revision of a model, and whether the workflows of the model are those; 0 where there is none."""
    row = await connection.fetchrow(NEWEST, tenant, model)
    return (0, False) if row is None else (row["revision"], row["is_stored"])


async def fetch_newest(pool: Pool, tenant: TenantId, model: ModelId) -> tuple[int, bool]:
    """The same, for one who does not change the model."""
    async with pool.connection() as connection:
        return await find_newest(connection, tenant, model)


_COLUMNS: Final = """
           made.revision, made.imported_at, made.imported_by_id, made.imported_by_kind, made.mode, made.hash,
           made.origin, made.note,
           made.revision = (SELECT max(revision) FROM workflow_revision WHERE tenant = $1 AND model = $2) AS current
"""

REVISIONS: Final = f"""
    -- Newest first; walks the primary key backwards.
    SELECT {_COLUMNS}
      FROM workflow_revision AS made
     WHERE made.tenant = $1 AND made.model = $2 AND ($3::integer IS NULL OR made.revision < $3)
     ORDER BY made.revision DESC
     LIMIT $4
"""  # noqa: S608 - the column list is a constant


async def fetch_revisions(
    pool: Pool, tenant: TenantId, model: ModelId, *, limit: int, after: RevisionKey | None
) -> list[WorkflowRevision]:
    """Up to ``limit`` revisions of a model, newest first; those older than ``after``."""
    rows = await pool.fetch(REVISIONS, tenant, model, after.revision if after else None, limit)
    return [read_record(WorkflowRevision, row) for row in rows]


ONE: Final = f"""
    SELECT {_COLUMNS}, kept.document
      FROM workflow_revision AS made
      JOIN workflow_document AS kept ON kept.tenant = made.tenant AND kept.hash = made.hash
     WHERE made.tenant = $1 AND made.model = $2 AND made.revision = $3
"""  # noqa: S608


async def find_revision(pool: Pool, tenant: TenantId, model: ModelId, revision: int) -> StoredRevision | None:
    """A revision of a model; None when it has no such one."""
    row = await pool.fetchrow(ONE, tenant, model, revision)
    return None if row is None else StoredRevision(read_record(WorkflowRevision, row), row["document"])


COUNT_TIMEOUT_S: Final = 5.0
MAX_GROUPS: Final = 10_000

POPULATION: Final = f"""
    -- A range of the index entity_model. Revisions are in the order of their definition revisions: each is made under
    -- the lock of its model.
    SELECT moved.workflow, moved.state, made.revision, sum(moved.count)::bigint AS count
      FROM (SELECT {ENTITY_COLUMNS.definition}, state, count(*)
              FROM entity WHERE tenant = $1 AND model = $2
             GROUP BY {ENTITY_COLUMNS.definition}, state) AS moved (workflow, definition_revision, state, count)
      LEFT JOIN LATERAL (SELECT revision FROM workflow_revision
                          WHERE tenant = $1 AND model = $2 AND definition_revision <= moved.definition_revision
                          ORDER BY revision DESC LIMIT 1) AS made ON true
     WHERE $3::integer IS NULL OR made.revision = $3
     GROUP BY moved.workflow, moved.state, made.revision
     ORDER BY moved.workflow, moved.state, made.revision
     LIMIT $4
"""  # noqa: S608


async def count_entities(
    pool: Pool, tenant: TenantId, model: ModelId, revision: int | None = None
) -> tuple[PopulationItem, ...]:
    """The entities of a model by workflow, state and revision, or those of one revision. Raises ``SearchTimeout``."""
    try:
        async with asyncio.timeout(COUNT_TIMEOUT_S), pool.connection() as connection:
            rows = await connection.fetch(POPULATION, tenant, model, revision, MAX_GROUPS)
    except TimeoutError as late:
        raise SearchTimeout(COUNT_TIMEOUT_S) from late
    return tuple(PopulationItem(**row) for row in rows)

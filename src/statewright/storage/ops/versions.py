"""The versions of an entity, the superseded ones and those of a deleted entity included."""

from typing import Annotated, Final

import asyncpg
from msgspec import Meta, Struct

from statewright.entity import Actor, ChangeType
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.storage.pool import Pool
from statewright.storage.read_barrier import wait_until_visible


class VersionKey(Struct, frozen=True, array_like=True):
    """The instant from which a version is valid, unique in an entity."""

    valid_from: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Version(Struct, frozen=True, kw_only=True):
    """One version without its document. ``until`` is when it was superseded, None for the last one; ``stored_bytes``
    is what the document takes, mostly compressed. Instants in epoch microseconds.
    """

    transaction: TransactionId
    at: int
    until: int | None
    created_at: int
    state: str
    transition: str
    workflow: str
    workflow_revision: int
    attributed: Actor
    executor: Actor
    stored_bytes: int
    change: ChangeType
    is_current: bool


class VersionDocument(Struct, frozen=True):
    """A version with its document as JSON text, None for a deletion."""

    version: Version
    document: str | None


class VersionFilter(Struct, frozen=True, kw_only=True):
    """Which versions are wanted: in one of the states, written from ``since`` on and before ``before``."""

    states: tuple[str, ...] | None = None
    since: int | None = None
    before: int | None = None


_COLUMNS: Final = """transaction_id, valid_from, created_at, state, transition, workflow, workflow_revision,
             attributed_id, attributed_kind, executor_id, executor_kind,
             coalesce(pg_column_size(document), 0) AS stored_bytes, document IS NULL AS deleted"""

_VERSIONS: Final = f"""
    SELECT {_COLUMNS}, NULL::bigint AS until, true AS is_current, document FROM entity WHERE tenant = $1 AND id = $2
     UNION ALL
    SELECT {_COLUMNS}, nullif(valid_to, 9223372036854775807) AS until, false AS is_current, document
      FROM entity_history WHERE tenant = $1 AND id = $2
"""  # noqa: S608 - the column list is a constant

_LISTED: Final = """transaction_id, valid_from, created_at, state, transition, workflow, workflow_revision,
           attributed_id, attributed_kind, executor_id, executor_kind, stored_bytes, deleted, until, is_current"""

LIST: Final = f"""
    SELECT {_LISTED}
      FROM ({_VERSIONS}) AS version
     WHERE ($3::text[] IS NULL OR state = ANY($3))
       AND valid_from >= coalesce($4::bigint, 0) AND valid_from < coalesce($5::bigint, 9223372036854775807)
       AND valid_from < coalesce($6::bigint, 9223372036854775807)
     ORDER BY valid_from DESC
     LIMIT $7
"""  # noqa: S608

ONE: Final = f"""
    SELECT {_LISTED}, document
      FROM ({_VERSIONS}) AS version
     WHERE ($3::uuid IS NULL OR transaction_id = $3) AND valid_from <= coalesce($4::bigint, 9223372036854775807)
     ORDER BY valid_from DESC
     LIMIT 1
"""  # noqa: S608


async def fetch_versions(
    pool: Pool, tenant: TenantId, entity: EntityId, wanted: VersionFilter, *, limit: int, after: VersionKey | None
) -> list[Version]:
    """Up to ``limit`` versions that are kept, newest first; those before one when ``after`` is its key."""
    until = None if after is None else after.valid_from
    async with pool.connection() as connection:
        rows = await connection.fetch(LIST, tenant, entity, wanted.states, wanted.since, wanted.before, until, limit)
    return [_to_version(row) for row in rows]


async def find_version(
    pool: Pool,
    tenant: TenantId,
    entity: EntityId,
    *,
    transaction: TransactionId | None = None,
    at: int | None = None,
) -> VersionDocument | None:
    """The version that a transaction wrote, or the last one that was written at an instant or before; the last of all
    when neither is given.
    """
    if at is not None:
        await wait_until_visible(pool, at)
    async with pool.connection() as connection:
        row = await connection.fetchrow(ONE, tenant, entity, transaction, at)
    return None if row is None else VersionDocument(_to_version(row), row["document"])


def _to_version(row: asyncpg.Record) -> Version:
    kind: ChangeType = "DELETE" if row["deleted"] else "CREATE" if row["valid_from"] == row["created_at"] else "UPDATE"
    return Version(
        transaction=TransactionId(str(row["transaction_id"])),
        at=row["valid_from"],
        until=row["until"],
        created_at=row["created_at"],
        state=row["state"],
        transition=row["transition"],
        workflow=row["workflow"],
        workflow_revision=row["workflow_revision"],
        attributed=Actor(row["attributed_id"], row["attributed_kind"]),
        executor=Actor(row["executor_id"], row["executor_kind"]),
        stored_bytes=row["stored_bytes"],
        change=kind,
        is_current=row["is_current"],
    )

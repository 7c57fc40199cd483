"""The versions of an entity, the superseded ones and those of a deleted entity included; and the acts of operators that
commit with what they do to an entity, such as a restore.
"""

from typing import Annotated, Final

import asyncpg
from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright.entity import Actor, ChangeType, Entity
from statewright.ids import EntityId, TenantId, TransactionId, make_uuid7, system_clock
from statewright.operations.service import Act
from statewright.storage.commit.overlay import StagedPart
from statewright.storage.commit.statement import build_staged_part, read_sections
from statewright.storage.entities import COLUMNS, to_entity, wait_until_visible
from statewright.storage.ops.audit import encode_details
from statewright.storage.pool import Pool


class VersionKey(Struct, frozen=True, array_like=True):
    """The instant from which a version is valid, unique in an entity."""

    valid_from: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Version(Struct, frozen=True, kw_only=True):
    """One version. ``entity`` has no document; ``until`` is when it was superseded, None for the last one;
    ``stored_bytes`` is what the document takes, mostly compressed. Instants in epoch microseconds.
    """

    entity: Entity
    until: int | None
    stored_bytes: int
    is_deletion: bool
    is_current: bool

    @property
    def at(self) -> int:
        """When it was written."""
        return self.entity.updated_at

    @property
    def change(self) -> ChangeType:
        """What wrote it."""
        if self.is_deletion:
            return "DELETE"
        return "CREATE" if self.entity.created_at == self.entity.updated_at else "UPDATE"


class VersionDocument(Struct, frozen=True):
    """A version with its document as JSON text, None for a deletion."""

    version: Version
    document: str | None


class VersionFilter(Struct, frozen=True, kw_only=True):
    """Which versions are wanted: in one of the states, written from ``since`` on and before ``before``."""

    states: tuple[str, ...] | None = None
    since: int | None = None
    before: int | None = None


_VERSIONS: Final = f"""
    SELECT {COLUMNS}, NULL::bigint AS until, true AS is_current FROM entity WHERE tenant = $1 AND id = $2
     UNION ALL
    SELECT {COLUMNS}, nullif(valid_to, 9223372036854775807) AS until, false AS is_current
      FROM entity_history WHERE tenant = $1 AND id = $2
"""  # noqa: S608 - the column list is a constant

_ABOUT: Final = (
    "coalesce(pg_column_size(document), 0) AS stored_bytes, document IS NULL AS is_deletion, until, is_current"
)

_LISTED: Final = f"{COLUMNS.replace('document', 'NULL AS document')}, {_ABOUT}"

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
    SELECT {COLUMNS}, {_ABOUT}
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
    return Version(
        entity=replace(to_entity(row), document=""),
        until=row["until"],
        stored_bytes=row["stored_bytes"],
        is_deletion=row["is_deletion"],
        is_current=row["is_current"],
    )


class StagedAct(StagedPart, frozen=True, kw_only=True):
    """An act as it is recorded."""

    tenant: TenantId
    id: str
    actor_id: str
    actor_kind: str
    action: str
    target_kind: str
    target_id: str
    details: str
    reason: str | None = None
    trace_id: str | None = None


ACTS: Final = build_staged_part("acts", read_sections("statewright.storage.ops", "acts.sql"))


def build_staged_act(tenant: TenantId, actor: Actor, act: Act) -> StagedAct:
    """What a transaction stages that carries the act out."""
    return StagedAct(
        tenant=tenant,
        id=make_uuid7(system_clock()),
        actor_id=actor.id,
        actor_kind=actor.kind,
        action=act.action,
        target_kind=act.target_kind,
        target_id=act.target_id,
        details=encode_details(act.details),
        reason=act.reason,
        trace_id=act.trace_id,
    )

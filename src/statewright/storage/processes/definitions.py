"""Stored versions of definitions. They are inserted by the statement that commits their entities, and never change."""

from collections.abc import Sequence
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from statewright.failures import Conflict
from statewright.ids import TenantId
from statewright.storage.commit.overlay import PartRefused, StagedPart, Submission
from statewright.storage.commit.statement import Part, read_sections
from statewright.storage.entities import SharedReads
from statewright.storage.pool import Pool


class StoredDefinition(Struct, frozen=True, kw_only=True):
    """One version. ``source`` is the text it was accepted as; ``uploaded_at`` is in epoch microseconds."""

    id: str
    version: int
    uploaded_at: int
    source: str


class StoredVersion(Struct, frozen=True, kw_only=True):
    """What a new upload is compared with. ``content`` is a hash."""

    version: int
    content: str
    uploaded_at: int


class LatestDefinition(Struct, frozen=True, kw_only=True):
    """The latest version of a definition, and the numbers of all, ascending."""

    id: str
    version: int
    name: str
    description: str
    uploaded_at: int
    versions: tuple[int, ...]


DefinitionKey = tuple[TenantId, str, str]
"""A tenant, a language and the id of a definition."""

LATEST_VERSIONS: Final = """
    -- LATERAL … LIMIT 1 keeps the planner at one index probe per definition.
    SELECT wanted.tenant, wanted.language, wanted.id, latest.version
      FROM unnest($1::text[], $2::text[], $3::text[]) AS wanted (tenant, language, id)
     CROSS JOIN LATERAL (
            SELECT version
              FROM process_definition AS made
             WHERE made.tenant = wanted.tenant AND made.language = wanted.language AND made.id = wanted.id
             ORDER BY version DESC
             LIMIT 1) AS latest
"""


class LatestVersions:
    """The numbers of the latest versions. Those who ask at a time share statements: a version that was stored before
    one asked is always seen.
    """

    def __init__(self, pool: Pool) -> None:
        self._reads = SharedReads(pool, _fetch_latest_versions, name="latest-versions")

    async def find(self, tenant: TenantId, language: str, definition_id: str) -> int | None:
        """The number of the latest version; None when there is none."""
        return await self._reads.ask((tenant, language, definition_id))


async def _fetch_latest_versions(
    connection: asyncpg.Connection, keys: Sequence[DefinitionKey], timeout_s: float
) -> dict[DefinitionKey, int]:
    columns = [list(column) for column in zip(*keys, strict=True)]
    rows = await connection.fetch(LATEST_VERSIONS, *columns, timeout=timeout_s)
    return {(TenantId(tenant), language, id_): version for tenant, language, id_, version in rows}


class AssumedVersion(StagedPart, frozen=True, kw_only=True):
    """What a transaction starts an instance of: it is refused when a later version was stored before it commits."""

    tenant: TenantId
    language: str
    id: str
    version: int


_encode = msgspec.json.Encoder().encode


def _encode_assumed(batch: Sequence[Submission]) -> str | None:
    """The versions, each once, with the transactions that it is assumed by: most of a batch start the same."""
    assumed: dict[AssumedVersion, list[int]] = {}
    for number, submission in enumerate(batch):
        version = submission.parts.get("latest")
        if isinstance(version, AssumedVersion):
            assumed.setdefault(version, []).append(number)
    if not assumed:
        return None
    return _encode(
        [
            {"tenant": one.tenant, "language": one.language, "id": one.id, "version": one.version, "ts": numbers}
            for one, numbers in assumed.items()
        ]
    ).decode()


LATEST: Final = Part(
    name="latest",
    sections=read_sections("statewright.storage.processes", "latest.sql"),
    encode=_encode_assumed,
    refusals={"outdated": PartRefused(lambda _: Conflict("a later version of the definition was stored"))},
    staged_as="latest",
)


VERSION: Final = """
    SELECT id, version, uploaded_at, source
      FROM process_definition
     WHERE tenant = $1 AND language = $2 AND id = $3 AND version = $4
"""


async def fetch_version(
    pool: Pool, tenant: TenantId, language: str, definition_id: str, version: int
) -> StoredDefinition | None:
    """One version; None when there is none."""
    row = await pool.fetchrow(VERSION, tenant, language, definition_id, version)
    return None if row is None else StoredDefinition(**row)


VERSIONS: Final = """
    SELECT version, content, uploaded_at
      FROM process_definition
     WHERE tenant = $1 AND language = $2 AND id = $3
     ORDER BY version
"""


async def fetch_versions(pool: Pool, tenant: TenantId, language: str, definition_id: str) -> list[StoredVersion]:
    """All versions of one id, ascending."""
    return [StoredVersion(**row) for row in await pool.fetch(VERSIONS, tenant, language, definition_id)]


LISTED: Final = """
    WITH latest AS (
        SELECT DISTINCT ON (id) id, version, name, description, uploaded_at
          FROM process_definition
         WHERE tenant = $1 AND language = $2
         ORDER BY id, version DESC
    ),
    matching AS (
        SELECT * FROM latest WHERE strpos(lower(id), lower($3)) > 0 OR strpos(lower(name), lower($3)) > 0
    )
    SELECT page.id, page.version, page.name, page.description, page.uploaded_at,
           ARRAY(SELECT version FROM process_definition
                  WHERE tenant = $1 AND language = $2 AND id = page.id ORDER BY version) AS versions,
           (SELECT count(*) FROM matching) AS total
      FROM (SELECT * FROM matching ORDER BY id COLLATE "C" OFFSET $4 LIMIT $5) AS page
     ORDER BY page.id COLLATE "C"
"""

COUNT: Final = """
    SELECT count(*)
      FROM (SELECT DISTINCT ON (id) id, name FROM process_definition
             WHERE tenant = $1 AND language = $2 ORDER BY id, version DESC) AS latest
     WHERE strpos(lower(id), lower($3)) > 0 OR strpos(lower(name), lower($3)) > 0
"""


async def fetch_latest_definitions(
    pool: Pool, tenant: TenantId, language: str, keyword: str, *, offset: int, limit: int
) -> tuple[list[LatestDefinition], int]:
    """Definitions by id whose latest name or id contains the keyword, and how many there are."""
    async with pool.connection() as connection:
        rows = await connection.fetch(LISTED, tenant, language, keyword, offset, limit)
        total = rows[0]["total"] if rows else await connection.fetchval(COUNT, tenant, language, keyword)
    return [
        LatestDefinition(
            id=row["id"],
            version=row["version"],
            name=row["name"],
            description=row["description"],
            uploaded_at=row["uploaded_at"],
            versions=tuple(row["versions"]),
        )
        for row in rows
    ], total

"""Messages and search jobs, newest first."""

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Raw, Struct

from statewright.entity import ModelKey
from statewright.ids import TenantId
from statewright.searches import JobId, JobStatus
from statewright.storage.pool import Pool

MAX_CONDITION_BYTES: Final = 4096
"""A longer condition is not told in a list."""


class MessageKey(Struct, frozen=True, array_like=True):
    """The place of a message in its list: its id has its time."""

    id: UUID


class ListedMessage(Struct, frozen=True, kw_only=True):
    """A message without its payload. ``header`` is JSON text."""

    id: str
    header: Raw


_MADE_AT: Final = """(substr(id::text, 16, 3) || substr(id::text, 10, 4) || substr(id::text, 1, 8)) COLLATE "C\""""
"""The time in an id, as ``message_time`` has it."""

MESSAGES: Final = f"""
    SELECT id, header FROM message
     WHERE tenant = $1
     ORDER BY {_MADE_AT} DESC, id DESC
     LIMIT $2
"""  # noqa: S608 - a constant

MESSAGES_BEHIND: Final = f"""
    SELECT id, header FROM message
     WHERE tenant = $1 AND ({_MADE_AT}, id) < ({_MADE_AT.replace("id::", "$3::uuid::")}, $3::uuid)
     ORDER BY {_MADE_AT} DESC, id DESC
     LIMIT $2
"""  # noqa: S608 - a constant


async def list_messages(pool: Pool, tenant: TenantId, *, limit: int, after: MessageKey | None) -> list[ListedMessage]:
    """Up to ``limit`` messages, the newest first; those behind ``after``."""
    async with pool.connection() as connection:
        if after is None:
            rows = await connection.fetch(MESSAGES, tenant, limit)
        else:
            rows = await connection.fetch(MESSAGES_BEHIND, tenant, limit, after.id)
    return [ListedMessage(id=str(row["id"]), header=Raw(row["header"].encode())) for row in rows]


class SearchJobKey(Struct, frozen=True, array_like=True):
    """The place of a search job in its list."""

    created_at: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    id: UUID


class ListedSearchJob(Struct, frozen=True, kw_only=True):
    """A search job; ``condition`` is JSON text, None where it is long. Instants in epoch microseconds."""

    id: JobId
    key: ModelKey
    status: JobStatus
    created_at: int
    finished_at: int | None
    expires_at: int | None
    hits: int
    failure: str | None
    condition: Raw | None


SEARCH_JOBS: Final = f"""
    -- A range of search_job_created. What is past its time is gone, whether or not a sweep has removed it.
    SELECT id, name, version, status, created_at, finished_at, hits, failure,
           CASE WHEN octet_length(condition) <= {MAX_CONDITION_BYTES} THEN condition END AS condition
      FROM search_job
     WHERE tenant = $1 AND (created_at, id) < ($2::bigint, $3::uuid)
       AND ($4::text[] IS NULL OR status = ANY ($4)) AND ($5::text IS NULL OR name = $5)
       AND (finished_at IS NULL OR finished_at > now_us() - $6::bigint)
     ORDER BY created_at DESC, id DESC
     LIMIT $7
"""  # noqa: S608 - a constant

_LAST: Final = SearchJobKey(2**63 - 1, UUID(int=2**128 - 1))


async def list_search_jobs(
    pool: Pool,
    tenant: TenantId,
    *,
    statuses: Sequence[str] | None,
    model: str | None,
    retention_us: int,
    limit: int,
    after: SearchJobKey | None,
) -> list[ListedSearchJob]:
    """Up to ``limit`` search jobs, the newest first, of some statuses or of a model by name; those behind ``after``.
    Results are kept for ``retention_us`` after the end of a job.
    """
    begin = after or _LAST
    async with pool.connection() as connection:
        rows = await connection.fetch(
            SEARCH_JOBS, tenant, begin.created_at, begin.id, statuses, model, retention_us, limit
        )
    return [
        ListedSearchJob(
            id=JobId(str(row["id"])),
            key=ModelKey(row["name"], row["version"]),
            status=row["status"],
            created_at=row["created_at"],
            finished_at=row["finished_at"],
            expires_at=None if row["finished_at"] is None else row["finished_at"] + retention_us,
            hits=row["hits"],
            failure=row["failure"],
            condition=None if row["condition"] is None else Raw(row["condition"].encode()),
        )
        for row in rows
    ]

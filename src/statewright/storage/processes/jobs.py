"""The job queue: claims, each one statement that changes queue rows and nothing else. What becomes of claimed jobs is
in :mod:`statewright.storage.processes.leases`.

Claims, sweeps and purges skip rows that another statement is just taking, so none of these waits, and a commit that
removes or holds a job waits for no longer than such a statement takes.

Claims. The oldest jobs of each wanted type are locked first, then the oldest of these are claimed: with one ``LIMIT``
over all types the planner would sort the queue. Rows locked in vain are free again when the statement ends. A claim
ends where the inputs of its jobs come to ``MAX_CLAIM_BYTES``, so that no answer is larger than a process can make.

Clocks. ``now`` is always the caller's, as for scheduled transitions.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import asyncpg
import msgspec
from msgspec import Struct

from statewright.ids import EntityId, TenantId
from statewright.operations.active_suspensions import HeldProcesses
from statewright.storage.pool import Pool


class LockedJob(Struct, frozen=True, kw_only=True):
    """A job that was locked just now. ``input`` is JSON text; instants are epoch microseconds."""

    id: str
    language: str
    instance: EntityId
    execution: str
    definition_id: str
    definition_version: int
    """0 where a node of an earlier version made the job."""
    node_id: str
    element: int | None
    job_type: str
    retries: int
    created_at: int
    input: str
    input_bytes: int
    place: int
    """For which of the leases of its claim it was locked, from 0."""


class QueuedJob(Struct, frozen=True, kw_only=True):
    """An unfinished job. ``worker`` is empty when no worker has it; ``lock_expires_at`` is None then, unless it rests.
    ``definition_version`` is 0 where a node of an earlier version made the job.
    """

    instance: EntityId
    definition_id: str
    definition_version: int
    node_id: str
    job_type: str
    retries: int
    worker: str
    locked_at: int | None
    lock_expires_at: int | None
    held: bool
    kept: bool
    """Whether it is over, and what was reported of it waits for the end of a suspension."""


class JobKind(Struct, frozen=True):
    """What a worker can do: jobs of a type, of instances of a language."""

    job_type: str
    language: str


class JobLease(Struct, frozen=True, kw_only=True):
    """Who claims, when, and until when."""

    worker: str
    now: int
    until: int


Topic = tuple[TenantId, str, str]
"""A tenant, a language and a job type."""

MAX_CLAIM_BYTES: Final = 8 * 1024 * 1024
"""The inputs of the jobs of one claim together; the last one may exceed it."""


def _build_claim(oldest: str) -> str:
    """The statement that claims the oldest of what ``oldest`` selects and locks: jobs of one type of one language."""
    return f"""
    WITH claimed AS (
        UPDATE process_job
           SET worker = ($3::text[])[picked.place], locked_at = $4, lock_expires_at = ($5::bigint[])[picked.place]
          FROM unnest(ARRAY(
                SELECT fitting.id
                  FROM (SELECT chosen.id,
                               sum(chosen.input_bytes) OVER (ORDER BY chosen.id) - chosen.input_bytes AS bytes_before
                          FROM (SELECT oldest.id, oldest.input_bytes
                                  FROM unnest($2::text[], $6::text[]) AS wanted (job_type, language)
                                 CROSS JOIN LATERAL ({oldest}) AS oldest
                                 ORDER BY oldest.id
                                 LIMIT cardinality($3::text[])) AS chosen) AS fitting
                 WHERE fitting.bytes_before < {MAX_CLAIM_BYTES}
                 ORDER BY fitting.id)) WITH ORDINALITY AS picked (id, place)
         WHERE process_job.tenant = $1 AND process_job.id = picked.id
     RETURNING picked.place, process_job.id, language, instance, execution, definition_id, definition_version, node_id,
               job_type, retries, created_at, input_bytes
    )
    SELECT claimed.place, claimed.id, claimed.language, claimed.instance, claimed.execution, claimed.definition_id,
           claimed.definition_version, claimed.node_id, claimed.job_type, claimed.retries, claimed.created_at,
           claimed.input_bytes, made.input, made.element
      FROM claimed
     CROSS JOIN LATERAL (
            -- A value that is null, such as an element of an iteration, has no input in the history.
            SELECT coalesce(input, 'null') AS input, element FROM process_execution
             WHERE process_execution.tenant = $1 AND process_execution.instance = claimed.instance
               AND process_execution.id = claimed.execution
             LIMIT 1) AS made
     ORDER BY claimed.id
    """  # noqa: S608 - the parts below


def _build_oldest(tags: str, also: str = "") -> str:
    """Uses the index whose condition on the tags this is. ``also``: a further condition."""
    return f"""
        SELECT id, input_bytes FROM process_job
         WHERE tenant = $1 AND language = wanted.language AND job_type = wanted.job_type
           AND lock_expires_at IS NULL AND NOT held AND tags {tags} {also}
         ORDER BY id
         LIMIT cardinality($3::text[]) FOR UPDATE SKIP LOCKED
    """  # noqa: S608 - the conditions below


def _build_claim_of_types(also: str = "") -> str:
    return _build_claim(
        f"SELECT id, input_bytes FROM ({_build_oldest('IS NULL', also)}) AS plain"  # noqa: S608
        f" UNION ALL SELECT id, input_bytes FROM ({_build_oldest('IS NOT NULL', also)}) AS tagged"
    )


_NOT_SUSPENDED: Final = """
    -- They may be ten thousand: to look at all of them here takes less than half of the time that sending them does.
    AND (NOT $7::boolean
         OR instance NOT IN (SELECT target::uuid FROM suspension
                              WHERE tenant = $1 AND scope IN ('ENTITY', 'INSTANCE') AND ended_at IS NULL))
    AND definition_id <> ALL ($8::text[])
"""

CLAIM: Final = _build_claim_of_types()
CLAIM_PLAIN: Final = _build_claim(_build_oldest("IS NULL"))
CLAIM_TAGGED: Final = _build_claim(_build_oldest("= $7"))
CLAIM_AROUND: Final = _build_claim_of_types(_NOT_SUSPENDED)
CLAIM_PLAIN_AROUND: Final = _build_claim(_build_oldest("IS NULL", _NOT_SUSPENDED))
CLAIM_TAGGED_AROUND: Final = _build_claim(_build_oldest("= $9", _NOT_SUSPENDED))
"""The same where some instances or definitions are suspended; who has none does not pay for the conditions."""


async def claim_jobs(
    pool: Pool,
    tenant: TenantId,
    wanted: Sequence[JobKind],
    leases: Sequence[JobLease],
    held: HeldProcesses | None = None,
) -> list[LockedJob]:
    """Lock a job for each lease: the oldest claimable ones of the kinds, in order of creation; fewer where their inputs
    are large (``is_cut_short``). None of what is ``held``. All leases begin with the first.
    """
    types, languages = [kind.job_type for kind in wanted], [kind.language for kind in wanted]
    async with pool.connection() as connection:
        args = (tenant, types, *_split_leases(leases), languages)
        if held is None:
            rows = await connection.fetch(CLAIM, *args)
        else:
            rows = await connection.fetch(CLAIM_AROUND, *args, held.has_instances, held.definitions)
    return [_to_locked_job(row) for row in rows]


def _split_leases(leases: Sequence[JobLease]) -> tuple[list[str], int, list[int]]:
    return [lease.worker for lease in leases], leases[0].now, [lease.until for lease in leases]


def is_cut_short(claimed: Sequence[LockedJob]) -> bool:
    """Whether a claim ended before its limit because of the size of the inputs."""
    return sum(job.input_bytes for job in claimed) >= MAX_CLAIM_BYTES


class PushRoute(Struct, frozen=True):
    """Where jobs are pushed to: ``tags`` as definitions spell them, None where the job type is the tag."""

    job_type: str
    tags: str | None


async def claim_route(
    pool: Pool,
    tenant: TenantId,
    language: str,
    route: PushRoute,
    leases: Sequence[JobLease],
    held: HeldProcesses | None = None,
) -> list[LockedJob]:
    """The same for the jobs of a route."""
    args = (tenant, [route.job_type], *_split_leases(leases), [language])
    around = () if held is None else (held.has_instances, held.definitions)
    tags = () if route.tags is None else (route.tags,)
    if route.tags is None:
        statement = CLAIM_PLAIN if held is None else CLAIM_PLAIN_AROUND
    else:
        statement = CLAIM_TAGGED if held is None else CLAIM_TAGGED_AROUND
    async with pool.connection() as connection:
        rows = await connection.fetch(statement, *args, *around, *tags)
    return [_to_locked_job(row) for row in rows]


ROUTES: Final = """
    -- Jumps from type to type in process_job_claimable, and from route to route in process_job_tags: one probe for
    -- each, however many jobs there are.
    WITH RECURSIVE types AS (
        (SELECT job_type FROM process_job
          WHERE tenant = $1 AND language = $2 AND lock_expires_at IS NULL AND NOT held AND tags IS NULL
          ORDER BY job_type LIMIT 1)
         UNION ALL
        SELECT (SELECT job_type FROM process_job
                 WHERE tenant = $1 AND language = $2 AND lock_expires_at IS NULL AND NOT held AND tags IS NULL
                   AND job_type > types.job_type
                 ORDER BY job_type LIMIT 1)
          FROM types
         WHERE types.job_type IS NOT NULL
    ),
    routes AS (
        (SELECT tags, job_type FROM process_job
          WHERE tenant = $1 AND language = $2 AND lock_expires_at IS NULL AND NOT held AND tags IS NOT NULL
          ORDER BY tags, job_type LIMIT 1)
         UNION ALL
        SELECT following.tags, following.job_type
          FROM routes
         CROSS JOIN LATERAL (
                SELECT tags, job_type FROM process_job
                 WHERE tenant = $1 AND language = $2 AND lock_expires_at IS NULL AND NOT held AND tags IS NOT NULL
                   AND (tags, job_type) > (routes.tags, routes.job_type)
                 ORDER BY tags, job_type LIMIT 1) AS following
    )
    SELECT job_type, NULL AS tags FROM types WHERE job_type IS NOT NULL
     UNION ALL
    SELECT job_type, tags FROM routes
"""


async def fetch_routes(pool: Pool, tenant: TenantId, language: str) -> list[PushRoute]:
    """The routes on which there are jobs to be claimed."""
    return [PushRoute(job_type, tags) for job_type, tags in await pool.fetch(ROUTES, tenant, language)]


TENANTS: Final = """
    -- Jumps from tenant to tenant in process_job_claimable, then probes it for each of the types.
    WITH RECURSIVE tenants AS (
        (SELECT tenant FROM process_job
          WHERE lock_expires_at IS NULL AND NOT held AND tags IS NULL
          ORDER BY tenant LIMIT 1)
         UNION ALL
        SELECT (SELECT tenant FROM process_job
                 WHERE lock_expires_at IS NULL AND NOT held AND tags IS NULL AND tenant > tenants.tenant
                 ORDER BY tenant LIMIT 1)
          FROM tenants
         WHERE tenants.tenant IS NOT NULL
    )
    SELECT tenant FROM tenants
     WHERE tenant IS NOT NULL
       AND EXISTS (
            SELECT 1 FROM unnest($2::text[]) AS wanted (job_type)
             CROSS JOIN LATERAL (
                    SELECT 1 FROM process_job
                     WHERE process_job.tenant = tenants.tenant AND language = $1
                       AND process_job.job_type = wanted.job_type
                       AND lock_expires_at IS NULL AND NOT held AND tags IS NULL
                     LIMIT 1) AS claimable)
"""


async def fetch_tenants(pool: Pool, language: str, job_types: Sequence[str]) -> list[TenantId]:
    """The tenants that have jobs of any of the types to be claimed, for who does them for all tenants."""
    rows = await pool.fetch(TENANTS, language, list(job_types))
    return [TenantId(row["tenant"]) for row in rows]


QUEUED: Final = """
    SELECT instance, definition_id, definition_version, node_id, job_type, retries, worker, locked_at, lock_expires_at,
           held, kept_under IS NOT NULL AS kept
      FROM process_job
     WHERE tenant = $1 AND language = $3 AND id = $2
"""


async def fetch_queued_job(pool: Pool, tenant: TenantId, language: str, job: str) -> QueuedJob | None:
    """An unfinished job; None when it is finished or never was."""
    async with pool.connection() as connection:
        row = await connection.fetchrow(QUEUED, tenant, job, language)
    if row is None:
        return None
    return QueuedJob(
        instance=EntityId(str(row["instance"])),
        definition_id=row["definition_id"],
        definition_version=row["definition_version"],
        node_id=row["node_id"],
        job_type=row["job_type"],
        retries=row["retries"],
        worker=row["worker"],
        locked_at=row["locked_at"],
        lock_expires_at=row["lock_expires_at"],
        held=row["held"],
        kept=row["kept"],
    )


OWNER_OF: Final = """
    SELECT language, instance FROM process_execution WHERE tenant = $1 AND work = $2 AND language = ANY ($3) LIMIT 1
"""


class WorkOwner(Struct, frozen=True):
    """The instance that a job or user task is or was of."""

    language: str
    instance: EntityId


async def fetch_owner_of_work(pool: Pool, tenant: TenantId, languages: Sequence[str], work: str) -> WorkOwner | None:
    """Whose job or user task this is or was; None when there never was one of this id in the languages."""
    async with pool.connection() as connection:
        row = await connection.fetchrow(OWNER_OF, tenant, work, list(languages))
    return None if row is None else WorkOwner(row["language"], EntityId(str(row["instance"])))


def _to_locked_job(row: asyncpg.Record) -> LockedJob:
    return LockedJob(
        id=str(row["id"]),
        language=row["language"],
        instance=EntityId(str(row["instance"])),
        execution=str(row["execution"]),
        definition_id=row["definition_id"],
        definition_version=row["definition_version"],
        node_id=row["node_id"],
        element=row["element"],
        job_type=row["job_type"],
        retries=row["retries"],
        created_at=row["created_at"],
        input=row["input"],
        input_bytes=row["input_bytes"],
        place=row["place"] - 1,
    )


# Telling other processes of new jobs.
#
# Never by the transaction that makes a job: ``NOTIFY`` takes a lock of the whole server until its transaction ends,
# which costs three quarters of the throughput. One notification a while later, for all jobs that
# were made meanwhile, costs nothing.

CHANNEL: Final = "statewright_process_jobs"
"""Payload: a JSON list of triples of tenant, language and job type."""

MAX_PAYLOAD: Final = 7900
"""Bytes; PostgreSQL refuses a notification of 8000 or more."""

NOTIFY: Final = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"

_decode = msgspec.json.Decoder(list[tuple[str, str, str]]).decode


async def notify(pool: Pool, topics: Iterable[Topic]) -> None:
    """Tell all processes that there may be jobs of these tenants, languages and types."""
    async with pool.connection() as connection:
        await connection.execute(NOTIFY, CHANNEL, build_payloads(topics))


def build_payloads(topics: Iterable[Topic]) -> list[str]:
    """The topics as few notifications; one that does not fit into any is left to the polls of its listeners."""
    texts: list[str] = []
    part: list[bytes] = []
    for topic in sorted(topics):
        item = msgspec.json.encode(topic)
        if len(item) + 2 > MAX_PAYLOAD:
            continue
        if part and sum(map(len, part)) + len(part) + len(item) + 2 > MAX_PAYLOAD:
            texts.append(_join_items(part))
            part = []
        part.append(item)
    return [*texts, _join_items(part)] if part else texts


def build_listener(wake: Callable[[Iterable[Topic]], None]) -> Callable[[str], None]:
    """What to do with a notification: ``wake`` who waits for what it names."""

    def handle_notification(payload: str) -> None:
        wake([(TenantId(tenant), language, job_type) for tenant, language, job_type in _decode(payload)])

    return handle_notification


def _join_items(items: list[bytes]) -> str:
    return f"[{b','.join(items).decode()}]"

"""Lists for operators: messages and search jobs, newest first, and entities that nothing has written for long.

Idle entities are found part by part: no index has the time of the last write, since updates change it. A part is some
thousand entities of a model in the order of their ids, a range of the index ``entity_model``. So the time that looking
takes depends on what is looked at, not on how much there is.

For the checks of workflows it is counted how many entities of a model are where, and how many of their timers are
armed. How many instances are where is counted up to a bound.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Final
from uuid import UUID

import asyncpg
from msgspec import Meta, Struct

from statewright.entity import ModelKey
from statewright.failures import SearchTimeout
from statewright.ids import EntityId, ModelId, TenantId, find_time
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.values import JsonObject
from statewright.operations.listings import (
    IdleEntity,
    InstanceCount,
    InstanceCounts,
    ListedMessage,
    ListedSearchJob,
    StepCount,
    StepCounts,
)
from statewright.storage.ops.records import read_record
from statewright.storage.pool import Pool
from statewright.storage.search.query import SearchDatabase

MAX_CONDITION_BYTES: Final = 4096
"""A longer condition is not told in a list."""


class MessageKey(Struct, frozen=True, array_like=True):
    """The place of a message in its list: its id has its time."""

    id: UUID


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
    return [_to_message(row) for row in rows]


def _to_message(row: asyncpg.Record) -> ListedMessage:
    id_ = str(row["id"])
    made_at = find_time(id_)
    return ListedMessage(
        id=id_,
        header=_decode_members(row["header"]),
        created_at=None if made_at is None else to_rfc3339(made_at),
    )


class SearchJobKey(Struct, frozen=True, array_like=True):
    """The place of a search job in its list."""

    created_at: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    id: UUID


SEARCH_JOBS: Final = f"""
    -- A range of search_job_created. What is past its time is gone, whether or not a sweep has removed it.
    SELECT id, name AS model_name, version AS model_version, status, created_at, finished_at, hits, failure,
           finished_at + $6::bigint AS expires_at,
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
    rows = await pool.fetch(SEARCH_JOBS, tenant, begin.created_at, begin.id, statuses, model, retention_us, limit)
    return [
        read_record(
            ListedSearchJob,
            row,
            condition=None if row["condition"] is None else _decode_members(row["condition"]),
        )
        for row in rows
    ]


def _decode_members(text: str) -> JsonObject:
    found = decode_stored(text)
    assert isinstance(found, dict)  # noqa: S101 - as it was encoded
    return found


PART: Final = 10_000
"""Entities that one statement looks at."""

MAX_PARTS: Final = 10
"""Of one request."""

MAX_VERSIONS: Final = 100
"""Superseded versions of an entity in which the beginning of its state is looked for."""


class UniqueKeyHitKey(Struct, frozen=True, array_like=True, order=True):
    """The place of an entity among those that have a value in a unique key."""

    name: Annotated[str, Meta(max_length=256)]
    version: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
    key: str
    id: UUID


class SingleKey(Struct, frozen=True, kw_only=True):
    """A unique key of one field."""

    model: ModelId
    model_key: ModelKey
    id: str


MAX_SINGLE_KEYS: Final = 2_000
"""As many as are looked at, and what they name listed, in some 4 ms of the event loop."""

SINGLE_KEYS: Final = """
    SELECT model.id, model.name, model.version, key ->> 'id' AS key
      FROM model
     CROSS JOIN LATERAL jsonb_array_elements(unique_keys) AS key
     WHERE tenant = $1 AND jsonb_array_length(key -> 'fields') = 1
     ORDER BY model.name, model.version, key ->> 'id'
     LIMIT $2
"""


async def list_single_keys(pool: Pool, tenant: TenantId) -> list[SingleKey]:
    """The unique keys of one field of all models, by model and id, up to ``MAX_SINGLE_KEYS``."""
    rows = await pool.fetch(SINGLE_KEYS, tenant, MAX_SINGLE_KEYS)
    return [
        SingleKey(model=ModelId(str(row["id"])), model_key=ModelKey(row["name"], row["version"]), id=row["key"])
        for row in rows
    ]


# LIMIT keeps the planner at one index probe for each claim.
CLAIMANTS: Final = """
    SELECT wanted.place, entity.id, entity.state
      FROM unnest($2::uuid[]) WITH ORDINALITY AS wanted (hash, place)
     CROSS JOIN LATERAL (
            SELECT entity FROM unique_claim
             WHERE unique_claim.tenant = $1 AND unique_claim.hash = wanted.hash
             LIMIT 1) AS claim
     CROSS JOIN LATERAL (
            SELECT id, state FROM entity
             WHERE entity.tenant = $1 AND entity.id = claim.entity
             LIMIT 1) AS entity
"""


async def fetch_claimants(pool: Pool, tenant: TenantId, hashes: Sequence[str]) -> list[tuple[int, EntityId, str]]:
    """Which of the claims are held: the place among those given, from 0 on, the entity and its state."""
    rows = await pool.fetch(CLAIMANTS, tenant, hashes)
    return [(row["place"] - 1, EntityId(str(row["id"])), row["state"]) for row in rows]


class ScanKey(Struct, frozen=True, array_like=True):
    """How far the entities of a tenant were looked at: in order of models, then of ids."""

    name: Annotated[str, Meta(max_length=256)]
    version: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
    id: UUID


class ScannedModel(Struct, frozen=True, kw_only=True):
    """A model, and the states of its entities that are of interest."""

    key: ModelKey
    id: ModelId
    states: tuple[str, ...]


class Scan(Struct, frozen=True, kw_only=True):
    """The entities of some parts that were written the longest time ago, how many were looked at, and where to go on;
    None when there are no more.
    """

    found: tuple[IdleEntity, ...]
    scanned: int
    position: ScanKey | None


OLDEST_OF_PART: Final = """
    WITH part AS MATERIALIZED (
        SELECT id, state, valid_from FROM entity
         WHERE tenant = $1 AND model = $2 AND id > $3
         ORDER BY id
         LIMIT $4
    ),
    oldest AS (
        SELECT id, valid_from FROM part WHERE state = ANY ($5) ORDER BY valid_from, id LIMIT $6
    )
    SELECT (SELECT count(*) FROM part) AS scanned, (SELECT id FROM part ORDER BY id DESC LIMIT 1) AS last,
           ARRAY (SELECT id FROM oldest ORDER BY valid_from, id) AS ids,
           ARRAY (SELECT valid_from FROM oldest ORDER BY valid_from, id) AS instants
"""

DETAILS: Final = f"""
    SELECT entity.id, entity.state, entity.valid_from,
           CASE WHEN past.state_since IS NOT NULL THEN past.state_since
                WHEN past.versions < {MAX_VERSIONS} THEN entity.created_at END AS entered_at
      FROM entity
     CROSS JOIN LATERAL (
            SELECT count(*) AS versions, max(valid_to) FILTER (WHERE version.state <> entity.state) AS state_since
              FROM (SELECT state, valid_to FROM entity_history
                     WHERE tenant = $1 AND id = entity.id
                     ORDER BY valid_from DESC LIMIT {MAX_VERSIONS}) AS version) AS past
     WHERE tenant = $1 AND id = ANY ($2::uuid[])
"""  # noqa: S608 - constants

MODELS: Final = "SELECT name, version FROM model WHERE tenant = $1 AND ($2::text IS NULL OR name = $2) LIMIT $3"

MAX_MODELS: Final = 1000


async def list_model_keys(search: SearchDatabase, tenant: TenantId, *, name: str | None) -> list[ModelKey]:
    """The models of a tenant, or those with a name, up to ``MAX_MODELS``."""
    async with search.open_connection(tenant) as connection:
        rows = await connection.fetch(MODELS, tenant, name, MAX_MODELS)
    return [ModelKey(row["name"], row["version"]) for row in rows]


_BEGIN: Final = UUID(int=0)


async def find_idle_entities(
    search: SearchDatabase,
    tenant: TenantId,
    models: Sequence[ScannedModel],
    *,
    after: ScanKey | None,
    limit: int,
    within_s: float,
) -> Scan:
    """The entities of the models, in the order of their names and versions, that were written the longest time ago:
    among those behind ``after``, as far as one request comes.

    Raises ``SearchTimeout`` when not even one part could be looked at, ``StorageUnavailable``.
    """
    scan = _Scan(tenant, after, limit)
    try:
        async with asyncio.timeout(within_s), search.open_connection(tenant) as connection:
            await scan.run(connection, _skip(models, after), until=time.monotonic() + within_s / 2)
            found = await scan.read_details(connection, {model.id: model for model in models})
    except TimeoutError as late:
        raise SearchTimeout(within_s) from late
    return Scan(found=found, scanned=scan.scanned, position=scan.position)


def _skip(models: Iterable[ScannedModel], after: ScanKey | None) -> list[ScannedModel]:
    """The models that were not looked at wholly."""
    if after is None:
        return [*models]
    return [model for model in models if (model.key.name, model.key.version) >= (after.name, after.version)]


class _Scan:
    def __init__(self, tenant: TenantId, after: ScanKey | None, limit: int) -> None:
        self._tenant = tenant
        self._after = after
        self._limit = limit
        self._oldest: list[tuple[int, UUID, ModelId]] = []
        self.scanned = 0
        self.position: ScanKey | None = None

    async def run(self, connection: asyncpg.Connection, models: Sequence[ScannedModel], *, until: float) -> None:
        """Look at parts, at least one, until the time or the number of parts is over."""
        parts = 0
        for model in models:
            begin, rows = self._find_begin(model), PART
            while rows == PART:
                if parts == MAX_PARTS or (parts and time.monotonic() > until):
                    self.position = ScanKey(model.key.name, model.key.version, UUID(str(begin)))
                    return
                [row] = await connection.fetch(
                    OLDEST_OF_PART, self._tenant, model.id, begin, PART, model.states, self._limit
                )
                rows, begin, parts = row["scanned"], row["last"], parts + 1
                self.scanned += rows
                self._oldest += [(at, id_, model.id) for at, id_ in zip(row["instants"], row["ids"], strict=True)]
            self._oldest = sorted(self._oldest)[: self._limit]

    def _find_begin(self, model: ScannedModel) -> UUID:
        after = self._after
        is_begun = after is not None and (after.name, after.version) == (model.key.name, model.key.version)
        return after.id if after is not None and is_begun else _BEGIN

    async def read_details(
        self, connection: asyncpg.Connection, models: dict[ModelId, ScannedModel]
    ) -> tuple[IdleEntity, ...]:
        """What was found, the oldest first; without what has been written since then."""
        oldest = sorted(self._oldest)[: self._limit]
        if not oldest:
            return ()
        rows = await connection.fetch(DETAILS, self._tenant, [id_ for _, id_, _ in oldest])
        details = {(row["valid_from"], row["id"]): row for row in rows}
        return tuple(
            IdleEntity(
                entity_id=str(id_),
                model=models[model].key,
                state=row["state"],
                written_at=to_rfc3339(at),
                since=None if row["entered_at"] is None else to_rfc3339(row["entered_at"]),
            )
            for at, id_, model in oldest
            if (row := details.get((at, id_))) is not None
        )


COUNT_TIMEOUT_S: Final = 5.0
"""Longest time that counting may take, both counts together."""

MAX_GROUPS: Final = 10_000


class StateCount(Struct, frozen=True, kw_only=True):
    """Entities that follow a workflow and are in a state; of timers, those of one transition."""

    workflow: str
    state: str
    count: int
    transition: str | None = None


ENTITIES: Final = """
    -- One of the two has rows. The second is a range of the index entity_model, however many other models there are.
    SELECT workflow, state, count
      FROM (SELECT workflow, state, count FROM counted_entity
             WHERE tenant = $1 AND model = $2 AND count > 0 AND (SELECT is_complete FROM entity_count_state)
             UNION ALL
            SELECT workflow, state, count(*) FROM entity
             WHERE tenant = $1 AND model = $2 AND NOT (SELECT is_complete FROM entity_count_state)
             GROUP BY workflow, state) AS present
     ORDER BY workflow, state
     LIMIT $3
"""

TIMERS: Final = """
    SELECT entity.workflow, task.state, task.transition, count(*) AS count
      FROM scheduled_task AS task
      JOIN entity ON entity.tenant = task.tenant AND entity.id = task.entity
     WHERE task.tenant = $1 AND task.model = $2
     GROUP BY entity.workflow, task.state, task.transition
     ORDER BY entity.workflow, task.state, task.transition
     LIMIT $3
"""


async def count_use(
    pool: Pool, tenant: TenantId, model: ModelId
) -> tuple[tuple[StateCount, ...], tuple[StateCount, ...]] | None:
    """Entities and armed timers of a model by where they are; None when counting them would take too long."""
    async with pool.connection() as connection:
        try:
            async with asyncio.timeout(COUNT_TIMEOUT_S):
                entities = await connection.fetch(ENTITIES, tenant, model, MAX_GROUPS)
                timers = await connection.fetch(TIMERS, tenant, model, MAX_GROUPS)
        except TimeoutError:
            return None
    return (
        tuple(StateCount(workflow=row["workflow"], state=row["state"], count=row["count"]) for row in entities),
        tuple(
            StateCount(workflow=row["workflow"], state=row["state"], transition=row["transition"], count=row["count"])
            for row in timers
        ),
    )


MAX_INSTANCES: Final = 100_000
"""Instances that are counted; with more, every count is a lower bound."""


MAX_UNDER_WAY: Final = 10_000
"""Instances under way whose steps are counted; with more, every count is a lower bound."""


WITHIN_S: Final = 2.0


INSTANCES: Final = """
    -- A range of process_instance_definition, cut at the bound.
    SELECT language, definition_id, status, count(*) AS count
      FROM (SELECT language, definition_id, status FROM process_instance
             WHERE tenant = $1 AND ($2::text IS NULL OR language = $2) AND ($3::text IS NULL OR definition_id = $3)
             LIMIT $4) AS counted
     GROUP BY language, definition_id, status
     ORDER BY language, definition_id, status
"""


STEPS: Final = """
    SELECT made.node_id AS step_id, count(*) AS count
      FROM (SELECT id FROM process_instance
             WHERE tenant = $1 AND language = $2 AND definition_id = $3
               AND status NOT IN ('COMPLETED', 'CANCELLED', 'TERMINATED')
             LIMIT $4) AS counted
     CROSS JOIN LATERAL (
            SELECT id, node_id FROM process_execution
             WHERE tenant = $1 AND instance = counted.id AND status = 'RUNNING') AS made
     GROUP BY made.node_id
     ORDER BY made.node_id
"""


UNDER_WAY: Final = """
    SELECT count(*) FROM (SELECT FROM process_instance
             WHERE tenant = $1 AND language = $2 AND definition_id = $3
               AND status NOT IN ('COMPLETED', 'CANCELLED', 'TERMINATED')
             LIMIT $4) AS counted
"""


async def count_instances(
    pool: Pool, tenant: TenantId, *, language: str | None, definition_id: str | None
) -> InstanceCounts:
    """Instances by definition and status. Raises ``SearchTimeout``."""
    try:
        async with asyncio.timeout(WITHIN_S), pool.connection() as connection:
            rows = await connection.fetch(INSTANCES, tenant, language, definition_id, MAX_INSTANCES + 1)
    except TimeoutError as late:
        raise SearchTimeout(WITHIN_S) from late
    return InstanceCounts(
        items=tuple(InstanceCount(**row) for row in rows),
        is_lower_bound=sum(row["count"] for row in rows) > MAX_INSTANCES,
    )


async def count_steps(pool: Pool, tenant: TenantId, *, language: str, definition_id: str) -> StepCounts:
    """Executions under way by step of a definition. Raises ``SearchTimeout``."""
    arguments = (tenant, language, definition_id, MAX_UNDER_WAY + 1)
    try:
        async with asyncio.timeout(WITHIN_S), pool.connection() as connection:
            instances: int = await connection.fetchval(UNDER_WAY, *arguments)
            rows = await connection.fetch(STEPS, *arguments)
    except TimeoutError as late:
        raise SearchTimeout(WITHIN_S) from late
    return StepCounts(items=tuple(StepCount(**row) for row in rows), is_lower_bound=instances > MAX_UNDER_WAY)

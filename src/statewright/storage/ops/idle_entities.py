"""Entities that nothing has written for long, found part by part: no index has the time, since updates change it.

A part is some thousand entities of a model in the order of their ids, a range of the index ``entity_model``. So the
time that looking takes depends on what is looked at, not on how much there is.
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
from statewright.ids import EntityId, ModelId, TenantId
from statewright.storage.search.query import SearchDatabase

PART: Final = 10_000
"""Entities that one statement looks at."""

MAX_PARTS: Final = 10
"""Of one request."""

MAX_VERSIONS: Final = 100
"""Superseded versions of an entity in which the beginning of its state is looked for."""


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


class IdleEntity(Struct, frozen=True, kw_only=True):
    """An entity, when it was written last and when it came into its state, in epoch microseconds; None when that is
    more than ``MAX_VERSIONS`` versions ago.
    """

    id: EntityId
    model: ModelKey
    state: str
    written_at: int
    entered_at: int | None


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
    async with search.open_connection() as connection:
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
        async with asyncio.timeout(within_s), search.open_connection() as connection:
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
                id=EntityId(str(id_)),
                model=models[model].key,
                state=row["state"],
                written_at=at,
                entered_at=row["entered_at"],
            )
            for at, id_, model in oldest
            if (row := details.get((at, id_))) is not None
        )

"""How many entities a tenant has (docs/reference/entities.md#counts).

Counting goes through whole models, so it uses the connections of searches and is given no more time than they are.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec import Struct

from statewright.entity import EntityCount, ModelKey
from statewright.failures import SearchTimeout
from statewright.ids import EntityId, ModelId, TenantId
from statewright.storage.search.matching import Candidates, iterate_matches
from statewright.storage.search.query import SearchDatabase
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery, select_versions
from statewright.storage.versions import VIEW_COLUMNS


class Uncommitted(Struct, frozen=True, kw_only=True):
    """What a transaction has made of the committed entities: ``ids`` do not count any more, but models and states do,
    which are in the same order.
    """

    ids: tuple[EntityId, ...] = ()
    models: tuple[ModelId, ...] = ()
    states: tuple[str, ...] = ()


NO_CHANGES: Final = Uncommitted()


COUNTS: Final = """
    SELECT name, version,
           (SELECT count(*) FROM entity
             WHERE entity.tenant = model.tenant AND entity.model = model.id AND entity.id <> ALL ($3::uuid[]))
         + (SELECT count(*) FROM unnest($4::uuid[]) AS uncommitted (model)
             WHERE uncommitted.model = model.id) AS count
      FROM model
     WHERE tenant = $1 AND ($2::uuid IS NULL OR id = $2)
     ORDER BY name, version
"""


COUNTS_THEN: Final = """
    SELECT name, version,
           (SELECT count(*) FROM entity
             WHERE entity.tenant = model.tenant AND entity.model = model.id AND valid_from <= $3)
         + (SELECT count(*) FROM entity_history AS past
             WHERE past.tenant = model.tenant AND past.model = model.id
               AND past.valid_from <= $3 AND past.valid_to > $3 AND past.document IS NOT NULL) AS count
      FROM model
     WHERE tenant = $1 AND ($2::uuid IS NULL OR id = $2)
     ORDER BY name, version
"""


async def fetch_counts(
    search: SearchDatabase,
    tenant: TenantId,
    *,
    model: ModelId | None = None,
    instant: int | None = None,
    uncommitted: Uncommitted = NO_CHANGES,
) -> list[EntityCount]:
    """The number of entities of every registered model, or of the one named, by name and version; those of ``instant``
    (epoch microseconds) as they were committed then.

    Raises ``SearchTimeout``, ``HistoryPruned``, ``StorageUnavailable``.
    """
    if instant is None:
        async with search.open_connection() as connection:
            rows = await connection.fetch(COUNTS, tenant, model, uncommitted.ids, uncommitted.models)
    else:
        async with search.open_past_connection(tenant, model, instant) as connection:
            rows = await connection.fetch(COUNTS_THEN, tenant, model, instant)
    return [EntityCount(model=ModelKey(row["name"], row["version"]), count=row["count"]) for row in rows]


COUNTS_BY_STATE: Final = """
    SELECT name, version, present.state, count(*) AS count
      FROM model
     CROSS JOIN LATERAL (
            SELECT entity.state FROM entity
             WHERE entity.tenant = model.tenant AND entity.model = model.id AND entity.id <> ALL ($4::uuid[])
             UNION ALL
            SELECT uncommitted.state FROM unnest($5::uuid[], $6::text[]) AS uncommitted (model, state)
             WHERE uncommitted.model = model.id) AS present
     WHERE tenant = $1 AND ($2::uuid IS NULL OR id = $2) AND ($3::text[] IS NULL OR present.state = ANY ($3))
     GROUP BY name, version, present.state
     ORDER BY name, version, present.state
"""


COUNTS_BY_STATE_THEN: Final = """
    SELECT name, version, found.state, count(*) AS count
      FROM model
     CROSS JOIN LATERAL (
            SELECT entity.state FROM entity
             WHERE entity.tenant = model.tenant AND entity.model = model.id AND valid_from <= $4
             UNION ALL
            SELECT past.state FROM entity_history AS past
             WHERE past.tenant = model.tenant AND past.model = model.id
               AND past.valid_from <= $4 AND past.valid_to > $4 AND past.document IS NOT NULL) AS found
     WHERE tenant = $1 AND ($2::uuid IS NULL OR id = $2) AND ($3::text[] IS NULL OR found.state = ANY ($3))
     GROUP BY name, version, found.state
     ORDER BY name, version, found.state
"""


async def fetch_counts_by_state(
    search: SearchDatabase,
    tenant: TenantId,
    *,
    model: ModelId | None = None,
    states: Sequence[str] | None = None,
    instant: int | None = None,
    uncommitted: Uncommitted = NO_CHANGES,
) -> list[EntityCount]:
    """The number of entities in every state that has any, or in those of ``states`` that have; those of ``instant``
    (epoch microseconds) as they were committed then.

    Raises ``SearchTimeout``, ``HistoryPruned``, ``StorageUnavailable``.
    """
    if instant is None:
        present = (uncommitted.ids, uncommitted.models, uncommitted.states)
        async with search.open_connection() as connection:
            rows = await connection.fetch(COUNTS_BY_STATE, tenant, model, states, *present)
    else:
        async with search.open_past_connection(tenant, model, instant) as connection:
            rows = await connection.fetch(COUNTS_BY_STATE_THEN, tenant, model, states, instant)
    return [
        EntityCount(model=ModelKey(row["name"], row["version"]), state=row["state"], count=row["count"]) for row in rows
    ]


async def count_matches(search: SearchDatabase, query: EntityQuery, *, limit: int, within_s: float) -> int:
    """How many entities a search asks for, counted up to ``limit``.

    Raises ``ScanBudgetExhausted``, ``SearchTimeout``, ``HistoryPruned``, ``StorageUnavailable``.
    """
    condition = query.search.compile_sql(first=FIRST_ARGUMENT)
    try:
        async with asyncio.timeout(within_s), search.open_connection(query) as connection:
            if condition.is_exact:
                chosen = select_versions(query, "id", condition=condition)
                text = f"SELECT count(*) FROM ({chosen.text} LIMIT ${len(chosen.args) + 1}) AS counted"  # noqa: S608
                return int(await connection.fetchval(text, *chosen.args, limit))
            candidates = Candidates(
                tenant=query.tenant,
                statement=select_versions(query, VIEW_COLUMNS, condition=condition),
                columns=VIEW_COLUMNS,
                most=search.scan_budget,
            )
            count = 0
            async with (
                connection.transaction(readonly=True),
                aclosing(iterate_matches(connection, candidates, query.search.compile_predicate())) as matches,
            ):
                async for _ in matches:
                    count += 1
                    if count == limit:
                        break
            return count
    except TimeoutError as late:
        raise SearchTimeout(within_s) from late


class EstimatedCount(Struct, frozen=True):
    """A model, and about how many entities it has."""

    key: ModelKey
    estimate: int


MODELS: Final = """
    SELECT id, name, version FROM model
     WHERE tenant = $1 AND ($2::text IS NULL OR (name, version) > ($2, $3::int))
     ORDER BY name, version
     LIMIT $4
"""

ESTIMATE: Final = "EXPLAIN (FORMAT JSON) SELECT FROM entity WHERE tenant = $1 AND model = $2"


class _Plan(Struct, frozen=True):
    rows: float = msgspec.field(name="Plan Rows")


class _Explained(Struct, frozen=True):
    plan: _Plan = msgspec.field(name="Plan")


_decode_plan = msgspec.json.Decoder(tuple[_Explained]).decode


async def estimate_counts(
    search: SearchDatabase, tenant: TenantId, *, limit: int, after: ModelKey | None = None
) -> list[EstimatedCount]:
    """Up to ``limit`` models, by name and version, with what the planner expects of each: no entity is read.

    Raises ``SearchTimeout``, ``StorageUnavailable``.
    """
    name, version = (after.name, after.version) if after else (None, None)
    async with search.open_connection() as connection:
        models = await connection.fetch(MODELS, tenant, name, version, limit)
        plan = await connection.prepare(ESTIMATE)
        return [
            EstimatedCount(
                ModelKey(model["name"], model["version"]),
                round(_decode_plan(await plan.fetchval(tenant, model["id"]))[0].plan.rows),
            )
            for model in models
        ]

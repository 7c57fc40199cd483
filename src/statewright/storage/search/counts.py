"""How many entities a tenant has (docs/reference/entities.md#counts).

Counting goes through whole models, so it uses the connections of searches and is given no more time than they are.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.entity import EntityCount, ModelKey
from statewright.ids import EntityId, ModelId, TenantId
from statewright.storage.search.query import SearchDatabase


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

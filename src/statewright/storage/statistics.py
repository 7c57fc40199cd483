"""How many entities a tenant has (spec/entities.md §13).

Counting goes through whole models, so it uses the connections of searches and is given no more time than they are.
"""

from collections.abc import Sequence

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.identity import EntityId, ModelId, TenantId
from statewright.storage.search import SearchDatabase


class Count(Struct, frozen=True, kw_only=True):
    """How many entities a model has; ``state`` is None when all of them are counted."""

    model: ModelKey
    state: str | None = None
    count: int


class Uncommitted(Struct, frozen=True, kw_only=True):
    """What a transaction has made of the committed entities: ``ids`` do not count any more, but models and states do,
    which are in the same order.
    """

    ids: tuple[EntityId, ...] = ()
    models: tuple[ModelId, ...] = ()
    states: tuple[str, ...] = ()


NOTHING = Uncommitted()


COUNTS = """
    SELECT name, version,
           (SELECT count(*) FROM entity
             WHERE entity.tenant = model.tenant AND entity.model = model.id AND entity.id <> ALL ($3::uuid[]))
         + (SELECT count(*) FROM unnest($4::uuid[]) AS uncommitted (model)
             WHERE uncommitted.model = model.id) AS count
      FROM model
     WHERE tenant = $1 AND ($2::uuid IS NULL OR id = $2)
     ORDER BY name, version
"""


async def counts(
    search: SearchDatabase, tenant: TenantId, *, model: ModelId | None = None, uncommitted: Uncommitted = NOTHING
) -> list[Count]:
    """The number of entities of every registered model, or of the one named, by name and version.

    Raises ``SearchTimeout``, ``StorageUnavailable``.
    """
    async with search.limited() as connection:
        rows = await connection.fetch(COUNTS, tenant, model, uncommitted.ids, uncommitted.models)
    return [Count(model=ModelKey(row["name"], row["version"]), count=row["count"]) for row in rows]


COUNTS_BY_STATE = """
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


async def counts_by_state(
    search: SearchDatabase,
    tenant: TenantId,
    *,
    model: ModelId | None = None,
    states: Sequence[str] | None = None,
    uncommitted: Uncommitted = NOTHING,
) -> list[Count]:
    """The number of entities in every state that has any, or in those of ``states`` that have.

    Raises ``SearchTimeout``, ``StorageUnavailable``.
    """
    present = (uncommitted.ids, uncommitted.models, uncommitted.states)
    async with search.limited() as connection:
        rows = await connection.fetch(COUNTS_BY_STATE, tenant, model, states, *present)
    return [Count(model=ModelKey(row["name"], row["version"]), state=row["state"], count=row["count"]) for row in rows]

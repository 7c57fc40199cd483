"""Grouping the entities of a model and working numbers out of them (docs/reference/entities.md#grouped-statistics).

Numbers are aggregated as ``numeric``: sums, minima and maxima are exact, and nothing depends on the order of the rows.
PostgreSQL's own ``stddev_samp(numeric)`` is not used: it gives the root of a large variance without a digit after the
point, so with nine significant digits in the worst case. The variance itself always has sixteen.

Entities are chosen as in a search. Those that SQL can only narrow are judged one by one first, in the same snapshot.

Counting the entities of a tenant (docs/reference/entities.md#counts) goes through whole models, so it uses the
connections of searches and is given no more time than they are.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from decimal import Decimal
from typing import Final, Literal

import asyncpg
import msgspec
from msgspec import Struct

from statewright.entity import EntityCount, EntityGroup, ModelKey
from statewright.failures import SearchTimeout
from statewright.ids import EntityId, ModelId, TenantId
from statewright.operations.listings import ModelEstimate
from statewright.storage.search.matching import Candidates, iterate_matches
from statewright.storage.search.query import SearchDatabase
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery, Statement, select_versions
from statewright.storage.versions import VIEW_COLUMNS

Operation = Literal["sum", "avg", "min", "max", "stdev"]
FieldPath = tuple[str, ...]
"""Member names from the root of a document."""

Number = float | Decimal

MAX_NUMBER: Final = Decimal(2**1024 - 2**970)
"""Smallest magnitude that no finite double-precision number is nearest to: half a unit beyond the largest one."""

MAX_NESTING: Final = 256
"""Most containers around a value in any stored document; a longer path leads nowhere."""

GROUP_COLUMNS: Final = "id, state, document"

AGGREGATES: dict[Operation, str] = {"sum": "sum", "avg": "avg", "min": "min", "max": "max", "stdev": "var_samp"}


class Measure(Struct, frozen=True):
    """A number to be worked out for every group from the numbers at one place of its documents."""

    operation: Operation
    field: FieldPath


class Grouping(Struct, frozen=True, kw_only=True):
    """What to group by, None standing for the state, what to measure, and how many groups are wanted at most."""

    keys: tuple[FieldPath | None, ...]
    measures: tuple[Measure, ...] = ()
    limit: int


class Additions(Struct, frozen=True, kw_only=True):
    """Entities beside the committed ones: their states and documents, in the same order."""

    states: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()


NO_ADDITIONS: Final = Additions()


class EntityGroups(Struct, frozen=True):
    """The first groups by size and keys, and how many there are altogether."""

    first: tuple[EntityGroup, ...]
    total: int


async def fetch_groups(
    search: SearchDatabase, query: EntityQuery, grouping: Grouping, added: Additions = NO_ADDITIONS
) -> EntityGroups:
    """Groups by descending size, then by keys element by element: null first, texts by their bytes.

    Raises ``ScanBudgetExhausted``, ``SearchTimeout``, ``HistoryPruned``, ``StorageUnavailable``.
    """
    condition = query.search.compile_sql(first=FIRST_ARGUMENT)
    chosen = select_versions(query, GROUP_COLUMNS, condition=condition)
    async with search.open_connection(query.tenant, query) as connection:
        if condition.is_exact:
            return await _run_grouping(connection, chosen, grouping, added)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            candidates = select_versions(query, VIEW_COLUMNS, condition=condition)
            ids = await _find_matching(connection, candidates, query, budget=search.scan_budget)
            return await _run_grouping(connection, _restrict_to(chosen, ids), grouping, added)


async def _find_matching(
    connection: asyncpg.Connection, candidates: Statement, query: EntityQuery, *, budget: int
) -> list[object]:
    """The ids of the candidates for which the condition holds."""
    wanted = Candidates(tenant=query.tenant, statement=candidates, columns=VIEW_COLUMNS, most=budget)
    return [row["id"] async for row, _ in iterate_matches(connection, wanted, query)]


def _restrict_to(chosen: Statement, ids: list[object]) -> Statement:
    wanted = f"id = ANY (${len(chosen.args) + 1}::uuid[])"
    return Statement(f"SELECT * FROM ({chosen.text}) AS candidate WHERE {wanted}", (*chosen.args, ids))  # noqa: S608


async def _run_grouping(
    connection: asyncpg.Connection, chosen: Statement, grouping: Grouping, added: Additions
) -> EntityGroups:
    statement = _GroupingStatement(chosen, grouping, added)
    rows = await connection.fetch(statement.text, *statement.arguments)
    width = len(grouping.keys)
    operations: list[Operation] = [measure.operation for measure in grouping.measures]
    first = tuple(
        EntityGroup(
            keys=tuple(row[:width]), count=row[width], values=tuple(map(_to_number, operations, row[width + 2 :]))
        )
        for row in rows
    )
    return EntityGroups(first, rows[0][width + 1] if rows else 0)


def _to_number(operation: Operation, number: Decimal | None) -> Number | None:
    """A result as it is reported; None for one that no double-precision number is near to."""
    if number is not None and operation == "stdev":
        number = number.sqrt()
    if number is None or number.copy_abs() >= MAX_NUMBER:
        return None
    return float(number) if operation in {"avg", "stdev"} else number


class _GroupingStatement:
    """The statement that groups what was chosen.

    It looks a field of a document up once per row, however many aggregates use it: OFFSET 0 keeps the planner from
    copying the lookup into each of them.
    """

    def __init__(self, chosen: Statement, grouping: Grouping, added: Additions) -> None:
        self.arguments: list[object] = list(chosen.args)
        places = [*(key for key in grouping.keys if key), *(measure.field for measure in grouping.measures)]
        names = {field: str(n) for n, field in enumerate(dict.fromkeys(places))}
        self._fields = ["state", *(f"{self._build_member(field)} AS field_{name}" for field, name in names.items())]
        self._keys = ["state" if key is None else f"key_{names[key]}" for key in grouping.keys]
        self._scalars = ["state", *(_as_key(names[key]) for key in grouping.keys if key)]
        self._scalars += dict.fromkeys(_as_number(names[measure.field]) for measure in grouping.measures)
        self._results = [f"{AGGREGATES[m.operation]}(number_{names[m.field]})" for m in grouping.measures]
        self.text = self._build_text(
            self._build_population(chosen.text, added), self._add_argument(grouping.limit, "bigint")
        )

    def _build_text(self, population: str, limit: str) -> str:
        order = ["count(*) DESC", *(f'{key} COLLATE "C" NULLS FIRST' for key in self._keys)]
        return f"""
            SELECT {_join([*self._keys, "count(*)", "count(*) OVER ()", *self._results])}
              FROM (SELECT {_join(self._scalars)}
                      FROM (SELECT {_join(self._fields)} FROM ({population}) AS version OFFSET 0) AS field
                    OFFSET 0) AS scalar
             GROUP BY {_join(self._keys)}
             ORDER BY {_join(order)}
             LIMIT {limit}
        """  # noqa: S608 - all names are made here, all values are arguments

    def _add_argument(self, value: object, kind: str) -> str:
        self.arguments.append(value)
        return f"${len(self.arguments)}::{kind}"

    def _build_member(self, field: FieldPath) -> str:
        """``->`` with a text looks into objects only, where ``#>`` would take a number for an index of an array."""
        if len(field) > MAX_NESTING:
            return "NULL::jsonb"
        path = self._add_argument(field, "text[]")
        return "document" + "".join(f" -> ({path})[{n}]" for n in range(1, len(field) + 1))

    def _build_population(self, chosen: str, added: Additions) -> str:
        if not added.states:
            return chosen
        states, documents = self._add_argument(added.states, "text[]"), self._add_argument(added.documents, "text[]")
        return f"""SELECT state, document FROM ({chosen}) AS committed
                    UNION ALL
                   SELECT state, document::jsonb FROM unnest({states}, {documents}) AS added (state, document)"""  # noqa: S608


def _as_key(name: str) -> str:
    """A scalar as text, anything else as null."""
    is_scalar = f"jsonb_typeof(field_{name}) IN ('string', 'number', 'boolean')"
    return f"CASE WHEN {is_scalar} THEN field_{name} #>> '{{}}' END AS key_{name}"


def _as_number(name: str) -> str:
    """A number that double precision can hold, anything else as null.

    CASE, because the planner might otherwise cast before it looks.
    """
    number = f"CASE WHEN abs(field_{name}::numeric) < {MAX_NUMBER} THEN field_{name}::numeric END"
    return f"CASE jsonb_typeof(field_{name}) WHEN 'number' THEN {number} END AS number_{name}"


def _join(parts: Iterable[str]) -> str:
    return ", ".join(parts)


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
           CASE WHEN (SELECT is_complete FROM entity_count_state)
                THEN (SELECT coalesce(sum(count), 0) FROM counted_entity AS counted
                       WHERE counted.tenant = model.tenant AND counted.model = model.id)
                ELSE (SELECT count(*) FROM entity WHERE entity.tenant = model.tenant AND entity.model = model.id)
           END::bigint
         - (SELECT count(*) FROM entity
             WHERE entity.tenant = model.tenant AND entity.model = model.id AND entity.id = ANY ($3::uuid[]))
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
        async with search.open_connection(tenant) as connection:
            rows = await connection.fetch(COUNTS, tenant, model, uncommitted.ids, uncommitted.models)
    else:
        async with search.open_past_connection(tenant, model, instant) as connection:
            rows = await connection.fetch(COUNTS_THEN, tenant, model, instant)
    return [EntityCount(model=ModelKey(row["name"], row["version"]), count=row["count"]) for row in rows]


COUNTS_BY_STATE: Final = """
    -- One of the first two has rows, and the other is not executed.
    SELECT name, version, present.state, sum(present.count)::bigint AS count
      FROM model
     CROSS JOIN LATERAL (
            SELECT counted.state, counted.count FROM counted_entity AS counted
             WHERE counted.tenant = model.tenant AND counted.model = model.id
               AND (SELECT is_complete FROM entity_count_state)
             UNION ALL
            SELECT entity.state, count(*) FROM entity
             WHERE entity.tenant = model.tenant AND entity.model = model.id
               AND NOT (SELECT is_complete FROM entity_count_state)
             GROUP BY entity.state
             UNION ALL
            SELECT entity.state, -1 FROM entity
             WHERE entity.tenant = model.tenant AND entity.model = model.id AND entity.id = ANY ($4::uuid[])
             UNION ALL
            SELECT uncommitted.state, 1 FROM unnest($5::uuid[], $6::text[]) AS uncommitted (model, state)
             WHERE uncommitted.model = model.id) AS present
     WHERE tenant = $1 AND ($2::uuid IS NULL OR id = $2) AND ($3::text[] IS NULL OR present.state = ANY ($3))
     GROUP BY name, version, present.state
    HAVING sum(present.count) > 0
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
        async with search.open_connection(tenant) as connection:
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
        async with asyncio.timeout(within_s), search.open_connection(query.tenant, query) as connection:
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
                aclosing(iterate_matches(connection, candidates, query)) as matches,
            ):
                async for _ in matches:
                    count += 1
                    if count == limit:
                        break
            return count
    except TimeoutError as late:
        raise SearchTimeout(within_s) from late


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
) -> list[ModelEstimate]:
    """Up to ``limit`` models, by name and version, with what the planner expects of each: no entity is read.

    Raises ``SearchTimeout``, ``StorageUnavailable``.
    """
    name, version = (after.name, after.version) if after else (None, None)
    async with search.open_connection(tenant) as connection:
        models = await connection.fetch(MODELS, tenant, name, version, limit)
        plans = [_decode_plan(await connection.fetchval(ESTIMATE, tenant, model["id"]))[0].plan for model in models]
    return [
        ModelEstimate(name=model["name"], version=model["version"], estimated_entities=round(plan.rows))
        for model, plan in zip(models, plans, strict=True)
    ]

"""Indexes on fields of documents that people declare for their models.

An index holds the very expression that a condition on the field is compiled to (``conditions/sql_terms.py``), for the
entities of one model and perhaps one state. It answers equality, ranges, prefixes and sorting. The kind DOCUMENT is a
GIN index on whole documents, for equality behind wildcards.

Beside it stand statistics on the same expression: PostgreSQL does not use those of partial indexes.

*Building* takes minutes and must not lock the table, so it happens CONCURRENTLY, outside transactions, by whichever
process has the lease on the row. A build that was interrupted leaves an invalid index, which the next one removes.

The statements are composed by PostgreSQL's ``format()``, which quotes what users have written: CREATE INDEX takes no
parameters.

*Kept plans.* Searches that look a value up in a declared index need not be planned anew each time. A search is planned
with its arguments in view, which costs as much as finding ten rows does. A plan can be kept where the arguments have no
say in it: where a declared index answers an equality, and no value of that field has so many entities that another plan
would be better.

PostgreSQL recognises an index only by constants, and a kept plan knows no arguments. So beside each index stand
functions without parameters, which return what the index was declared with: tenant, model, member names. The planner
replaces their calls by constants, also in a kept plan. A statement thus names a field by a name of ours, and still no
text of a user stands in it.

The functions go when no declared index needs them. A statement that still calls one is refused, and asked again
without.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Final, cast

import asyncpg
from msgspec import Struct

from statewright.conditions import FieldKind, IndexedField
from statewright.conditions.paths import Path, parse_path
from statewright.conditions.sql_terms import DOCUMENT, Argument, resolve_place
from statewright.failures import StorageUnavailable
from statewright.ids import ModelId, TenantId
from statewright.instants import to_us
from statewright.operations.listings import BuildProgress, DeclaredIndex, IndexKind, IndexStatus
from statewright.storage.connections import DatabaseUrl
from statewright.storage.pool import DatabaseConnection, Pool, connect

MAX_ROWS: Final = 1000
"""Entities that the most frequent value of a field may have, for a plan to be good for all values."""

REFRESH_S: Final = 10.0
"""How long what is known of declared indexes is used."""

REFRESH_TIMEOUT_S: Final = 2.0
"""How long a search waits to learn of them."""


class Constants(Struct, frozen=True):
    """What stands in a statement for a tenant, a model and member names: calls of functions."""

    tenant: str
    model: str
    names: Mapping[str, str]


class Lookup(Struct, frozen=True, kw_only=True, eq=False):
    """The fields of a model in which any value can be looked up. There is one, until something else can be."""

    constants: Constants
    fields: frozenset[IndexedField]


class IndexCatalog:
    """What can be looked up now. The sessions of ``pool`` keep the plans of their statements. The declared indexes are
    read from ``reader_pool``, so that lookups which hang delay nothing else.
    """

    # The most frequent value of an expression, by its statistics; no statistics, no opinion.
    READY = r"""
        SELECT search_index.tenant, search_index.model, search_index.path, search_index.kind
          FROM search_index
          JOIN pg_class ON pg_class.oid = 'entity'::regclass
          JOIN pg_stats_ext_exprs AS field
            ON field.statistics_name = 'entity_field_' || left(encode(sha256(
                   convert_to(path, 'UTF8') || '\x00'::bytea || convert_to(kind, 'UTF8')), 'hex'), 24)
         WHERE search_index.status = 'READY' AND search_index.kind IN ('TEXT', 'NUMBER') AND search_index.state IS NULL
           AND coalesce(field.most_common_freqs[1], 0) * pg_class.reltuples <= $1
    """

    DEFINED = "SELECT proname FROM pg_proc WHERE proname = ANY ($1::text[])"

    def __init__(self, pool: Pool, reader_pool: Pool, *, refresh_s: float = REFRESH_S) -> None:
        self.pool = pool
        self._reader_pool = reader_pool
        self._refresh_s = refresh_s
        self._known: Mapping[tuple[TenantId, ModelId], Lookup] = {}
        self._valid_until = 0.0

    @property
    def is_due(self) -> bool:
        """Whether what is known should be refreshed before it is used."""
        return monotonic() >= self._valid_until

    def find_known(self, tenant: TenantId, model: ModelId) -> Lookup | None:
        """What can be looked up in a model, as far as is known."""
        return self._known.get((tenant, model))

    async def find(self, tenant: TenantId, model: ModelId) -> Lookup | None:
        """What can be looked up in a model."""
        if self.is_due:
            await self.refresh()
        return self.find_known(tenant, model)

    async def refresh(self) -> None:
        """Find out what can be looked up. One asks, the others make do with what is known meanwhile."""
        self._valid_until = monotonic() + self._refresh_s
        # Without it, what is known will do; the search itself says what is wrong.
        with suppress(StorageUnavailable, TimeoutError, asyncpg.QueryCanceledError):
            async with asyncio.timeout(REFRESH_TIMEOUT_S):
                await self._refresh()

    def invalidate(self) -> None:
        """What is known has proved wrong."""
        self._known, self._valid_until = {}, 0.0

    async def _refresh(self) -> None:
        async with self._reader_pool.connection() as connection:
            ready = [_to_field(row) for row in await connection.fetch(self.READY, float(MAX_ROWS))]
            needed = {name_constant(*constant) for field in ready for constant in iter_constants(*field[:3])}
            defined = {row["proname"] for row in await connection.fetch(self.DEFINED, [*needed])}
        fields: dict[tuple[TenantId, ModelId], set[IndexedField]] = {}
        for tenant, model, path, kind in ready:
            if all(name_constant(*constant) in defined for constant in iter_constants(tenant, model, path)):
                fields.setdefault((tenant, model), set()).add((path, kind))
        self._known = {key: self._reuse_lookup(key, frozenset(found)) for key, found in fields.items()}

    def _reuse_lookup(self, key: tuple[TenantId, ModelId], fields: frozenset[IndexedField]) -> Lookup:
        """The one that is known, if nothing has changed."""
        known = self._known.get(key)
        return known if known is not None and known.fields == fields else _build_lookup(*key, fields)


def _to_field(row: asyncpg.Record) -> tuple[TenantId, ModelId, Path, FieldKind]:
    path = parse_path(row["path"])
    assert path is not None, "it was one when the index was declared"  # noqa: S101
    return row["tenant"], ModelId(str(row["model"])), path, row["kind"]


def _build_lookup(tenant: TenantId, model: ModelId, fields: frozenset[IndexedField]) -> Lookup:
    names = {step for path, _ in fields for step in path.steps if isinstance(step, str)}
    constants = Constants(
        tenant=f"{name_constant('text', tenant)}()",
        model=f"{name_constant('uuid', model)}()",
        names={name: f"{name_constant('text', name)}()" for name in names},
    )
    return Lookup(constants=constants, fields=fields)


def iter_constants(tenant: TenantId, model: ModelId, path: Path) -> Iterable[tuple[str, str]]:
    """Type and value of each constant that an index on the field needs."""
    yield "text", tenant
    yield "uuid", model
    for step in path.steps:
        if isinstance(step, str):
            yield "text", step


def name_constant(kind: str, value: str) -> str:
    """The function that returns the value."""
    return "search_constant_" + hashlib.sha256(f"{kind}\0{value}".encode()).hexdigest()[:24]


MAX_INDEXES: Final = 64
"""Declared indexes of a deployment: every write looks at the condition of each of them."""


class IndexSpec(Struct, frozen=True, kw_only=True):
    """What is to be indexed. The steps of ``path`` are member names; DOCUMENT has none."""

    tenant: TenantId
    model: ModelId
    path: Path
    path_text: str
    kind: IndexKind
    state: str | None = None

    @property
    def id(self) -> str:
        """The name of the index, the same whenever the same is wanted."""
        parts = (self.tenant, self.model, self.path_text, self.kind, "" if self.state is None else f"={self.state}")
        return "entity_search_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


INDEX_COLUMNS: Final = """search_index.id, search_index.tenant, search_index.model, search_index.path,
                   search_index.kind, search_index.state, search_index.status, search_index.failure"""


class SearchIndexes:
    """The declared indexes of all tenants."""

    def __init__(self, pool: Pool, database: DatabaseUrl) -> None:
        self._pool = pool
        self._database = database

    def within(self, pool: Pool) -> "SearchIndexes":
        """The same, whose statements go over this pool."""
        return SearchIndexes(pool, self._database)

    DECLARE = """
        INSERT INTO search_index (id, tenant, model, path, kind, state, status, created_at)
        SELECT $1, $2, $3, $4, $5, $6, 'BUILDING', now_us()
         WHERE (SELECT count(*) FROM search_index) < $7
            ON CONFLICT (id) DO NOTHING
    """

    async def declare(self, spec: IndexSpec) -> bool:
        """Have an index built, unless it is there; False when there are too many already."""
        values = (spec.id, spec.tenant, spec.model, spec.path_text, spec.kind, spec.state)
        created = await self._pool.execute(self.DECLARE, *values, MAX_INDEXES) == "INSERT 0 1"
        return created or await self.find(spec.tenant, spec.model, spec.id) is not None

    LIST = f"""
        SELECT {INDEX_COLUMNS}, built.phase,
               CASE WHEN built.blocks_total + built.tuples_total > 0
                    THEN 100 * (built.blocks_done + built.tuples_done) / (built.blocks_total + built.tuples_total)
                    ELSE 0 END AS percent
          FROM search_index
          LEFT JOIN pg_class ON pg_class.relname = search_index.id
          LEFT JOIN pg_stat_progress_create_index AS built ON built.index_relid = pg_class.oid
         WHERE search_index.tenant = $1 AND search_index.model = $2
         ORDER BY search_index.created_at, search_index.id
    """  # noqa: S608 - the column list is a constant

    async def list_for_model(self, tenant: TenantId, model: ModelId) -> list[DeclaredIndex]:
        """The indexes of a model in order of their declaration."""
        return [_to_index(row) for row in await self._pool.fetch(self.LIST, tenant, model)]

    async def find(self, tenant: TenantId, model: ModelId, index: str) -> DeclaredIndex | None:
        """One of them."""
        return next((one for one in await self.list_for_model(tenant, model) if one.id == index), None)

    REQUEST_DROP = """
        UPDATE search_index SET status = 'DROPPING', worker = NULL, lease_until = 0
         WHERE tenant = $1 AND model = $2 AND id = $3
    """

    async def request_drop(self, tenant: TenantId, model: ModelId, index: str) -> bool:
        """Have an index dropped, also one that is being built; False when there is none."""
        return await self._pool.execute(self.REQUEST_DROP, tenant, model, index) == "UPDATE 1"

    CLAIM = f"""
        WITH due AS MATERIALIZED (
            SELECT id FROM search_index
             WHERE status IN ('BUILDING', 'DROPPING') AND lease_until < now_us()
             ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED
        )
        UPDATE search_index SET worker = $1, lease_until = now_us() + $2::bigint
          FROM due WHERE search_index.id = due.id
     RETURNING {INDEX_COLUMNS}, NULL AS phase, 0 AS percent
    """  # noqa: S608

    async def claim(self, worker: str, *, lease: timedelta) -> DeclaredIndex | None:
        """An index that is to be built or dropped, now ``worker``'s."""
        row = await self._pool.fetchrow(self.CLAIM, worker, to_us(lease))
        return None if row is None else _to_index(row)

    RENEW = """
        UPDATE search_index SET lease_until = now_us() + $4::bigint WHERE id = $1 AND worker = $2 AND status = $3
    """

    async def renew(self, index: DeclaredIndex, worker: str, *, lease: timedelta) -> bool:
        """Keep the index for longer; False when something else is to be done with it by now."""
        tag = await self._pool.execute(self.RENEW, index.id, worker, index.status, to_us(lease))
        return tag == "UPDATE 1"

    RELEASE = "UPDATE search_index SET worker = NULL, lease_until = 0 WHERE id = $1 AND worker = $2"

    async def release(self, index: DeclaredIndex, worker: str) -> None:
        """Let other processes work on the index."""
        await self._pool.execute(self.RELEASE, index.id, worker)

    END = """
        UPDATE search_index SET status = $3, failure = $4, worker = NULL, lease_until = 0
         WHERE id = $1 AND worker = $2 AND status = 'BUILDING'
    """

    async def end(self, index: DeclaredIndex, worker: str, *, failure: str | None = None) -> bool:
        """A build has ended, well unless there is a reason; False when the index was withdrawn meanwhile."""
        status = "READY" if failure is None else "FAILED"
        return await self._pool.execute(self.END, index.id, worker, status, failure) == "UPDATE 1"

    async def build(self, spec: IndexSpec) -> None:
        """Create the index and its statistics. Takes as long as it takes; raises what PostgreSQL raises."""
        connection = await connect(self._database)
        try:
            await _drop_index(connection, spec.id)
            await _define_constants(connection, spec)
            await _execute_ddl(connection, _build_index_ddl(spec))
            if spec.kind != "DOCUMENT":
                await _execute_ddl(connection, _build_statistics_ddl(spec))
            await connection.execute("ANALYZE entity")
        finally:
            await connection.close(timeout=5)

    FORGET = "DELETE FROM search_index WHERE id = $1 AND status = 'DROPPING' RETURNING path, kind"

    SHARED = "SELECT EXISTS (SELECT FROM search_index WHERE path = $1 AND kind = $2)"

    async def drop(self, index: DeclaredIndex) -> None:
        """Remove the index, and its statistics unless another index on such a field needs them."""
        connection = await connect(self._database)
        try:
            await _drop_index(connection, index.id)
            row = await connection.fetchrow(self.FORGET, index.id)
            if row is not None and not await connection.fetchval(self.SHARED, row["path"], row["kind"]):
                name = _name_statistics(row["path"], row["kind"])
                await connection.execute(await _quote(connection, "DROP STATISTICS IF EXISTS %1$I", name))
            await _drop_unneeded_constants(connection, index)
        finally:
            await connection.close(timeout=5)


class _Placeholders:
    """Places for values in a text that ``format()`` completes; the first few are taken."""

    def __init__(self, taken: int) -> None:
        self._taken = taken
        self.values: list[str] = []

    def bind(self, value: Argument, kind: str) -> str:
        """``%n$L::kind``."""
        self.values.append(str(value))
        return f"%{self._taken + len(self.values)}$L::{kind}"

    def name(self, member: str) -> str:
        """The same for the name of a member."""
        return self.bind(member, "text")


class _Ddl(Struct, frozen=True):
    """A text for ``format()`` and what is to be quoted into it."""

    text: str
    values: tuple[str, ...]


def _build_index_ddl(spec: IndexSpec) -> _Ddl:
    fixed = [spec.id, spec.tenant, spec.model, spec.state or ""]
    what, values = _build_expression(spec, len(fixed))
    # As conditions/sql.py spells a condition on the state, or the planner would not see that it implies this one.
    in_state = """ AND (state COLLATE "C") = %4$L""" if spec.state is not None else ""
    text = f"CREATE INDEX CONCURRENTLY %1$I ON entity USING {what} WHERE tenant = %2$L AND model = %3$L{in_state}"
    return _Ddl(text, (*fixed, *values))


def _build_statistics_ddl(spec: IndexSpec) -> _Ddl:
    what, values = _build_expression(spec, 1)
    expression = what.removeprefix("btree (").removesuffix(")")
    name = _name_statistics(spec.path_text, spec.kind)
    return _Ddl(f"CREATE STATISTICS IF NOT EXISTS %1$I ON {expression} FROM entity", (name, *values))


def _name_statistics(path: str, kind: str) -> str:
    return "entity_field_" + hashlib.sha256(f"{path}\0{kind}".encode()).hexdigest()[:24]


def _build_expression(spec: IndexSpec, taken: int) -> tuple[str, list[str]]:
    """Method and columns of the index; the expression is that of a condition on the field."""
    if spec.kind == "DOCUMENT":
        return "gin (document jsonb_path_ops)", []
    values = _Placeholders(taken)
    place = resolve_place(DOCUMENT, spec.path.steps, values)
    expressions = {"TEXT": place.string.head, "NUMBER": place.number, "BOOLEAN": place.boolean}
    return f"btree ({expressions[spec.kind]})", values.values


LOCK_CONSTANTS: Final = "SELECT pg_advisory_xact_lock(5371, 2)"

NEEDED: Final = "SELECT tenant, model, path FROM search_index WHERE kind <> 'DOCUMENT'"


async def _define_constants(connection: DatabaseConnection, spec: IndexSpec) -> None:
    """What statements call that keep their plans (storage/search/indexes.py)."""
    if spec.kind == "DOCUMENT":
        return
    async with connection.transaction():
        await connection.execute(LOCK_CONSTANTS)
        for kind, value in iter_constants(spec.tenant, spec.model, spec.path):
            returns = f"RETURNS {kind} LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %2$L::{kind}"
            text = f"CREATE OR REPLACE FUNCTION %1$I() {returns}"
            await _execute_ddl(connection, _Ddl(text, (name_constant(kind, value), value)))


async def _drop_unneeded_constants(connection: DatabaseConnection, gone: DeclaredIndex) -> None:
    async with connection.transaction():
        await connection.execute(LOCK_CONSTANTS)
        rows = await connection.fetch(NEEDED)
        needed = {
            constant
            for row in rows
            for constant in iter_constants(
                row["tenant"], ModelId(str(row["model"])), parse_path(row["path"]) or Path(())
            )
        }
        for constant in {*iter_constants(gone.tenant, gone.model, parse_path(gone.path) or Path(()))} - needed:
            await _execute_ddl(connection, _Ddl("DROP FUNCTION IF EXISTS %1$I()", (name_constant(*constant),)))


async def _execute_ddl(connection: DatabaseConnection, ddl: _Ddl) -> None:
    await connection.execute(await _quote(connection, ddl.text, *ddl.values))


QUOTE: Final = "SELECT format($1::text, VARIADIC $2::text[])"


async def _quote(connection: asyncpg.Connection, text: str, *values: str) -> str:
    statement: str = await connection.fetchval(QUOTE, text, list(values))
    return statement


async def _drop_index(connection: asyncpg.Connection, name: str) -> None:
    await connection.execute(await _quote(connection, "DROP INDEX CONCURRENTLY IF EXISTS %1$I", name))


def _to_index(row: asyncpg.Record) -> DeclaredIndex:
    return DeclaredIndex(
        id=row["id"],
        tenant=row["tenant"],
        model=ModelId(str(row["model"])),
        path=row["path"],
        kind=cast("IndexKind", row["kind"]),  # the table has a CHECK
        state=row["state"],
        status=cast("IndexStatus", row["status"]),
        failure=row["failure"],
        progress=BuildProgress(row["phase"], row["percent"]) if row["phase"] is not None else None,
    )

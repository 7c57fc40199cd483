"""Searching the entities of a model, as they are or as they were at an instant.

SQL narrows, the predicate of the same plan has the last word (``conditions/sql.py``). With an exact narrowing the rows
are the result. Otherwise they arrive in portions and are judged here, in slices short enough for everything else on the
event loop to go on. No more than ``INLINE_BYTES`` of documents are kept; the others are read when they are wanted
(``storage/versions.py``).

A direct search sorts what it has found, not while it finds: more matches than its limit are a failure, so there are
never more than that to be sorted. An ``ORDER BY`` around the whole would tempt the planner to walk the index of ids and
fetch every row at random, up to twenty times slower (docs/benchmarks.md, docs/reference/conditions.md#values).

Searches have connections of their own. Whatever a search does, nothing else waits for it. Their sessions are set up for
it: statements are planned with their arguments in view, because only then does the planner recognise a declared index
in ``document -> $3`` and know how many rows a value has.

*Pages* come in the order of their sort keys (docs/reference/operations.md#searching-page-by-page). A page begins behind
a version of an entity, and versions never change. So a cursor names one, whatever has become of the entity since; what
it is sorted by is read again, and need not travel.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Annotated, Final, Generic
from uuid import UUID

import asyncpg
from msgspec import Meta, Struct
from msgspec.structs import replace

from statewright.conditions.sorting import KeysetPart
from statewright.entity import Entity
from statewright.failures import HistoryPruned, SearchResultLimit, SearchTimeout
from statewright.ids import ModelId, TenantId
from statewright.loop.deadlines import Deadlines
from statewright.storage.connections import DatabaseUrl, add_session_settings
from statewright.storage.deletion import require_kept
from statewright.storage.entities import COLUMNS, to_entity, wait_until_visible
from statewright.storage.pool import ACQUIRE_TIMEOUT, ConnectionGuard, Pool
from statewright.storage.search.indexes import IndexCatalog, Lookup
from statewright.storage.search.matching import (
    Candidates,
    Found,
    Match,
    get_id,
    iterate_matches,
    row_to_meta,
    sort_matches,
)
from statewright.storage.search.statements import (
    FIRST_ARGUMENT,
    INLINE_BYTES,
    EntityQuery,
    Projection,
    SearchStatement,
    Statement,
    StatementCache,
    select_versions,
)
from statewright.storage.versions import VIEW_COLUMNS, EntityList, Entry, cap_documents, to_ref, to_view

SERVER_TIMEOUT_MARGIN: Final = timedelta(seconds=2)
"""By how much the server's own limit is later than ours: it is for the case that our cancellation is lost."""


class SearchExplanation(Struct, frozen=True, kw_only=True):
    """How the database goes about a query: the statement, what is left to be judged row by row, PostgreSQL's plan."""

    statement: Statement
    judged: tuple[str, ...]
    plan: tuple[str, ...]


class ResultReader(Struct, Generic[Found], frozen=True):
    """Makes what is wanted of what is found: of the rows of an exact statement, or of a row that was judged, whose
    document is to be kept or not.
    """

    projection: Projection
    from_rows: Callable[[Sequence[asyncpg.Record]], list[Found]]
    from_match: Callable[[asyncpg.Record, bool], Found]


def _to_entries(rows: Sequence[asyncpg.Record]) -> list[Entry]:
    return [to_ref(row) if row["document"] is None else to_view(row) for row in rows]


def _to_bare_entity(row: asyncpg.Record, _is_kept: bool = False) -> Entity:
    return replace(to_entity(row), document="")


ENTRIES: Final = ResultReader(
    Projection(VIEW_COLUMNS), _to_entries, lambda row, is_kept: to_view(row) if is_kept else to_ref(row)
)
BARE_ENTITIES: Final = ResultReader(
    Projection(COLUMNS, has_documents=False), lambda rows: [*map(to_entity, rows)], _to_bare_entity
)


def configure_search_sessions(database: DatabaseUrl, *, timeout: timedelta | None = None) -> DatabaseUrl:
    """The database as searches connect to it; those in the background take their time."""
    return _configure_sessions(database, timeout, plan_cache_mode="force_custom_plan")


def configure_past_sessions(database: DatabaseUrl, *, timeout: timedelta) -> DatabaseUrl:
    """The database as searches of the past connect to it: they never scan a table.

    The planner takes the two ends of a version for independent, expects many times the versions of an instant that
    there are, and would rather read the whole history of all entities.
    """
    return _configure_sessions(database, timeout, plan_cache_mode="force_custom_plan", enable_seqscan="off")


def configure_lookup_sessions(database: DatabaseUrl, *, timeout: timedelta) -> DatabaseUrl:
    """The database as those searches connect to it that need not be planned each time (``indexes.py``).

    What they want of an index is never much, but a plan that is kept does not know it. A bitmap would be made of all
    that the index has before the first row is looked at.
    """
    return _configure_sessions(database, timeout, plan_cache_mode="force_generic_plan", enable_bitmapscan="off")


def _configure_sessions(database: DatabaseUrl, timeout: timedelta | None, **settings: str) -> DatabaseUrl:
    if timeout is not None:
        settings["statement_timeout"] = str((timeout + SERVER_TIMEOUT_MARGIN) // timedelta(milliseconds=1))
    return add_session_settings(database, **settings)


class SearchDatabase:
    """The connections of searches, and what a direct search may take: time, and rows judged one by one (0 = any)."""

    def __init__(
        self,
        pool: Pool,
        *,
        timeout: timedelta,
        scan_budget: int = 0,
        catalog: IndexCatalog | None = None,
        past: Pool | None = None,
    ) -> None:
        self.pool = pool
        self._past = past or pool
        self._catalog = catalog
        self._statements = StatementCache()
        self._timeout_s = timeout.total_seconds()
        self._deadlines = Deadlines()
        self.scan_budget = scan_budget

    async def find_views(self, query: EntityQuery, *, limit: int) -> EntityList:
        """All matches in order, as clients see them.

        Raises ``SearchResultLimit`` when there are more than ``limit``, ``ScanBudgetExhausted``, ``SearchTimeout``,
        ``StorageUnavailable``.
        """
        return EntityList(self.pool, query.tenant, await self._find(query, ENTRIES, limit=limit))

    async def find_entities(self, query: EntityQuery, *, limit: int) -> list[Entity]:
        """All matches by id, with everything that is stored of them but their documents. Raises as ``find_views``
        does.
        """
        return await self._find(query, BARE_ENTITIES, limit=limit)

    async def _find(self, query: EntityQuery, reader: ResultReader[Found], *, limit: int) -> list[Found]:
        catalog = self._catalog
        statement = self._statements.find(query, reader.projection, await self._find_lookup(query))
        if catalog is not None and statement.keeps_plan:
            most = statement.take_kept_limit(limit)
            try:
                if most:
                    return await self._execute(catalog.pool, statement, query, reader, limit=most)
            except asyncpg.UndefinedFunctionError:  # another process has dropped the index
                catalog.invalidate()
            except SearchResultLimit:
                if most == limit:
                    raise
                statement.pause_kept_plan()
            statement = self._statements.find(query, reader.projection, None)
        return await self._execute(self.pool, statement, query, reader, limit=limit)

    async def _find_lookup(self, query: EntityQuery) -> Lookup | None:
        """What is known of the indexes of the model; nothing for the past, which has too many kinds of plans."""
        catalog = self._catalog
        if catalog is None or query.instant is not None:
            return None
        if catalog.is_due:
            await catalog.refresh()
        return catalog.find_known(query.tenant, query.model)

    async def _execute(
        self, pool: Pool, statement: SearchStatement, query: EntityQuery, reader: ResultReader[Found], *, limit: int
    ) -> list[Found]:
        """The matches in order. One more than the limit is enough to know that there are too many."""
        args = statement.build_args(query, limit + 1)
        if not statement.is_exact:
            return await self._judge(pool, Statement(statement.text, tuple(args)), query, reader, limit=limit)
        if statement.recurs:
            rows = await self._fetch_prepared(pool, query.tenant, statement.text, args)
        else:
            async with self.open_connection(query.tenant, query, pool=pool) as connection:
                rows = await connection.fetch(statement.text, *args)
        if len(rows) > limit:
            raise SearchResultLimit(limit)
        found = reader.from_rows(rows)
        if not query.search.order:
            found.sort(key=get_id)
        return found

    async def _fetch_prepared(
        self, pool: Pool, tenant: TenantId, text: str, args: Sequence[object]
    ) -> list[asyncpg.Record]:
        """The rows of a statement, in the time of a direct search."""
        try:
            with self._deadlines.limit(self._timeout_s):
                connection = pool.take_idle(tenant) or await pool.acquire(ACQUIRE_TIMEOUT, tenant)
                with ConnectionGuard(pool, connection):
                    return await connection.fetch_prepared(text, args)
        except (TimeoutError, asyncpg.QueryCanceledError) as late:
            raise SearchTimeout(self._timeout_s) from late

    async def explain(self, query: EntityQuery, *, limit: int, analyze: bool = False) -> SearchExplanation:
        """What ``find_views`` does to find committed matches; with ``analyze`` it is done, and timed.

        Raises ``SearchTimeout``, ``StorageUnavailable``.
        """
        statement = self._statements.find(query, ENTRIES.projection, await self._find_lookup(query))
        args = statement.build_args(query, limit + 1)
        options = "ANALYZE, BUFFERS" if analyze else "ANALYZE false"
        async with (
            self.open_connection(query.tenant, query) as connection,
            connection.transaction(readonly=True),
        ):
            rows = await connection.fetch(f"EXPLAIN ({options}) {statement.text}", *args)
        return SearchExplanation(
            statement=Statement(statement.text, tuple(args)),
            judged=statement.condition.describe_residual(),
            plan=tuple(row[0] for row in rows),
        )

    @asynccontextmanager
    async def open_connection(
        self, tenant: TenantId, query: EntityQuery | None = None, *, pool: Pool | None = None
    ) -> AsyncIterator[asyncpg.Connection]:
        """A connection for as long as a direct search may take, on which the instant of the query can be read for good;
        of ``pool`` if the query is about the present. Tenants take turns at them.

        Raises ``SearchTimeout``, and at the end of the block ``HistoryPruned``.
        """
        instant = None if query is None else query.instant
        if query is not None and instant is not None:
            async with self.open_past_connection(tenant, query.model, instant) as connection:
                yield connection
            return
        try:
            with self._deadlines.limit(self._timeout_s):
                async with (pool or self.pool).connection(limit=None, tenant=tenant) as connection:
                    yield connection
        except (TimeoutError, asyncpg.QueryCanceledError) as late:
            raise SearchTimeout(self._timeout_s) from late

    @asynccontextmanager
    async def open_past_connection(
        self, tenant: TenantId, model: ModelId | None, instant: int
    ) -> AsyncIterator[asyncpg.Connection]:
        """The same for versions of an instant (epoch microseconds), of one model or of all models of the tenant."""
        try:
            with self._deadlines.limit(self._timeout_s):
                await wait_until_visible(self.pool, instant)
                async with self._past.connection(limit=None, tenant=tenant) as connection:
                    yield connection
                await require_kept(self.pool, tenant, model, instant)
        except (TimeoutError, asyncpg.QueryCanceledError) as late:
            raise SearchTimeout(self._timeout_s) from late

    async def _judge(
        self, pool: Pool, statement: Statement, query: EntityQuery, reader: ResultReader[Found], *, limit: int
    ) -> list[Found]:
        """The same of a statement that selects candidates."""
        matches: list[Match[Found]] = []
        read_values = query.search.compile_values()
        candidates = Candidates(
            tenant=query.tenant, statement=statement, columns=reader.projection.columns, most=self.scan_budget
        )
        kept = 0
        async with (
            self.open_connection(query.tenant, query, pool=pool) as connection,
            connection.transaction(readonly=True),
        ):
            async for row, document in iterate_matches(connection, candidates, query):
                is_kept = row["document"] is not None and kept < INLINE_BYTES
                kept += len(row["document"]) if is_kept else 0
                matches.append(Match(reader.from_match(row, is_kept), read_values(document, row_to_meta(row))))
                if len(matches) > limit:
                    raise SearchResultLimit(limit)
        return sort_matches(matches, query.search)


class EntityKey(Struct, frozen=True, array_like=True):
    """The version behind which a page begins, by the instant from which it was valid, in epoch microseconds."""

    id: UUID
    valid_from: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class EntityPage(Struct, frozen=True, kw_only=True):
    """Some matches in order, and the version behind which there are more; None when there are none."""

    found: EntityList
    last_key: EntityKey | None


async def fetch_page(
    search: SearchDatabase, query: EntityQuery, *, size: int, after: EntityKey | None = None
) -> EntityPage:
    """The first matches of a search, or those behind ``after``.

    Raises ``ScanBudgetExhausted``, ``SearchTimeout``, ``HistoryPruned`` also for a version to begin behind that is not
    kept any more, ``StorageUnavailable``.
    """
    condition = query.search.compile_sql(first=FIRST_ARGUMENT)
    chosen = select_versions(query, VIEW_COLUMNS, condition=condition)
    async with search.open_connection(query.tenant, query) as connection:
        ordered = await _order(connection, query, chosen, after)
        if condition.is_exact:
            text = f"{ordered.text} LIMIT {size + 1}"
            capped = cap_documents(text, VIEW_COLUMNS, most=INLINE_BYTES // (size + 1))
            entries = _to_entries(await connection.fetch(capped, *ordered.args))
        else:
            candidates = Candidates(
                tenant=query.tenant, statement=ordered, columns=VIEW_COLUMNS, most=search.scan_budget
            )
            entries = await _judge(connection, candidates, query, size + 1)
    last_key = _build_key(entries[size - 1]) if len(entries) > size else None
    return EntityPage(found=EntityList(search.pool, query.tenant, entries[:size]), last_key=last_key)


async def _judge(connection: asyncpg.Connection, candidates: Candidates, query: EntityQuery, most: int) -> list[Entry]:
    """The first of the candidates that match."""
    entries, kept = list[Entry](), 0
    async with (
        connection.transaction(readonly=True),
        aclosing(iterate_matches(connection, candidates, query)) as matches,
    ):
        async for row, _ in matches:
            document = row["document"]
            if document is not None and kept < INLINE_BYTES:
                kept += len(document)
                entries.append(to_view(row))
            else:
                entries.append(to_ref(row))
            if len(entries) == most:
                break
    return entries


def _build_key(entry: Entry) -> EntityKey:
    return EntityKey(UUID(entry.id), entry.updated_at)


async def _order(
    connection: asyncpg.Connection, query: EntityQuery, chosen: Statement, after: EntityKey | None
) -> Statement:
    """The versions in order, those behind ``after``."""
    first = len(chosen.args) + 1
    ordering = query.search.compile_order_by(first=first)
    args = [*chosen.args, *ordering.args]
    where = "true"
    if after is not None:
        values = await _fetch_values(connection, query, after)
        where = _build_condition(query.search.compile_keyset(first=first).parts, [*values, after.id], args)
    text = f"SELECT {VIEW_COLUMNS} FROM ({chosen.text}) AS version WHERE {where} ORDER BY {ordering.text}"  # noqa: S608
    return Statement(text, tuple(args))


_VERSION: Final = """
    SELECT id, state, transaction_id, created_at, valid_from, transition, document
      FROM entity WHERE tenant = $1 AND id = $2 AND valid_from = $3
     UNION ALL
    SELECT id, state, transaction_id, created_at, valid_from, transition, document
      FROM entity_history WHERE tenant = $1 AND id = $2 AND valid_from = $3 AND document IS NOT NULL
"""


async def _fetch_values(connection: asyncpg.Connection, query: EntityQuery, key: EntityKey) -> Sequence[object]:
    """What the version is sorted by."""
    keyset = query.search.compile_keyset(first=4)
    if not keyset.parts:
        return ()
    columns = ", ".join(part.expression for part in keyset.parts)
    text = f"SELECT {columns} FROM ({_VERSION}) AS version"  # noqa: S608 - names are our own, values are arguments
    row = await connection.fetchrow(text, query.tenant, key.id, key.valid_from, *keyset.args)
    if row is None:
        raise HistoryPruned(key.valid_from)
    return tuple(row)


def _build_condition(parts: Sequence[KeysetPart], values: Sequence[object], args: list[object]) -> str:
    """What holds for the rows behind the one with these values, its id the last of them. Arguments are added."""
    text = ""
    for part, value in reversed([*zip([*parts, _ID], values, strict=True)]):
        equal = f" AND {text}" if text else ""
        if value is None:
            text = f"({part.expression} IS NULL{equal})"
            continue
        args.append(value)
        operand = f"${len(args)}::{part.type}"
        beyond = f"{part.expression} {'<' if part.descending else '>'} {operand}"
        if part is _ID:
            text = f"({beyond})"
        else:
            text = f"({beyond} OR {part.expression} IS NULL OR ({part.expression} = {operand}{equal}))"
    return text


_ID: Final = KeysetPart(expression="id", type="uuid")
"""Decides what is left, so no two rows are at the same place."""

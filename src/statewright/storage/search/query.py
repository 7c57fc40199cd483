"""Searching the entities of a model, as they are or as they were at an instant.

SQL narrows, the predicate of the same plan has the last word (``conditions/sql.py``). With an exact narrowing the rows
are the result. Otherwise they arrive in portions and are judged here, in slices short enough for everything else on the
event loop to go on.

A direct search sorts what it has found, not while it finds: more matches than its limit are a failure, so there are
never more than that to be sorted. An ``ORDER BY`` around the whole would tempt the planner to walk the index of ids and
fetch every row at random, up to twenty times slower (docs/benchmarks.md docs/reference/conditions.md#values).

Searches have connections of their own. Whatever a search does, nothing else waits for it. Their sessions are set up for
it: statements are planned with their arguments in view, because only then does the planner recognise a declared index
in ``document -> $3`` and know how many rows a value has.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Generic

import asyncpg
from msgspec import Struct

from statewright.deadlines import Deadlines
from statewright.entity import Entity, EntityView
from statewright.failures import ScanBudgetExhausted, SearchResultLimit, SearchTimeout
from statewright.ids import ModelId, TenantId
from statewright.storage.connections import DatabaseUrl, add_session_settings
from statewright.storage.entities import COLUMNS, VIEW_COLUMNS, to_entity, to_view
from statewright.storage.pool import ACQUIRE_TIMEOUT, ConnectionGuard, Pool
from statewright.storage.read_barrier import wait_until_visible
from statewright.storage.retention import require_kept
from statewright.storage.search.index_catalog import IndexCatalog, Lookup
from statewright.storage.search.matching import PORTION, Found, Match, get_id, judge_rows, sort_matches
from statewright.storage.search.statements import EntityQuery, SearchStatement, Statement, StatementCache

SERVER_TIMEOUT_MARGIN: Final = timedelta(seconds=2)
"""By how much the server's own limit is later than ours: it is for the case that our cancellation is lost."""


class Explanation(Struct, frozen=True, kw_only=True):
    """How the database goes about a query: the statement, what is left to be judged row by row, PostgreSQL's plan."""

    statement: Statement
    judged: tuple[str, ...]
    plan: tuple[str, ...]


class Projection(Struct, Generic[Found], frozen=True):
    """What is wanted of the entities that are found."""

    columns: str
    from_row: Callable[[asyncpg.Record], Found]


VIEW_PROJECTION: Final = Projection(VIEW_COLUMNS, to_view)
ENTITY_PROJECTION: Final = Projection(COLUMNS, to_entity)


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
    """The database as those searches connect to it that need not be planned each time (``index_catalog.py``).

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

    def find_views(self, query: EntityQuery, *, limit: int) -> Coroutine[object, object, list[EntityView]]:
        """All matches in order, as clients see them.

        Raises ``SearchResultLimit`` when there are more than ``limit``, ``ScanBudgetExhausted``, ``SearchTimeout``,
        ``StorageUnavailable``.
        """
        return self._find(query, VIEW_PROJECTION, limit=limit)

    def find_entities(self, query: EntityQuery, *, limit: int) -> Coroutine[object, object, list[Entity]]:
        """All matches in order, with everything that is stored of them. Raises as ``find_views`` does."""
        return self._find(query, ENTITY_PROJECTION, limit=limit)

    async def _find(self, query: EntityQuery, projection: Projection[Found], *, limit: int) -> list[Found]:
        catalog = self._catalog
        statement = self._statements.find(query, projection.columns, await self._find_lookup(query))
        if catalog is not None and statement.keeps_plan:
            most = statement.take_kept_limit(limit)
            try:
                if most:
                    return await self._execute(catalog.pool, statement, query, projection, limit=most)
            except asyncpg.UndefinedFunctionError:  # another process has dropped the index
                catalog.invalidate()
            except SearchResultLimit:
                if most == limit:
                    raise
                statement.pause_kept_plan()
            statement = self._statements.find(query, projection.columns, None)
        return await self._execute(self.pool, statement, query, projection, limit=limit)

    async def _find_lookup(self, query: EntityQuery) -> Lookup | None:
        """What is known of the indexes of the model; nothing for the past, which has too many kinds of plans."""
        catalog = self._catalog
        if catalog is None or query.instant is not None:
            return None
        if catalog.is_due:
            await catalog.refresh()
        return catalog.find_known(query.tenant, query.model)

    async def _execute(
        self, pool: Pool, statement: SearchStatement, query: EntityQuery, projection: Projection[Found], *, limit: int
    ) -> list[Found]:
        """The matches in order. One more than the limit is enough to know that there are too many."""
        args = statement.build_args(query, limit + 1)
        if not statement.is_exact:
            return await self._judge(pool, statement.text, args, query, projection, limit=limit)
        if statement.recurs:
            rows = await self._fetch_prepared(pool, statement.text, args)
        else:
            async with self.open_connection(query, pool=pool) as connection:
                rows = await connection.fetch(statement.text, *args)
        if len(rows) > limit:
            raise SearchResultLimit(limit)
        found = [*map(projection.from_row, rows)]
        if not query.search.order:
            found.sort(key=get_id)
        return found

    async def _fetch_prepared(self, pool: Pool, text: str, args: Sequence[object]) -> list[asyncpg.Record]:
        """The rows of a statement, in the time of a direct search."""
        try:
            with self._deadlines.limit(self._timeout_s):
                connection = pool.take_idle() or await pool.acquire(ACQUIRE_TIMEOUT)
                with ConnectionGuard(pool, connection):
                    return await connection.fetch_prepared(text, args)
        except (TimeoutError, asyncpg.QueryCanceledError) as late:
            raise SearchTimeout(self._timeout_s) from late

    async def explain(self, query: EntityQuery, *, limit: int, analyze: bool = False) -> Explanation:
        """What ``find_views`` does to find committed matches; with ``analyze`` it is done, and timed.

        Raises ``SearchTimeout``, ``StorageUnavailable``.
        """
        statement = self._statements.find(query, VIEW_COLUMNS, await self._find_lookup(query))
        args = statement.build_args(query, limit + 1)
        options = "ANALYZE, BUFFERS" if analyze else "ANALYZE false"
        async with self.open_connection(query) as connection, connection.transaction(readonly=True):
            rows = await connection.fetch(f"EXPLAIN ({options}) {statement.text}", *args)
        return Explanation(
            statement=Statement(statement.text, tuple(args)),
            judged=statement.condition.describe_residual(),
            plan=tuple(row[0] for row in rows),
        )

    @asynccontextmanager
    async def open_connection(
        self, query: EntityQuery | None = None, *, pool: Pool | None = None
    ) -> AsyncIterator[asyncpg.Connection]:
        """A connection for as long as a direct search may take, on which the instant of the query can be read for good;
        of ``pool`` if the query is about the present.

        Raises ``SearchTimeout``, and at the end of the block ``HistoryPruned``.
        """
        instant = None if query is None else query.instant
        if query is not None and instant is not None:
            async with self.open_past_connection(query.tenant, query.model, instant) as connection:
                yield connection
            return
        try:
            with self._deadlines.limit(self._timeout_s):
                async with (pool or self.pool).connection() as connection:
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
                async with self._past.connection() as connection:
                    yield connection
                await require_kept(self.pool, tenant, model, instant)
        except (TimeoutError, asyncpg.QueryCanceledError) as late:
            raise SearchTimeout(self._timeout_s) from late

    async def _judge(
        self,
        pool: Pool,
        text: str,
        args: Sequence[object],
        query: EntityQuery,
        projection: Projection[Found],
        *,
        limit: int,
    ) -> list[Found]:
        """The same of a statement that selects candidates."""
        matches: list[Match[Found]] = []
        holds = query.search.compile_predicate()
        seen = 0
        async with self.open_connection(query, pool=pool) as connection, connection.transaction(readonly=True):
            cursor = await connection.cursor(text, *args)
            while rows := await cursor.fetch(PORTION):
                seen += len(rows)
                if self.scan_budget and seen > self.scan_budget:
                    raise ScanBudgetExhausted(self.scan_budget)
                async for row, document in judge_rows(rows, holds):
                    matches.append(Match(projection.from_row(row), document))
                    if len(matches) > limit:
                        raise SearchResultLimit(limit)
        return sort_matches(matches, query.search)

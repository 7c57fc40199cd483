"""Searching the entities of a model, as they are or as they were at an instant.

SQL narrows, the predicate of the same plan has the last word (``conditions/sql.py``). With an exact narrowing the rows
are the result. Otherwise they arrive in portions and are judged here, in slices short enough for everything else on the
event loop to go on.

A direct search sorts what it has found, not while it finds: more matches than its limit are a failure, so there are
never more than that to be sorted. An ``ORDER BY`` around the whole would tempt the planner to walk the index of ids and
fetch every row at random, up to twenty times slower (design/performance.md §5).

Searches have connections of their own. Whatever a search does, nothing else waits for it. Their sessions are set up for
it: statements are planned with their arguments in view, because only then does the planner recognise a declared index
in ``document -> $3`` and know how many rows a value has.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from operator import attrgetter
from typing import Final, Generic, TypeVar

import asyncpg
import msgspec
from msgspec import Struct

from statewright.conditions import Plan, compile_plan
from statewright.conditions.describing import described
from statewright.conditions.sorting import BY_ID, SortOrder, order_by, sorted_by
from statewright.conditions.sql import Narrowing, compile_sql
from statewright.conditions.templates import Filled
from statewright.entity import Entity, EntityMeta, EntityView
from statewright.failures import ScanBudgetExhausted, SearchResultLimit, SearchTimeout
from statewright.identity import EntityId, ModelId, TenantId
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.storage.connections import Target, with_settings
from statewright.storage.deadlines import Deadlines
from statewright.storage.entities import COLUMNS, VIEW_COLUMNS, to_entity, to_view
from statewright.storage.fence import settled
from statewright.storage.lookups import Constants, Lookups
from statewright.storage.pool import WITHIN, Held, Pool
from statewright.storage.ready import ReadyStatements
from statewright.storage.retention import require_kept

_read: Final[Callable[[str], JsonValue]] = msgspec.json.Decoder(float_hook=Decimal).decode

FIRST_ARGUMENT = 3
"""Number of a narrowing's first argument in the statements here; before it are tenant and model."""

PORTION = 500
"""Rows judged between two looks at the database."""

SLICE_S = 0.004
"""How long rows are judged before others on the event loop get their turn."""

GRACE = timedelta(seconds=2)
"""By how much the server's own limit is later than ours: it is for the case that our cancellation is lost."""


class Query(Struct, frozen=True, kw_only=True):
    """Which entities are wanted: those of a model that satisfy the plan, now or at ``instant`` (epoch microseconds).

    ``without`` are left out: a transaction has versions of its own of these.
    """

    tenant: TenantId
    model: ModelId
    wanted: Plan | Filled
    instant: int | None = None
    without: tuple[EntityId, ...] = ()

    @property
    def plan(self) -> Plan:
        return self.wanted.plan if isinstance(self.wanted, Filled) else self.wanted


class Statement(Struct, frozen=True):
    """A statement and its arguments."""

    text: str
    args: tuple[object, ...]


class Explanation(Struct, frozen=True, kw_only=True):
    """How the database goes about a query: the statement, what is left to be judged row by row, PostgreSQL's plan."""

    statement: Statement
    judged: tuple[str, ...]
    plan: tuple[str, ...]


Found = TypeVar("Found", bound=EntityView)


class Match(Struct, Generic[Found], frozen=True):
    """A matching entity; ``document`` is decoded where somebody had to look into it."""

    entity: Found
    document: JsonValue = None


class Reading(Struct, Generic[Found], frozen=True):
    """What is wanted of the entities that are found."""

    columns: str
    of_row: Callable[[asyncpg.Record], Found]


VIEWS: Final = Reading(VIEW_COLUMNS, to_view)
WHOLE: Final = Reading(COLUMNS, to_entity)


def search_sessions(database: Target, *, timeout: timedelta | None = None) -> Target:
    """The database as searches connect to it; those in the background take their time."""
    return _sessions(database, timeout, plan_cache_mode="force_custom_plan")


def past_sessions(database: Target, *, timeout: timedelta) -> Target:
    """The database as searches of the past connect to it: they never scan a table.

    The planner takes the two ends of a version for independent, expects many times the versions of an instant that
    there are, and would rather read the whole history of everybody.
    """
    return _sessions(database, timeout, plan_cache_mode="force_custom_plan", enable_seqscan="off")


def lookup_sessions(database: Target, *, timeout: timedelta) -> Target:
    """The database as those searches connect to it that need not be planned each time (``lookups.py``).

    What they want of an index is never much, but a plan that is kept does not know it. A bitmap would be made of all
    that the index has before the first row is looked at.
    """
    return _sessions(database, timeout, plan_cache_mode="force_generic_plan", enable_bitmapscan="off")


def _sessions(database: Target, timeout: timedelta | None, **settings: str) -> Target:
    if timeout is not None:
        settings["statement_timeout"] = str((timeout + GRACE) // timedelta(milliseconds=1))
    return with_settings(database, **settings)


def versions(
    query: Query, columns: str, *, narrowing: Narrowing | None = None, constants: Constants | None = None
) -> Statement:
    """Selects columns of the candidates of a query, in no order; ``narrowing`` has its arguments from
    ``FIRST_ARGUMENT``, or from 1 if there are constants for tenant and model.
    """
    narrowing = narrowing or compile_sql(query.plan, first=FIRST_ARGUMENT)
    args: list[object] = [*narrowing.args] if constants else [query.tenant, query.model, *narrowing.args]
    tenant, model = (constants.tenant, constants.model) if constants else ("$1", "$2")
    wanted = [f"tenant = {tenant}", f"model = {model}", f"({narrowing.text})"]
    if query.without:
        args.append(query.without)
        wanted.append(f"id <> ALL (${len(args)}::uuid[])")
    if query.instant is None:
        return Statement(f"SELECT {columns} FROM entity WHERE {' AND '.join(wanted)}", tuple(args))  # noqa: S608
    args.append(query.instant)
    wanted.append(f"valid_from <= ${len(args)}::bigint")
    conditions = " AND ".join(wanted)
    text = f"""
        SELECT {columns} FROM entity WHERE {conditions}
         UNION ALL
        SELECT {columns} FROM entity_history
         WHERE {conditions} AND valid_to > ${len(args)}::bigint AND document IS NOT NULL
    """  # noqa: S608 - names are our own, values are arguments
    return Statement(text, tuple(args))


class SearchDatabase:
    """The connections of searches, and what a direct search may take: time, and rows judged one by one (0 = any)."""

    def __init__(
        self,
        pool: Pool,
        *,
        timeout: timedelta,
        scan_budget: int = 0,
        lookups: Lookups | None = None,
        past: Pool | None = None,
    ) -> None:
        self.pool = pool
        self._past = past or pool
        self._lookups = lookups
        self._ready = ReadyStatements()
        self._timeout_s = timeout.total_seconds()
        self._deadlines = Deadlines(self._timeout_s)
        self.scan_budget = scan_budget

    def direct(
        self, query: Query, *, limit: int, order: SortOrder = BY_ID
    ) -> Coroutine[object, object, list[EntityView]]:
        """All matches in order, as clients see them.

        Raises ``SearchResultLimit`` when there are more than ``limit``, ``ScanBudgetExhausted``, ``SearchTimeout``,
        ``StorageUnavailable``.
        """
        return self._found(query, VIEWS, limit=limit, order=order)

    async def entities(self, query: Query, *, limit: int) -> list[Entity]:
        """All matches in order of id, with everything that is stored of them. Raises as ``direct`` does."""
        return await self._found(query, WHOLE, limit=limit)

    async def _found(
        self, query: Query, reading: Reading[Found], *, limit: int, order: SortOrder = BY_ID
    ) -> list[Found]:
        if isinstance(query.wanted, Filled) and query.instant is None and not query.without:
            rows = await self._by_template(query, query.wanted, reading.columns, limit=limit, order=order)
            if rows is not None:
                return _entities(rows, reading, limit=limit, order=order)
        lookups, constants = self._lookups, await self._constants(query)
        try:
            return await self._found_with(query, reading, constants, limit=limit, order=order)
        except asyncpg.UndefinedFunctionError:  # another process has dropped the index
            if lookups is None or constants is None:
                raise
            lookups.doubt()
        return await self._found_with(query, reading, None, limit=limit, order=order)

    async def _by_template(
        self, query: Query, filled: Filled, columns: str, *, limit: int, order: SortOrder
    ) -> list[asyncpg.Record] | None:
        """Up to one match more than the limit; None when this search must go the long way."""
        lookups = self._lookups
        if lookups is not None and lookups.is_due:
            await lookups.refresh()
        lookup = None if lookups is None else lookups.known(query.tenant, query.model)
        ready = self._ready.of(filled.template, lookup, columns, order)
        if lookups is not None and ready is not None and (most := ready.kept_for(limit)):
            args = ready.args((), filled.operands, most + 1)
            if args is None:
                return None
            try:
                rows = await self._fetch(lookups.pool, ready.text, args)
            except asyncpg.UndefinedFunctionError:  # another process has dropped the index
                lookups.doubt()
            else:
                if len(rows) <= most or most == limit:
                    return rows
                ready.was_too_narrow()
        if ready is not None and ready.kept:
            ready = self._ready.of(filled.template, None, columns, order)
        if ready is None:
            return None
        args = ready.args((query.tenant, query.model), filled.operands, limit + 1)
        return None if args is None else await self._fetch(self.pool, ready.text, args)

    async def _fetch(self, pool: Pool, text: str, args: Sequence[object]) -> list[asyncpg.Record]:
        """The rows of a statement, in the time of a direct search."""
        try:
            with self._deadlines.limit():
                connection = pool.take_idle() or await pool.acquire(WITHIN)
                with Held(pool, connection):
                    return await connection.fetch_prepared(text, args)
        except (TimeoutError, asyncpg.QueryCanceledError) as late:
            raise SearchTimeout(self._timeout_s) from late

    async def _constants(self, query: Query, *, of_runs: bool = False) -> Constants | None:
        """What lets the plan be kept, if it can be: the past has too many kinds of plans."""
        if self._lookups is None or query.instant is not None:
            return None
        lookup = await self._lookups.of(query.tenant, query.model)
        if lookup is None or not (lookup.answers(query.plan) or (of_runs and lookup.runs(query.plan))):
            return None
        return lookup.constants

    async def _found_with(
        self, query: Query, reading: Reading[Found], constants: Constants | None, *, limit: int, order: SortOrder
    ) -> list[Found]:
        narrowing, statement = _compiled(query, reading.columns, constants)
        async with self.limited(query, keeps_plans=constants is not None) as connection:
            if narrowing.is_exact:
                cut = _at_most(limit + 1, statement, order, reading.columns)
                rows = await connection.fetch(cut.text, *cut.args)
                return _entities(rows, reading, limit=limit, order=order)
            matches = await self._judged(connection, statement, query.plan, limit, reading)
        return in_order(matches, order)

    async def explain(
        self, query: Query, *, limit: int, order: SortOrder = BY_ID, analyze: bool = False
    ) -> Explanation:
        """What ``direct`` does to find committed matches; with ``analyze`` it is done, and timed.

        Raises ``SearchTimeout``, ``StorageUnavailable``.
        """
        runs = isinstance(query.wanted, Filled) and not query.without
        narrowing, statement = _compiled(query, VIEW_COLUMNS, await self._constants(query, of_runs=runs))
        if narrowing.is_exact:
            statement = _at_most(limit + 1, statement, order, VIEW_COLUMNS)
        options = "ANALYZE, BUFFERS" if analyze else "ANALYZE false"
        async with self.limited(query) as connection, connection.transaction(readonly=True):
            rows = await connection.fetch(f"EXPLAIN ({options}) {statement.text}", *statement.args)
        return Explanation(
            statement=statement,
            judged=tuple(dict.fromkeys(map(described, narrowing.loose))),
            plan=tuple(row[0] for row in rows),
        )

    @asynccontextmanager
    async def limited(
        self, query: Query | None = None, *, keeps_plans: bool = False
    ) -> AsyncIterator[asyncpg.Connection]:
        """A connection for as long as a direct search may take, on which the instant of the query can be read for good.

        Raises ``SearchTimeout``, and at the end of the block ``HistoryPruned``.
        """
        instant = None if query is None else query.instant
        try:
            with self._deadlines.limit():
                if query is None or instant is None:
                    pool = self._lookups.pool if keeps_plans and self._lookups else self.pool
                    async with pool.connection() as connection:
                        yield connection
                    return
                await settled(self.pool, instant)
                async with self._past.connection() as connection:
                    yield connection
                await require_kept(self.pool, query.tenant, query.model, instant)
        except (TimeoutError, asyncpg.QueryCanceledError) as late:
            raise SearchTimeout(self._timeout_s) from late

    async def _judged(
        self, connection: asyncpg.Connection, statement: Statement, plan: Plan, limit: int, reading: Reading[Found]
    ) -> list[Match[Found]]:
        matches: list[Match[Found]] = []
        holds = compile_plan(plan)
        seen = 0
        async with connection.transaction(readonly=True):
            cursor = await connection.cursor(statement.text, *statement.args)
            while rows := await cursor.fetch(PORTION):
                seen += len(rows)
                if self.scan_budget and seen > self.scan_budget:
                    raise ScanBudgetExhausted(self.scan_budget)
                async for row, document in judged(rows, holds):
                    matches.append(Match(reading.of_row(row), document))
                    if len(matches) > limit:
                        raise SearchResultLimit(limit)
        return matches


def _entities(rows: Sequence[asyncpg.Record], reading: Reading[Found], *, limit: int, order: SortOrder) -> list[Found]:
    """What the rows are, which are in order unless that is by id. Raises ``SearchResultLimit``."""
    if len(rows) > limit:
        raise SearchResultLimit(limit)
    found = [*map(reading.of_row, rows)]
    if not order:
        found.sort(key=_id)
    return found


def _compiled(query: Query, columns: str, constants: Constants | None) -> tuple[Narrowing, Statement]:
    if constants is None:
        narrowing = compile_sql(query.plan, first=FIRST_ARGUMENT)
    else:
        narrowing = compile_sql(query.plan, names=constants.names)
    return narrowing, versions(query, columns, narrowing=narrowing, constants=constants)


Holds = Callable[[JsonValue, EntityMeta], bool]


async def judged(rows: Sequence[asyncpg.Record], holds: Holds) -> AsyncIterator[tuple[asyncpg.Record, JsonValue]]:
    """The rows that match, with their documents; others get their turn every ``SLICE_S``."""
    clock = asyncio.get_running_loop().time
    until = clock() + SLICE_S
    for row in rows:
        document = stored_document(row["document"])
        if holds(document, meta_of_row(row)):
            yield row, document
        if clock() > until:
            await asyncio.sleep(0)
            until = clock() + SLICE_S


def in_order(matches: Sequence[Match[Found]], order: SortOrder) -> list[Found]:
    """The entities in order."""
    if not order:
        return sorted((match.entity for match in matches), key=_id)
    return [match.entity for match in sorted_by(order, matches, _seen)]


def stored_document(text: str) -> JsonValue:
    """A document from the database, which holds only what was examined on its way in: a third of the codec's work."""
    try:
        return _read(text)
    except msgspec.DecodeError:  # an integer of thousands of digits: msgspec reads none, the codec does
        return decode(text)


def _seen(match: Match[Found]) -> tuple[JsonValue, EntityMeta]:
    document = stored_document(match.entity.document) if match.document is None else match.document
    return document, meta_of(match.entity)


def meta_of(entity: EntityView) -> EntityMeta:
    """What lifecycle conditions see of an entity."""
    return EntityMeta(
        id=entity.id,
        state=entity.state,
        creation_date=entity.created_at // 1000,
        last_update_time=entity.updated_at // 1000,
        transition=entity.transition,
        transaction_id=entity.transaction_id,
    )


def meta_of_row(row: asyncpg.Record) -> EntityMeta:
    """The same of a row that has these columns."""
    return EntityMeta(
        id=str(row["id"]),
        state=row["state"],
        creation_date=row["created_at"] // 1000,
        last_update_time=row["valid_from"] // 1000,
        transition=row["transition"],
        transaction_id=str(row["transaction_id"]),
    )


def _at_most(rows: int, statement: Statement, order: SortOrder, columns: str) -> Statement:
    """Any so many rows of a statement that selects ``columns``; sorted, unless by id, which is done faster here.

    One more than the limit of a search is enough to know that there are too many.
    """
    first = len(statement.args) + 1
    cut = f"{statement.text} LIMIT ${first}::bigint"
    if not order:
        return Statement(cut, (*statement.args, rows))
    ordering = order_by(order, first=first + 1)
    text = f"SELECT {columns} FROM ({cut}) AS match ORDER BY {ordering.text}"  # noqa: S608 - only our own names
    return Statement(text, (*statement.args, rows, *ordering.args))


_id: Final = attrgetter("id")

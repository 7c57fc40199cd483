"""Statements that select the entities of a search: put together in one place, and once per shape of a search.

Columns are selected from current versions, or from those of an instant. What is exact in SQL is cut at the number of
rows that are wanted, and sorted; what is not is judged row by row, so all candidates are wanted, in no order.
"""

from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Protocol

from msgspec import Struct

from statewright.conditions import NO_NAMES, CompiledSearch, IndexUse, SqlCondition
from statewright.ids import EntityId, ModelId, TenantId
from statewright.loop.lru import LruCache
from statewright.storage.search.indexes import MAX_ROWS, Constants, Lookup
from statewright.storage.versions import cap_documents

FIRST_ARGUMENT: Final = 3
"""Number of a condition's first argument in the statements here; before it are tenant and model."""

MAX_CACHED_CHARS: Final = 4_000_000
"""Of all statements together: memory is finite, and others write conditions."""

BACK_OFF_SEARCHES: Final = 20
"""Searches of a shape that are planned anew after one has found more than a kept plan is good for."""


class Computations(Protocol):
    """Processes that can be killed (``statewright.computations``)."""

    def compute(self, tenant: TenantId, kind: str, function: Callable[[], bool], /) -> Awaitable[bool]:
        """Raises ``ComputationKilled``, ``ComputationsBusy``, and what the function raises."""
        ...


class ClaimedKey(Struct, frozen=True):
    """Values of a unique key that all matches have. So there is one at most, the entity that claims them, while the
    ``keys`` of the model, which are JSON text, are these: another node may have had no news yet that they changed.
    """

    keys: str
    hash: str


class EntityQuery(Struct, frozen=True, kw_only=True):
    """Which entities are wanted: those of a model that a search asks for, now or at ``instant`` (epoch microseconds).

    ``without`` are left out: a transaction has versions of its own of these.
    """

    tenant: TenantId
    model: ModelId
    search: CompiledSearch
    instant: int | None = None
    without: tuple[EntityId, ...] = ()
    claimed: ClaimedKey | None = None
    """Of a search of the present; what was claimed is not known of the past."""
    computations: Computations | None = None
    """Have what is too long for a turn of the event loop; None: a thread has it."""


class Statement(Struct, frozen=True):
    """A statement and its arguments."""

    text: str
    args: tuple[object, ...]


INLINE_BYTES: Final = 32 * 1024 * 1024
"""Of documents as texts that come with the matches of a direct search at most: none that is longer than this divided by
the limit. The others are read when they are wanted.
"""


class Projection(Struct, frozen=True):
    """What is wanted of the entities that are found: columns of their versions. Documents are null where they are long;
    without ``has_documents`` all are empty, and the entities in no order.
    """

    columns: str
    has_documents: bool = True


class SearchStatement(Struct, kw_only=True):
    """The statement of all searches of a shape, for certain columns.

    ``keeps_plan`` says that its plan may be kept, ``is_run`` that such a plan is good for ``MAX_ROWS`` matches only,
    ``recurs`` that other searches use the statement, too.
    """

    text: str
    condition: SqlCondition
    order_args: tuple[object, ...]
    has_documents: bool
    keeps_plan: bool
    is_run: bool
    recurs: bool
    pause: int = 0
    """Searches to come that are planned anew."""

    @property
    def is_exact(self) -> bool:
        """Whether it selects nothing but matches."""
        return self.condition.is_exact

    def build_args(self, query: EntityQuery, rows: int) -> list[object]:
        """The arguments that select at most so many matches."""
        args = _build_version_args(query, self.condition, has_constants=self.keeps_plan)
        if not self.is_exact:
            return args
        longest = (INLINE_BYTES // rows,) if self.has_documents else ()
        return [*args, rows, *longest, *self.order_args]

    def take_kept_limit(self, limit: int) -> int:
        """How many matches the kept plan may bring at most, of up to ``limit``; 0 when a plan must be made."""
        if not self.keeps_plan:
            return 0
        if not self.is_run or limit <= MAX_ROWS:
            return limit
        if self.pause:
            self.pause -= 1
            return 0
        return MAX_ROWS

    def pause_kept_plan(self) -> None:
        """There were more matches than the kept plan may bring."""
        self.pause = BACK_OFF_SEARCHES


def _count_chars(statement: SearchStatement) -> int:
    return len(statement.text)


class StatementCache:
    """Those of a process that come again, the least recently used dropped first."""

    def __init__(self) -> None:
        self._statements: LruCache[tuple[Hashable, ...], SearchStatement] = LruCache(MAX_CACHED_CHARS, _count_chars)

    def find(self, query: EntityQuery, projection: Projection, lookup: Lookup | None) -> SearchStatement:
        """The statement that selects what is wanted, with what ``lookup`` knows of the model's indexes."""
        search = query.search
        shape = None if query.without or query.instant is not None else search.shape
        if query.claimed is not None:  # which no index is better than
            lookup = None
        if shape is None:
            return _build_statement(query, projection, None if search.is_precompiled else lookup, recurs=False)
        key = shape, lookup, projection, search.order, query.claimed is None
        statement = self._statements.get(key)
        if statement is None:
            statement = _build_statement(query, projection, lookup, recurs=True)
            self._statements.put(key, statement)
        return statement


def select_versions(query: EntityQuery, columns: str, *, condition: SqlCondition | None = None) -> Statement:
    """Selects columns of the candidates of a query, in no order; ``condition`` has its arguments from
    ``FIRST_ARGUMENT``.
    """
    condition = condition or query.search.compile_sql(first=FIRST_ARGUMENT)
    text, _ = _build_version_text(query, columns, condition, None)
    return Statement(text, tuple(_build_version_args(query, condition, has_constants=False)))


def _build_statement(
    query: EntityQuery, projection: Projection, lookup: Lookup | None, *, recurs: bool
) -> SearchStatement:
    search = query.search
    use = None if lookup is None else search.find_index_use(lookup.fields)
    is_run = use is IndexUse.RUN
    # Whether a run had too many matches is remembered with its statement, so it must be one that comes again.
    constants = None if lookup is None or use is None or (is_run and not recurs) else lookup.constants
    names = NO_NAMES if constants is None else constants.names
    condition = search.compile_sql(first=FIRST_ARGUMENT if constants is None else 1, names=names)
    columns = projection.columns
    if condition.is_exact and not projection.has_documents:
        columns = columns.replace("document", "'' AS document")
    text, count = _build_version_text(query, columns, condition, constants)
    order_args: tuple[object, ...] = ()
    if condition.is_exact:
        text, order = f"{text} LIMIT ${count + 1}::bigint", ""
        if search.order:  # ids are sorted faster here
            ordering = search.compile_order_by(first=count + 3, names=names)
            order, order_args = f"ORDER BY {ordering.text}", ordering.args
        if projection.has_documents:
            text = cap_documents(text, columns, most=f"${count + 2}::int", order=order)
    return SearchStatement(
        text=text,
        condition=condition,
        order_args=order_args,
        has_documents=projection.has_documents,
        keeps_plan=constants is not None,
        is_run=is_run,
        recurs=recurs,
    )


# Both arrays are made when they are wanted, so the second costs nothing.
_CLAIMANTS: Final = """id = ANY (CASE
            WHEN (SELECT model.unique_keys FROM model WHERE model.tenant = $1 AND model.id = $2) = ${keys}::jsonb
            THEN ARRAY(SELECT entity FROM unique_claim WHERE unique_claim.tenant = $1 AND hash = ${hash}::uuid)
            ELSE ARRAY(SELECT other.id FROM entity AS other WHERE other.tenant = $1 AND other.model = $2)
        END)"""


def _build_version_text(
    query: EntityQuery, columns: str, condition: SqlCondition, constants: Constants | None
) -> tuple[str, int]:
    """The text, and how many arguments it has."""
    tenant, model = (constants.tenant, constants.model) if constants else ("$1", "$2")
    count = len(condition.arguments.pick) + (0 if constants else 2)
    wanted = [f"tenant = {tenant}", f"model = {model}", f"({condition.text})"]
    if query.without:
        count += 1
        wanted.append(f"id <> ALL (${count}::uuid[])")
    if query.claimed is not None:
        count += 2
        wanted.append(_CLAIMANTS.format(keys=count - 1, hash=count))
    if query.instant is None:
        return f"SELECT {columns} FROM entity WHERE {' AND '.join(wanted)}", count  # noqa: S608 - names are our own
    count += 1
    wanted.append(f"valid_from <= ${count}::bigint")
    conditions = " AND ".join(wanted)
    text = f"""
        SELECT {columns} FROM entity WHERE {conditions}
         UNION ALL
        SELECT {columns} FROM entity_history
         WHERE {conditions} AND valid_to > ${count}::bigint AND document IS NOT NULL
    """  # noqa: S608 - names are our own, values are arguments
    return text, count


def _build_version_args(query: EntityQuery, condition: SqlCondition, *, has_constants: bool) -> list[object]:
    own = query.search.fill(condition)
    args: list[object] = [*own] if has_constants else [query.tenant, query.model, *own]
    if query.without:
        args.append(query.without)
    if query.claimed is not None:
        args += [query.claimed.keys, query.claimed.hash]
    if query.instant is not None:
        args.append(query.instant)
    return args

"""Searches that look a value up in a declared index, and need not be planned anew each time.

*Why.* A search is planned with its arguments in view, which costs as much as finding ten rows does. A plan can be kept
where the arguments have no say in it: where a declared index answers an equality, and no value of that field has so
many entities that another plan would be better.

*How.* PostgreSQL recognises an index only by constants, and a kept plan knows no arguments. So beside each index stand
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
from time import monotonic
from typing import Final, Literal

import asyncpg
from msgspec import Struct

from statewright.conditions.operators import Order, TextOperator
from statewright.conditions.paths import Path, parse_path
from statewright.conditions.plan import AllOf, Branch, FieldTest, Matching, Numbers, Plan, Texts
from statewright.conditions.sql_terms import HEAD, is_sendable
from statewright.conditions.sql_texts import successor
from statewright.conditions.sql_values import is_moderate
from statewright.failures import StorageUnavailable
from statewright.identity import ModelId, TenantId
from statewright.storage.pool import Pool

MOST_ROWS: Final = 1000
"""Entities that the most frequent value of a field may have, for a plan to be good for all values."""

REFRESH_S: Final = 10.0
"""How long what is known of declared indexes is used."""

REFRESH_WITHIN_S: Final = 2.0
"""How long a search waits to learn of them."""

FieldKind = Literal["TEXT", "NUMBER"]


class Constants(Struct, frozen=True):
    """What stands in a statement for a tenant, a model and member names: calls of functions."""

    tenant: str
    model: str
    names: Mapping[str, str]


class Lookup(Struct, frozen=True, kw_only=True, eq=False):
    """The fields of a model in which any value can be looked up. There is one, until something else can be."""

    constants: Constants
    fields: frozenset[tuple[Path, FieldKind]]

    def answers(self, plan: Plan) -> bool:
        """Whether every match of the plan has a certain value in one of the fields."""
        parts = plan.parts if isinstance(plan, AllOf) else (plan,)
        return any(
            isinstance(part, FieldTest) and len(part.branches) == 1 and self._finds(part.path, part.branches[0])
            for part in parts
        )

    def runs(self, plan: Plan) -> bool:
        """Whether the matches of the plan are one run of the entries of an index: it reads nothing but matches."""
        parts = plan.parts if isinstance(plan, AllOf) else (plan,)
        tests = [part for part in parts if isinstance(part, FieldTest) and len(part.branches) == 1]
        if not tests or len(tests) < len(parts) or len({test.path for test in tests}) > 1:
            return False
        path = tests[0].path
        if all(_is_run_of_texts(test.branches[0]) for test in tests):
            return (path, "TEXT") in self.fields
        return all(_is_run_of_numbers(test.branches[0]) for test in tests) and (path, "NUMBER") in self.fields

    def _finds(self, path: Path, branch: Branch) -> bool:
        match branch:
            case Texts(comparisons=((Order.EQUALS, text),)):
                return len(text) < HEAD and is_sendable(text) and (path, "TEXT") in self.fields
            case Numbers(comparisons=((Order.EQUALS, number),)):
                return is_moderate(number) and (path, "NUMBER") in self.fields
            case _:
                return False


def _is_run_of_texts(branch: Branch) -> bool:
    match branch:
        case Texts(comparisons=comparisons):
            return all(
                order is not Order.NOT_EQUAL and len(text) < HEAD and is_sendable(text) for order, text in comparisons
            )
        case Matching(operator=TextOperator.STARTS_WITH, operand=text):
            return 0 < len(text) < HEAD and is_sendable(text) and bool(successor(text))
        case _:
            return False


def _is_run_of_numbers(branch: Branch) -> bool:
    return isinstance(branch, Numbers) and all(
        order is not Order.NOT_EQUAL and is_moderate(number) for order, number in branch.comparisons
    )


class Lookups:
    """What can be looked up now. The sessions of ``pool`` keep the plans of their statements. The declared indexes are
    read from ``catalogue``, so that lookups which hang hold nobody else up.
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

    def __init__(self, pool: Pool, catalogue: Pool, *, refresh_s: float = REFRESH_S) -> None:
        self.pool = pool
        self._catalogue = catalogue
        self._refresh_s = refresh_s
        self._known: Mapping[tuple[TenantId, ModelId], Lookup] = {}
        self._until = 0.0

    @property
    def is_due(self) -> bool:
        """Whether what is known should be refreshed before it is used."""
        return monotonic() >= self._until

    def known(self, tenant: TenantId, model: ModelId) -> Lookup | None:
        """What can be looked up in a model, as far as is known."""
        return self._known.get((tenant, model))

    async def of(self, tenant: TenantId, model: ModelId) -> Lookup | None:
        """What can be looked up in a model."""
        if self.is_due:
            await self.refresh()
        return self.known(tenant, model)

    async def refresh(self) -> None:
        """Find out what can be looked up. One asks, the others make do with what is known meanwhile."""
        self._until = monotonic() + self._refresh_s
        # Without it, what is known will do; the search itself says what is wrong.
        with suppress(StorageUnavailable, TimeoutError):
            async with asyncio.timeout(REFRESH_WITHIN_S):
                await self._refresh()

    def doubt(self) -> None:
        """What is known has proved wrong."""
        self._known, self._until = {}, 0.0

    async def _refresh(self) -> None:
        async with self._catalogue.connection() as connection:
            ready = [_field(row) for row in await connection.fetch(self.READY, float(MOST_ROWS))]
            needed = {constant_name(*constant) for field in ready for constant in constants_of(*field[:3])}
            defined = {row["proname"] for row in await connection.fetch(self.DEFINED, [*needed])}
        fields: dict[tuple[TenantId, ModelId], set[tuple[Path, FieldKind]]] = {}
        for tenant, model, path, kind in ready:
            if all(constant_name(*constant) in defined for constant in constants_of(tenant, model, path)):
                fields.setdefault((tenant, model), set()).add((path, kind))
        self._known = {key: self._lookup(key, frozenset(found)) for key, found in fields.items()}

    def _lookup(self, key: tuple[TenantId, ModelId], fields: frozenset[tuple[Path, FieldKind]]) -> Lookup:
        """The one that is known, if nothing has changed."""
        known = self._known.get(key)
        return known if known is not None and known.fields == fields else _lookup(*key, fields)


def _field(row: asyncpg.Record) -> tuple[TenantId, ModelId, Path, FieldKind]:
    path = parse_path(row["path"])
    assert path is not None, "it was one when the index was declared"  # noqa: S101
    return row["tenant"], ModelId(str(row["model"])), path, row["kind"]


def _lookup(tenant: TenantId, model: ModelId, fields: frozenset[tuple[Path, FieldKind]]) -> Lookup:
    names = {step for path, _ in fields for step in path.steps if isinstance(step, str)}
    constants = Constants(
        tenant=f"{constant_name('text', tenant)}()",
        model=f"{constant_name('uuid', model)}()",
        names={name: f"{constant_name('text', name)}()" for name in names},
    )
    return Lookup(constants=constants, fields=fields)


def constants_of(tenant: TenantId, model: ModelId, path: Path) -> Iterable[tuple[str, str]]:
    """Type and value of each constant that an index on the field needs."""
    yield "text", tenant
    yield "uuid", model
    for step in path.steps:
        if isinstance(step, str):
            yield "text", step


def constant_name(kind: str, value: str) -> str:
    """The function that returns the value."""
    return "search_constant_" + hashlib.sha256(f"{kind}\0{value}".encode()).hexdigest()[:24]

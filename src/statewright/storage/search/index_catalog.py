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
from typing import Final

import asyncpg
from msgspec import Struct

from statewright.conditions import FieldKind, IndexedField
from statewright.conditions.paths import Path, parse_path
from statewright.failures import StorageUnavailable
from statewright.ids import ModelId, TenantId
from statewright.storage.pool import Pool

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
        with suppress(StorageUnavailable, TimeoutError):
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

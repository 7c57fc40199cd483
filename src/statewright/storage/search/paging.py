"""Pages of a search, in the order of its sort keys (docs/reference/operations.md#searching-page-by-page).

A page begins behind a version of an entity, and versions never change. So a cursor names one, whatever has become of
the entity since; what it is sorted by is read again, and need not travel.
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Final
from uuid import UUID

import asyncpg
from msgspec import Meta, Struct

from statewright.conditions.sorting import KeysetPart
from statewright.failures import HistoryPruned
from statewright.storage.search.matching import Candidates, iterate_matches
from statewright.storage.search.query import SearchDatabase
from statewright.storage.search.statements import (
    FIRST_ARGUMENT,
    INLINE_BYTES,
    EntityQuery,
    Statement,
    select_versions,
)
from statewright.storage.versions import VIEW_COLUMNS, EntityList, Entry, cap_documents, to_ref, to_view


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
    async with search.open_connection(query) as connection:
        ordered = await _order(connection, query, chosen, after)
        if condition.is_exact:
            text = f"{ordered.text} LIMIT {size + 1}"
            capped = cap_documents(text, VIEW_COLUMNS, most=INLINE_BYTES // (size + 1))
            entries = [_to_entry(row) for row in await connection.fetch(capped, *ordered.args)]
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


def _to_entry(row: asyncpg.Record) -> Entry:
    return to_ref(row) if row["document"] is None else to_view(row)


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

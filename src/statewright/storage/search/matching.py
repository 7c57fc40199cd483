"""Matches of a search in memory: rows judged one by one, and entities put in order."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Final, Generic, TypeVar

import asyncpg
from msgspec import Struct

from statewright.conditions import CompiledSearch, Predicate, SortValues, TooManyVisits, Visits
from statewright.conditions.search import judge_sent
from statewright.entity import EntityMeta, EntityView
from statewright.failures import BadRequest, ScanBudgetExhausted
from statewright.ids import TenantId
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.values import JsonValue
from statewright.loop.background import MAX_INLINE_BYTES, TimeSlices, free_in_parts, run_by_size, run_in_thread
from statewright.loop.turns import TurnExceeded
from statewright.storage.search.statements import EntityQuery, Statement
from statewright.storage.versions import cap_documents, fetch_document

PORTION: Final = 200
"""Rows judged between two looks at the database."""

MAX_DOCUMENT_BYTES: Final = MAX_INLINE_BYTES
"""A longer document is read alone: a portion of them would not fit into memory."""


Found = TypeVar("Found")
Found_co = TypeVar("Found_co", covariant=True)
Held = TypeVar("Held", bound=EntityView)


class Match(Struct, Generic[Found_co], frozen=True):
    """A matching entity, and what sorting needs of it."""

    entity: Found_co
    values: SortValues


class Candidates(Struct, frozen=True, kw_only=True):
    """Rows of a tenant of which each is to be judged: a statement that selects them, and its columns, among them those
    that lifecycle conditions look at. ``most`` is how many may be judged; 0: any number.
    """

    tenant: TenantId
    statement: Statement
    columns: str
    most: int = 0


async def iterate_matches(
    connection: asyncpg.Connection, candidates: Candidates, query: EntityQuery
) -> AsyncGenerator[tuple[asyncpg.Record, JsonValue]]:
    """The rows that match, with their documents, in the order of the statement; others get their turn meanwhile. The
    ``document`` of a row is null when it is long.

    The connection must be in a transaction. Raises ``ScanBudgetExhausted``, and ``BadRequest`` for a condition that
    looks at too much of a document.
    """
    statement, seen = candidates.statement, 0
    text = cap_documents(statement.text, candidates.columns, most=MAX_DOCUMENT_BYTES)
    cursor = await connection.cursor(text, *statement.args)
    slices, holds = TimeSlices(), query.search.compile_predicate()
    while rows := await cursor.fetch(PORTION):
        seen += len(rows)
        if candidates.most and seen > candidates.most:
            raise ScanBudgetExhausted(candidates.most)
        for row in rows:
            stored = row["document"]
            if stored is None:
                stored = await fetch_document(connection, candidates.tenant, row)
            document, matches = await _judge(stored, row_to_meta(row), holds, query)
            if matches:
                yield row, document
            await slices.yield_if_due()


async def judge_entities(entities: Iterable[Held], query: EntityQuery) -> list[Match[Held]]:
    """The same of entities that are in memory already."""
    search = query.search
    slices, holds, read_values = TimeSlices(), search.compile_predicate(), search.compile_values()
    found: list[Match[Held]] = []
    for entity in entities:
        document, matches = await _judge(entity.document, to_meta(entity), holds, query)
        if matches:
            found.append(Match(entity, read_values(document, to_meta(entity))))
        await slices.yield_if_due()
    return found


async def _judge(text: str, meta: EntityMeta, holds: Predicate, query: EntityQuery) -> tuple[JsonValue, bool]:
    """A document, and whether the condition holds for it: found within a turn, or by another process."""
    size = len(text)
    document = (
        decode_stored(text) if size <= MAX_INLINE_BYTES else await run_by_size(size, partial(decode_stored, text))
    )
    free_in_parts(document, len(text))
    try:
        with suppress(TurnExceeded):
            return document, holds(document, meta, Visits(within_turn=True))
        if query.computations is None:
            return document, await run_in_thread(lambda: holds(document, meta, Visits()))
        judge = partial(judge_sent, query.search.send(), text, meta)
        return document, await query.computations.compute(query.tenant, "condition", judge)
    except TooManyVisits as error:
        raise BadRequest(f"{error}, in the entity {meta.id}") from error


def sort_matches(matches: Sequence[Match[Found]], search: CompiledSearch) -> list[Found]:
    """The entities in the order of the search."""
    return search.sort([(match.entity, match.values) for match in matches])


get_id: Final = attrgetter("id")


def to_meta(entity: EntityView) -> EntityMeta:
    """What lifecycle conditions see of an entity."""
    return EntityMeta(
        id=entity.id,
        state=entity.state,
        creation_date=entity.created_at // 1000,
        last_update_time=entity.updated_at // 1000,
        transition=entity.transition,
        transaction_id=entity.transaction_id,
    )


def row_to_meta(row: asyncpg.Record) -> EntityMeta:
    """The same of a row that has these columns."""
    return EntityMeta(
        id=str(row["id"]),
        state=row["state"],
        creation_date=row["created_at"] // 1000,
        last_update_time=row["valid_from"] // 1000,
        transition=row["transition"],
        transaction_id=str(row["transaction_id"]),
    )

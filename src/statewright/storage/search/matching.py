"""Matches of a search in memory: rows judged one by one, and entities put in order."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Final, Generic, TypeVar

import asyncpg
from msgspec import Struct

from statewright.background import MAX_INLINE_BYTES, TimeSlices, run_in_thread
from statewright.conditions import CompiledSearch, Predicate, TooManyVisits, Visits
from statewright.entity import EntityMeta, EntityView
from statewright.failures import BadRequest
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.values import JsonValue
from statewright.turns import TurnExceeded

PORTION: Final = 500
"""Rows judged between two looks at the database."""

Found = TypeVar("Found", bound=EntityView)


class Match(Struct, Generic[Found], frozen=True):
    """A matching entity; ``document`` is decoded where judging or sorting had to look into it."""

    entity: Found
    document: JsonValue = None


async def judge_rows(
    rows: Sequence[asyncpg.Record], holds: Predicate
) -> AsyncIterator[tuple[asyncpg.Record, JsonValue]]:
    """The rows that match, with their documents; others get their turn meanwhile. Raises ``BadRequest`` for a
    condition that looks at too much of a document.
    """
    slices = TimeSlices()
    for row in rows:
        document, matches = await _judge(row["document"], row_to_meta(row), holds)
        if matches:
            yield row, document
        await slices.yield_if_due()


async def judge_entities(entities: Iterable[Found], search: CompiledSearch) -> list[Match[Found]]:
    """The same of entities that are in memory already."""
    slices, holds = TimeSlices(), search.compile_predicate()
    found: list[Match[Found]] = []
    for entity in entities:
        document, matches = await _judge(entity.document, to_meta(entity), holds)
        if matches:
            found.append(Match(entity, document))
        await slices.yield_if_due()
    return found


async def _judge(text: str, meta: EntityMeta, holds: Predicate) -> tuple[JsonValue, bool]:
    """A document, and whether the condition holds for it: found within a turn, or by a thread."""

    def decode_and_judge(visits: Visits) -> tuple[JsonValue, bool]:
        document = decode_stored(text)
        return document, holds(document, meta, visits)

    try:
        if len(text) <= MAX_INLINE_BYTES:
            with suppress(TurnExceeded):
                return decode_and_judge(Visits(within_turn=True))
        return await run_in_thread(lambda: decode_and_judge(Visits()))
    except TooManyVisits as error:
        raise BadRequest(f"{error}, in the entity {meta.id}") from error


def sort_matches(matches: Sequence[Match[Found]], search: CompiledSearch) -> list[Found]:
    """The entities in the order of the search."""
    if not search.order:
        return sorted((match.entity for match in matches), key=get_id)
    return [match.entity for match in search.sort(matches, _get_sort_input)]


get_id: Final = attrgetter("id")


def _get_sort_input(match: Match[Found]) -> tuple[JsonValue, EntityMeta]:
    document = decode_stored(match.entity.document) if match.document is None else match.document
    return document, to_meta(match.entity)


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

"""Searching the past is searching what a replay of the history gives: compared on random histories and conditions.

The whole way is compared, from the query to the entities in their order and to the pages of a job.
``STATEWRIGHT_HISTORY_CASES`` says how many searches.
"""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from msgspec.structs import replace

from statewright.conditions import compile_search, parse
from statewright.entity import EntityMeta, ModelKey
from statewright.ids import ModelId, TenantId
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject
from statewright.operations.listings import JobId
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from statewright.storage.search.jobs import NewSearchJob, SearchJobs
from statewright.storage.search.query import SearchDatabase, configure_search_sessions
from statewright.storage.search.statements import EntityQuery
from tests.database import connected
from tests.integration.search.random_cases import MOMENTS, Dice
from tests.integration.search.test_one_order import an_order

CASES = int(os.environ.get("STATEWRIGHT_HISTORY_CASES", "600"))
CASES_PER_HISTORY = 60
ENTITIES = 40
FOREVER = 2**63 - 1

ACME = TenantId("acme")
MODEL = ModelId(str(uuid4()))


@dataclass(frozen=True)
class Version:
    """What an entity was from an instant on; without a document it was no more."""

    meta: EntityMeta
    at: int
    created: int
    document: "JsonObject | None"


def a_life(dice: Dice) -> list[Version]:
    """The versions of an entity from its creation on, perhaps to its deletion, the oldest first."""
    _, _, identity, _, created, _ = dice.meta()
    at, versions = created, list[Version]()
    for number in range(1 + dice.count(4)):
        state, transition, _, transaction, _, _ = dice.meta()
        meta = EntityMeta(
            id=str(UUID(identity)),
            state=state,
            creation_date=created // 1000,
            last_update_time=at // 1000,
            transition=transition,
            transaction_id=transaction,
        )
        versions.append(Version(meta, at, created, None if number and dice.rarely(0.15) else dice.document()))
        if versions[-1].document is None:
            break
        at += 1 + dice.count(2000)
    return versions


def as_of(lives: Iterable[Sequence[Version]], instant: int) -> list[Version]:
    """The replay: of each entity what was written last up to the instant, unless that was its end."""
    known = [[version for version in life if version.at <= instant] for life in lives]
    return [versions[-1] for versions in known if versions and versions[-1].document is not None]


COLUMNS = """tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from, transition,
             workflow, workflow_revision, attributed_id, attributed_kind, executor_id, executor_kind, document"""
VALUES = "$1, $2, $3, $4, $5, $5, $6, $7, $8, '', 0, '', 'user', '', 'user', $9"


async def write(connection: asyncpg.Connection, lives: Iterable[Sequence[Version]]) -> None:
    """The history as commits would have left it, in place of any other."""
    await connection.execute("TRUNCATE entity, entity_history")
    current, past = list[tuple[object, ...]](), list[tuple[object, ...]]()
    for life in lives:
        ends = [version.at for version in life[1:]] + [FOREVER]
        for version, end in zip(life, ends, strict=True):
            row = a_row(version)
            if end == FOREVER and version.document is not None:
                current.append(row)
            else:
                past.append((*row, end))
    await connection.executemany(f"INSERT INTO entity ({COLUMNS}) VALUES ({VALUES})", current)
    await connection.executemany(f"INSERT INTO entity_history ({COLUMNS}, valid_to) VALUES ({VALUES}, $10)", past)


def a_row(version: Version) -> tuple[object, ...]:
    document = None if version.document is None else encode(version.document).decode()
    meta, times = version.meta, (version.created, version.at)
    return ACME, meta.id, MODEL, meta.state, meta.transaction_id, *times, meta.transition, document


@dataclass(frozen=True)
class Case:
    """A search and what it must find, in order."""

    condition: JsonObject
    query: EntityQuery
    expected: tuple[tuple[str, int], ...]


def a_case(dice: Dice, lives: Sequence[Sequence[Version]]) -> Case:
    declared = dice.schema([version.document for life in lives for version in life if version.document is not None])
    condition = dice.condition(declared)
    search = replace(compile_search(parse(condition), declared), order=an_order(dice))
    instant = an_instant(dice, lives)
    holds = search.compile_predicate()
    matches = [version for version in as_of(lives, instant) if holds(version.document, version.meta)]
    read_values = search.compile_values()
    ordered = search.sort([(version, read_values(version.document, version.meta)) for version in matches])
    return Case(
        condition=condition,
        query=EntityQuery(tenant=ACME, model=MODEL, search=search, instant=instant),
        expected=tuple((version.meta.id, version.at) for version in ordered),
    )


def an_instant(dice: Dice, lives: Sequence[Sequence[Version]]) -> int:
    """Mostly when something happened, or a microsecond beside it."""
    if dice.rarely(0.2):
        return dice.pick(MOMENTS) + dice.count(9000)
    return dice.pick(dice.pick(lives)).at + dice.pick((-1, 0, 0, 1))


def some_cases(seed: int) -> tuple[list[list[Version]], list[Case]]:
    dice = Dice(seed)
    lives = [a_life(dice) for _ in range(ENTITIES)]
    return lives, [a_case(dice, lives) for _ in range(CASES_PER_HISTORY)]


@pytest.fixture
async def tables(database: str) -> AsyncIterator[asyncpg.Connection]:
    async with connected(database) as connection:
        yield connection


@pytest.fixture
async def searches(database: str) -> AsyncIterator[Pool]:
    async with Pool(configure_search_sessions(parse_database_url(database)), size=2) as pool:
        yield pool


async def test_a_search_of_the_past_finds_what_a_replay_gives(tables: asyncpg.Connection, searches: Pool) -> None:
    search = SearchDatabase(searches, timeout=timedelta(minutes=5))
    found_some = 0
    for seed in range(CASES // CASES_PER_HISTORY):
        lives, cases = some_cases(seed)
        await write(tables, lives)
        for case in cases:
            entities = await search.find_views(case.query, limit=ENTITIES)
            assert tuple((entity.id, entity.updated_at) for entity in entities) == case.expected, case
            found_some += bool(case.expected)
    assert found_some > CASES / 5, "the cases say too little"


async def test_the_pages_of_a_job_are_slices_of_what_a_replay_gives(tables: asyncpg.Connection, searches: Pool) -> None:
    jobs = SearchJobs(searches, searches, retention=timedelta(hours=1))
    for seed in range(1000, 1000 + CASES // CASES_PER_HISTORY // 2):
        lives, cases = some_cases(seed)
        await write(tables, lives)
        for size, case in enumerate(cases[::3], start=1):
            job, hits = await carried_out(jobs, case)
            assert hits == len(case.expected)
            pages = [
                [(entity.id, entity.updated_at) for entity in await jobs.list_page(ACME, job, offset=offset, size=size)]
                for offset in range(0, len(case.expected) + 1, size)
            ]
            assert [hit for page in pages for hit in page] == list(case.expected), case
            assert all(len(page) == size for page in pages[:-1])


async def carried_out(jobs: SearchJobs, case: Case) -> tuple[JobId, int | None]:
    id_ = JobId(str(uuid4()))
    await jobs.submit(NewSearchJob(tenant=ACME, id=id_, model=MODEL, key=ModelKey("any", 1), condition="{}", sort="[]"))
    [job] = await jobs.claim("worker", lease=timedelta(minutes=5), most=1)
    return id_, await jobs.execute(job, "worker", case.query)

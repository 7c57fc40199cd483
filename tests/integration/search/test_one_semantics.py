"""A condition means the same in memory and in SQL (decision S3): the two are compared on random cases.

``STATEWRIGHT_CONDITION_CASES`` says how many conditions, ``STATEWRIGHT_CONDITION_SEED`` where they begin; each is
judged against every document of its batch.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import pytest

from statewright.conditions import (
    CompiledSearch,
    SearchCompiler,
    TemplateCache,
    compile_search,
    parse,
    read_search_condition,
)
from statewright.conditions.plan import Plan
from statewright.conditions.planning import build_plan
from statewright.conditions.sql import SqlFilter, compile_sql
from statewright.conditions.syntax import COMPARISONS, RANGES, TEXT_OPERATORS
from statewright.entity import EntityMeta
from statewright.failures import Failure
from statewright.jsonval.codec import decode_stored, encode
from statewright.jsonval.temporals import TEMPORAL_TYPES
from statewright.jsonval.values import DataType, JsonObject, JsonValue
from statewright.schema.node import DeclaredField
from statewright.storage import migrate
from tests.database import connected, database_url, drop_database, new_name
from tests.integration.search.random_cases import (
    GLOBS,
    LONG_GLOBS,
    NUMBERS,
    OPERAND_NUMBERS,
    OPERAND_WORDS,
    PATTERNS,
    TEMPORALS,
    WORDS,
    Dice,
)
from tests.unit.conditions.builders import spell_out

CASES = int(os.environ.get("STATEWRIGHT_CONDITION_CASES", "10000"))
SEED = int(os.environ.get("STATEWRIGHT_CONDITION_SEED", "1"))
DOCUMENTS_PER_BATCH = 100
CONDITIONS_PER_BATCH = 200
CONDITIONS_PER_STATEMENT = 50

INSERT = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    VALUES ('t', $1, $1, $2, $3, $3, $4, $5, $6, '', 0, '', 'user', '', 'user', $7)
"""


@dataclass(frozen=True)
class Row:
    """An entity as both evaluators see it."""

    document: JsonValue
    meta: EntityMeta


@dataclass(frozen=True)
class Case:
    """A condition, ready for both."""

    condition: JsonObject
    plan: Plan
    narrowing: SqlFilter
    search: CompiledSearch

    def compiled(self, first: int) -> SqlFilter:
        """As searches have it: by template where there is one."""
        fresh = compile_sql(self.plan, first=first)
        condition = self.search.compile_sql(first=first)
        arguments = tuple(self.search.fill(condition))
        assert spell_out(condition.text, arguments, first) == spell_out(fresh.text, fresh.args, first)
        assert condition.residual == fresh.residual
        return SqlFilter(condition.text, arguments, condition.residual)


async def test_sql_selects_what_the_predicate_accepts(database: str) -> None:
    loose = by_template = 0
    async with connected(database) as connection:
        for batch in range(max(1, CASES // CONDITIONS_PER_BATCH)):
            dice = Dice(SEED * 1_000_000 + batch)
            rows = await a_batch_of_rows(connection, dice)
            declared = dice.schema([row.document for row in rows if isinstance(row.document, dict)])
            for _ in range(CONDITIONS_PER_BATCH // CONDITIONS_PER_STATEMENT):
                conditions = [dice.condition(declared) for _ in range(CONDITIONS_PER_STATEMENT)]
                cases = [a_case(condition, declared) for condition in conditions]
                loose += await compare(connection, cases, rows)
                by_template += sum(case.search.shape is not None for case in cases)
    assert by_template > CASES * 0.03
    assert loose < CASES * 0.35, "too little of the language has an exact form"


@pytest.mark.parametrize("subtype", sorted(TEMPORAL_TYPES))
async def test_every_operator_agrees_on_every_pair_of_temporals(database: str, subtype: DataType) -> None:
    declared = {"$.v": DeclaredField(types=frozenset((subtype,)))}
    operators = [*COMPARISONS, *RANGES]
    await compare_all(database, declared, TEMPORALS, operators, TEMPORALS)


async def test_every_operator_agrees_on_every_pair_of_numbers(database: str) -> None:
    declared = {"$.v": DeclaredField(types=frozenset((DataType.UNBOUND_DECIMAL,)))}
    await compare_all(database, declared, NUMBERS, [*COMPARISONS, *RANGES], OPERAND_NUMBERS)


@pytest.mark.parametrize(
    "declared_as", [DataType.STRING, DataType.CHARACTER, DataType.UUID_TYPE, DataType.TIME_UUID_TYPE]
)
async def test_every_operator_agrees_on_every_pair_of_words(database: str, declared_as: DataType) -> None:
    declared = {"$.v": DeclaredField(types=frozenset((declared_as,)))}
    await compare_all(database, declared, WORDS, [*COMPARISONS, *RANGES], OPERAND_WORDS)


async def test_every_text_operator_agrees_on_every_pair_of_words(database: str) -> None:
    operators = sorted(TEXT_OPERATORS.keys() - {"MATCHES_PATTERN", "LIKE"})
    await compare_all(database, {}, WORDS, operators, OPERAND_WORDS)
    await compare_all(database, {}, WORDS, ["LIKE"], [*GLOBS, *LONG_GLOBS, *OPERAND_WORDS])
    await compare_all(database, {}, WORDS, ["MATCHES_PATTERN"], PATTERNS)


async def test_the_collation_of_the_database_makes_no_difference(database_server: str) -> None:
    async with a_database_with_linguistic_order(database_server) as url:
        declared = {"$.v": DeclaredField(types=frozenset((DataType.STRING,)))}
        await compare_all(url, declared, WORDS, [*COMPARISONS, *RANGES], WORDS)
        await compare_all(url, {}, WORDS, ["STARTS_WITH", "LIKE", "IEQUALS", "ICONTAINS"], [*GLOBS, *WORDS])


async def compare_all(
    url: str,
    declared: Mapping[str, DeclaredField],
    stored: Sequence[JsonValue],
    operators: Sequence[str],
    operands: Sequence[JsonValue],
) -> None:
    """Every stored value against every operand; in ranges, an operand and the one after it."""
    conditions = [
        {
            "type": "simple",
            "jsonPath": "$.v",
            "operatorType": operator,
            "value": [low, high] if operator in RANGES else low,
        }
        for operator in operators
        for low, high in zip(operands, [*operands[1:], operands[0]], strict=True)
    ]
    cases = [a_case(condition, declared) for condition in conditions]
    async with connected(url) as connection:
        rows = await stored_rows(connection, Dice(SEED), [{"v": value} for value in stored])
        for start in range(0, len(cases), CONDITIONS_PER_STATEMENT):
            await compare(connection, cases[start : start + CONDITIONS_PER_STATEMENT], rows)


@asynccontextmanager
async def a_database_with_linguistic_order(server: str) -> AsyncIterator[str]:
    """A migrated database whose default collation is not that of code points."""
    name = new_name()
    try:
        async with connected(server) as admin:
            await admin.execute(
                f'CREATE DATABASE "{name}" TEMPLATE template0 ENCODING UTF8 LOCALE_PROVIDER icu ICU_LOCALE "und"'
            )
    except asyncpg.FeatureNotSupportedError:
        pytest.skip("this server was built without ICU; test_collations asks for the same of any server")
    try:
        async with connected(database_url(server, name)) as connection:
            await migrate.apply_pending(connection)
        yield database_url(server, name)
    finally:
        await drop_database(server, name)


def a_case(condition: JsonObject, declared: Mapping[str, DeclaredField]) -> Case:
    plan = build_plan(parse(condition), declared)
    return Case(condition, plan, compile_sql(plan), a_search(condition, declared))


def a_search(condition: JsonObject, declared: Mapping[str, DeclaredField]) -> CompiledSearch:
    """By template where there is one; what a search would refuse is compared, too."""
    try:
        return SearchCompiler(declared, TemplateCache()).compile(read_search_condition(condition))
    except Failure:
        return compile_search(parse(condition), declared)


async def a_batch_of_rows(connection: asyncpg.Connection, dice: Dice) -> list[Row]:
    return await stored_rows(connection, dice, [dice.document() for _ in range(DOCUMENTS_PER_BATCH)])


async def stored_rows(connection: asyncpg.Connection, dice: Dice, documents: Sequence[JsonObject]) -> list[Row]:
    """New rows in place of the old ones, in order of id, their documents as the database gives them back."""
    await connection.execute("TRUNCATE entity")
    records = []
    for document in documents:
        state, transition, identity, transaction, created, updated = dice.meta()
        text = encode(document).decode()
        records.append((UUID(identity), state, transaction, created, updated, transition, text))
    await connection.executemany(INSERT, records)
    stored = await connection.fetch(
        "SELECT id, state, transition, transaction_id, created_at, valid_from, document FROM entity ORDER BY id"
    )
    return [a_row(record) for record in stored]


def a_row(record: asyncpg.Record) -> Row:
    meta = EntityMeta(
        id=str(record["id"]),
        state=record["state"],
        creation_date=record["created_at"] // 1000,
        last_update_time=record["valid_from"] // 1000,
        transition=record["transition"],
        transaction_id=str(record["transaction_id"]),
    )
    return Row(decode_stored(record["document"]), meta)


async def compare(connection: asyncpg.Connection, cases: Sequence[Case], rows: Sequence[Row]) -> int:
    """Fails on the first difference; how many of the conditions SQL could only narrow."""
    selected = await select(connection, cases)
    for case, flags in zip(cases, selected, strict=True):
        matches = case.search.compile_predicate()
        for row, is_selected in zip(rows, flags, strict=True):
            expected = matches(row.document, row.meta)
            right = is_selected is expected if case.narrowing.is_exact else is_selected or not expected
            assert right, describe(case, row, selected=is_selected)
    return sum(not case.narrowing.is_exact for case in cases)


async def select(connection: asyncpg.Connection, cases: Sequence[Case]) -> list[tuple[bool, ...]]:
    """Per condition, whether SQL selects the rows, in order of id."""
    args: list[object] = []
    columns: list[str] = []
    for case in cases:
        narrowing = case.compiled(len(args) + 1)
        columns.append(f"coalesce({narrowing.text}, false)")
        args += narrowing.args
    rows = await connection.fetch(f"SELECT {', '.join(columns)} FROM entity ORDER BY id", *args)
    return list(zip(*(tuple(row) for row in rows), strict=True))


def describe(case: Case, row: Row, *, selected: bool) -> str:
    kind = "exact" if case.narrowing.is_exact else "superset"
    facts = {
        "condition": encode(case.condition).decode(),
        "document": encode(row.document).decode(),
        "meta": row.meta,
        "plan": case.plan,
        "SQL": case.narrowing.text,
        "arguments": case.narrowing.args,
    }
    return "\n".join([f"{kind} SQL says {selected}", *(f"{name}: {fact}" for name, fact in facts.items())])

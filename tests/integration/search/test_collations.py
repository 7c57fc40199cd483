"""Texts compare by code points whatever the database was created with: PostgreSQL itself is asked what it understood.

What a comparison goes by is settled when a statement is analysed, and a view keeps the analysed statement. So this
holds for every collation a database can have, also those that the server of the tests was built without.
"""

import re
from collections.abc import Sequence
from itertools import product

import asyncpg
import pytest

from statewright.conditions import parse
from statewright.conditions.paths import Path
from statewright.conditions.planning import build_plan
from statewright.conditions.sorting import DataOrder, MetaOrder, OrderingClass, SortOrder, compile_order_by
from statewright.conditions.sql import compile_sql
from statewright.conditions.sql_terms import HEAD_CHARS, Argument
from statewright.conditions.syntax import META_FIELDS, OPERATORS, RANGES
from statewright.jsonval.values import DataType, JsonObject, JsonValue
from statewright.schema.node import DeclaredField
from tests.database import connected

OPERANDS: Sequence[JsonValue] = ("2031-05-06", "x%y", "é", "x" * HEAD_CHARS, "2031-05-06T06:00:00Z", "a")
DECLARED = {path: DeclaredField(types=frozenset(DataType)) for path in ("$.v", "$.l[*]", "$.m[*].v")}
FIELDS = ("id", "state", "transitionForLatestSave", "transactionId")

SENSITIVE_OPERATORS = """
    SELECT oid FROM pg_operator
     WHERE oprleft = 'text'::regtype AND oprname IN ('<', '<=', '>', '>=', '~', '~~')
"""
"""Not equality, which is that of bytes: databases have deterministic collations only."""

SENSITIVE_FUNCTIONS = "SELECT oid FROM pg_proc WHERE proname IN ('lower', 'upper') AND proargtypes[0] = 'text'::regtype"
BY_CODE_POINT = "SELECT oid FROM pg_collation WHERE collname = 'C'"
ANALYSED = "SELECT ev_action::text FROM pg_rewrite WHERE ev_class = 'conditions'::regclass"

_NODE = re.compile(r"\{(?:OPEXPR|SCALARARRAYOPEXPR) :opno (\d+)[^{}]*?:inputcollid (\d+)")
_CALL = re.compile(r"\{FUNCEXPR :funcid (\d+)[^{}]*?:inputcollid (\d+)")


def conditions() -> list[JsonObject]:
    """One of every kind."""
    places: list[JsonObject] = [{"type": "simple", "jsonPath": path} for path in ("$.v", "$.l[*]", "$.m[*].v")]
    places += [{"type": "lifecycle", "field": field} for field in FIELDS]
    leaves: list[JsonObject] = [
        {**place, "operatorType": operator, "value": [operand, operand] if operator in RANGES else operand}
        for place, operator, operand in product(places, sorted(OPERATORS), OPERANDS)
    ]
    several: list[JsonValue] = [{**places[0], "operatorType": "EQUALS", "value": operand} for operand in OPERANDS]
    return [
        *leaves,
        {"type": "group", "operator": "OR", "conditions": several},
        {"type": "array", "jsonPath": "$.l", "values": list(OPERANDS)},
    ]


async def test_every_comparison_of_texts_in_a_condition_goes_by_code_points(database: str) -> None:
    async with connected(database) as connection:
        terms = [await spelled_out(connection, condition) for condition in conditions()]
        columns = ", ".join(f"({term}) AS c{number}" for number, term in enumerate(terms))
        await connection.execute(f"CREATE VIEW conditions AS SELECT {columns} FROM entity")
        analysed = await connection.fetchval(ANALYSED)
        code_points = str(await connection.fetchval(BY_CODE_POINT))
        for nodes, sensitive in ((_NODE, SENSITIVE_OPERATORS), (_CALL, SENSITIVE_FUNCTIONS)):
            concerned = {str(row["oid"]) for row in await connection.fetch(sensitive)}
            collations = [collation for oid, collation in nodes.findall(analysed) if oid in concerned]
            assert len(collations) > len(OPERANDS), "these are the nodes that count"
            assert set(collations) == {code_points}


@pytest.mark.parametrize(
    "key",
    [
        DataOrder(path=Path(("v",)), values=OrderingClass.TEXT, descending=False),
        *[MetaOrder(field=META_FIELDS[name], descending=True) for name in ("state", "transitionForLatestSave")],
    ],
)
async def test_texts_are_sorted_by_code_points(database: str, key: DataOrder | MetaOrder) -> None:
    order: SortOrder = (key,)
    ordering = compile_order_by(order)
    async with connected(database) as connection:
        text = await with_literals(connection, ordering.text, ordering.args)
        for expression in re.findall(r"(\(.+?\)) (?:ASC|DESC) NULLS LAST", text):
            asked = f"SELECT pg_collation_for({expression}) FROM entity RIGHT JOIN (SELECT 1) AS one ON true"
            assert await connection.fetchval(asked) == '"C"'


async def spelled_out(connection: asyncpg.Connection, condition: JsonObject) -> str:
    narrowing = compile_sql(build_plan(parse(condition), DECLARED))
    return await with_literals(connection, narrowing.text, narrowing.args)


async def with_literals(connection: asyncpg.Connection, text: str, args: Sequence[Argument]) -> str:
    """The text with its parameters spelled out, since a view has none."""
    literals = [await a_literal(connection, arg) for arg in args]
    return re.sub(r"\$(\d+)", lambda found: literals[int(found[1]) - 1], text)


async def a_literal(connection: asyncpg.Connection, value: Argument) -> str:
    if isinstance(value, tuple):
        return str(await connection.fetchval("SELECT quote_literal($1::text[]::text)", [str(item) for item in value]))
    return str(await connection.fetchval("SELECT quote_literal($1)", str(value)))

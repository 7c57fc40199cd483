"""Sorting means the same in memory and in SQL: compared on random keys and documents."""

from collections.abc import Sequence

import asyncpg

from statewright.conditions.paths import parse_path
from statewright.conditions.sorting import DataOrder, MetaOrder, OrderingClass, SortOrder, compile_order_by, sort_items
from statewright.conditions.syntax import META_FIELDS
from tests.database import connected
from tests.integration.search.random_cases import Dice
from tests.integration.search.test_one_semantics import a_batch_of_rows

PATHS = ["v", "w", "o.v", "o.0", "o.o.v", "0", "-1", "m", "x"]


async def test_sql_sorts_as_memory_does(database: str) -> None:
    async with connected(database) as connection:
        for seed in range(10):
            dice = Dice(seed)
            rows = await a_batch_of_rows(connection, dice)
            for order in [an_order(dice) for _ in range(30)]:
                in_memory = [row.meta.id for row in sort_items(order, rows, lambda row: (row.document, row.meta))]
                assert await in_sql(connection, order) == in_memory, order


def an_order(dice: Dice) -> SortOrder:
    return tuple(a_key(dice) for _ in range(1 + dice.count(2)))


def a_key(dice: Dice) -> DataOrder | MetaOrder:
    descending = dice.rarely(0.5)
    if dice.rarely(0.3):
        return MetaOrder(field=dice.pick(list(META_FIELDS.values())), descending=descending)
    path = parse_path(dice.pick(PATHS))
    assert path is not None
    return DataOrder(path=path, values=dice.pick(list(OrderingClass)), descending=descending)


async def in_sql(connection: asyncpg.Connection, order: SortOrder) -> Sequence[str]:
    clause = compile_order_by(order)
    rows = await connection.fetch(f"SELECT id FROM entity ORDER BY {clause.text}", *clause.args)
    return [str(row["id"]) for row in rows]

"""What ``benchmarks.search`` asks, of which data: each case as a condition, and as SQL by hand."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from benchmarks.processes import SERVICE_TENANT
from statewright.ids import model_id
from statewright.instants import to_rfc3339

MODEL = model_id("order", 1)

SAMPLE = {
    "sku": "S1",
    "plain": "S1",
    "number": 1,
    "price": 1.5,
    "city": "Oslo",
    "placed": "2031-05-06T10:00:00Z",
    "buyer": {"name": "b1"},
    "lines": [{"sku": "L1", "quantity": 1}],
    "text": "x",
}

FILL = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT $1, gen_random_uuid(), $2, 'CREATED', gen_random_uuid(), gen_random_uuid(), n, n, 'loopback', '', 0, 'u',
           'user', 'u', 'user',
           jsonb_build_object('sku', 'S' || n / 10, 'plain', 'S' || n / 10, 'number', n, 'price', (n % 10000) / 10.0,
                              'city', (ARRAY['Oslo', 'Rome', 'Wien', 'Bonn'])[1 + n % 4],
                              'placed', to_char(timestamp '2020-01-01' + n * interval '5 min',
                                                'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                              'buyer', jsonb_build_object('name', 'b' || n % 5000),
                              'lines', jsonb_build_array(
                                           jsonb_build_object('sku', 'L' || n % 50000, 'quantity', n % 7)),
                              'text', repeat('lorem ipsum ', 10))
      FROM generate_series($3::int, $4::int) AS n
"""

HISTORY = """
    INSERT INTO entity_history (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                                valid_to, transition, workflow, workflow_revision, attributed_id, attributed_kind,
                                executor_id, executor_kind, document)
    SELECT tenant, id, model, state, transaction_id, entry_transaction_id, 0, 0, valid_from, transition, workflow, 0,
           'u', 'user', 'u', 'user', document
      FROM entity
     WHERE tenant = $1 AND valid_from % 5 = 0
"""

OWN_INDEXES = [
    "CREATE INDEX hand_sku ON entity ((document ->> 'sku')) WHERE tenant = '{t}' AND model = '{m}'",
    "CREATE INDEX hand_number ON entity (((document ->> 'number')::numeric)) WHERE tenant = '{t}' AND model = '{m}'",
]

ROWS = "SELECT id, state, created_at, valid_from, transaction_id, transition, document FROM entity"

OF_MODEL = f"tenant = '{SERVICE_TENANT}' AND model = '{MODEL}'"


class Case(Struct, frozen=True, kw_only=True):
    """The same question twice. ``draw`` gives a random argument, which both are asked with."""

    name: str
    draw: Callable[[random.Random], Any]
    condition: Callable[[Any], Any]
    by_hand: str
    arguments: Callable[[Any], Sequence[Any]]
    query: str = "limit=10000"


def cases(entities: int) -> list[Case]:
    """What is measured."""
    skus, wide = entities // 10, entities - 2000

    def text(dice: random.Random) -> str:
        return f"S{dice.randrange(skus)}"

    return [
        Case(
            name="equality, indexed (10 rows)",
            draw=text,
            condition=lambda sku: simple("$.sku", "EQUALS", sku),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document ->> 'sku' = $1 ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="prefix, indexed (10-110 rows)",
            draw=lambda dice: f"S{dice.randrange(skus // 10, skus) // 10}",
            condition=lambda sku: simple("$.sku", "STARTS_WITH", sku),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document ->> 'sku' LIKE $1 || '%' ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="range, sort, limit 1000, indexed (1000 rows)",
            draw=lambda dice: dice.randrange(wide),
            condition=lambda low: simple("$.number", "BETWEEN_INCLUSIVE", [low, low + 999]),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND (document ->> 'number')::numeric BETWEEN $1 AND $2"
            " ORDER BY (document ->> 'number')::numeric LIMIT 1000",
            arguments=lambda low: [low, low + 999],
            query="limit=1000&sort=number",
        ),
        Case(
            name="nested group, indexed (5 rows)",
            draw=text,
            condition=lambda sku: group(
                "AND",
                simple("$.sku", "EQUALS", sku),
                group("OR", simple("$.city", "EQUALS", "Oslo"), simple("$.price", "GREATER_THAN", 900)),
            ),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document ->> 'sku' = $1"
            " AND (document ->> 'city' = 'Oslo' OR (document ->> 'price')::numeric > 900) ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="equality, not indexed (10 rows)",
            draw=text,
            condition=lambda sku: simple("$.plain", "EQUALS", sku),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document ->> 'plain' = $1 ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="any element, not indexed (20 rows)",
            draw=lambda dice: f"L{dice.randrange(50_000)}",
            condition=lambda sku: simple("$.lines[*].sku", "EQUALS", sku),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document @> jsonb_build_object('lines',"
            " jsonb_build_array(jsonb_build_object('sku', $1::text))) ORDER BY id",
            arguments=lambda sku: [sku],
        ),
        Case(
            name="pattern, judged row by row (20 rows)",
            draw=lambda dice: f"b{dice.randrange(5000)}",
            condition=lambda name: group(
                "AND", simple("$.buyer.name", "MATCHES_PATTERN", f"{name}$"), simple("$.number", "LESS_THAN", 100_000)
            ),
            by_hand=f"{ROWS} WHERE {OF_MODEL} AND document #>> '{{buyer,name}}' ~ $1"
            " AND (document ->> 'number')::numeric < 100000 ORDER BY id",
            arguments=lambda name: [f"^{name}$"],
        ),
        point_in_time("a moment ago", entities - entities // 1000, text),
        point_in_time("half of all writes ago", entities // 2, text),
    ]


def point_in_time(ago: str, instant: int, draw: Callable[[random.Random], str]) -> Case:
    """Current versions have an index, past ones have none; each entity was written in the microsecond of its number,
    and one in five had been something else until then.
    """
    return Case(
        name=f"point in time, {ago} (2-10 rows)",
        draw=draw,
        condition=lambda sku: simple("$.sku", "EQUALS", sku),
        by_hand=f"{ROWS} WHERE {OF_MODEL} AND valid_from <= $2 AND document ->> 'sku' = $1"
        f" UNION ALL {ROWS.replace('entity', 'entity_history')} WHERE {OF_MODEL} AND valid_from <= $2"
        " AND valid_to > $2 AND document IS NOT NULL AND document ->> 'sku' = $1",
        arguments=lambda sku: [sku, instant],
        query=f"limit=10000&pointInTime={to_rfc3339(instant)}",
    )


def simple(path: str, operator: str, value: Any = None) -> dict[str, Any]:
    return {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}


def group(operator: str, *conditions: Any) -> dict[str, Any]:
    return {"type": "group", "operator": operator, "conditions": list(conditions)}

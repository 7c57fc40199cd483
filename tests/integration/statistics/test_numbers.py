"""Numbers of groups against a reference in exact arithmetic (docs/reference/entities.md#the-groups)."""

import json
import math
import uuid
from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from statewright.conditions import EVERYTHING
from statewright.entity import EntityGroup
from statewright.ids import ModelId, TenantId
from statewright.jsonval.codec import encode
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from statewright.storage.search.grouping import MAX_NUMBER, Grouping, Measure, Operation, fetch_groups
from statewright.storage.search.query import SearchDatabase
from statewright.storage.search.statements import EntityQuery
from tests.database import connected

OPERATIONS: tuple[Operation, ...] = ("sum", "avg", "min", "max", "stdev")
TENANT = TenantId("tenant")
MEASURES = tuple(Measure(operation, ("n",)) for operation in OPERATIONS)
GROUPING = Grouping(keys=(("k",), None), measures=MEASURES, limit=10_000)

Row = tuple[str, dict[str, Any]]

INSERT = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT $1, gen_random_uuid(), $2, state, gen_random_uuid(), gen_random_uuid(), 1, 1, 'loopback', '', 0, 'alice',
           'user', 'alice', 'user', document::jsonb
      FROM unnest($3::text[], $4::text[]) AS row (state, document)
"""


async def result(database: str, rows: list[Row]) -> list[EntityGroup]:
    """The groups that the database forms of these entities."""
    model = ModelId(str(uuid.uuid4()))
    async with connected(database) as connection:
        documents = [encode(document).decode() for _, document in rows]
        await connection.execute(INSERT, TENANT, model, [state for state, _ in rows], documents)
    async with Pool(parse_database_url(database), size=1) as pool:
        search = SearchDatabase(pool, timeout=timedelta(seconds=20))
        groups = await fetch_groups(search, EntityQuery(tenant=TENANT, model=model, search=EVERYTHING), GROUPING)
    assert groups.total == len(groups.first)
    return list(groups.first)


def expected(rows: list[Row]) -> list[EntityGroup]:
    """The same by the words of the specification."""
    found: dict[tuple[str | None, str], list[Any]] = defaultdict(list)
    for state, document in rows:
        found[key_text(document.get("k")), state].append(document.get("n"))

    def order(entry: tuple[tuple[str | None, ...], list[Any]]) -> Any:
        keys, values = entry
        return (-len(values), [(key is not None, (key or "").encode()) for key in keys])

    return [
        EntityGroup(keys=keys, count=len(values), values=measures(values))
        for keys, values in sorted(found.items(), key=order)
    ]


def key_text(value: Any) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    if isinstance(value, bool):
        return json.dumps(value)
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def measures(values: list[Any]) -> tuple[Any, ...]:
    numbers = [
        Fraction(value)
        for value in values
        if isinstance(value, int | Decimal)
        and not isinstance(value, bool)
        and abs(Fraction(value)) < Fraction(MAX_NUMBER)
    ]
    if not numbers:
        return (None,) * 5
    mean = sum(numbers) / len(numbers)
    squares = sum((number - mean) ** 2 for number in numbers)
    deviation = None if len(numbers) < 2 else root(squares / (len(numbers) - 1))
    return (finite(sum(numbers)), finite(mean), min(numbers), max(numbers), deviation)


def finite(value: Fraction) -> Fraction | None:
    return value if abs(value) < Fraction(MAX_NUMBER) else None


def root(value: Fraction) -> float | None:
    """To full double precision, for squares of doubles too."""
    scale = 10**800
    exact = Fraction(math.isqrt(value.numerator * scale**2 // value.denominator), scale)
    return float(exact) if exact < Fraction(MAX_NUMBER) else None


def agree(found: EntityGroup, wanted: EntityGroup) -> None:
    assert (found.keys, found.count) == (wanted.keys, wanted.count)
    for operation, number, reference in zip(OPERATIONS, found.values, wanted.values, strict=True):
        if reference is None or number is None:
            assert number is reference, (operation, number, reference)
        elif operation in {"sum", "min", "max"}:
            assert Fraction(number) == reference, (operation, number, reference)
        else:
            tolerance = 1e-12 if operation == "avg" else 1e-9
            assert math.isclose(number, reference, rel_tol=tolerance, abs_tol=1e-300), (operation, number, reference)


integers = st.one_of(st.integers(-1000, 1000), st.integers(-(2**63), 2**63), st.integers(-(10**40), 10**40))
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4)
wide = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(-(10**15), 10**15), st.integers(-300, 300)
)
beyond = st.sampled_from(
    [10**308, 10**309, -(10**400), Decimal("1E-400"), Decimal("1E+6000"), int(MAX_NUMBER), int(MAX_NUMBER) - 1]
)
numbers = st.one_of(integers, decimals, wide, beyond)
others = st.sampled_from([None, "7", "x", True, False, [1], {"a": 1}])
keys = st.one_of(others, st.sampled_from(["a", "b", "B", "ä", "", 7, Decimal("7.0"), Decimal("7.50"), "true", 10**30]))
documents = st.fixed_dictionaries({}, optional={"k": keys, "n": st.one_of(numbers, numbers, others)})
populations = st.lists(st.tuples(st.sampled_from(["NEW", "DONE"]), documents), max_size=25)


def a_group(*values: Any) -> list[Row]:
    return [("NEW", {"n": value}) for value in values]


# A service on another thread may use ``random`` while examples are drawn, which hypothesis takes for our doing.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
@given(populations)
@example(a_group(10**9, 10**9 + 1, 10**9 + 2))
@example(a_group(10**15, -(10**15)))
@example(a_group(3 * 10**8, -(10**8), 5))
@example(a_group(Decimal("1E-160"), Decimal("2E-160")))
@example(a_group(10**300, -(10**300), 1))
@example(a_group(int(MAX_NUMBER) - 1, int(MAX_NUMBER) - 1))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_database_agrees_with_exact_arithmetic(database: str, rows: list[Row]) -> None:
    found, wanted = await result(database, rows), expected(rows)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        agree(one, other)


async def test_the_deviation_of_close_large_numbers_does_not_cancel_out(database: str) -> None:
    values = [10**9 + Decimal(n) / 1000 for n in range(1, 1001)]
    [group] = await result(database, a_group(*values))
    assert group.values[4] == pytest.approx(math.sqrt(1000 * 1001 / 12) / 1000, rel=1e-12)


async def test_a_large_deviation_keeps_the_digits_that_postgresql_cuts_off(database: str) -> None:
    """The reason why the root is not taken by the database: without it this detour could go."""
    values = [0, 1_123_456_789]
    async with connected(database) as connection:
        theirs = await connection.fetchval("SELECT stddev_samp(n) FROM unnest($1::numeric[]) AS n", values)
    [group] = await result(database, a_group(*values))
    exact = 1_123_456_789 / math.sqrt(2)
    assert group.values[4] == pytest.approx(exact, rel=1e-15)
    assert float(theirs) != pytest.approx(exact, rel=1e-10)

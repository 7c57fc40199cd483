"""Plans: what every evaluator is given (docs/adr/0007-search-in-sql.md#decision)."""

from decimal import Decimal

import pytest

from statewright.conditions import parse
from statewright.conditions.paths import EACH, Path
from statewright.conditions.plan import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    ArrayTest,
    Booleans,
    FieldPresence,
    FieldTest,
    Matching,
    MetaTest,
    Numbers,
    Plan,
    Temporals,
    Texts,
    Unanswerable,
)
from statewright.conditions.planning import build_plan
from statewright.conditions.search import list_required_values
from statewright.conditions.syntax import MetaField, Order, TextOperator
from statewright.jsonval.values import DataType, JsonValue
from tests.unit.conditions.builders import a_field, array, fields, group, json, lifecycle, simple

V = Path(("v",))
SEVENTEEN = Numbers(((Order.EQUALS, 17),))
A_DAY = 86_400_000
FIELDS = fields(v="INTEGER STRING", b="BOOLEAN", d="LOCAL_DATE", t="LOCAL_TIME") | {"$.r[*]": a_field("INTEGER")}


def plan(condition: JsonValue) -> Plan:
    return build_plan(parse(condition), FIELDS)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (simple("v", "EQUALS", json("17.0")), FieldTest(V, (SEVENTEEN, Texts(((Order.EQUALS, "17.0"),))))),
        (
            simple("$.v", "BETWEEN", [1, 9]),
            FieldTest(
                V,
                (
                    Numbers(((Order.GREATER_THAN, 1), (Order.LESS_THAN, 9))),
                    Texts(((Order.GREATER_THAN, "1"), (Order.LESS_THAN, "9"))),
                ),
            ),
        ),
        (simple("$.b", "NOT_EQUAL", True), FieldTest(Path(("b",)), (Booleans(False),))),
        (
            simple("$.d", "GREATER_OR_EQUAL", "1970-01-02T06:00Z"),
            FieldTest(Path(("d",)), (Temporals(DataType.LOCAL_DATE, ((Order.GREATER_THAN, A_DAY),)),)),
        ),
        (simple("$.v", "LIKE", 5), FieldTest(V, (Matching(TextOperator.LIKE, "5"),))),
        (simple("$.v", "IS_NULL"), FieldPresence(V, True)),
        (simple("", "NOT_NULL"), FieldPresence(None, False)),
        (array("$.r[*]", 17, None), ArrayTest(Path(("r",)), ((0, (SEVENTEEN,)),))),
        (simple("$.r[*]", "EQUALS", 17), FieldTest(Path(("r", EACH)), (SEVENTEEN,))),
        (lifecycle("state", "EQUALS", "A"), MetaTest(MetaField.STATE, (Texts(((Order.EQUALS, "A"),)),))),
        (
            lifecycle("creationDate", "LESS_THAN", "1970-01-02"),
            MetaTest(MetaField.CREATION_DATE, (Temporals(DataType.ZONED_DATE_TIME, ((Order.LESS_THAN, A_DAY),)),)),
        ),
        (group("OR", simple("$.b", "IS_NULL")), FieldPresence(Path(("b",)), True)),
        (group("OR"), AnyOf(())),
        (
            group("AND", simple("$.b", "IS_NULL"), group("NOT")),
            AllOf((FieldPresence(Path(("b",)), True), Unanswerable('unknown group operator "NOT"'))),
        ),
    ],
)
def test_a_plan_names_places_and_resolved_operands(condition: JsonValue, expected: Plan):
    assert plan(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        simple("$.b", "EQUALS", "abc"),
        simple("$.b", "LESS_THAN", True),
        simple("$.d", "EQUALS", "1970-01-02T06:00Z"),
        simple("$.t", "NOT_EQUAL", "2031"),
        simple("$.unknown", "EQUALS", 1),
        simple("$..v", "CONTAINS", "x"),
        simple("$.v", "BETWEEN", [1]),
        simple("$.v", "EQUALS", {}),
        array("$.r", 1, "x"),
        array("$.unknown", 1),
        lifecycle("state", "IS_NULL"),
        lifecycle("creationDate", "CONTAINS", ""),
        lifecycle("creationDate", "EQUALS", "soon"),
        group("OR"),
    ],
)
def test_what_can_match_nothing_is_planned_as_never(condition: JsonValue):
    assert plan(condition) == NEVER


@pytest.mark.parametrize(
    "condition", [group("AND"), array("$.r"), array("$.unknown", None), lifecycle("creationDate", "NOT_NULL")]
)
def test_what_matches_everything_is_planned_as_always(condition: JsonValue):
    assert plan(condition) == ALWAYS


@pytest.mark.parametrize(
    ("types", "operand", "required"),
    [
        ("STRING", "a", "a"),
        ("STRING", 17, "17"),
        ("INTEGER", "17", 17),
        ("DOUBLE", 17.5, Decimal("17.5")),
        ("BOOLEAN", "true", True),
        ("INTEGER STRING", 17, None),
        ("INTEGER STRING", "a", "a"),
        ("LOCAL_DATE", "2031-05-06", "2031-05-06"),
        ("LOCAL_DATE", "2031-05", "2031-05-01"),
        ("YEAR_MONTH", "2031-05-01T00:00Z", "2031-05"),
        ("YEAR", 2031, "2031"),
        ("YEAR", "0000", None),
        ("STRING YEAR", "2031", "2031"),
        ("STRING YEAR", "2031-01", None),
        ("LOCAL_DATE YEAR_MONTH", "2031-05", None),
        ("LOCAL_DATE_TIME", "2031-05-06T10:00", None),
        ("ZONED_DATE_TIME", "2031-05-06T10:00Z", None),
        ("LOCAL_TIME", "10:00", None),
        ("CHARACTER", "a", None),
        ("UUID_TYPE", "62f35981-ebe9-11f1-b7b8-dd28fed883c2", None),
    ],
)
def test_equality_requires_a_value_where_nothing_else_equals_it(
    types: str, operand: JsonValue, required: JsonValue
) -> None:
    found = dict(list_required_values(build_plan(parse(simple("$.v", "EQUALS", operand)), fields(v=types))))
    assert found == ({} if required is None else {"$.v": required})

"""What search, conditional delete and statistics refuse, and in which order
(docs/reference/search.md#order-of-checks).
"""

import pytest

from statewright.conditions import check_statistics, parse
from statewright.conditions.checks import check, check_against, check_form, find_unknown_paths
from statewright.conditions.syntax import OPERATORS
from statewright.failures import BadRequest, ConditionTypeMismatch, Failure, InvalidCondition, InvalidFieldPath
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import a_field, array, fields, group, lifecycle, simple

FUNCTION: JsonValue = {"type": "function", "function": {"name": "f"}}
PARCEL = fields(n="INTEGER", s="STRING", when="LOCAL_DATE", any="INTEGER STRING") | {
    "$.order.buyer": a_field("STRING"),
    "$.lines[*].sku": a_field("STRING"),
    "$.tags[*]": a_field("STRING"),
    "$.mixed": a_field("STRING"),
    "$.mixed.inner": a_field("INTEGER"),
    "$.void": a_field(""),
}


def refusal(condition: JsonValue) -> Failure | None:
    try:
        check(parse(condition), PARCEL)
    except Failure as failure:
        return failure
    return None


def refusal_of_statistics(condition: JsonValue) -> Failure | None:
    try:
        check_statistics(parse(condition))
    except Failure as failure:
        return failure
    return None


BAD_OPERATOR = simple("$.n", "REGEXP", "x")
OBJECT = simple("$.s", "EQUALS", {})
ARITY = simple("$.n", "BETWEEN", [1])
UNKNOWN_PATH = simple("$.colour", "EQUALS", "red")
BAD_PATTERN = simple("$.s", "MATCHES_PATTERN", "(?=x)")
CONTAINER = simple("$.order", "EQUALS", "x")
MISMATCH = simple("$.n", "EQUALS", "abc")
BAD_FIELD = lifecycle("version", "EQUALS", 1)
BAD_TIME = lifecycle("creationDate", "LESS_THAN", "yesterday")


@pytest.mark.parametrize(
    ("condition", "kind", "message"),
    [
        (BAD_OPERATOR, BadRequest, 'unknown operatorType "REGEXP"; valid: BETWEEN, BETWEEN_INCLUSIVE, CONTAINS, '),
        (simple("$.n", ""), BadRequest, "missing operatorType; valid: BETWEEN, "),
        (lifecycle("state", "equals", "x"), BadRequest, 'unknown operatorType "equals"'),
        (group("NOT", UNKNOWN_PATH), BadRequest, 'unknown group operator "NOT"'),
        (group("", UNKNOWN_PATH), BadRequest, "unknown group operator"),
        (FUNCTION, BadRequest, 'condition type "function"'),
        (group("AND", FUNCTION), BadRequest, 'condition type "function"'),
        (OBJECT, InvalidCondition, "condition value is an object"),
        (simple("$.s", "IS_NULL", {}), InvalidCondition, "condition value is an object"),
        (lifecycle("state", "EQUALS", {}), InvalidCondition, "condition value is an object"),
        (array("$.tags", "x", {}), InvalidCondition, "condition value is an object"),
        (ARITY, BadRequest, "requires exactly two operands"),
        (simple("$.n", "BETWEEN_INCLUSIVE", "1,2"), BadRequest, "requires exactly two operands"),
        (simple("$.n", "BETWEEN_INCLUSIVE", [1, 2, 3]), BadRequest, "requires exactly two operands"),
        (simple("$.n", "BETWEEN"), BadRequest, "requires exactly two operands"),
        (UNKNOWN_PATH, InvalidFieldPath, "condition references unknown field path(s): $.colour"),
        (BAD_PATTERN, InvalidCondition, "invalid regex pattern in condition: "),
        (lifecycle("state", "MATCHES_PATTERN", "a("), InvalidCondition, "invalid regex pattern in condition: "),
        (simple("$.s", "LIKE", "%" * 100_000), InvalidCondition, "invalid LIKE pattern: more than 1000 wildcards"),
        (CONTAINER, InvalidFieldPath, "$.order"),
        (simple("$.lines[*]", "CONTAINS", "x"), InvalidFieldPath, "$.lines[*]"),
        (simple("$.tags", "EQUALS", "x"), InvalidFieldPath, "$.tags"),
        (simple("$", "EQUALS", "x"), InvalidFieldPath, "$"),
        (MISMATCH, ConditionTypeMismatch, 'operand "abc" of $.n fits none of its declared types [INTEGER]'),
        (simple("$.when", "BETWEEN", ["2031", "x"]), ConditionTypeMismatch, 'operand "x"'),
        (BAD_FIELD, InvalidFieldPath, 'unknown meta filter field "version"'),
        (BAD_TIME, ConditionTypeMismatch, 'operand[0] yesterday parses into no temporal type for field "creationDate"'),
        (lifecycle("creationDate", "BETWEEN", ["2031", "x"]), ConditionTypeMismatch, "operand[1] x parses into no"),
    ],
)
def test_each_refusal_has_its_code_and_says_why(condition: JsonValue, kind: type[Failure], message: str):
    failure = refusal(condition)
    assert failure is not None
    assert type(failure) is kind
    assert message in failure.message


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_of_the_catalogue_is_accepted(operator: str):
    operand: JsonValue = ["1", "2"] if operator.startswith("BETWEEN") else "1"
    assert refusal(simple("$.n", operator, operand)) is None
    assert refusal(lifecycle("state", operator, operand)) is None


def test_there_are_26_operators_and_they_are_listed_in_byte_order():
    assert len(OPERATORS) == 26
    assert list(OPERATORS) == sorted(OPERATORS)
    failure = refusal(BAD_OPERATOR)
    assert failure is not None
    assert failure.message.endswith("valid: " + ", ".join(OPERATORS))


@pytest.mark.parametrize(
    "name",
    [
        "IS_CHANGED",
        "IS_UNCHANGED",
        "OBJECT_EQUALS",
        "IBETWEEN_INCLUSIVE",
        "IMATCHES_PATTERN",
        "CONTAINS_PATTERN",
        "REGEXP",
        "IREGEXP",
        "IN_SET",
        "NOT_IN_SET",
        "EQUALS_FIELD",
        "EQUAL_BY_ATTRIBUTES",
        "INSTANCE_OF",
        "AND",
        "OR",
        "NOT",
        "NOT_EQUALS",
        "GREATER_THAN_OR_EQUAL",
        "IN",
    ],
)
def test_names_of_older_and_published_dialects_are_no_operators(name: str):
    assert isinstance(refusal(simple("$.n", name, 1)), BadRequest)


@pytest.mark.parametrize(
    "condition",
    [
        group("AND"),
        group("or"),
        simple("$.n", "EQUALS", None),
        simple("$.n", "EQUALS", [1, None, 2]),
        simple("$.n", "BETWEEN", [None, 5]),
        simple("$.n", "CONTAINS", "x"),
        simple("$.any", "EQUALS", "abc"),
        simple("$.void", "EQUALS", "abc"),
        simple("order.buyer", "EQUALS", "x"),
        simple(" $.order.buyer ", "EQUALS", "x"),
        simple("$.order", "IS_NULL"),
        simple("$.tags", "NOT_NULL"),
        simple("$.lines", "NOT_NULL"),
        simple("$.lines[*]", "NOT_NULL"),
        simple("$.lines[*].sku", "EQUALS", "x"),
        simple("$.lines[0].sku", "EQUALS", "x"),
        simple("$.tags[*]", "EQUALS", "x"),
        simple("$.tags[2]", "EQUALS", "x"),
        simple("$.mixed", "EQUALS", "x"),
        simple("$.mixed.inner", "EQUALS", 1),
        simple("", "EQUALS", "x"),
        array("$.tags", "x"),
        array("$.tags[*]", "x"),
        array("$.lines", "x"),
        lifecycle("previousTransition", "EQUALS", ""),
        lifecycle("creationDate", "EQUALS", 2031),
        lifecycle("creationDate", "EQUALS", None),
        lifecycle("creationDate", "CONTAINS", "yesterday"),
        lifecycle("state", "LESS_THAN", 5),
    ],
)
def test_what_means_something_is_accepted(condition: JsonValue):
    assert refusal(condition) is None


@pytest.mark.parametrize(
    "path",
    [
        "$.colour",
        "$.order.seller",
        "$.n.x",
        "$.line",
        "$.lines.sku",
        "$.lines[*].s",
        "$..n",
        "$.n['x']",
        "$.tags[*][*]",
    ],
)
def test_paths_that_the_schema_lacks_are_unknown(path: str):
    assert find_unknown_paths(parse(simple(path, "IS_NULL")), PARCEL) == (path,)
    assert find_unknown_paths(parse(array(path, "x")), PARCEL) == (path,)


def test_all_unknown_paths_are_reported_together_once_each():
    condition = group("OR", UNKNOWN_PATH, simple("$.n", "EQUALS", 1), array("$.size", "x"), UNKNOWN_PATH)
    failure = refusal(condition)
    assert failure is not None
    assert failure.detail == "INVALID_FIELD_PATH: condition references unknown field path(s): $.colour, $.size"


def test_the_only_unknown_path_is_told_with_the_one_that_was_probably_meant():
    failure = refusal(simple("$.order.buyr", "EQUALS", 1))
    assert failure is not None
    assert failure.detail.endswith("unknown field path(s): $.order.buyr; did you mean $.order.buyer?")


def test_a_name_that_no_path_can_have_is_not_guessed():
    with pytest.raises(InvalidFieldPath) as refusal:
        check(parse(simple("$.a[0]", "EQUALS", 1)), fields(**{"a[0]": "INTEGER"}))
    assert refusal.value.detail.endswith("unknown field path(s): $.a[0]")


IN_ORDER = [BAD_OPERATOR, UNKNOWN_PATH, BAD_PATTERN, CONTAINER]


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_whatever_their_places_findings_are_reported_in_the_order_of_the_checks(first: int):
    alone, together = refusal(IN_ORDER[first]), refusal(group("AND", *reversed(IN_ORDER[first:])))
    assert alone is not None
    assert together is not None
    assert together.detail == alone.detail


@pytest.mark.parametrize(
    "conditions", [(MISMATCH, CONTAINER, BAD_FIELD), (BAD_FIELD, MISMATCH), (ARITY, OBJECT), (OBJECT, ARITY)]
)
def test_within_one_check_the_first_in_document_order_is_reported(conditions: tuple[JsonValue, ...]):
    alone, together = refusal(conditions[0]), refusal(group("OR", group("AND", *conditions)))
    assert alone is not None
    assert together is not None
    assert together.detail == alone.detail


def test_form_is_checked_without_the_model_and_the_rest_with_it():
    check_form(parse(group("AND", UNKNOWN_PATH, BAD_PATTERN, MISMATCH)))
    check_against(parse(group("NOT", BAD_OPERATOR)), PARCEL)
    with pytest.raises(BadRequest):
        check_form(parse(BAD_OPERATOR))


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        (BAD_OPERATOR, InvalidCondition),
        (ARITY, InvalidCondition),
        (OBJECT, InvalidCondition),
        (BAD_PATTERN, InvalidCondition),
        (group("NOT"), InvalidCondition),
        (FUNCTION, InvalidCondition),
        (BAD_FIELD, InvalidFieldPath),
        (BAD_TIME, ConditionTypeMismatch),
        (UNKNOWN_PATH, type(None)),
        (CONTAINER, type(None)),
        (MISMATCH, type(None)),
    ],
)
def test_statistics_have_codes_of_their_own_and_do_not_look_at_data_paths(condition: JsonValue, kind: type[object]):
    assert type(refusal_of_statistics(condition)) is kind

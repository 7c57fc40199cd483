"""What is true of all conditions and all documents."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.conditions import compile_predicate, find_criterion_defects, parse, read_search_condition, serialise
from statewright.conditions.checks import check
from statewright.conditions.search import SearchCompiler, TemplateCache
from statewright.conditions.syntax import COMPARISONS, OPERATORS, PRESENCE, RANGES
from statewright.failures import ConditionTypeMismatch, Failure
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.numbers import NUMERIC_TYPES, format_number
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema import UniqueKey, build_claim, read_claims
from statewright.schema.node import DeclaredField
from tests.unit.conditions.builders import META, a_field, array, fields, group, matches, simple, value_matches
from tests.unit.conditions.strategies import (
    CONDITIONS,
    DOCUMENTS,
    LEAVES,
    NUMBERS,
    SCALARS,
    TEXTS,
    TYPES,
    VALUES,
    is_number,
    schemas,
)

NUMERIC = st.sampled_from(sorted(NUMERIC_TYPES))
BINARY = sorted(set(OPERATORS) - PRESENCE.keys())
NEGATED = [
    ("CONTAINS", "NOT_CONTAINS"),
    ("STARTS_WITH", "NOT_STARTS_WITH"),
    ("ENDS_WITH", "NOT_ENDS_WITH"),
    ("IEQUALS", "INOT_EQUAL"),
    ("ICONTAINS", "INOT_CONTAINS"),
    ("ISTARTS_WITH", "INOT_STARTS_WITH"),
    ("IENDS_WITH", "INOT_ENDS_WITH"),
]


@given(NUMBERS, NUMBERS, NUMERIC)
def test_of_two_numbers_exactly_one_relation_holds(stored: int | Decimal, operand: int | Decimal, declared: str):
    orders = ("LESS_THAN", "EQUALS", "GREATER_THAN")
    found = [order for order in orders if value_matches(stored, declared, order, operand)]
    difference = Fraction(stored) - Fraction(operand)
    assert found == [orders[(difference > 0) - (difference < 0) + 1]]


FEW: st.SearchStrategy[JsonValue] = st.sampled_from([True, 1, Decimal("1.0"), "1", "true", "a"])
REQUIRED_TYPES = st.sampled_from(["BOOLEAN", "INTEGER", "STRING", "STRING", "INTEGER STRING", "CHARACTER"])


@given(
    st.lists(FEW, min_size=2, max_size=2),
    st.lists(FEW, max_size=2),
    st.lists(REQUIRED_TYPES, min_size=2, max_size=2),
    LEAVES,
)
def test_a_match_has_the_values_that_its_condition_requires(
    stored: list[JsonValue], operands: list[JsonValue], types: list[str], other: JsonValue
):
    document: JsonValue = {"v": stored[0], "o": {"v": stored[1]}}
    declared = {"$.v": a_field(types[0]), "$.o.v": a_field(types[1])}
    first, second = (*operands, *stored)[:2]
    for condition in (
        simple("$.v", "EQUALS", first),
        group("AND", simple("$.v", "EQUALS", first), group("AND", simple("$.o.v", "EQUALS", second))),
        group("AND", other, simple("$.o.v", "EQUALS", second)),
        group("OR", other, simple("$.o.v", "EQUALS", second)),
    ):
        try:
            search = SearchCompiler(declared, TemplateCache()).compile(read_search_condition(condition))
        except Failure:
            continue
        required = search.compute_required_values()
        assert required.keys() == search.required_fields
        if required and matches(condition, document, declared):
            key = UniqueKey("key", (*required,))
            assert read_claims((key,), document) == (build_claim(key, required),)


@given(NUMBERS, NUMBERS, NUMERIC)
def test_the_other_comparisons_of_numbers_follow(stored: int | Decimal, operand: int | Decimal, declared: str):
    def holds(order: str) -> bool:
        return value_matches(stored, declared, order, operand)

    assert holds("NOT_EQUAL") is not holds("EQUALS")
    assert holds("LESS_OR_EQUAL") is not holds("GREATER_THAN")
    assert holds("GREATER_OR_EQUAL") is not holds("LESS_THAN")


@given(NUMBERS, NUMBERS, st.sampled_from(sorted(COMPARISONS)))
def test_how_a_number_operand_is_written_makes_no_difference_to_a_number(
    stored: int | Decimal, operand: int | Decimal, order: str
):
    sign, digits, exponent = Decimal(operand).as_tuple()
    assert isinstance(exponent, int)
    longer = Decimal((sign, (*digits, 0), exponent - 1))
    spellings: list[JsonValue] = [operand, format_number(operand), longer, format_number(longer)]
    assert len({value_matches(stored, "INTEGER", order, spelling) for spelling in spellings}) == 1


@given(TEXTS, TEXTS)
def test_of_two_strings_exactly_one_relation_holds(stored: str, operand: str):
    orders = ("LESS_THAN", "EQUALS", "GREATER_THAN")
    found = [order for order in orders if value_matches(stored, "STRING", order, operand)]
    assert found == [orders[(stored > operand) - (stored < operand) + 1]]


@given(VALUES, SCALARS, SCALARS, st.sampled_from(["STRING", "INTEGER", "DOUBLE", "INTEGER STRING"]))
def test_a_range_of_numbers_or_strings_is_two_comparisons(
    stored: JsonValue, low: JsonValue, high: JsonValue, types: str
):
    for operator, (first, second) in RANGES.items():
        both_numeric = "STRING" not in types or is_number(stored)
        comparisons = value_matches(stored, types, first, low) and value_matches(stored, types, second, high)
        if both_numeric or isinstance(stored, str):
            assert value_matches(stored, types, operator, [low, high]) is comparisons


@pytest.mark.parametrize(("operator", "negated"), NEGATED)
@given(stored=VALUES, operand=SCALARS)
def test_a_negated_text_operator_is_the_complement_among_stored_strings(
    operator: str, negated: str, stored: JsonValue, operand: JsonValue
):
    results = {value_matches(stored, "STRING", name, operand) for name in (operator, negated)}
    assert results == ({True, False} if isinstance(stored, str) else {False})


@given(st.sampled_from(BINARY), VALUES, TYPES)
def test_absent_and_null_match_no_binary_operator(operator: str, operand: JsonValue, types: str):
    condition = simple("$.v", operator, "a" if operator == "MATCHES_PATTERN" else operand)
    for document in ({}, {"v": None}):
        assert not matches(condition, document, fields(v=types))


@given(CONDITIONS)
def test_parsing_what_was_serialised_gives_the_same_condition(value: JsonValue):
    condition = parse(value)
    assert parse(serialise(condition)) == condition
    assert parse(decode(encode(serialise(condition)))) == condition


@given(CONDITIONS, DOCUMENTS, schemas())
def test_every_condition_is_true_or_false_of_every_document(
    condition: JsonValue, document: JsonValue, declared: dict[str, DeclaredField]
):
    assert compile_predicate(parse(condition), declared)(document, META) in (True, False)


@given(st.lists(CONDITIONS, max_size=4), DOCUMENTS, schemas())
def test_a_group_is_all_or_any_of_its_parts_in_any_order(
    parts: list[JsonValue], document: JsonValue, declared: dict[str, DeclaredField]
):
    each = [matches(part, document, declared) for part in parts]
    for ordered in (parts, parts[::-1]):
        assert matches(group("AND", *ordered), document, declared) is all(each)
        assert matches(group("OR", *ordered), document, declared) is any(each)


@given(LEAVES, DOCUMENTS, schemas())
def test_a_group_of_one_is_its_part_and_doubling_changes_nothing(
    leaf: JsonValue, document: JsonValue, declared: dict[str, DeclaredField]
):
    expected = matches(leaf, document, declared)
    for operator in ("AND", "OR"):
        assert matches(group(operator, leaf), document, declared) is expected
        assert matches(group(operator, leaf, leaf), document, declared) is expected


@given(st.lists(VALUES, max_size=4), st.sampled_from(BINARY), SCALARS, TYPES)
def test_a_wildcard_is_the_or_of_all_indices(values: list[JsonValue], operator: str, operand: JsonValue, types: str):
    operand = {"MATCHES_PATTERN": ".*", "BETWEEN": ["", "zz"], "BETWEEN_INCLUSIVE": [-5, 5]}.get(operator, operand)
    declared = {"$.l[*]": a_field(types)}
    by_index = [simple(f"$.l[{index}]", operator, operand) for index in range(len(values))]
    document: JsonValue = {"l": values}
    assert matches(simple("$.l[*]", operator, operand), document, declared) is matches(
        group("OR", *by_index), document, declared
    )


@given(st.lists(SCALARS, max_size=4), st.lists(SCALARS, max_size=4), TYPES)
def test_an_array_condition_is_the_and_of_equalities_at_its_positions(
    stored: list[JsonValue], values: list[JsonValue], types: str
):
    declared = {"$.l[*]": a_field(types)}
    document: JsonValue = {"l": stored}
    equalities = [simple(f"$.l[{index}]", "EQUALS", value) for index, value in enumerate(values) if value is not None]
    assert matches(array("$.l", *values), document, declared) is matches(group("AND", *equalities), document, declared)


@given(VALUES, st.sampled_from(sorted(COMPARISONS)), SCALARS, TYPES)
def test_an_operand_refused_as_a_mismatch_matches_nothing(
    stored: JsonValue, operator: str, operand: JsonValue, types: str
):
    condition = simple("$.v", operator, operand)
    try:
        check(parse(condition), fields(v=types))
    except ConditionTypeMismatch:
        assert not matches(condition, {"v": stored}, fields(v=types))


@given(CONDITIONS, schemas())
def test_what_search_accepts_has_no_finding_as_a_criterion(value: JsonValue, declared: dict[str, DeclaredField]):
    condition = parse(value)
    try:
        check(condition, declared)
    except Failure:
        return
    assert list(find_criterion_defects(condition)) == []


@given(VALUES, st.sampled_from(BINARY), SCALARS, TYPES)
def test_more_declared_types_never_match_less(stored: JsonValue, operator: str, operand: JsonValue, types: str):
    if operator == "MATCHES_PATTERN":
        operand = ".*"
    for more in DataType:
        if value_matches(stored, types, operator, operand):
            assert value_matches(stored, f"{types} {more}", operator, operand)


@given(VALUES, TYPES)
def test_a_value_is_null_or_not_null(stored: JsonValue, types: str):
    for document in ({}, {"v": stored}):
        results = {matches(simple("$.v", operator), document, fields(v=types)) for operator in PRESENCE}
        assert results == {True, False}

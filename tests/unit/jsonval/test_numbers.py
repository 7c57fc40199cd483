"""Numbers: classification (docs/reference/models.md#numbers), widening (docs/reference/models.md#assignability),
literals (docs/reference/conditions.md#numbers-in-conditions).
"""

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.numbers import (
    MAX_MAGNITUDE,
    NUMERIC_TYPES,
    classify_number,
    format_number,
    is_assignable,
    parse_number,
    simplify,
    split_scale,
)
from statewright.jsonval.values import DataType

INTEGERS = st.integers(min_value=-(10**45), max_value=10**45)
DECIMALS = st.builds(
    lambda unscaled, exponent: Decimal(unscaled).scaleb(exponent),
    st.integers(min_value=-(10**25), max_value=10**25),
    st.integers(min_value=-400, max_value=400),
)
NUMBERS = st.one_of(INTEGERS, DECIMALS)


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        *((text, DataType.INTEGER) for text in ("1", "1.0", "1e0", "-0.0", "0e5", "100", "2147483647", "-2147483648")),
        ("2147483648", DataType.LONG),
        ("-2147483649", DataType.LONG),
        ("9223372036854775807", DataType.LONG),
        ("9223372036854775808", DataType.BIG_INTEGER),
        ("-9223372036854775809", DataType.BIG_INTEGER),
        ("170141183460469231731687303715884105727", DataType.BIG_INTEGER),
        ("-170141183460469231731687303715884105728", DataType.BIG_INTEGER),
        ("170141183460469231731687303715884105728", DataType.UNBOUND_INTEGER),
        ("-170141183460469231731687303715884105729", DataType.UNBOUND_INTEGER),
        ("1e60", DataType.UNBOUND_INTEGER),
        ("2.5e200", DataType.UNBOUND_INTEGER),
        ("1e38", DataType.BIG_INTEGER),
        ("1e39", DataType.UNBOUND_INTEGER),
        ("0.1", DataType.DOUBLE),
        ("1.5", DataType.DOUBLE),
        ("1.50", DataType.DOUBLE),
        ("2.71828182845904", DataType.DOUBLE),
        ("2.718281828459040000000000", DataType.DOUBLE),
        ("2.718281828459045", DataType.BIG_DECIMAL),
        ("2.718281828459045235", DataType.BIG_DECIMAL),
        ("2.71828182845904523536", DataType.UNBOUND_DECIMAL),
        ("31415926535897932384.626433832795028841", DataType.BIG_DECIMAL),
        ("31415926535897932384.6264338327950288419", DataType.UNBOUND_DECIMAL),
        ("1e-292", DataType.DOUBLE),
        ("1e-293", DataType.UNBOUND_DECIMAL),
        ("170141183460469231731.5", DataType.BIG_DECIMAL),
        ("170141183460469231732.5", DataType.UNBOUND_DECIMAL),
        ("170141183460469231731.687303715884105727", DataType.BIG_DECIMAL),
        ("170141183460469231731.687303715884105728", DataType.UNBOUND_DECIMAL),
        ("-170141183460469231731.687303715884105728", DataType.BIG_DECIMAL),
    ],
)
def test_a_number_has_the_narrowest_type_that_holds_it(literal: str, expected: DataType):
    assert classify_number(Decimal(literal)) is expected


@given(INTEGERS)
def test_a_whole_number_is_classified_by_value_however_it_is_spelled(value: int):
    spellings = (Decimal(value), Decimal(f"{value}.000"), Decimal(f"{value}0e-1"))
    assert {classify_number(spelling) for spelling in spellings} == {classify_number(value)}


@given(DECIMALS)
def test_trailing_zeros_change_no_class(value: Decimal):
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    assert classify_number(Decimal((sign, (*digits, 0, 0), exponent - 2))) is classify_number(value)


def test_an_enormous_exponent_is_classified_without_being_expanded():
    assert classify_number(Decimal("1e999999999")) is DataType.UNBOUND_INTEGER
    assert classify_number(Decimal("-1e-999999999")) is DataType.UNBOUND_DECIMAL


def test_what_is_no_number_has_no_class():
    with pytest.raises(ValueError, match="NaN"):
        classify_number(Decimal("NaN"))


@given(NUMBERS)
def test_the_decimal_context_has_no_say(value: int | Decimal):
    with localcontext(prec=1):
        narrow = classify_number(value), split_scale(value), parse_number(format_number(value))
    assert narrow == (classify_number(value), split_scale(value), parse_number(format_number(value)))


WIDENS_TO = {
    DataType.INTEGER: "LONG BIG_INTEGER UNBOUND_INTEGER DOUBLE BIG_DECIMAL UNBOUND_DECIMAL",
    DataType.LONG: "BIG_INTEGER UNBOUND_INTEGER BIG_DECIMAL UNBOUND_DECIMAL",
    DataType.BIG_INTEGER: "UNBOUND_INTEGER UNBOUND_DECIMAL",
    DataType.UNBOUND_INTEGER: "UNBOUND_DECIMAL",
    DataType.DOUBLE: "UNBOUND_DECIMAL",
    DataType.BIG_DECIMAL: "UNBOUND_DECIMAL",
    DataType.NULL: " ".join(DataType),
}


@pytest.mark.parametrize("source", DataType)
def test_a_type_is_assignable_to_itself_and_to_what_the_lattice_lists(source: DataType):
    targets = {DataType(name) for name in WIDENS_TO.get(source, "").split()} | {source}
    assert {target for target in DataType if is_assignable(source, target)} == targets


def test_assignability_is_transitive():
    for source in NUMERIC_TYPES:
        for middle in NUMERIC_TYPES:
            for target in NUMERIC_TYPES:
                if is_assignable(source, middle) and is_assignable(middle, target):
                    assert is_assignable(source, target)


@pytest.mark.parametrize(
    ("literal", "expected"),
    [("42", (42, 0)), ("42.0", (420, 1)), ("4.2e1", (42, 0)), ("1e2", (1, -2)), ("-0.05", (-5, 2))],
)
def test_a_number_is_an_integer_and_a_scale(literal: str, expected: tuple[int, int]):
    assert split_scale(Decimal(literal)) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("+42", 42),
        ("-7.5", Decimal("-7.5")),
        (".5", Decimal("0.5")),
        ("5.", 5),
        ("42.0", 42),
        ("4.2e1", 42),
        ("1E+2", 100),
        ("007", 7),
        ("-0", 0),
        ("9007199254740993", 9007199254740993),
        ("0.1000000000000000000001", Decimal("0.1000000000000000000001")),
    ],
)
def test_a_decimal_literal_is_read_exactly(text: str, value: int | Decimal):
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "0.",
        "-0.",
        " 1",
        "1 ",
        "1\n",
        "1_000",
        "0x10",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e",
        "e5",
        "1.2.3",
        "١",
    ],
)
def test_other_texts_are_no_numbers(text: str):
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e999999999", Decimal(f"1e{MAX_MAGNITUDE}")),
        ("-1e999999999", Decimal(f"-1e{MAX_MAGNITUDE}")),
        ("1e99999999999999999999", Decimal(f"1e{MAX_MAGNITUDE}")),
        ("-2.5e-99999999999999999999", Decimal(f"-1e-{MAX_MAGNITUDE}")),
        ("0e99999999999999999999", 0),
        ("0e-5", 0),
    ],
)
def test_an_extreme_literal_becomes_one_that_compares_alike_and_is_cheap(text: str, expected: int | Decimal):
    assert parse_number(text) == expected


@given(NUMBERS)
def test_reading_a_written_number_gives_its_value(value: int | Decimal):
    assert parse_number(format_number(value)) == value


@given(NUMBERS)
def test_simplifying_keeps_the_value(value: int | Decimal):
    assert simplify(value) == value


def test_an_integer_of_many_digits_is_written_and_read():
    digits = "7" * 10_000
    assert format_number(Decimal(digits)) == digits
    assert parse_number(digits) == Decimal(digits)


@pytest.mark.parametrize(
    ("value", "text"), [(42, "42"), (Decimal("42.0"), "42.0"), (Decimal("1e21"), "1e+21"), (Decimal("1e-7"), "1e-7")]
)
def test_a_number_is_written_as_a_json_literal(value: int | Decimal, text: str):
    assert format_number(value) == text

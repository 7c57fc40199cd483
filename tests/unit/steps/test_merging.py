"""Merges of variables (decision J1, docs/reference/steps.md#variables, docs/reference/steps.md#invariants)."""

from copy import deepcopy
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.codec import decode, decode_stored, encode
from statewright.jsonval.values import JsonObject, merge_deep, merge_shallow, tidy_number, tidy_numbers, tidy_stored

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(alphabet="ab", max_size=2)
NAMES = st.text(alphabet="abc", min_size=1, max_size=1)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_shallow_merge_has_all_keys_and_the_delta_wins(variables: JsonObject, delta: JsonObject):
    merged = merge_shallow(variables, delta)
    assert merged.keys() == variables.keys() | delta.keys()
    assert all(merged[name] == delta[name] if name in delta else merged[name] == variables[name] for name in merged)


@given(OBJECTS, OBJECTS)
def test_a_deep_merge_of_objects_merges_their_members_and_replaces_anything_else(
    variables: JsonObject, delta: JsonObject
):
    merged = merge_deep(variables, delta)
    assert merged.keys() == variables.keys() | delta.keys()
    for name, value in delta.items():
        before = variables.get(name)
        both_objects = isinstance(before, dict) and isinstance(value, dict)
        assert merged[name] == (merge_deep(before, value) if both_objects else value)
    assert all(merged[name] == variables[name] for name in variables if name not in delta)


@given(OBJECTS, OBJECTS)
def test_merging_changes_neither_side(variables: JsonObject, delta: JsonObject):
    before = deepcopy((variables, delta))
    merge_deep(variables, delta)
    merge_shallow(variables, delta)
    assert (variables, delta) == before


@given(OBJECTS, OBJECTS)
def test_merging_the_same_delta_again_changes_nothing(variables: JsonObject, delta: JsonObject):
    assert merge_deep(merge_deep(variables, delta), delta) == merge_deep(variables, delta)


def test_null_is_kept_and_nothing_is_removed():
    assert merge_deep({"a": {"b": 1}}, {"a": {"b": None}}) == {"a": {"b": None}}
    assert merge_deep({"a": {"b": 1}}, {"a": None}) == {"a": None}


def test_arrays_are_replaced():
    assert merge_deep({"a": [1, 2]}, {"a": [3]}) == {"a": [3]}


def test_an_empty_delta_changes_nothing_at_all():
    variables: JsonObject = {"a": 1}
    assert merge_deep(variables, {}) is variables
    assert merge_shallow(variables, {}) is variables


def test_integral_numbers_lose_their_fraction_and_others_no_digit():
    numbers: JsonObject = {
        "a": Decimal("1.0"),
        "b": [Decimal("2E+3"), {"c": Decimal("-0.0")}],
        "d": Decimal("0.10"),
        "e": Decimal("1e400"),
        "f": 2**80,
    }
    assert repr(tidy_numbers(numbers)) == (
        "{'a': 1, 'b': [2000, {'c': 0}], 'd': Decimal('0.10'), 'e': Decimal('1E+400'), 'f': 1208925819614629174706176}"
    )


LONG = st.builds(
    lambda digits, zeros, sign: sign * digits * 10**zeros,
    st.integers(1, 10**20),
    st.integers(0, 330),
    st.sampled_from([1, -1]),
)


@given(LONG | st.integers() | st.decimals(-(10**30), 10**30, allow_nan=False, places=2))
def test_numbers_keep_their_value_and_long_ones_have_the_form_of_a_double(number: int | Decimal):
    tidy = tidy_number(number)
    assert tidy == number
    text = encode(tidy).decode()
    assert decode(text) == number
    significant = str(number).partition(".")[0].lstrip("-").rstrip("0")
    if isinstance(number, int) and abs(number) >= 10**21 and len(significant) <= 17:
        assert "E+" in text
        assert len(text) < 30


@given(LONG, st.booleans())
def test_what_the_database_writes_out_comes_back_in_the_form_in_which_it_was_taken_in(number: int, is_last: bool):
    taken_in: JsonObject = {"id": "01M815W061000CB838GG000000", "a": [number, {"b": number}], "c": 100000}
    as_jsonb = f'{{"a": [{number}, {{"b": {number}}}], "c": 100000, "id": "01M815W061000CB838GG000000"}}'
    if is_last:
        as_jsonb = as_jsonb.replace(", ", ",").replace(": ", ":")
    assert repr(tidy_stored(decode_stored(as_jsonb), as_jsonb)["a"]) == repr(tidy_numbers(taken_in)["a"])  # type: ignore[call-overload,index]


def test_a_number_of_more_digits_than_python_reads_is_short_again():
    text = f'{{"x": 1{"0" * 6000}}}'
    assert encode(tidy_stored(decode_stored(text), text)) == b'{"x":1E+6000}'


def test_what_has_no_long_number_is_given_back_as_it_is():
    text = '{"a": 123456789012345678901234567890, "b": 100000, "c": "000000000000000000000000000000"}'
    value = decode_stored(text)
    assert tidy_stored(value, text) is value

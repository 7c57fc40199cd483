"""What functions return, as JSON."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.sdk.outcomes import NotJson, Rejected, encode_json, to_schedule

numbers = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)
scalars = (
    st.none() | st.booleans() | numbers | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
)
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(documents)
def test_a_document_that_a_function_returns_unchanged_arrives_unchanged(document):
    assert decode(encode_json(document)) == document


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("12.50"), b"12.50"),
        (2**80, b"1208925819614629174706176"),
        (1.5, b"1.5"),
        (date(2024, 10, 8), b'"2024-10-08"'),
        (datetime(2024, 10, 8, 12, tzinfo=UTC), b'"2024-10-08T12:00:00Z"'),
        (UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        (("a", "b"), b'["a","b"]'),
        ({1: "one"}, b'{"1":"one"}'),
        ("NaN or Infinity", b'"NaN or Infinity"'),
    ],
)
def test_what_python_programs_return_becomes_json(value, text):
    assert encode_json(value) == text


def test_structs_are_written_under_their_json_names():
    class Laureate(Struct, rename="camel"):
        first_name: str

    assert encode_json([Laureate("Ada")]) == b'[{"firstName":"Ada"}]'


@pytest.mark.parametrize("value", [object(), Decimal("NaN"), {"deep": [Decimal("-Infinity")]}, "\ud800", lambda: None])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(NotJson, match="the result is not JSON: "):
        encode_json(value)


def test_a_refusal_is_false_and_gives_its_reason():
    refusal = Rejected("too small")
    assert not refusal
    assert refusal.reason == "too small"


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (timedelta(minutes=1, microseconds=999), {"fireAfterMs": 60_000}),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), {"fireAt": 1000}),
        (datetime(1970, 1, 1, 0, 0, 1), {"fireAt": 1000}),  # noqa: DTZ001  # the point
        ({"fireAfterMs": 5, "expireAfterMs": 6}, {"fireAfterMs": 5, "expireAfterMs": 6}),
    ],
)
def test_a_fire_time_is_a_delay_or_an_instant_or_the_result_itself(value, result):
    assert to_schedule(value) == result

"""How heavy JSON values are, which says whether they are worked on in one go."""

from collections.abc import Iterator
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.values import JsonValue, weigh

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 600), 1 << 600) | st.text(max_size=200) | st.just(Decimal("1.5")),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=90), inner, max_size=6),
    max_leaves=40,
)


def list_all(value: JsonValue) -> Iterator[JsonValue]:
    """The value, and everything in it, names as well."""
    yield value
    if isinstance(value, dict):
        yield from value
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for member in members:
        yield from list_all(member)


def square_bits(value: JsonValue) -> int:
    return (value.bit_length() // 256) ** 2 if type(value) is int else 0


@given(values)
def test_a_weight_counts_values_and_names_long_texts_and_long_numbers(value: JsonValue) -> None:
    everything = [*list_all(value)]
    long_numbers = sum(map(square_bits, everything))
    chars = sum(len(one) for one in everything if isinstance(one, str))
    weight = weigh(value, 1 << 60) - long_numbers
    assert len(everything) <= weight <= len(everything) + chars // 64


@given(values, st.integers(0, 200))
def test_a_weight_is_exact_up_to_a_bound_and_above_it_at_least_that(value: JsonValue, most: int) -> None:
    exact, found = weigh(value, 1 << 60), weigh(value, most)
    assert found == exact if exact <= most else most < found <= exact


def test_no_more_is_looked_at_than_the_bound_asks_for() -> None:
    rows: JsonValue = [[n] for n in range(1_000)]
    assert weigh(rows, 10) == 1_001

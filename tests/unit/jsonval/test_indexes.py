"""Places in lists, as texts name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.values import read_index


@given(st.integers(min_value=0, max_value=2_000), st.integers(min_value=0, max_value=1_000), st.integers(0, 3))
def test_a_place_is_named_by_its_number(index: int, size: int, zeros: int) -> None:
    assert read_index("0" * zeros + str(index), size) == (index if index < size else None)


@pytest.mark.parametrize("text", ["", "-1", "1.0", "x", " 1", "٣", "²", "9" * 5_000, "1" + "0" * 5_000])
def test_other_texts_name_none(text: str) -> None:
    assert read_index(text, 10) is None

"""What is too large for a turn of the event loop."""

from decimal import Decimal

import pytest

from statewright.jsonval.values import JsonValue
from statewright.loop.turns import MAX_TURN_ELEMENTS, is_large

LONG_WHOLE = int("7" * 4_000)


@pytest.mark.parametrize(
    "value",
    [
        [0] * (MAX_TURN_ELEMENTS + 1),
        {"a": [[0] * 90] * 90},
        "x" * 64 * (MAX_TURN_ELEMENTS + 1),
        [LONG_WHOLE] * 60,
        {"a": [-LONG_WHOLE] * 60},
        [Decimal("1." + "3" * 3_999)] * 1_500,
        LONG_WHOLE**8,
    ],
    ids=["items", "nested", "text", "wholes", "in-an-object", "fractions", "whole"],
)
def test_what_takes_long_to_write_is_large(value: JsonValue):
    assert is_large(value)


@pytest.mark.parametrize(
    "value",
    [[0] * MAX_TURN_ELEMENTS, [LONG_WHOLE] * 20, [Decimal("0.1"), True, None, 2**64] * 1_500, "x" * 64_000],
    ids=["items", "wholes", "short-numbers", "text"],
)
def test_what_is_written_within_a_turn_is_not(value: JsonValue):
    assert not is_large(value)

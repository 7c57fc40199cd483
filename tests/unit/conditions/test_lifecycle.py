"""Conditions on metadata (docs/reference/conditions.md#lifecycle-fields)."""

import pytest
from msgspec.structs import replace

from statewright.conditions import EvaluationError
from statewright.conditions.syntax import TEXT_OPERATORS
from statewright.jsonval.temporals import parse_temporal
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import META, lifecycle, matches


def ms(text: str) -> int:
    temporal = parse_temporal(text)
    assert temporal is not None
    return temporal.epoch_ms


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", META.id),
        ("state", META.state),
        ("transitionForLatestSave", META.transition),
        ("previousTransition", META.transition),
        ("transactionId", META.transaction_id),
    ],
)
def test_text_fields_compare_like_strings(field: str, value: str):
    assert matches(lifecycle(field, "EQUALS", value), {})
    assert not matches(lifecycle(field, "EQUALS", value.swapcase() + "x"), {})
    assert matches(lifecycle(field, "STARTS_WITH", value[:3]), {})
    assert matches(lifecycle(field, "GREATER_THAN", ""), {})
    assert matches(lifecycle(field, "BETWEEN_INCLUSIVE", [value, value]), {})
    assert matches(lifecycle(field, "MATCHES_PATTERN", ".+"), {})


def test_an_unset_text_field_is_empty_and_not_null():
    fresh = replace(META, transition="")
    assert matches(lifecycle("previousTransition", "EQUALS", ""), {}, meta=fresh)
    assert matches(lifecycle("previousTransition", "EQUALS", None), {}, meta=fresh)
    assert matches(lifecycle("previousTransition", "NOT_NULL"), {}, meta=fresh)
    assert not matches(lifecycle("previousTransition", "IS_NULL"), {}, meta=fresh)


SAVED = replace(META, last_update_time=ms("2031-05-06T06:00:00.123Z"))


@pytest.mark.parametrize(
    ("operator", "operand", "expected"),
    [
        ("EQUALS", "2031-05-06T06:00:00.123Z", True),
        ("EQUALS", "2031-05-06T06:00:00.123456Z", True),
        ("EQUALS", "2031-05-06T08:00:00.123+02:00", True),
        ("EQUALS", "2031-05-06T06:00:00.123", True),
        ("EQUALS", "2031-05-06T06:00:00Z", False),
        ("NOT_EQUAL", "2031-05-06T06:00:00Z", True),
        ("GREATER_THAN", "2031", True),
        ("GREATER_THAN", 2031, True),
        ("LESS_THAN", "2032", True),
        ("GREATER_OR_EQUAL", "2031-05", True),
        ("LESS_OR_EQUAL", "2031-05-06", False),
        ("BETWEEN", ["2031-05-06", "2031-05-07"], True),
        ("BETWEEN_INCLUSIVE", ["2031-05-06T06:00:00.123Z", "2031-05-06T06:00:00.123Z"], True),
        ("BETWEEN", ["2031-05-06T06:00:00.123Z", "2032"], False),
        ("LESS_THAN", "no instant", False),
        ("NOT_EQUAL", "no instant", False),
        ("GREATER_THAN", None, False),
        ("GREATER_THAN", ["2031"], False),
        ("IS_NULL", None, False),
        ("NOT_NULL", None, True),
    ],
)
def test_times_compare_as_instants_in_milliseconds(operator: str, operand: JsonValue, expected: bool):
    assert matches(lifecycle("lastUpdateTime", operator, operand), {}, meta=SAVED) is expected


@pytest.mark.parametrize("operator", TEXT_OPERATORS)
def test_text_operators_never_match_a_time(operator: str):
    for field in ("creationDate", "lastUpdateTime"):
        assert not matches(lifecycle(field, operator, ""), {})


@pytest.mark.parametrize("field", ["version", "current_state", "State", "created_at", ""])
def test_other_fields_cannot_be_judged(field: str):
    with pytest.raises(EvaluationError, match="unknown meta filter field"):
        matches(lifecycle(field, "NOT_NULL"), {})

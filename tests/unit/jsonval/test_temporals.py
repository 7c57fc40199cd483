"""Temporal texts: recognition (docs/reference/models.md#texts) and instants (docs/reference/conditions.md#times)."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.temporals import TEMPORAL_TYPES, Temporal, classify_text, parse_temporal, resolve
from statewright.jsonval.values import DataType

T = DataType
OFFSETS = st.integers(min_value=-1439, max_value=1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def a_temporal(text: str) -> Temporal:
    temporal = parse_temporal(text)
    assert temporal is not None, f"{text} is no temporal"
    return temporal


def epoch_ms(text: str) -> int:
    return a_temporal(text).epoch_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", T.YEAR),
        ("0000", T.YEAR),
        ("9999", T.YEAR),
        ("2024-09", T.YEAR_MONTH),
        ("2024-02-29", T.LOCAL_DATE),
        ("0000-02-29", T.LOCAL_DATE),
        ("2024-12-31", T.LOCAL_DATE),
        ("9:30", T.LOCAL_TIME),
        ("23:59", T.LOCAL_TIME),
        ("09:30:15,25", T.LOCAL_TIME),
        ("09:30:15.123456789012", T.LOCAL_TIME),
        ("2024-09-09T10:30", T.LOCAL_DATE_TIME),
        ("2024-09-09T9:30", T.LOCAL_DATE_TIME),
        ("2024-09-09T10:30:59.5", T.LOCAL_DATE_TIME),
        ("2024-09-09T10:30Z", T.ZONED_DATE_TIME),
        ("2024-09-09T10:30:00.5+02:00", T.ZONED_DATE_TIME),
        ("2024-09-09T10:30:00-24:60", T.ZONED_DATE_TIME),
    ],
)
def test_a_text_of_an_iso_shape_has_its_subtype(text: str, expected: DataType):
    assert classify_text(text) is expected
    assert a_temporal(text).subtype is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "20245",
        "+2024",
        "202",
        "٢٠٢٤",
        " 2024",
        "2024\n",
        "2024-13",
        "2024-00",
        "2024-9",
        "2024-02-30",
        "2023-02-29",
        "1900-02-29",
        "2024-04-31",
        "2024-01-00",
        "24:00",
        "09:5",
        "09:60",
        "09:30:60",
        "09:30:15.",
        "09:30.5",
        "009:30",
        "9:30Z",
        "2024-09-09 10:30:00",
        "2024-09-09t10:30",
        "2024-09-09T10:30z",
        "2024-09-09T10:30+0100",
        "2024-09-09T10:30+01",
        "2024-09-09T10:30+25:00",
        "2024-09-09T10:30+01:61",
        "2024-09-09T10:30:00+01:00[Europe/Paris]",
        "2024-09-09T",
        "20240909",
        "2024-09-09T24:00",
    ],
)
def test_other_texts_are_strings(text: str):
    assert classify_text(text) is T.STRING
    assert parse_temporal(text) is None


@given(st.text())
def test_classification_and_parsing_agree(text: str):
    temporal = parse_temporal(text)
    assert classify_text(text) is (temporal.subtype if temporal else T.STRING)


@given(st.dates())
def test_a_date_is_the_midnight_it_begins_with(day: date):
    expected = datetime(day.year, day.month, day.day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert epoch_ms(day.isoformat()) == expected // timedelta(milliseconds=1)


@given(st.datetimes(timezones=OFFSETS, min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31)))  # noqa: DTZ001
def test_an_instant_is_floored_to_milliseconds_of_utc(moment: datetime):
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert epoch_ms(moment.isoformat()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970", 0),
        ("1970-02", 31 * 86_400_000),
        ("0:00:01.0019", 1001),
        ("1969-12-31T23:59:59.9999", -1),
        ("1970-01-01T01:00+01:00", 0),
        ("1970-01-01T00:00-01:30", 5_400_000),
        ("0000", -62_167_219_200_000),
    ],
)
def test_a_text_without_a_part_means_the_start_of_the_period_in_utc(text: str, expected: int):
    assert epoch_ms(text) == expected


@pytest.mark.parametrize(
    ("operand", "target", "text"),
    [
        ("2031-05-06T23:30:00-05:00", T.LOCAL_DATE_TIME, "2031-05-06T23:30:00"),
        ("2031-05-06T23:30:00.0009Z", T.LOCAL_DATE_TIME, "2031-05-06T23:30:00"),
        ("2031-01-01T00:00Z", T.YEAR, "2031"),
        ("2031-01-01T00:00", T.LOCAL_DATE, "2031-01-01"),
        ("2031-05-01", T.YEAR_MONTH, "2031-05"),
        ("2031-01", T.YEAR, "2031"),
        ("1970-01-01T10:30:00+03:00", T.LOCAL_TIME, "10:30"),
    ],
)
def test_an_operand_cut_to_a_coarser_subtype_without_loss_is_precise(operand: str, target: DataType, text: str):
    resolved = resolve(a_temporal(operand), target)
    assert resolved is not None
    assert (resolved.epoch_ms, resolved.imprecise) == (epoch_ms(text), False)


@pytest.mark.parametrize(
    ("operand", "target", "text"),
    [
        ("2031-05-06T00:00:00.0001Z", T.LOCAL_DATE, "2031-05-06"),
        ("2031-05-06T06:00Z", T.LOCAL_DATE, "2031-05-06"),
        ("2031-05-06", T.YEAR_MONTH, "2031-05"),
        ("2031-05-06", T.YEAR, "2031"),
        ("2031-02-01", T.YEAR, "2031"),
        ("2031-12", T.YEAR, "2031"),
        ("1931-05-06T10:30", T.LOCAL_TIME, "10:30"),
        ("0000-12-31T23:59", T.YEAR, "0000"),
    ],
)
def test_an_operand_cut_with_loss_is_imprecise(operand: str, target: DataType, text: str):
    resolved = resolve(a_temporal(operand), target)
    assert resolved is not None
    assert (resolved.epoch_ms, resolved.imprecise) == (epoch_ms(text), True)


@pytest.mark.parametrize(
    ("operand", "target", "text"),
    [
        ("2031", T.YEAR_MONTH, "2031-01"),
        ("2031", T.ZONED_DATE_TIME, "2031-01-01T00:00Z"),
        ("2031-05", T.LOCAL_DATE, "2031-05-01"),
        ("2031-05-06", T.LOCAL_DATE_TIME, "2031-05-06T00:00"),
        ("2031-05-06T07:00", T.ZONED_DATE_TIME, "2031-05-06T07:00Z"),
        ("10:30", T.LOCAL_DATE_TIME, "1970-01-01T10:30"),
        ("10:30", T.ZONED_DATE_TIME, "1970-01-01T10:30Z"),
    ],
)
def test_an_operand_is_filled_up_to_a_finer_subtype(operand: str, target: DataType, text: str):
    resolved = resolve(a_temporal(operand), target)
    assert resolved is not None
    assert (resolved.epoch_ms, resolved.imprecise) == (epoch_ms(text), False)


@pytest.mark.parametrize(
    ("operand", "target"),
    [
        *(("10:30", target) for target in (T.LOCAL_DATE, T.YEAR_MONTH, T.YEAR)),
        *((operand, T.LOCAL_TIME) for operand in ("2031-05-06", "2031-05", "2031")),
    ],
)
def test_between_dates_and_times_of_day_there_is_no_path(operand: str, target: DataType):
    assert resolve(a_temporal(operand), target) is None


@given(st.datetimes(timezones=OFFSETS, min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31)))  # noqa: DTZ001
def test_cutting_in_one_go_and_step_by_step_end_at_the_same_instant(moment: datetime):
    text = moment.isoformat()
    for target, cut in ((T.LOCAL_DATE, text[:10]), (T.YEAR_MONTH, text[:7]), (T.YEAR, text[:4])):
        resolved = resolve(a_temporal(text), target)
        assert resolved is not None
        assert resolved.epoch_ms == epoch_ms(cut)


@pytest.mark.parametrize("subtype", sorted(TEMPORAL_TYPES))
def test_an_operand_of_the_same_subtype_is_taken_as_it_is(subtype: DataType):
    text = {
        T.ZONED_DATE_TIME: "2031-05-06T08:00:00.1239+02:00",
        T.LOCAL_DATE_TIME: "2031-05-06T08:00:00.1239",
        T.LOCAL_DATE: "2031-05-06",
        T.LOCAL_TIME: "08:00:00.1239",
        T.YEAR_MONTH: "2031-05",
        T.YEAR: "2031",
    }[subtype]
    resolved = resolve(a_temporal(text), subtype)
    assert resolved is not None
    assert (resolved.epoch_ms, resolved.imprecise) == (epoch_ms(text), False)

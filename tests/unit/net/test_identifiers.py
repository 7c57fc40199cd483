"""Identifiers: one number, two spellings (docs/reference/steps.md#conventions, docs/reference/steps.md#as-entities)."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.net import Moment, format_ulid, parse_ulid, ulid_to_uuid, uuid_to_ulid
from statewright.net.marking import IdGenerator

NUMBERS = st.integers(min_value=0, max_value=2**128 - 1)


@given(NUMBERS)
def test_a_ulid_is_read_back_as_the_number_it_writes(number: int):
    assert parse_ulid(format_ulid(number)) == number
    assert parse_ulid(format_ulid(number).lower()) == number


@given(NUMBERS, NUMBERS)
def test_ulids_sort_as_their_numbers_do(first: int, second: int):
    assert (format_ulid(first) < format_ulid(second)) == (first < second)


@given(NUMBERS)
def test_a_ulid_and_the_uuid_of_the_same_bits_translate_into_each_other(number: int):
    uuid = str(UUID(int=number))
    assert ulid_to_uuid(format_ulid(number)) == uuid
    assert uuid_to_ulid(uuid) == format_ulid(number)


def test_the_first_characters_of_a_ulid_are_the_time():
    assert format_ulid(1_469_918_176_385 << 80).startswith("01ARYZ6S41")


@pytest.mark.parametrize(
    "text",
    [
        *("", "01ARYZ6S41", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01ARYZ6S41TSV4RRFFQ69G5FAU", "ü" * 26),
        *("+1ARYZ6S41TSV4RRFFQ69G5FAV", " 1ARYZ6S41TSV4RRFFQ69G5FAV", "01ARYZ6S41TSV4RRFFQ69G5F_V"),  # for int they are
    ],
)
def test_what_is_no_ulid_has_no_number(text: str):
    assert parse_ulid(text) is None
    assert ulid_to_uuid(text) is None


def test_a_mint_counts_up_from_the_first_id_of_its_moment():
    mint = IdGenerator(Moment(at=0, first_id=41))
    assert [parse_ulid(mint()), parse_ulid(mint())] == [41, 42]

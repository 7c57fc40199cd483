"""Texts decoded and encoded in pieces: the same values, and the same refusals, as in one go."""

import json
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.codec import MalformedJson, decode, decode_large, decode_stored, encode, encode_large
from statewright.jsonval.pieces import decode_pieces, encode_pieces
from statewright.jsonval.values import JsonValue

SCALARS = st.sampled_from([1, -7, "a,b", 'q"\\x', "\\", None, True, 'é,"[{', "", "7,7", "]}"])
NAMES = st.sampled_from(["", "a", "b,", 'c"', "[", "é", "{]", "\\", "n:"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=40
)
SIZES = st.integers(1, 60)
DEFECTS = st.sampled_from(
    [
        ",",
        "}",
        "]",
        "{",
        "[",
        '"',
        "\\",
        ":",
        "x",
        "1e9999",
        '"\\u0000"',
        '"\\ud800"',
        ',"a":1,"a":2',
        "NaN",
        "\xff",
        "\n",
    ]
)


def outcome(read: Callable[[], object]) -> object:
    try:
        return read()
    except MalformedJson as malformed:
        return str(malformed)


@given(value=VALUES, size=SIZES, indent=st.sampled_from([None, 1]))
def test_a_text_has_the_same_value_in_pieces_of_any_size(value: JsonValue, size: int, indent: int | None):
    text = json.dumps(value, indent=indent, ensure_ascii=False).encode()
    found, compact = decode_large(text, size)
    assert found == value
    assert decode(compact) == value
    assert list(map(repr, _names(found))) == list(map(repr, _names(value)))


def _names(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(name for member in value.values() for name in _names(member))]
    return [name for item in value for name in _names(item)] if isinstance(value, list) else []


@given(value=VALUES, size=SIZES, defect=DEFECTS, at=st.integers(0, 400))
def test_a_malformed_text_is_refused_in_the_same_words(value: JsonValue, size: int, defect: str, at: int):
    text = json.dumps(value, ensure_ascii=False)
    at %= len(text) + 1
    broken = (text[:at] + defect + text[at:]).encode("latin-1" if defect == "\xff" else "utf-8", errors="replace")
    assert outcome(lambda: decode_large(broken, size)[0]) == outcome(lambda: decode(broken))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":[1,2,3,{"b":1,"c":2,"b":3}]}', "duplicate member at a[3].b"),
        ('{"a":1,"b":[1,2,3],"c":4,"a":5}', "duplicate member at a"),
        ('[[1,2],[3,4],[5,{"x":[6,7e9999]}]]', "number has an exponent outside ±6144 at [2][1].x[1]"),
        ("[1,2,3\n,4,,5]", "Expecting value (line 2, column 4)"),
        ("[1,2,3,4,5", "Expecting ',' delimiter (line 1, column 11)"),
        ("[1,2,3,4,5] 6", "Extra data (line 1, column 13)"),
        ("[1,2],3", "Extra data (line 1, column 6)"),
        ("[1,2,3,4,]", "Expecting value (line 1, column 10)"),
        ('["é","é","é","\\u0000"]', "string contains a NUL character at [3]"),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 7, 13, 30])
def test_a_refusal_names_the_place_in_the_whole_text(text: str, message: str, size: int):
    assert outcome(lambda: decode_large(text.encode(), size)) == message


@given(value=VALUES, size=SIZES)
def test_a_stored_text_has_the_same_value_in_pieces(value: JsonValue, size: int):
    text = encode(value)
    assert decode_pieces(text, lambda piece: decode_stored(piece.text), size) == value


@given(values=st.lists(VALUES, max_size=4), copies=st.sampled_from([1, 300, 3000]))
def test_a_value_is_encoded_in_pieces_as_in_one_go(values: list[JsonValue], copies: int):
    value: JsonValue = {"list": values * copies, "object": {f"k{n}": item for n, item in enumerate(values * copies)}}
    assert encode_large(value) == encode(value)


@pytest.mark.parametrize("number", [int("7" * 4_000), -int("7" * 4_000), Decimal("1." + "3" * 3_999)])
def test_long_numbers_are_encoded_a_few_at_a_time(number: int | Decimal):
    value: JsonValue = [number for _ in range(500)]
    pieces = [*encode_pieces(value, encode)]
    assert b"".join(pieces) == encode(value)
    assert max(map(len, pieces)) < (20 if isinstance(number, int) else 200) * 4_000


def test_nesting_is_limited_across_pieces():
    inside = "[" * 250 + "1," * 5 + "1" + "]" * 250
    assert decode_large(f"[[[[[[{inside},{inside}]]]]]]".encode(), 100)
    with pytest.raises(MalformedJson, match="nested more than 256 levels deep"):
        decode_large(f"[[[[[[[{inside},{inside}]]]]]]]".encode(), 100)


def test_large_exponents_are_counted_over_all_pieces():
    text = "[" + ",".join(["1e6000"] * 2000) + "]"
    with pytest.raises(MalformedJson, match="digits together"):
        decode_large(text.encode(), 500)

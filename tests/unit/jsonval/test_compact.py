"""White space that means nothing goes, everything else stays (docs/reference/entities.md#read-a-message)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.codec import compact_json


def compact(text: str, size: int = 64) -> str:
    return b"".join(compact_json(memoryview(text.encode()), size=size)).decode()


@pytest.mark.parametrize("size", [2, 3, 5, 8, 64])
@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (' { "b" : 1 ,\n\t"a" : [ 1 , 2 ] }\r\n', '{"b":1,"a":[1,2]}'),
        ('"a  b\\" c  "', '"a  b\\" c  "'),
        ('[ "\\\\" , " " ]', '["\\\\"," "]'),
        ('[ "\\\\\\" " , "\\u0020 " ]', '["\\\\\\" ","\\u0020 "]'),
        ("  1.50e+0  ", "1.50e+0"),
        ('"é \u2028 😀"', '"é \u2028 😀"'),
        ("{ }", "{}"),
    ],
)
def test_only_insignificant_white_space_goes(written: str, kept: str, size: int) -> None:
    assert compact(written, size) == kept


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet=' "\\\n\tabé', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(' "\\x', max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(values, st.integers(2, 40), st.sampled_from([None, 1, "\t", " \r\n "]))
def test_any_cut_gives_the_same_text(value: object, size: int, indent: int | str | None) -> None:
    pieces = list(compact_json(memoryview(json.dumps(value, indent=indent, ensure_ascii=False).encode()), size=size))
    assert b"".join(pieces).decode() == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert all(0 < len(piece) <= size for piece in pieces)


def test_white_space_alone_makes_no_pieces() -> None:
    assert list(compact_json(memoryview(b" " * 1000 + b"1" + b"\n" * 1000), size=64)) == [b"1"]

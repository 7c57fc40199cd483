"""What the codec accepts, what it refuses, and where it says the defect is."""

import re
import sys
import time
from decimal import Decimal

import msgspec
import pytest

from statewright.jsonval.codec import (
    MAX_EXPANSION,
    MalformedJson,
    decode,
    decode_stored,
    encode,
    find_text_behind,
)


def refusal_of(text: bytes | str) -> MalformedJson:
    with pytest.raises(MalformedJson) as refusal:
        decode(text)
    return refusal.value


def nested(levels: int, inner: str = "1") -> str:
    return "[" * levels + inner + "]" * levels


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"null", None),
        (b" true\n", True),
        (b'"\\ud83d\\ude00 \\u00e9 \\/ \xc3\xa9"', "😀 é / é"),
        (b'{"":{"a b":[]}}', {"": {"a b": []}}),
        (b"-0", 0),
        (b"9007199254740993", 9007199254740993),
        (b"0.1000", Decimal("0.1000")),
        (b"1e2", Decimal("1E+2")),
        (b"1E+6144", Decimal("1E+6144")),
        (b"1e-6144", Decimal("1E-6144")),
        (b"1e-000000000000000000006144", Decimal("1E-6144")),
    ],
)
def test_a_document_is_decoded_with_every_digit(text: bytes, value: object):
    decoded = decode(text)
    assert (decoded, type(decoded)) == (value, type(value))


def test_a_decimal_keeps_the_digits_it_was_written_with():
    assert str(decode(b"1.50")) == "1.50"


def test_a_text_is_decoded_like_its_utf8_bytes():
    assert decode('{"ä":"ö"}') == decode('{"ä":"ö"}'.encode()) == {"ä": "ö"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "the document is empty"),
        (b" \n", "the document is empty"),
        (b"1 2", "Extra data (line 1, column 3)"),
        (b'{"a":1}}', "Extra data (line 1, column 8)"),
        (b"[1,]", "Expecting value (line 1, column 4)"),
        (b'{"a":tru}', "Expecting value (line 1, column 6)"),
        (b"01", "Extra data (line 1, column 2)"),
        (b"1.", "Extra data (line 1, column 2)"),
        (b"+1", "Expecting value (line 1, column 1)"),
        (b"'a'", "Expecting value (line 1, column 1)"),
        (b'"a\tb"', "Invalid control character at (line 1, column 3)"),
        (b'"a\x00b"', "Invalid control character at (line 1, column 3)"),
        (b"\xef\xbb\xbf1", "a byte order mark is no JSON (line 1, column 1)"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        (b'"\xed\xa0\x80"', "not UTF-8 at byte 1"),
    ],
)
def test_text_that_is_no_json_is_refused(text: bytes, reason: str):
    refusal = refusal_of(text)
    assert (refusal.reason, refusal.path, str(refusal)) == (reason, "", reason)


@pytest.mark.parametrize(
    ("text", "reason", "path"),
    [
        ('{"a":1,"a":2}', "duplicate member", "a"),
        ('{"a":1,"b":2,"a":1}', "duplicate member", "a"),
        ('{"a":1,"\\u0061":2}', "duplicate member", "a"),
        ('{"lines":[{"sku":1},{"sku":1,"sku":2}]}', "duplicate member", "lines[1].sku"),
        ('{"a":{"x":1,"x":2},"a":1}', "duplicate member", "a"),
        ('{"a":"\\u003a","b":1,"b":2}', "duplicate member", "b"),  # the escape makes up for the colon that is lost
        ('{"a":"\\u003A","b":1,"b":2}', "duplicate member", "b"),
        ('{"a":"\\u0000"}', "string contains a NUL character", "a"),
        ('["ok","a\\u0000b"]', "string contains a NUL character", "[1]"),
        ('{"a":{"\\u0000":1}}', "member name contains a NUL character", "a"),
        ('{"a":["\\ud800"]}', "string contains a lone surrogate", "a[0]"),
        ('{"a":["\\udc00 x"]}', "string contains a lone surrogate", "a[0]"),
        ('{"a":["\\ud83d\\u0041"]}', "string contains a lone surrogate", "a[0]"),
        ('{"a":{"\\ud800":1}}', "member name contains a lone surrogate", "a"),
        ('{"a":"\ud800"}', "string contains a lone surrogate", "a"),
        ('{"a":1e6145}', "number has an exponent outside ±6144", "a"),
        ('{"a":-1.5E-6145}', "number has an exponent outside ±6144", "a"),
        ('{"a":0e6145}', "number has an exponent outside ±6144", "a"),
        ('{"a":1e99999999999999999999}', "number has an exponent outside ±6144", "a"),
        ('{"a":1e-99999999999999999999}', "number has an exponent outside ±6144", "a"),
        ('{"a":[NaN]}', "NaN is not JSON", "a[0]"),
        ('{"a":-Infinity}', "-Infinity is not JSON", "a"),
        ('{"a":' + nested(256) + "}", "nested more than 256 levels deep", "a" + "[0]" * 255),
    ],
)
def test_content_that_cannot_be_kept_is_refused_with_its_path(text: str, reason: str, path: str):
    refusal = refusal_of(text)
    assert (refusal.reason, refusal.path, str(refusal)) == (reason, path, f"{reason} at {path}")


def test_a_defect_in_the_outermost_value_has_no_path():
    assert str(refusal_of("1e7000")) == "number has an exponent outside ±6144"


def test_the_first_of_several_defects_is_reported():
    assert refusal_of('{"a":[1,"\\u0000"],"b":1e9999}').path == "a[1]"


@pytest.mark.parametrize("text", ['"\\\\u0000"', '"u0000 \\n"', '"\\u003a"', '{"\\u003A":":"}', '"a:b\\"\\":"'])
def test_texts_that_only_look_suspicious_are_accepted(text: str):
    assert decode(encode(decode(text))) == decode(text)


def test_256_levels_of_nesting_are_accepted_and_257_are_not():
    assert decode(nested(256)) == decode(encode(decode(nested(256))))
    assert refusal_of(nested(257)).reason == "nested more than 256 levels deep"


def test_brackets_do_not_count_as_nesting_when_they_stand_side_by_side():
    text = "[" + ",".join(["[[]]"] * 1000) + "]"
    assert len(encode(decode(text))) == len(text)


def test_bottomless_nesting_is_refused_without_exhausting_the_stack():
    assert refusal_of("[" * 1_000_000).reason == "nested more than 256 levels deep"
    assert refusal_of('{"a":' * 1_000_000).reason == "nested more than 256 levels deep"


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("digits", [3999, 4000])
def test_numbers_of_thousands_of_digits_are_exact(digits: int, sign: str):
    for literal in (f"{sign}{'7' * digits}", f"{sign}0.{'7' * digits}", f"{sign}{'7' * (digits - 9)}.777777777"):
        text = f'{{"n":{literal}}}'.encode()
        assert encode(decode(text)) == text


LONGER = "number has more than 4000 significant digits"
OUTSIDE = "number has an exponent outside ±6144"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("7" * 4001, LONGER),
        ("-" + "7" * 4300, LONGER),
        ("7" * 4301, LONGER),
        ("1" + "0" * 4000 + "1", LONGER),
        ("7" * 10_000_000, LONGER),
        ("0." + "7" * 4001, LONGER),
        ("7" * 4001 + "e1", LONGER),
        ("0.5" + "0" * 4000, LONGER),
        ("1" + "0" * 6145, OUTSIDE),
        ("12345e6144", OUTSIDE),
        ("0." + "0" * 6144 + "1", OUTSIDE),
        ("0.01e-6143", OUTSIDE),
        ("0.0e-6144", OUTSIDE),
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.parametrize("filler", ["", "x" * 5000, '9" ,"8', "7," * 3000 + "7"], ids=len)
def test_numbers_beyond_the_limits_are_refused_wherever_they_stand(text: str, reason: str, filler: str):
    before = f"[{filler}]" if filler.endswith(",7") else f'"{filler}"' if filler != '9" ,"8' else f'["{filler}"]'
    refusal = refusal_of(f'{{"a":{before},"b":[{text}]}}')
    assert (refusal.reason, refusal.path) == (reason, "b[0]")


@pytest.mark.parametrize("text", ["1" + "0" * 6144, "-1e6144", "0.01e-6142", "1." + "0" * 3999, "12.5e6143", "0e6144"])
def test_what_a_number_is_read_as_can_be_read_again(text: str):
    value = decode(text)
    assert decode(encode(value)) == value


def test_what_the_database_makes_of_a_number_can_be_read_again():
    """It writes all digits, and no exponent."""
    for literal in ("1e6144", "1e-6144", "9" * 4000 + "e2144", "0." + "7" * 4000 + "e-6143"):
        expanded = format(Decimal(literal), "f")
        assert decode(expanded) == decode_stored(expanded) == Decimal(literal)


@pytest.mark.parametrize("literal", ["1e6144", "-1e-6144", "7e6000"])
def test_numbers_that_expand_to_more_than_the_database_gives_out_are_refused(literal: str):
    many = MAX_EXPANSION // 6000
    assert decode(f"[{','.join([literal] * (many * 9 // 10))}]")
    refusal = refusal_of(f"[{','.join([literal] * (many * 11 // 10))}]")
    assert refusal.reason == f"numbers with large exponents have more than {MAX_EXPANSION} digits together"


def test_many_of_the_longest_numbers_cost_their_length():
    text = b"[" + b",".join([b"7" * 4000] * 200) + b"]"
    taken = time.process_time()
    assert encode(decode(text)) == text
    assert time.process_time() - taken < 5  # looked for digit by digit, it would be minutes


def test_texts_that_look_like_exponents_expand_to_nothing():
    text = encode(["E+"] * 100_000)
    assert encode(decode(text)) == text


@pytest.mark.parametrize(
    "text", ["7" * 131_072, "0." + "3" * 16_383, "[1e6145]", '{"a":1e-7000,"b":' + "7" * 5000 + "}"]
)
def test_what_was_stored_by_older_rules_can_be_read(text: str):
    assert decode_stored(encode(decode_stored(text))) == decode_stored(text)


def test_a_computed_integer_is_encoded_whatever_its_length():
    assert encode([10**5000, {"n": -(10**5000)}]) == b'[1%b,{"n":-1%b}]' % (b"0" * 5000, b"0" * 5000)
    assert sys.get_int_max_str_digits() == sys.int_info.default_max_str_digits


def test_names_are_encoded_in_order_of_their_utf8_bytes_at_every_level():
    assert encode({"b": {"z": 1, "a": [{"y": 1, "x": 2}]}, "😀": 1, "\uffff": 2, "a": 3}) == (
        '{"a":3,"b":{"a":[{"x":2,"y":1}],"z":1},"\uffff":2,"😀":1}'.encode()
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(Decimal("1.50"), "1.50"), (Decimal("1E+60"), "1E+60"), (Decimal("-1E-400"), "-1E-400"), (2**64, str(2**64))],
)
def test_numbers_are_encoded_as_literals(value: int | Decimal, text: str):
    assert encode([value]) == f"[{text}]".encode()


def test_no_refusal_shows_a_character_that_could_not_be_sent_back():
    message = str(refusal_of('{"ok":{"\\ud800":{"a":1,"a":2}}}'))
    assert message.encode()
    assert re.search(r" at ok$", message)


def test_a_long_name_above_many_members_costs_its_length_once():
    members = ",".join(f'"k{n}":1' for n in range(50_000))
    text = f'{{"{"n" * 5_000_000}":{{{members},"\\u003a":1,"k0":2}}}}'
    taken = time.process_time()
    with pytest.raises(MalformedJson, match="duplicate member"):
        decode(text)
    with pytest.raises(MalformedJson, match="NUL"):
        decode(text.replace('"k0":2', '"z":"\\u0000"'))
    assert time.process_time() - taken < 10


@pytest.mark.parametrize("text", ['{"a":1}', '  {"a":"\u00e9"}', "1", "[]"])
@pytest.mark.parametrize("behind", ["}", " x", "\n{}", "\x00", "\ufeff"])
def test_where_text_goes_on_behind_a_value_is_told(text: str, behind: str):
    raw = (text + behind).encode()
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(raw)
    end = find_text_behind(caught.value)
    assert end is not None
    assert raw[end:] == behind.strip(" \n").encode()
    assert decode(raw[:end]) == decode(text)


@pytest.mark.parametrize(
    "text", ["", "{", '{"a":NaN}', '{"trailing characters (byte 2)":[]}', '{"a":"trailing characters (byte 2)"}']
)
def test_a_text_with_another_defect_has_nothing_behind_its_value(text: str):
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(text, type=dict[str, int])
    assert find_text_behind(caught.value) is None

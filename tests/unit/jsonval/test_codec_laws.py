"""Laws of the codec over random documents in random spellings."""

import json
from decimal import Decimal
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.jsonval.codec import MalformedJson, canonicalise, decode, encode
from statewright.jsonval.scanning import UnusableNumber, read_number
from statewright.jsonval.values import JsonValue
from tests.unit.jsonval.strategies import names, scalars, spellings, values


def outcome(text: bytes | str) -> object:
    try:
        return decode(text)
    except MalformedJson:
        return MalformedJson


def in_one_go(text: bytes | str) -> object:
    try:
        return canonicalise(text)
    except MalformedJson as refusal:
        return str(refusal)


def one_after_the_other(text: bytes | str) -> object:
    try:
        value = decode(text)
    except MalformedJson as refusal:
        return str(refusal)
    return value, encode(value)


def reference(text: str) -> object:
    """What the document means by the standard library alone, slowly and without any shortcut."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_repetition,
            parse_int=read_number,
            parse_float=read_number,
            parse_constant=_refused,
        )
        json.dumps(value, default=str, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return MalformedJson
    return MalformedJson if "\0" in _characters(value) else value


def _refused(constant: str) -> NoReturn:
    """What the standard library reads beyond JSON; as a text or a name each of them is as good as any other."""
    raise ValueError(constant)


def _without_repetition(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("repetition")
    return dict(pairs)


def _characters(value: JsonValue) -> str:
    if isinstance(value, dict):
        return "".join(name + _characters(member) for name, member in value.items())
    if isinstance(value, list):
        return "".join(map(_characters, value))
    return value if isinstance(value, str) else ""


@given(values())
def test_decoding_undoes_encoding(value: JsonValue):
    assert decode(encode(value)) == value


@given(values())
def test_decoding_keeps_the_type_of_every_number(value: JsonValue):
    assert repr(decode(encode({"v": value}))) == repr({"v": _sorted(value)})


def _sorted(value: JsonValue) -> JsonValue:
    """With names in the order of encoding. An integral Decimal without exponent is written, and so read, as an int."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return int(value) if isinstance(value, Decimal) and str(value).lstrip("-").isdecimal() else value


@given(st.data())
def test_every_spelling_of_a_document_denotes_it(data: st.DataObject):
    value = data.draw(values())
    assert decode(data.draw(spellings(value))) == value


@given(st.data())
def test_a_repeated_name_is_found_wherever_it_hides(data: st.DataObject):
    """In any spelling, at any depth, beside texts full of colons."""
    name, first, second = data.draw(names()), data.draw(values()), data.draw(values())
    pairs = [(name, first), *data.draw(st.dictionaries(names(), scalars(), max_size=3)).items(), (name, second)]
    members = [f"{data.draw(spellings(key))}:{data.draw(spellings(value))}" for key, value in pairs]
    text = "{" + ",".join(data.draw(st.permutations(members))) + "}"
    for _ in range(data.draw(st.integers(0, 3))):
        text = data.draw(st.sampled_from(["[{}]", '[":",{}]', '{{"a:":{}}}', '{{"\\u003a":"b","c":{}}}'])).format(text)
    with pytest.raises(MalformedJson, match=r"^duplicate member"):
        decode(text)


@given(st.data())
def test_shortcuts_decide_as_the_slow_way_does(data: st.DataObject):
    """Documents with a few characters replaced, inserted or removed: mostly defective, sometimes not."""
    text = data.draw(spellings(data.draw(values())))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        patch = data.draw(
            st.sampled_from(["", '"', ":", ",", "{", "}", "0", "e", "\\u0000", "\\ud800", "\\", '"a":1,'])
        )
        text = text[:at] + patch + text[at + data.draw(st.integers(0, 2)) :]
    assert outcome(text) == reference(text)
    assert in_one_go(text) == one_after_the_other(text)


@given(st.binary(max_size=20) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_nothing_but_malformed_json_is_ever_raised(raw: bytes):
    assert outcome(raw) == outcome(raw)
    assert in_one_go(raw) == one_after_the_other(raw)


@given(st.text(st.sampled_from("0123456789+-.eE"), max_size=12))
def test_a_number_literal_outside_a_document_is_read_as_inside_one(text: str):
    try:
        number = read_number(text)
    except UnusableNumber:
        number = None
    assert outcome(text) == (MalformedJson if number is None else number)

"""Documents in YAML 1.2 and JSON: what values they denote, and what is refused before it can cost anything."""

from decimal import Decimal

import pytest

from statewright.jsonval.values import JsonValue
from statewright.playbooks.documents import MAX_DOCUMENT_BYTES, InvalidDocument, read_document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("'true'", "true"),
        ('"1"', "1"),
        ("1:30", "1:30"),
        ("12", 12),
        ("-12", -12),
        ("+7", 7),
        ("007", 7),
        ("0", 0),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1.50", Decimal("1.50")),
        (".5", Decimal("0.5")),
        ("0.", Decimal(0)),
        ("1e3", Decimal("1e3")),
        ("2026-01-01", "2026-01-01"),
        ("1.2.3", "1.2.3"),
        (".", "."),
        ("-", "-x"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("{b: [1, {c: d}]}", {"b": [1, {"c": "d"}]}),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: JsonValue) -> None:
    text = "-x" if text == "-" else text
    found = read_document(f"a: {text}")["a"]
    assert found == value
    assert isinstance(found, bool) is isinstance(value, bool)


def test_names_are_the_text_of_their_scalars() -> None:
    assert read_document("200: a\ntrue: b\n~: c") == {"200": "a", "true": "b", "~": "c"}


def test_json_keeps_every_digit() -> None:
    assert read_document('{"a": 1.0000000000000000000000001}') == {"a": Decimal("1.0000000000000000000000001")}


def test_aliases_stand_for_what_is_anchored() -> None:
    assert read_document("a: &x {n: [1]}\nb: *x\nc: [*x]") == {"a": {"n": [1]}, "b": {"n": [1]}, "c": [{"n": [1]}]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\na: 2", "twice in one mapping.*line 2, column 1"),
        ("a: {b: 1, b: 2}", "twice in one mapping"),
        ('{"a": 1, "a": 2}', "twice in one mapping"),
        ("a: [1", "is no YAML"),
        ("a: b: c", r"is no YAML.*line 1, column 5"),
        ("- 1", "must be a mapping"),
        ("", "must be a mapping"),
        ("a: 1\n---\nb: 2", "second document"),
        ("a: !!python/object:os.system x", "has the tag"),
        ("a: !!python/object/apply:os.system ['true']", "has the tag"),
        ("a: !x 1", "has the tag"),
        ("a: !!int x", "has the tag"),
        ("a: .inf", "infinite"),
        ("a: .NaN", "infinite"),
        ("a: 1e99999", "exponent"),
        ("<<: {a: 1}", "merges by <<"),
        ("? [a]\n: 1", "for a name"),
        ("a: *x", "not defined"),
        ("a: &x [*x]", "not defined"),
        ('a: "\\0"', "NUL"),
        ('a: "\\ud800"', "is no YAML"),
        ("a: \x01", "is no YAML"),
        ("a: " + "[" * 65 + "]" * 65, "nested deeper"),
        ('{"a": ' + "[" * 65 + "]" * 65 + "}", "nested deeper"),
        ("a: " + "x" * MAX_DOCUMENT_BYTES, "bytes"),
        ("a:" + " 1\n" * 1 + "b: [" + "1," * 200_000 + "]", "more than 200000 values"),
        (b"a: \xff", "UTF-8"),
    ],
)
def test_what_is_no_document_is_refused(text: str | bytes, told: str) -> None:
    with pytest.raises(InvalidDocument, match=told):
        read_document(text)


def test_aliases_count_as_what_they_repeat() -> None:
    """Nine levels of nine aliases would be 9**9 values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(InvalidDocument, match="aliases repeat included"):
        read_document("\n".join(lines))


def test_aliases_of_long_text_count_by_their_length() -> None:
    with pytest.raises(InvalidDocument, match="aliases repeat included"):
        read_document(f"a: &a {'x' * 64_000}\nb: [{', '.join(['*a'] * 1_000)}]")


def test_aliases_do_not_nest_deeper_than_is_allowed() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 80))]
    with pytest.raises(InvalidDocument, match="nested deeper"):
        read_document("\n".join(lines))


def test_a_long_row_of_zeros_is_read_in_linear_time() -> None:
    assert read_document("a: " + "0" * 900_000 + "x") == {"a": "0" * 900_000 + "x"}

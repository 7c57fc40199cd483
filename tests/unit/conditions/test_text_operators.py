"""Text operators, LIKE and regular expressions (docs/reference/conditions.md#text-operators,
docs/reference/conditions.md#matches_pattern).
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.conditions.texts import (
    MAX_LIKE_WILDCARDS,
    compile_like_test,
    compile_pattern_test,
    find_like_defect,
    find_pattern_defect,
    fold_text,
    lower_text,
)
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import matching

WORDS = ["Oak", "oak", "OAKEN", "soak", "", "ash"]
NO_STRINGS: list[JsonValue] = [17, True, None, ["Oak"], {"v": "Oak"}]


@pytest.mark.parametrize(
    ("operator", "operand", "expected"),
    [
        ("CONTAINS", "oak", ["oak", "soak"]),
        ("STARTS_WITH", "oa", ["oak"]),
        ("ENDS_WITH", "ak", ["Oak", "oak", "soak"]),
        ("NOT_CONTAINS", "oak", ["Oak", "OAKEN", "", "ash"]),
        ("NOT_STARTS_WITH", "O", ["oak", "soak", "", "ash"]),
        ("NOT_ENDS_WITH", "k", ["OAKEN", "", "ash"]),
        ("IEQUALS", "oAK", ["Oak", "oak"]),
        ("ICONTAINS", "OAK", ["Oak", "oak", "OAKEN", "soak"]),
        ("ISTARTS_WITH", "oA", ["Oak", "oak", "OAKEN"]),
        ("IENDS_WITH", "AK", ["Oak", "oak", "soak"]),
        ("INOT_EQUAL", "OAK", ["OAKEN", "soak", "", "ash"]),
        ("INOT_CONTAINS", "A", [""]),
        ("INOT_STARTS_WITH", "o", ["soak", "", "ash"]),
        ("INOT_ENDS_WITH", "K", ["OAKEN", "", "ash"]),
        ("CONTAINS", "", WORDS),
        ("STARTS_WITH", None, WORDS),
        ("NOT_CONTAINS", None, []),
        ("IEQUALS", None, [""]),
    ],
)
def test_a_text_operator_looks_at_strings_only(operator: str, operand: JsonValue, expected: list[JsonValue]):
    assert matching([*WORDS, *NO_STRINGS], "STRING", operator, operand) == expected


def test_declared_types_have_no_say_in_text_operators():
    for types in ("INTEGER", "BOOLEAN", "NULL", "LOCAL_DATE"):
        assert matching(WORDS, types, "CONTAINS", "oak") == ["oak", "soak"]


def test_an_operand_of_another_kind_is_used_by_its_text():
    assert matching(["a17", "17", "true"], "STRING", "CONTAINS", 17) == ["a17", "17"]
    assert matching(["a17", "true", "untrue"], "STRING", "ENDS_WITH", True) == ["true", "untrue"]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("straße", "STRASSE", False),
        ("straße", "STRAẞE", True),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", True),
        ("İ", "i", False),
        ("ſ", "S", True),
        ("K", "k", True),  # the Kelvin sign
        ("ÅNGSTRÖM", "ångström", True),
        ("ᾳ", "ᾼ", True),
    ],
)
def test_equality_without_case_folds_code_points_one_by_one(one: str, other: str, equal: bool):
    assert (fold_text(one) == fold_text(other)) is equal


def test_lower_case_depends_on_the_code_point_alone():
    assert lower_text("ΟΔΟΣ") == "οδοσ"
    assert lower_text("İX") == "ix"
    assert matching(["ΟΔΟΣ"], "STRING", "IENDS_WITH", "σ") == ["ΟΔΟΣ"]


@given(st.text(), st.text())
def test_lowering_and_folding_work_code_point_by_code_point(one: str, other: str):
    assert lower_text(one) + lower_text(other) == lower_text(one + other)
    assert fold_text(one) + fold_text(other) == fold_text(one + other)
    assert len(lower_text(one)) == len(fold_text(one)) == len(one)


@pytest.mark.parametrize(
    ("glob", "matching_texts", "others"),
    [
        ("ab%", ["ab", "abacus"], ["cab", "AB", "ab\n", "ab\nx"]),
        ("%ab", ["ab", "cab"], ["abc", "\nab"]),
        ("%b%", ["b", "abc", "bb"], ["", "ac", "b\n"]),
        ("a_c", ["abc", "a c", "a😀c"], ["ac", "abbc", "a\nc"]),
        ("", [""], ["a"]),
        ("%", ["", "anything"], ["\n"]),
        ("_", ["a", "é"], ["", "ab", "\n"]),
        (r"5\%", ["5%"], ["50", "5"]),
        (r"a\_b", ["a_b"], ["axb"]),
        (r"a\\b", ["a\\b"], ["a\\\\b"]),
        (r"\\%", ["\\", "\\x"], ["x", "%"]),
        (r"\\\%", ["\\%"], ["\\", "\\x"]),
        (r"\d", [r"\d"], ["7"]),
        ("a\\", ["a\\"], ["a"]),
        ("a.c*[x]^$|(+?){2}", ["a.c*[x]^$|(+?){2}"], ["abc"]),
        ("a.%", ["a.", "a.c"], ["abc"]),
        ("line\nfeed%", ["line\nfeed!"], ["line feed!"]),
        ("%é%", ["née"], ["nee"]),
    ],
)
def test_like_is_an_anchored_glob(glob: str, matching_texts: list[str], others: list[str]):
    test = compile_like_test(glob).holds
    assert [text for text in (*matching_texts, *others) if test(text)] == matching_texts


@given(st.text(alphabet=st.characters(exclude_characters="%_\\", codec="utf-8")))
def test_a_glob_without_wildcards_matches_itself(text: str):
    assert compile_like_test(text).holds(text)
    assert not compile_like_test(text).holds(text + "x")


@given(st.text(alphabet="ab.\n%_\\*"), st.text(alphabet="ab.\n%_\\*"))
def test_an_escaped_text_matches_literally_also_beside_wildcards(text: str, other: str):
    escaped = "".join(f"\\{c}" if c in "%_\\" else c for c in text)
    assert compile_like_test(escaped).holds(text)
    assert compile_like_test(f"{escaped}%").holds(text + other) is ("\n" not in other)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("b+", "abb", False),
        ("a?b+", "abb", True),
        ("a|ab", "ab", True),
        ("a.c", "a\nc", False),
        ("(?s)a.c", "a\nc", True),
        ("(?i)OAK", "oak", True),
        ("oak", "Oak", False),
        ("^oak$", "oak", True),
        (r"\d{2}", "17", True),
        (".", "é", True),
        ("(?i)É", "é", True),
        (r"\Qa.c\E", "a.c", True),
        ("[[:alpha:]]+", "oak", True),
        ("", "", True),
        ("", "x", False),
    ],
)
def test_a_regular_expression_has_to_match_the_whole_string(pattern: str, text: str, expected: bool):
    assert find_pattern_defect(pattern) is None
    assert compile_pattern_test(pattern).holds(text) is expected


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "a++", "(?>a)", "a(", "a)|(b", "[", "a{2000}", r"\Z"]
)
def test_what_is_not_re2_is_refused_with_a_reason(pattern: str):
    assert find_pattern_defect(pattern)


def test_a_pattern_that_would_backtrack_for_years_is_harmless():
    assert not compile_pattern_test("(a+)+b").holds("a" * 10_000)
    assert not compile_like_test("%a" * 50 + "b").holds("a" * 10_000)


@pytest.mark.parametrize("glob", ["%" * 100_000, "%a" * 100_000, "_" * 100_000, "_" * (MAX_LIKE_WILDCARDS + 1)])
def test_a_glob_has_a_thousand_wildcards_at_most(glob: str):
    assert find_like_defect(glob) == "more than 1000 wildcards"


@pytest.mark.parametrize("glob", ["", "a" * 1_000_000, "%a" * MAX_LIKE_WILDCARDS, r"\%" * 100_000])
def test_fewer_wildcards_can_be_matched(glob: str):
    assert find_like_defect(glob) is None
    assert compile_like_test(glob).holds(glob.replace("\\%", "%"))


def test_a_glob_too_long_for_the_engine_is_refused_with_a_reason():
    assert find_like_defect("%" + "a" * 1_000_000)

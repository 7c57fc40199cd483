"""Guards: what they select, and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.flows.guards import GuardTooBroad, MalformedGuard, parse_guard
from statewright.jsonval.values import JsonValue

HOLDING: list[tuple[str, JsonValue]] = [
    ("$", {}),
    ("$.vip", {"vip": False}),
    ("$.vip", {"vip": None}),
    ("$.*", {"a": 1}),
    ("$.*", [0]),
    ("$..x", {"a": [{"x": 1}]}),
    ("$..[0]", {"a": [1]}),
    ("$..*", {"a": 1}),
    ('$["my-key"]', {"my-key": 1}),
    ("$['it\\'s \"so\"']", {'it\'s "so"': 1}),
    ("$['a', 'b']", {"b": 1}),
    ("$[0:1]", [1]),
    ("$[::2]", [1]),
    ("$[-1]", [1]),
    ("$[@.k]", {"k": "v", "v": 1}),
    ("$[@.k]", {"k": "v", "v": 0}),
    ("$.and", {"and": 1}),
    ("$.true", {"true": 1}),
    ("$[?(@.status=0)]", {"status": 0}),
    ("$[?(@.status==0.0)]", {"status": 0}),
    ("$[?(@.a != 1)]", {"a": 2}),
    ("$[?(@.a < 2)]", {"a": 1.5}),
    ("$[?(@.a >= -1e2)]", {"a": -100}),
    ("$[?(not @.a)]", {}),
    ("$[?(!@.a && true)]", {}),
    ("$[?(@.not)]", {"not": 1}),
    ("$[?((@.a || @.b) && !@.c)]", {"b": 1}),
    ("$[*][?(@.n>1)]", [{"n": 1}, {"n": 2}]),
    ("$[?($.x = @.y)]", {"x": [1, {"a": 2}], "y": [1, {"a": 2.0}]}),
    ("$[?(@.a = [1, 2])]", {"a": [1, 2]}),
    ('$[?(@.a = {"b": null})]', {"a": {"b": None}}),
    ("$[?(@.items[*] = 3)]", {"items": [1, 2, 3]}),
    ("$[?(@.items.length() >= 2)]", {"items": [1, 2]}),
    ("$[?(@.s.substring(1, 3) = 'bc')]", {"s": "abcd"}),
    ("$[?(@.s.charAt(0) = 'a')]", {"s": "abcd"}),
    ("$[?(@.s.charAt($.n) = 'b')]", {"s": "abcd", "n": 1}),
    ("$[?(@.keys() = ['a'])]", {"a": 1}),
    ("$[?(@.values() = [1])]", {"a": 1}),
    ("$[?(@.entries() = [['a', 1]])]", {"a": 1}),
    ("$[keys()]", {"a": 1}),
    ("$[?(@.a or @.b and @.c)]", {"b": 1, "c": 1}),
]

FAILING: list[tuple[str, JsonValue]] = [
    ("$.vip", {}),
    ("$.vip", [{"vip": 1}]),
    ("$.*", "text"),
    ("$[0]", {"0": 1}),
    ("$[5]", [1]),
    ("$[-2]", [1]),
    ("$['0']", [1]),
    ("$[0:1]", "text"),
    ("$[?(@.status=0)]", {"status": 1}),
    ("$[?(@.n>1)]", [{"n": 2}]),
    ("$[?(@.a != 1)]", {}),
    ("$[?(@.a = true)]", {"a": 1}),
    ("$[?(@.a < 2)]", {"a": True}),
    ("$[?(@.a < 'b')]", {"a": "a"}),
    ("$[?(false)]", {}),
    ("$[?(@.a or @.b and @.c)]", {"a": 1}),
    ("$[?(@.x.length() = 1)]", {"x": {"a": 1}}),
    ("$[?(@.s.charAt(9))]", {"s": "abc"}),
]


@pytest.mark.parametrize(("text", "value"), HOLDING)
def test_a_guard_holds_when_it_selects_anything(text: str, value: JsonValue) -> None:
    assert parse_guard(text).holds(value)


@pytest.mark.parametrize(("text", "value"), FAILING)
def test_a_guard_fails_when_it_selects_nothing(text: str, value: JsonValue) -> None:
    assert not parse_guard(text).holds(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "character 1"),
        ("a", "character 1"),
        ("$[?(", "unexpected text"),
        ("$[?(@.a ='x)]", "unexpected text"),
        ("$.foo()", "there is no function foo"),
        ("$.charAt()", "charAt takes 1 arguments"),
        ("$[1:2:0]", "must not be 0"),
        ("$[99999999999]", "too large"),
        ("$[?(@.a = 1e99999)]", "invalid number"),
        ('$["\\u0000"]', "invalid string"),
        (f"$[?({'(' * 40}@.a{')' * 40})]", "nested more than 32"),
        (f"$[?({'not ' * 40}@.a)]", "nested more than 32"),
        (f"$.{'a' * 5000}", "more than 4096 characters"),
    ],
)
def test_what_is_no_guard_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(MalformedGuard, match=reason):
        parse_guard(text)


def test_and_beside_or_is_noticed_unless_there_are_brackets() -> None:
    assert parse_guard("$[?(@.a and @.b or @.c)]").mixes_operators
    assert not parse_guard("$[?(@.a and (@.b or @.c))]").mixes_operators
    assert not parse_guard("$[?(@.a or @.b or @.c)]").mixes_operators


@pytest.mark.parametrize("text", ["$..*..*..*", "$[?(@..* = @..*)]"])
def test_a_guard_that_looks_at_too_much_ends(text: str) -> None:
    value: JsonValue = [[[{"n": n}] * 30 for n in range(30)] for _ in range(30)]
    with pytest.raises(GuardTooBroad):
        parse_guard(text).holds({"v": value, "w": 1} if "=" not in text else value)


@given(st.text(alphabet="$@.*[]()?:,'\"=<>!&|andornt 01ab", max_size=30))
def test_any_text_is_a_guard_or_is_refused(text: str) -> None:
    try:
        guard = parse_guard(text)
    except MalformedGuard:
        return
    guard.holds({"a": [1, {"b": "x"}]})

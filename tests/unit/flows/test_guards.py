"""Guards: what they select, and what their evaluation may cost (docs/reference/flows.md#guards)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.flows import InvalidFlow, compile_text
from statewright.flows.guards import GuardTooBroad, MalformedGuard, parse_guard
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue


@pytest.mark.parametrize(
    ("expression", "text", "is_true"),
    [
        ("$[?(@.status=0)]", '{"status":0}', True),
        ("$[?(@.status=0)]", '{"status":1}', False),
        ("$.flag", '{"flag":false}', True),
        ("$.flag", '{"flag":null}', True),
        ("$.flag", "{}", False),
        ("$[*][?(@.n>1)]", '[{"n":1},{"n":2}]', True),
        ("$[?(@.n>1)]", '[{"n":2}]', False),
        ("$[?(@.a=true)]", '{"a":1}', False),
        ("$[?(@.a=1.0)]", '{"a":1}', True),
        ('$[?(@.a=[1,{"x":null}])]', '{"a":[1.0,{"x":null}]}', True),
        ("$[?(@.a!=1)]", "{}", False),
        ("$[?(@.a!=1)]", '{"a":"1"}', True),
        ("$[?(@.a<'b')]", '{"a":"a"}', False),
        ("$[?(@.a>0)]", '{"a":true}', False),
        ("$[?(not @.a)]", "{}", True),
        ("$[?(not not @.a)]", '{"a":0}', True),
        ("$[?(!@.a && !(@.b || @.c))]", "{}", True),
        ("$[?(@.a=1 and @.b=1 or @.c=1)]", '{"a":1,"c":1}', True),
        ("$[?(@.a=1 or @.b=1 and @.c=1)]", '{"a":1}', False),
        ("$[?((@.a=1) or (@.b=1 and @.c=1))]", '{"a":1}', True),
        ("$[?(@.xs[*]=3)]", '{"xs":[1,2,3]}', True),
        ("$[?(@.limit<$.max)]", '{"limit":1,"max":2}', True),
        ("$[?(1)]", "{}", True),
        ("$[?(0)]", "{}", False),
        ("$..n", '{"a":[{"n":1}]}', True),
        ("$..[?(@.n=2)]", '{"a":{"n":2}}', True),
        ("$['my-key']", '{"my-key":1}', True),
        ('$["a\\"b"]', '{"a\\"b":1}', True),
        ("$[@.key]", '{"key":"x","x":1}', True),
        ("$.and", '{"and":1}', True),
        ("$[-1]", "[1]", True),
        ("$[-2]", "[1]", False),
        ("$[1:3]", "[1]", False),
        ("$[::2]", "[1]", True),
        ("$.items.length()", '{"items":[]}', True),
        ("$.items.length()", '{"items":{}}', False),
        ("$[?(@.items.length()>1)]", '{"items":[1,2]}', True),
        ("$[?(@.name.length()=3)]", '{"name":"abc"}', True),
        ("$[?(@.keys()=['a'])]", '{"a":1}', True),
        ("$.entries()[0][?(@='a')]", '{"a":1}', False),
        ("$[?(@.name.substring(1,2)='b')]", '{"name":"abc"}', True),
        ("$[?(@.name.charAt(5)='b')]", '{"name":"abc"}', False),
    ],
)
def test_a_guard_is_true_when_it_selects_anything(expression: str, text: str, is_true: bool):
    assert parse_guard(expression).holds(decode(text)) is is_true


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", r"unexpected end at character 1; expected \$"),
        ("$[?(", "unexpected end at character 5; expected"),
        ("$.", r"unexpected end at character 3; expected \*, a name"),
        ("x", r"unexpected x at character 1; expected \$"),
        ("$[?(@.a=)]", r"unexpected \) at character 9; expected"),
        ("$[::0]", "must not be 0"),
        ("$.foo()", "there is no function foo"),
        ("$.charAt()", "charAt takes 1 arguments"),
        ("$[99999999999]", "too large"),
        ("$[?(@.a=1e9999)]", "invalid number"),
        ('$["\\u0000"]', "invalid string"),
        ("$" + "[$" * 33 + "]" * 33, "nested more than 32 deep"),
        ("$." + "a" * 5_000, "more than 4096 characters"),
    ],
)
def test_what_is_no_guard_is_refused_with_a_reason(expression: str, reason: str):
    with pytest.raises(MalformedGuard, match=reason):
        parse_guard(expression)


def test_and_beside_or_without_brackets_is_noticed():
    assert parse_guard("$[?(@.a or @.b and @.c)]").mixes_operators
    assert not parse_guard("$[?((@.a or @.b) and @.c)]").mixes_operators
    assert not parse_guard("$[?(@.a or @.b or @.c)]").mixes_operators


@pytest.mark.parametrize("text", ["$..*..*..never", "$[?(@..* = @.never..* or @..* = 'never')]", "$[?(@..keys() = 1)]"])
def test_a_guard_that_looks_at_too_much_ends(text: str):
    value: JsonValue = [[[{"n": n}] * 30 for n in range(30)] for _ in range(30)]
    with pytest.raises(GuardTooBroad):
        parse_guard(text).holds(value)


def test_equality_of_long_arrays_counts_what_it_looks_at():
    value: JsonValue = {"one": [[0] * 1_000] * 200, "other": [[0] * 999 + [1]] * 200}
    with pytest.raises(GuardTooBroad):
        parse_guard("$[?(@.one[*] = @.other[*])]").holds(value)


@pytest.mark.parametrize("test", ["@.s = @.t", "@.s.substring(0) = 'x'"])
def test_long_texts_count_by_their_length(test: str):
    value: JsonValue = {"s": "x" * 5_000_000, "t": "x" * 4_999_999 + "y"}
    assert not parse_guard(f"$[?({test})]").holds(value)
    with pytest.raises(GuardTooBroad):
        parse_guard("$[?(" + " or ".join([test] * 100) + ")]").holds(value)


def test_a_path_ends_with_the_first_value_it_selects():
    value: JsonValue = [[{"n": 1}] * 1_000] * 1_000
    assert parse_guard("$..*").holds(value, limit=10)
    assert parse_guard("$[*][*][?(@.n = 1 or @..never)]").holds(value, limit=10)


def test_the_whole_input_is_found_from_any_depth():
    assert parse_guard("$" + "..[?(1)]" * 450 + "[?($.a)]").holds({"a": 1})


def test_a_defect_has_its_place_and_what_could_stand_there():
    with pytest.raises(MalformedGuard) as refused:
        parse_guard("$[?(@.a\n  = =)]")
    assert (refused.value.offset, refused.value.piece) == (12, "=")
    assert {"@", "a number", "a text in quotes", "true"} <= set(refused.value.expected)
    with pytest.raises(InvalidFlow) as located:
        compile_text("A → ? `$[?(@.a\n  = =)]` B")
    assert (located.value.position.line, located.value.position.column, located.value.piece) == (2, 5, "=")


LONG = ["$[?(" + "not " * 1_000 + "@.a)]", "$" + ".a" * 2_000, "$[?(" + "@.a or " * 500 + "@.a)]"]


@pytest.mark.parametrize("text", LONG)
def test_long_guards_are_no_trouble(text: str):
    assert parse_guard(text).holds({"a": 1}) is not text.startswith("$.")


def test_what_stands_in_texts_counts_for_nothing():
    assert parse_guard("$[?(@.a = '" + "(" * 40 + "')]").holds({"a": "(" * 40})
    assert parse_guard("$['it\\'s \"so\"']").holds({'it\'s "so"': 1})


@given(st.text(alphabet="$@.*[]()?:,'\"=<>!&|andornt 01ab", max_size=30))
def test_any_text_is_a_guard_or_is_refused(text: str):
    try:
        guard = parse_guard(text)
    except MalformedGuard:
        return
    guard.holds({"a": [1, {"b": "x"}]})

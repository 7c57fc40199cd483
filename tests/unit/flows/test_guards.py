"""Guards: what they select, and what their evaluation may cost (docs/reference/flows.md#guards)."""

import pytest

from statewright.flows.guards import BadGuard, GuardTooCostly, parse_guard, select, selects
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
    assert selects(parse_guard(expression), decode(text)) is is_true


def test_descendants_come_depth_first_with_the_value_itself():
    assert select(parse_guard("$..[?(@.n)]"), {"n": 1, "a": {"n": 2}, "b": [{"n": 3}]}) == [
        {"n": 1, "a": {"n": 2}, "b": [{"n": 3}]},
        {"n": 2},
        {"n": 3},
    ]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "it ends too early"),
        ("$[?(", "it ends too early"),
        ("$.", "it ends too early"),
        ("x", "unexpected 'x' at character 1"),
        ("$[?(@.a=)]", "unexpected ')]' at character 9"),
        ("$[::0]", "the step of a slice is 0"),
        ("$.a.foo()", "unknown function foo"),
        ("$[99999999999999999999]", "index 99999999999999999999 is too large"),
        ("$" + "[$" * 65 + "]" * 65, "brackets are nested more than 64 deep"),
        ("$." + "a" * 10_000, "it has more than 10000 characters"),
        ("$[?(@.a=1e9999)]", "exponent"),
    ],
)
def test_what_is_no_guard_is_refused_with_a_reason(expression: str, reason: str):
    with pytest.raises(BadGuard) as refused:
        parse_guard(expression)
    assert reason in str(refused.value)


def test_and_beside_or_without_brackets_is_noticed():
    assert parse_guard("$[?(@.a or @.b and @.c)]").is_mixed
    assert not parse_guard("$[?((@.a or @.b) and @.c)]").is_mixed
    assert not parse_guard("$[?(@.a or @.b or @.c)]").is_mixed


def test_a_guard_that_looks_at_too_much_is_cut():
    value: JsonValue = 1
    for _ in range(4):
        value = [value] * 30
    with pytest.raises(GuardTooCostly):
        selects(parse_guard("$..*..*"), value)


def test_a_long_chain_of_negations_is_no_trouble():
    assert selects(parse_guard("$[?(" + "not " * 2_000 + "@.a)]"), {"a": 1})

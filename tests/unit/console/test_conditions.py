"""The condition builder loses nothing: neither digits, nor what it does not know, nor the shape of a condition."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.console.conditions import (
    EVERYTHING,
    LIFECYCLE_FIELDS,
    MAX_DEPTH,
    MAX_GUESSED,
    MAX_GUESSED_CHARS,
    MAX_UNKNOWN,
    OPERATORS,
    PRESENCE,
    Condition,
    Group,
    Lifecycle,
    MalformedQuery,
    Simple,
    Verbatim,
    add_part,
    describe_condition,
    find_nearest_path,
    fits_link,
    list_paths,
    list_unknown_paths,
    offer_operators,
    read_condition,
    read_fields,
    read_typed_operand,
    remove_part,
    show_operand,
    write_condition,
    write_fields,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
NUMBERS = st.one_of(
    st.integers().map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})\.[0-9]{1,20}", fullmatch=True),
    st.from_regex(r"[1-9][eE][+-]?[0-9]{1,3}", fullmatch=True),
)
SCALARS = st.one_of(NUMBERS, TEXTS.map(json.dumps), st.sampled_from(["true", "false", "null"]))
OPERANDS = st.one_of(SCALARS, st.lists(SCALARS, max_size=3).map(lambda parts: f"[{','.join(parts)}]"))
VERBATIM = st.sampled_from(
    [
        '{"type":"array","jsonPath":"$.route","values":["OSL",null,1.10]}',
        '{"type":"function","function":{"name":"f"}}',
        '{"type":"simple","jsonPath":"$.a","operatorType":"SOUNDS_LIKE","value":1e2}',
        '{"type":"simple","jsonPath":"$.a","operatorType":"EQUALS","value":1,"later":"\\u0041"}',
        '{"type":"simple","jsonPath":"a\\nb","operatorType":"IS_NULL"}',
        '{"TYPE":"simple"}',
        "[1,2]",
        '"text"',
        "{}",
    ]
).map(lambda text: Verbatim(text=text))
LEAVES = st.one_of(
    st.builds(Simple, path=LINES, operator=st.sampled_from(OPERATORS), value=st.none() | OPERANDS),
    st.builds(
        Lifecycle,
        field=st.sampled_from(LIFECYCLE_FIELDS),
        operator=st.sampled_from(OPERATORS),
        value=st.none() | OPERANDS,
    ),
    VERBATIM,
)
CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    LEAVES,
    lambda parts: st.builds(
        Group, operator=st.sampled_from(["AND", "OR"]), conditions=st.lists(parts, max_size=3).map(tuple)
    ),
    max_leaves=8,
)


@given(CONDITIONS)
def test_reading_what_was_written_gives_the_same_condition(condition: Condition) -> None:
    assert read_condition(write_condition(condition)) == condition


@given(CONDITIONS)
def test_a_form_gives_the_condition_back(condition: Condition) -> None:
    assert read_fields(write_fields(condition)) == condition


def test_white_space_of_a_condition_does_not_matter() -> None:
    spread = (
        '{\r\n "type": "group", "operator": "or",\n "conditions": [ {"type": "array", "values": [1.10, " a "]} ] }\n'
    )
    assert read_condition(spread) == Group(
        operator="OR", conditions=(Verbatim(text='{"type":"array","values":[1.10," a "]}'),)
    )


@pytest.mark.parametrize("number", ["1.10", "0.10", "1e400", "9007199254740993", "1" * 40])
def test_numbers_keep_their_digits(number: str) -> None:
    text = f'{{"type":"simple","jsonPath":"$.amount","operatorType":"EQUALS","value":{number}}}'
    condition = read_condition(text)
    assert write_fields(condition)["c.value"] == number
    assert write_condition(read_fields(write_fields(condition))) == text


@pytest.mark.parametrize(
    ("typed", "value"),
    [("PAID", '"PAID"'), ("30", "30"), ('"30"', '"30"'), ("[1, 2.50]", "[1,2.50]"), ("true", "true"), ("a b", '"a b"')],
)
def test_what_is_typed_is_json_if_it_can_be_and_a_text_if_not(typed: str, value: str) -> None:
    assert read_typed_operand(typed, "EQUALS") == value


def test_nothing_typed_is_the_empty_text_except_where_no_operand_is_taken() -> None:
    assert read_typed_operand(" ", "EQUALS") == '""'
    assert [read_typed_operand("", operator) for operator in PRESENCE] == [None, None]


def test_an_operand_is_shown_without_quotes_only_if_it_comes_back() -> None:
    shown = [show_operand(value) for value in ('"PAID"', '"30"', '" x"', '"\\u0041"', '""')]
    assert shown == ["PAID", '"30"', '" x"', '"\\u0041"', '""']


@pytest.mark.parametrize("alias", ["operatorType", "operator", "operation"])
def test_an_operator_may_have_each_of_its_names(alias: str) -> None:
    found = read_condition(f'{{"type":"simple","jsonPath":"$.a","{alias}":"IS_NULL"}}')
    assert found == Simple(path="$.a", operator="IS_NULL")


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"group","operator":"XOR","conditions":[]}',
        '{"type":"group","operator":"AND"}',
        '{"type":"group","operator":"AND","conditions":{}}',
        '{"type":"group","operator":"AND","conditions":[],"value":1}',
        '{"type":"simple","operatorType":"IS_NULL"}',
        '{"type":"simple","jsonPath":1,"operatorType":"IS_NULL"}',
        '{"type":"simple","jsonPath":"$.a","operator":"EQUALS","operation":"EQUALS","value":1}',
        '{"type":"simple","jsonPath":"$.a","operator":"","operation":"EQUALS","value":1}',
        '{"type":"simple","jsonPath":"$.a","operator":null,"value":1}',
        '{"type":"simple","field":"state","operator":"EQUALS","value":1}',
        '{"type":"lifecycle","field":"age","operator":"EQUALS","value":1}',
        '{"type":1}',
    ],
)
def test_what_the_builder_does_not_know_stays_as_it_is(text: str) -> None:
    assert read_condition(text) == Verbatim(text=text)


@pytest.mark.parametrize("text", ["", "{", '{"type":"group",}', '{"type":"simple","type":"group"}', "nothing"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(MalformedQuery, match="no JSON"):
        read_condition(text)


def test_groups_nested_too_deep_are_refused() -> None:
    text = '{"type":"group","operator":"AND","conditions":[' * (MAX_DEPTH + 2) + "]}" * (MAX_DEPTH + 2)
    with pytest.raises(MalformedQuery, match="nested"):
        read_condition(text)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "c.kind"),
        ({"c.kind": "simple", "c.operator": "LOOKS"}, "c.operator"),
        ({"c.kind": "group", "c.operator": "XOR"}, "c.operator"),
        ({"c.kind": "group", "c.operator": "OR", "c.3.kind": "json", "c.3.json": "{"}, "c.3.json"),
        ({"c.kind": "lifecycle", "c.operator": "IS_NULL", "c.field": "age"}, "c.field"),
    ],
)
def test_a_form_that_is_none_is_refused_by_the_name_of_the_field(fields: dict[str, str], named: str) -> None:
    with pytest.raises(MalformedQuery, match=named):
        read_fields(fields)


def test_parts_are_added_to_groups_and_removed_again() -> None:
    leaf = Simple(path="$.a", operator="IS_NULL")
    once = add_part(EVERYTHING, "c", Group(operator="OR"))
    twice = add_part(once, "c.0", leaf)
    assert write_fields(twice) == {
        "c.kind": "group",
        "c.operator": "AND",
        "c.0.kind": "group",
        "c.0.operator": "OR",
        "c.0.0.kind": "simple",
        "c.0.0.path": "$.a",
        "c.0.0.operator": "IS_NULL",
    }
    assert remove_part(twice, "c.0.0") == once
    assert remove_part(leaf, "c") == EVERYTHING
    assert add_part(leaf, "c", leaf) == Group(conditions=(leaf, leaf))


@pytest.mark.parametrize("place", ["", "d", "c.x", "c.1", "c.0.0", "c.-1", "c.99999"])
def test_a_place_that_is_not_there_is_refused(place: str) -> None:
    with pytest.raises(MalformedQuery, match="place"):
        remove_part(Group(conditions=(Simple(path="$.a", operator="IS_NULL"),)), place)


def test_operators_fit_the_declared_type() -> None:
    assert offer_operators([]) == tuple(PRESENCE)
    assert offer_operators(["BOOLEAN"]) == ("EQUALS", "NOT_EQUAL", *PRESENCE)
    assert "CONTAINS" not in offer_operators(["LONG"])
    assert "BETWEEN" in offer_operators(["LONG"])
    assert set(offer_operators(["STRING"])) == set(OPERATORS)


def test_a_misspelt_path_has_a_nearest_one() -> None:
    condition = read_condition(
        '{"type":"group","operator":"OR","conditions":[{"type":"simple","jsonPath":"$.amout","operatorType":"IS_NULL"}]}'
    )
    assert [find_nearest_path(path, ["$.name", "$.amount"]) for path in list_paths(condition)] == ["$.amount"]
    assert find_nearest_path("$.zzz", ["$.name"]) is None


def test_nearest_paths_are_looked_for_only_where_that_takes_no_time() -> None:
    """One request with many misspelt paths, on a model with thousands, held the event loop for minutes."""
    many = [f"$.item{number}" for number in range(MAX_GUESSED)]
    assert find_nearest_path("$.itm7", many) == "$.item7"
    assert find_nearest_path("$.itm7", [*many, "$.other"]) is None
    assert find_nearest_path("$.item" + "7" * MAX_GUESSED_CHARS, ["$.item" + "7" * MAX_GUESSED_CHARS + "8"]) is None
    leaves = [f'{{"type":"simple","jsonPath":"$.itm{number}","operatorType":"IS_NULL"}}' for number in range(50)]
    condition = read_condition(f'{{"type":"group","operator":"OR","conditions":[{",".join(leaves)}]}}')
    unknown = list_unknown_paths(condition, many)
    assert len(unknown) == MAX_UNKNOWN
    assert unknown[7] == ("$.itm7", "$.item7")


def test_a_condition_is_told_in_words() -> None:
    state = Lifecycle(field="state", operator="EQUALS", value='"PAID"')
    amount = Simple(path="$.amount", operator="GREATER_THAN", value="10000")
    either = Group(operator="OR", conditions=(state, Simple(path="$.note", operator="IS_NULL")))
    assert describe_condition(Group(conditions=(amount, either))) == (
        "$.amount is greater than 10000 and (state is PAID or $.note has no value)"
    )
    assert describe_condition(EVERYTHING) == "everything"


def test_a_long_condition_does_not_fit_a_link() -> None:
    assert fits_link(EVERYTHING)
    assert not fits_link(Simple(path="$.a", operator="EQUALS", value='"' + "ü" * 1_000 + '"'))

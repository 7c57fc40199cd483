"""A condition compiled by template is what it is when compiled afresh, text and arguments (conditions/templates.py)."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.conditions import (
    CompiledSearch,
    SearchCompiler,
    TemplateCache,
    compile_search,
    parse,
    read_search_condition,
)
from statewright.conditions.checks import check, check_form
from statewright.conditions.planning import build_plan
from statewright.conditions.search import MAX_TEMPLATES
from statewright.conditions.sql import compile_sql
from statewright.conditions.sql_terms import HEAD_CHARS
from statewright.conditions.syntax import COMPARISONS, RANGES
from statewright.conditions.templates import MAX_OPERANDS, MAX_SQL_CHARS, TEXT_TESTS, Operand
from statewright.failures import Failure
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema.node import DeclaredField
from tests.unit.conditions.builders import META, a_field, group, lifecycle, simple, spell_out
from tests.unit.conditions.strategies import CONDITIONS, NUMBERS, TEXTS, schemas

FIELDS = {
    "$.text": a_field("STRING"),
    "$.o.text": a_field("STRING NULL"),
    "$.whole": a_field("INTEGER"),
    "$.number": a_field("DOUBLE UNBOUND_DECIMAL"),
    "$.either": a_field("STRING INTEGER"),
    "$.day": a_field("LOCAL_DATE"),
    "$.words[*]": a_field("STRING"),
}
NAMES = {"text": "one()", "number": "two()"}

PECULIAR = st.sampled_from(
    [
        "",
        "\ue000",
        "\ue0000a",
        "\ue0001b",
        "nul\0",
        "\ud800",
        "\U0010ffff",
        "a\U0010ffff",
        "\ud7ff",
        "text",
        "1" + "0" * 30,
    ]
)
OPERANDS = st.one_of(
    st.sampled_from(["a", "b", "ab", 1, 2, Decimal("1.0"), "1"]),
    TEXTS,
    st.text(max_size=4),
    st.text("é", min_size=HEAD_CHARS - 2, max_size=HEAD_CHARS + 1),
    NUMBERS,
    PECULIAR,
    st.integers(min_value=10**30 - 2, max_value=10**30 + 40),
)
PATHS = st.sampled_from([*FIELDS, "$.nowhere", "text", "$.words[0]", "$.\ue0000a", "$." + "1" + "0" * 30])
OPERATORS = st.sampled_from([*COMPARISONS, *TEXT_TESTS, "IEQUALS", "LIKE", "IS_NULL", "NO SUCH"])
COMPARING = st.one_of(
    st.builds(simple, PATHS, OPERATORS, OPERANDS),
    st.builds(
        lambda path, operator, low, high: simple(path, operator, [low, high]),
        *(PATHS, st.sampled_from(sorted(RANGES)), OPERANDS, OPERANDS),
    ),
)
ORDINARY: st.SearchStrategy[JsonValue] = st.recursive(
    COMPARING,
    lambda children: st.builds(
        lambda operator, parts: group(operator, *parts), st.sampled_from(["AND", "OR"]), st.lists(children, max_size=4)
    ),
    max_leaves=6,
)
"""Conditions of the kind that templates are made for, operands that steer a compilation among them."""


def by_template(condition: JsonValue, declared: dict[str, DeclaredField]) -> CompiledSearch | None:
    """The search, when there is a template for it, which means that no check refuses it."""
    try:
        search = SearchCompiler(declared, TemplateCache()).compile(read_search_condition(condition))
    except Failure:
        return None
    return None if search.shape is None else search


def agrees(condition: JsonValue, declared: dict[str, DeclaredField]) -> bool:
    """Whether there is a template for the condition, which then says the same as a compilation."""
    parsed = parse(condition)
    if read_search_condition(condition).shape is not None:
        check_form(parsed)
    found = by_template(condition, declared)
    if found is None:
        return False
    check(parsed, declared)
    afresh = compile_search(parsed, declared)
    assert found.shape is not None
    assert afresh.shape is None
    for first, names in ((1, {}), (3, {}), (1, NAMES)):
        expression, fresh = (search.compile_sql(first=first, names=names) for search in (found, afresh))
        arguments, expected = found.fill(expression), afresh.fill(fresh)
        assert spell_out(expression.text, arguments, first) == spell_out(fresh.text, expected, first)
        if len({*arguments}) == len(arguments):  # equal ones share a parameter when compiled afresh
            assert (expression.text, arguments) == (fresh.text, expected)
            assert [*map(type, arguments)] == [*map(type, expected)]
        assert expression.is_exact
        assert fresh.is_exact
    return True


@given(st.lists(ORDINARY, min_size=1, max_size=3))
def test_by_template_and_afresh_are_the_same(conditions: list[JsonValue]):
    for condition in conditions:
        agrees(condition, FIELDS)


@given(CONDITIONS, schemas())
def test_they_are_for_any_condition_and_any_schema(condition: JsonValue, declared: dict[str, DeclaredField]):
    agrees(condition, declared)


@given(st.lists(st.one_of(st.text("ab", min_size=1, max_size=2), st.integers(0, 5)), min_size=5, max_size=5))
def test_equal_operands_are_told_from_different_ones(operands: list[JsonValue]):
    first, second, third, fourth, fifth = operands
    numbers = [value if isinstance(value, int) else len(value) for value in operands]
    alternatives = [simple("$.whole", "EQUALS", number) for number in numbers]
    agrees(group("OR", *alternatives, simple("$.number", "LESS_THAN", numbers[0])), FIELDS)
    texts = [str(value) for value in (first, second, third, fourth, fifth)]
    leaves = [simple("$.text", "EQUALS", text) for text in texts[:2]]
    leaves.append(simple("$.o.text", "BETWEEN", texts[2:4]))
    agrees(group("OR", *leaves, simple("$.text", "STARTS_WITH", texts[4])), FIELDS)


@pytest.mark.parametrize(
    "condition",
    [
        simple("$.text", "EQUALS", "a"),
        simple("$.o.text", "NOT_EQUAL", "é"),
        simple("$.text", "BETWEEN_INCLUSIVE", ["a", "b"]),
        simple("$.whole", "GREATER_THAN", 5),
        simple("$.number", "BETWEEN", [1, Decimal("2.50")]),
        simple("$.day", "CONTAINS", "-05-"),
        simple("$.words[0]", "EQUALS", "x"),
        *(simple("$.text", operator, "a") for operator in sorted(TEXT_TESTS)),
        group("AND", simple("$.text", "EQUALS", "a"), group("OR", *(simple("$.whole", "EQUALS", n) for n in (1, 2)))),
        group(
            "OR", simple("$.text", "EQUALS", "a"), simple("$.text", "EQUALS", "b"), simple("$.number", "LESS_THAN", 1)
        ),
    ],
)
def test_these_have_a_template(condition: JsonValue):
    assert agrees(condition, FIELDS)


@pytest.mark.parametrize(
    "condition",
    [
        simple("$.text", "EQUALS", ""),
        simple("$.text", "EQUALS", "x" * HEAD_CHARS),
        simple("$.text", "EQUALS", "nul\0"),
        simple("$.text", "EQUALS", 5),
        simple("$.text", "STARTS_WITH", "\U0010ffff"),
        simple("$.whole", "EQUALS", "5"),
        simple("$.whole", "EQUALS", 10**30),
        simple("$.whole", "EQUALS", True),
        simple("$.either", "EQUALS", "5"),
        simple("$.day", "EQUALS", "2031-05-06"),
        simple("$.words[*]", "EQUALS", "x"),
        simple("$.nowhere", "EQUALS", "x"),
        simple("$.text", "BETWEEN", ["a", 1]),
        simple("$.text", "BETWEEN", ["a"]),
        simple("$.text", "IEQUALS", "a"),
        simple("$.text", "IS_NULL"),
        simple("$.text", "SOUNDS_LIKE", "a"),
        simple("$.text", "EQUALS", {"a": 1}),
        lifecycle("state", "EQUALS", "NEW"),
        group("AND"),
        group("NEITHER", simple("$.text", "EQUALS", "a")),
        group("OR", *(simple("$.text", "EQUALS", str(number)) for number in range(MAX_OPERANDS + 1))),
    ],
)
def test_these_have_none(condition: JsonValue):
    assert not agrees(condition, FIELDS)


def test_models_that_declare_the_same_path_differently_do_not_share_templates():
    condition = simple("$.v", "GREATER_THAN", 5)
    for types in ("INTEGER", "STRING", "INTEGER STRING", "DOUBLE", "LOCAL_DATE"):
        agrees(condition, {"$.v": a_field(types)})
    refused = by_template((simple("$.v", "EQUALS", "x")), {"$.v": a_field("LOCAL_DATE")})
    assert refused is None
    with pytest.raises(Failure):
        check(parse(simple("$.v", "EQUALS", "x")), {"$.v": a_field("LOCAL_DATE")})


def test_operands_come_in_the_order_in_which_they_were_written():
    condition = group("AND", simple("$.whole", "BETWEEN", [7, 3]), simple("$.text", "EQUALS", "x"))
    question = read_search_condition(condition)
    expected: list[Operand] = ["7", "3", "x"]
    assert question.operands == expected


def test_memory_is_finite():
    templates, paths = TemplateCache(), [f"$.p{number}" for number in range(MAX_TEMPLATES + 5)]
    compiler = SearchCompiler(dict.fromkeys(paths, a_field("STRING")), templates)
    for path in paths:
        compiler.compile(read_search_condition(simple(path, "EQUALS", "a")))
    assert len(templates) == MAX_TEMPLATES
    deep = "$" + ".abcdefghijklmno" * 15
    declared = {deep: DeclaredField(types=frozenset((DataType.STRING,)))}
    many = group("OR", *(simple(deep, operator, str(n)) for n, operator in enumerate(["CONTAINS"] * MAX_OPERANDS)))
    assert len(compile_sql(build_plan(parse(many), declared)).text) > MAX_SQL_CHARS
    assert by_template(many, declared) is None


def test_a_template_is_remembered_for_its_model_only():
    templates = TemplateCache()
    texts, numbers = (SearchCompiler({"$.v": a_field(types)}, templates) for types in ("STRING", "INTEGER"))
    condition = read_search_condition(simple("$.v", "EQUALS", "a"))
    assert texts.compile(condition).shape is texts.compile(condition).shape is not None
    with pytest.raises(Failure):
        numbers.compile(condition)


@given(st.lists(ORDINARY, min_size=1, max_size=3))
def test_in_memory_both_mean_the_same(conditions: list[JsonValue]):
    for condition in conditions:
        found = by_template(condition, FIELDS)
        if found is not None:
            document: JsonValue = {
                "text": "ab",
                "o": {"text": "b"},
                "whole": 2,
                "number": Decimal("1.5"),
                "words": ["a"],
            }
            afresh = compile_search(parse(condition), FIELDS)
            assert found.compile_predicate()(document, META) is afresh.compile_predicate()(document, META)

"""Expressions against Jinja2 itself: where both have a value it is the same one."""

# ruff: noqa: E501 - a case is a line

import os
from typing import Any, NamedTuple, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import ChainableUndefined
from jinja2.sandbox import SandboxedEnvironment

from statewright.playbooks.templates import Problem, compile_condition, compile_template, holds, render

SCOPE: dict[str, Any] = {
    "n": 7, "m": -3, "z": 0, "s": "Abc", "t": "", "flag": True, "l": [3, 1, 2, 3], "e": [], "words": ["b", "A", "c"],
    "d": {"a": 1, "b": "x", "inner": {"k": [1, 2]}}, "rows": [{"k": 2, "v": "x"}, {"k": 1, "v": "y"}, {"k": 2, "v": "z"}],
}  # fmt: skip
EXAMPLES = int(os.environ.get("STATEWRIGHT_TEST_TEMPLATE_EXAMPLES", "100"))
ENVIRONMENT = SandboxedEnvironment(undefined=ChainableUndefined)


def form(pattern: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda filled: f"({pattern.format(*filled)})")


whole_leaf = st.sampled_from(["n", "m", "z", "5", "d.a", "d['a']", "d.inner.k[1]", "l[0]", "l[-1]", "rows[1].k"])
text_leaf = st.sampled_from(["s", "t", "'q'", "d.b", "rows[0].v", "words[0]"])
numbers_leaf = st.sampled_from(["l", "e", "[1, n]", "d.inner.k", "rows | map(attribute='k') | list"])
texts_leaf = st.sampled_from(["words", "['x']", "rows | map(attribute='v') | list", "d | list"])
truth_leaf = st.sampled_from(
    ["flag", "true", "false", "d.nope is defined", "nope is undefined", "s is string", "l is sequence"]
)
Strategy: TypeAlias = st.SearchStrategy[str]


class Kinds(NamedTuple):
    """Expressions of each kind."""

    whole: Strategy
    text: Strategy
    numbers: Strategy
    texts: Strategy
    truth: Strategy
    rows: Strategy


def grow(kinds: Kinds) -> Kinds:
    """The expressions that have these within them."""
    whole, text, numbers, texts, truth, rows = kinds
    made_whole = st.one_of(
        form("({} {} {})", whole, st.sampled_from("+-*"), whole),
        form("({} {} 4)", whole, st.sampled_from(["//", "%"])),
        form("-{}", whole), form("{} | abs", whole), form("{} | length", text | numbers | texts),
        form("({} if {} else {})", whole, truth, whole), form("(nope or {})", whole), form("(nope | default({}))", whole),
        form("({} | sum)", numbers), form("({} | default(1))", whole), form("{}.count({})", text, text), form("{} | int", text),
    )  # fmt: skip
    made_text = st.one_of(
        form("({} ~ {})", text, whole | text | truth | numbers), form("({} + {})", text, text), form("({} * 2)", text),
        form("{} | {}", text, st.sampled_from(["upper", "lower", "title", "trim", "capitalize", "reverse", "string"])),
        form("{}.{}()", text, st.sampled_from(["upper", "lower", "strip", "title"])), form("({} | join({}))", texts | numbers, text),
        form("({} | replace('b', {}))", text, text), form("({})[1:]", text),
    )  # fmt: skip
    made_numbers = st.one_of(
        form("({} + {})", numbers, numbers), form("({} | {} | list)", numbers, st.sampled_from(["sort", "unique", "reverse", "list", "sort(reverse=true)"])),
        form("({} | {}({}) | list)", numbers, st.sampled_from(["select", "reject"]), st.sampled_from(["'gt', 1", "'odd'", "'eq', 3"])),
        form("({})[{}:]", numbers, st.sampled_from(["0", "1", "-1"])), form("[{}]", whole), form("({} | map('abs') | list)", numbers),
    )  # fmt: skip
    made_texts = st.one_of(
        form("({} | {} | list)", texts, st.sampled_from(["sort", "unique", "reverse", "sort(case_sensitive=true)", "map('upper')"])),
        form("{}.split('b')", text), form("({} | map(attribute='v') | list)", rows),
    )  # fmt: skip
    made_rows = st.one_of(
        form("({} | sort(attribute='{}'))", rows, st.sampled_from(["k", "v", "k,v"])), form("({} | selectattr('k', 'eq', {}) | list)", rows, whole_leaf),
        form("({} | rejectattr('v', 'in', {}) | list)", rows, texts), form("({} | unique(attribute='k') | list)", rows),
    )  # fmt: skip
    made_truth = st.one_of(
        form("({} {} {})", whole, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), whole), form("({} == {})", text, text),
        form("({} {} {})", whole, st.sampled_from(["in", "not in"]), numbers), form("({} in {})", text, text | texts), form("(not {})", truth),
        form("({} {} {})", truth, st.sampled_from(["and", "or"]), truth), form("({} == {})", numbers, numbers), form("({} is {})", whole, st.sampled_from(["even", "odd", "number", "divisibleby 3"])),
        form("(1 < {} < {})", whole, whole), form("{} is none", whole | text),
    )  # fmt: skip
    return Kinds(
        whole | made_whole,
        text | made_text,
        numbers | made_numbers,
        texts | made_texts,
        truth | made_truth,
        rows | made_rows,
    )


LEAVES = Kinds(whole_leaf, text_leaf, numbers_leaf, texts_leaf, truth_leaf, st.just("rows"))
whole, text, numbers, texts, truth, rows = grow(grow(LEAVES))


def ask_jinja(source: str) -> tuple[str, Any]:
    try:
        return "value", ENVIRONMENT.compile_expression(source, undefined_to_none=True)(**SCOPE)
    except Exception as error:
        return "error", error


@settings(max_examples=EXAMPLES)
@given(st.one_of(whole, text, numbers, texts, truth, rows))
def test_an_expression_has_the_value_that_jinja_gives_it(source: str) -> None:
    kind, expected = ask_jinja(source)
    found = render(compile_template(f"{{{{ {source} }}}}"), SCOPE)
    if isinstance(found, Problem) and "more than" in found.message:  # the budget, which Jinja2 does not have
        return
    if kind == "error":
        assert isinstance(found, Problem), (found, expected)
    else:
        assert (type(found), found) == (type(expected), expected)


@settings(max_examples=EXAMPLES)
@given(st.one_of(whole, numbers, truth))
def test_a_condition_has_the_truth_that_jinja_gives_it(source: str) -> None:
    kind, expected = ask_jinja(source)
    found = holds(compile_condition(source), SCOPE)
    assert isinstance(found, Problem) if kind == "error" else found is bool(expected)


@settings(max_examples=EXAMPLES)
@given(st.lists(st.one_of(whole, text, numbers, truth), min_size=2, max_size=4))
def test_text_is_what_jinja_writes(sources: list[str]) -> None:
    template = " ".join(f"{{{{ {source} }}}}" for source in sources)
    try:
        expected = ENVIRONMENT.from_string(template).render(**SCOPE)
    except Exception:
        return
    found = render(compile_template(template), SCOPE)
    assert found == expected or (isinstance(found, Problem) and "more than" in found.message)

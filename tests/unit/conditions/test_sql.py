"""The SQL of conditions as text; what it means is compared with memory in ``tests/integration/search``."""

import re
import sys

import pytest
from hypothesis import given

from statewright.conditions import parse
from statewright.conditions.plan import ALWAYS, NEVER, Unanswerable
from statewright.conditions.planning import build_plan
from statewright.conditions.sql import SqlFilter, collect_alternatives, compile_sql
from statewright.conditions.sql_terms import MAX_ARGUMENTS
from statewright.conditions.sql_values import FOLDED_TO_ASCII, LOWERED_TO_ASCII
from statewright.conditions.texts import fold_text, lower_text
from statewright.jsonval.values import JsonValue
from statewright.schema.node import DeclaredField
from tests.unit.conditions.builders import array, fields, group, lifecycle, simple
from tests.unit.conditions.strategies import CONDITIONS, schemas

NUMBERED = re.compile(r"\$(\d+)::")


def narrowing(condition: JsonValue, *, first: int = 1, **types: str) -> SqlFilter:
    return compile_sql(build_plan(parse(condition), fields(**types)), first=first)


@given(CONDITIONS, schemas())
def test_every_argument_is_referred_to_by_its_number_and_no_other_is(
    condition: JsonValue, declared: dict[str, DeclaredField]
):
    compiled = compile_sql(build_plan(parse(condition), declared), first=5)
    numbers = {int(number) for number in NUMBERED.findall(compiled.text)}
    assert numbers == set(range(5, 5 + len(compiled.args)))


@given(CONDITIONS, schemas())
def test_the_text_is_made_of_our_own_words_alone(condition: JsonValue, declared: dict[str, DeclaredField]):
    """Nothing that was written in a condition is left when our own vocabulary is taken away."""
    text = re.sub(r"\$\d+|\be\d+\b", " ", compile_sql(build_plan(parse(condition), declared)).text)
    for word in OURS:
        text = text.replace(word, " ")
    assert text.strip() == ""


OURS = sorted(
    (
        *("SELECT FROM", "EXISTS", "WHERE", "CASE WHEN", "THEN", "END", "COLLATE", "AND", "NOT", "OR", "ANY", "LIKE"),
        *(
            "IS NOT NULL",
            "IS NOT TRUE",
            "IS NULL",
            "AS",
            "document",
            "transaction_id",
            "transition",
            "state",
            "valid_from",
        ),
        *(
            "created_at",
            "(item)",
            ".item",
            "jsonb_typeof",
            "jsonb_array_elements",
            "jsonb_path_query_first",
            "starts_with",
        ),
        *(
            "char_length",
            "strpos",
            "substr",
            "lower",
            "translate",
            "left",
            "right",
            "'strict $[$i]'",
            "'{}'",
            "'string'",
        ),
        *("'number'", "'boolean'", "'array'", "'null'", "'T'", '"C"', "true", "false", "numeric[]", "uuid[]", "text[]"),
        *(
            "numeric",
            "boolean",
            "bigint",
            "jsonb",
            "text",
            "uuid",
            "id",
            "->>",
            "#>>",
            "->",
            "@>",
            "<=",
            ">=",
            "<>",
            "<",
        ),
        *(">", "=", "~", "::", "(", ")", ",", "256", "11", "1", "0"),
    ),
    key=len,
    reverse=True,
)


def test_groups_are_combined_and_empty_ones_are_constants():
    both = group("AND", simple("$.a", "IS_NULL"), simple("$.b", "IS_NULL"))
    assert narrowing(both).text == "((document ->> $1::text) IS NULL AND (document ->> $2::text) IS NULL)"
    assert compile_sql(ALWAYS).text == "true"
    assert compile_sql(NEVER).text == "false"
    assert narrowing(group("AND", both, group("AND"))).text == narrowing(both).text
    assert narrowing(group("OR", both, group("OR"))).text == narrowing(both).text


def test_equal_values_share_a_parameter():
    condition = group("AND", simple("$.a", "GREATER_THAN", 1), simple("$.a", "LESS_THAN", 1))
    assert len(narrowing(condition, a="INTEGER").args) == 2


def test_texts_compare_by_code_points_whatever_the_database_was_created_with():
    for operator in ("EQUALS", "LESS_THAN", "STARTS_WITH", "CONTAINS", "LIKE", "IEQUALS"):
        text = narrowing(simple("$.a", operator, "x%"), a="STRING").text
        assert text.count('COLLATE "C"') == text.count("CASE WHEN")


def test_alternatives_of_one_place_are_one_term():
    condition = group("OR", *[simple("$.a", "EQUALS", number) for number in range(3 * MAX_ARGUMENTS)])
    compiled = narrowing(condition, a="INTEGER STRING")
    assert len(compiled.args) == 3
    assert compiled.is_exact
    assert compiled.text.count("ANY") == 2


def test_alternatives_of_different_places_stay_apart():
    plans = [build_plan(parse(simple(path, "EQUALS", 1)), fields(a="INTEGER", b="INTEGER")) for path in ("$.a", "$.b")]
    sets, others = collect_alternatives(plans)
    assert (sets, others) == ([], plans)


@pytest.mark.parametrize(
    ("condition", "types"),
    [
        (simple("$.a", "EQUALS", 1), "INTEGER"),
        (simple("$.a", "BETWEEN", [1, 2]), "INTEGER"),
        (simple("$.a", "LESS_THAN", "x"), "STRING"),
        (simple("$.a", "EQUALS", True), "BOOLEAN"),
        (simple("$.a", "EQUALS", "x"), "CHARACTER"),
        (simple("$.a", "NOT_EQUAL", "5e0c7f6e-0a1b-11f0-9a7e-3b1f0c9d2e44"), "TIME_UUID_TYPE"),
        (simple("$.a", "LESS_THAN", "2031-05-06"), "LOCAL_DATE"),
        (simple("$.a", "LESS_THAN", "2031"), "YEAR_MONTH"),
        (simple("$.a", "NOT_CONTAINS", "x"), ""),
        (simple("$.a", "ICONTAINS", "straSSe"), ""),
        (simple("$.a", "INOT_EQUAL", "X"), ""),
        (simple("$.a", "LIKE", "a%b_"), ""),
        (simple("$.a[*].b", "EQUALS", "x"), ""),
        (simple("$.a[*]", "IS_NULL"), ""),
        (simple("$.a[3]", "ENDS_WITH", "x"), ""),
        (array("$.a", "x", None, 1), ""),
        (lifecycle("state", "STARTS_WITH", "x"), ""),
        (lifecycle("creationDate", "LESS_THAN", "2031-05-06T06:00:00.1239Z"), ""),
        (lifecycle("id", "EQUALS", "no uuid"), ""),
        (simple("$" + ".a" * 300, "IS_NULL"), ""),
    ],
)
def test_these_need_no_second_look(condition: JsonValue, types: str):
    assert narrowing(condition, a=types).is_exact


@pytest.mark.parametrize(
    ("condition", "types", "says"),
    [
        (simple("$.a", "MATCHES_PATTERN", "ORD-[0-9]+"), "", "< $3::text"),
        (simple("$.a", "MATCHES_PATTERN", "a|b"), "", "IS NOT NULL"),
        (simple("$.a", "ICONTAINS", "müller"), "", "strpos"),
        (simple("$.a", "INOT_CONTAINS", "ü"), "", "IS NOT NULL"),
        (simple("$.a", "LIKE", "a\n%"), "", "LIKE"),
        (simple("$.a", "LESS_THAN", "2031-05-06T06:00:00Z"), "ZONED_DATE_TIME", "<"),
        (simple("$.a", "EQUALS", "10:30"), "LOCAL_TIME", "IS NOT NULL"),
        (simple("$.a", "EQUALS", "1e9999"), "UNBOUND_DECIMAL", "IS NOT NULL"),
        (simple("$.a", "CONTAINS", "nul\0"), "", "true"),
        (simple("$.nul\0", "IS_NULL"), "", "true"),
    ],
)
def test_these_are_narrowed_as_far_as_it_goes(condition: JsonValue, types: str, says: str):
    compiled = narrowing(condition, a=types)
    assert len(compiled.residual) == 1
    assert says in compiled.text


def test_what_cannot_be_judged_at_all_is_left_to_memory():
    assert compile_sql(Unanswerable("no such operator")).text == "true"


def test_one_part_that_is_not_exact_leaves_the_others_as_they_are():
    condition = group("OR", simple("$.a", "MATCHES_PATTERN", "x.*"), simple("$.b", "IS_NULL"))
    compiled = narrowing(condition)
    assert not compiled.is_exact
    assert compiled.text.endswith("OR (document ->> $4::text) IS NULL)")


def test_an_instant_covers_its_whole_millisecond():
    def of(operator: str) -> tuple[str, tuple[object, ...]]:
        compiled = narrowing(lifecycle("creationDate", operator, "1970-01-01T00:00:01Z"))
        return compiled.text, compiled.args

    assert of("GREATER_THAN") == ("created_at >= $1::bigint", (1_001_000,))
    assert of("LESS_OR_EQUAL") == ("created_at < $1::bigint", (1_001_000,))
    assert of("EQUALS") == ("(created_at >= $1::bigint AND created_at < $2::bigint)", (1_000_000, 1_001_000))


def test_no_other_letter_enters_ascii_by_a_change_of_case():
    for normalise, known in ((lower_text, LOWERED_TO_ASCII), (fold_text, FOLDED_TO_ASCII)):
        others = (chr(code) for code in range(128, sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
        assert {letter: normalise(letter) for letter in others if normalise(letter).isascii()} == known

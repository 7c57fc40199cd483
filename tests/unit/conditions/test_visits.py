"""How much of a document a condition may look at: within a turn of the event loop, and altogether
(docs/reference/conditions.md#limits).
"""

from collections.abc import Mapping

import pytest

from statewright.conditions import EvaluationError, Visits, compile_predicate, is_large_condition, parse
from statewright.conditions.plan import MAX_TURN_VISITS, MAX_VISITS
from statewright.conditions.search import read_search_condition
from statewright.jsonval.values import JsonValue
from statewright.loop.turns import TurnExceeded
from statewright.schema.node import DeclaredField
from tests.unit.conditions.builders import META, a_field, group, simple

NUMBERS = {"$.v[*]": a_field("INTEGER"), "$.few[*]": a_field("INTEGER"), "$.v[*][*]": a_field("INTEGER")}
TEXTS = {"$.v[*]": a_field("STRING"), "$.text": a_field("STRING")}


def holds(
    condition: JsonValue, document: JsonValue, visits: Visits, declared: Mapping[str, DeclaredField] = NUMBERS
) -> bool:
    return compile_predicate(parse(condition), declared)(document, META, visits)


def test_a_condition_that_looks_at_too_much_for_a_turn_gives_up():
    large: JsonValue = {"v": [1] * (MAX_TURN_VISITS // 2)}
    condition = group("OR", *[simple("$.v[*]", "EQUALS", -n) for n in range(1, 4)])
    with pytest.raises(TurnExceeded):
        holds(condition, large, Visits(within_turn=True))
    assert holds(condition, large, Visits()) is False


def test_what_is_not_looked_at_does_not_count():
    document: JsonValue = {"v": [1] * (MAX_TURN_VISITS // 2), "few": [-1]}
    first = simple("$.few[*]", "EQUALS", -1)
    condition = group("OR", first, *[simple("$.v[*]", "EQUALS", -n) for n in range(1, 100)])
    assert holds(condition, document, Visits(within_turn=True)) is True


def test_several_conditions_share_what_a_turn_allows():
    visits, document = Visits(within_turn=True), {"v": [1] * (MAX_TURN_VISITS // 2)}
    assert holds(simple("$.v[*]", "EQUALS", 1), document, visits) is True
    assert holds(simple("$.v[*]", "EQUALS", 2), document, visits) is False
    with pytest.raises(TurnExceeded):
        holds(simple("$.v[*]", "EQUALS", 3), document, visits)


@pytest.mark.parametrize("path", ["$.text", "$.v[*]"])
def test_long_texts_that_a_pattern_is_looked_for_in_count(path: str):
    text = "x" * 20 * MAX_TURN_VISITS
    with pytest.raises(TurnExceeded):
        holds(simple(path, "CONTAINS", "y"), {"text": text, "v": [text]}, Visits(within_turn=True), TEXTS)


def test_more_than_all_that_is_allowed_cannot_be_judged():
    visits = Visits()
    visits.spend(MAX_VISITS - 2)
    assert holds(simple("$.v[*]", "EQUALS", 3), {"v": [1, 2]}, visits) is False
    with pytest.raises(EvaluationError, match="looks at more than 30000000 elements"):
        holds(simple("$.v[*]", "EQUALS", 3), {"v": [1]}, visits)


def test_elements_of_arrays_within_arrays_count():
    visits = Visits()
    visits.spend(MAX_VISITS - 4)
    assert holds(simple("$.v[*][*]", "EQUALS", 3), {"v": [[1], [2]]}, visits) is False
    with pytest.raises(EvaluationError):
        holds(simple("$.v[*][*]", "EQUALS", 3), {"v": [1]}, visits)


def test_conditions_of_more_than_a_hundred_comparisons_are_large():
    comparisons = [simple("$.v", "EQUALS", n) for n in range(200)]
    assert is_large_condition(group("OR", *comparisons))
    assert not is_large_condition(group("OR", *comparisons[:90]))
    assert is_large_condition({"type": "array", "jsonPath": "$.v", "values": [*range(1000)]})


def test_a_large_search_is_compiled_before_it_is_asked_for():
    condition = group("AND", *[simple("$.v", "EQUALS", n) for n in range(200)])
    read = read_search_condition(condition)
    assert read.is_large
    assert read.shape is None

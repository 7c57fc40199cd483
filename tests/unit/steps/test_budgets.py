"""What one operation on an instance may cost everybody else: definitions come from outside."""

from itertools import pairwise

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.turns import MAX_TURN_ELEMENTS, TurnExceeded, is_large
from statewright.net import Moment
from statewright.processes.language import NewInstance
from statewright.steps import start_instance
from statewright.steps.instance import Instance
from statewright.steps.process_language import STEPS
from tests.unit.steps.builders import a_process, a_rule, decision, end, table, transformation
from tests.unit.steps.world import START, World

REFUSALS = ("memory budget exceeded", "nested too deeply", "result too large")


def started(variables: JsonObject, transformations: JsonObject, *, until: str = "count > 5000") -> Instance:
    """An instance whose first two steps go round until it fails, or until the condition holds."""
    process = a_process(
        transformation("change", "again", **transformations, count="${count + 1}"),
        decision("again", {until: "end", "true": "change"}),
        end(),
    )
    return World(process).start(count=0, **variables).instance  # pyright: ignore[reportArgumentType] - no case names a parameter


@pytest.mark.parametrize(
    ("variables", "transformations"),
    [
        ({"x": "ab"}, {"x": "${x + x}"}),
        ({"x": "ab"}, {"x": "${toBase64(x)}"}),
        ({"x": '"'}, {"x": "${toJSON(x)}"}),
        ({"x": [1]}, {"x": "${[x, x]}"}),
        ({"x": {"a": 1}}, {"x": '${{"a": x, "b": x}}'}),
        ({"x": [1]}, {"x": "${concat(x, x)}"}),
        ({"x": 1}, {"x": "${[x]}"}),
        ({}, {"x": "${len(map(1..100000, #))}"}),
        ({"x": "y" * 1_000_000}, {}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_variables_that_grow_at_every_step_fail_the_instance(variables: JsonObject, transformations: JsonObject):
    instance = started(variables, transformations)
    assert instance.status == "FAILED"
    assert any(part in str(instance.failure_reason) for part in REFUSALS)


def test_small_variables_go_round_thousands_of_times():
    assert started({"x": "y" * 100}, {"y": "${x + 'z'}"}, until="count >= 4000").status == "COMPLETED"


@pytest.mark.parametrize("expression", ["map(1..{count}, x)", "{{'a': map(1..{count}, x)}}", "map(1..{count}, [x])"])
def test_what_an_expression_comes_to_is_no_larger_than_a_request(expression: str):
    def calculate(count: int) -> Instance:
        process = a_process(transformation("calc", "end", y="${" + expression.format(count=count) + "}"), end())
        return World(process).start(x="y" * 52_000).instance

    assert calculate(190).status == "COMPLETED"
    refused = calculate(210)
    assert refused.status == "FAILED"
    assert "result too large: it would have more than 10485760 characters" in str(refused.failure_reason)


LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHARED = "".join(f"let {b} = [{a}, {a}]; " for a, b in pairwise(LETTERS))
"""Makes ``z`` an array of two elements, which holds 2²⁵."""


@pytest.mark.parametrize("expression", ["z", "z == z", "toJSON(z)", "string(z)"])
def test_an_expression_that_holds_the_same_many_times_over_is_bounded(expression: str):
    instance = started(dict.fromkeys(LETTERS), {"result": "${" + SHARED + expression + "}"})
    assert "memory budget exceeded" in str(instance.failure_reason)


def test_what_one_instance_has_spent_is_nobody_elses():
    for _ in range(3):
        assert started({"x": "y" * 100}, {}, until="count >= 4000").status == "COMPLETED"


LONG = {
    "an expression": [transformation("calc", "end", x="${len(map(1..100000, # * 2))}"), end()],
    "a range": [transformation("calc", "end", x="${len(1..900000)}"), end()],
    "many steps": [
        transformation("count", "again", n="${n + 1}"),
        decision("again", {"n > 1000": "end", "true": "count"}),
        end(),
    ],
    "a table": [
        table("t", "end", *(a_rule({"x": "all(1..1000, # > 0)"}, hits=1) for _ in range(20)), hitPolicy="C+"),
        end(),
    ],
}


@pytest.mark.parametrize("steps", LONG.values(), ids=LONG)
def test_what_is_more_than_a_turn_gives_up_and_comes_to_the_same_without_the_limit(steps: list[JsonObject]):
    process = a_process(*steps)
    new, moment = NewInstance(id="01HZ", variables={"n": 0}), Moment(at=START, first_id=1)
    with pytest.raises(TurnExceeded):
        start_instance(STEPS.limit_to_turn(process), new, moment)
    assert start_instance(process, new, moment).instance.status == "COMPLETED"


def test_what_fits_into_a_turn_is_not_touched_by_its_limit():
    process = a_process(decision("route", {"any(xs, # > 98)": "end"}), end())
    new, moment = NewInstance(id="01HZ", variables={"xs": [*range(100)]}), Moment(at=START, first_id=1)
    brief = start_instance(STEPS.limit_to_turn(process), new, moment)
    assert brief == start_instance(process, new, moment)
    assert brief.instance.status == "COMPLETED"


def test_an_operation_that_exceeds_its_whole_budget_within_a_turn_is_left_to_the_thread_that_tells():
    process = a_process(transformation("calc", "end", x="${map(1..1000, map(1..1000, map(1..1000, 1)))}"), end())
    new, moment = NewInstance(id="01HZ"), Moment(at=START, first_id=1)
    with pytest.raises(TurnExceeded):
        start_instance(STEPS.limit_to_turn(process), new, moment)
    assert "memory budget exceeded" in str(start_instance(process, new, moment).instance.failure_reason)


@pytest.mark.parametrize(
    ("value", "large"),
    [
        (None, False),
        (7, False),
        ("x" * 64 * MAX_TURN_ELEMENTS, False),
        ("x" * 64 * (MAX_TURN_ELEMENTS + 1), True),
        ([0] * MAX_TURN_ELEMENTS, False),
        ([0] * (MAX_TURN_ELEMENTS + 1), True),
        ([[[0] * 3000, [0] * 3000], {"a": ["x" * 64 * 2000]}], True),
        ({str(n): [n] for n in range(5000)}, True),
        ([{"a": 1}] * 1_000_000, True),
    ],
    ids=range(9),
)
def test_what_is_too_large_for_a_turn_is_known_after_a_turn(value: JsonValue, large: bool):
    assert is_large(value) is large

"""DECISION, TRANSFORMATION and steps that never pause (docs/reference/steps.md#decision,
docs/reference/steps.md#transformation, docs/reference/steps.md#limits-of-an-operation, decision J2).
"""

from decimal import Decimal

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from tests.unit.steps.builders import a_process, decision, end, service, transformation
from tests.unit.steps.world import World, with_budget


def decided(branches: dict[str, str], **variables: JsonValue) -> World:
    return World(a_process(decision("route", branches), end("a"), end("b"))).start(**variables)


def transformed(variables: JsonObject, **values: JsonValue) -> World:
    return World(a_process(transformation("calc", "end", **values), end())).start(**variables)


def test_the_first_true_branch_in_document_order_wins():
    assert decided({"n > 1": "a", "n > 0": "b"}, n=5).history[-1] == "a#1 COMPLETED"
    assert decided({"n > 0": "b", "n > 1": "a"}, n=5).history[-1] == "b#1 COMPLETED"


def test_branches_after_the_first_true_one_are_not_evaluated():
    assert decided({"true": "a", "no such thing": "b"}).status == "COMPLETED"


@pytest.mark.parametrize(
    ("branches", "reason"),
    [
        ({"#score > 1": "a"}, 'expression eval error: expression "#score > 1": undefined variable "score"'),
        ({"n + 1": "a"}, 'expression "n + 1": result is float64, not bool'),
        ({"1": "a"}, 'expression "1": result is int, not bool'),
        ({"'x'": "a"}, "expression \"'x'\": result is string, not bool"),
        ({"nil": "a"}, 'expression "nil": result is <nil>, not bool'),
        ({"[1]": "a"}, 'expression "[1]": result is []interface {}, not bool'),
        ({"o": "a"}, 'expression "o": result is map[string]interface {}, not bool'),
        ({"n < 0": "a", "false": "b"}, "no conditionalNextSteps branch matched (DecisionNoBranchMatched)"),
        ({"missing": "a", "true": "b"}, 'expression eval error: expression "missing": undefined variable "missing"'),
    ],
)
def test_a_decision_that_comes_to_nothing_fails_the_instance(branches: dict[str, str], reason: str):
    world = decided(branches, n=3, o={})
    assert (world.status, world.reason, world.at) == ("FAILED", reason, ["route"])
    assert world.line("route").failure_reason == reason


def test_a_decision_leaves_the_variables_alone():
    assert decided({"true": "a"}, n=1).variables == {"n": 1}


def test_literals_are_set_as_they_are():
    values: dict[str, JsonValue] = {
        "number": 50,
        "fraction": Decimal("0.5"),
        "text": "USD",
        "nothing": None,
        "nested": {"inner": "${n}", "list": ["${n}"]},
        "greeting": "Hello ${n}",
    }
    assert transformed({"n": 1}, **values).variables == {"n": 1, **values}


def test_expressions_give_values_of_any_type():
    world = transformed({"n": 2}, sum="${n + 0.5}", big="${n > 1}", list="${[n, 'x']}", obj="${n}", trimmed="${  n  }")
    assert world.variables == {"n": 2, "sum": Decimal("2.5"), "big": True, "list": [2, "x"], "obj": 2, "trimmed": 2}


def test_a_transformation_sees_the_results_of_those_before_it():
    assert transformed({"n": 1}, n="${n + 1}", m="${n * 10}").variables == {"n": 2, "m": 20}


def test_now_alone_is_the_time_to_the_second_and_inside_a_larger_expression_to_the_microsecond():
    world = transformed({}, at="${now()}", exact="${now() + duration('0s')}")
    assert world.variables["at"] == "2024-06-01T09:00:00Z"
    assert world.variables["exact"] == "2024-06-01T09:00:00.001Z"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("${gone}", 'expression "gone": undefined variable "gone"'),
        ("${n / 0}", 'expression "n / 0": result +Inf is not a finite number'),
        ("${0 / 0}", 'expression "0 / 0": result NaN is not a finite number'),
        ("${n} and ${n}", "expression \"n} and ${n\": unterminated '${' in expression"),
        ("${'\\u0000'}", "expression \"'\\\\u0000'\": result contains a NUL character"),
    ],
)
def test_a_transformation_that_cannot_be_computed_fails_the_instance(value: str, reason: str):
    world = transformed({"n": 1}, first="set", fee=value)
    assert world.reason == f'transformation "fee": expression eval: {reason}'
    assert world.variables == {"n": 1}


def test_the_output_snapshot_of_a_transformation_is_all_variables():
    assert transformed({"n": 1}, m=2).line("calc").output_snapshot == {"n": 1, "m": 2}


def test_a_loop_that_never_pauses_is_cut():
    process = with_budget(a_process(transformation("a", "b", n=1), transformation("b", "a", n=2), end()), 100)
    world = World(process).start()
    assert world.reason == "step budget exceeded (100 steps without a pause)"
    assert world.history[-1] == "a#51 FAILED"


def test_the_budget_of_a_definition_is_ten_thousand_steps():
    world = World(a_process(transformation("a", "a", n=1), end())).start()
    assert world.reason == "step budget exceeded (10000 steps without a pause)"


def test_a_chain_of_fifty_thousand_steps_is_run_job_by_job():
    steps = [service(f"s{n}", f"s{n + 1}") for n in range(50_000)]
    world = World(a_process(*steps, end("s50000"))).start()
    for n in range(5):
        world.complete(f"s{n}")
    assert world.at == ["s5"]


def test_an_instance_may_complete_at_once():
    world = decided({"true": "a"})
    assert (world.status, world.instance.completed_at, world.moves) == ("COMPLETED", world.clock, ["complete"])


def test_an_instance_may_fail_at_once():
    world = decided({"false": "a"})
    assert (world.status, world.moves) == ("FAILED", ["fail"])

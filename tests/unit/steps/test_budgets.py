"""What one operation on an instance may cost everybody else: definitions come from outside."""

from itertools import pairwise

import pytest

from statewright.jsonval.values import JsonObject
from statewright.steps.instance import Instance
from tests.unit.steps.builders import a_process, decision, end, transformation
from tests.unit.steps.world import World


def started(variables: JsonObject, transformations: JsonObject, *, until: str = "count > 5000") -> Instance:
    """An instance whose first two steps go round until it fails, or until the condition holds."""
    process = a_process(
        transformation("change", "again", **transformations, count="${count + 1}"),
        decision("again", {until: "end", "true": "change"}),
        end(),
    )
    return World(process).start(count=0, **variables).instance


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
    assert any(part in str(instance.failure_reason) for part in ("memory budget exceeded", "nested too deeply"))


def test_small_variables_go_round_thousands_of_times():
    assert started({"x": "y" * 100}, {"y": "${x + 'z'}"}, until="count >= 4000").status == "COMPLETED"


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

"""Every function, comparison and form of guards has a cost, which is charged before its work
(docs/reference/flows.md#guards).
"""

from contextlib import suppress

import pytest

from statewright.flows.guards import MAX_SELECTED, GuardTooBroad, MalformedGuard, parse_guard
from statewright.flows.guards.values import FUNCTIONS
from statewright.loop.turns import MAX_TURN_ELEMENTS
from tests.hostile_documents import DOCUMENT, MAX_EVALUATION_S, MAX_UNCHARGED_S, measure
from tests.hostile_guards import generate_guards, iterate_shapes


def test_every_function_has_a_number_of_arguments():
    assert all(function.counts for function in FUNCTIONS.values())


@pytest.mark.parametrize("guard", [*iterate_shapes()], ids=lambda text: text[:60])
@pytest.mark.parametrize("limit", [MAX_TURN_ELEMENTS, MAX_SELECTED])
def test_a_guard_ends_as_soon_as_its_limit_says(guard: str, limit: int):
    def act() -> None:
        with suppress(GuardTooBroad):
            parsed.judge(DOCUMENT, limit)

    parsed = parse_guard(guard)
    assert measure(act) < MAX_UNCHARGED_S * limit / MAX_TURN_ELEMENTS


@pytest.mark.parametrize("guard", [*generate_guards(2026, 55)], ids=lambda text: text[:60])
def test_any_combination_ends(guard: str):
    def act() -> None:
        with suppress(GuardTooBroad, MalformedGuard):
            parse_guard(guard).holds(DOCUMENT)

    assert measure(act) < MAX_EVALUATION_S


@pytest.mark.parametrize(
    "guard", [shape for shape in iterate_shapes() if len(shape) > 3_000], ids=lambda text: text[:60]
)
def test_a_guard_is_parsed_in_the_time_of_a_turn(guard: str):
    def act() -> None:
        with suppress(MalformedGuard):
            parse_guard(f"{guard} ")

    assert measure(act) < MAX_UNCHARGED_S

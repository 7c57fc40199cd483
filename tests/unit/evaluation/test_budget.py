"""A budget is charged before the work, together with those that it shares."""

import pytest

from statewright.evaluation import Budget, Turn
from statewright.loop.turns import TurnExceeded


class UsedUp(Exception):
    pass


def test_all_may_be_spent_and_no_more() -> None:
    budget = Budget(5, UsedUp)
    budget.spend(3)
    budget.spend(2)
    assert budget.left == 0
    with pytest.raises(UsedUp):
        budget.spend(1)


def test_what_is_spent_is_taken_from_all_that_are_shared() -> None:
    turn = Turn(10)
    operation = Budget(100, UsedUp, turn)
    for _ in range(2):
        Budget(5, UsedUp, operation).spend(5)
    assert (turn.left, operation.left) == (0, 90)
    with pytest.raises(TurnExceeded):
        Budget(5, UsedUp, operation).spend(1)


def test_the_narrowest_budget_refuses_first_and_spares_the_others() -> None:
    turn = Turn(10)
    with pytest.raises(UsedUp):
        Budget(5, UsedUp, turn).spend(11)
    assert turn.left == 10

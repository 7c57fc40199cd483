"""What all evaluators have in common: those of conditions, step expressions, templates and guards.

Each language has its own syntax, kinds of values and messages. What is here is the same for all of them: the budget
that is charged before an operation runs, what operations cost, and regular expressions.
"""

from statewright.evaluation.costs import Budget, Turn

__all__ = ["Budget", "Turn"]

"""What an expression is evaluated in, and the bound on how much work it may make."""

from typing import Final

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.values import Map, Value

WORK_LIMIT: Final = 1_000_000
"""Most elements an evaluation may build or visit, about a second's worth; the base language has the same bound."""

OPERATION_LIMIT: Final = 2_000_000
"""The same for all evaluations of one operation on an instance, and for what its steps leave in the history.

An operation goes through thousands of steps while everybody else waits.
"""

CHARACTERS: Final = 64
"""Characters of a text that count as one element."""

DEEPEST: Final = 250
"""Levels of a result; what is nested much deeper could not be stored and read again."""

EVALUATION: Final = 10
"""Elements that an evaluation counts as, whatever it does."""


class Budget:
    """What one operation may still spend, in elements."""

    __slots__ = ("left",)

    def __init__(self, elements: int = OPERATION_LIMIT) -> None:
        self.left = elements

    def spend(self, elements: int) -> None:
        """Account for elements built or visited. Raises :class:`ExpressionError` when it has been too many."""
        self.left -= elements
        if self.left < 0:
            raise ExpressionError("memory budget exceeded")


class Frame:
    """One evaluation: the variables, the instant, the element a predicate looks at, and names bound by ``let``."""

    __slots__ = ("at", "bound", "budget", "element", "variables", "work")

    def __init__(self, variables: JsonObject, at: int, budget: Budget | None = None) -> None:
        self.variables = variables
        self.at = at
        self.element: Value = None
        self.bound: dict[str, Value] = {}
        self.work = 0
        self.budget = Budget() if budget is None else budget
        self.budget.spend(EVALUATION)

    def spend(self, elements: int) -> None:
        """Account for elements built or visited. Raises :class:`ExpressionError` when it has been too many."""
        self.work += elements
        if self.work > WORK_LIMIT:
            raise ExpressionError("memory budget exceeded")
        self.budget.spend(elements)

    def written(self, text: str) -> str:
        """A text that was built, accounted for."""
        self.spend(len(text) // CHARACTERS)
        return text

    def visit(self, value: Value) -> None:
        """Account for a value with all it holds, however often it holds the same.

        Raises :class:`ExpressionError`, for one that is nested too deeply, too.
        """
        self._visit(value, 0)

    def _visit(self, value: Value, depth: int) -> None:
        if isinstance(value, str):
            self.spend(len(value) // CHARACTERS)
        elif isinstance(value, tuple | list | dict | Map):
            members = value.entries if isinstance(value, Map) else value
            self.spend(len(members))
            if depth >= DEEPEST:
                raise ExpressionError("values are nested too deeply")
            for member in members.values() if isinstance(members, dict) else members:
                self._visit(member, depth + 1)  # type: ignore[arg-type]


def weight(value: JsonValue) -> int:
    """The elements that a JSON value counts as."""
    if isinstance(value, str):
        return len(value) // CHARACTERS
    if isinstance(value, dict):
        return len(value) + sum(map(weight, value.values()))
    return len(value) + sum(map(weight, value)) if isinstance(value, list) else 0

"""What an expression is evaluated in, and the bound on how much work it may make."""

from typing import Final

from statewright.jsonval.values import JsonObject
from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.values import Value

WORK_LIMIT: Final = 1_000_000
"""Most elements an evaluation may build or visit, about a second's worth; the base language has the same bound."""


class Frame:
    """One evaluation: the variables, the instant, the element a predicate looks at, and names bound by ``let``."""

    __slots__ = ("at", "bound", "element", "variables", "work")

    def __init__(self, variables: JsonObject, at: int) -> None:
        self.variables = variables
        self.at = at
        self.element: Value = None
        self.bound: dict[str, Value] = {}
        self.work = 0

    def spend(self, elements: int) -> None:
        """Account for elements built or visited. Raises :class:`ExpressionError` when it has been too many."""
        self.work += elements
        if self.work > WORK_LIMIT:
            raise ExpressionError("memory budget exceeded")

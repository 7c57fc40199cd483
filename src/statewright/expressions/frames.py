"""The frame in which an expression is evaluated, and the budget of its work."""

from collections.abc import Callable
from typing import Final, TypeAlias

from statewright.expressions.values import ExpressionError, Map, Value
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.turns import TurnExceeded

MAX_EVALUATION_ELEMENTS: Final = 1_000_000
"""Most elements an evaluation may build or visit, about a second of work; the base language has the same bound."""

MAX_OPERATION_ELEMENTS: Final = 2_000_000
"""Most elements for all evaluations of one operation on an instance, and for the outputs in its history together.

An operation may go through thousands of steps, and the event loop can do nothing else meanwhile.
"""

CHARS_PER_ELEMENT: Final = 64
"""Characters of a text that count as one element."""

MAX_DEPTH: Final = 250
"""Levels of a result; what is nested much deeper could not be stored and read again."""

ELEMENTS_PER_EVALUATION: Final = 10
"""Elements that every evaluation counts as, in addition to those it builds or visits."""


class Budget:
    """The elements that one operation may still build or visit, and those of its first turn of the event loop."""

    __slots__ = ("_turn_ends", "left")

    def __init__(self, elements: int = MAX_OPERATION_ELEMENTS, *, within_turn: int | None = None) -> None:
        self.left = elements
        self._turn_ends = 0 if within_turn is None else max(elements - within_turn, 0)

    def spend(self, elements: int) -> None:
        """Account for elements built or visited. Raises :class:`ExpressionError` when it has been too many,
        ``TurnExceeded`` when it has been too many for a turn.
        """
        self.left -= elements
        if self.left < self._turn_ends:
            if self._turn_ends:
                raise TurnExceeded
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
        self.budget.spend(ELEMENTS_PER_EVALUATION)

    def spend(self, elements: int) -> None:
        """Account for elements built or visited. Raises :class:`ExpressionError` when it has been too many."""
        self.work += elements
        if self.work > MAX_EVALUATION_ELEMENTS:
            raise ExpressionError("memory budget exceeded")
        self.budget.spend(elements)

    def charge_text(self, text: str) -> str:
        """``text``, a text that was built, once it is accounted for. Raises as :meth:`spend`."""
        self.spend(len(text) // CHARS_PER_ELEMENT)
        return text

    def visit(self, value: Value) -> None:
        """Account for a value with all it holds, however often it holds the same.

        Raises :class:`ExpressionError`, for one that is nested too deeply, too.
        """
        self._visit(value, 0)

    def _visit(self, value: Value, depth: int) -> None:
        if isinstance(value, str):
            self.spend(len(value) // CHARS_PER_ELEMENT)
        elif isinstance(value, tuple | list | dict | Map):
            members = value.entries if isinstance(value, Map) else value
            self.spend(len(members))
            if depth >= MAX_DEPTH:
                raise ExpressionError("values are nested too deeply")
            for member in members.values() if isinstance(members, dict) else members:
                self._visit(member, depth + 1)  # type: ignore[arg-type]


def count_elements(value: JsonValue) -> int:
    """The elements that a JSON value counts as."""
    if isinstance(value, str):
        return len(value) // CHARS_PER_ELEMENT
    if isinstance(value, dict):
        return len(value) + sum(map(count_elements, value.values()))
    return len(value) + sum(map(count_elements, value)) if isinstance(value, list) else 0


BuiltinFunction: TypeAlias = Callable[[Frame, tuple[Value, ...]], Value]
"""A built-in function. The number of arguments has been checked when it is called."""


def wrap_unary(apply: Callable[[Value], Value]) -> BuiltinFunction:
    """The built-in function that applies ``apply`` to its only argument."""
    return lambda _, arguments: apply(arguments[0])

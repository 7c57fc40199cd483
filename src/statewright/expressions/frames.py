"""The frame in which an expression is evaluated, the budget of its work, and what its functions cost.

Work is counted in *elements*, those of an array that is built or visited: each is a step of
``statewright.evaluation.costs``.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from statewright import evaluation
from statewright.evaluation.costs import CHARS_PER_STEP, Cost, Entry, charge_nothing, compute_number
from statewright.evaluation.regexes import count_compilation_steps
from statewright.evaluation.values import count_chars
from statewright.expressions.values import ExactNumber, ExpressionError, Map, Value
from statewright.jsonval.values import JsonObject, JsonValue

MAX_EVALUATION_ELEMENTS: Final = 1_000_000
"""Most elements an evaluation may build or visit, about a second of work; the base language has the same bound."""

MAX_OPERATION_ELEMENTS: Final = 2_000_000
"""Most elements for all evaluations of one operation on an instance, and for the outputs in its history together.

An operation may go through thousands of steps, and the event loop can do nothing else meanwhile.
"""

CHARS_PER_ELEMENT: Final = CHARS_PER_STEP
"""Characters of a text that count as one element."""

TOKENS_PER_ELEMENT: Final = 4
"""Tokens of an expression that count as one element, each time they are evaluated."""

MAX_DEPTH: Final = 250
"""Levels of a result; what is nested much deeper could not be stored and read again."""

MAX_RESULT_CHARS: Final = 10 * 1024 * 1024
"""About how many characters a result may have when it is written: as many as a request, since it is stored like one."""

SHORT_BYTES: Final = 128
"""Numbers that take no more of memory are converted in no time."""

_ITEMS_PER_STEP: Final = 64
"""Elements of an array that an expression built which are copied in a step."""
_CASED_CHARS_PER_STEP: Final = 16
"""Characters beyond ASCII that are written in another case in a step: some become several."""

ELEMENTS_PER_EVALUATION: Final = 10
"""Elements that every evaluation counts as, in addition to those it builds or visits."""


def _refuse() -> ExpressionError:
    return ExpressionError("memory budget exceeded")


class ExpressionBudget(evaluation.Budget):
    """The elements that one operation may still build or visit, and those of its first turn of the event loop. Raises
    :class:`ExpressionError` when it has been too many, ``TurnExceeded`` when it has been too many for a turn.
    """

    __slots__ = ("_patterns", "_turn")

    def __init__(self, elements: int = MAX_OPERATION_ELEMENTS, *, within_turn: int | None = None) -> None:
        self._turn = None if within_turn is None else evaluation.Turn(within_turn)
        super().__init__(elements, _refuse, self._turn)
        self._patterns: set[str] = set()

    def spend_turn(self, elements: int) -> None:
        """Account for work that does not count, but should not be done while others wait. Raises ``TurnExceeded``."""
        if self._turn is not None:
            self._turn.spend(elements)

    def count_pattern(self, pattern: str) -> int:
        """What it takes to compile a pattern, of which one operation does so once."""
        if pattern in self._patterns:
            return 0
        self._patterns.add(pattern)
        return count_compilation_steps(pattern)


class Frame(evaluation.Budget):
    """One evaluation: the variables, the instant, the element a predicate looks at, names bound by ``let``, and what
    may still be spent on it. Raises as :class:`ExpressionBudget`.
    """

    __slots__ = ("at", "bound", "budget", "element", "variables")

    def __init__(self, variables: JsonObject, at: int, budget: ExpressionBudget | None = None) -> None:
        self.budget = ExpressionBudget() if budget is None else budget
        super().__init__(MAX_EVALUATION_ELEMENTS, _refuse, self.budget)
        self.variables = variables
        self.at = at
        self.element: Value = None
        self.bound: dict[str, Value] = {}
        self.budget.spend(ELEMENTS_PER_EVALUATION)

    def charge_text(self, text: str) -> str:
        """``text``, a text that was built, once it is accounted for. Raises as :meth:`spend`."""
        self.spend(len(text) // CHARS_PER_ELEMENT)
        return text

    def charge_number(self, value: object) -> None:
        """Account for a number of a variable that is about to be converted: long ones take their digits."""
        if value.__sizeof__() > SHORT_BYTES:
            self.spend(compute_number(value))

    def visit(self, value: Value, *, per_level: int = 0) -> None:
        """Account for a value with all it holds, however often it holds the same; for each element ``per_level``
        characters more at each level.

        Raises :class:`ExpressionError`, for one that is nested too deeply, too.
        """
        self._visit(value, 0, per_level)

    def _visit(self, value: Value, depth: int, per_level: int) -> None:
        if isinstance(value, str):
            self.spend(len(value) // CHARS_PER_ELEMENT)
        elif type(value) is ExactNumber:
            self.charge_number(value.number)
        elif isinstance(value, tuple | list | dict | Map):
            members = value.entries if isinstance(value, Map) else value
            self.spend(len(members) * (1 + per_level * depth // CHARS_PER_ELEMENT))
            if depth >= MAX_DEPTH:
                raise ExpressionError("values are nested too deeply")
            for member in members.values() if isinstance(members, dict) else members:
                self._visit(member, depth + 1, per_level)  # type: ignore[arg-type]


def refuse_large_result(value: Value) -> None:
    """Refuse what could be written only as a longer text than a request may have, however short the expression is.

    Only for what was visited: then there are not too many elements to look at. Raises :class:`ExpressionError`.
    """
    left = MAX_RESULT_CHARS
    pending: list[object] = [value]
    while pending and left >= 0:
        current = pending.pop()
        if isinstance(current, str):
            left -= len(current)
        elif isinstance(current, dict | Map):
            members = current.entries if isinstance(current, Map) else current
            left -= sum([len(name) for name in members if isinstance(name, str)]) + len(members)
            pending.extend(members.values())
        elif isinstance(current, tuple | list):
            left -= len(current)
            pending.extend(current)
    if left < 0:
        raise ExpressionError(f"result too large: it would have more than {MAX_RESULT_CHARS} characters")


def count_elements(value: JsonValue) -> int:
    """The elements that a JSON value counts as."""
    if isinstance(value, str):
        return len(value) // CHARS_PER_ELEMENT
    if isinstance(value, dict):
        return len(value) + sum(map(count_elements, value.values()))
    return len(value) + sum(map(count_elements, value)) if isinstance(value, list) else 0


BuiltinFunction: TypeAlias = Callable[[Frame, tuple[Value, ...]], Value]
"""A built-in function. The number of arguments has been checked when it is called."""


def wrap_unary(apply: Callable[[Value], Value], cost: Cost = charge_nothing) -> Entry:
    """The built-in function that applies ``apply`` to its only argument; ``cost`` takes that argument."""
    call: BuiltinFunction = lambda _, arguments: apply(arguments[0])  # noqa: E731
    return Entry(call, cost)


# What functions and operators cost, by their arguments, beside ``statewright.evaluation.values``.


def list_items(value: Value, *_: Value) -> int:
    """The elements of an array are listed: those of a variable become values one by one."""
    if isinstance(value, list):
        return 1 + len(value)
    return 1 + len(value) // _ITEMS_PER_STEP if isinstance(value, tuple) else 0


def list_all_items(*values: Value) -> int:
    """The same of several arrays."""
    return sum(map(list_items, values))


def list_entries(value: Value) -> int:
    """The members of an object are listed in the order of their names."""
    if isinstance(value, dict):
        return 1 + 2 * len(value)
    return 1 + 2 * len(value.entries) if isinstance(value, Map) else 0


def change_case(value: Value) -> int:
    """A text is written in another case."""
    chars = count_chars(value)
    is_plain = isinstance(value, str) and value.isascii()
    return 1 + chars // (CHARS_PER_STEP if is_plain else _CASED_CHARS_PER_STEP)

"""What one evaluation works on: the scope, variables of statement blocks, and what it has left to spend.

What can be wrong with a template: when it is read, and when it is evaluated.
"""

from collections.abc import Mapping
from typing import Final

from statewright.evaluation.costs import Budget, Entry, Turn, compute_number, scan_text, visit_items
from statewright.jsonval.values import JsonValue


class InvalidTemplate(ValueError):
    """A string that does not compile; ``path`` is its place within the value, a JSON pointer."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class EvaluationFailed(Exception):
    """An expression that has no value."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


MAX_STEPS: Final = 250_000
"""Steps of one evaluation: 250 ms at a microsecond each."""
MAX_TEXT_CHARS: Final = 1024 * 1024
"""Characters of a text that an evaluation makes."""
MAX_RANGE: Final = 100_000
"""Items of a list that an evaluation makes."""


def _refuse() -> EvaluationFailed:
    return EvaluationFailed(f"takes more than {MAX_STEPS} steps")


class Frame(Budget):
    """The state of one evaluation, and its budget: it raises :class:`EvaluationFailed` when that is used up."""

    __slots__ = ("scope", "variables")

    def __init__(self, scope: Mapping[str, JsonValue], turn: Turn | None = None) -> None:
        super().__init__(MAX_STEPS, _refuse, turn)
        self.scope = scope
        self.variables: dict[str, object] = {}

    def call(self, entry: Entry, *arguments: object, **named: object) -> object:
        """Count what a call of the table costs, and make it. Raises :class:`EvaluationFailed`."""
        self.spend(1 + entry.cost(*arguments, **named))
        return entry.call(self, *arguments, **named)

    def limit_text(self, chars: int) -> None:
        """Refuse a text that is too long to be made or looked through."""
        if chars > MAX_TEXT_CHARS:
            raise EvaluationFailed(f"makes a text of more than {MAX_TEXT_CHARS} characters")

    def limit_items(self, count: int) -> None:
        """Refuse a list that is too long to be made or looked through."""
        if count > MAX_RANGE:
            raise EvaluationFailed(f"makes or reads a list of more than {MAX_RANGE} items")

    def spend_text(self, chars: int) -> None:
        """Count a text that is about to be made or looked through, and whose length no entry of the table knows."""
        self.limit_text(chars)
        self.spend(scan_text(chars))

    def spend_items(self, count: int) -> None:
        """The same of a list."""
        self.limit_items(count)
        self.spend(visit_items(count))

    def spend_number(self, value: object) -> None:
        """The same of a number."""
        self.spend(compute_number(value))

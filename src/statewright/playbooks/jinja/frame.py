"""What one evaluation works on: the scope, variables of statement blocks, and what it has left to spend."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from statewright.jsonval.values import JsonValue
from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.turns import MAX_TURN_ELEMENTS, TurnExceeded

MAX_STEPS: Final = 250_000
"""Steps of one evaluation: 250 ms at a microsecond each."""
MAX_TEXT_CHARS: Final = 1024 * 1024
"""Characters of a text that an evaluation makes."""
MAX_RANGE: Final = 100_000
"""Items of a list that an evaluation makes."""
_MAX_SHORT_BITS: Final = 256
_BITS_PER_STEP: Final = 32
_MAX_SHORT_BYTES: Final = 128
_MAX_COMPARED: Final = 100
"""Longer parts are searched for in linear time."""
CHARS_PER_STEP: Final = 64
"""Characters that can be copied or compared at the price of a step."""


class Turn:
    """What the evaluations of one operation may come to together, while others wait for the event loop.

    Raises ``TurnExceeded`` when it is used up; the operation is then done again by a thread, without a turn.
    """

    __slots__ = ("_left",)

    def __init__(self, steps: int = MAX_TURN_ELEMENTS) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Count what is about to be computed."""
        self._left -= steps
        if self._left < 0:
            raise TurnExceeded


class Frame:
    """The state of one evaluation."""

    __slots__ = ("_left", "_turn", "scope", "variables")

    def __init__(self, scope: Mapping[str, JsonValue], turn: Turn | None = None) -> None:
        self.scope = scope
        self.variables: dict[str, object] = {}
        self._left = MAX_STEPS
        self._turn = turn

    def spend(self, steps: int) -> None:
        """Count what is about to be computed. Raises :class:`EvaluationFailed` if it is too much."""
        self._left -= steps
        if self._left < 0:
            raise EvaluationFailed(f"takes more than {MAX_STEPS} steps")
        if self._turn is not None:
            self._turn.spend(steps)

    def spend_text(self, chars: int) -> None:
        """Count a text that is about to be made or looked through."""
        if chars > MAX_TEXT_CHARS:
            raise EvaluationFailed(f"makes a text of more than {MAX_TEXT_CHARS} characters")
        self.spend(1 + chars // CHARS_PER_STEP)

    def spend_search(self, text: str, part: str) -> None:
        """Count a search for a part of a text, which may compare the part at every place."""
        self.spend_text(len(text))
        self.spend(len(text) // CHARS_PER_STEP * min(len(part), _MAX_COMPARED) // 16)

    def spend_number(self, value: object) -> None:
        """Count a number that is about to be computed with, compared or written: long ones cost by their digits."""
        if isinstance(value, int):
            if (bits := value.bit_length()) > _MAX_SHORT_BITS:
                self.spend(bits // _BITS_PER_STEP)
        elif isinstance(value, Decimal) and (size := value.__sizeof__()) > _MAX_SHORT_BYTES:
            self.spend(size // 4)

    def spend_items(self, count: int) -> None:
        """Count a list that is about to be made or looked through."""
        if count > MAX_RANGE:
            raise EvaluationFailed(f"makes or reads a list of more than {MAX_RANGE} items")
        self.spend(1 + count)

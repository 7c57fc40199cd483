"""What the operations of evaluators cost, known before they are done.

Authors of conditions, expressions, guards and templates write what the service computes for them. Each evaluator has a
budget of *steps*: a step is about a microsecond of a slow core. It has a table with an :class:`Entry` for every
function, filter, method and operator that its language knows, and charges the cost of an entry before it calls its
function. The budget ends an evaluation; without costs one call could take minutes, and no other thread would run.

A cost is a function of the arguments of the call. It is computed in constant time, or in the number of arguments: it
looks at types and lengths, never at characters or items. Work that grows with a product of two lengths costs the
product. What goes through items whose sizes differ cannot know its cost at once: its entry charges what is known, and
the function charges each item before it looks at it.

The formulas below are shared by all evaluators, and ``tests/unit/evaluation/test_costs.py`` measures them. They are
meant for the worst text or number of a size, so most calls take a fraction of what they are charged.

The budget of an evaluation: what it may still do, charged before it is done.

The unit is that of the language: steps of ``statewright.evaluation.costs``, or parts or multiples of them.
"""

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import to_whole
from statewright.loop.turns import MAX_TURN_ELEMENTS, TurnExceeded

Cost: TypeAlias = Callable[..., int]
"""The steps of a call, from its arguments. Never raises: of arguments that the function refuses, anything will do."""

CHARS_PER_STEP: Final = 64
"""Characters that are copied, compared, looked through or written in another case in a step."""

_PAIRS_PER_STEP: Final = 1024
"""Pairs of characters that are compared in a step."""
_NAIVE_CHARS: Final = 2_500
"""Up to so many characters CPython looks for a part at every place; in longer texts in linear time."""
_BITS_PER_STEP: Final = 32
_SHORT_BITS: Final = 256
_SHORT_BYTES: Final = 128
_HASH_MODULUS: Final = 2**61 - 1
_WHOLE_DIGITS: Final = 18
"""Whole numbers of up to so many digits are smaller than the modulus."""
_EXACT: Final = Context(prec=16_000, Emax=999_999, Emin=-999_999)


class Entry(Struct, frozen=True):
    """A function that an evaluator may call, and what a call costs."""

    call: Callable[..., Any]  # each evaluator has its own kind of values
    cost: Cost
    """Takes the arguments of ``call`` but for the frame of the evaluation."""


def charge_nothing(*_: object, **__: object) -> int:
    """The cost of what takes constant time, or itself charges for each part of its work."""
    return 0


def scan_text(chars: int) -> int:
    """A text of so many characters is copied, looked through, compared, hashed, or changed character by character."""
    return 1 + chars // CHARS_PER_STEP


def search_text(chars: int, part: int) -> int:
    """A part of so many characters is looked for in a text from its beginning, once or for all its places."""
    if part > chars:
        return 1
    return scan_text(chars) + min(chars, _NAIVE_CHARS) * min(part, _NAIVE_CHARS) // _PAIRS_PER_STEP


def search_text_backwards(chars: int, part: int) -> int:
    """The same from the end (``rfind``, ``rsplit``), where CPython compares the part at every place."""
    if part > chars:
        return 1
    return scan_text(chars) + chars * part // _PAIRS_PER_STEP


def strip_text(chars: int, stripped: int) -> int:
    """Characters are taken from the ends of a text: each is looked for among those to strip."""
    return scan_text(chars + stripped) + chars * stripped // _PAIRS_PER_STEP


def split_text(chars: int, separator: int) -> int:
    """A text is split: beside the search a part is made for each place; ``separator`` 0: at blanks."""
    return search_text(chars, max(separator, 1)) + chars // (8 * max(separator, 1))


def visit_items(count: int) -> int:
    """So many items are copied or visited."""
    return 1 + count


def sort_items(count: int) -> int:
    """So many items are sorted."""
    return 1 + count * count.bit_length()


def read_digits(chars: int) -> int:
    """A text is read as a number, or a number written: by the square of its digits, as Python does it."""
    return 1 + chars**2 // 16_000


def decode_json(chars: int) -> int:
    """A text is decoded as JSON."""
    return 1 + chars // 4


def match_pattern(chars: int, program: int) -> int:
    """A text is matched by a pattern of RE2, whose compiled program has so many instructions (``programsize``).

    Many states at once make it visit most of the program for each character.
    """
    return 1 + chars // 16 + chars * program // _PAIRS_PER_STEP


def compute_number(value: object) -> int:
    """A number is computed with, compared, converted or written: short ones cost nothing, others by their digits."""
    if isinstance(value, int):
        bits = value.bit_length()
        return bits // _BITS_PER_STEP if bits > _SHORT_BITS else 0
    if isinstance(value, Decimal):
        size = value.__sizeof__()
        return size // 4 if size > _SHORT_BYTES else 0
    return 0


def expand_number(value: int | Decimal) -> int:
    """A number becomes an ``int``, or is compared with one: by the digits that it has without exponent."""
    if isinstance(value, Decimal):
        return compute_number(value) + (max(value.adjusted(), 0) // 4 if value.is_finite() else 0)
    return compute_number(value)


def key_number(value: int | Decimal) -> object:
    """What stands for a number in a set or mapping: equal for equal numbers, and never in one bucket with many others.

    Python hashes a number to its remainder by 2**61 - 1, which an author can choose; texts it hashes with a secret.
    The cost is :func:`expand_number`.
    """
    if isinstance(value, int):
        if -_HASH_MODULUS < value < _HASH_MODULUS:
            return int(value)
    elif isinstance(whole := to_whole(value, _WHOLE_DIGITS), int):
        return whole
    return ("number", str(_EXACT.normalize(_EXACT.create_decimal(value))))


class Budget:
    """What may still be spent, by one evaluation or by several that share it."""

    __slots__ = ("_refuse", "_shared", "left")

    def __init__(self, units: int, refuse: Callable[[], Exception], shared: "Budget | None" = None) -> None:
        """``refuse`` makes what is raised when nothing is left; of ``shared`` all is spent that is spent here."""
        self.left = units
        self._refuse = refuse
        self._shared = shared

    def spend(self, units: int) -> None:
        """Account for what is about to be done. Raises what this budget, or one that it shares, refuses with."""
        budget: Budget | None = self
        while budget is not None:
            budget.left -= units
            if budget.left < 0:
                raise budget._refuse()
            budget = budget._shared


class Turn(Budget):
    """What evaluations may come to together while others wait for the event loop.

    Raises ``TurnExceeded`` when it is used up; the operation is then done again by a thread, without a turn.
    """

    __slots__ = ()

    def __init__(self, units: int = MAX_TURN_ELEMENTS) -> None:
        super().__init__(units, TurnExceeded)

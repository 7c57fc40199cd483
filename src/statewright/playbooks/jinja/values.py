"""What expressions are evaluated with: their values, and the state of one evaluation.

Values are those of JSON, and *undefined*; they are compared and written here. An evaluation works on the scope, on
variables of statement blocks, and with what it has left to spend. A template can be wrong when it is read, and when it
is evaluated.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from statewright.evaluation.costs import (
    CHARS_PER_STEP,
    Budget,
    Entry,
    Turn,
    compute_number,
    expand_number,
    scan_text,
    visit_items,
)
from statewright.evaluation.values import charge_compared, compare_parts
from statewright.jsonval.numbers import format_number
from statewright.jsonval.scanning import MAX_DIGITS, is_in_range
from statewright.jsonval.values import JsonValue, to_whole


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

    __slots__ = ("at", "scope", "variables")

    def __init__(self, scope: Mapping[str, JsonValue], turn: Turn | None = None, at: int | None = None) -> None:
        """``at``: what ``now()`` gives, in microseconds of the epoch; ``None``: it is not known."""
        super().__init__(MAX_STEPS, _refuse, turn)
        self.at = at
        self.scope = scope
        self.variables: dict[str, object] = {}

    def call(self, entry: Entry, /, *arguments: object, **named: object) -> object:
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


MAX_DEPTH: Final = 100
"""Containers within each other, in a value that an expression makes or compares."""
_LEAST_LONG: Final = 10**MAX_DIGITS
"""The smallest whole number with more digits than are allowed."""
_FALSE_TEXTS: Final = frozenset(("", "false", "0", "no", "none", "null"))
_MAX_FALSE_CHARS: Final = max(map(len, _FALSE_TEXTS))
_MAX_PLAIN_EXPONENT: Final = 16
_EVENT_ALIASES: Final[dict[str, frozenset[str]]] = {
    "step.done": frozenset(("step.done", "call.done", "step.exit")),
    "step.failed": frozenset(("step.failed", "call.error", "step.exit")),
}


class Undefined:
    """What a name or a member is that does not exist."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Namespace:
    """What ``namespace()`` makes: variables that a loop can set."""

    __slots__ = ("members",)

    def __init__(self, members: dict[str, object]) -> None:
        self.members = members


class EventName(str):
    """The name of a boundary event, which compares equal to its aliases."""

    __slots__ = ("aliases",)
    aliases: frozenset[str]


class Complete(dict[str, JsonValue]):
    """A mapping that has every member it may be asked for: to name another one is an error."""

    __slots__ = ()


def name_event(name: str) -> EventName:
    """The name of a boundary event as ``event.name`` gives it to conditions."""
    named = EventName(name)
    named.aliases = _EVENT_ALIASES.get(name, frozenset((name,)))
    return named


def is_true(value: object) -> bool:
    """Whether a condition of this value holds. Text that says no is false, unlike in :func:`is_truthy`."""
    if isinstance(value, str):
        stripped = value.strip()
        return len(stripped) > _MAX_FALSE_CHARS or stripped.lower() not in _FALSE_TEXTS
    return is_truthy(value)


def is_truthy(value: object) -> bool:
    """Whether a value counts as true within an expression: what is not empty, zero, null or undefined."""
    if isinstance(value, Undefined):
        return False
    return True if isinstance(value, Namespace) else bool(value)


def describe(value: object) -> str:
    """A value as messages name it."""
    if isinstance(value, Undefined):
        return f"{value.name}, which is undefined"
    names = {bool: "a boolean", int: "a number", Decimal: "a number", dict: "a mapping", list: "a list"}
    if value is None:
        return "null"
    return "text" if isinstance(value, str) else names.get(type(value), "a namespace")


def compare_equal(left: object, right: object, frame: Frame, depth: int = 0) -> bool:
    """Whether two values are equal; undefined equals undefined alone."""
    frame.spend(1)
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return isinstance(left, Undefined) and isinstance(right, Undefined)
    if isinstance(left, str) and isinstance(right, str):
        frame.spend(charge_compared(left, right))
        return _compare_text(left, right)
    if depth > MAX_DEPTH:
        raise EvaluationFailed(f"compares values nested deeper than {MAX_DEPTH} levels")
    if isinstance(left, list) and isinstance(right, list):
        return compare_parts(left, right, lambda a, b: compare_equal(a, b, frame, depth + 1))
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(
            _find_name(name, right, frame) and compare_equal(member, right[name], frame, depth + 1)
            for name, member in left.items()
        )
    if isinstance(left, list | dict | Namespace) or isinstance(right, list | dict | Namespace):
        return left is right
    _spend_comparison(left, right, frame)
    return left == right


def _find_name(name: str, members: dict[str, object], frame: Frame) -> bool:
    frame.spend(len(name) // CHARS_PER_STEP)
    return name in members


def _spend_comparison(left: object, right: object, frame: Frame) -> None:
    """Count numbers: a whole one is compared with another exactly, whatever the exponent."""
    for value in (left, right):
        if isinstance(value, int | Decimal):
            frame.spend(expand_number(value))


def _compare_text(left: str, right: str) -> bool:
    if isinstance(left, EventName):
        return str(right) in left.aliases
    if isinstance(right, EventName):
        return left in right.aliases
    return left == right


def precedes(left: object, right: object, frame: Frame) -> bool:
    """Whether one value is smaller than another; false if either is undefined. Raises :class:`EvaluationFailed`."""
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return False
    if isinstance(left, str) and isinstance(right, str):
        frame.spend(charge_compared(left, right))
        return left < right
    if isinstance(left, int | Decimal) and isinstance(right, int | Decimal):
        _spend_comparison(left, right, frame)
        return left < right
    raise EvaluationFailed(f"cannot order {describe(left)} and {describe(right)}")


def check_number(value: int | Decimal) -> int | Decimal:
    """A computed number in the form of JSON: whole ones as ``int``. Raises :class:`EvaluationFailed` out of range."""
    if isinstance(value, int):
        if not -_LEAST_LONG < value < _LEAST_LONG:
            raise EvaluationFailed("computes a number of more than 4000 digits")
        return value
    if not value.is_finite() or not is_in_range(value):
        raise EvaluationFailed("computes a number that is out of range")
    return to_whole(value, 40)


def to_json(value: object, frame: Frame, depth: int = 0) -> JsonValue:
    """A value as JSON: undefined is null. Raises :class:`EvaluationFailed` for what has no such form."""
    if value is None or isinstance(value, bool | int | Decimal):
        frame.spend_number(value)
        return value
    if isinstance(value, str):
        frame.spend(len(value) // CHARS_PER_STEP)
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, Undefined):
        return None
    if depth > MAX_DEPTH:
        raise EvaluationFailed(f"gives a value nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, list):
        frame.spend(1 + len(value))
        return [to_json(item, frame, depth + 1) for item in value]
    if isinstance(value, dict):
        frame.spend(1 + len(value))
        frame.spend(sum(map(len, value)) // CHARS_PER_STEP)
        return {str.__str__(name): to_json(member, frame, depth + 1) for name, member in value.items()}
    raise EvaluationFailed(f"gives {describe(value)}, which is no JSON value")


def to_text(value: object, frame: Frame) -> str:
    """A value within text: as Jinja2 writes it, undefined as nothing."""
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, Undefined):
        return ""
    frame.spend_number(value)
    if isinstance(value, list | dict):
        pieces: list[str] = []
        _quote(value, frame, pieces, 0)
        frame.spend_text(sum(map(len, pieces)))
        return "".join(pieces)
    return _write_scalar(value)


def _write_scalar(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int | Decimal):
        return write_number(value)
    raise EvaluationFailed(f"writes {describe(value)} into text")


def write_number(value: int | Decimal) -> str:
    """A number as text: with the digits it has, with an exponent only if it is far from one."""
    if isinstance(value, Decimal) and -_MAX_PLAIN_EXPONENT < value.adjusted() < _MAX_PLAIN_EXPONENT:
        return f"{value:f}"
    return format_number(value)


def _quote(value: object, frame: Frame, pieces: list[str], depth: int) -> None:
    """The form in which Python shows a container."""
    if depth > MAX_DEPTH:
        raise EvaluationFailed(f"writes a value nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        frame.spend(1 + len(value))
        _quote_parts("{", "}", value.items(), frame, pieces, depth)
    elif isinstance(value, list):
        frame.spend(1 + len(value))
        _quote_parts("[", "]", value, frame, pieces, depth)
    elif isinstance(value, str):
        frame.spend_text(len(value))
        pieces.append(repr(str.__str__(value)))
    else:
        frame.spend_number(value)
        pieces.append("Undefined" if isinstance(value, Undefined) else _write_scalar(value))


def _quote_parts(
    opening: str, closing: str, parts: Iterable[object], frame: Frame, pieces: list[str], depth: int
) -> None:
    pieces.append(opening)
    for index, part in enumerate(parts):
        if index:
            pieces.append(", ")
        if isinstance(part, tuple):  # a member
            frame.spend_text(len(part[0]))
            pieces.append(f"{part[0]!r}: ")
            part = part[1]
        _quote(part, frame, pieces, depth + 1)
    pieces.append(closing)

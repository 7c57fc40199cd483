"""What evaluators know of values, whatever their language makes of them.

Costs of entries by the values of a call: the formulas of ``costs.py`` over texts. Each takes the arguments of the call,
and ignores those that it does not look at. What is no text has no characters: either the function refuses it, or it
accounts for it itself.

Deep equality of lists and mappings.
"""

from collections.abc import Callable
from typing import Any

from statewright.evaluation.costs import (
    CHARS_PER_STEP,
    compute_number,
    decode_json,
    scan_text,
    search_text,
    search_text_backwards,
    split_text,
    strip_text,
)


def count_chars(value: object) -> int:
    """The characters of a text; 0 for anything else."""
    return len(value) if isinstance(value, str) else 0


def charge_text(text: object, *_: object) -> int:
    """A text is copied or looked through."""
    return scan_text(count_chars(text))


def charge_end(_: object, part: object) -> int:
    """The beginning or end of a text is compared with a part."""
    return scan_text(count_chars(part))


def charge_joined(left: object, right: object) -> int:
    """Two texts are put together; short ones cost nothing."""
    return (count_chars(left) + count_chars(right)) // CHARS_PER_STEP


def charge_compared(left: object, right: object) -> int:
    """Two texts are compared, as far as the shorter one goes; short ones cost nothing."""
    return min(count_chars(left), count_chars(right)) // CHARS_PER_STEP


def charge_conversion(left: object, right: object) -> int:
    """Two values are compared: of numbers of different kinds, one is converted."""
    return 0 if left.__class__ is right.__class__ else compute_number(left) + compute_number(right)


def charge_search(text: object, part: object, *_: object) -> int:
    """A part is looked for in a text."""
    return search_text(count_chars(text), count_chars(part))


def charge_search_backwards(text: object, part: object, *_: object) -> int:
    """The same from the end of the text."""
    return search_text_backwards(count_chars(text), count_chars(part))


def charge_strip(text: object, chars: object = None, *_: object) -> int:
    """Characters are taken from the ends of a text."""
    return strip_text(count_chars(text), count_chars(chars))


def charge_split(text: object, separator: object = None, *_: object, **__: object) -> int:
    """A text is split."""
    return split_text(count_chars(text), count_chars(separator))


def charge_json(text: object) -> int:
    """A text is read as JSON."""
    return decode_json(count_chars(text))


def are_alike(left: object, right: object) -> bool:
    """Whether both are lists, or both are mappings: only then they may be equal by what they hold."""
    if isinstance(left, list | tuple):
        return isinstance(right, list | tuple)
    return isinstance(left, dict) and isinstance(right, dict)


def compare_parts(left: Any, right: Any, compare: Callable[[Any, Any], bool]) -> bool:  # Any: of any language
    """Whether two lists or mappings, which are alike, are equal: ``compare`` says so of each pair of what they hold."""
    if len(left) != len(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(compare(member, right[name]) for name, member in left.items())
    return all(map(compare, left, right))

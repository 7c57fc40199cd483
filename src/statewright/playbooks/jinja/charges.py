"""Costs of entries of the table: the formulas of ``statewright.evaluation.costs`` over the values of templates.

A value that is written as text first, being a list or a number, is counted while it is written; then the entry counts
it as a text (:func:`write_texts`).

What filters and methods do with text, measured before it is done.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from statewright.evaluation.costs import (
    Cost,
    compute_number,
    expand_number,
    read_digits,
    scan_text,
    visit_items,
)
from statewright.evaluation.values import (
    charge_search,
    charge_search_backwards,
    charge_split,
    charge_text,
    count_chars,
)
from statewright.playbooks.jinja.values import EvaluationFailed, Frame, Undefined, describe, to_text

MAX_NUMBER_CHARS: Final = 4_300
"""Of a text that is read as a number; a longer one is none."""


def write_texts(frame: Frame, cost: Cost, *values: object) -> Sequence[str]:
    """The values as texts, counted by ``cost`` if one had to be written: the entry did not know its length."""
    texts = [to_text(value, frame) for value in values]
    if not all(isinstance(value, str) for value in values):
        frame.spend(cost(*texts))
    return texts


def charge_value(value: object, *_: object, **__: object) -> int:
    """A text is copied or looked through, or the items of a list are visited, or a number is computed with."""
    if isinstance(value, str):
        return scan_text(len(value))
    if isinstance(value, list | dict):
        return visit_items(len(value))
    return compute_number(value)


def charge_names(**members: object) -> int:
    """A mapping is made."""
    return len(members)


def charge_numbers(left: object, right: object) -> int:
    """Two numbers are computed with."""
    return compute_number(left) + compute_number(right)


def charge_sum(left: object, right: object) -> int:
    """Two values are put together."""
    return charge_value(left) + charge_value(right)


def charge_membership(text: object, part: object, *_: object) -> int:
    """A part is looked for in a text, or a value in a list, which counts each comparison, or a name in a mapping."""
    if isinstance(text, str):
        return charge_search(text, part)
    return charge_text(part) if isinstance(text, dict) else 0


def charge_split_backwards(text: object, separator: object = None, *_: object, **__: object) -> int:
    """A text is split from its end."""
    return charge_split(text, separator) + charge_search_backwards(text, separator)


def charge_lines(text: object) -> int:
    """A text is split into lines, each of which may be empty."""
    return charge_text(text) + count_chars(text) // 16


def charge_digits(value: object, *_: object, **__: object) -> int:
    """A value is made a number."""
    if isinstance(value, str):
        return read_digits(len(value)) if len(value) <= MAX_NUMBER_CHARS else 0
    return expand_number(value) if isinstance(value, int | Decimal) else 0


def charge_url(text: object) -> int:
    """A text is quoted, at up to twelve characters for one."""
    return scan_text(3 * count_chars(text)) + count_chars(text) // 4


def charge_replacement(text: object, old: object, *_: object, **__: object) -> int:
    """All places of a part are looked for twice: to count them, and to replace them."""
    return 2 * charge_search(text, old)


def join_text(frame: Frame, items: object, separator: object = "") -> str:
    """The items of a list as one text."""
    if isinstance(items, Undefined):
        return ""
    if isinstance(items, str):
        frame.spend_items(len(items))
        items = list(items)
    if not isinstance(items, list | dict):
        raise EvaluationFailed(f"joins {describe(items)}")
    frame.spend_items(len(items))
    pieces = [to_text(item, frame) for item in items]
    between = to_text(separator, frame)
    frame.spend_text(sum(map(len, pieces)) + len(between) * len(pieces))
    return between.join(pieces)


def replace_text(frame: Frame, value: object, old: object, new: object, count: object = None) -> str:
    """The text with one part in place of another, ``count`` times at most."""
    text, part = write_texts(frame, charge_replacement, value, old)
    other = to_text(new, frame)
    if count is None:
        count = -1
    if not isinstance(count, int):
        raise EvaluationFailed(f"replaces {describe(count)} times")
    frame.limit_text(len(text))
    found = text.count(part)
    times = found if count < 0 else min(found, count)
    frame.spend_text(len(text) + times * max(len(other) - len(part), 0))
    frame.spend(times)
    return text.replace(part, other, count)

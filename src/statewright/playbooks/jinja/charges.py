"""Costs of entries of the table: the formulas of ``statewright.evaluation.costs`` over the values of templates.

A value that is written as text first, being a list or a number, is counted while it is written; then the entry counts
it as a text (:func:`write_texts`).

What filters and methods do with text, measured before it is done.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from string import Formatter
from typing import Final, TypeAlias

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


def charge_pattern(pattern: object, /, *_: object, **__: object) -> int:
    """A pattern is read; each of its fields counts itself."""
    return charge_value(pattern)


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


def charge_lines(text: object, *_: object, **__: object) -> int:
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


def expect_number(value: object, told: str) -> int | Decimal:
    """The value, if it is a number. Raises :class:`EvaluationFailed` with what is told."""
    if not isinstance(value, int | Decimal):
        raise EvaluationFailed(told)
    return value


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


# Text made of values by a pattern: `%` and `format` of Python, over JSON values and within bounds.

GetMember: TypeAlias = Callable[[object, object], object]

MAX_WIDTH: Final = 1_000
"""Of a field, and of the digits after its point."""
_STEPS_PER_FIELD: Final = 4
_PERCENT: Final = re.compile(
    r"%(?:\((?P<name>[^()]*)\))?(?P<flags>[-+ #0]*)(?P<width>\d*)(?:\.(?P<precision>\d*))?(?P<type>.|$)", re.DOTALL
)
_SPEC: Final = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>=^]))?(?P<sign>[-+ ])?(?P<alternate>#)?(?P<zero>0)?(?P<width>\d+)?(?P<grouping>[,_])?"
    r"(?:\.(?P<precision>\d+))?(?P<type>[a-zA-Z%])?",
    re.DOTALL,
)
_FIELD: Final = re.compile(r"\.([^.\[\]]+)|\[([^\]]+)\]")
_MAX_SPEC_CHARS: Final = 64
_FIRST_SURROGATE: Final = 0xD800
_USUAL_DECIMALS: Final = 6
_SHORT_EXPONENT: Final = re.compile(r"([eE][-+])(\d)$")
_OF_NUMBERS: Final = "bcdeEfFgGnoxX%"
_OF_WHOLE_NUMBERS: Final = "bcdoxX"


def format_percent(frame: Frame, pattern: str, values: list[object], named: "dict[str, object] | None") -> str:
    """``pattern % values``; ``named``: what ``%(name)s`` takes."""
    frame.limit_text(len(pattern))
    left = iter(values)
    has_left = object()
    pieces = list(_fill(frame, pattern, lambda name: _take(left, named, name)))
    if named is None and next(left, has_left) is not has_left:
        raise EvaluationFailed("formats a text with more values than it has places")
    return "".join(pieces)


def _fill(frame: Frame, pattern: str, take: Callable[["str | None"], object]) -> Iterator[str]:
    at = 0
    for found in _PERCENT.finditer(pattern):
        frame.spend(_STEPS_PER_FIELD)
        yield pattern[at : found.start()]
        at = found.end()
        if found["type"] == "%":
            yield "%"
            continue
        flags, kind = found["flags"], {"i": "d", "u": "d", "r": "s", "a": "s"}.get(found["type"], found["type"])
        sign = "+" if "+" in flags else " " if " " in flags else ""
        align = "<" if "-" in flags else "" if "0" in flags and kind != "s" else ">"
        zero = "0" if "0" in flags and align != "<" and kind != "s" else ""
        precision = "" if found["precision"] is None else f".{found['precision'] or 0}"
        alternate = "#" if "#" in flags and kind != "s" else ""
        value = take(found["name"])
        value = show_value(frame, value) if found["type"] in ("r", "a") else value
        yield format_value(frame, value, f"{align}{sign}{alternate}{zero}{found['width']}{precision}{kind}", cuts=True)
    yield pattern[at:]


def _take(left: Iterator[object], named: "dict[str, object] | None", name: "str | None") -> object:
    if name is None:
        for value in left:
            return value
        raise EvaluationFailed("formats a text with fewer values than it has places")
    if named is None or name not in named:
        raise EvaluationFailed(f"formats a text with {name[:60]}, which is not given")
    return named[name]


def format_fields(
    frame: Frame, pattern: str, arguments: list[object], named: dict[str, object], get_member: GetMember
) -> str:
    """``pattern.format(…)``, whose fields follow members and items of JSON, and nothing else."""
    frame.limit_text(len(pattern))
    pieces: list[str] = []
    count = 0
    for literal, field, spec, conversion in Formatter().parse(pattern):
        frame.spend(_STEPS_PER_FIELD)
        pieces.append(literal)
        if field is None:
            continue
        name = re.split(r"[.\[]", field, maxsplit=1)[0]
        value = _find(frame, name or str(count), arguments, named)
        count += not name
        for member, index in _FIELD.findall(field[len(name) :]):
            frame.spend(1)
            value = get_member(value, int(index) if index.isdecimal() and len(index) < 10 else index or member)
        if conversion not in (None, "s", "r", "a"):
            raise EvaluationFailed(f"formats by !{conversion}, which is no conversion of a value")
        shown = (
            value if conversion is None else to_text(value, frame) if conversion == "s" else show_value(frame, value)
        )
        pieces.append(format_value(frame, shown, spec or ""))
    return "".join(pieces)


def _find(frame: Frame, name: str, arguments: list[object], named: dict[str, object]) -> object:
    if name.isdecimal() and len(name) < 10 and int(name) < len(arguments):
        return arguments[int(name)]
    if name in named:
        return named[name]
    raise EvaluationFailed(f"formats a text with {name[:60]}, which is not given")


def show_value(frame: Frame, value: object) -> str:
    """A value as it is written within a list: text in quotes (``%r``, ``{!r}``)."""
    return to_text([value], frame)[1:-1]


def format_value(frame: Frame, value: object, spec: str, *, cuts: bool = False) -> str:
    """A value by a format specification of Python; ``cuts``: numbers become whole where a whole one is asked for."""
    found = _SPEC.fullmatch(spec) if len(spec) <= _MAX_SPEC_CHARS else None
    if found is None:
        raise EvaluationFailed(f"formats by {spec[:60]!r}, which is no format of a value")
    if max(int(found["width"] or 0), int(found["precision"] or 0)) > MAX_WIDTH:
        raise EvaluationFailed(f"formats a value to more than {MAX_WIDTH} characters")
    kind = found["type"] or ""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if kind in ("", "s") and not (is_number and not kind and (found["sign"] or found["grouping"])):
        text = to_text(value, frame)
        text = text if found["precision"] is None else text[: int(found["precision"])]
        frame.spend_text(len(text) + int(found["width"] or 0))
        return _pad(found, "", text, default=">" if is_number and not kind else "<")
    if kind not in _OF_NUMBERS:
        raise EvaluationFailed(f"formats by {kind!r}, which is no format of a value")
    value = expect_number(value, f"formats {describe(value)} as a number")
    if kind in _OF_WHOLE_NUMBERS and isinstance(value, Decimal):
        if not cuts or value.adjusted() > MAX_WIDTH:
            raise EvaluationFailed(f"formats {describe(value)} as a whole number")
        value = int(value)
    return _format_number(frame, found, int(value) if isinstance(value, bool) else value, kind)


def _format_number(frame: Frame, found: re.Match[str], value: int | Decimal, kind: str) -> str:
    frame.spend(expand_number(value) + compute_number(value) + scan_text(MAX_WIDTH))
    if kind == "c" and not (isinstance(value, int) and 0 < value < _FIRST_SURROGATE):
        raise EvaluationFailed("formats a number that is no character")
    alternate, grouping = found["alternate"] or "", found["grouping"] or ""
    if kind and kind in _OF_WHOLE_NUMBERS and isinstance(value, int):
        written = format(value, f"{'' if kind == 'c' else found['sign'] or ''}{alternate}{grouping}{kind}")
    else:
        precision = found["precision"] or (str(_USUAL_DECIMALS) if kind else None)
        point = "" if precision is None else f".{precision}"
        written = format(Decimal(value), f"{found['sign'] or ''}{alternate}{grouping}{point}{kind}")
        written = _SHORT_EXPONENT.sub(r"\g<1>0\g<2>", written)
    frame.spend_text(len(written))
    sign = written[0] if written[:1] in ("-", "+", " ") else ""
    return _pad(found, sign, written[len(sign) :], default="<" if kind == "c" else ">")


def _pad(found: re.Match[str], sign: str, text: str, *, default: str) -> str:
    """A piece in the width that is asked for; zeros come behind the sign."""
    width, align, fill = int(found["width"] or 0), found["align"] or "", found["fill"] or " "
    if found["zero"] and not align:
        align, fill = "=", "0"
    missing = max(width - len(sign) - len(text), 0)
    match align or default:
        case "=":
            return f"{sign}{fill * missing}{text}"
        case "<":
            return f"{sign}{text}{fill * missing}"
        case "^":
            return f"{fill * (missing // 2)}{sign}{text}{fill * (missing - missing // 2)}"
        case _:
            return f"{fill * missing}{sign}{text}"

"""Filters: those of Jinja2 that neither look at a clock nor throw dice, over JSON values. ``sequences`` has those of
lists and mappings.
"""

import base64
import binascii
import html
import re
from collections.abc import Callable, Collection
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Final
from urllib.parse import quote

import msgspec

from statewright.evaluation.costs import Entry, charge_nothing, scan_text
from statewright.evaluation.values import charge_json, charge_strip
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.numbers import parse_number
from statewright.jsonval.scanning import MAX_DIGITS
from statewright.jsonval.values import JsonValue
from statewright.playbooks.jinja.charges import (
    MAX_NUMBER_CHARS,
    charge_digits,
    charge_lines,
    charge_pattern,
    charge_replacement,
    charge_url,
    charge_value,
    expect_number,
    format_percent,
    replace_text,
    write_texts,
)
from statewright.playbooks.jinja.sequences import (
    choose,
    divide_items,
    find_extreme,
    group_items,
    join_items,
    list_pairs,
    list_values,
    make_batches,
    measure,
    pick,
    remove_repeats,
    reverse,
    sort_items,
    sort_members,
    sum_items,
    take_first,
    take_last,
)
from statewright.playbooks.jinja.values import (
    EvaluationFailed,
    Frame,
    Undefined,
    check_number,
    describe,
    is_true,
    is_truthy,
    to_json,
    to_text,
)

_MAX_DECIMALS: Final = 100
_MAX_INDENT: Final = 16
"""Blanks in which JSON is indented, for each level."""
_MAX_COUNTED: Final = 10_000_000
"""Of what is certainly refused."""
_WORD: Final = re.compile(r"\w+")
_WIDE: Final = Context(prec=2 * MAX_DIGITS, traps=[InvalidOperation])
"""To round in: it keeps all digits that a number can have."""


def _apply_default(frame: Frame, value: object, default_value: object = "", boolean: object = False) -> object:
    missing = isinstance(value, Undefined) or (is_truthy(boolean) and not is_truthy(value))
    return default_value if missing else value


def _to_int(frame: Frame, value: object, default: object = 0, base: object = 10) -> object:
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, Decimal):
        return int(check_number(value.to_integral_value(rounding="ROUND_DOWN")))
    if not isinstance(value, str) or len(value) > MAX_NUMBER_CHARS:
        return default
    if isinstance(base, int) and base != 10:
        try:
            return check_number(int(value, base))
        except ValueError:
            return default
    number = parse_number(value.strip())
    return default if number is None else _to_int(frame, check_number(number))


def _to_decimal(frame: Frame, value: object, default: object = 0) -> object:
    if isinstance(value, bool | int | Decimal):
        return int(value) if isinstance(value, bool) else value
    if not isinstance(value, str) or len(value) > MAX_NUMBER_CHARS:
        return default
    number = parse_number(value.strip())
    return default if number is None else check_number(number)


def _to_string(frame: Frame, value: object) -> object:
    return to_text(value, frame)


def _to_bool(frame: Frame, value: object) -> object:
    return is_true(value)


def _transform(method: Callable[[str], str]) -> Entry:
    def apply(frame: Frame, value: object) -> object:
        (text,) = write_texts(frame, charge_value, value)
        frame.limit_text(len(text))
        result = method(text)
        frame.spend_text(len(result))
        return result

    return Entry(apply, charge_value)


def _trim(frame: Frame, value: object, chars: object = None) -> object:
    text, stripped = write_texts(frame, charge_strip, value, "" if chars is None else chars)
    frame.limit_text(len(text))
    return text.strip(None if chars is None else stripped)


def _map(frame: Frame, value: object, *arguments: object, **named: object) -> object:
    items = list_values(frame, value)
    if not arguments and "attribute" in named:
        unknown = named.keys() - {"attribute", "default"}
        if unknown:
            raise EvaluationFailed(f"gives map the unknown argument {min(unknown)}")
        frame.spend(len(items))
        return [pick(frame, item, named["attribute"], named.get("default")) for item in items]
    name, *rest = arguments or [None]
    if not isinstance(name, str) or name not in FILTERS:
        raise EvaluationFailed("maps by something that is no filter")
    apply = FILTERS[name]
    frame.spend(len(items))
    return [frame.call(apply, item, *rest, **named) for item in items]


def _round(frame: Frame, value: object, precision: object = 0, method: object = "common") -> object:
    modes = {"common": ROUND_HALF_EVEN, "ceil": ROUND_CEILING, "floor": ROUND_FLOOR}
    if not isinstance(value, int | Decimal) or not isinstance(precision, int) or abs(precision) > _MAX_DECIMALS:
        raise EvaluationFailed(f"rounds {describe(value)}, or to more than {_MAX_DECIMALS} digits")
    if method not in modes:
        raise EvaluationFailed("rounds by a method that is none of common, ceil and floor")
    try:
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-precision), modes[str(method)], _WIDE)
    except InvalidOperation:  # it has more digits before its point than could be kept
        return value
    return check_number(rounded)


def _take_absolute(frame: Frame, value: object) -> object:
    number = expect_number(value, f"takes the absolute value of {describe(value)}")
    return abs(number) if isinstance(number, int) else number.copy_abs()


def _write_json(frame: Frame, value: object, indent: object = None) -> object:
    json = to_json(value, frame)
    written = encode(json)
    frame.spend_text(len(written))
    if indent is None:
        return written.decode()
    if not isinstance(indent, int) or not 0 <= indent <= _MAX_INDENT:
        raise EvaluationFailed(f"indents by {describe(indent)}; expected a number from 0 to {_MAX_INDENT}")
    frame.spend_text(len(written) + _measure_indentation(frame, json, indent, 1))
    return msgspec.json.format(written, indent=indent).decode()


def _measure_indentation(frame: Frame, value: JsonValue, indent: int, depth: int) -> int:
    """Characters that lines of their own for all members and items add, at most."""
    parts: Collection[JsonValue] = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    frame.spend(1 + len(parts))
    inner = sum(
        [_measure_indentation(frame, part, indent, depth + 1) for part in parts if isinstance(part, dict | list)]
    )
    return inner + (len(parts) + 1) * (indent * depth + 2)


def _charge_width(value: object, width: object = 0, *_: object, **__: object) -> int:
    """A text is put into one of so many characters."""
    return charge_value(value) + (scan_text(min(max(width, 0), _MAX_COUNTED)) if isinstance(width, int) else 0)


def _center(frame: Frame, value: object, width: object = 80) -> object:
    (text,) = write_texts(frame, _charge_width, value)
    if not isinstance(width, int):
        raise EvaluationFailed(f"centers in {describe(width)}")
    frame.limit_text(max(len(text), width))
    return text.center(width)


def _escape(frame: Frame, value: object) -> object:
    """The text as HTML and XML have it."""
    (text,) = write_texts(frame, _charge_escaped, value)
    frame.limit_text(len(text))
    escaped = html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    frame.spend_text(len(escaped))
    return escaped


def _charge_escaped(text: object) -> int:
    """Each character may become five, in seven passes."""
    return 8 * charge_value(text) if isinstance(text, str) else charge_value(text)


def _write_size(frame: Frame, value: object, binary: object = False) -> object:
    """A number of bytes for people: ``13 kB``, ``4.1 MB``."""
    number = expect_number(_to_decimal(frame, value, None), f"writes {describe(value)} as a size")
    base, units = (1024, "Ki Mi Gi Ti Pi Ei Zi Yi") if is_truthy(binary) else (1000, "k M G T P E Z Y")
    size = Decimal(number)
    if size == 1:
        return "1 Byte"
    if size < base:
        return f"{int(size)} Bytes"
    named = units.split()
    power = next((power for power in range(1, len(named)) if size < base ** (power + 1)), len(named))
    scaled = _WIDE.divide(size, Decimal(base**power)).quantize(Decimal("0.1"), ROUND_HALF_EVEN, _WIDE)
    return f"{scaled:f} {named[power - 1]}B"


def _format(frame: Frame, value: object, /, *arguments: object, **named: object) -> object:
    (pattern,) = write_texts(frame, charge_value, value)
    if named and arguments:
        raise EvaluationFailed("formats a text with values by place and by name")
    return format_percent(frame, pattern, list(arguments), named or None)


def _indent(frame: Frame, value: object, width: object = 4, first: object = False, blank: object = False) -> object:
    """The lines of a text behind blanks, or behind a text."""
    (text,) = write_texts(frame, charge_lines, value)
    frame.limit_text(len(text))
    if isinstance(width, int) and not isinstance(width, bool) and 0 <= width <= _MAX_DECIMALS:
        margin = " " * width
    elif isinstance(width, str):
        margin = width
    else:
        raise EvaluationFailed(f"indents by {describe(width)}; expected text, or a number from 0 to {_MAX_DECIMALS}")
    lines = f"{text}\n".splitlines()
    frame.spend_items(len(lines))
    frame.spend_text(len(text) + len(lines) * (len(margin) + 1))
    begun = [margin + line if line or is_truthy(blank) else line for line in lines[1:]]
    return "\n".join([(margin if is_truthy(first) else "") + lines[0], *begun])


def _truncate(
    frame: Frame,
    value: object,
    length: object = 255,
    killwords: object = False,
    end: object = "...",
    leeway: object = 5,
) -> object:
    """The text, or its beginning with a mark behind it."""
    text, mark = write_texts(frame, charge_value, value, end)
    frame.limit_text(len(text))
    if not isinstance(length, int) or not isinstance(leeway, int) or leeway < 0 or length < len(mark):
        raise EvaluationFailed("truncates a text to fewer characters than its mark has")
    if len(text) <= length + leeway:
        return text
    kept = text[: length - len(mark)]
    return (kept if is_truthy(killwords) else kept.rsplit(" ", 1)[0]) + mark


def _count_words(frame: Frame, value: object) -> object:
    (text,) = write_texts(frame, _charge_words, value)
    frame.limit_text(len(text))
    return sum(1 for _ in _WORD.finditer(text))


def _charge_words(text: object) -> int:
    """A text is taken apart into words, of a character each at worst."""
    return charge_value(text) + (len(text) // 4 if isinstance(text, str) else 0)


def _read_json(frame: Frame, value: object) -> object:
    (text,) = write_texts(frame, charge_json, value)
    try:
        return decode(text)
    except MalformedJson as error:
        raise EvaluationFailed(f"reads text that is no JSON: {error}") from error


def _encode_base64(frame: Frame, value: object) -> object:
    (text,) = write_texts(frame, charge_value, value)
    frame.spend_text(len(text) * 4 // 3)
    return base64.b64encode(text.encode()).decode()


def _decode_base64(frame: Frame, value: object) -> object:
    (text,) = write_texts(frame, charge_value, value)
    frame.limit_text(len(text))
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise EvaluationFailed("decodes text that is not Base64 of UTF-8") from error
    if "\0" in decoded:
        raise EvaluationFailed("decodes text with a NUL character")
    return decoded


def _encode_url(frame: Frame, value: object) -> object:
    if isinstance(value, dict | list):
        frame.spend_items(len(value))
        pairs = list_pairs(frame, value) if isinstance(value, dict) else value
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise EvaluationFailed("encodes a list that is none of pairs")
        parts = [f"{_quote(frame, n, '')}={_quote(frame, v, '')}" for n, v in pairs]  # type: ignore[misc] # pairs
        frame.spend_text(sum(map(len, parts)) + len(parts))
        return "&".join(parts)
    (text,) = write_texts(frame, charge_url, value)
    return _quote_text(frame, text, "/")


def _quote(frame: Frame, value: object, safe: str) -> str:
    text = to_text(value, frame)
    frame.spend(charge_url(text))
    return _quote_text(frame, text, safe)


def _quote_text(frame: Frame, text: str, safe: str) -> str:
    frame.limit_text(3 * len(text))
    quoted = quote(text, safe=safe)
    frame.limit_text(len(quoted))
    return quoted


FILTERS: Final[dict[str, Entry]] = {
    "abs": Entry(_take_absolute, charge_value),
    "b64decode": Entry(_decode_base64, charge_value),
    "b64encode": Entry(_encode_base64, charge_value),
    "batch": Entry(make_batches, charge_nothing),
    "bool": Entry(_to_bool, charge_value),
    "capitalize": _transform(str.capitalize),
    "center": Entry(_center, _charge_width),
    "count": Entry(measure, charge_nothing),
    "d": Entry(_apply_default, charge_nothing),
    "default": Entry(_apply_default, charge_nothing),
    "dictsort": Entry(sort_members, charge_nothing),
    "e": Entry(_escape, _charge_escaped),
    "escape": Entry(_escape, _charge_escaped),
    "filesizeformat": Entry(_write_size, charge_digits),
    "first": Entry(take_first, charge_nothing),
    "float": Entry(_to_decimal, charge_digits),
    "forceescape": Entry(_escape, _charge_escaped),
    "format": Entry(_format, charge_pattern),
    "fromjson": Entry(_read_json, charge_json),
    "groupby": Entry(group_items, charge_nothing),
    "indent": Entry(_indent, charge_lines),
    "int": Entry(_to_int, charge_digits),
    "items": Entry(list_pairs, charge_nothing),
    "join": Entry(join_items, charge_nothing),
    "last": Entry(take_last, charge_nothing),
    "length": Entry(measure, charge_nothing),
    "list": Entry(list_values, charge_nothing),
    "lower": _transform(str.lower),
    "map": Entry(_map, charge_nothing),
    "max": Entry(find_extreme(1), charge_nothing),
    "min": Entry(find_extreme(-1), charge_nothing),
    "reject": Entry(choose(keeps=False, by_attribute=False), charge_nothing),
    "rejectattr": Entry(choose(keeps=False, by_attribute=True), charge_nothing),
    "replace": Entry(replace_text, charge_replacement),
    "reverse": Entry(reverse, charge_value),
    "round": Entry(_round, charge_digits),
    "safe": Entry(_to_string, charge_nothing),
    "select": Entry(choose(keeps=True, by_attribute=False), charge_nothing),
    "selectattr": Entry(choose(keeps=True, by_attribute=True), charge_nothing),
    "slice": Entry(divide_items, charge_nothing),
    "sort": Entry(sort_items, charge_nothing),
    "string": Entry(_to_string, charge_nothing),
    "sum": Entry(sum_items, charge_nothing),
    "title": _transform(str.title),
    "tojson": Entry(_write_json, charge_nothing),
    "trim": Entry(_trim, charge_strip),
    "truncate": Entry(_truncate, charge_value),
    "unique": Entry(remove_repeats, charge_nothing),
    "upper": _transform(str.upper),
    "urlencode": Entry(_encode_url, charge_url),
    "wordcount": Entry(_count_words, _charge_words),
}
"""By name. Each takes the frame, the value and the arguments that Jinja2 gives it. Those that go through
a list count it when they begin, and what they do with each item (``charge_nothing``)."""

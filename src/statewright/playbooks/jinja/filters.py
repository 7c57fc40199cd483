"""Filters: those of Jinja2 that neither look at a clock nor throw dice, over JSON values. ``sequences`` has those of
lists and mappings.
"""

import base64
import binascii
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Final
from urllib.parse import quote

from statewright.evaluation.costs import Entry, charge_nothing
from statewright.evaluation.values import charge_json, charge_strip
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.numbers import parse_number
from statewright.jsonval.scanning import MAX_DIGITS
from statewright.playbooks.jinja.charges import (
    MAX_NUMBER_CHARS,
    charge_digits,
    charge_replacement,
    charge_url,
    charge_value,
    replace_text,
    write_texts,
)
from statewright.playbooks.jinja.sequences import (
    choose,
    find_extreme,
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
    if not isinstance(value, int | Decimal):
        raise EvaluationFailed(f"takes the absolute value of {describe(value)}")
    return abs(value) if isinstance(value, int) else value.copy_abs()


def _write_json(frame: Frame, value: object, indent: object = None) -> object:
    written = encode(to_json(value, frame))
    frame.spend_text(len(written))
    return written.decode()


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
    "count": Entry(measure, charge_nothing),
    "d": Entry(_apply_default, charge_nothing),
    "default": Entry(_apply_default, charge_nothing),
    "dictsort": Entry(sort_members, charge_nothing),
    "first": Entry(take_first, charge_nothing),
    "float": Entry(_to_decimal, charge_digits),
    "fromjson": Entry(_read_json, charge_json),
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
    "select": Entry(choose(keeps=True, by_attribute=False), charge_nothing),
    "selectattr": Entry(choose(keeps=True, by_attribute=True), charge_nothing),
    "sort": Entry(sort_items, charge_nothing),
    "string": Entry(_to_string, charge_nothing),
    "sum": Entry(sum_items, charge_nothing),
    "title": _transform(str.title),
    "tojson": Entry(_write_json, charge_nothing),
    "trim": Entry(_trim, charge_strip),
    "unique": Entry(remove_repeats, charge_nothing),
    "upper": _transform(str.upper),
    "urlencode": Entry(_encode_url, charge_url),
}
"""By name. Each takes the frame, the value and the arguments that Jinja2 gives it. Those that go through
a list count it when they begin, and what they do with each item (``charge_nothing``)."""

"""Filters: those of Jinja2 that neither look at a clock nor throw dice, over JSON values. ``sequences`` has those of
lists and mappings.
"""

import base64
import binascii
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Final
from urllib.parse import quote

from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.literals import MAX_DIGITS
from statewright.jsonval.numbers import parse_number
from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.sequences import (
    Filter,
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
from statewright.playbooks.jinja.texts import replace_text
from statewright.playbooks.jinja.values import (
    Undefined,
    check_number,
    describe,
    is_true,
    is_truthy,
    to_json,
    to_text,
)

_MAX_NUMBER_CHARS: Final = 4_300
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
    if not isinstance(value, str) or len(value) > _MAX_NUMBER_CHARS:
        return default
    _spend_digits(frame, value)
    if isinstance(base, int) and base != 10:
        try:
            return check_number(int(value, base))
        except ValueError:
            return default
    number = parse_number(value.strip())
    return default if number is None else _to_int(frame, check_number(number))


def _spend_digits(frame: Frame, text: str) -> None:
    """Count text that is about to be read as a number: by the square of its length, as Python reads it."""
    frame.spend(1 + len(text) ** 2 // 16_000)


def _to_decimal(frame: Frame, value: object, default: object = 0) -> object:
    if isinstance(value, bool | int | Decimal):
        return int(value) if isinstance(value, bool) else value
    if not isinstance(value, str) or len(value) > _MAX_NUMBER_CHARS:
        return default
    _spend_digits(frame, value)
    number = parse_number(value.strip())
    return default if number is None else check_number(number)


def _to_string(frame: Frame, value: object) -> object:
    return to_text(value, frame)


def _to_bool(frame: Frame, value: object) -> object:
    return is_true(value)


def _transform(method: Callable[[str], str]) -> Filter:
    def apply(frame: Frame, value: object) -> object:
        text = to_text(value, frame)
        frame.spend_text(len(text))
        result = method(text)
        frame.spend_text(len(result))
        return result

    return apply


def _trim(frame: Frame, value: object, chars: object = None) -> object:
    text = to_text(value, frame)
    frame.spend_text(len(text))
    return text.strip(None if chars is None else to_text(chars, frame))


def _map(frame: Frame, value: object, *arguments: object, **named: object) -> object:
    items = list_values(frame, value)
    if not arguments and "attribute" in named:
        unknown = named.keys() - {"attribute", "default"}
        if unknown:
            raise EvaluationFailed(f"gives map the unknown argument {min(unknown)}")
        return [pick(frame, item, named["attribute"], named.get("default")) for item in items]
    name, *rest = arguments or [None]
    if not isinstance(name, str) or name not in FILTERS:
        raise EvaluationFailed("maps by something that is no filter")
    apply = FILTERS[name]
    frame.spend(2 * len(items))
    return [apply(frame, item, *rest, **named) for item in items]


def _round(frame: Frame, value: object, precision: object = 0, method: object = "common") -> object:
    modes = {"common": ROUND_HALF_EVEN, "ceil": ROUND_CEILING, "floor": ROUND_FLOOR}
    if not isinstance(value, int | Decimal) or not isinstance(precision, int) or abs(precision) > _MAX_DECIMALS:
        raise EvaluationFailed(f"rounds {describe(value)}, or to more than {_MAX_DECIMALS} digits")
    if method not in modes:
        raise EvaluationFailed("rounds by a method that is none of common, ceil and floor")
    frame.spend_number(value)
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
    text = encode(to_json(value, frame)).decode()
    frame.spend_text(len(text))
    return text


def _read_json(frame: Frame, value: object) -> object:
    text = to_text(value, frame)
    frame.spend(len(text) // 4)
    try:
        return decode(text)
    except MalformedJson as error:
        raise EvaluationFailed(f"reads text that is no JSON: {error}") from error


def _encode_base64(frame: Frame, value: object) -> object:
    text = to_text(value, frame)
    frame.spend_text(len(text) * 4 // 3)
    return base64.b64encode(text.encode()).decode()


def _decode_base64(frame: Frame, value: object) -> object:
    text = to_text(value, frame)
    frame.spend_text(len(text))
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise EvaluationFailed("decodes text that is not Base64 of UTF-8") from error
    if "\0" in decoded:
        raise EvaluationFailed("decodes text with a NUL character")
    return decoded


def _encode_url(frame: Frame, value: object) -> object:
    if isinstance(value, dict | list):
        pairs = list_pairs(frame, value) if isinstance(value, dict) else value
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise EvaluationFailed("encodes a list that is none of pairs")
        parts = [f"{_quote_url(frame, n, '')}={_quote_url(frame, v, '')}" for n, v in pairs]  # type: ignore[misc] # pairs
        return "&".join(parts)
    return _quote_url(frame, value, "/")


def _quote_url(frame: Frame, value: object, safe: str) -> str:
    text = to_text(value, frame)
    frame.spend_text(3 * len(text))
    frame.spend(len(text) // 4)
    return quote(text, safe=safe)


FILTERS: Final[dict[str, Filter]] = {
    "abs": _take_absolute,
    "b64decode": _decode_base64,
    "b64encode": _encode_base64,
    "batch": make_batches,
    "bool": _to_bool,
    "capitalize": _transform(str.capitalize),
    "count": measure,
    "d": _apply_default,
    "default": _apply_default,
    "dictsort": sort_members,
    "first": take_first,
    "float": _to_decimal,
    "fromjson": _read_json,
    "int": _to_int,
    "items": list_pairs,
    "join": join_items,
    "last": take_last,
    "length": measure,
    "list": list_values,
    "lower": _transform(str.lower),
    "map": _map,
    "max": find_extreme(1),
    "min": find_extreme(-1),
    "reject": choose(keeps=False, by_attribute=False),
    "rejectattr": choose(keeps=False, by_attribute=True),
    "replace": replace_text,
    "reverse": reverse,
    "round": _round,
    "select": choose(keeps=True, by_attribute=False),
    "selectattr": choose(keeps=True, by_attribute=True),
    "sort": sort_items,
    "string": _to_string,
    "sum": sum_items,
    "title": _transform(str.title),
    "tojson": _write_json,
    "trim": _trim,
    "unique": remove_repeats,
    "upper": _transform(str.upper),
    "urlencode": _encode_url,
}
"""By name. Each takes the frame, the value and the arguments that Jinja2 gives it."""

"""Filters: those of Jinja2 that neither look at a clock nor throw dice, over JSON values."""

import base64
import binascii
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import cmp_to_key
from typing import Final, TypeAlias
from urllib.parse import quote

from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.literals import MAX_DIGITS
from statewright.jsonval.numbers import parse_number
from statewright.playbooks.jinja import predicates
from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.members import follow
from statewright.playbooks.jinja.operators import add
from statewright.playbooks.jinja.texts import join_text, replace_text
from statewright.playbooks.jinja.values import (
    Undefined,
    check_number,
    compare_equal,
    describe,
    is_true,
    is_truthy,
    precedes,
    to_json,
    to_text,
)

Filter: TypeAlias = Callable[..., object]
_MAX_NUMBER_CHARS: Final = 4_300
_MAX_DECIMALS: Final = 100
_CHARS: Final = 64
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


def _measure(frame: Frame, value: object) -> object:
    if isinstance(value, Undefined):
        return 0
    if isinstance(value, str | list | dict):
        return len(value)
    raise EvaluationFailed(f"measures the length of {describe(value)}")


def list_values(frame: Frame, value: object) -> list[object]:
    """What a loop over a value visits: items, the names of members, characters; of undefined nothing."""
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, str | list | dict):
        raise EvaluationFailed(f"goes through {describe(value)}")
    frame.spend_items(len(value))
    return list(value)


def _join(frame: Frame, value: object, d: object = "", attribute: object = None) -> object:
    items = value if attribute is None else [_pick(frame, item, attribute) for item in list_values(frame, value)]
    return join_text(frame, items, d)


def _pick(frame: Frame, value: object, attribute: object, default: object = None) -> object:
    """The member at a dotted path, or the default where there is none."""
    picked = follow(value, attribute, frame)
    return default if default is not None and isinstance(picked, Undefined) else picked


def _take_first(frame: Frame, value: object) -> object:
    return _take(frame, value, 0)


def _take_last(frame: Frame, value: object) -> object:
    return _take(frame, value, -1)


def _take(frame: Frame, value: object, index: int) -> object:
    if isinstance(value, Undefined):
        return value
    if not isinstance(value, str | list | dict):
        raise EvaluationFailed(f"takes an item of {describe(value)}")
    if not value:
        return Undefined("an item of an empty list")
    items: Sequence[object] = value if isinstance(value, str | list) else list_values(frame, value)
    return items[index]


def _build_key(frame: Frame, case_sensitive: object, attribute: object) -> Callable[[object], object]:
    """What a value is compared by."""

    def key(value: object) -> object:
        picked = value if attribute is None else follow(value, attribute, frame)
        if isinstance(picked, str) and not is_truthy(case_sensitive):
            frame.spend_text(len(picked))
            return picked.lower()
        return picked

    return key


def _compare(frame: Frame, left: object, right: object) -> int:
    frame.spend(1 + (min(len(left), len(right)) // _CHARS if isinstance(left, str) and isinstance(right, str) else 0))
    if isinstance(left, list) and isinstance(right, list):
        for a, b in zip(left, right, strict=False):
            if not compare_equal(a, b, frame):
                return _compare(frame, a, b)
        return len(left) - len(right)
    return -1 if precedes(left, right, frame) else int(precedes(right, left, frame))


def _sort(
    frame: Frame, value: object, reverse: object = False, case_sensitive: object = False, attribute: object = None
) -> object:
    """``attribute`` may name several members, with commas between them."""
    names = attribute.split(",") if isinstance(attribute, str) else [attribute]
    keys = [_build_key(frame, case_sensitive, name) for name in names]
    items = list_values(frame, value)
    marks = [[key(item) for key in keys] for item in items]

    def compare(left: int, right: int) -> int:
        return _compare(frame, marks[left], marks[right])

    order = sorted(range(len(items)), key=cmp_to_key(compare), reverse=is_truthy(reverse))
    return [items[place] for place in order]


def _sort_members(
    frame: Frame, value: object, case_sensitive: object = False, by: object = "key", reverse: object = False
) -> object:
    if by not in ("key", "value"):
        raise EvaluationFailed("sorts members by something that is neither key nor value")
    return _sort(frame, list_pairs(frame, value), reverse, case_sensitive, 0 if by == "key" else 1)


def list_pairs(frame: Frame, value: object) -> list[object]:
    """The members of a mapping, each as a list of name and value."""
    if isinstance(value, Undefined):
        return []
    if not isinstance(value, dict):
        raise EvaluationFailed(f"lists the members of {describe(value)}")
    frame.spend_items(2 * len(value))
    return [[name, member] for name, member in value.items()]


def _remove_repeats(frame: Frame, value: object, case_sensitive: object = False, attribute: object = None) -> object:
    key = _build_key(frame, case_sensitive, attribute)
    seen_scalars: set[object] = set()
    seen: list[object] = []
    kept: list[object] = []
    for item in list_values(frame, value):
        mark = key(item)
        if isinstance(mark, str | int | Decimal) or mark is None:
            if mark in seen_scalars:
                continue
            seen_scalars.add(mark)
        else:
            if any(compare_equal(mark, other, frame) for other in seen):
                continue
            seen.append(mark)
        kept.append(item)
    return kept


def _find_extreme(sign: int) -> Filter:
    def apply(frame: Frame, value: object, case_sensitive: object = False, attribute: object = None) -> object:
        key = _build_key(frame, case_sensitive, attribute)
        best: list[tuple[object, object]] = []
        for item in list_values(frame, value):
            mark = key(item)
            if not best or sign * _compare(frame, mark, best[0][0]) > 0:
                best = [(mark, item)]
        return best[0][1] if best else Undefined("the extreme of an empty list")

    return apply


def _sum(frame: Frame, value: object, attribute: object = None, start: object = 0) -> object:
    total = start
    for item in list_values(frame, value):
        total = add(total, item if attribute is None else follow(item, attribute, frame), frame)
    return total


def _map(frame: Frame, value: object, *arguments: object, **named: object) -> object:
    items = list_values(frame, value)
    if not arguments and "attribute" in named:
        unknown = named.keys() - {"attribute", "default"}
        if unknown:
            raise EvaluationFailed(f"gives map the unknown argument {min(unknown)}")
        return [_pick(frame, item, named["attribute"], named.get("default")) for item in items]
    name, *rest = arguments or [None]
    if not isinstance(name, str) or name not in FILTERS:
        raise EvaluationFailed("maps by something that is no filter")
    apply = FILTERS[name]
    frame.spend(2 * len(items))
    return [apply(frame, item, *rest, **named) for item in items]


def _choose(*, keeps: bool, by_attribute: bool) -> Filter:
    def apply(frame: Frame, value: object, *arguments: object) -> object:
        items = list_values(frame, value)
        if by_attribute and not arguments:
            raise EvaluationFailed("selects by an attribute without saying which")
        attribute, *rest = arguments if by_attribute else (None, *arguments)
        test = _build_test(rest)
        frame.spend(2 * len(items))
        return [
            item for item in items if test(frame, follow(item, attribute, frame) if by_attribute else item) is keeps
        ]

    return apply


def _build_test(arguments: list[object]) -> Callable[[Frame, object], bool]:
    if not arguments:
        return lambda frame, value: is_truthy(value)
    name, *rest = arguments
    if not isinstance(name, str) or name not in predicates.TESTS:
        raise EvaluationFailed("selects by something that is no test")
    test = predicates.TESTS[name]
    return lambda frame, value: is_truthy(test(frame, value, *rest))


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


def _reverse(frame: Frame, value: object) -> object:
    if isinstance(value, str):
        frame.spend_text(len(value))
        return value[::-1]
    return list_values(frame, value)[::-1]


def _batch(frame: Frame, value: object, linecount: object, fill_with: object = None) -> object:
    if not isinstance(linecount, int) or linecount < 1:
        raise EvaluationFailed("makes batches of less than one item")
    items = list_values(frame, value)
    batches = [items[start : start + linecount] for start in range(0, len(items), linecount)]
    if batches and fill_with is not None and (missing := linecount - len(batches[-1])):
        frame.spend_items(missing)
        batches[-1] = batches[-1] + [fill_with] * missing
    return batches


FILTERS: Final[dict[str, Filter]] = {
    "abs": _take_absolute,
    "b64decode": _decode_base64,
    "b64encode": _encode_base64,
    "batch": _batch,
    "bool": _to_bool,
    "capitalize": _transform(str.capitalize),
    "count": _measure,
    "d": _apply_default,
    "default": _apply_default,
    "dictsort": _sort_members,
    "first": _take_first,
    "float": _to_decimal,
    "fromjson": _read_json,
    "int": _to_int,
    "items": list_pairs,
    "join": _join,
    "last": _take_last,
    "length": _measure,
    "list": list_values,
    "lower": _transform(str.lower),
    "map": _map,
    "max": _find_extreme(1),
    "min": _find_extreme(-1),
    "reject": _choose(keeps=False, by_attribute=False),
    "rejectattr": _choose(keeps=False, by_attribute=True),
    "replace": replace_text,
    "reverse": _reverse,
    "round": _round,
    "select": _choose(keeps=True, by_attribute=False),
    "selectattr": _choose(keeps=True, by_attribute=True),
    "sort": _sort,
    "string": _to_string,
    "sum": _sum,
    "title": _transform(str.title),
    "tojson": _write_json,
    "trim": _trim,
    "unique": _remove_repeats,
    "upper": _transform(str.upper),
    "urlencode": _encode_url,
}
"""By name. Each takes the frame, the value and the arguments that Jinja2 gives it."""

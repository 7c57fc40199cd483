"""Functions on numbers and on the bits of 64-bit integers, and conversions to numbers."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from statistics import median
from typing import Final

from statewright.evaluation.costs import Entry, charge_nothing
from statewright.evaluation.values import charge_text
from statewright.expressions.frames import Frame, list_all_items, wrap_unary
from statewright.expressions.operators import is_less
from statewright.expressions.values import (
    ExpressionError,
    Value,
    argument_error,
    as_float,
    as_items,
    is_number,
    type_name,
    wrap_int64,
)
from statewright.jsonval.values import is_whole

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _type(value: Value) -> Value:
    names = {
        "<nil>": "nil",
        "float64": "float",
        "uint8": "uint",
        "[]interface {}": "array",
        "map[string]interface {}": "map",
    }
    name = type_name(value)
    return names.get(name, name)


def _abs(value: Value) -> Value:
    number = _require_number(value, "abs")
    return number if number >= 0 else wrap_int64(-number) if isinstance(number, int) else -number


def _make_rounding(name: str, round_number: Callable[[float], int | Decimal]) -> Entry:
    def apply(value: Value) -> Value:
        number = as_float(_require_number(value, name))
        return float(round_number(number)) if math.isfinite(number) else number

    return wrap_unary(apply, _write_digits)


def _write_digits(_: Value) -> int:
    """The largest floats have 309 digits."""
    return 3


def _round_half_away(number: float) -> Decimal:
    return Decimal(number).to_integral_value(ROUND_HALF_UP)


def _int(value: Value) -> Value:
    if isinstance(value, str):
        number = int(value) if _INTEGER.fullmatch(value) else None
        if number is None or wrap_int64(number) != number:
            raise ExpressionError(f"invalid operation: int({value})")
        return number
    if is_whole(value):
        return int(value)
    if isinstance(value, float) and math.isfinite(value) and wrap_int64(int(value)) == int(value):
        return int(value)
    raise ExpressionError(f"invalid operation: int({type_name(value)})")


def _float(value: Value) -> Value:
    if isinstance(value, str):
        number = float(value) if _FLOAT.fullmatch(value) else math.inf
        if math.isinf(number):
            raise ExpressionError(f"invalid operation: float({value})")
        return number
    if is_number(value):
        return as_float(value)
    raise ExpressionError(f"invalid operation: float({type_name(value)})")


def _make_extreme(name: str, precedes: Callable[[Value, Value], bool]) -> Entry:
    """The largest or smallest of numbers and arrays of them; nil of none; a single other value is itself."""

    def apply(frame: Frame, arguments: tuple[Value, ...]) -> Value:
        best: Value = None
        for argument in arguments:
            elements = as_items(argument)
            if elements is None and len(arguments) == 1:
                return argument
            frame.spend(len(elements or ()))
            for element in (argument,) if elements is None else elements:
                number = apply(frame, (element,)) if isinstance(element, list | tuple) else element
                if not is_number(number):
                    raise ExpressionError(f"invalid argument for {name} (type {type_name(number)})")
                best = number if best is None or precedes(number, best) else best
        return best

    return Entry(apply, list_all_items)


def _mean(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    numbers = _collect_numbers(frame, arguments, "mean")
    return math.fsum(numbers) / len(numbers) if numbers else 0.0


def _median(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    numbers = _collect_numbers(frame, arguments, "median")
    frame.spend(_SORT_ELEMENTS * len(numbers))
    return float(median(numbers)) if numbers else 0.0


def _collect_numbers(frame: Frame, arguments: tuple[Value, ...], name: str) -> list[float]:
    return list(_iterate_numbers(arguments, name, frame))


_SORT_ELEMENTS: Final = 3
"""What an element counts as that is sorted in one call, while which nothing else can run."""


def _read_float(value: Value) -> int:
    return 4 * charge_text(value)


def _iterate_numbers(values: tuple[Value, ...], name: str, frame: Frame) -> Iterator[float]:
    frame.spend(len(values))
    for value in values:
        elements = as_items(value)
        if elements is None:
            yield as_float(_require_number(value, name))
        else:
            for number in _iterate_numbers(elements, name, frame):
                frame.spend(1)
                yield number


def _require_number(value: Value, name: str) -> int | float:
    if is_number(value):
        return value
    raise ExpressionError(f"invalid argument for {name} (type {type_name(value)})")


FUNCTIONS: Final[Mapping[str, Entry]] = {
    "type": wrap_unary(_type),
    "abs": wrap_unary(_abs),
    "ceil": _make_rounding("ceil", math.ceil),
    "floor": _make_rounding("floor", math.floor),
    "round": _make_rounding("round", _round_half_away),
    "int": wrap_unary(_int),
    "float": wrap_unary(_float, _read_float),
    "max": _make_extreme("max", lambda number, best: is_less(best, number)),
    "min": _make_extreme("min", is_less),
    "mean": Entry(_mean, list_all_items),
    "median": Entry(_median, list_all_items),
}


_WIDTH: Final = 64


def _make_bit_function(name: str, apply: Callable[..., int]) -> Entry:
    """A function of integers; ``apply`` takes as many as the signature of ``name`` says."""

    def call(_: Frame, arguments: tuple[Value, ...]) -> Value:
        return wrap_int64(apply(*(_require_integer(argument, name) for argument in arguments)))

    return Entry(call, charge_nothing)


def _require_integer(value: Value, name: str) -> int:
    if not is_whole(value):
        raise argument_error(value, "int", name)
    return value


def _clamp_shift(count: int) -> int:
    if count < 0:
        raise ExpressionError(f"invalid operation: negative shift count {count} (type int)")
    return min(count, _WIDTH)


BIT_FUNCTIONS: Final[Mapping[str, Entry]] = {
    "bitand": _make_bit_function("bitand", lambda x, y: x & y),
    "bitor": _make_bit_function("bitor", lambda x, y: x | y),
    "bitxor": _make_bit_function("bitxor", lambda x, y: x ^ y),
    "bitnand": _make_bit_function("bitnand", lambda x, y: x & ~y),
    "bitnot": _make_bit_function("bitnot", lambda x: ~x),
    "bitshl": _make_bit_function("bitshl", lambda x, y: x << _clamp_shift(y)),
    "bitshr": _make_bit_function("bitshr", lambda x, y: x >> _clamp_shift(y)),
    "bitushr": _make_bit_function("bitushr", lambda x, y: x % 2**_WIDTH >> _clamp_shift(y)),
}

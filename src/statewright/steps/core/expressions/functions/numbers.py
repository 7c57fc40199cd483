"""Functions on numbers, and conversions to them."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from statistics import median
from typing import Final

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.frames import Frame
from statewright.steps.core.expressions.functions.call import Function, of_one
from statewright.steps.core.expressions.operators import less
from statewright.steps.core.expressions.values import Value, as_float, is_number, items, type_name, wrapped

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _type(value: Value) -> Value:
    names = {"<nil>": "nil", "float64": "float", "[]interface {}": "array", "map[string]interface {}": "map"}
    name = type_name(value)
    return names.get(name, name)


def _abs(value: Value) -> Value:
    number = _number(value, "abs")
    return number if number >= 0 else wrapped(-number) if isinstance(number, int) else -number


def _rounding(name: str, rounded: Callable[[float], int | Decimal]) -> Function:
    def apply(value: Value) -> Value:
        number = as_float(_number(value, name))
        return float(rounded(number)) if math.isfinite(number) else number

    return of_one(apply)


def _half_away_from_zero(number: float) -> Decimal:
    return Decimal(number).to_integral_value(ROUND_HALF_UP)


def _int(value: Value) -> Value:
    if isinstance(value, str):
        number = int(value) if _INTEGER.fullmatch(value) else None
        if number is None or wrapped(number) != number:
            raise ExpressionError(f"invalid operation: int({value})")
        return number
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value) and wrapped(int(value)) == int(value):
        return int(value)
    raise ExpressionError(f"invalid operation: int({type_name(value)})")


def _float(value: Value) -> Value:
    if isinstance(value, str):
        number = float(value) if _FLOAT.fullmatch(value) else math.inf
        if math.isinf(number):
            raise ExpressionError(f"invalid operation: float({value})")
        return number
    if isinstance(value, int | float) and not isinstance(value, bool):
        return as_float(value)
    raise ExpressionError(f"invalid operation: float({type_name(value)})")


def _extreme(name: str, beats: Callable[[Value, Value], bool]) -> Function:
    """The largest or smallest of numbers and arrays of them; nil of none; a single other value is itself."""

    def apply(frame: Frame, arguments: tuple[Value, ...]) -> Value:
        best: Value = None
        for argument in arguments:
            elements = items(argument)
            if elements is None and len(arguments) == 1:
                return argument
            for element in (argument,) if elements is None else elements:
                number = element if items(element) is None else apply(frame, (element,))
                if not is_number(number):
                    raise ExpressionError(f"invalid argument for {name} (type {type_name(number)})")
                best = number if best is None or beats(number, best) else best
            frame.spend(len(elements or ()))
        return best

    return apply


def _mean(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    numbers = _all_numbers(frame, arguments, "mean")
    return math.fsum(numbers) / len(numbers) if numbers else 0.0


def _median(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    numbers = _all_numbers(frame, arguments, "median")
    return float(median(numbers)) if numbers else 0.0


def _all_numbers(frame: Frame, arguments: tuple[Value, ...], name: str) -> list[float]:
    numbers = list(_flat_numbers(arguments, name))
    frame.spend(len(numbers))
    return numbers


def _flat_numbers(values: tuple[Value, ...], name: str) -> Iterator[float]:
    for value in values:
        elements = items(value)
        if elements is None:
            yield as_float(_number(value, name))
        else:
            yield from _flat_numbers(elements, name)


def _number(value: Value, name: str) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise ExpressionError(f"invalid argument for {name} (type {type_name(value)})")


FUNCTIONS: Final[Mapping[str, Function]] = {
    "type": of_one(_type),
    "abs": of_one(_abs),
    "ceil": _rounding("ceil", math.ceil),
    "floor": _rounding("floor", math.floor),
    "round": _rounding("round", _half_away_from_zero),
    "int": of_one(_int),
    "float": of_one(_float),
    "max": _extreme("max", lambda number, best: less(best, number)),
    "min": _extreme("min", less),
    "mean": _mean,
    "median": _median,
}

"""Tests: what may follow ``is``."""

from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeAlias

from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.operators import COMPARISONS, contains, take_remainder
from statewright.playbooks.jinja.values import Undefined, describe

Test: TypeAlias = Callable[..., bool]


def _is_divisible(frame: Frame, value: object, num: object) -> bool:
    return take_remainder(value, num, frame) == 0


def _is_even(frame: Frame, value: object) -> bool:
    return take_remainder(value, 2, frame) == 0


def _is_odd(frame: Frame, value: object) -> bool:
    return take_remainder(value, 2, frame) == 1


def _is_lower(frame: Frame, value: object) -> bool:
    return _read_text(frame, value).islower()


def _is_upper(frame: Frame, value: object) -> bool:
    return _read_text(frame, value).isupper()


def _read_text(frame: Frame, value: object) -> str:
    if not isinstance(value, str):
        raise EvaluationFailed(f"looks for upper and lower case in {describe(value)}")
    frame.spend_text(len(value))
    return value


def _compare_by(name: str) -> Test:
    def test(frame: Frame, value: object, other: object) -> bool:
        return COMPARISONS[name](value, other, frame) is True

    return test


TESTS: Final[dict[str, Test]] = {
    "boolean": lambda frame, value: isinstance(value, bool),
    "defined": lambda frame, value: not isinstance(value, Undefined),
    "divisibleby": _is_divisible,
    "eq": _compare_by("eq"),
    "equalto": _compare_by("eq"),
    "even": _is_even,
    "false": lambda frame, value: value is False,
    "float": lambda frame, value: isinstance(value, Decimal),
    "ge": _compare_by("gteq"),
    "greaterthan": _compare_by("gt"),
    "gt": _compare_by("gt"),
    "in": lambda frame, value, seq: contains(seq, value, frame),
    "integer": lambda frame, value: isinstance(value, int) and not isinstance(value, bool),
    "iterable": lambda frame, value: isinstance(value, str | list | dict | Undefined),
    "le": _compare_by("lteq"),
    "lessthan": _compare_by("lt"),
    "lower": _is_lower,
    "lt": _compare_by("lt"),
    "mapping": lambda frame, value: isinstance(value, dict),
    "ne": _compare_by("ne"),
    "none": lambda frame, value: value is None,
    "number": lambda frame, value: isinstance(value, int | Decimal),
    "odd": _is_odd,
    "sequence": lambda frame, value: isinstance(value, str | list | dict),
    "string": lambda frame, value: isinstance(value, str),
    "true": lambda frame, value: value is True,
    "undefined": lambda frame, value: isinstance(value, Undefined),
    "upper": _is_upper,
    "!=": _compare_by("ne"),
    "<": _compare_by("lt"),
    "<=": _compare_by("lteq"),
    "==": _compare_by("eq"),
    ">": _compare_by("gt"),
    ">=": _compare_by("gteq"),
}
"""By name. Each takes the frame, the value and the arguments."""

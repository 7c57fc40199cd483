"""Kinds of values, by which wrong operands are found before anything is evaluated (docs/reference/steps.md#operators).

Only literals and results of operators and built-in functions have a known kind; variables never do.
"""

from collections.abc import Callable, Mapping
from typing import Final

from statewright.expressions.syntax import ValueKind
from statewright.expressions.values import ExpressionError

GO_NAMES: Final[Mapping[ValueKind, str]] = {
    "any": "unknown",
    "nil": "nil",
    "bool": "bool",
    "int": "int",
    "float": "float64",
    "string": "string",
    "array": "[]interface {}",
    "map": "map[string]interface {}",
    "time": "time.Time",
    "duration": "time.Duration",
}

_NUMBERS: Final = frozenset[ValueKind]({"int", "float"})
_ORDERED: Final = (
    _NUMBERS,
    frozenset[ValueKind]({"string"}),
    frozenset[ValueKind]({"time"}),
    frozenset[ValueKind]({"duration"}),
)
_SUMS: Final[Mapping[tuple[ValueKind, ValueKind], ValueKind]] = {
    ("string", "string"): "string",
    ("time", "duration"): "time",
    ("duration", "time"): "time",
    ("duration", "duration"): "duration",
}
_DIFFERENCES: Final[Mapping[tuple[ValueKind, ValueKind], ValueKind]] = {
    ("time", "time"): "duration",
    ("time", "duration"): "time",
    ("duration", "duration"): "duration",
}
_PRODUCTS: Final[Mapping[tuple[ValueKind, ValueKind], ValueKind]] = {
    ("int", "duration"): "duration",
    ("float", "duration"): "duration",
    ("duration", "int"): "duration",
    ("duration", "float"): "duration",
    ("duration", "duration"): "duration",
}


def infer_unary_kind(operator: str, operand: ValueKind) -> ValueKind:
    """The kind of a unary expression. Raises :class:`ExpressionError` for an operand that cannot be right."""
    if operator in ("!", "not") and operand in ("bool", "any"):
        return "bool"
    if operator in ("-", "+") and (operand in _NUMBERS or operand == "any"):
        return operand
    raise ExpressionError(f"invalid operation: {operator} (mismatched type {GO_NAMES[operand]})")


def infer_binary_kind(operator: str, left: ValueKind, right: ValueKind) -> ValueKind:
    """The kind of a binary expression. Raises :class:`ExpressionError` for operands that cannot be right."""
    kind = _KINDS[operator](left, right)
    if kind is None:
        raise ExpressionError(
            f"invalid operation: {operator} (mismatched types {GO_NAMES[left]} and {GO_NAMES[right]})"
        )
    return kind


def _equality(left: ValueKind, right: ValueKind) -> ValueKind | None:
    loose = left in ("any", "nil") or right in ("any", "nil")
    return "bool" if loose or left == right or {left, right} <= _NUMBERS else None


def _logic(left: ValueKind, right: ValueKind) -> ValueKind | None:
    return "bool" if {left, right} <= {"bool", "any"} else None


def _order(left: ValueKind, right: ValueKind) -> ValueKind | None:
    return "bool" if any({left, right} <= {*kinds, "any"} for kinds in _ORDERED) else None


def _membership(left: ValueKind, right: ValueKind) -> ValueKind | None:
    if right == "map":
        return "bool" if left in ("string", "any") else None
    return "bool" if right in ("any", "array") or (left == "any" and right == "string") else None


def _text_test(left: ValueKind, right: ValueKind) -> ValueKind | None:
    return "bool" if {left, right} <= {"string", "any"} else None


def _range(left: ValueKind, right: ValueKind) -> ValueKind | None:
    return "array" if {left, right} <= {"int", "any"} else None


def _remainder(left: ValueKind, right: ValueKind) -> ValueKind | None:
    return "int" if {left, right} <= {"int", "any"} else None


def _quotient(left: ValueKind, right: ValueKind) -> ValueKind | None:
    return "float" if {left, right} <= {*_NUMBERS, "any"} else None


def _build_arithmetic(
    others: Mapping[tuple[ValueKind, ValueKind], ValueKind],
) -> Callable[[ValueKind, ValueKind], ValueKind | None]:
    accepted = {kind for pair in others for kind in pair} | _NUMBERS

    def kind_of(left: ValueKind, right: ValueKind) -> ValueKind | None:
        if left == "any" or right == "any":
            return "any" if {left, right} - {"any"} <= accepted else None
        if {left, right} <= _NUMBERS:
            return "int" if left == right == "int" else "float"
        return others.get((left, right))

    return kind_of


def _fallback(left: ValueKind, right: ValueKind) -> ValueKind | None:
    if left == "nil":
        return right
    return left if right in ("nil", left) else "any"


_KINDS: Final[Mapping[str, Callable[[ValueKind, ValueKind], ValueKind | None]]] = {
    "==": _equality,
    "!=": _equality,
    "&&": _logic,
    "||": _logic,
    "<": _order,
    "<=": _order,
    ">": _order,
    ">=": _order,
    "in": _membership,
    "matches": _text_test,
    "contains": _text_test,
    "startsWith": _text_test,
    "endsWith": _text_test,
    "..": _range,
    "+": _build_arithmetic(_SUMS),
    "-": _build_arithmetic(_DIFFERENCES),
    "*": _build_arithmetic(_PRODUCTS),
    "/": _quotient,
    "%": _remainder,
    "**": _quotient,
    "^": _quotient,
    "??": _fallback,
}

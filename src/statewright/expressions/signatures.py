"""Signatures of the built-in functions: arguments and kind of result (docs/reference/steps.md#functions).

Kinds of values, by which wrong operands are found before anything is evaluated (docs/reference/steps.md#operators).

Only literals and results of operators and built-in functions have a known kind; variables never do.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.expressions.lexer import Syntax, ValueKind
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


class Signature(Struct, frozen=True, kw_only=True):
    """How a function is called, and what kind of value it gives."""

    least: int
    """Arguments that must be given."""
    most: int | None
    """Arguments that may be given; ``None``: any number."""
    kind: ValueKind = "any"
    like_first: bool = False
    """Whether the result is of the kind of the first argument."""
    predicate: bool = False
    """Whether the second argument is applied to every element of the first."""
    is_test: bool = False
    """Whether the predicate must give a boolean."""
    takes_first: frozenset[ValueKind] | None = None
    """Kinds that the first argument may have as far as its kind is known; ``None``: any."""
    refusal: str = ""
    """What is said of a first argument of another kind, with a place for its kind."""

    def check(self, name: str, given: Sequence[Syntax]) -> None:
        """Raises :class:`ExpressionError` for a call with arguments that cannot be right."""
        if len(given) < self.least:
            raise ExpressionError(f"not enough arguments to call {name}")
        if self.most is not None and len(given) > self.most:
            raise ExpressionError(f"too many arguments to call {name}")
        if self.takes_first is not None and given[0].kind not in self.takes_first:
            raise ExpressionError(self.refusal.format(GO_NAMES[given[0].kind]))


def _take(count: int, kind: ValueKind = "any") -> Signature:
    return Signature(least=count, most=count, kind=kind)


def _take_between(least: int, most: int, kind: ValueKind = "any") -> Signature:
    return Signature(least=least, most=most, kind=kind)


def _take_any(kind: ValueKind = "any") -> Signature:
    return Signature(least=1, most=None, kind=kind)


def _take_mapping(kind: ValueKind = "any", *, least: int = 2, most: int = 2) -> Signature:
    return Signature(least=least, most=most, kind=kind, predicate=True)


def _take_test(kind: ValueKind = "any", *, least: int = 2) -> Signature:
    return Signature(least=least, most=2, kind=kind, predicate=True, is_test=True)


def _take_indexed(count: int, refusal: str, *kinds: ValueKind) -> Signature:
    """Only what is known to be another kind is refused: texts of variables have elements, literals have none."""
    return Signature(least=count, most=count, takes_first=frozenset({"any", "nil", *kinds}), refusal=refusal)


CONTAINS: Final = _take(2, "bool")
"""The call ``contains(xs, x)``, an addition of the format to the base language."""

SIGNATURES: Final[Mapping[str, Signature]] = {
    "len": _take(1, "int"),
    "type": _take(1, "string"),
    # texts
    "trim": _take_between(1, 2, "string"),
    "trimPrefix": _take_between(1, 2, "string"),
    "trimSuffix": _take_between(1, 2, "string"),
    "upper": _take(1, "string"),
    "lower": _take(1, "string"),
    "split": _take_between(2, 3, "array"),
    "splitAfter": _take_between(2, 3, "array"),
    "replace": _take_between(3, 4, "string"),
    "repeat": _take(2, "string"),
    "indexOf": _take(2, "int"),
    "lastIndexOf": _take(2, "int"),
    "hasPrefix": _take(2, "bool"),
    "hasSuffix": _take(2, "bool"),
    "join": _take_between(1, 2, "string"),
    # numbers and conversions
    "abs": Signature(least=1, most=1, like_first=True),
    "ceil": _take(1, "float"),
    "floor": _take(1, "float"),
    "round": _take(1, "float"),
    "max": _take_any(),
    "min": _take_any(),
    "mean": _take_any("float"),
    "median": _take_any("float"),
    "int": _take(1, "int"),
    "float": _take(1, "float"),
    "string": _take(1, "string"),
    "toJSON": _take(1, "string"),
    "fromJSON": _take(1),
    "toBase64": _take(1, "string"),
    "fromBase64": _take(1, "string"),
    # arrays
    "first": _take_indexed(1, "cannot get first element from {}", "array"),
    "last": _take_indexed(1, "cannot get last element from {}", "array"),
    "take": _take(2, "array"),
    "concat": _take_any("array"),
    "flatten": _take(1, "array"),
    "uniq": _take(1, "array"),
    "reverse": _take(1, "array"),
    "sort": _take_between(1, 2, "array"),
    # predicates
    "all": _take_test("bool"),
    "any": _take_test("bool"),
    "one": _take_test("bool"),
    "none": _take_test("bool"),
    "filter": _take_test("array"),
    "find": _take_test(),
    "findIndex": _take_test(),
    "findLast": _take_test(),
    "findLastIndex": _take_test(),
    "count": _take_test("int", least=1),
    "map": _take_mapping("array"),
    "sum": _take_mapping(least=1),
    "groupBy": _take_mapping("map"),
    "sortBy": _take_mapping("array", most=3),
    "reduce": _take_mapping(most=3),
    # objects
    "keys": _take(1, "array"),
    "values": _take(1, "array"),
    "toPairs": _take(1, "array"),
    "fromPairs": _take(1, "map"),
    "get": _take_indexed(2, "type {} does not support indexing", "array", "map"),
    # times
    "now": _take_between(0, 1, "time"),
    "duration": _take(1, "duration"),
    "date": _take_between(1, 4, "time"),
    "timezone": _take(1),
    # bits
    **dict.fromkeys(("bitand", "bitor", "bitxor", "bitnand", "bitshl", "bitshr", "bitushr"), _take(2, "int")),
    "bitnot": _take(1, "int"),
}
"""The signatures of all built-in functions, by name."""

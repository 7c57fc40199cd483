"""Signatures of the built-in functions: arguments and kind of result (docs/reference/steps.md#functions)."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.expressions.kinds import GO_NAMES
from statewright.expressions.syntax import Syntax, ValueKind
from statewright.expressions.values import ExpressionError


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

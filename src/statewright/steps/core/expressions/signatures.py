"""Names and arities of the built-in functions (spec/step-engine.md §10.5)."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.syntax import Kind


class Signature(Struct, frozen=True, kw_only=True):
    """How a function is called, and what kind of value it gives."""

    least: int
    most: int | None
    """``None``: any number."""
    kind: Kind = "any"
    like_first: bool = False
    """Whether the result is of the kind of the first argument."""
    predicate: bool = False
    """Whether the second argument is applied to every element of the first."""
    is_test: bool = False
    """Whether that must give a boolean."""

    def check(self, name: str, given: int) -> None:
        """Raises :class:`ExpressionError` for a call with a wrong number of arguments."""
        if given < self.least:
            raise ExpressionError(f"not enough arguments to call {name}")
        if self.most is not None and given > self.most:
            raise ExpressionError(f"too many arguments to call {name}")


def _fixed(count: int, kind: Kind = "any") -> Signature:
    return Signature(least=count, most=count, kind=kind)


def _between(least: int, most: int, kind: Kind = "any") -> Signature:
    return Signature(least=least, most=most, kind=kind)


def _any_number(kind: Kind = "any") -> Signature:
    return Signature(least=1, most=None, kind=kind)


def _mapping(kind: Kind = "any", *, least: int = 2, most: int = 2) -> Signature:
    return Signature(least=least, most=most, kind=kind, predicate=True)


def _test(kind: Kind = "any", *, least: int = 2) -> Signature:
    return Signature(least=least, most=2, kind=kind, predicate=True, is_test=True)


SIGNATURES: Final[Mapping[str, Signature]] = {
    "len": _fixed(1, "int"),
    "type": _fixed(1, "string"),
    # texts
    "trim": _between(1, 2, "string"),
    "trimPrefix": _between(1, 2, "string"),
    "trimSuffix": _between(1, 2, "string"),
    "upper": _fixed(1, "string"),
    "lower": _fixed(1, "string"),
    "split": _between(2, 3, "array"),
    "splitAfter": _between(2, 3, "array"),
    "replace": _between(3, 4, "string"),
    "repeat": _fixed(2, "string"),
    "indexOf": _fixed(2, "int"),
    "lastIndexOf": _fixed(2, "int"),
    "hasPrefix": _fixed(2, "bool"),
    "hasSuffix": _fixed(2, "bool"),
    "join": _between(1, 2, "string"),
    # numbers and conversions
    "abs": Signature(least=1, most=1, like_first=True),
    "ceil": _fixed(1, "float"),
    "floor": _fixed(1, "float"),
    "round": _fixed(1, "float"),
    "max": _any_number(),
    "min": _any_number(),
    "mean": _any_number("float"),
    "median": _any_number("float"),
    "int": _fixed(1, "int"),
    "float": _fixed(1, "float"),
    "string": _fixed(1, "string"),
    "toJSON": _fixed(1, "string"),
    "fromJSON": _fixed(1),
    "toBase64": _fixed(1, "string"),
    "fromBase64": _fixed(1, "string"),
    # arrays
    "first": _fixed(1),
    "last": _fixed(1),
    "take": _fixed(2, "array"),
    "concat": _any_number("array"),
    "flatten": _fixed(1, "array"),
    "uniq": _fixed(1, "array"),
    "reverse": _fixed(1, "array"),
    "sort": _between(1, 2, "array"),
    # predicates
    "all": _test("bool"),
    "any": _test("bool"),
    "one": _test("bool"),
    "none": _test("bool"),
    "filter": _test("array"),
    "find": _test(),
    "findIndex": _test(),
    "findLast": _test(),
    "findLastIndex": _test(),
    "count": _test("int", least=1),
    "map": _mapping("array"),
    "sum": _mapping(least=1),
    "groupBy": _mapping("map"),
    "sortBy": _mapping("array", most=3),
    "reduce": _mapping(most=3),
    # objects
    "keys": _fixed(1, "array"),
    "values": _fixed(1, "array"),
    "toPairs": _fixed(1, "array"),
    "fromPairs": _fixed(1, "map"),
    "get": _fixed(2),
    # times
    "now": _between(0, 1, "time"),
    "duration": _fixed(1, "duration"),
    "date": _between(1, 4, "time"),
    "timezone": _fixed(1),
    # bits
    **dict.fromkeys(("bitand", "bitor", "bitxor", "bitnand", "bitshl", "bitshr", "bitushr"), _fixed(2, "int")),
    "bitnot": _fixed(1, "int"),
}
"""By name."""

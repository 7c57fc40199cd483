"""What a guard is made of."""

from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonValue

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
Function: TypeAlias = Literal["length", "keys", "values", "entries", "charAt", "substring"]


class Name(Struct, frozen=True):
    """A member of an object."""

    name: str


class Index(Struct, frozen=True):
    """An element of an array; negative from the end."""

    index: int


class Slice(Struct, frozen=True):
    """Elements of an array."""

    start: int | None = None
    stop: int | None = None
    step: int | None = None


class Wildcard(Struct, frozen=True):
    """All members, or all elements."""


class Filter(Struct, frozen=True):
    """The current value itself, where the test holds."""

    test: "Test"


class Call(Struct, frozen=True):
    """A function of the current value."""

    function: Function
    arguments: tuple["Operand", ...] = ()


class Path(Struct, frozen=True):
    """A query from the whole input, or from the current value."""

    is_absolute: bool
    parts: tuple["Part", ...] = ()


Item: TypeAlias = Name | Index | Slice | Wildcard | Filter | Call | Path


class Part(Struct, frozen=True):
    """One step of a path: what its items select, of the value or of it and all its descendants."""

    items: tuple[Item, ...]
    descends: bool = False


class Constant(Struct, frozen=True):
    """A JSON value."""

    value: JsonValue


Operand: TypeAlias = Path | Constant


class Comparison(Struct, frozen=True):
    """True if it holds for one pair of values."""

    left: Operand
    operator: Operator
    right: Operand


class Presence(Struct, frozen=True):
    """An operand alone: true if it selects anything; a constant by its truth value."""

    operand: Operand


class Not(Struct, frozen=True):
    """The opposite."""

    test: "Test"


class All(Struct, frozen=True):
    """Tests joined by ``and``."""

    tests: tuple["Test", ...]


class Some(Struct, frozen=True):
    """Tests joined by ``or``."""

    tests: tuple["Test", ...]


Test: TypeAlias = Comparison | Presence | Not | All | Some


class Guard(Struct, frozen=True):
    """A whole guard."""

    path: Path
    is_mixed: bool = False
    """Whether ``and`` and ``or`` occur side by side without brackets."""

"""The syntax tree of an expression. ``kind`` is what is known of a node's value before it is evaluated."""

from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["any", "nil", "bool", "int", "float", "string", "array", "map", "time", "duration"]


class Constant(Struct, frozen=True, kw_only=True):
    """A value as it is written."""

    value: None | bool | int | float | str
    kind: Kind


class Name(Struct, frozen=True, kw_only=True):
    """A variable."""

    name: str
    kind: Kind = "any"


class Element(Struct, frozen=True, kw_only=True):
    """``#``: the element a predicate is applied to."""

    kind: Kind = "any"


class Unary(Struct, frozen=True, kw_only=True):
    """``!`` (also ``not``), ``-``, ``+``."""

    operator: str
    operand: "Syntax"
    kind: Kind


class Binary(Struct, frozen=True, kw_only=True):
    """An operator between two operands; ``and`` and ``or`` are written ``&&`` and ``||``."""

    operator: str
    left: "Syntax"
    right: "Syntax"
    kind: Kind


class Conditional(Struct, frozen=True, kw_only=True):
    """``c ? a : b`` and ``if c { a } else { b }``."""

    condition: "Syntax"
    then: "Syntax"
    otherwise: "Syntax"
    kind: Kind = "any"


class Member(Struct, frozen=True, kw_only=True):
    """``base.key``, ``base[key]``; optional after ``?.``."""

    base: "Syntax"
    key: "Syntax"
    optional: bool = False
    kind: Kind = "any"


class Chain(Struct, frozen=True, kw_only=True):
    """A run of members of which an optional one may end the whole with nil."""

    inner: "Syntax"
    kind: Kind = "any"


class Slice(Struct, frozen=True, kw_only=True):
    """``base[start:end]``; ``None``: not given."""

    base: "Syntax"
    start: "Syntax | None" = None
    end: "Syntax | None" = None
    kind: Kind = "any"


class Call(Struct, frozen=True, kw_only=True):
    """A call of something that is not built in; only methods of times and durations can succeed."""

    callee: "Syntax"
    arguments: "tuple[Syntax, ...]" = ()
    kind: Kind = "any"


class Builtin(Struct, frozen=True, kw_only=True):
    """A call of a built-in function; the second argument of a predicate function is applied to each element."""

    name: str
    arguments: "tuple[Syntax, ...]" = ()
    kind: Kind = "any"


class ArrayLiteral(Struct, frozen=True, kw_only=True):
    """``[1, 2]``."""

    items: "tuple[Syntax, ...]" = ()
    kind: Kind = "array"


class MapLiteral(Struct, frozen=True, kw_only=True):
    """``{a: 1, "b": 2}``."""

    pairs: "tuple[tuple[Syntax, Syntax], ...]" = ()
    kind: Kind = "map"


class Let(Struct, frozen=True, kw_only=True):
    """``let x = 1; body``."""

    name: str
    value: "Syntax"
    body: "Syntax"
    kind: Kind = "any"


class Series(Struct, frozen=True, kw_only=True):
    """``a; b``: the value of the last one."""

    items: "tuple[Syntax, ...]"
    kind: Kind = "any"


Syntax: TypeAlias = (
    Constant
    | Name
    | Element
    | Unary
    | Binary
    | Conditional
    | Member
    | Chain
    | Slice
    | Call
    | Builtin
    | ArrayLiteral
    | MapLiteral
    | Let
    | Series
)

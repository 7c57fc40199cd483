"""The syntax tree of an expression. ``kind`` is the kind of a node's value as far as it is known before
evaluation, else ``any``.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

ValueKind: TypeAlias = Literal["any", "nil", "bool", "int", "float", "string", "array", "map", "time", "duration"]


class Constant(Struct, frozen=True, kw_only=True):
    """A literal."""

    value: None | bool | int | float | str
    kind: ValueKind


class Name(Struct, frozen=True, kw_only=True):
    """A variable."""

    name: str
    kind: ValueKind = "any"


class Element(Struct, frozen=True, kw_only=True):
    """``#``: the element a predicate is applied to."""

    kind: ValueKind = "any"


class Unary(Struct, frozen=True, kw_only=True):
    """``!`` (also ``not``), ``-``, ``+``."""

    operator: str
    operand: "Syntax"
    kind: ValueKind


class Binary(Struct, frozen=True, kw_only=True):
    """An operator between two operands; ``and`` and ``or`` are written ``&&`` and ``||``."""

    operator: str
    left: "Syntax"
    right: "Syntax"
    kind: ValueKind


class Conditional(Struct, frozen=True, kw_only=True):
    """``c ? a : b`` and ``if c { a } else { b }``."""

    condition: "Syntax"
    then: "Syntax"
    otherwise: "Syntax"
    kind: ValueKind = "any"


class MemberAccess(Struct, frozen=True, kw_only=True):
    """``base.key``, ``base[key]``; optional after ``?.``."""

    base: "Syntax"
    key: "Syntax"
    optional: bool = False
    kind: ValueKind = "any"


class Chain(Struct, frozen=True, kw_only=True):
    """A chain of members; the whole of it is nil when an optional one is read of nil."""

    inner: "Syntax"
    kind: ValueKind = "any"


class Slice(Struct, frozen=True, kw_only=True):
    """``base[start:end]``; ``None``: not given."""

    base: "Syntax"
    start: "Syntax | None" = None
    end: "Syntax | None" = None
    kind: ValueKind = "any"


class MethodCall(Struct, frozen=True, kw_only=True):
    """A call of something that is not built in; only methods of times and durations can succeed."""

    callee: "Syntax"
    arguments: "tuple[Syntax, ...]" = ()
    kind: ValueKind = "any"


class Builtin(Struct, frozen=True, kw_only=True):
    """A call of a built-in function; the second argument of a predicate function is applied to each element."""

    name: str
    arguments: "tuple[Syntax, ...]" = ()
    kind: ValueKind = "any"


class ArrayLiteral(Struct, frozen=True, kw_only=True):
    """``[1, 2]``."""

    items: "tuple[Syntax, ...]" = ()
    kind: ValueKind = "array"


class MapLiteral(Struct, frozen=True, kw_only=True):
    """``{a: 1, "b": 2}``."""

    pairs: "tuple[tuple[Syntax, Syntax], ...]" = ()
    kind: ValueKind = "map"


class Let(Struct, frozen=True, kw_only=True):
    """``let x = 1; body``."""

    name: str
    value: "Syntax"
    body: "Syntax"
    kind: ValueKind = "any"


class Series(Struct, frozen=True, kw_only=True):
    """``a; b``: the value of the last one."""

    items: "tuple[Syntax, ...]"
    kind: ValueKind = "any"


Syntax: TypeAlias = (
    Constant
    | Name
    | Element
    | Unary
    | Binary
    | Conditional
    | MemberAccess
    | Chain
    | Slice
    | MethodCall
    | Builtin
    | ArrayLiteral
    | MapLiteral
    | Let
    | Series
)

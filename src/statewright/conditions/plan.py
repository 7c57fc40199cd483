"""The typed plan of a condition: what has to hold of an entity, with every operand resolved
(docs/adr/0007-search-in-sql.md).

A plan is what all evaluators share. It no longer knows of declared types, or how operators and operands were written: a
leaf is a place and a list of *branches*, one per kind of stored value that can match. A stored value meets only the
branches of its own kind, and the leaf holds when any of them does. So null, and a value of a kind without a branch,
matches nothing, also under a negated operator.

There is no negation in a plan. A search that can only narrow a leaf may replace it by something weaker: AND and OR of
weaker parts are weaker than the whole, never stronger.

What evaluating a condition may take, counted in *visits*: elements of arrays that are looked at, each a tenth of a
step of ``statewright.evaluation.costs``.
"""

from typing import Final, TypeAlias, assert_never

from msgspec import Struct

from statewright.conditions.paths import Path, format_path
from statewright.conditions.syntax import MetaField, Order, TextOperator
from statewright.evaluation.costs import Budget
from statewright.jsonval.numbers import Number
from statewright.jsonval.values import DataType
from statewright.loop.turns import TurnExceeded


class Numbers(Struct, frozen=True):
    """A stored number for which all comparisons hold, by exact value (decision S1)."""

    comparisons: tuple[tuple[Order, Number], ...]


class Temporals(Struct, frozen=True):
    """A stored string of exactly this natural subtype whose instant, in floored epoch milliseconds, compares so."""

    subtype: DataType
    comparisons: tuple[tuple[Order, int], ...]


class Texts(Struct, frozen=True):
    """A stored string that compares so by code points."""

    comparisons: tuple[tuple[Order, str], ...]


class Characters(Struct, frozen=True):
    """A stored string of exactly one code point that compares so."""

    comparisons: tuple[tuple[Order, str], ...]


class Uuids(Struct, frozen=True):
    """A stored string that is a UUID and equals, or does not equal, the given one; any version when that is empty."""

    equal: bool
    expected: str
    version: str


class Booleans(Struct, frozen=True):
    """This very stored boolean."""

    expected: bool


class Matching(Struct, frozen=True):
    """A stored string for which the text operator holds."""

    operator: TextOperator
    operand: str


Branch: TypeAlias = Numbers | Temporals | Texts | Characters | Uuids | Booleans | Matching
Branches: TypeAlias = tuple[Branch, ...]


class FieldTest(Struct, frozen=True):
    """Some value at the path satisfies some branch; with wildcards the path has any number of values."""

    path: Path
    branches: Branches


class FieldPresence(Struct, frozen=True):
    """The field is null (or absent), or is not; for wildcards see docs/reference/conditions.md#what-a-path-finds. No
    path: absent everywhere.
    """

    path: Path | None
    is_null: bool


class ArrayTest(Struct, frozen=True):
    """An array at the path has at each of the positions an element that satisfies some branch."""

    path: Path
    positions: tuple[tuple[int, Branches], ...]


class MetaTest(Struct, frozen=True):
    """The metadata field, a text or an instant in epoch milliseconds, satisfies some branch."""

    field: MetaField
    branches: Branches


class Unanswerable(Struct, frozen=True):
    """Cannot be evaluated; a group that is decided before it gets here does not mind."""

    reason: str


class AllOf(Struct, frozen=True):
    """Every part holds, looked at from left to right until one does not."""

    parts: tuple["Plan", ...]


class AnyOf(Struct, frozen=True):
    """Some part holds, looked at from left to right until one does."""

    parts: tuple["Plan", ...]


Plan: TypeAlias = FieldTest | FieldPresence | ArrayTest | MetaTest | Unanswerable | AllOf | AnyOf

ALWAYS: Final = AllOf(())
NEVER: Final = AnyOf(())


# Leaves in words, to tell what a database could not do alone.

Leaf = FieldTest | FieldPresence | ArrayTest | MetaTest | Unanswerable


def describe_leaf(leaf: Leaf) -> str:
    """``$.scanned: ZONED_DATE_TIME GREATER_THAN`` and the like; operands are left out."""
    match leaf:
        case FieldTest(path=path, branches=branches):
            return f"{format_path(path)}: {_format_branches(branches)}"
        case ArrayTest(path=path):
            return f"{format_path(path)}: elements by position"
        case FieldPresence(path=path, is_null=is_null):
            return f"{format_path(path) if path else '(no path)'}: {'IS_NULL' if is_null else 'NOT_NULL'}"
        case MetaTest(field=field, branches=branches):
            return f"@{field.value}: {_format_branches(branches)}"
        case Unanswerable(reason=reason):
            return reason
        case _:
            assert_never(leaf)


def _format_branches(branches: tuple[Branch, ...]) -> str:
    return " or ".join(_format_branch(branch) for branch in branches)


def _format_branch(branch: Branch) -> str:
    match branch:
        case Matching(operator=operator):
            return operator.value
        case Temporals(subtype=subtype, comparisons=comparisons):
            return f"{subtype.value} {_format_orders(comparisons)}"
        case Numbers(comparisons=comparisons):
            return f"number {_format_orders(comparisons)}"
        case Texts(comparisons=comparisons):
            return f"text {_format_orders(comparisons)}"
        case Characters(comparisons=comparisons):
            return f"character {_format_orders(comparisons)}"
        case Uuids(equal=equal):
            return "UUID EQUALS" if equal else "UUID NOT_EQUAL"
        case Booleans():
            return "boolean EQUALS"
        case _:
            assert_never(branch)


def _format_orders(comparisons: tuple[tuple[object, object], ...]) -> str:
    return " and ".join(str(order) for order, _ in comparisons)


class EvaluationError(ValueError):
    """The condition cannot be judged: an unknown operator or metadata field, a function inside a group, a bad regex."""


MAX_VISITS: Final = 30_000_000
"""Elements of arrays that a condition may look at in one document, some three seconds of work: each of its comparisons
looks at all of them. What texts and patterns count as is in ``texts.py``.
"""

MAX_TURN_VISITS: Final = 80_000
"""Those that may be looked at within a turn of the event loop, in some 10 ms."""


class TooManyVisits(EvaluationError):
    """A condition looks at too many elements of a document."""

    def __init__(self) -> None:
        super().__init__(
            f"the condition looks at more than {MAX_VISITS} elements of the document's arrays, or at texts for as long"
        )


class Visits(Budget):
    """The elements of arrays that may still be looked at: within a turn of the event loop, or altogether."""

    __slots__ = ("within_turn",)

    def __init__(self, *, within_turn: bool = False) -> None:
        """One for a turn raises ``TurnExceeded`` when it is used up, others :class:`TooManyVisits`."""
        limit = MAX_TURN_VISITS if within_turn else MAX_VISITS
        super().__init__(limit, TurnExceeded if within_turn else TooManyVisits)
        self.within_turn = within_turn
